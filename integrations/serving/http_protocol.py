"""The HTTP protocol between clients and a judge server, version 2.

`POST /v1/score` takes JSON:

    {"schema": 2, "key": "run-7/step-12/rank-3", "deadline_s": 30.0, "detail": "value",
     "samples": [{"id": "a", "instruction": "make it blue", "sources": ["before"], "edited": "after"}],
     "images": {"before": "<base64 of a PNG, JPEG or WebP file>", "after": {"rgb": "<base64>", "size": [512, 512]}}}

or `multipart/form-data` with that JSON, without `images`, in the field `request`, and one file field per image with the
name used by the samples, of the file's content type or `application/x-rgb; width=512; height=512`, row by row.

Samples have the format of sample files (`reward.sample_files`) with names of sent images. An image may also be
referenced by digest, `{"digest": ..., "size": [w, h]}`; then the digest is its name, and other pixels are rejected
under it. One with a colour profile has `"raw"` too, the digest of its numbers without it, and the name `DIGEST-RAW`.

key: idempotency key: a request repeated with it is not scored again, unless a sample failed; another content is another
request. deadline_s: samples not scored by then return as `failed` with `"late": true`. detail: `value` for values,
statuses and reasons, `parts` for those of the parts too, `all` for evidence too. reward: its name; optional if there is
one.

The response has one score per sample, in order, as in `Score.to_json`, with the sample's `id`; and the identity of the
reward (`BaseReward.identity`). A client refuses another one than before:

    {"schema": 2, "reward": "any-edit@1#0123abcd", "identity": "0123abcd...",
     "scores": [{"id": "a", "value": 0.81, "status": "scored"}]}

Errors are `{"error": "...", "retryable": true}`: 4xx is a client error; on 503, repeat the request after `Retry-After`.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...reward import Card, EditSample, Image, ImageError, Score
from ...reward.encoded_images import WEB_FORMATS, EncodedImage, ImageSizeError, check_size, read_header
from ...reward.image_decoding import Pixels, image_errors, pixels_of
from ...reward.queries.identity import signature_with_identity
from ...reward.sample import SampleTooLarge
from ...reward.sample_files import picture_name, sample_from_json, sample_to_json
from ...reward.score import without_evidence

SCHEMA = 2

Detail = Literal["value", "parts", "all"]

ImageEncoding = Literal["png", "rgb"]
"""How a client sends images; both are lossless, so that scores do not depend on it."""


_MAX_MESSAGE = 500
"""Characters of an error message."""


def one_line(text: str, most: int = _MAX_MESSAGE) -> str:
    """A text that may be another's, for a line of a log or a terminal: cut, and control characters escaped."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text[:most])[:most]


class APIError(ValueError):
    """A rejected request. message: made one line. status: the HTTP status."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(one_line(message))
        self.status = status


@dataclass(frozen=True, slots=True)
class ScoreRequest:
    """A decoded request; see the module."""

    samples: tuple[EditSample, ...]
    key: str = ""
    deadline_s: float | None = None
    detail: Detail = "value"
    reward: str = ""


class _RawPixels(BaseModel):
    model_config = ConfigDict(extra="forbid")
    rgb: str
    size: tuple[int, int]


class _ScoreRequestBody(BaseModel):
    model_config = ConfigDict(extra="forbid")
    schema_: Literal[2] = Field(2, alias="schema")
    key: str = Field("", max_length=512)
    deadline_s: float | None = Field(None, gt=0, le=86_400, allow_inf_nan=False)
    detail: Detail = "value"
    reward: str = Field("", max_length=512)
    samples: list[dict[str, Any]]
    images: dict[str, str | _RawPixels] = {}


# -- client side ------------------------------------------------------------------------------------------------------


def request_json(
    samples: Sequence[EditSample],
    *,
    key: str = "",
    deadline_s: float | None = None,
    detail: Detail = "value",
    reward: str = "",
) -> dict[str, Any]:
    """A request without its images."""
    rows, optional = list(map(sample_to_json, samples)), {"key": key, "deadline_s": deadline_s, "reward": reward}
    present = {name: value for name, value in optional.items() if value not in ("", None)}
    return {"schema": SCHEMA, "detail": detail, "samples": rows, **present}


def images_by_digest(samples: Iterable[EditSample]) -> dict[str, Image]:
    """All images of the samples by digest (see `picture_name`), so that each is sent once."""
    images: dict[str, Image] = {}
    for sample in samples:
        for turn in sample.turns:
            for image in (*turn.sources, turn.edited, turn.mask, turn.reference):
                if image is not None:
                    images[picture_name(image)] = image
    return images


def encode_image(image: Image, encoding: ImageEncoding) -> tuple[bytes, str]:
    """An image's bytes and their content type: PNG for one with a colour profile, which goes with its raw numbers."""
    if encoding == "rgb" and not image.profile:
        return image.pixels.tobytes(), f"application/x-rgb; width={image.width}; height={image.height}"
    buffer = io.BytesIO()
    profile = {"icc_profile": image.profile} if image.profile else {}
    image.raw.pil().save(buffer, "PNG", compress_level=1, **profile)
    return buffer.getvalue(), "image/png"


def attach_images(
    data: Mapping[str, Any], images: Mapping[str, Image], encoding: ImageEncoding = "png"
) -> dict[str, Any]:
    """The complete request as JSON."""
    encoded: dict[str, Any] = {}
    for name, image in images.items():
        content, kind = encode_image(image, encoding)
        text = base64.b64encode(content).decode()
        encoded[name] = text if kind == "image/png" else {"rgb": text, "size": list(image.size)}
    return {**data, "images": encoded}


