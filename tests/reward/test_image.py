"""A picture is its pixels: whatever route it came by, what was cut out of it, and whether it is still there."""

import hashlib
import pickle
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import editcritic.reward.image as image_module
from editcritic.reward import Image, ImageError
from editcritic.reward.image import PixelFormatError
from editcritic.reward.image_decoding import OVERSHOOT, decode_with_profile
from editcritic.reward.image_operations import apply_operation

from .fakes import picture

PIXELS = arrays.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(5, 9), st.just(3)))


@given(pixels=PIXELS)
def test_the_digest_does_not_depend_on_the_route(pixels, tmp_path_factory):
    folder = tmp_path_factory.mktemp("routes")
    shares = pixels / 255
    PIL.Image.fromarray(pixels).save(folder / "a.png")
    PIL.Image.open(folder / "a.png").save(folder / "b.png", compress_level=1)
    PIL.Image.fromarray(pixels).save(folder / "a.tiff")
    encoded = (folder / "b.png").read_bytes()
    routes = {
        "PIL": PIL.Image.fromarray(pixels),
        "opaque PIL": PIL.Image.fromarray(pixels).convert("RGBA"),
        "uint8": pixels,
        "in Fortran's order": np.asfortranarray(pixels),
        "mirrored twice": pixels[:, ::-1].copy()[:, ::-1],
        "uint16": pixels.astype(np.uint16) * 257,
        "big-endian uint16": (pixels.astype(np.uint16) * 257).astype(">u2"),
        "float64": shares,
        "float32": shares.astype(np.float32),
        "float16": shares.astype(np.float16),
        "opaque": np.dstack([pixels, np.full(pixels.shape[:2], 255, np.uint8)]),
        "PNG": folder / "a.png",
        "PNG by name": str(folder / "b.png"),
        "TIFF": folder / "a.tiff",
        "bytes": encoded,
        "bytearray": bytearray(encoded),
        "memoryview": memoryview(encoded),
        "PIL file": PIL.Image.open(folder / "a.png"),
        "image": Image.of(pixels),
        "pickled": pickle.loads(pickle.dumps(Image.of(pixels))),
    }
    images = {name: Image.of(value) for name, value in routes.items()}
    expected = Image.of(pixels)
    assert {name for name, image in images.items() if image.digest != expected.digest} == set()
    assert {name for name, image in images.items() if not np.array_equal(image.pixels, pixels)} == set()
    assert {image.size for image in images.values()} == {(pixels.shape[1], pixels.shape[0])}
    assert set(images.values()) == {expected}


def test_a_digest_is_the_same_in_every_version():
    # Logs and recordings outlive versions.
    digest = hashlib.sha256(b"editcritic image 1 3x2 " + bytes(18)).hexdigest()
    assert digest.startswith("30c397970e56")
    assert Image.of(np.zeros((2, 3, 3), np.uint8)).digest == digest
    flat = np.arange(36, dtype=np.uint8)
    assert len({Image.of(flat.reshape(shape)) for shape in [(3, 4, 3), (4, 3, 3), (2, 6, 3), (12, 1, 3)]}) == 4
    image = Image.from_digest("0123456789abcdef" * 4, (640, 480))
    assert (repr(image), image.width, image.height) == ("Image(640x480, 0123456789ab)", 640, 480)
    assert picture() not in (picture().digest, picture(1))


