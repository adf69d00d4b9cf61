"""What a client and a judge server say to each other: version 1.

`POST /v1/score` takes JSON:

    {"schema": 1, "key": "run-7/step-12/rank-3", "deadline_s": 30.0, "detail": "value",
     "samples": [{"id": "a", "instruction": "make it blue", "sources": ["before"], "edited": "after"}],
     "pictures": {"before": "<base64 of a PNG, JPEG or WebP file>", "after": {"rgb": "<base64>", "size": [512, 512]}}}

or `multipart/form-data` with that JSON, without `pictures`, as the field `request`, and a file for each picture whose
field is called as the samples call it; its content type is that of the file's format, or `application/x-rgb;
width=512; height=512` for bare pixels, row by row.

Samples are written as in sample files (`reward.files`), several sources, group and earlier turns included; where those
name files, these name pictures that were sent. A picture may also be meant by its digest, `{"digest": ..., "size":
[w, h]}`, and then has the digest for a name; the server refuses one whose pixels are others.

key: of the request, chosen by the client: sent again with its key it is not judged again, unless a sample failed.
deadline_s: after so long, what is not scored yet comes back as `failed` and `"late": true`. detail: `value` for values,
statuses and reasons, `parts` for those of the parts as well, `all` for evidence, too. reward: which one, by its name at
the server; may be left out where there is one.

The answer has a score for each sample, in order, as `Score.to_json` writes them, with the sample's `id`:

    {"schema": 1, "reward": "edit-balanced@3", "scores": [{"id": "a", "value": 0.81, "status": "scored"}]}

Errors are `{"error": "...", "retry": true}` with a status that tells who has to do something: 4xx the client, 503
nobody (wait as `Retry-After` says, and send the same again).
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...reward import EditSample, Image, ImageError, Score
from ...reward.decode import MAX_PIXELS
from ...reward.files import sample_from_json, sample_to_json

SCHEMA = 1

Detail = Literal["value", "parts", "all"]

Packing = Literal["png", "rgb"]
"""How a client sends pictures: both without losses, so that a score is the same score as without a server."""


class WireError(ValueError):
    """A request that cannot be served as it is. status: of HTTP."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Request:
    """What a client wants: see the module."""

    samples: tuple[EditSample, ...]
    key: str = ""
    deadline_s: float | None = None
    detail: Detail = "value"
    reward: str = ""


class _Rgb(BaseModel):
    model_config = ConfigDict(extra="forbid")
    rgb: str
    size: tuple[int, int]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")
    schema_: Literal[1] = Field(1, alias="schema")
    key: str = Field("", max_length=512)
    deadline_s: float | None = Field(None, gt=0, le=86_400, allow_inf_nan=False)
    detail: Detail = "value"
    reward: str = Field("", max_length=512)
    samples: list[dict[str, Any]]
    pictures: dict[str, str | _Rgb] = {}


# -- a client's side --------------------------------------------------------------------------------------------------


def request_json(
    samples: Sequence[EditSample],
    *,
    key: str = "",
    deadline_s: float | None = None,
    detail: Detail = "value",
    reward: str = "",
) -> dict[str, Any]:
    """A request, but for its pictures."""
    data: dict[str, Any] = {"schema": SCHEMA, "detail": detail, "samples": [sample_to_json(one) for one in samples]}
    if key:
        data["key"] = key
    if deadline_s is not None:
        data["deadline_s"] = deadline_s
    if reward:
        data["reward"] = reward
    return data


def pictures_of(samples: Iterable[EditSample]) -> dict[str, Image]:
    """All pictures that samples are about, by digest: each is sent once."""
    found: dict[str, Image] = {}
    for sample in samples:
        for turn in sample.turns:
            for image in (*turn.sources, turn.edited, turn.mask, turn.reference):
                if image is not None:
                    found[image.digest] = image
    return found


def packed(image: Image, packing: Packing) -> tuple[bytes, str]:
    """A picture's bytes and their content type."""
    if packing == "rgb":
        return image.pixels.tobytes(), f"application/x-rgb; width={image.width}; height={image.height}"
    written = io.BytesIO()
    image.pil().save(written, "PNG", compress_level=1)
    return written.getvalue(), "image/png"


def with_pictures(data: Mapping[str, Any], pictures: Mapping[str, Image], packing: Packing = "png") -> dict[str, Any]:
    """A whole request as JSON."""
    held: dict[str, Any] = {}
    for name, image in pictures.items():
        text = base64.b64encode(packed(image, packing)[0]).decode()
        held[name] = {"rgb": text, "size": list(image.size)} if packing == "rgb" else text
    return {**data, "pictures": held}


