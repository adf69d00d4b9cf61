"""Pictures that strangers crafted: refused by their header, in linear time, or decoded without what is none of it."""

import ast
import io
import logging
import random
import struct
import warnings
import zlib
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import PIL.features
import PIL.Image
import pytest

from editcritic.reward import Image, ImageError, encoded_images
from editcritic.reward.encoded_images import FILE_FORMATS, MAX_CHUNKS, WEB_FORMATS, ImageSizeError, read_header
from editcritic.reward.image_decoding import decode, size_of

ROOT = Path(__file__).parents[2]
decode_stored = partial(decode, reading="stored")
"""The reading of released code, for which the limits are the same."""
RAMP = np.dstack([np.tile(np.arange(0, 240, 5, dtype=np.uint8), (32, 1))] * 3)
RAMP[:, :, 1] = np.arange(0, 160, 5, dtype=np.uint8)[:, None]


def encoded(kind: str = "PNG", mode: str = "RGB", **options: Any) -> bytes:
    buffer = io.BytesIO()
    PIL.Image.fromarray(RAMP).convert(mode).save(buffer, kind, **options)
    return buffer.getvalue()


def png_chunk(name: bytes, data: bytes = b"") -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, *chunks: bytes, depth: int = 8, colour: int = 2) -> bytes:
    head = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(chunks) + png_chunk(b"IEND")


def with_chunks(*chunks: bytes) -> bytes:
    """A sound PNG with these chunks after its header."""
    data = encoded()
    return data[:33] + b"".join(chunks) + data[33:]


def with_segments(*segments: bytes) -> bytes:
    """A sound JPEG with these segments in front."""
    data = encoded("JPEG")
    return data[:2] + b"".join(segments) + data[2:]


def segment(marker: int, data: bytes) -> bytes:
    return bytes((0xFF, marker)) + struct.pack(">H", len(data) + 2) + data


def many_scans(count: int) -> bytes:
    """A progressive JPEG whose last scan is there `count` times more."""
    data = encoded("JPEG", progressive=True)
    start = data.rindex(b"\xff\xda")
    return data[:-2] + data[start:-2] * count + data[-2:]


def exif_junk(tags: int, kind: int = 99, length: int = 10**6) -> bytes:
    """A directory of tags that claim more than there is."""
    entries = b"".join(struct.pack("<HHII", 40_000 + number, kind, length, 8) for number in range(tags))
    return b"Exif\0\0II*\0\x08\0\0\0" + struct.pack("<H", tags) + entries + bytes(4)


def im_in_webp(width: int, height: int) -> bytes:
    """An IM file that begins as a WebP does."""
    sound = encoded("WEBP", lossless=True)
    header = f"\r\nImage type: L image\r\nImage size (x*y): {width}*{height}\r\nFile size (no of images): 1\r\n"
    return sound[:16] + header.encode() + b"\x1a" + bytes(500)


def test_the_first_bytes_decide_the_format_also_of_opened_pil_images():
    for kind in ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"):
        picture = read_header(encoded(kind))
        assert (picture.format.upper(), picture.size) == (kind, (48, 32))
    for kind in ("GIF", "BMP", "TIFF"):
        for read in (size_of, decode, decode_stored):
            with pytest.raises(ImageError, match=rf"^x is a {kind} file: save it as PNG \(.*: PNG, JPEG, WebP\)$"):
                read(encoded(kind), "x", WEB_FORMATS)
    opened = PIL.Image.open(io.BytesIO(many_scans(200)))
    with pytest.raises(ImageSizeError, match=r"PIL image has 210 scans .* at most 100 are accepted"):
        Image.of(opened)
    for kind in ("PNG", "JPEG", "WEBP"):
        data = encoded(kind)
        used = PIL.Image.open(io.BytesIO(data))
        used.load()
        assert Image.of(PIL.Image.open(io.BytesIO(data))) == Image.of(data) == Image.of(used)