def test_pixels_are_private_and_crops_and_sizes_are_kept():
    buffer = np.zeros((4, 4, 3), np.uint8)
    image = Image.of(buffer)
    digest = image.digest
    buffer[:] = 255
    assert image.pixels.max() == 0
    assert Image.of(np.zeros((4, 4, 3), np.uint8)).digest == digest
    for pixels in (image.pixels, image.crop(0, 0, 2, 2).pixels, image.resized(2, 2).pixels):
        with pytest.raises(ValueError, match="read-only"):
            pixels[0, 0, 0] = 1
    copy = image.pil()
    copy.putpixel((0, 0), (9, 9, 9))
    assert image.pixels.max() == 0
    image = picture(3)
    crop = image.crop(1, 2, 7, 5)
    assert crop.pixels is crop.pixels, "they are kept, also before there is a digest"
    assert crop.digest == Image.of(image.pixels[2:5, 1:7]).digest
    assert image.crop(0, 0, 8, 8) is image.resized(8, 8) is image
    assert image.origin is None
    assert crop.origin == image.crop(*np.array([1, 2, 7, 5])).origin
    assert image.resized(*np.array([4, 5])).origin == image.resized(4, 5).origin
    with pytest.raises(TypeError):
        image.crop(0.5, 0, 4, 4)  # type: ignore[arg-type]
    for corners in ((0, 0, 0, 4), (4, 4, 2, 8), (-1, 0, 4, 4), (0, 0, 9, 8), (0, 0, 8, 9)):
        with pytest.raises(ImageError, match="is empty or outside of a 8 x 8 image"):
            image.crop(*corners)
    for size in ((0, 4), (4, -1)):
        with pytest.raises(ImageError, match="give at least 1 x 1"):
            image.resized(*size)
    image = picture(1, 20, 10)
    for how, resample in (("lanczos", PIL.Image.Resampling.LANCZOS), ("bicubic", PIL.Image.Resampling.BICUBIC)):
        expected = np.asarray(PIL.Image.fromarray(image.pixels).resize((7, 5), resample))
        assert image.resized(7, 5, how) == Image.of(expected)  # type: ignore[arg-type]
    blocks = image.pixels.reshape(5, 2, 5, 4, 3).astype(float).mean(axis=(1, 3))
    assert np.abs(image.resized(5, 5, "area").pixels - blocks).max() <= 0.5


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "cannot make an image from NoneType: give a path"),
        (7, "cannot make an image from int"),
        (np.zeros((2, 2, 2), np.uint8), r"expected an array of .* got \(2, 2, 2\)"),
        (np.zeros((0, 2, 3), np.uint8), r"got \(0, 2, 3\)"),
        (np.zeros(4, np.uint8), r"got \(4,\)"),
        (np.zeros((2, 4, 4, 3), np.uint8), r"got \(2, 4, 4, 3\)"),
        (np.full((4, 4, 3), 2.0), r"float pixels must lie in \[0, 1\], got \[2, 2\]"),
        (np.full((4, 4, 3), -0.5), r"got \[-0.5, -0.5\]"),
        (np.full((4, 4, 3), np.nan), "48 of 48 values are NaN or infinite: what made the picture has failed"),
        (np.where(np.arange(48).reshape(4, 4, 3), 0.5, np.inf), "1 of 48 values are NaN or infinite"),
        (np.zeros((4, 4, 3), np.int64), "expected uint8, uint16 or float pixels, got int64"),
        (np.zeros((4, 4, 3), bool), "got bool"),
        (np.zeros((4, 4, 3), complex), "got complex128"),
        (np.broadcast_to(np.uint8(0), (20_000, 20_000, 3)), "20,000 x 20,000 pixels, more than 120,000,000"),
    ],
    ids=lambda value: None,
)
def test_what_is_no_picture_is_refused(value, says):
    with pytest.raises(ImageError, match=says):
        Image.of(value)


@pytest.mark.parametrize(
    ("convert", "says"),
    [
        (lambda x: 2 * x - 1, r"got \[-1, 1\]: convert \[-1, 1\] with \(x \+ 1\) / 2"),
        (lambda x: 255 * x, r"got \[0, 255\]: convert .* \[0, 255\] with x / 255 or to uint8"),
        (lambda x: 1.02 * x, r"got \[0, 1.02\]"),
        (lambda x: x - 0.02, r"got \[-0.02, 0.98\]"),
        (lambda x: (65535 * x).astype(np.int32), "got int32"),
        (lambda x: x[:, :, :2], "expected an array of"),
    ],
)
def test_an_array_of_another_scale_type_or_shape_is_the_callers_mistake(convert, says):
    pixels = np.linspace(0, 1, 48).reshape(4, 4, 3)
    with pytest.raises(PixelFormatError, match=says):
        Image.of(convert(pixels))


def test_rounding_beyond_the_range_is_clipped_and_a_nan_is_no_mistake_of_the_caller():
    pixels = np.linspace(0, 1, 48).reshape(4, 4, 3)
    beyond = np.where(pixels == 1, 1 + OVERSHOOT, np.where(pixels == 0, -OVERSHOOT, pixels))
    assert Image.of(beyond) == Image.of(pixels)
    with pytest.raises(ImageError) as caught:
        Image.of(np.full((4, 4, 3), np.nan))
    assert not isinstance(caught.value, PixelFormatError)


