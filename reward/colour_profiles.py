"""Colour profiles (ICC) of pictures: what a picture's numbers are in sRGB, and which of both an edit continues.

Profiles come from strangers: they are short and of a known kind, and what littleCMS makes of one is tried on some
colours before a picture is read by it.
"""

from __future__ import annotations

import io
import warnings
from functools import lru_cache

import cv2
import numpy as np
import PIL.Image
import PIL.ImageCms
from numpy.typing import NDArray

from .encoded_images import MAX_PROFILE_BYTES
from .image_decoding import Pixels

_SAME = 2  # levels by which the profiles that are called sRGB differ from each other, which is no change of colour
_warned_of: set[str] = set()  # each problem is said once a process: a stranger may send many pictures
_GREYS = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2)
_COLOURS = np.stack(np.meshgrid(*[np.arange(0, 256, 15, dtype=np.uint8)] * 3), axis=-1).reshape(1, -1, 3)
_FITS, _CLEARLY = 3.0, 0.7
"""Units of L*a*b* that a redrawn picture stays within; how much nearer than the other reading."""
_SIDE = 32


class _Unusable(ValueError):
    """A profile that no picture is read by. The message is what is said of it."""


def has_other_colours(pixels: Pixels, profile: bytes, name: str) -> bool:
    """Whether a picture with this profile has other colours than its numbers are in sRGB. Warns, naming the picture, of
    a profile that cannot be used: then the numbers are read as sRGB.
    """
    if not profile:
        return False
    try:
        transform = _transform_to_srgb(profile)
        if transform is not None and transform.input_mode == "L" and np.ptp(pixels, axis=2).any():
            raise _Unusable("is for grey, and the picture has colours")
    except _Unusable as error:
        if str(error) not in _warned_of:
            _warned_of.add(str(error))
            warnings.warn(
                f"the colour profile of {name:.200} {error}: this picture, and others with such a profile, are read as "
                "sRGB",
                stacklevel=2,
            )
        return False
    return transform is not None


def to_srgb(pixels: Pixels, profile: bytes) -> Pixels:
    """The numbers of a picture that `has_other_colours`, in sRGB."""
    transform = _transform_to_srgb(profile)
    assert transform is not None
    return _converted(pixels, transform)


@lru_cache(maxsize=64)
def _transform_to_srgb(profile: bytes) -> PIL.ImageCms.ImageCmsTransform | None:
    """None for a profile of sRGB itself. Raises `_Unusable`. Relative colorimetric, without black point compensation:
    colours that sRGB has stay as they were shown, and others go to its border. A perceptual intent would move all
    colours for the sake of those; profiles of cameras, telephones and screens have no tables for it.
    """
    space = profile[16:20].decode("latin-1")
    if len(profile) > MAX_PROFILE_BYTES:
        raise _Unusable(f"has more than {MAX_PROFILE_BYTES:,} bytes")
    if profile[36:40] != b"acsp":
        raise _Unusable("is damaged")
    if space not in ("RGB ", "GRAY"):
        raise _Unusable("is neither for RGB nor for grey")
    try:
        transform = PIL.ImageCms.buildTransform(
            PIL.ImageCms.ImageCmsProfile(io.BytesIO(profile)),
            PIL.ImageCms.createProfile("sRGB"),
            "RGB" if space == "RGB " else "L",
            "RGB",
            PIL.ImageCms.Intent.RELATIVE_COLORIMETRIC,
        )
        colours = _GREYS if transform.input_mode == "L" else _COLOURS
        difference = np.abs(_converted(colours, transform).astype(int) - colours).max()
    except (PIL.ImageCms.PyCMSError, OSError, ImportError, ValueError):
        raise _Unusable("is damaged") from None
    return None if difference <= _SAME else transform


def _converted(pixels: Pixels, transform: PIL.ImageCms.ImageCmsTransform) -> Pixels:
    picture = PIL.Image.fromarray(np.array(pixels[:, :, 0] if transform.input_mode == "L" else pixels))
    converted: Pixels = np.asarray(PIL.ImageCms.applyTransform(picture, transform))
    converted.setflags(write=False)
    return converted


# -- edits without a profile ------------------------------------------------------------------------------------------


def continues_raw_numbers(edited: Pixels, raw: Pixels, shown: Pixels) -> bool:
    """Whether an edit without a profile has the numbers of a source as a program reads it that ignores profiles (raw),
    and not its colours in sRGB (shown). It has where the numbers clearly fit better, and well: in the tenth of the
    places that fit best, of those where both differ, or else by all its colours, wherever they are. So neither a large
    change nor another frame decides, and what recolours the whole picture fits neither: then it is in sRGB, as what
    shows it takes it.
    """
    edit, numbers, colours = (_thumbnail(pixels) for pixels in (edited, raw, shown))
    apart = np.linalg.norm(numbers - colours, axis=1)
    differs = apart >= np.median(apart)
    at_place = [np.quantile(np.linalg.norm(edit - other, axis=1)[differs], 0.1) for other in (numbers, colours)]
    anywhere = [np.linalg.norm(edit[:, None] - other[None], axis=2).min(axis=1).mean() for other in (numbers, colours)]
    return any(to_raw < min(_FITS, _CLEARLY * to_shown) for to_raw, to_shown in (at_place, anywhere))


def _thumbnail(pixels: Pixels) -> NDArray[np.float32]:
    """L*a*b* of the picture's patches, by rows."""
    small = cv2.resize(pixels, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA).astype(np.float32) / 255
    return np.asarray(cv2.cvtColor(small, cv2.COLOR_RGB2LAB), np.float32).reshape(-1, 3)
