"""Answers as JSON, for logs and recordings, and how large they are. The round trip is exact."""

from __future__ import annotations

import base64
import io
import json
import math
import reprlib
import zlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from ..boxes import Box
from ..edit_plan import EditPlan, plan_from_json, plan_to_json
from ..encoded_images import MAX_PIXELS
from ..image import Image
from .answers import (
    Answer,
    Detections,
    Embeddings,
    Mask,
    Measurement,
    RecognizedText,
    RegionRating,
    TextLine,
    UpscaledImage,
)
from .change_map import GRIDS, ChangeMap
from .outcomes import Abstention
from .response_formats import Reply, ToolCall

_LITTLE_ENDIAN = np.dtype("<f4")


def answer_to_json(answer: Answer | Abstention) -> dict[str, Any]:
    """Inverse of `answer_from_json`."""
    match answer:
        case Detections(boxes, min_score):
            return {"boxes": [_box(box) for box in boxes], "min_score": min_score}
        case Mask(values, score):
            packed = base64.b64encode(zlib.compress(np.packbits(values).tobytes())).decode()
            return {"mask": packed, "shape": list(values.shape), "score": score}
        case ChangeMap():
            return _change_map_to_json(answer)
        case RegionRating(value, faults):
            return {"region": value, "faults": dict(faults)}
        case Embeddings(values, patches):
            return {"vectors": values.tolist(), "patches": patches.tolist(), "dim": values.shape[1]}
        case UpscaledImage(image):
            return {"png": base64.b64encode(_png(image)).decode()}
        case Measurement(value, share, sigma):
            return {"value": value, "share": share} | ({} if sigma is None else {"sigma": sigma})
        case Reply(text, probabilities, mass, calls, note):
            data: dict[str, Any] = {"reply": text, "probabilities": dict(probabilities)}
            if mass is not None:
                data["option_mass"] = mass
            data |= {"tool_calls": [call.describe() for call in calls]} if calls else {}
            return data | ({"note": note} if note else {})
        case RecognizedText(lines, unread):
            data = {"lines": [[line.text, *_box(line.box)] for line in lines]}
            return data | ({"unread": [_box(box) for box in unread]} if unread else {})
        case EditPlan():
            return {"plan": plan_to_json(answer)}
        case Abstention(reason):
            return {"abstained": reason}