def scores_from_json(data: Any, ids: Sequence[str]) -> tuple[Score, ...]:
    """The scores of a server's answer. Raises ValueError where it is none, or not one for these samples."""
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA or not isinstance(data.get("scores"), list):
        raise ValueError(f"this is no answer of version {SCHEMA}: {json.dumps(data)[:200]}")
    named = [row.get("id") for row in data["scores"]]
    if named != list(ids):
        raise ValueError(
            f"the answer is for {named[:5]}, and {list(ids)[:5]} were asked: it belongs to another request"
        )
    return tuple(Score.from_json(row) for row in data["scores"])


# -- the server's side ------------------------------------------------------------------------------------------------


def request_of(data: Any, parts: Mapping[str, tuple[bytes | memoryview, str]] | None = None) -> Request:
    """What was asked. parts: of a multipart request, bytes and content type of each picture. Raises `WireError`."""
    try:
        asked = _Asked.model_validate(data)
    except ValidationError as error:
        raise WireError(_plainly(error), 400) from None
    pictures = {name: _picture(name, value) for name, value in asked.pictures.items()}
    pictures |= {name: unpacked(name, content, kind) for name, (content, kind) in (parts or {}).items()}
    if not asked.samples:
        raise WireError("there are no samples in it", 400)
    samples = []
    for number, row in enumerate(asked.samples):
        name = row.get("id") or f"sample-{number}"
        try:
            samples.append(sample_from_json(row, name=name, pictures=pictures))
        except ValidationError as error:
            raise WireError(f"sample {name!r:.80}: {_plainly(error)}", 400) from None
        except ImageError as error:
            raise WireError(f"sample {name!r:.80}: {error}") from None
        except ValueError as error:
            raise WireError(f"sample {name!r:.80}: {error}", 400) from None
    return Request(tuple(samples), asked.key, asked.deadline_s, asked.detail, asked.reward)


def answer_json(
    reward: str, samples: Sequence[EditSample], scores: Sequence[Score | None], detail: Detail, late: str = ""
) -> dict[str, Any]:
    """The answer to a request. None among the scores: not scored in time, which `late` says in words."""
    rows = []
    for sample, score in zip(samples, scores, strict=True):
        found = Score.failed(late or "not scored in time") if score is None else score
        rows.append({"id": sample.id, **_shown(found, detail).to_json(), **({"late": True} if score is None else {})})
    return {"schema": SCHEMA, "reward": reward, "scores": rows}


def unpacked(name: str, content: bytes | memoryview, kind: str) -> Image:
    """A picture of its bytes. kind: their content type. Raises `WireError`."""
    main, _, rest = kind.partition(";")
    if main.strip() != "application/x-rgb":
        return _decoded(name, content)
    said = dict(part.strip().partition("=")[::2] for part in rest.split(";"))
    try:
        size = (int(said["width"]), int(said["height"]))
    except (KeyError, ValueError):
        raise WireError(f"picture {name!r:.80}: {kind!r:.80} lacks width and height", 400) from None
    return _pixels(name, content, size)


def _picture(name: str, value: str | _Rgb) -> Image:
    if isinstance(value, str):
        return _decoded(name, from_base64(name, value))
    return _pixels(name, from_base64(name, value.rgb), value.size)


def from_base64(name: str, text: str) -> bytes:
    """The bytes of a picture in JSON. Raises `WireError`."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:  # letters beyond ASCII are no `binascii.Error`
        raise WireError(f"picture {name!r:.80} is not base64: {error}", 400) from None


def _decoded(name: str, content: bytes | memoryview) -> Image:
    try:
        image = Image.of(content)
        _ = image.pixels
    except ImageError as error:
        raise WireError(f"picture {name!r:.80}: {error}") from None
    return image


def _pixels(name: str, content: bytes | memoryview, size: tuple[int, int]) -> Image:
    width, height = size
    if width < 1 or height < 1 or width * height > MAX_PIXELS or len(content) != 3 * width * height:
        raise WireError(
            f"picture {name!r:.80}: {len(content)} bytes are no {width} x {height} pixels of three bytes", 400
        )
    return Image.of(np.frombuffer(content, np.uint8).reshape(height, width, 3))


def _shown(score: Score, detail: Detail) -> Score:
    if detail == "all":
        return score
    if detail == "value":
        return replace(score, parts={}, credits={}, evidence=())
    parts = {name: _shown(part, detail) for name, part in score.parts.items()}
    credits = {name: _shown(credit, detail) for name, credit in score.credits.items()}
    return replace(score, parts=parts, credits=credits, evidence=())


def _plainly(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}"