@st.composite
def crops_of_crops(draw):
    pixels = draw(PIXELS)
    image, expected = Image.of(pixels), pixels
    for _ in range(draw(st.integers(0, 3))):
        x0, y0 = draw(st.integers(0, image.width - 1)), draw(st.integers(0, image.height - 1))
        x1, y1 = draw(st.integers(x0 + 1, image.width)), draw(st.integers(y0 + 1, image.height))
        image, expected = image.crop(x0, y0, x1, y1), expected[y0:y1, x0:x1]
    return image, expected


@given(crops_of_crops())
def test_a_crop_is_the_picture_of_its_pixels(cropped):
    image, expected = cropped
    assert image.size == (expected.shape[1], expected.shape[0])
    assert image == Image.of(expected)
    assert hash(image) == hash(Image.of(expected))
    assert np.array_equal(image.pixels, expected)
    assert pickle.loads(pickle.dumps(image)) == image


@pytest.fixture
def decoded(monkeypatch):
    """The names of decoded files; the cache is new."""
    names = []

    def noted(data, name, **options):
        names.append(name)
        return decode_with_profile(data, name, **options)

    monkeypatch.setattr(image_module, "decode_with_profile", noted)
    monkeypatch.setattr(image_module, "_cache", image_module.pixel_cache(10_000))
    return names


def saved(path, seed):
    picture(seed).pil().save(path)
    return path


def test_an_index_of_files_spares_decoding(tmp_path, decoded):
    index: dict[str, Any] = {}
    first = Image.open(saved(tmp_path / "a.png", 1), index=index)
    assert (len(decoded), len(index)) == (1, 1)
    evict()
    again = Image.open(tmp_path / "a.png", index=index)
    assert (again, again.size, len(decoded)) == (first, (8, 8), 1)
    assert np.array_equal(again.pixels, picture(1).pixels)
    assert len(decoded) == 2, "decoded on access to the pixels"
    assert Image.open(saved(tmp_path / "a.png", 2), index=index) == picture(2)
    assert len(index) == 2


def evict():
    image_module._cache.put("another", np.zeros(20_000, np.uint8))


def test_files_pin_no_pixels_and_changed_ones_are_errors(tmp_path, decoded):
    images = [Image.open(saved(tmp_path / f"{seed}.png", seed)) for seed in range(100)]
    for seed, image in enumerate(images):
        assert np.array_equal(image.pixels, picture(seed).pixels)
    assert image_module._cache.used <= 10_000 < 100 * 192
    assert len(decoded) > 150
    pixels = weakref.ref(images[-1].pixels)
    evict()
    assert pixels() is None
    image = Image.open(saved(tmp_path / "a.png", 1))
    evict()
    saved(tmp_path / "a.png", 2)
    with pytest.raises(ImageError, match=r"a\.png has changed since it was first read"):
        _ = image.pixels
    (tmp_path / "a.png").unlink()
    with pytest.raises(ImageError, match=r"cannot read image .*a\.png: No such file or directory"):
        _ = image.pixels
    assert image == picture(1), "its digest is still known"


def test_equal_crops_are_computed_once_by_any_thread(tmp_path, decoded, monkeypatch):
    image = Image.open(saved(tmp_path / "a.png", 1))
    crops = [image.crop(0, 0, 4, 4) for _ in range(50)]
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda crop: (crop.digest, crop.pixels.tobytes()), crops * 4)) == {
            (picture(1).crop(0, 0, 4, 4).digest, picture(1).pixels[:4, :4].tobytes())
        }
    computed = []

    def counted(operation, *parents):
        computed.append(operation)
        return apply_operation(operation, *parents)

    monkeypatch.setattr(image_module, "apply_operation", counted)
    digests = {picture(77).crop(0, 0, 4, 4).digest for _ in range(5)}
    assert (len(digests), len(computed)) == (1, 1)
    assert picture(77).crop(0, 0, 4, 4).resized(2, 2).digest == picture(77).crop(0, 0, 4, 4).resized(2, 2).digest
    assert len(computed) == 2


