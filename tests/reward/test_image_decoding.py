"""Every file is decoded to upright 8-bit RGB, or raises an error that names it."""

import base64
import io
import struct
import zlib
from typing import Any

import numpy as np
import PIL.Image
import pytest

from editcritic.reward import Image, ImageError

RAMP = np.dstack([np.tile(np.arange(0, 240, 15, dtype=np.uint8), (12, 1))] * 3)
RAMP[:, :, 1] = np.arange(0, 240, 20, dtype=np.uint8)[:, None]


def encoded(picture, kind="PNG", **options):
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def pil(mode="RGB"):
    return PIL.Image.fromarray(RAMP).convert(mode)


def near(image, expected, tolerance):
    return np.abs(image.pixels.astype(int) - np.asarray(expected, int)).max() <= tolerance


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WebP"])
@pytest.mark.parametrize("form", ["{}", "data:image/x;base64,{}", "Data:;charset=utf-8;base64,{}"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.encodebytes])
def test_a_picture_may_be_held_by_a_text(kind, form, encode):
    data = encoded(pil(), kind)
    assert Image.of(form.format(encode(data).decode())) == Image.of(data)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("https://example.org/a.png", "is an address, and no file"),
        ("data:text/plain;base64,aGVsbG8=", "is a data URL that holds no picture"),
        ("data:image/png;base64,not base64", "is a data URL that holds no picture"),
        (
            base64.b64encode(b"no picture" * 300).decode(),
            r"cannot read image bm8gcGlj\S{72}… \(4,000 characters\): File name",
        ),
        ("data:image/png;base64,é", "is a data URL that holds no picture"),
        (f"{'a' * 70}é", "No such file"),
        ("folder/" * 10 + "x", "No such file"),
    ],
)
def test_a_text_that_holds_none_is_a_path_or_an_address(text, problem):
    with pytest.raises(ImageError, match=problem):
        Image.of(text)


def test_what_is_transparent_lies_on_white():
    alpha = np.zeros(RAMP.shape[:2], np.uint8)
    alpha[:4], alpha[4:8] = 255, 128
    expected = RAMP.astype(float)
    expected[8:] = 255
    expected[4:8] = (expected[4:8] * 128 + 255 * 127) / 255
    rgba = np.dstack([RAMP, alpha])
    for route in (rgba, PIL.Image.fromarray(rgba), encoded(PIL.Image.fromarray(rgba)), rgba / 255):
        assert near(Image.of(route), expected, 1)
    grey = PIL.Image.merge("LA", [pil("L"), PIL.Image.new("L", pil().size, 0)])
    assert near(Image.of(encoded(grey)), np.full(RAMP.shape, 255), 0)
    palette = PIL.Image.new("P", (4, 2), 0)
    palette.putpalette([200, 0, 0, 0, 200, 0])
    palette.putpixel((3, 1), 1)
    expected = np.full((2, 4, 3), 255, np.uint8)
    expected[1, 3] = (0, 200, 0)
    for kind in ("PNG", "GIF"):
        assert np.array_equal(Image.of(encoded(palette, kind, transparency=0)).pixels, expected)
    assert Image.of(encoded(palette)).pixels[0, 0].tolist() == [200, 0, 0]
    picture = PIL.Image.new("RGB", (2, 1), (10, 20, 30))
    picture.putpixel((1, 0), (9, 9, 9))
    assert Image.of(encoded(picture, transparency=(10, 20, 30))).pixels.tolist() == [[[255] * 3, [9] * 3]]


@pytest.mark.parametrize("mode", ["1", "L"])
def test_one_channel_becomes_three(mode):
    pixels = Image.of(encoded(pil(mode))).pixels
    assert np.array_equal(pixels, np.asarray(pil(mode).convert("RGB")))
    assert np.array_equal(pixels[:, :, 0], pixels[:, :, 2])


@pytest.mark.parametrize(("kind", "options"), [("JPEG", {"quality": 100, "subsampling": 0}), ("TIFF", {})])
def test_cmyk_becomes_the_colours_it_prints(kind, options):
    assert near(Image.of(encoded(pil("CMYK"), kind, **options)), RAMP, 6)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_are_scaled_to_eight(kind):
    values = np.array([[0, 128, 257, 32767, 32768, 65534, 65535]], np.uint16)
    pixels = Image.of(encoded(PIL.Image.fromarray(values), kind)).pixels
    assert pixels[0, :, 0].tolist() == [0, 0, 1, 127, 128, 255, 255]


