"""Decode request bodies; nothing is decoded before its size is known."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from email.message import Message
from email.parser import BytesParser
from email.utils import collapse_rfc2231_value
from functools import partial
from typing import Any

from ....reward import ImageError
from ....reward.encoded_images import WEB_FORMATS, ImageSizeError
from ....reward.image_decoding import size_of
from ..http_protocol import APIError, ScoreRequest, from_base64, parse_request
from .decoding import decode_bounded, require_room
from .settings import ServerLimits

_MAX_DEPTH = 32
_MAX_SAFE_INTEGER = 2**53
"""Larger integers are not portable in JSON."""

_MAX_PART_HEADER = 2048
_MAX_PART_HEADER_LINES = 16
"""Bytes and lines of the headers of a part, and parameters in them: the standard library's parser is slow with many."""

_MAX_FIELDS = 64
_MAX_SAMPLE_VALUES = 20_000
"""Fields of an object with fixed ones, and values of a sample without its metadata, nested ones included. The
validation of a million wrong values lists them all, which takes twenty seconds and holds the interpreter's lock."""

_PIXELS_PER_WEBP_BYTE = 8
"""That take as long as a byte: tables of codes, which lossless WebP is full of if it is crafted."""

_MAX_CONTENT_TYPE = 512
"""Characters of the body's content type. A boundary has at most 70."""

BodyParts = dict[str, tuple[bytes | memoryview, str]]


def decode_request(content: bytes, content_type: str, limits: ServerLimits) -> ScoreRequest:
    """Decode the request in a body. Raises `APIError`."""
    if len(content_type) > _MAX_CONTENT_TYPE:
        raise APIError(f"the content type has {len(content_type):,} characters: at most {_MAX_CONTENT_TYPE}", 415)
    header = Message()
    header["content-type"] = content_type
    media_type = header.get_content_type()
    if media_type == "multipart/form-data":
        data, parts = _split_multipart(content, header.get_boundary(), limits)
    elif media_type == "application/json" or not content_type:
        data, parts = read_json(content, limits), {}
    else:
        raise APIError(f"content type {content_type!r:.80}: expected application/json or multipart/form-data", 415)
    return decode_request_json(data, parts, limits)


def decode_request_json(data: Any, parts: BodyParts, limits: ServerLimits) -> ScoreRequest:
    """The request of JSON, and its images: bytes and content type by name. Raises `APIError`."""
    if not isinstance(data, dict):
        raise APIError(f"the request must be a JSON object, got {type(data).__name__}", 400)
    _check_fields("the request", data)
    _check_counts(data.get("samples"), limits)
    images = data.get("images")
    if not isinstance(images, dict):
        images = {}
    if len(parts) + len(images) > limits.max_images:
        raise _too_many_images(limits)
    for name, value in images.items():
        _check_fields(f"image {name!r:.80}", value)
    for name in [name for name, value in images.items() if isinstance(value, str)]:
        parts[name] = (from_base64(name, images.pop(name)), "")
    validate_json(
        [list(parts), list(images), {name: value for name, value in data.items() if name != "images"}], limits
    )
    pixels = 0
    raw = ((name, value.get("rgb")) for name, value in images.items() if isinstance(value, dict))
    for name, part in (*parts.items(), *((name, (rgb, "base64")) for name, rgb in raw if isinstance(rgb, str))):
        pixels += _pixel_count(name, *part, limits)
        if pixels > limits.max_pixels:
            raise APIError(f"the images have more than {limits.max_pixels:,} pixels in total: send fewer", 413)
    webp_bytes = sum(len(content) for content, _ in parts.values() if bytes(content[:4]) == b"RIFF")
    require_room(pixels + _PIXELS_PER_WEBP_BYTE * webp_bytes)
    return parse_request(data, parts, partial(decode_bounded, own_process_above=limits.max_thread_pixels))


def read_json(content: bytes, limits: ServerLimits) -> Any:
    """Parse strict JSON: UTF-8, without NaN and infinities. Raises `APIError`."""
    if sum(content.count(separator) for separator in (b",", b":", b"[", b"{")) > limits.max_json_values:
        raise APIError(f"the JSON has more than {limits.max_json_values:,} values: send fewer samples per request", 413)
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise APIError(f"the JSON is nested deeper than {_MAX_DEPTH} levels", 400) from None
    except ValueError as error:
        raise APIError(f"invalid JSON: {error}"[:300], 400) from None


def validate_json(data: Any, limits: ServerLimits) -> None:
    """Raises `APIError` for deep nesting, long strings, lone surrogates, and numbers out of range such as 1e999."""
    level_values = [data]
    for _ in range(_MAX_DEPTH):
        nested: list[Any] = []
        for value in level_values:
            if isinstance(value, dict):
                nested += value
                nested += value.values()
            elif isinstance(value, list):
                nested += value
            elif isinstance(value, str):
                _text(value, limits)
            elif isinstance(value, float) and not math.isfinite(value):
                raise APIError("a number in the JSON is not finite", 400)
            elif isinstance(value, int) and abs(value) > _MAX_SAFE_INTEGER:
                raise APIError(f"the integer {str(value)[:40]} in the JSON is larger than 2**53", 400)
        if not nested:
            return
        level_values = nested
    raise APIError(f"the JSON is nested deeper than {_MAX_DEPTH} levels", 400)


