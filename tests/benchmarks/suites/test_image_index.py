"""Images of suites: each file is decoded once on a machine, and every file that cannot be is named."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editcritic.benchmarks.suites.suite import INDEX_FILE, SuiteImage, decode_images, is_padded
from editcritic.reward import Image, ImageError
from editcritic.reward import image as image_module
from editcritic.reward.digests import record_checksum
from editcritic.reward.image_decoding import decode_with_profile

from .edival.layout import png
from .tiny_suite import picture


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "editcritic"


@pytest.fixture
def decoded(monkeypatch):
    """The files that were decoded, in order."""
    names: list[str] = []

    def counted(data: bytes, name: str, **options: Any) -> tuple[image_module.Pixels, bytes]:
        names.append(Path(name).name)
        return decode_with_profile(data, name, **options)

    monkeypatch.setattr(image_module, "decode_with_profile", counted)
    monkeypatch.setattr(image_module, "_cache", image_module.pixel_cache(0))
    return names


def files(folder: Path, count: int = 3) -> list[Path]:
    paths = [folder / f"{number}.png" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_bytes(png(picture(number)))
    return paths


def images(paths: list[Path]) -> list[Image]:
    return [one.image for one in decode_images(paths, None).values() if isinstance(one, SuiteImage)]


def test_a_file_is_decoded_once_and_its_pixels_when_they_are_needed(tmp_path, decoded):
    paths = files(tmp_path)
    first = images(paths)
    num_decoded = len(decoded)
    assert num_decoded >= 3
    second = images(paths)
    assert [(image.digest, image.size) for image in second] == [(image.digest, image.size) for image in first]
    assert len(decoded) == num_decoded
    assert [second[number].width for number in (0, 2) if second[number].pixels.any()]  # the cache keeps the latest one
    num_decoded = len(decoded)
    assert np.array_equal(second[1].pixels, picture(1).pixels)
    assert decoded[num_decoded:] == ["1.png"]
    paths[0].write_bytes(png(picture(9)))  # another picture of the same name
    decoded.clear()
    assert images(paths)[0] == picture(9)
    assert set(decoded) == {"0.png"}


def test_without_a_cache_images_are_decoded_each_time(tmp_path, cache, decoded):
    paths = files(tmp_path)
    cache.parent.mkdir()
    cache.write_text("no folder")
    assert images(paths) == images(paths)
    assert len(decoded) >= 6


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 2}', '{"schema": 2, "files": {"a": [1]}, "padded": {}}'])
def test_an_index_that_cannot_be_read_is_made_again(text, tmp_path, cache, decoded):
    paths = files(tmp_path)
    cache.mkdir(parents=True)
    (cache / INDEX_FILE).write_text(text)
    assert images(paths) == [picture(number) for number in range(3)]
    assert len(json.loads((cache / INDEX_FILE).read_text())["files"]) == 3
    decoded.clear()
    images(paths)
    assert decoded == []


def test_no_flipped_bit_of_the_index_changes_what_is_known_of_an_image(tmp_path, cache):
    paths = files(tmp_path)
    expected = decode_images(paths, None)
    intact = (cache / INDEX_FILE).read_bytes()
    rng = random.Random(0)
    for _ in range(200):
        content = bytearray(intact)
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        (cache / INDEX_FILE).write_bytes(content)
        again = decode_images(paths, None)
        assert again == expected
        assert all(one.image.size == (32, 32) for one in again.values() if isinstance(one, SuiteImage))


def test_an_index_that_lies_about_a_file_is_noticed(tmp_path, cache, decoded):
    paths = files(tmp_path, 1)
    images(paths)
    index = json.loads((cache / INDEX_FILE).read_text())
    del index["checksum"]
    index["files"] = {key: ["0" * 64, *size] for key, (_, *size) in index["files"].items()}
    index["padded"]["0" * 64] = False
    (cache / INDEX_FILE).write_text(json.dumps(index | {"checksum": record_checksum(json.dumps(index))}))
    (image,) = images(paths)
    with pytest.raises(ImageError, match="has changed since it was first read"):
        _ = image.pixels


def test_a_file_that_is_no_image_is_an_error_each_time(tmp_path):
    paths = files(tmp_path)
    paths[1].write_text("no image")
    for _ in range(2):
        opened = decode_images(paths, None)
        assert isinstance(opened[paths[1]], ImageError)
        assert "1.png is not an image" in str(opened[paths[1]])
        assert sum(isinstance(one, SuiteImage) for one in opened.values()) == 2


@pytest.mark.parametrize(
    ("rows", "columns", "padded"), [((8, 8), (0, 0), True), ((0, 0), (8, 8), True), ((8, 0), (0, 8), False)]
)
def test_bars_along_two_opposite_sides_are_padding(rows, columns, padded):
    pixels = np.array(np.maximum(picture(3, size=64).pixels, 60))
    pixels[: rows[0]] = pixels[64 - rows[1] :] = 0
    pixels[:, : columns[0]] = pixels[:, 64 - columns[1] :] = 5
    assert is_padded(Image.of(pixels)) is padded