def test_deep_integer_and_float_pixels_are_scaled_or_refused():
    row = b"".join(struct.pack(">BHHH", 0, 65535, 32896, 0) for _ in range(1))
    pixels = Image.of(png(1, 1, row, depth=16)).pixels
    assert pixels.tolist() == [[[255, 128, 0]]]
    wide = encoded(PIL.Image.fromarray(np.array([[0, 1_000_000]], np.int32)), "TIFF")
    with pytest.raises(ImageError, match=r"encoded image: integer pixels must lie in \[0, 65535\], got \[0, 1000000\]"):
        Image.of(wide)
    shares = PIL.Image.fromarray((RAMP[:, :, 0] / 255).astype(np.float32))
    assert np.array_equal(Image.of(encoded(shares, "TIFF")).pixels[:, :, 0], RAMP[:, :, 0])
    with pytest.raises(ImageError, match="encoded image: float pixels must lie in"):
        Image.of(encoded(PIL.Image.fromarray(RAMP[:, :, 0].astype(np.float32)), "TIFF"))


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP"])
def test_of_an_animation_the_first_frame_is_taken(kind):
    frames = [PIL.Image.new("RGB", (6, 5), (shade, shade, shade)) for shade in (200, 100, 0)]
    data = encoded(frames[0], kind, save_all=True, append_images=frames[1:], duration=40, lossless=True)
    opened: Any = PIL.Image.open(io.BytesIO(data))
    assert near(Image.of(data), np.full((5, 6, 3), 200), 1)
    assert opened.n_frames == 3


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
def test_a_picture_is_upright_whatever_its_exif_says(orientation, kind):
    # The stored pixels of a camera in this orientation, such that the upright image is the ramp.
    stored = {
        1: RAMP,
        2: RAMP[:, ::-1],
        3: RAMP[::-1, ::-1],
        4: RAMP[::-1],
        5: RAMP.transpose(1, 0, 2),
        6: np.rot90(RAMP),
        7: RAMP[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(RAMP, -1),
    }[orientation]
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    options = {"quality": 100, "subsampling": 0} if kind == "JPEG" else {}
    image = Image.of(encoded(PIL.Image.fromarray(np.ascontiguousarray(stored)), kind, exif=exif, **options))
    assert image.size == (16, 12)
    assert near(image, RAMP, 6)


@pytest.mark.parametrize("size", [(1, 1), (200, 1), (1, 200), (32_768, 164)])
def test_odd_sizes_are_read(size):
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    assert Image.of(encoded(PIL.Image.fromarray(pixels))) == Image.of(pixels)


def png(width, height, rows, depth=8):
    """An RGB PNG with this size in its header, and these rows."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, depth, 2, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


BOMB, LESSER_BOMB = png(60_000, 60_000, b""), png(16_000, 10_000, b"")
UNREADABLE = {
    "zero bytes": (b"", "is empty (zero bytes)"),
    "text": (b"not a picture at all", "is not an image that can be read: save it as PNG (what is read here: PNG,"),
    "truncated PNG": (encoded(pil())[:-40], "is damaged"),
    "truncated JPEG": (encoded(PIL.Image.effect_noise((64, 64), 90), "JPEG")[:-400], "is damaged"),
    "only a header": (png(100, 100, b""), "is damaged"),
    "bomb": (BOMB, "has 60,000 x 60,000 pixels, more than 120,000,000: refused without decoding"),
    "lesser bomb": (LESSER_BOMB, "has 16,000 x 10,000 pixels, more than 120,000,000: refused without decoding"),
}


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.filterwarnings("error")
def test_a_file_that_cannot_be_read_is_named(name, tmp_path):
    data, says = UNREADABLE[name]
    path = tmp_path / "odd one.png"
    path.write_bytes(data)
    with pytest.raises(ImageError) as caught:
        Image.of(path)
    assert str(caught.value).count(str(path)) == 1
    assert says in str(caught.value)


def test_a_pil_image_that_cannot_be_decoded_is_named_too(tmp_path):
    path = tmp_path / "short.png"
    path.write_bytes(UNREADABLE["truncated PNG"][0])
    with pytest.raises(ImageError, match=f"{path} is damaged"):
        Image.of(PIL.Image.open(path))
    closed = pil()
    closed.close()
    with pytest.raises(ImageError, match="PIL image is damaged"):
        Image.of(closed)
