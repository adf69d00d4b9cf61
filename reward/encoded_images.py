"""Encoded pictures of strangers: which format they have, what their headers claim, and what of them a decoder is given.

The first bytes decide the format, and that format's decoder alone is used. Before it sees anything, the file is walked
once, in time linear in its length. The walk checks the limits and drops what does not decide pixels: comments,
previews, later frames, and all of EXIF except for the orientation. So nothing in there is ever parsed, decompressed,
logged or warned about. A colour profile is kept apart, for `colour_profiles`.

The formats: PNG (ISO/IEC 15948), JPEG (ITU-T T.81), WebP (RFC 9649), GIF89a, BMP and TIFF 6.0.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Size = tuple[int, int]
"""Width, height."""
FILE_FORMATS = ("PNG", "JPEG", "WebP", "GIF", "BMP", "TIFF")
"""What is read from files, tables and Python objects."""
WEB_FORMATS = ("PNG", "JPEG", "WebP")
"""What a server reads."""
MAX_PIXELS = 120_000_000
"""Of a picture: room for the 108 megapixels of a phone. To decode as many takes up to 1.5 GB."""
MAX_SIDE = 32_768
"""Pixels of the longer side; for pictures of one row or column, steps that depend on it would be slow."""
MAX_ASPECT = 200
"""Longer side by shorter side. Processors of vision-language models refuse more."""
MAX_SCANS, _USUAL_SCANS, _MAX_SCANNED_PIXELS = 100, 20, 720_000_000
"""Of a progressive JPEG: encoders write about 10, and each visits all pixels, however little it says of them. So there
are at most as many as these pixels times scans allow, or the usual ones."""
MAX_CHUNKS = 100_000
"""Chunks, segments, frames, strips or tiles of a file."""
_MAX_TAGS = 1_000  # entries of a directory of TIFF or EXIF
_MAX_METADATA = 2**20  # bytes of EXIF or XMP in which an orientation is looked for
MAX_PROFILE_BYTES = 2**16
"""Of a colour profile: those of cameras, telephones and screens have 0.5 to 60 KB, and longer ones are tables of
printers."""
_SECONDS, _SECONDS_PER_PIXEL = 1.0, 150e-9
"""What decoding may take of the processor's time: more than twice what noise takes, the slowest honest content."""
_LOSSLESS_SECONDS, _LOSSLESS_SECONDS_PER_PIXEL = 0.5, 50e-9
"""The same of lossless WebP, of which noise takes 37 ns a pixel, and photographs 17; twice that on a busy machine."""


class ImageError(ValueError):
    """An image that cannot be read or has an unusable shape. The message names the image and what to do."""


class ImageSizeError(ImageError):
    """An image of more pixels, longer sides or more elements than are accepted."""


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """A picture before it is decoded. size: as stored, before it is turned upright. orientation: of EXIF, 1 to 8.
    content: an equal picture without metadata. profile: of its colours (ICC); if it is longer than `MAX_PROFILE_BYTES`,
    a part of it that is longer, too.
    """

    format: str
    size: Size
    orientation: int
    content: bytes
    profile: bytes = b""


def read_header(
    data: bytes | memoryview, formats: Sequence[str] = FILE_FORMATS, max_pixels: int = MAX_PIXELS
) -> EncodedImage:
    """Decide a picture's format and check its limits. Raises `ImageError`: not of these formats, damaged, or beyond."""
    data = bytes(data)
    name = format_of(data)
    if name not in formats:
        problem = f"is a {name} file" if name else "is not an image that can be read"
        raise ImageError(f"{problem}: save it as PNG (what is read here: {', '.join(formats)})")
    try:
        size, orientation, content, profile = _WALKS[name](data)
    except (struct.error, IndexError) as error:
        raise ImageError(f"is damaged: its {name} header is truncated ({error})") from None
    check_size(size, max_pixels)
    if name == "JPEG":
        _check_scans(content, size)
    return EncodedImage(name, size, orientation, content, profile[: MAX_PROFILE_BYTES + 1])


def decoding_seconds(picture: EncodedImage) -> float:
    """Seconds of a processor that decoding may take."""
    pixels = picture.size[0] * picture.size[1]
    if is_lossless_webp(picture):
        return _LOSSLESS_SECONDS + _LOSSLESS_SECONDS_PER_PIXEL * pixels
    return _SECONDS + _SECONDS_PER_PIXEL * pixels


def is_lossless_webp(picture: EncodedImage) -> bool:
    """Or its alpha may be. What its tables of codes take, in a single call, has nothing to do with its pixels."""
    return picture.format == "WebP" and (b"VP8L" in picture.content or b"ALPH" in picture.content)


