"""From the bytes of a body to a request: nothing is decoded before it is known how large it will be."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from email.message import Message
from email.parser import BytesParser
from email.utils import collapse_rfc2231_value
from typing import Any

from ...reward import ImageError
from ...reward.decode import size_of
from .limits import Limits
from .wire import Request, WireError, from_base64, request_of

FORMATS = ("PNG", "JPEG", "WEBP")
"""PIL's names of those that a server reads: three decoders are open to strangers, not forty."""

_DEEPEST = 32
_LARGEST = 2**53
"""Beyond it, JSON's integers are not the same integers everywhere."""

_LONGEST_HEAD = 8192
"""Of a part, in bytes."""

Parts = dict[str, tuple[bytes | memoryview, str]]


def request_from(content: bytes, kind: str, limits: Limits) -> Request:
    """The request in a body. kind: its content type. Raises `WireError`."""
    header = Message()
    header["content-type"] = kind
    main = header.get_content_type()
    if main == "multipart/form-data":
        data, parts = _apart(content, header.get_boundary(), limits)
    elif main == "application/json" or not kind:
        data, parts = read_json(content, limits), {}
    else:
        raise WireError(f"the body is {kind!r:.80}: application/json or multipart/form-data is read here", 415)
    return request_in(data, parts, limits)


def request_in(data: Any, parts: Parts, limits: Limits) -> Request:
    """The request of JSON, and of the pictures that came beside it: bytes and content type by name, to which those in
    the JSON are added. Raises `WireError`.
    """
    if not isinstance(data, dict):
        raise WireError(f"a request is a JSON object, got {type(data).__name__}", 400)
    _few(data.get("samples"), limits)
    sent = data.get("pictures")
    if not isinstance(sent, dict):
        sent = {}
    for name in [name for name, value in sent.items() if isinstance(value, str)]:
        parts[name] = (from_base64(name, sent.pop(name)), "")
    tame([list(parts), list(sent), {name: value for name, value in data.items() if name != "pictures"}], limits)
    pixels = 0
    for count in (_pixels(name, *part, limits) for name, part in (*parts.items(), *_bare(sent))):
        pixels += count
        if pixels > limits.max_pixels:
            raise WireError(f"the pictures have more than {limits.max_pixels:,} pixels together: send fewer", 413)
    return request_of(data, parts)


def read_json(content: bytes, limits: Limits) -> Any:
    """JSON as the standard has it: UTF-8, without NaN and infinities. Raises `WireError`."""
    if sum(content.count(mark) for mark in (b",", b":", b"[", b"{")) > limits.max_items:
        raise WireError(f"the JSON has more than {limits.max_items:,} values: send fewer samples a request", 413)
    try:
        return json.loads(content.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise WireError(f"the JSON is nested deeper than {_DEEPEST} levels", 400) from None
    except ValueError as error:
        raise WireError(f"not JSON: {error}"[:300], 400) from None


def tame(data: Any, limits: Limits) -> None:
    """Raises `WireError` for what JSON can say and nobody means: depths, long texts, half letters, 1e999."""
    level = [data]
    for _ in range(_DEEPEST):
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below += value
                below += value.values()
            elif isinstance(value, list):
                below += value
            elif isinstance(value, str):
                _text(value, limits)
            elif isinstance(value, float) and not math.isfinite(value):
                raise WireError("a number in the JSON is larger than any that can be computed with", 400)
            elif isinstance(value, int) and abs(value) > _LARGEST:
                raise WireError(f"the integer {str(value)[:40]} in the JSON is larger than 2**53", 400)
        if not below:
            return
        level = below
    raise WireError(f"the JSON is nested deeper than {_DEEPEST} levels", 400)


def _text(value: str, limits: Limits) -> None:
    if len(value) > limits.max_text:
        raise WireError(f"a text of {len(value):,} characters: {limits.max_text:,} are read at most", 413)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise WireError(f"{value!r:.80} holds half of a letter (a lone surrogate)", 400) from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON: leave out what is not known")


def _few(samples: Any, limits: Limits) -> None:
    if not isinstance(samples, list):
        return  # refused where types are checked
    if len(samples) > limits.max_samples:
        raise WireError(f"{len(samples):,} samples: at most {limits.max_samples:,} are taken in one request", 413)
    for number, row in enumerate(samples):
        if isinstance(row, dict):
            for field in ("earlier", "sources", "operations"):
                found = row.get(field)
                if isinstance(found, list) and len(found) > limits.max_turns:
                    raise WireError(f"sample {number}: {len(found)} {field}, {limits.max_turns} are taken at most", 413)


def _bare(sent: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Pictures in JSON that are bare pixels."""
    for name, value in sent.items():
        if isinstance(value, dict) and isinstance(value.get("rgb"), str):
            yield name, (value["rgb"], "base64")


def _pixels(name: str, content: Any, kind: str, limits: Limits) -> int:
    """How many a picture has, by its header; of bare pixels by their bytes: who claims others is refused later."""
    if kind == "base64":
        pixels = len(content) // 4
    elif kind.startswith("application/x-rgb"):
        pixels = len(content) // 3
    else:
        try:
            width, height = size_of(content, f"picture {name!r:.80}", FORMATS)
        except ImageError as error:
            raise WireError(str(error)) from None
        pixels = width * height
    if pixels > limits.max_picture:
        raise WireError(f"picture {name!r:.80} has {pixels:,} pixels: {limits.max_picture:,} are taken at most", 413)
    return pixels


def _apart(content: bytes, boundary: str | None, limits: Limits) -> tuple[Any, Parts]:
    """The JSON of a multipart body, and its pictures: each is a view of it, and nothing goes to a disk."""
    if not boundary:
        raise WireError("multipart/form-data without a boundary", 400)
    data: Any = None
    parts: Parts = {}
    for head, body in _pieces(content, b"--" + boundary.encode(), 2 + limits.max_samples * 2 * limits.max_turns):
        name, kind = _header(head)
        if name == "request":
            data = read_json(bytes(body), limits)
        elif not name or name in parts:
            raise WireError(f"the parts of a multipart body have names, each its own, got {name!r:.80}", 400)
        else:
            parts[name] = (body, kind)
    if data is None:
        raise WireError("the multipart body has no field `request` with the JSON", 400)
    return data, parts


def _pieces(content: bytes, mark: bytes, most: int) -> Iterator[tuple[bytes, memoryview]]:
    """Headers and content of each part: nothing is copied, for pictures are large."""
    whole = memoryview(content)
    start = content.find(mark)
    for _ in range(most):
        start += len(mark)
        then = bytes(whole[start : start + 2])
        if start < len(mark) or then not in (b"--", b"\r\n"):
            break
        if then == b"--":
            return
        end = content.find(b"\r\n" + mark, start)
        gap = content.find(b"\r\n\r\n", start, start + _LONGEST_HEAD)
        if not 0 <= gap < end:
            break
        yield bytes(whole[start + 2 : gap]), whole[gap + 4 : end]
        start = end + 2
    raise WireError("the multipart body is cut off, or has parts without headers, or too many of either", 400)


def _header(head: bytes) -> tuple[str, str]:
    """The name of a part, and its content type."""
    parsed = BytesParser().parsebytes(head + b"\r\n\r\n", headersonly=True)
    said = parsed.get_param("name", header="content-disposition") or ""
    name = collapse_rfc2231_value(said)
    name = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return name, str(parsed.get("content-type", ""))