def test_unseen_pictures_equal_the_seen_and_have_stand_ins():
    image = picture(5)
    unseen = Image.from_digest(image.digest, image.size)
    assert unseen == image
    assert (unseen.seen, image.seen) == (False, True)
    assert pickle.loads(pickle.dumps(unseen)) == image
    with pytest.raises(ImageError, match=r"only the digest of image .* is known here"):
        _ = unseen.pixels
    with pytest.raises(ImageError, match="only the digest"):
        _ = unseen.crop(0, 0, 4, 4).pixels
    image = picture(6)
    crop = image.crop(1, 1, 6, 6).resized(3, 3)
    recorded = derived_digests(crop, image.crop(1, 1, 6, 6))
    assert Image.from_digest(image.digest, image.size, recorded).crop(1, 1, 6, 6).resized(3, 3) == crop
    image_module._derivations.clear()
    assert Image.from_digest(image.digest, image.size).crop(1, 1, 6, 6) != image.crop(1, 1, 6, 6)
    unseen = Image.from_digest("f" * 64, (8, 8))
    crops = [unseen.crop(0, 0, 4, 4), unseen.crop(0, 0, 4, 5), unseen.resized(4, 4)]
    assert len(set(crops)) == 3
    assert unseen.crop(0, 0, 4, 4) == crops[0]
    assert pickle.loads(pickle.dumps(crops[0])) == crops[0]
    left, right = picture(5, 6, 4), picture(6, 6, 4)
    pair = left.crop(0, 0, 3, 4).beside(right.painted((0, 0, 2, 2)), line=1)
    recorded = derived_digests(pair, *pair.parents)
    unseen_left, unseen_right = (Image.from_digest(image.digest, image.size, recorded) for image in (left, right))
    again = unseen_left.crop(0, 0, 3, 4).beside(unseen_right.painted((0, 0, 2, 2)), line=1)
    assert not again.seen
    assert again.digest == pair.digest


def derived_digests(*images):
    known = {}
    for image in images:
        assert image.origin is not None
        parent, operation = image.origin
        known[parent.digest, operation] = image.digest
    return lambda parent_digest, operation: known.get((parent_digest, operation))


def test_pictures_are_turned_and_tilted():
    pixels = picture(1).pixels
    image = Image.of(pixels)
    assert np.array_equal(image.turned(1).pixels, np.rot90(pixels, -1))
    assert np.array_equal(image.turned(3, mirrored=True).pixels, np.rot90(pixels[:, ::-1], -3))
    assert image.turned(1).size == image.size[::-1]
    assert image.turned(4) is image
    assert image.turned(2, mirrored=True).turned(2, mirrored=True) == image
    image = Image.of(np.full((60, 90, 3), 40, np.uint8))
    same, expanded, filled = (image.tilted(20, canvas) for canvas in ("same", "expanded", "filled"))
    assert same.size == filled.size == image.size
    assert expanded.size == (round(90 * 0.9397 + 60 * 0.3420), round(90 * 0.3420 + 60 * 0.9397))
    assert (same.pixels[0, 0] == 255).all()
    assert (filled.pixels == 40).all()
    assert image.tilted(0) is image
    pixels = np.zeros((41, 41, 3), np.uint8)
    pixels[18:23, 30:] = 255  # to the right of the middle
    assert Image.of(pixels).tilted(90).pixels[30:, 18:23].mean() > 200


def test_pictures_are_painted_pasted_and_put_side_by_side():
    image = picture(1, 12, 8)
    painted = image.painted((2, 1, 5, 4), (10, 6, 20, 20))
    expected = image.pixels.copy()
    expected[1:4, 2:5] = expected[6:8, 10:12] = 255
    assert painted == Image.of(expected)
    assert image.painted() is image
    outlined = Image.of(np.zeros((9, 9, 3), np.uint8)).outlined((2, 2, 7, 7), colour=(0, 255, 0), width=1)
    ring = np.zeros((9, 9), bool)
    ring[2:7, 2:7] = True
    ring[3:6, 3:6] = False
    assert ((outlined.pixels == (0, 255, 0)).all(axis=2) == ring).all()
    ground, part = picture(0, 6, 4), picture(1, 3, 2)
    both = ground.pasted(part, 2, 1)
    assert both.size == (6, 4)
    assert np.array_equal(both.pixels[1:3, 2:5], part.pixels)
    assert np.array_equal(both.pixels[0], ground.pixels[0])
    assert both.parents == (ground, part)
    with pytest.raises(ImageError, match="does not lie inside"):
        ground.pasted(part, 4, 1)
    left, right = picture(2, 4, 6), picture(3, 3, 6)
    pair = left.beside(right, line=2)
    assert pair.size == (9, 6)
    assert (pair.pixels[:, :4] == left.pixels).all()
    assert (pair.pixels[:, 4:6] == (255, 0, 0)).all()
    assert (pair.pixels[:, 6:] == right.pixels).all()
    assert pair.parents == (left, right)
    with pytest.raises(ImageError, match="side by side"):
        left.beside(picture(4, 3, 5))