def orientation_of(info: Mapping[str | tuple[int, int], Any]) -> int:
    """The orientation in the metadata of a PIL image, 1 to 8."""
    exif, xmp = info.get("exif", b""), info.get("xmp", info.get("XML:com.adobe.xmp", b""))
    xmp = xmp.encode("utf-8", "replace") if isinstance(xmp, str) else xmp
    return _orientation(*(item[:_MAX_METADATA] if isinstance(item, bytes) else b"" for item in (exif, xmp)))


def format_of(data: bytes) -> str:
    """The format by the first bytes; empty for any other."""
    return next((name for name, signature in _SIGNATURES.items() if signature.match(data)), "")


def check_size(size: Size, max_pixels: int = MAX_PIXELS) -> None:
    """Raises `ImageError` for an empty picture, and `ImageSizeError`."""
    width, height = size
    if width < 1 or height < 1:
        raise ImageError(f"is damaged: its size is {width} x {height}")
    for is_beyond, limit, advice in (
        (width * height > max_pixels, f"more than {max_pixels:,}", "resize"),
        (max(size) > MAX_SIDE, f"and a side may have {MAX_SIDE:,}", "resize"),
        (max(size) > MAX_ASPECT * min(size), f"and a side may be {MAX_ASPECT} times as long as the other", "crop"),
    ):
        if is_beyond:
            raise ImageSizeError(f"has {width:,} x {height:,} pixels, {limit}: refused without decoding; {advice} it")


_SIGNATURES = {
    "PNG": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "JPEG": re.compile(rb"\xff\xd8\xff"),
    "WebP": re.compile(rb"RIFF....WEBPVP8[ LX]", re.DOTALL),
    "GIF": re.compile(rb"GIF8[79]a"),
    "BMP": re.compile(rb"BM"),
    "TIFF": re.compile(rb"II\x2a\x00|MM\x00\x2a"),
}


def _beyond(what: str, count: int, limit: int) -> ImageSizeError:
    return ImageSizeError(f"has {count:,} {what}, and at most {limit:,} are accepted: save it anew")


_Walked = tuple[Size, int, bytes, bytes]  # size, orientation, content, profile


# -- PNG --------------------------------------------------------------------------------------------------------------

_PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