def scores_from_json(data: Any, ids: Sequence[str]) -> tuple[Score, ...]:
    """The scores of a response. Raises ValueError if it is invalid, or for other samples."""
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA or not isinstance(data.get("scores"), list):
        raise ValueError(f"not a response of version {SCHEMA}: {json.dumps(data)[:200]}")
    response_ids = [row.get("id") for row in data["scores"]]
    if response_ids != list(ids):
        raise ValueError(
            f"the response is for {response_ids[:5]}, the request was for {list(ids)[:5]}: they do not match"
        )
    return tuple(Score.from_json(row) for row in data["scores"])


# -- server side ------------------------------------------------------------------------------------------------------


Decoder = Callable[[EncodedImage], Pixels]
"""Decodes a picture whose limits were checked. Raises ImageError, and what PIL raises."""


def parse_request(
    data: Any, parts: Mapping[str, tuple[bytes | memoryview, str]] | None = None, decoder: Decoder = pixels_of
) -> ScoreRequest:
    """Decode a request. parts: bytes and content type of each image. decoder: for files. Raises `APIError`."""
    try:
        body = _ScoreRequestBody.model_validate(data)
    except ValidationError as error:
        raise APIError(_validation_message(error), 400) from None
    images = {name: _decode_json_image(name, value, decoder) for name, value in body.images.items()}
    images |= {name: decode_image(name, content, kind, decoder) for name, (content, kind) in (parts or {}).items()}
    if not body.samples:
        raise APIError("the request has no samples", 400)
    samples = []
    for index, row in enumerate(body.samples):
        name = row.get("id") or f"sample-{index}"
        try:
            samples.append(sample_from_json(row, name=name, pictures=images))
        except ValidationError as error:
            raise APIError(f"sample {name!r:.80}: {_validation_message(error)}", 400) from None
        except ImageError as error:
            raise APIError(f"sample {name!r:.80}: {error}") from None
        except SampleTooLarge as error:
            raise APIError(f"sample {name!r:.80}: {error}", 413) from None
        except ValueError as error:
            raise APIError(f"sample {name!r:.80}: {error}", 400) from None
    return ScoreRequest(tuple(samples), body.key, body.deadline_s, body.detail, body.reward)


def response_json(
    reward: Card,
    identity: str,
    samples: Sequence[EditSample],
    scores: Sequence[Score | None],
    detail: Detail,
    late: str = "",
) -> dict[str, Any]:
    """The response to a request. A score of None was not scored in time; `late` is its reason."""
    rows = []
    for sample, score in zip(samples, scores, strict=True):
        final_score = score or Score.failed(late or "not scored in time", cause="infrastructure")
        is_late = {"late": True} if score is None else {}
        rows.append({"id": sample.id, **_trim_to_detail(final_score, detail).to_json(), **is_late})
    signature = signature_with_identity(reward.signature, identity)
    return {"schema": SCHEMA, "reward": signature, "identity": identity, "scores": rows}


def decode_image(name: str, content: bytes | memoryview, kind: str, decoder: Decoder = pixels_of) -> Image:
    """Decode an image. kind: its content type. decoder: see `parse_request`. Raises `APIError`."""
    media_type, _, parameters = kind.partition(";")
    if media_type.strip() != "application/x-rgb":
        return _decode_file(name, content, decoder)
    values = dict(part.strip().partition("=")[::2] for part in parameters.split(";"))
    try:
        size = (int(values["width"]), int(values["height"]))
    except (KeyError, ValueError):
        raise APIError(f"image {name!r:.80}: {kind!r:.80} lacks width and height", 400) from None
    return _decode_raw_pixels(name, content, size)


def _decode_json_image(name: str, value: str | _RawPixels, decoder: Decoder) -> Image:
    if isinstance(value, str):
        return _decode_file(name, from_base64(name, value), decoder)
    return _decode_raw_pixels(name, from_base64(name, value.rgb), value.size)


def from_base64(name: str, text: str) -> bytes:
    """The bytes of an image in JSON. Raises `APIError`."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:  # non-ASCII characters raise no `binascii.Error`
        raise APIError(f"image {name!r:.80} is not base64: {error}", 400) from None


def _decode_file(name: str, content: bytes | memoryview, decoder: Decoder) -> Image:
    label = f"image {name!r:.80}"
    try:
        with image_errors(label):
            picture = read_header(content, WEB_FORMATS)
            return Image.of(decoder(picture)).read_by(picture.profile, label)
    except ImageSizeError as error:
        raise APIError(str(error), 413) from None
    except ImageError as error:
        raise APIError(str(error)) from None


def _decode_raw_pixels(name: str, content: bytes | memoryview, size: tuple[int, int]) -> Image:
    width, height = size
    if width < 1 or height < 1 or len(content) != 3 * width * height:
        raise APIError(f"image {name!r:.80}: {len(content)} bytes do not fit {width} x {height} RGB pixels", 400)
    try:
        check_size(size)
    except ImageSizeError as error:
        raise APIError(f"image {name!r:.80} {error}", 413) from None
    return Image.of(np.frombuffer(content, np.uint8).reshape(height, width, 3))


def _trim_to_detail(score: Score, detail: Detail) -> Score:
    if detail == "all":
        return score
    return without_evidence(score if detail == "parts" else replace(score, parts={}, credits={}))


def _validation_message(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'request'}: {first['msg']}"
