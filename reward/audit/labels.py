"""Words painted on a picture."""

from __future__ import annotations

import textwrap
from functools import lru_cache

import numpy as np
import PIL.Image
import PIL.ImageDraw
import PIL.ImageFont

from ..image import Pixels
from .audited_edit import Area

_MEASURED = 32  # px: size of the letters that widths are measured in
_SMALLEST, _LARGEST = 6, 96  # px
_MOST_LINES = 4
_LINE = 1.25  # of the letters' size


def labelled(pixels: Pixels, words: str, area: Area, *, box: bool = True) -> Pixels:
    """A copy with words in the largest letters that fit an area: black on a white box, or white with a black outline.

    Words that the smallest letters do not fit are cut off.
    """
    picture = PIL.Image.fromarray(pixels)  # a copy
    draw = PIL.ImageDraw.Draw(picture)
    x, y, width, height = area
    if box:
        draw.rectangle((x, y, x + width - 1, y + height - 1), fill=(255, 255, 255))
    size, text = max(
        (_fitting(lines, width, height) for lines in _broken(words)), key=lambda one: (one[0], -len(one[1]))
    )
    draw.text(
        (x + width / 2, y + height / 2),
        text,
        fill=(0, 0, 0) if box else (255, 255, 255),
        font=_font(size),
        anchor="mm",
        align="center",
        spacing=round((_LINE - 1) * size),
        stroke_width=0 if box else max(1, size // 12),
        stroke_fill=(0, 0, 0),
    )
    return np.array(picture)


def strip(pixels: Pixels, share: float, *, top: bool) -> Area:
    """The area along the upper or lower edge, of this share of the height."""
    height, width = pixels.shape[:2]
    strip_height = min(height, max(_SMALLEST, round(share * height)))
    return 0, 0 if top else height - strip_height, width, strip_height


@lru_cache(maxsize=256)
def _broken(words: str) -> tuple[tuple[str, ...], ...]:
    """The words in one line, two, and so on."""
    counts = range(1, _MOST_LINES + 1)
    return tuple(tuple(textwrap.wrap(words, max(1, round(1.15 * len(words) / count)))) or ("",) for count in counts)


def _fitting(lines: tuple[str, ...], width: int, height: int) -> tuple[int, str]:
    widest = max(_font(_MEASURED).getlength(line) for line in lines) or 1.0
    size = min(0.92 * width * _MEASURED / widest, 0.9 * height / (_LINE * len(lines)), _LARGEST)
    return max(_SMALLEST, int(size)), "\n".join(lines)


@lru_cache(maxsize=_LARGEST)
def _font(size: int) -> PIL.ImageFont.FreeTypeFont | PIL.ImageFont.ImageFont:
    return PIL.ImageFont.load_default(size=size)