def _walk_png(data: bytes) -> _Walked:
    if data[12:16] != b"IHDR":
        raise ImageError("is damaged: a PNG must begin with IHDR")
    width, height, depth, colour = struct.unpack_from(">IIBB", data, 16)
    kept, compressed = [data[:8]], 0
    texts: dict[bytes, bytes] = {}
    once = {b"IHDR", b"PLTE", b"tRNS"}
    name = b""
    for count, (name, start, end) in enumerate(_png_chunks(data)):
        if count >= MAX_CHUNKS:
            raise _beyond("chunks", count + 1, MAX_CHUNKS)
        if name in (b"IDAT", b"IEND") or name in once:
            once.discard(name)
            kept.append(data[start:end])
            compressed += (end - start) * (name == b"IDAT")
        elif name in (b"IHDR", b"PLTE", b"tRNS"):
            raise ImageError(f"is damaged: a PNG has one {name.decode()}")
        elif name in (b"eXIf", b"iCCP", b"tEXt", b"zTXt", b"iTXt"):
            _add_png_text(texts, name, data[start + 8 : min(end - 4, start + 8 + _MAX_METADATA)])
        if name == b"tRNS" and zlib.crc32(data[start + 4 : end - 4]) != int.from_bytes(data[end - 4 : end], "big"):
            raise ImageError("is damaged: the checksum of its transparency is wrong")  # PIL does not always look
        if name == b"IEND":
            break
    if name != b"IEND":
        raise ImageError("is damaged: its file was cut off, a PNG ends with IEND")
    rows = height * (1 + width * depth * _PNG_CHANNELS.get(colour, 4) // 8)
    if compressed > 2**16 + rows * 5 // 4:  # empty blocks of deflate cost time and produce nothing
        raise ImageError(f"has {compressed:,} compressed bytes, more than its pixels need: save it anew")
    exif = texts.get(b"eXIf") or _raw_profile(texts.get(b"Raw profile type exif", b""))
    orientation = _orientation(exif, texts.get(b"XML:com.adobe.xmp", b""))
    return (width, height), orientation, b"".join(kept), texts.get(b"iCCP", b"")


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    start = 8
    while start + 12 <= len(data):
        length, name = struct.unpack_from(">I4s", data, start)
        end = start + 12 + length
        if end > len(data):
            return
        yield name, start, end
        start = end


def _add_png_text(texts: dict[bytes, bytes], name: bytes, payload: bytes) -> None:
    """Add what a chunk says, by its keyword or its name, if it is the first that says it; even a damaged one is."""
    key, _, text = (name, b"", payload) if name == b"eXIf" else payload.partition(b"\0")
    key = name if name == b"iCCP" else key
    if key in texts or key not in (b"eXIf", b"iCCP", b"Raw profile type exif", b"XML:com.adobe.xmp"):
        return
    compressed = name in (b"iCCP", b"zTXt") or (name == b"iTXt" and text[:1] == b"\x01")
    if name == b"iTXt":
        text = text[2:].split(b"\0", 2)[-1]
    if compressed:
        room = MAX_PROFILE_BYTES + 1 if name == b"iCCP" else _MAX_METADATA - sum(map(len, texts.values()))
        try:
            text = zlib.decompressobj().decompress(text[name != b"iTXt" :], room) if room > 0 else b""
        except zlib.error:
            text = b""
    texts[key] = text


def _raw_profile(text: bytes) -> bytes:
    """EXIF in the hexadecimal notation of ImageMagick: an empty line, a name, a length, the digits."""
    try:
        return bytes.fromhex(b"".join(text.split(b"\n")[3:]).decode("ascii"))
    except ValueError:
        return b""


# -- JPEG -------------------------------------------------------------------------------------------------------------

_JPEG_MARKER = re.compile(rb"\xff([^\x00\xd0-\xd7\xff])")
_JPEG_FRAMES = frozenset({0xC0, 0xC1, 0xC2})
_JPEG_OTHER_FRAMES = frozenset({0xDE, *range(0xC3, 0xD0)}) - {0xC4, 0xC8, 0xCC}
_JPEG_SEGMENTS = frozenset({0xC4, 0xDA, 0xDB, 0xDD, 0xE0, 0xEE})
"""Huffman tables, scans, quantization tables, restart intervals; JFIF's and Adobe's, which decide about the colours."""
_PIECE = 2**20


def _walk_jpeg(data: bytes) -> _Walked:
    kept = [data[:2]]
    size: Size | None = None
    exif = xmp = profile = b""
    position, count = 2, 0
    while (marker := _next_marker(data, position)) is not None:
        if marker.start() > position and kept[-1][:2] == b"\xff\xda":
            kept.append(data[position : marker.start()])  # a scan's pixels
        code = marker[1][0]
        if code == 0xD9:
            kept.append(b"\xff\xd9")
            break
        start, position = marker.end() - 2, marker.end() + int.from_bytes(data[marker.end() : marker.end() + 2], "big")
        count += 1
        if count > MAX_CHUNKS:
            raise _beyond("segments", count, MAX_CHUNKS)
        if code in _JPEG_OTHER_FRAMES:
            raise ImageError("is arithmetic-coded, lossless or hierarchical: only usual JPEGs are read; save it anew")
        if code in _JPEG_FRAMES:
            if size is not None:
                raise ImageError("is damaged: a JPEG has one frame")
            height, width = struct.unpack_from(">HH", data, marker.end() + 3)
            size = (width, height)
        if code in _JPEG_SEGMENTS or code in _JPEG_FRAMES:
            kept.append(data[start:position])
        elif code == 0xE1 and not exif and data.startswith(b"Exif\0\0", start + 4):
            exif = data[start + 10 : position]
        elif code == 0xE1 and not xmp and data.startswith(b"http://ns.adobe.com/xap/1.0/\0", start + 4):
            xmp = data[start + 33 : position]
        elif code == 0xE2 and len(profile) <= MAX_PROFILE_BYTES and data.startswith(b"ICC_PROFILE\0", start + 4):
            profile += data[start + 18 : position]  # in parts, which encoders write in order
    else:
        if kept[-1][:2] == b"\xff\xda":
            kept.append(data[position:])  # truncated, for the decoder to complain about
    if size is None:
        raise ImageError("is damaged: a JPEG without a frame")
    return size, _orientation(exif, xmp), b"".join(kept), profile


def _next_marker(data: bytes, position: int) -> re.Match[bytes] | None:
    """Searched for in pieces: within one, other threads wait."""
    while position < len(data) - 1:
        if (marker := _JPEG_MARKER.search(data, position, position + _PIECE)) is not None:
            return marker
        position += _PIECE - 1
    return None


def _check_scans(content: bytes, size: Size) -> None:
    """By what a decoder takes for a scan, whatever segments it may lie in."""
    scans = content.count(b"\xff\xda")
    limit = min(MAX_SCANS, max(_USUAL_SCANS, _MAX_SCANNED_PIXELS // (size[0] * size[1])))
    if scans > limit:
        raise _beyond(f"scans of {size[0]:,} x {size[1]:,} pixels", scans, limit)


# -- WebP -------------------------------------------------------------------------------------------------------------


def _walk_webp(data: bytes) -> _Walked:
    size: Size | None = None
    found: dict[bytes, bytes] = {}
    position, count = 12, 0
    while position + 8 <= len(data):
        name, length = struct.unpack_from("<4sI", data, position)
        body = position + 8
        count += 1
        if count > MAX_CHUNKS:
            raise _beyond("chunks", count, MAX_CHUNKS)
        if size is None:
            size = _webp_size(name, data[body : body + 10])
        if name in (b"EXIF", b"XMP ", b"ICCP") and not found.get(name):
            found[name] = data[body : body + min(length, _MAX_METADATA)]
        position = body + length + length % 2
    if size is None:
        raise ImageError("is damaged: a WebP without a size")
    return size, _orientation(found.get(b"EXIF", b""), found.get(b"XMP ", b"")), data, found.get(b"ICCP", b"")


def _webp_size(name: bytes, head: bytes) -> Size | None:
    if name == b"VP8X":
        return 1 + int.from_bytes(head[4:7], "little"), 1 + int.from_bytes(head[7:10], "little")
    if name == b"VP8 " and head[3:6] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", head, 6)
        return width & 0x3FFF, height & 0x3FFF
    if name == b"VP8L" and head[:1] == b"\x2f":
        bits = int.from_bytes(head[1:5], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    return None


# -- GIF, BMP, TIFF ---------------------------------------------------------------------------------------------------


def _walk_gif(data: bytes) -> _Walked:
    """The first frame, with the control block before it."""
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    position = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
    kept, control = [data[:position]], b""
    for _ in range(MAX_CHUNKS):
        start, kind = position, data[position]
        if kind == 0x21:
            position = _end_of_blocks(data, position + 2)
            if data[start + 1] == 0xF9:  # without what follows the frame
                control = data[start : start + 3] + bytes([data[start + 3] & 0b11100011]) + data[start + 4 : position]
        elif kind == 0x2C:
            x, y, w, h, flags = struct.unpack_from("<HHHHB", data, position + 1)
            if x + w > width or y + h > height:
                raise ImageError(f"is damaged: its first frame is larger than its size of {width} x {height}")
            position += 10 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
            kept += [control, data[start : _end_of_blocks(data, position + 1)], b";"]
            return (width, height), 1, b"".join(kept), b""
        else:
            raise ImageError("is damaged: a GIF without a frame")
    raise _beyond("blocks before its first frame", MAX_CHUNKS + 1, MAX_CHUNKS)


def _end_of_blocks(data: bytes, position: int) -> int:
    """After the sub-blocks of GIF that begin here, or at the end of a truncated file."""
    while position < len(data) and data[position]:
        position += 1 + data[position]
    return min(position + 1, len(data))


def _walk_bmp(data: bytes) -> _Walked:
    header = struct.unpack_from("<I", data, 14)[0]
    if header == 12:
        width, height = struct.unpack_from("<HH", data, 18)
    elif 40 <= header <= 124:
        width, height, compression = struct.unpack_from("<ii4xI", data, 18)
        height = abs(height)
        if compression not in (0, 3):
            raise ImageError("is a compressed BMP: save it as PNG")
    else:
        raise ImageError(f"is damaged: a BMP header of {header} bytes")
    return (width, height), 1, data, b""


_ORIENTATION = 0x0112
_TIFF_PROFILE = 34675
_TIFF_KEPT = frozenset({
    256, 257, 258, 259, 262, 266, 273, 277, 278, 279, 284, 317, 320, 322, 323, 324, 325, 338, 339, 530, 532,
})  # fmt: skip
"""Size, kind of pixels and of compression, palette, strips or tiles. The orientation is applied by us."""
_TIFF_COMPRESSIONS = frozenset({1, 5, 8, 32773, 32946})
"""None, LZW, deflate, PackBits. The others contain pictures of formats with limits of their own."""


def _walk_tiff(data: bytes) -> _Walked:
    order = "<" if data[:2] == b"II" else ">"
    kept: list[bytes] = []
    profile = b""
    values: dict[int, tuple[int, ...]] = {}
    for tag, kind, number, entry in _tiff_entries(data, order):
        if tag in values:
            raise ImageError(f"is damaged: it has the tag {tag} twice")
        if tag in _TIFF_KEPT:
            if number > MAX_CHUNKS:
                raise _beyond(f"values of the tag {tag}", number, MAX_CHUNKS)
            kept.append(entry)
        if tag == _TIFF_PROFILE:
            start = struct.unpack_from(order + "I", entry, 8)[0]
            profile = data[start : start + min(number, MAX_PROFILE_BYTES + 1)]
        all_of_them = tag in _TIFF_PLACES or tag in _TIFF_PLACES.values()
        values[tag] = _tiff_integers(data, order, kind, number if all_of_them else 1, entry)
    first = {tag: numbers[0] for tag, numbers in values.items() if numbers}
    size = (first.get(256, 0), first.get(257, 0))
    compression = first.get(259, 1)
    if compression not in _TIFF_COMPRESSIONS:
        raise ImageError(f"is a TIFF of compression {compression}: save it as PNG")
    if first.get(322, 1) * first.get(323, 1) > max(2**24, size[0] * size[1]):
        raise ImageError(f"is damaged: a tile is larger than its size of {size[0]} x {size[1]}")
    if compression != 1 and sum(sum(values.get(tag, ())) for tag in _TIFF_PLACES.values()) > len(data):
        raise ImageError("is damaged: its strips or tiles are longer than the file")
    for starts, lengths in _TIFF_PLACES.items():  # else the directory below would be taken for the pixels
        if any(map(lambda a, b: a + b > len(data), values.get(starts, ()), values.get(lengths, ()))):
            raise ImageError("is damaged: its file was cut off, its strips or tiles go on after its end")
    directory = struct.pack(order + "H", len(kept)) + b"".join(kept) + bytes(4)
    content = data[:4] + struct.pack(order + "I", len(data)) + data[8:] + directory
    return size, _valid_orientation(first.get(_ORIENTATION, 1)), content, profile


_TIFF_PLACES = {273: 279, 324: 325}  # of strips and of tiles: where they start, and their lengths as compressed


def _tiff_entries(data: bytes, order: str) -> Iterator[tuple[int, int, int, bytes]]:
    """Tag, type, number of values, and all twelve bytes of each entry of the first directory."""
    start = struct.unpack_from(order + "I", data, 4)[0]
    count = struct.unpack_from(order + "H", data, start)[0]
    if count > _MAX_TAGS:
        raise _beyond("tags", count, _MAX_TAGS)
    for number in range(count):
        entry = data[start + 2 + 12 * number : start + 14 + 12 * number]
        yield (*struct.unpack_from(order + "HHI", entry), entry)


def _tiff_integers(data: bytes, order: str, kind: int, number: int, entry: bytes) -> tuple[int, ...]:
    """The first values of an entry; none if they are not integers of 16 or 32 bits, or lie outside."""
    code = {3: "H", 4: "I"}.get(kind)
    if code is None:
        return ()
    layout = f"{order}{number}{code}"
    length = struct.unpack_from(order + "I", entry, 4)[0] * struct.calcsize(code)
    source, offset = (entry, 8) if length <= 4 else (data, struct.unpack_from(order + "I", entry, 8)[0])
    return struct.unpack_from(layout, source, offset) if offset + struct.calcsize(layout) <= len(source) else ()


# -- orientation ------------------------------------------------------------------------------------------------------

_XMP_ORIENTATION = re.compile(rb'tiff:Orientation(?:="|>)([0-9])')


def _orientation(exif: bytes, xmp: bytes) -> int:
    """Of EXIF, or else of XMP; 1, which is upright, for metadata that are damaged."""
    exif = exif.removeprefix(b"Exif\0\0")
    order = {b"II": "<", b"MM": ">"}.get(exif[:2], "")
    if order:
        try:
            for tag, kind, _, entry in _tiff_entries(exif, order):
                if tag == _ORIENTATION:
                    return _valid_orientation(*_tiff_integers(exif, order, kind, 1, entry))
        except (struct.error, ImageError):
            return 1
    match = _XMP_ORIENTATION.search(xmp)
    return _valid_orientation(int(match[1])) if match else 1


def _valid_orientation(value: int = 1) -> int:
    return value if 1 <= value <= 8 else 1


_WALKS: dict[str, Callable[[bytes], _Walked]] = dict(
    zip(FILE_FORMATS, (_walk_png, _walk_jpeg, _walk_webp, _walk_gif, _walk_bmp, _walk_tiff), strict=True)
)
