"""The slowest pictures of 10 MB and 36 megapixels that we know, and who waits for them.

    python -m tests.integrations.serving.worst_pictures [--server]

Prints the processor's seconds that each takes, whether it is read or refused, beside honest pictures of as many pixels;
with `--server`, how long an honest client waits at most for its answers while ten of them are sent at once.
"""

from __future__ import annotations

import argparse
import io
import json
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import httpx2
import numpy as np
import PIL.Image

from editcritic.integrations.serving.server.app import serve_in_thread
from editcritic.integrations.serving.server.decoding import decode_bounded
from editcritic.integrations.serving.server.service import ScoringService
from editcritic.integrations.serving.server.settings import ServerConfig
from editcritic.reward import ImageError, Reward, encoded_images
from editcritic.reward.image_decoding import decode, image_errors

from ...reward.fakes import Fake, Rated
from ...reward.test_encoded_images import exif_junk, png_chunk, segment

SIDE = 6000
MAX_BYTES = 10_000_000


def png(depth: int = 8, colour: int = 2, interlaced: bool = False, between: bytes = b"") -> bytes:
    """Black, with chunks after the header."""
    bits = depth * {2: 3, 6: 4}[colour]
    widths, heights = ([750, 750, 1500, 1500, 3000, 3000, 6000], [750, 750, 750, 1500, 1500, 3000, 3000])
    passes = zip(widths, heights, strict=True) if interlaced else [(SIDE, SIDE)]
    idat = zlib.compress(bytes(sum(height * (1 + width * bits // 8) for width, height in passes)), 9)
    head = struct.pack(">IIBBBBB", SIDE, SIDE, depth, colour, 0, 0, int(interlaced))
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head) + between + png_chunk(b"IDAT", idat) + png_chunk(b"IEND")


def filled(chunk: bytes, size: int = MAX_BYTES) -> bytes:
    return chunk * min(encoded_images.MAX_CHUNKS - 10, size // len(chunk))


def zeros(size: int) -> bytes:
    return zlib.compress(bytes(size), 9)


def saved(kind: str, pixels: np.ndarray[Any, Any] | None = None, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image = PIL.Image.new("RGB", (SIDE, SIDE)) if pixels is None else PIL.Image.fromarray(pixels)
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def progressive(scans: int) -> bytes:
    """With its last scan as often as it may be there."""
    data = saved("JPEG", progressive=True, subsampling=0, quality=95)
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * (scans - data.count(b"\xff\xda") + 1) + data[-2:]


def sparse_progressive(scans: int) -> bytes:
    """Each further scan refines one bit of all 63 coefficients of the first component."""
    data = saved("JPEG", photograph(), progressive=True, subsampling=0, quality=30)
    last = data.rindex(b"\xff\xda")
    room = max(1, (MAX_BYTES - len(data)) // max(1, len(data) - 2 - last))
    return data[:last] + data[last:-2] * min(room, scans - data.count(b"\xff\xda") + 1) + data[-2:]


def photograph() -> np.ndarray[Any, Any]:
    from skimage.data import astronaut

    tile = astronaut()
    return np.tile(tile, (12, 12, 1))[:SIDE, :SIDE]


def webp() -> bytes:
    """Lossless, with 65,536 groups of prefix codes, another one for every 4 x 4 pixels, and a bit a pixel."""

    def spelled(fields: list[tuple[int, int]]) -> np.ndarray[Any, Any]:
        return np.array([value >> n & 1 for value, count in fields for n in range(count)], np.uint8)

    one = [(1, 1), (0, 1), (0, 1), (0, 1)]  # a simple code of one symbol of one bit, zero
    two = [(1, 1), (1, 1), (1, 1), (0, 8), (255, 8)]
    eight = [(0, 1), (8, 4), *((int(n == 8), 3) for n in (17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8)), (0, 1)]
    # The picture of groups: red and green of each tile are the number, by two codes of eight bits.
    order = (17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8)
    green = [(0, 1), (8, 4), *((int(n in (8, 18)), 3) for n in order), (0, 1), (0, 256), (1, 1), (13, 7)]
    prefix = [(0x2F, 8), (SIDE - 1, 14), (SIDE - 1, 14), (1, 1), (0, 3), (0, 1), (0, 1), (1, 1), (0, 3), (0, 1)]
    random = np.random.default_rng(0)
    tiles = (SIDE // 4) ** 2
    numbers = np.unpackbits(random.integers(0, 256, 2 * tiles, dtype=np.uint8))
    all_groups = np.tile(spelled([*two, *one * 4]), 65_536)
    pixels = random.integers(0, 256, SIDE * SIDE // 8 + 8, dtype=np.uint8)
    parts = [spelled([*prefix, *green, *eight, *one * 3]), numbers, all_groups]
    data = np.packbits(np.concatenate(parts), bitorder="little").tobytes() + pixels.tobytes()
    data += bytes(len(data) % 2)
    return b"RIFF" + struct.pack("<I", len(data) + 12) + b"WEBPVP8L" + struct.pack("<I", len(data)) + data


def gif(blocks: bytes, side: int = SIDE) -> bytes:
    head = b"GIF89a" + struct.pack("<HHBBB", side, side, 0x80, 0, 0) + bytes(6)
    return head + blocks + b";"


def gif_clears() -> bytes:
    """A frame of clear codes, which make no pixel."""
    data = b"\x24\x49\x92" * (MAX_BYTES // 3)  # 100 in three bits, again and again
    pieces = b"".join(bytes([255]) + data[n : n + 255] for n in range(0, len(data) - 255, 255))
    return gif(b"," + struct.pack("<HHHHB", 0, 0, SIDE, SIDE, 0) + b"\x02" + pieces[: MAX_BYTES - 100] + b"\0")


def pictures() -> Mapping[str, Callable[[], bytes]]:
    exif = segment(0xE1, exif_junk(1000))
    jpeg = saved("JPEG", quality=50)
    return {
        "PNG, one keyword": lambda: png(between=filled(png_chunk(b"zTXt", b"XML:com.adobe.xmp\0\0" + zeros(2**20)))),
        "PNG, damaged texts": lambda: png(
            between=filled(png_chunk(b"zTXt", b"Raw profile type exif\0\0" + zeros(2**20)[:-30] + b"\xff" * 20))
        ),
        "PNG, profiles": lambda: png(between=filled(png_chunk(b"iCCP", b"a\0\0" + zeros(2**20)))),
        "PNG, chunks": lambda: png(between=filled(png_chunk(b"tEXt", b"a\0"))),
        "PNG, interlaced, 16 bits": lambda: png(16, 6, interlaced=True),
        "PNG, 16 bits": lambda: png(16, 6),
        "JPEG, 20 scans": lambda: progressive(encoded_images._USUAL_SCANS),
        "JPEG, photograph, scans": lambda: sparse_progressive(encoded_images._USUAL_SCANS),
        "JPEG, segments": lambda: jpeg[:2] + filled(segment(0xE1, b"a")) + jpeg[2:],
        "JPEG, EXIF": lambda: jpeg[:2] + filled(exif) + jpeg[2:],
        "JPEG, restarts": lambda: saved("JPEG", quality=50, restart_marker_blocks=1),
        "WebP, groups of codes": webp,
        "WebP, lossy": lambda: saved("WEBP", photograph()[:, ::-1], quality=1),
        "TIFF, LZW": lambda: saved("TIFF", compression="tiff_lzw"),
        "TIFF, deflate": lambda: saved("TIFF", compression="tiff_adobe_deflate"),
        "GIF": lambda: saved("GIF", photograph()),
        "GIF, clear codes": gif_clears,
        "GIF, comments": lambda: gif(filled(b"!\xfe\x01a\0")),
    }


HONEST: Mapping[str, Callable[[], bytes]] = {
    "PNG": lambda: saved("PNG", photograph(), compress_level=1),
    "JPEG": lambda: saved("JPEG", photograph()),
    "JPEG, progressive": lambda: saved("JPEG", photograph(), progressive=True),
    "WebP, lossless": lambda: saved("WEBP", photograph(), lossless=True, method=0, quality=0),
}


def seconds(data: bytes) -> tuple[float, str]:
    """Of this process and its children."""
    begun = time.process_time()
    try:
        decode(data, "x")
    except ImageError as error:
        return time.process_time() - begun, f"refused: {error}"[:90]
    return time.process_time() - begun, "read"


def on_a_server(data: bytes) -> str:
    """How it ends in a decoding process, and after how long."""
    begun = time.perf_counter()
    try:
        with image_errors("x"):
            decode_bounded(encoded_images.read_header(data, encoded_images.WEB_FORMATS), 1_000_000)
    except ImageError as error:
        return f"{time.perf_counter() - begun:.2f} s, {error}"[:90]
    return f"{time.perf_counter() - begun:.2f} s, read"


def waits(attacks: list[bytes]) -> Iterator[float]:
    """Seconds that an honest client waits for each answer while the attacks are sent, all at once."""
    service = ScoringService(Reward(Rated(), {"preference": Fake()}))

    def send(url: str, data: bytes) -> None:
        request = {"schema": 2, "samples": [{"id": "a", "instruction": "x", "sources": ["p"], "edited": "p"}]}
        files: dict[str, Any] = {"request": (None, json.dumps(request)), "p": ("p", data, "image/png")}
        httpx2.post(f"{url}/v1/score", files=files, timeout=300)

    buffer = io.BytesIO()
    PIL.Image.fromarray(photograph()[:512, :512]).save(buffer, "PNG")
    with serve_in_thread(service, ServerConfig(port=0)) as url:
        send(url, buffer.getvalue())
        threads = [threading.Thread(target=send, args=(url, data)) for data in attacks]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            begun = time.perf_counter()
            send(url, buffer.getvalue())
            yield time.perf_counter() - begun
    service.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", action="store_true")
    asked = parser.parse_args()
    tell = partial(print, flush=True)
    tell("| picture | MB | CPU s | |\n|---|---|---|---|")
    for name, make in {**HONEST, **pictures()}.items():
        data = make()
        took, how = seconds(data)
        tell(f"| {name} | {len(data) / 1e6:.1f} | {took:.2f} | {how} |")
        if asked.server and encoded_images.format_of(data) in encoded_images.WEB_FORMATS and name not in HONEST:
            tell(f"|   on a server | | | {on_a_server(data)} |")
            tell(f"|   beside ten of it | | | waits at most {max(waits([data] * 10), default=0):.2f} s |")


if __name__ == "__main__":
    main()
