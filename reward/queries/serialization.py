"""Answers as JSON, for logs and recordings. What is read back equals what was written, to the bit."""

from __future__ import annotations

import base64
import io
import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from .boxes import Box
from .forms import Reply, ToolCall
from .image import Image
from .outcomes import Abstention
from .query import Answer, Detections, Enhanced, Mask, Measured, Reading, TextLine, Vectors


def answer_to_json(answer: Answer | Abstention) -> dict[str, Any]:
    """`answer_from_json` undoes it exactly."""
    match answer:
        case Detections(boxes, floor):
            return {"boxes": [[b.cx, b.cy, b.w, b.h, b.score, b.label] for b in boxes], "floor": floor}
        case Mask(values, score):
            packed = base64.b64encode(zlib.compress(np.packbits(values).tobytes())).decode()
            return {"mask": packed, "shape": list(values.shape), "score": score}
        case Vectors(values, patches):
            return {"vectors": values.tolist(), "patches": patches.tolist(), "dim": values.shape[1]}
        case Enhanced(image):
            return {"png": base64.b64encode(_png(image)).decode()}
        case Measured(value, share, sigma):
            return {"value": value, "share": share} | ({} if sigma is None else {"sigma": sigma})
        case Reply(text, probabilities, mass, calls):
            said: dict[str, Any] = {"reply": text, "p": dict(probabilities)}
            if mass is not None:
                said["mass"] = mass
            return said | ({"calls": [call.describe() for call in calls]} if calls else {})
        case Reading(lines):
            return {"lines": [[n.text, b.cx, b.cy, b.w, b.h, b.score, b.label] for n in lines for b in (n.box,)]}
        case Abstention(reason):
            return {"abstained": reason}


def answer_from_json(data: Mapping[str, Any]) -> Answer | Abstention:
    """Raises ValueError for a record this version does not know, and for a mask or a picture that was damaged."""
    if "boxes" in data:
        return Detections(tuple(Box(*numbers) for numbers in data["boxes"]), data["floor"])
    if "mask" in data:
        return _mask(data["mask"], tuple(data["shape"]), data["score"])
    if "png" in data:
        return Enhanced(Image.of(base64.b64decode(data["png"])))
    if "vectors" in data:
        values = np.asarray(data["vectors"], dtype=np.float32).reshape(len(data["vectors"]), data["dim"])
        return Vectors(values, np.asarray(data["patches"], dtype=np.int64))
    if "reply" in data:
        calls = tuple(ToolCall(*call) for call in data.get("calls", ()))
        return Reply(data["reply"], data["p"], data.get("mass"), calls)
    if "lines" in data:
        return Reading(tuple(TextLine(row[0], Box(*row[1:])) for row in data["lines"]))
    if "abstained" in data:
        return Abstention(data["abstained"])
    if "value" in data:
        return Measured(data["value"], data["share"], data.get("sigma"))
    raise ValueError(f"unknown kind of answer with fields {sorted(data)}: was it written by a newer version?")


def _png(image: Image) -> bytes:
    written = io.BytesIO()
    image.pil().save(written, "PNG", compress_level=3)
    return written.getvalue()


def _mask(packed: str, shape: tuple[int, ...], score: float) -> Mask:
    try:
        content = zlib.decompress(base64.b64decode(packed, validate=True))
    except zlib.error as error:
        raise ValueError(f"a mask of {shape} cannot be unpacked ({error}): its record is damaged") from None
    count = math.prod(shape)
    if len(content) != (count + 7) // 8:
        raise ValueError(f"a mask of {shape} has {len(content)} bytes: its record is damaged")
    bits = np.unpackbits(np.frombuffer(content, np.uint8), count=count)
    return Mask(bits.astype(np.bool_).reshape(shape), score)
