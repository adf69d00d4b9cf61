"""What other libraries set for all of the process decides nothing about our pictures: cut files above all."""

import io
from functools import cache
from typing import Any

import PIL.BmpImagePlugin
import PIL.GifImagePlugin
import PIL.Image
import PIL.ImageFile
import PIL.PngImagePlugin
import PIL.TiffImagePlugin
import pytest
import skimage.data

from editcritic.reward import Image, ImageError

SHARES = (0.02, 0.1, 0.25, 0.4, 0.6, 0.8, 0.9)
MISSING = (1, 2, 4, 8, 12, 16, 40, 100)
SETTINGS: dict[str, list[tuple[Any, str, Any]]] = {
    "truncated files": [(PIL.ImageFile, "LOAD_TRUNCATED_IMAGES", True)],
    "few pixels": [(PIL.Image, "MAX_IMAGE_PIXELS", 100)],
    "many pixels for a warning": [(PIL.Image, "MAX_IMAGE_PIXELS", 15_000)],
    "blocks": [(PIL.ImageFile, "MAXBLOCK", 2**30), (PIL.ImageFile, "SAFEBLOCK", 1)],
    "texts": [(PIL.PngImagePlugin, "MAX_TEXT_CHUNK", 1), (PIL.PngImagePlugin, "MAX_TEXT_MEMORY", 1)],
    "plugins": [
        (PIL.GifImagePlugin, "LOADING_STRATEGY", PIL.GifImagePlugin.LoadingStrategy.RGB_ALWAYS),
        (PIL.TiffImagePlugin, "READ_LIBTIFF", True),
        (PIL.BmpImagePlugin, "USE_RAW_ALPHA", True),
    ],
}


@cache
def photograph() -> PIL.Image.Image:
    return PIL.Image.fromarray(skimage.data.astronaut()[:240, 100:420]).resize((160, 120))


def file(kind: str, mode: str = "RGB", **options: Any) -> bytes:
    shown = photograph().copy()
    if mode == "RGBA":
        shown.putalpha(shown.convert("L"))
    buffer = io.BytesIO()
    (shown.quantize(64) if mode == "P" else shown.convert(mode)).save(buffer, kind, **options)
    return buffer.getvalue()


FILES = {
    "PNG": lambda: file("PNG"),
    "PNG with a transparent colour": lambda: file("PNG", "P", transparency=3),
    "JPEG": lambda: file("JPEG"),
    "progressive JPEG": lambda: file("JPEG", progressive=True),
    "WebP": lambda: file("WEBP"),
    "lossless WebP": lambda: file("WEBP", "RGBA", lossless=True),
    "GIF": lambda: file("GIF", "P", transparency=3, disposal=2),
    "BMP": lambda: file("BMP"),
    "BMP of 32 bits": lambda: file("BMP", "RGBA"),
    "BMP with a palette": lambda: file("BMP", "P"),
    "TIFF": lambda: file("TIFF"),
    "TIFF of strips": lambda: file("TIFF", strip_size=4096),
    "TIFF by LZW": lambda: file("TIFF", compression="tiff_lzw", strip_size=4096),
    "TIFF by deflate": lambda: file("TIFF", "P", compression="tiff_adobe_deflate"),
}


def read(data: bytes) -> str:
    try:
        return Image.of(data).digest
    except ImageError:
        return "damaged"


def cut(data: bytes) -> list[bytes]:
    return [data[: int(len(data) * share)] for share in SHARES] + [data[:-number] for number in MISSING]


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
def test_a_cut_file_is_damaged_whatever_is_set(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = FILES[kind]()
    digest = read(whole)
    assert digest != "damaged"
    as_it_is = [read(data) for data in cut(whole)]
    assert set(as_it_is[: len(SHARES)]) == {"damaged"}
    assert set(as_it_is) <= {"damaged", digest}  # a GIF's last bytes follow its pixels; some of a TIFF
    for settings in SETTINGS.values():
        with monkeypatch.context() as patch:
            for module, name, value in settings:
                patch.setattr(module, name, value, raising=False)
            assert [read(data) for data in (whole, *cut(whole))] == [digest, *as_it_is]


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.filterwarnings("error")
def test_warnings_that_are_errors_do_not_decide_about_a_picture(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = FILES[kind]()
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 15_000)  # of more, PIL warns
    assert read(whole) != "damaged"
    assert {read(data) for data in cut(whole)[: len(SHARES)]} == {"damaged"}


def corrupted(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :]


@pytest.mark.parametrize("kind", ["PNG", "PNG with a transparent colour", "JPEG", "GIF"])
def test_a_file_with_wrong_bytes_reads_the_same_with_truncated_files_allowed(kind, monkeypatch):
    whole = FILES[kind]()
    changed = [corrupted(whole, len(whole) * n // 60) for n in range(1, 60)]
    if b"tRNS" in whole:
        changed.append(corrupted(whole, whole.index(b"tRNS") + 4))
    as_it_is = [read(data) for data in changed]
    assert kind == "JPEG" or "damaged" in as_it_is
    monkeypatch.setattr(PIL.ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    assert [read(data) for data in changed] == as_it_is