@pytest.mark.parametrize(
    ("kind", "mode"), [("PPM", "RGB"), ("EPS", "RGB"), ("PDF", "RGB"), ("IM", "RGB"), ("ICNS", "RGBA"), ("TGA", "RGB")]
)
def test_decoders_without_bounds_are_never_reached(kind: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(kind, mode)
    monkeypatch.setattr(PIL.Image, "open", lambda *_, **__: pytest.fail("a decoder was tried"))
    with pytest.raises(ImageError, match=r"is not an image that can be read: save it as PNG \("):
        Image.of(data)


def test_what_begins_as_webp_or_is_said_twice_is_damage(tmp_path):
    data = im_in_webp(12_000, 12_000)
    (tmp_path / "a.webp").write_bytes(data)
    for value in (data, tmp_path / "a.webp"):
        with pytest.raises(ImageError, match="is damaged"):
            Image.of(value)
    canvas = b"VP8X" + struct.pack("<I", 10) + bytes(4) + (39).to_bytes(3, "little") * 2
    webp = encoded("WEBP", lossless=True)
    data = webp[:12] + canvas + webp[12:]
    first_frame = bytearray(encoded("GIF"))
    first_frame[6:10] = struct.pack("<HH", 4, 4)
    transparent = with_chunks(*[png_chunk(b"tRNS", bytes(6))] * 2)  # 90,000 of them took a second
    two_headers = with_chunks(png_chunk(b"IHDR", struct.pack(">IIBBBBB", 6000, 6000, 8, 2, 0, 0, 0)))
    for crafted in (data, bytes(first_frame), two_headers, transparent):
        with pytest.raises(ImageError, match="is damaged"):
            Image.of(crafted)
        with pytest.raises(ImageError, match="is damaged"):
            decode_stored(crafted, "x")


def test_all_pictures_are_opened_in_one_place() -> None:
    """PIL tries decoder after decoder; cv2 and others do too. What they open elsewhere is our own data."""
    own_data = {"reward/audit/whole_picture_changes.py", "reward/experts/pixel_changes.py"}
    found = set()
    for folder in ("reward", "cli", "benchmarks", "integrations", "verifiers"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
                if called in ("PIL.Image.open", "cv2.imdecode", "cv2.imread", "imageio.imread", "decode_image"):
                    found.add(path.relative_to(ROOT).as_posix())
    found -= {"integrations/serving/http_protocol.py"}  # a function of its own with this name
    assert found == own_data


@pytest.mark.parametrize(
    ("size", "says"),
    [
        ((1, 36_000_000), "a side may have 32,768"),
        ((1, 500_000), "a side may have 32,768"),
        ((40_000, 3_000), "a side may have 32,768"),
        ((201, 1), "a side may be 200 times as long as the other"),
        ((11_000, 11_000), "more than 120,000,000"),
        ((2**31 - 1, 2**31 - 1), "more than 120,000,000"),
    ],
)
def test_a_size_is_refused_by_the_header(size: tuple[int, int], says: str) -> None:
    for read in (size_of, decode, decode_stored):
        with pytest.raises(ImageSizeError, match=f"^x has {size[0]:,} x {size[1]:,} pixels.*{says}.*without decoding"):
            read(png(*size, png_chunk(b"IDAT")), "x")


def test_scans_are_counted_wherever_they_hide():
    assert Image.of(many_scans(80)).size == (48, 32)
    with pytest.raises(ImageSizeError, match=r"^x has 810 scans of 48 x 32 pixels, and at most 100 are accepted"):
        decode(many_scans(800), "x")
    data = many_scans(30)
    frame = data.index(b"\xff\xc2")
    large = data[: frame + 5] + struct.pack(">HH", 6000, 6000) + data[frame + 9 :]
    with pytest.raises(ImageSizeError, match=r"40 scans of 6,000 x 6,000 pixels, and at most 20"):
        size_of(large, "x")
    data = encoded("JPEG", progressive=True)
    start = data.rindex(b"\xff\xda")
    for hidden in (b"\xff\xff", b"junk", segment(0xE5, b"abc"), b"\xff\x00"):
        with pytest.raises(ImageSizeError, match="scans"):
            Image.of(data[:-2] + (hidden + data[start:-2]) * 200 + data[-2:])
    preview = b"Exif\0\0" + b"\xff\xda" * 500
    assert Image.of(with_segments(segment(0xE1, preview))) == Image.of(encoded("JPEG"))


@pytest.mark.parametrize("marker", [0xC3, 0xC9, 0xCA])
def test_unusual_jpegs_are_refused(marker: int) -> None:
    data = encoded("JPEG")
    frame = data.index(b"\xff\xc0")
    with pytest.raises(ImageError, match="arithmetic-coded, lossless or hierarchical"):
        Image.of(data[: frame + 1] + bytes((marker,)) + data[frame + 2 :])


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WebP", "GIF"])
def test_pieces_of_a_file_are_counted(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded_images, "MAX_CHUNKS", 50)
    webp, gif = encoded("WEBP", lossless=True), encoded("GIF")
    crafted = {
        "PNG": with_chunks(*[png_chunk(b"abCd")] * 60),
        "JPEG": with_segments(*[segment(0xE7, b"")] * 60),
        "WebP": webp + (b"junk" + bytes(4)) * 60,
        "GIF": gif[:13] + gif[13:].replace(b"\x2c", b"\x21\xfe\x00" * 60 + b"\x2c", 1),
    }
    with pytest.raises(ImageSizeError, match="and at most 50 are accepted"):
        Image.of(crafted[kind])


def test_what_costs_time_is_refused_for_its_size(monkeypatch):
    head = b"\x2f" + struct.pack("<I", 5999 | 5999 << 14)
    canvas = b"VP8X" + struct.pack("<I", 10) + bytes(4) + (5999).to_bytes(3, "little") * 2
    chunk = struct.pack("<I", 5) + head + b"\0"
    for body in (b"VP8L" + chunk, canvas + b"ALPH" + chunk, canvas + b"ANMF" + bytes(24) + b"VP8L" + chunk):
        picture = read_header(b"RIFF" + struct.pack("<I", len(body) + 4) + b"WEBP" + body)
        assert picture.size == (6000, 6000)
        assert 2 < encoded_images.decoding_seconds(picture) < 2.5
    empty = zlib.compress(b"")[2:4] * 500_000
    with pytest.raises(ImageError, match="1,000,014 compressed bytes, more than its pixels need"):
        Image.of(png(8, 8, png_chunk(b"IDAT", b"\x78\x9c" + empty)))
    monkeypatch.setattr(encoded_images, "_SECONDS", -9.0)
    for kind in ("PNG", "JPEG"):
        with pytest.raises(ImageError, match=r"takes longer than .* to decode, for its size"):
            Image.of(encoded(kind))


@pytest.mark.parametrize("kind", [2, 3, 5, 7, 99])
@pytest.mark.parametrize("format_name", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("exif", ["many tags", "claims", "loops"])
def test_junk_in_exif_is_neither_read_nor_logged(kind, format_name, exif, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    junk = {
        "many tags": exif_junk(5000, kind),
        "claims": exif_junk(900, kind, 2**32 - 1),
        "loops": b"Exif\0\0II*\0\x08\0\0\0" + struct.pack("<HHHIII", 1, 34665, 4, 1, 8, 8),
    }[exif]
    data = with_segments(segment(0xE1, junk)) if format_name == "JPEG" else encoded(format_name, exif=junk)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Image.of(data).size == (48, 32)
        used = Image.of(data).pil()
        used.info["exif"] = junk
        assert Image.of(used) == Image.of(data)
    assert len(caplog.records) < 10  # one for each chunk of pixels, at the level of debugging
    assert capfd.readouterr() == ("", "")


def test_tags_and_chunks_that_decide_no_pixel_are_not_opened(caplog):
    bomb = zlib.compress(bytes(2**26))
    chunks = [
        png_chunk(b"iCCP", b"a\0\0" + bomb),
        png_chunk(b"zTXt", b"a\0\0" + bomb),
        png_chunk(b"iTXt", b"a\0\x01\0\0\0" + bomb),
        png_chunk(b"zTXt", b"Raw profile type exif\0\0" + bomb),
        png_chunk(b"iTXt", b"XML:com.adobe.xmp\0\x01\0\0\0" + bomb),
    ]
    assert Image.of(with_chunks(*chunks * 20)) == Image.of(encoded())
    caplog.set_level(logging.WARNING)
    data = bytearray(encoded("TIFF", tiffinfo={33432: "somebody", 700: b"x" * 1000}))
    data = data.replace(struct.pack("<HH", 33432, 2), struct.pack("<HH", 34665, 4))  # a directory within: nowhere
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Image.of(bytes(data)) == Image.of(RAMP)
    assert caplog.text == ""


@pytest.mark.parametrize("damage", [b"", b"\xff" * 8])
def test_chunks_of_one_keyword_are_inflated_once(damage: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten megabytes of them took a minute. A megabyte of what comes out is looked at, and no more."""
    inflated: list[int] = []

    class Counted:
        def decompress(self, data: bytes, limit: int) -> bytes:
            text = zlib.decompressobj().decompress(data, limit)
            inflated.append(len(text))
            return text

    monkeypatch.setattr(encoded_images, "zlib", Mock(wraps=zlib, decompressobj=Counted))
    bomb = zlib.compress(bytes(2**20))[: -len(damage) or None] + damage
    chunks = [
        png_chunk(b"zTXt", b"Raw profile type exif\0\0" + bomb),
        png_chunk(b"zTXt", b"XML:com.adobe.xmp\0\0" + bomb),
        png_chunk(b"iTXt", b"XML:com.adobe.xmp\0\x01\0\0\0" + bomb),
        png_chunk(b"iCCP", b"a\0\0" + bomb),
    ]
    assert Image.of(with_chunks(*chunks * 100)) == Image.of(encoded())
    assert len(inflated) <= 3
    assert sum(inflated) <= encoded_images._MAX_METADATA + encoded_images.MAX_PROFILE_BYTES + 1


def test_an_orientation_counts_wherever_it_is_written() -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 3
    raw = exif.tobytes()
    xmp = b'<x tiff:Orientation="3"/>'
    profile = b"\nexif\n%8d\n%s\n" % (len(raw), raw.hex().encode())
    written = {
        "eXIf": with_chunks(png_chunk(b"eXIf", raw[6:])),
        "raw profile": with_chunks(png_chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(profile))),
        "XMP in PNG": with_chunks(png_chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp)),
        "compressed XMP": with_chunks(png_chunk(b"iTXt", b"XML:com.adobe.xmp\0\x01\0\0\0" + zlib.compress(xmp))),
        "WebP": encoded("WEBP", lossless=True, exif=raw),
        "XMP in WebP": encoded("WEBP", lossless=True, xmp=xmp),
        "TIFF": encoded("TIFF", exif=exif),
    }
    expected = Image.of(RAMP[::-1, ::-1])
    assert {name for name, data in written.items() if Image.of(data) != expected} == set()
    jpeg = Image.of(encoded("JPEG")).pixels[::-1, ::-1]
    for head in (raw, b"http://ns.adobe.com/xap/1.0/\0" + xmp):
        assert np.array_equal(Image.of(with_segments(segment(0xE1, head))).pixels, jpeg)


def tiff(**changes: tuple[int, int, int]) -> bytes:
    """A TIFF whose tag, as in `t259`, has another type, count and value."""
    data = bytearray(encoded("TIFF", compression="tiff_lzw"))
    start = struct.unpack_from("<I", data, 4)[0]
    for position in range(start + 2, start + 2 + 12 * struct.unpack_from("<H", data, start)[0], 12):
        tag = struct.unpack_from("<H", data, position)[0]
        if f"t{tag}" in changes:
            struct.pack_into("<HII", data, position + 2, *changes[f"t{tag}"])
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (tiff(t259=(3, 1, 7)), "is a TIFF of compression 7: save it as PNG"),
        (tiff(t273=(4, 10**6, 8)), "1,000,000 values of the tag 273, and at most 100,000"),
        (tiff(t279=(4, 1, 10**9)), "its strips or tiles are longer than the file"),
        (tiff(t256=(4, 1, 10**6)), "a side may have 32,768"),
        (b"II*\0\x08\0\0\0" + struct.pack("<H", 60_000) + bytes(12 * 60_000), "60,000 tags, and at most 1,000"),
        (b"BM" + bytes(12) + struct.pack("<IiiHHI", 40, 48, 32, 1, 8, 1) + bytes(60), "is a compressed BMP"),
    ],
    ids=["compression", "strips", "overlapping", "size", "tags", "BMP"],
)
def test_old_formats_are_read_in_their_plain_kinds(data: bytes, says: str) -> None:
    with pytest.raises(ImageError, match=says):
        Image.of(data)


SEEDS = [
    encoded(),
    encoded("PNG", "P"),
    encoded("PNG", "RGBA", exif=exif_junk(3)),
    with_chunks(png_chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(b"\nexif\n4\n49492a00"))),
    encoded("JPEG"),
    encoded("JPEG", progressive=True),
    encoded("JPEG", "CMYK"),
    with_segments(segment(0xE1, exif_junk(5))),
    encoded("WEBP"),
    encoded("WEBP", lossless=True),
    encoded("WEBP", "RGBA", exif=exif_junk(3)),
    encoded("GIF"),
    encoded("BMP"),
    encoded("TIFF"),
    encoded("TIFF", compression="tiff_lzw"),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("read", [decode, decode_stored])
def test_two_thousand_mutations_are_pixels_or_an_image_error(read, capfd):
    draw = random.Random(28)
    outcomes, unnamed = {"pixels": 0, "refused": 0}, 0
    for number in range(2000):
        data = bytearray(SEEDS[number % len(SEEDS)])
        for _ in range(draw.randint(1, 6)):
            position = draw.randrange(min(len(data), draw.choice((40, 200, 10**6))))
            kind = draw.randrange(4)
            if kind == 0:
                data[position] = draw.randrange(256)
            elif kind == 1:
                data[position : position + 4] = draw.choice((b"\xff\xff\xff\xff", bytes(4), b"\x7f\xff\xff\xff"))
            elif kind == 2:
                data[position:position] = data[position : position + draw.randrange(64)] * draw.randrange(8)
            else:
                del data[position : position + draw.randrange(16)]
        try:
            pixels = read(bytes(data), "encoded image")
        except ImageError as error:
            unnamed += not str(error).startswith("encoded image")
            outcomes["refused"] += 1
        else:
            assert (pixels.ndim, pixels.shape[2], pixels.dtype.name) == (3, 3, "uint8")
            outcomes["pixels"] += 1
    assert not unnamed
    assert min(outcomes.values()) > 200, outcomes
    printed = capfd.readouterr()
    assert {line.split(":")[0] for line in printed.err.splitlines()} <= {"tempfile.tif"}  # libtiff, once for a file
    assert printed.err.count("\n") < 2000
    assert printed.out == ""


def test_the_limits_are_those_that_the_documents_name() -> None:
    text = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    for named in (encoded_images.MAX_PIXELS, encoded_images.MAX_SIDE, encoded_images.MAX_SCANS, MAX_CHUNKS):
        assert f"{named:,}" in text
    assert f"({', '.join(WEB_FORMATS)})" in text
    assert all(name in text for name in FILE_FORMATS)