def _text(value: str, limits: ServerLimits) -> None:
    if len(value) > limits.max_text_length:
        raise APIError(f"a string has {len(value):,} characters: at most {limits.max_text_length:,} are accepted", 413)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise APIError(f"{value!r:.80} has a lone surrogate", 400) from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number: leave out unknown values")


def _check_counts(samples: Any, limits: ServerLimits) -> None:
    if not isinstance(samples, list):
        return  # rejected by the type check
    if len(samples) > limits.max_samples:
        raise APIError(f"{len(samples):,} samples: at most {limits.max_samples:,} are accepted per request", 413)
    for index, row in enumerate(samples):
        if not isinstance(row, dict):
            continue
        _check_list_lengths(f"sample {index}", row, limits)
        values = [value for field, value in row.items() if field != "metadata"]
        if not has_at_most(_MAX_SAMPLE_VALUES, values):
            raise APIError(f"sample {index} has more than {_MAX_SAMPLE_VALUES:,} values", 413)
        history = row.get("history")
        for number, turn in enumerate(history if isinstance(history, list) else (), start=1):
            if isinstance(turn, dict):
                _check_list_lengths(f"turn {number} of sample {index}", turn, limits)


def _check_fields(name: str, value: Any) -> None:
    if isinstance(value, dict) and len(value) > _MAX_FIELDS:
        raise APIError(f"{name} has {len(value):,} fields: at most {_MAX_FIELDS} are accepted", 400)


def has_at_most(count: int, data: Any) -> bool:
    """Whether JSON has at most so many values, nested ones included."""
    pending = [data]
    while pending and count >= 0:
        value = pending.pop()
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        count -= len(inner)
        if count >= 0:
            pending += inner
    return count >= 0


def _check_list_lengths(name: str, fields: Mapping[str, Any], limits: ServerLimits) -> None:
    for field in ("history", "sources", "turn_sources", "operations"):
        items = fields.get(field)
        if isinstance(items, list) and len(items) > limits.max_list_length:
            raise APIError(f"{name}: {len(items)} {field}, at most {limits.max_list_length} are accepted", 413)


def _pixel_count(name: str, content: Any, content_type: str, limits: ServerLimits) -> int:
    """Pixels of an image by its header; of raw pixels by their length, which is checked against their size later."""
    if content_type == "base64":
        pixels = len(content) // 4
    elif content_type.startswith("application/x-rgb"):
        pixels = len(content) // 3
    else:
        try:
            width, height = size_of(content, f"image {name!r:.80}", WEB_FORMATS, limits.max_image_pixels)
        except ImageSizeError as error:
            raise APIError(str(error), 413) from None
        except ImageError as error:
            raise APIError(str(error)) from None
        pixels = width * height
    if pixels > limits.max_image_pixels:
        raise APIError(
            f"image {name!r:.80} has {pixels:,} pixels: at most {limits.max_image_pixels:,} are accepted", 413
        )
    return pixels


def _split_multipart(content: bytes, boundary: str | None, limits: ServerLimits) -> tuple[Any, BodyParts]:
    """The JSON of a multipart body, and its images as views: nothing is copied or written to disk."""
    if not boundary:
        raise APIError("multipart/form-data without a boundary", 400)
    data: Any = None
    parts: BodyParts = {}
    for headers, body in _multipart_parts(content, b"--" + boundary.encode()):
        if len(parts) > limits.max_images:
            raise _too_many_images(limits)
        name, content_type = _part_header(headers)
        if name == "request":
            data = read_json(bytes(body), limits)
        elif not name or name in parts:
            raise APIError(f"the parts of a multipart body need distinct names, got {name!r:.80}", 400)
        else:
            parts[name] = (body, content_type)
    if data is None:
        raise APIError("the multipart body has no field `request` with the JSON", 400)
    return data, parts


def _too_many_images(limits: ServerLimits) -> APIError:
    return APIError(f"the request has more than {limits.max_images:,} images: send fewer samples per request", 413)


def _multipart_parts(content: bytes, boundary: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """Headers and content of each part, without copying."""
    view = memoryview(content)
    start = content.find(boundary)
    while True:
        start += len(boundary)
        following = bytes(view[start : start + 2])
        if start < len(boundary) or following not in (b"--", b"\r\n"):
            break
        if following == b"--":
            return
        end = content.find(b"\r\n" + boundary, start)
        header_end = content.find(b"\r\n\r\n", start, start + _MAX_PART_HEADER)
        if not 0 <= header_end < end:
            break
        yield bytes(view[start + 2 : header_end]), view[header_end + 4 : end]
        start = end + 2
    raise APIError("the multipart body is truncated, or has parts without headers or with long ones", 400)


def _part_header(headers: bytes) -> tuple[str, str]:
    if max(headers.count(b";"), len(headers.splitlines())) > _MAX_PART_HEADER_LINES:
        raise APIError("a part of the multipart body has too many headers or parameters", 400)
    parsed = BytesParser().parsebytes(headers + b"\r\n\r\n", headersonly=True)
    raw_name = parsed.get_param("name", header="content-disposition") or ""
    name = collapse_rfc2231_value(raw_name)
    name = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return name, str(parsed.get("content-type", ""))
