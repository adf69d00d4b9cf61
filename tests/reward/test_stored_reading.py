"""The reading `stored`: pictures as the released EdiVal code sees them, within the limits of every reading."""

from __future__ import annotations

import base64
import hashlib
import json
import pickle
import warnings
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editcritic.reward import Image
from editcritic.reward import image as image_module
from editcritic.reward.image_decoding import decode

RECORDED = Path(__file__).parent / "released_pictures.json"


@cache
def recorded() -> dict[str, dict[str, Any]]:
    pictures: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text(encoding="utf-8"))["pictures"]
    return pictures


def file_of(name: str) -> bytes:
    return base64.b64decode(recorded()[name]["file"])


def released(name: str) -> np.ndarray:
    width, height = recorded()[name]["size"]
    values = zlib.decompress(base64.b64decode(recorded()[name]["rgb"]))
    return np.frombuffer(values, np.uint8).reshape(height, width, 3)


@pytest.mark.parametrize("name", list(recorded()))
def test_the_pixels_are_those_of_the_released_code(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(file_of(name))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        image = Image.open(tmp_path / name, reading="stored")
    assert np.array_equal(image.pixels, released(name))
    square = image.resized(512, 512).pixels
    assert hashlib.sha256(square.tobytes()).hexdigest() == recorded()[name]["sha256_at_512"]


def test_our_own_reading_differs_where_a_picture_is_turned_transparent_or_deep() -> None:
    names = [name for name in recorded() if name != "floats.tiff"]  # ours are refused above 1
    different = {name for name in names if not np.array_equal(decode(file_of(name), name), released(name))}
    assert different >= {"turned by EXIF.jpg", "alpha.png", "palette with alpha.png", "16 bits of grey.png"}
    assert not different & {"rgb.png", "cmyk.jpg", "black and white.png", "grey.bmp", "16 bits of colour.png"}


def test_readings_are_named_and_kept_apart(tmp_path):
    (tmp_path / "a.png").write_bytes(file_of("rgb.png"))
    with pytest.raises(ValueError, match="read as upright or stored, got 'raw'"):
        Image.open(tmp_path / "a.png", reading="raw")  # type: ignore[arg-type]
    path = tmp_path / "b.png"
    path.write_bytes(file_of("alpha.png"))
    index: dict[str, Any] = {}
    first = [Image.open(path, index=index), Image.open(path, index=index, reading="stored")]
    again = [Image.open(path, index=index), Image.open(path, index=index, reading="stored")]
    assert first == again
    assert first[0] != first[1]
    assert len(index) == 2


def test_pixels_that_are_decoded_again_and_sent_away_are_those_of_the_reading(tmp_path, monkeypatch):
    monkeypatch.setattr(image_module, "_cache", image_module.pixel_cache(0))
    path = tmp_path / "a.jpg"
    path.write_bytes(file_of("turned by EXIF.jpg"))
    image = Image.open(path, reading="stored")
    image_module._cache.put("another", np.zeros(10, np.uint8))  # evicts the pixels
    assert np.array_equal(image.pixels, released("turned by EXIF.jpg"))
    assert pickle.loads(pickle.dumps(image)) == image
