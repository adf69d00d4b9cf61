"""Pictures with a colour profile: read in sRGB, known by their raw numbers too, and compared with the reading that an
edit continues."""

from __future__ import annotations

import io
import json
import pickle
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import PIL.Image
import PIL.ImageCms
import pytest
from skimage import data

from editcritic.integrations.serving.http_protocol import attach_images, encode_image, images_by_digest, parse_request
from editcritic.integrations.serving.http_protocol import request_json as request_of
from editcritic.reward import EditSample, Image, Reward, colour_profiles, score
from editcritic.reward.encoded_images import MAX_PROFILE_BYTES, read_header
from editcritic.reward.image import FileIndex
from editcritic.reward.metrics.viescore.metrics import SemanticConsistency
from editcritic.reward.queries import Judge, Reply
from editcritic.reward.sample_files import sample_from_json, sample_to_json

from ..colour_profiles import ADOBE, ADOBE_RGB, DISPLAY_P3, GREY_GAMMA_18, P3, SRGB_AGAIN, adobe_curve, srgb_curve
from ..colour_profiles import profile as made_profile
from .fakes import Fake
from .test_encoded_images import png_chunk

Pixels = np.ndarray
SRGB = PIL.ImageCms.ImageCmsProfile(PIL.ImageCms.createProfile("sRGB")).tobytes()
BROKEN = {
    "is damaged": [b"junk", DISPLAY_P3[:200], DISPLAY_P3[:132] + bytes(len(DISPLAY_P3) - 132), bytes(5000)],
    "has more than 65,536 bytes": [made_profile(P3, srgb_curve, "long " * 20_000), bytes(2**22)],
    "is neither for RGB nor for grey": [DISPLAY_P3[:16] + space + DISPLAY_P3[20:] for space in (b"CMYK", b"Lab ")],
    "is for grey, and the picture has colours": [GREY_GAMMA_18],
}
CUP = {"cup": [[195, 45, 440, 345]]}
"""Pixel corners in the photograph `coffee`."""


def photograph(name: str) -> Pixels:
    return np.ascontiguousarray(getattr(data, name)()[..., :3])


def converted(pixels: Pixels, source: bytes, target: bytes) -> Pixels:
    """By littleCMS itself, between profiles; empty: sRGB."""
    before, after = (
        PIL.ImageCms.ImageCmsProfile(io.BytesIO(profile)) if profile else PIL.ImageCms.createProfile("sRGB")
        for profile in (source, target)
    )
    intent = PIL.ImageCms.Intent.RELATIVE_COLORIMETRIC
    picture = PIL.ImageCms.profileToProfile(PIL.Image.fromarray(pixels), before, after, renderingIntent=intent)
    assert picture is not None
    return np.asarray(picture)


def encoded(pixels: Pixels, profile: bytes = b"", kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    more = {"icc_profile": profile} if profile else {}
    PIL.Image.fromarray(pixels).save(buffer, kind, **more, **options)
    return buffer.getvalue()


COFFEE = photograph("coffee")
IN_P3 = converted(COFFEE, SRGB, DISPLAY_P3)


@pytest.mark.parametrize(("primaries", "curve"), [(P3, srgb_curve), (ADOBE, adobe_curve)])
def test_colours_are_those_that_the_definition_of_the_space_says(primaries, curve):
    """Worked out from the curve, the primaries and the inverse of those of sRGB, clipped to its border."""
    numbers = np.array(
        [[[200, 100, 50], [30, 140, 60], [90, 90, 200], [255, 255, 255], [7, 7, 7], [0, 255, 0]]], np.uint8
    )
    to_xyz, from_srgb = np.array(primaries).T, np.array(
        ((0.43607, 0.22249, 0.01392), (0.38515, 0.71687, 0.09708), (0.14307, 0.06061, 0.71410))
    ).T  # fmt: skip
    linear = np.clip(curve(numbers[0] / 255) @ to_xyz.T @ np.linalg.inv(from_srgb).T, 0, 1)
    expected = 255 * np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    image = Image.of(encoded(numbers, made_profile(primaries, curve)))
    assert np.abs(image.pixels[0] - expected).max() <= 1.5
    assert np.array_equal(image.raw.pixels, numbers)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "TIFF"])
