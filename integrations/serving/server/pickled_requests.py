"""Requests of trainers' own clients, as their pickles hold them, to edits. See `trainer_protocols`. What a pickle names
many times is copied and walked once, or counted each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...dataset_rows import METADATA_KEY, sample_row, with_requirement
from ..http_protocol import SCHEMA, APIError, ScoreRequest
from .request_decoding import BodyParts, decode_request_json, read_json
from .restricted_pickle import PickledImage
from .settings import ServerLimits

_MAX_DEPTH = 32
_TEXT_OF_A_VALUE = 64
"""Characters of text that count as one value: checking text takes time in its length."""

_REQUIREMENT = "requirement"


def read_edit_r1(data: Any, limits: ServerLimits) -> ScoreRequest:
    """Decode a request of Edit-R1. Raises `APIError`."""
    payload = _check_dict(data)
    images, prompts = _list(payload, "images"), _list(payload, "prompts")
    sources = _list(payload, "ref_images")
    rows = _list(payload, "metadatas") if payload.get("metadatas") else [{}] * len(images)
    if len(prompts) > len(images) == len(sources):
        raise APIError(
            f"{len(images)} images and {len(prompts)} prompts, so they cannot be matched: this client sends all "
            "prompts with each part of 64 images; send at most 64 images at a time",
            400,
        )
    return _request(images, sources, prompts, rows, limits, has_requirements=True)


def read_verl_omni(data: Any, limits: ServerLimits) -> ScoreRequest:
    """Decode a request of verl-omni's generic client. Raises `APIError`."""
    payload = _check_dict(data)
    images, prompts = _list(payload, "images"), _list(payload, "prompts")
    metadata = payload.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("ref_images"):
        raise APIError(
            "an edit is scored against its source, which verl-omni's own client does not send: use "
            "editcritic.integrations.trainers.verl_omni as the scorer, or put the sources' bytes into "
            "metadata['ref_images'], one for each image",
            422,
        )
    return _request(images, _list(metadata, "ref_images"), prompts, [metadata] * len(images), limits)


def read_omnigen2_rl(data: Any, limits: ServerLimits) -> ScoreRequest:
    """Decode a request of OmniGen2-RL. Raises `APIError`."""
    payload = _check_dict(data)
    images, sources = _list(payload, "output_image"), _list(payload, "input_images")
    texts = _list(payload, "meta_datas")
    if max(map(len, (images, sources, texts))) > limits.max_samples:
        raise _too_many(max(map(len, (images, sources, texts))), limits)
    rows = _parsed_rows(texts, limits)
    prompts = [row.get("instruction") if isinstance(row, dict) else None for row in rows]
    return _request(images, sources, prompts, rows, limits)


def _parsed_rows(rows: list[Any], limits: ServerLimits) -> list[Any]:
    """Rows of metadata, of which those that are JSON are parsed, each text once."""
    values_left = limits.max_json_values
    parsed: dict[str, Any] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, str) or row in parsed:
            continue
        try:
            parsed[row] = read_json(
                row.encode("utf-8", "surrogatepass"), limits.model_copy(update={"max_json_values": max(1, values_left)})
            )
        except APIError as error:
            raise APIError(f"meta_datas of edit-{number}: {error}", error.status) from None
        values_left -= sum(row.count(separator) for separator in ",:[{")
    return [parsed[row] if isinstance(row, str) else row for row in rows]


def _too_many(count: int, limits: ServerLimits) -> APIError:
    return APIError(f"{count:,} samples: at most {limits.max_samples:,} are accepted per request", 413)