def answer_from_json(data: Mapping[str, Any]) -> Answer | Abstention:
    """Raises ValueError for an unknown kind of record, and for a damaged mask, change map, image or plan."""
    if "boxes" in data:
        return Detections(tuple(Box(*numbers) for numbers in data["boxes"]), data["min_score"])
    if "mask" in data:
        shape = _shape(data)
        count = math.prod(shape)
        if count > MAX_PIXELS:
            raise ValueError(f"a mask of {shape} is larger than any picture: its record is damaged")
        content = _decompressed(data["mask"], (count + 7) // 8, f"a mask of {shape}")
        bits = np.unpackbits(np.frombuffer(content, np.uint8), count=count)
        return Mask(bits.astype(np.bool_).reshape(shape), data["score"])
    if "change_map" in data:
        return _change_map(data["change_map"], _shape(data), data["numbers"])
    if "region" in data:
        return RegionRating(data["region"], data["faults"])
    if "png" in data:
        return UpscaledImage(Image.of(base64.b64decode(data["png"])))
    if "vectors" in data:
        values = np.asarray(data["vectors"], dtype=np.float32).reshape(len(data["vectors"]), data["dim"])
        return Embeddings(values, np.asarray(data["patches"], dtype=np.int64))
    if "reply" in data:
        calls = tuple(ToolCall(*call) for call in data.get("tool_calls", ()))
        return Reply(data["reply"], data["probabilities"], data.get("option_mass"), calls, data.get("note", ""))
    if "lines" in data:
        unread = tuple(Box(*numbers) for numbers in data.get("unread", ()))
        return RecognizedText(tuple(TextLine(row[0], Box(*row[1:])) for row in data["lines"]), unread)
    if "plan" in data:
        return plan_from_json(data["plan"])
    if "abstained" in data:
        return Abstention(data["abstained"])
    if "value" in data:
        return Measurement(data["value"], data["share"], data.get("sigma"))
    raise ValueError(f"unknown kind of answer with fields {sorted(data)}: was it written by a newer version?")


def _box(box: Box) -> list[Any]:
    return [box.cx, box.cy, box.w, box.h, box.score, box.label]


def _png(image: Image) -> bytes:
    buffer = io.BytesIO()
    image.pil().save(buffer, "PNG", compress_level=3)
    return buffer.getvalue()


def _shape(data: Mapping[str, Any]) -> tuple[int, int]:
    """Rows and columns. Raises ValueError for others: a product of many numbers alone takes minutes."""
    match data["shape"]:
        case [int(rows), int(columns)] if 0 < rows <= MAX_PIXELS and 0 < columns <= MAX_PIXELS:
            return rows, columns
    raise ValueError(f"a shape is rows and columns, got {reprlib.repr(data['shape'])}: its record is damaged")


def _decompressed(packed: str, size: int, what: str) -> bytes:
    """The `size` bytes of a record: a few bytes may claim to be gigabytes. Raises ValueError for other ones."""
    if not 0 < size <= MAX_PIXELS:
        raise ValueError(f"{what} would have {size} bytes: its record is damaged")
    unpacking = zlib.decompressobj()
    try:
        content = unpacking.decompress(base64.b64decode(packed, validate=True), size + 1)
    except zlib.error as error:
        raise ValueError(f"{what} cannot be decompressed ({error}): its record is damaged") from None
    if len(content) != size or not unpacking.eof:
        raise ValueError(f"{what} does not have {size} bytes: its record is damaged")
    return content


def _change_map_to_json(changes: ChangeMap) -> dict[str, Any]:
    content = b"".join(getattr(changes, name).astype(_LITTLE_ENDIAN).tobytes() for name in GRIDS)
    numbers = {field.name: getattr(changes, field.name) for field in fields(changes) if field.name not in GRIDS}
    numbers["shift"] = list(changes.shift)
    packed = base64.b64encode(zlib.compress(content)).decode()
    return {"change_map": packed, "shape": list(changes.shape), "numbers": numbers}


def _change_map(packed: str, shape: tuple[int, int], numbers: Mapping[str, Any]) -> ChangeMap:
    shapes = {name: (*shape, *rest) for name, rest in GRIDS.items()}
    counts = [math.prod(one) for one in shapes.values()]
    content = _decompressed(packed, sum(counts) * _LITTLE_ENDIAN.itemsize, f"a change map of {shape}")
    parts = np.split(np.frombuffer(content, _LITTLE_ENDIAN).astype(np.float32), np.cumsum(counts)[:-1])
    grids = {name: part.reshape(one) for (name, one), part in zip(shapes.items(), parts, strict=True)}
    try:
        values: dict[str, Any] = {**grids, **numbers, "shift": tuple(numbers["shift"])}
        changes = ChangeMap(**values)
    except (KeyError, TypeError) as error:
        raise ValueError(f"a change map has other numbers ({error}): its record is damaged") from None
    if problem := changes.problem():
        raise ValueError(f"a change map {problem}: its record is damaged")
    return changes


def approximate_bytes(answer: Answer | Abstention) -> int:
    """Of an answer in memory."""
    match answer:
        case Detections(boxes):
            return 300 + 200 * len(boxes)
        case Embeddings(values) | Mask(values):
            return 400 + int(values.nbytes)
        case ChangeMap():
            return 600 + answer.nbytes
        case UpscaledImage(image):
            return 400 + 3 * image.width * image.height
        case Reply(text, probabilities):
            return 400 + len(text) + 100 * len(probabilities)
        case RecognizedText(lines, unread):
            return 300 + 400 * len(lines) + 200 * len(unread)
        case EditPlan():
            return 400 + 4 * len(json.dumps(plan_to_json(answer)))
        case _:
            return 300