def test_every_way_into_an_image_reads_by_the_profile(kind: str, tmp_path: Path) -> None:
    options = {"lossless": True} if kind == "WEBP" else {"quality": 95}
    file = encoded(IN_P3, DISPLAY_P3, kind, **options)
    path = tmp_path / "a"
    path.write_bytes(file)
    stored = np.asarray(PIL.Image.open(io.BytesIO(file)).convert("RGB"))
    expected = converted(stored, DISPLAY_P3, b"")
    opened, used = PIL.Image.open(path), PIL.Image.open(path)
    used.load()
    index: FileIndex = {}
    values = [file, path, opened, used, used.convert("RGB")]
    images = [*map(Image.of, values), Image.from_encoded(file), *(Image.open(path, index=index) for _ in "ab")]
    for image in images:
        assert np.array_equal(image.pixels, expected)
        assert np.array_equal(image.raw.pixels, stored)
        assert image.profile == DISPLAY_P3
    assert len({image.digest for image in images}) == 1
    assert np.array_equal(Image.open(path, reading="stored").pixels, stored), "as released code reads it"
    assert Image.open(path, index=index, reading="stored") == images[0].raw


@pytest.mark.parametrize("profile", [b"", SRGB, SRGB_AGAIN])
def test_srgb_changes_no_value(profile: bytes) -> None:
    image = Image.of(encoded(COFFEE, profile))
    assert np.array_equal(image.pixels, COFFEE)
    assert image.raw is image


def test_turned_grey_pickled_and_recorded_pictures_have_both_readings():
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    image = Image.of(encoded(IN_P3, DISPLAY_P3, exif=exif))
    assert image == Image.of(np.rot90(converted(IN_P3, DISPLAY_P3, b""), -1))
    assert image.raw == Image.of(np.rot90(IN_P3, -1))
    grey = data.camera()
    image = Image.of(encoded(grey, GREY_GAMMA_18))
    expected = 255 * np.interp((grey / 255.0) ** 1.8, srgb_curve(np.linspace(0, 1, 4096)), np.linspace(0, 1, 4096))
    assert np.abs(image.pixels[..., 1] - expected).max() <= 2
    assert np.abs(image.pixels[..., 1].astype(int) - grey).max() > 10
    image = Image.of(encoded(IN_P3, DISPLAY_P3))
    again = pickle.loads(pickle.dumps(image))
    assert (again, again.raw, again.profile) == (image, image.raw, DISPLAY_P3)
    source, edit = Image.of(encoded(IN_P3, DISPLAY_P3)), Image.of(encoded(COFFEE[::-1]))
    row = json.loads(json.dumps(sample_to_json(EditSample("a", "turn it", (source,), edit))))
    replayed = sample_from_json(row, recorded=lambda *_: None)
    again = pickle.loads(pickle.dumps(replayed.source))
    for image in (replayed.source, again):
        assert (image.digest, image.raw.digest, image.seen) == (source.digest, source.raw.digest, False)
    assert sample_to_json(replayed) == row
    assert "raw" not in row["edited"]
    del row["sources"][0]["raw"]
    old = sample_from_json(row, recorded=lambda *_: None)
    assert old.source.raw is old.source


@pytest.mark.parametrize(("problem", "profile"), [(text, one) for text, ones in BROKEN.items() for one in ones])
def test_what_cannot_be_used_is_said_once_and_read_as_srgb(problem, profile, monkeypatch, recwarn):
    monkeypatch.setattr(colour_profiles, "_warned_of", set())
    for kind in ("PNG", "TIFF"):
        picture = read_header(encoded(COFFEE, profile, kind))
        assert len(picture.profile) <= MAX_PROFILE_BYTES + 1
        image = Image.of(encoded(COFFEE, profile, kind))
        assert np.array_equal(image.pixels, COFFEE)
        assert image.raw is image
    (said,) = [str(warning.message) for warning in recwarn]
    assert said.startswith(f"the colour profile of an encoded image {problem}: this picture, and others")