def _request(
    images: list[Any],
    sources: list[Any],
    prompts: list[Any],
    rows: list[Any],
    limits: ServerLimits,
    *,
    has_requirements: bool = False,
) -> ScoreRequest:
    """A request from lists with one item per edit. has_requirements: see `with_requirement`."""
    counts = {"images": len(images), "sources": len(sources), "prompts": len(prompts), "rows of metadata": len(rows)}
    if len(set(counts.values())) > 1:
        got = ", ".join(f"{count} {name}" for name, count in counts.items())
        raise APIError(f"lists of equal length are needed, got {got}", 400)
    if len(images) > limits.max_samples:
        raise _too_many(len(images), limits)
    names = _ImageNames()
    values_left = [limits.max_json_values]
    samples = []
    for number, (edited, row_sources, prompt, row) in enumerate(zip(images, sources, prompts, rows, strict=True)):
        name = f"edit-{number}"
        if not isinstance(prompt, str):  # a nested list may have no end when it is printed
            raise APIError(f"{name}: the prompt must be a string, got {type(prompt).__name__}", 400)
        source_contents = row_sources if isinstance(row_sources, list | tuple) else [row_sources]
        if not source_contents or len(source_contents) > limits.max_list_length:
            raise APIError(
                f"{name} has {len(source_contents)} sources: 1 to {limits.max_list_length} are accepted", 400
            )
        image_names = [names.of(content, name) for content in (*source_contents, edited)]
        metadata = row if isinstance(row, dict) else {}
        fields = {METADATA_KEY: to_plain_json(metadata.get(METADATA_KEY, {}), values_left)}
        if has_requirements:
            fields = with_requirement({**fields, _REQUIREMENT: metadata.get(_REQUIREMENT)})
        try:
            samples.append(sample_row(name, prompt, image_names[:-1], image_names[-1], fields))
        except ValueError as error:
            raise APIError(str(error), 400) from None
    return decode_request_json({"schema": SCHEMA, "samples": samples}, names.parts, limits)


class _ImageNames:
    """Equal images have one name, and each object is copied and hashed once. Contents must outlive it."""

    def __init__(self) -> None:
        self._by_content: dict[tuple[bytes, str], str] = {}
        self._by_object: dict[int, str] = {}

    @property
    def parts(self) -> BodyParts:
        return {name: content for content, name in self._by_content.items()}

    def of(self, content: Any, sample: str) -> str:
        if id(content) not in self._by_object:
            part = _image_part(content, sample)
            self._by_object[id(content)] = self._by_content.setdefault(part, f"image-{len(self._by_content)}")
        return self._by_object[id(content)]


def _image_part(content: Any, sample: str) -> tuple[bytes, str]:
    if isinstance(content, bytes | bytearray):
        return bytes(content), ""
    if not isinstance(content, PickledImage):
        raise APIError(
            f"{sample}: an image must be the bytes of a JPEG, PNG or WebP file, got {type(content).__name__}", 400
        )
    if content.mode != "RGB":
        mode = repr(content.mode)[:20] if isinstance(content.mode, str) else type(content.mode).__name__
        raise APIError(f"{sample}: an image of PIL must have the mode RGB, got {mode}: convert it", 400)
    size = content.size
    if type(size) is not tuple or len(size) != 2 or not all(type(side) is int and 0 < side < 2**31 for side in size):
        raise APIError(f"{sample}: an image of PIL has no size of two positive numbers", 400)
    if type(content.pixels) is not bytes:
        raise APIError(f"{sample}: an image of PIL has no pixels", 400)
    return content.pixels, f"application/x-rgb; width={size[0]}; height={size[1]}"


def to_plain_json(value: Any, values_left: list[int], depth: int = 0) -> Any:
    """A copy of JSON values. values_left: how many there may still be, in a list of one. Raises `APIError`."""
    values_left[0] -= 1 + (len(value) // _TEXT_OF_A_VALUE if isinstance(value, str) else 0)
    if values_left[0] < 0 or depth > _MAX_DEPTH:
        raise APIError("the metadata has too many values or levels", 413)
    if isinstance(value, dict):
        return {_key(key, values_left): to_plain_json(inner, values_left, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain_json(inner, values_left, depth + 1) for inner in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise APIError(f"`{METADATA_KEY}` in the metadata must have JSON values, got {type(value).__name__}", 400)


def _key(key: Any, values_left: list[int]) -> str:
    if not isinstance(key, str):
        raise APIError(f"`{METADATA_KEY}` in the metadata has a key of {type(key).__name__}: keys must be strings", 400)
    values_left[0] -= len(key) // _TEXT_OF_A_VALUE
    return key


def _check_dict(payload: Any) -> Mapping[str, Any]:
    if not isinstance(payload, dict):
        raise APIError(f"a request must be a pickled dict, got {type(payload).__name__}", 400)
    return payload


def _list(payload: Mapping[str, Any], name: str) -> list[Any]:
    items = payload.get(name)
    if not isinstance(items, list | tuple):
        raise APIError(f"`{name}` must be a list with one item per image, got {type(items).__name__}", 400)
    if not items:
        raise APIError(f"`{name}` is empty", 400)
    return list(items)