@pytest.mark.filterwarnings("ignore:the colour profile")
def test_a_profile_of_cmyk_leaves_a_jpeg_as_it_was_read() -> None:
    cmyk = PIL.Image.fromarray(COFFEE).convert("CMYK")
    files = [io.BytesIO(), io.BytesIO()]
    cmyk.save(files[0], "JPEG")
    cmyk.save(files[1], "JPEG", icc_profile=DISPLAY_P3[:16] + b"CMYK" + DISPLAY_P3[20:])
    assert Image.of(files[0].getvalue()) == Image.of(files[1].getvalue())


@pytest.mark.filterwarnings("ignore:the colour profile")
@pytest.mark.parametrize("profile", [zlib.compress(bytes(2**27)), b"\xff" * 1000])
def test_a_compressed_profile_is_inflated_as_far_as_it_may_be_long(profile: bytes) -> None:
    file = encoded(COFFEE)
    file = file[:33] + png_chunk(b"iCCP", b"name\0\0" + profile) + file[33:]
    assert len(read_header(file).profile) in (0, MAX_PROFILE_BYTES + 1)
    assert np.array_equal(Image.of(file).pixels, COFFEE)


def test_mutated_profiles_are_pixels_or_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    random = np.random.default_rng(0)
    for _ in range(300):
        mutated = bytearray(DISPLAY_P3[: random.integers(100, len(DISPLAY_P3) + 1)])
        for place in random.integers(0, min(len(mutated), 400), 3):
            mutated[place] = random.integers(256)
        image = Image.of(encoded(COFFEE[:20, :20], bytes(mutated)))
        assert image.pixels.shape == (20, 20, 3)
    assert len(recwarn) < 5


@pytest.mark.parametrize("encoding", ["png", "rgb"])
@pytest.mark.parametrize("multipart", [False, True])
def test_a_server_knows_both_readings(encoding: Literal["png", "rgb"], multipart: bool) -> None:
    source = Image.of(encoded(IN_P3, DISPLAY_P3))
    unprofiled_copy = Image.of(source.pixels)
    sample = EditSample("a", "keep it", (source,), unprofiled_copy)
    data, images = request_of([sample]), images_by_digest([sample])
    if multipart:
        parts = {name: encode_image(image, encoding) for name, image in images.items()}
        (there,) = parse_request(json.loads(json.dumps(data)), parts).samples
    else:
        (there,) = parse_request(json.loads(json.dumps(attach_images(data, images, encoding)))).samples
    assert (there.source, there.source.raw, there.source.profile) == (source, source.raw, DISPLAY_P3)
    assert (there.edited, there.edited.profile) == (unprofiled_copy, b"")


@pytest.mark.parametrize("protocol", ["official", "fixed"])
def test_the_official_protocol_sees_raw_numbers(protocol: Literal["official", "fixed"]) -> None:
    seen: list[Image] = []

    def grade(query: Judge) -> Reply:
        seen.extend(part for message in query.messages for part in message.content if isinstance(part, Image))
        return Reply('{"reasoning": "", "score": [8, 8]}')

    source = Image.of(encoded(IN_P3, DISPLAY_P3))
    sample = EditSample("a", "brighten it", (source,), Image.of(redrawn(IN_P3)))
    Reward(SemanticConsistency(protocol), {"judge": Fake(grade)})([sample])
    shown = {Image.of(IN_P3), Image.of(redrawn(IN_P3))} if protocol == "official" else {source, sample.edited}
    assert set(seen) == shown


def redrawn(pixels: Pixels) -> Pixels:
    """As an editor does that encodes the picture and draws it anew."""
    noise = np.random.RandomState(0).standard_normal(pixels.shape) * 2
    return np.clip(cv2.GaussianBlur(pixels, (0, 0), 0.8) + noise, 0, 255).astype(np.uint8)


def with_a_patch(pixels: Pixels) -> Pixels:
    edited = redrawn(pixels)
    height, width = edited.shape[:2]
    edited[height // 4 : 3 * height // 4, width // 4 : 3 * width // 4] = (60, 120, 200)
    return edited


HONEST: dict[str, Callable[[Pixels], Pixels]] = {
    "redrawn": redrawn,
    "a large patch": with_a_patch,
    "mirrored": lambda pixels: redrawn(pixels[:, ::-1]),
    "turned": lambda pixels: redrawn(np.rot90(pixels)),
    "stretched": lambda pixels: redrawn(cv2.resize(pixels, (pixels.shape[1] * 17 // 16, pixels.shape[0]))),
    "blurred": lambda pixels: cv2.GaussianBlur(pixels, (0, 0), 5),
}


@pytest.mark.parametrize("space", [DISPLAY_P3, ADOBE_RGB], ids=["P3", "Adobe RGB"])
@pytest.mark.parametrize("edit", list(HONEST))
@pytest.mark.parametrize("name", ["astronaut", "coffee", "chelsea", "rocket"])
def test_an_edit_is_read_as_it_was_made(name: str, edit: str, space: bytes) -> None:
    photo = photograph(name)[::2, ::2]
    for numbers in (converted(photo, SRGB, space), photo):  # the latter with colours beyond sRGB
        source = Image.of(encoded(numbers, space))
        expected = Image.of(encoded(HONEST[edit](numbers), space))
        ignoring, aware = HONEST[edit](numbers), HONEST[edit](source.pixels)
        assert EditSample("a", "x", (source,), Image.of(ignoring)).edited == expected
        assert EditSample("a", "x", (source,), Image.of(aware)).edited == Image.of(aware)


@pytest.mark.parametrize("colour", [(1.15, 1.0, 0.8), (0.55, 0.55, 0.55), (1.2, 1.2, 1.2)])
def test_an_edit_that_recolours_everything_is_in_srgb(colour: tuple[float, float, float]) -> None:
    source = Image.of(encoded(IN_P3, DISPLAY_P3))
    edit = Image.of(np.clip(source.pixels * np.array(colour), 0, 255).astype(np.uint8))
    assert EditSample("a", "x", (source,), edit).edited is edit


def test_a_source_without_a_profile_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colour_profiles, "_thumbnail", lambda _: pytest.fail("compared"))
    source, edit = Image.of(encoded(COFFEE)), Image.of(encoded(IN_P3))
    assert EditSample("a", "x", (source,), edit).edited is edit


def blue_cup(pixels: Pixels) -> Pixels:
    """Another hue at the same brightness, inside of the cup's outline."""
    edited = redrawn(pixels)
    mask: Pixels = np.zeros(pixels.shape[:2], np.float32)
    cv2.ellipse(mask, (318, 195), (112, 138), 0, 0, 360, 1.0, -1)
    mask = cv2.GaussianBlur(mask, (0, 0), 3)[..., None]
    grey = cv2.cvtColor(edited, cv2.COLOR_RGB2GRAY)[..., None].astype(np.float32)
    return np.clip(
        edited * (1 - mask) + mask * np.concatenate([0.35 * grey, 0.6 * grey, 0.6 * grey + 90], 2), 0, 255
    ).astype(np.uint8)


def scored(source: object, edited: object) -> float:
    one = score(source, edited, "Change the color of the cup to blue", boxes=CUP)
    assert one.value is not None, one.reason
    return one.value


@pytest.mark.parametrize("space", [DISPLAY_P3, ADOBE_RGB], ids=["P3", "Adobe RGB"])
def test_no_reading_of_an_honest_edit_is_a_cast(space: bytes) -> None:
    plain = scored(COFFEE, blue_cup(COFFEE))
    assert plain > 0.9
    numbers = converted(COFFEE, SRGB, space)
    source = encoded(numbers, space)
    ignoring = blue_cup(numbers)
    readings = {"with it": encoded(ignoring, space), "converted": blue_cup(Image.of(source).pixels), "raw": ignoring}
    values = {name: scored(source, edit) for name, edit in readings.items()}
    assert min(values.values()) >= 0.97 * plain, values
    cast = np.clip(blue_cup(COFFEE) * np.array([1.12, 1.0, 0.8]), 0, 255).astype(np.uint8)
    assert scored(source, cast) < 0.6 * plain
    assert scored(source, encoded(cast, space)) < 0.6 * plain
