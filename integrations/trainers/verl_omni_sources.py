"""The source pictures of verl-omni's data sets for editors.

The recipe (github.com/verl-project/verl-omni, `examples/flowgrpo_trainer/qwen_image_edit/prepare_data.py`, a1139ba of
2026-08-22) writes the picture that the editor sees into the column `images`, which no reward function is given, and
the name of its file below `INPUT_DIR/images` into `extra_info`. Here the file is read again and fitted as there: as
PIL's `convert("RGB")` has it, contained in a white square.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np
import PIL.Image
import PIL.ImageOps

from ...reward import Image, ImageError
from ...reward.image_decoding import decode, image_errors, read_bytes
from ..unusable_rows import image_or_reason

_KEPT_SOURCES = 32  # a group of rollouts shares one


class SourcePictures:
    """Finds the sources of a sample.

    image_root: the folder `INPUT_DIR/images` of `prepare_data.py`, or empty if `extra_info` has `source_img`.
    image_size: its `--image_size`; by default the side of the generated picture, which then has to be square.

    Raises ValueError for a folder that is none.
    """

    def __init__(self, image_root: str = "", image_size: int | str | None = None) -> None:
        self._root = Path(image_root).expanduser() if image_root else None
        if self._root is not None and not self._root.is_dir():
            raise ValueError(f"image_root is the folder `images` of the recipe's --input_dir, got {image_root!r:.200}")
        try:
            self._size = None if image_size is None else int(image_size)
        except (TypeError, ValueError):
            self._size = 0
        if self._size is not None and not 1 <= self._size <= 8192:
            raise ValueError(f"image_size is a number of pixels from 1 to 8192, got {image_size!r:.80}")

    def of(self, extra_info: Mapping[str, Any], edited: Image | str) -> list[Image | str]:
        """The sources, each an image or the reason why it is none.

        `source_img` of extra_info is anything `Image.of` takes, an undecoded image of `datasets`, or a list of such;
        else `image` is a file name in `image_root`. Raises ValueError if it has neither, and for a file that cannot be
        read or is not in that folder.
        """
        given = extra_info.get("source_img")
        if isinstance(given, np.ndarray) and given.dtype == object:  # a list, as pandas reads it
            given = given.tolist()
        if given is not None:
            return [image_or_reason(one) for one in (given if isinstance(given, list | tuple) else [given])]
        if self._root is None or extra_info.get("image") is None:
            raise ValueError(
                "an edit is scored against its source, and extra_info has no source_img: for data sets of "
                "prepare_data.py give image_root=INPUT_DIR/images (the file is extra_info['image']), or add source_img "
                "with `python -m editcritic.integrations.trainers.verl_omni_rows TRAIN.parquet OUT.parquet`"
            )
        if isinstance(edited, str):
            return []  # that is the reason, whatever the source
        size = self._size or (edited.width if edited.width == edited.height else None)
        if size is None:
            raise ValueError(
                f"the recipe fits sources into a square, and the generated picture has {edited.width} x "
                f"{edited.height} pixels: give image_size=SIDE, the --image_size of prepare_data.py"
            )
        return [_fitted_source(self._root, extra_info["image"], size)]


@lru_cache(_KEPT_SOURCES)
def _fitted_source(root: Path, name: Any, size: int) -> Image | str:
    if not isinstance(name, str) or not _is_below(name):
        raise ValueError(f"extra_info['image'] is the name of a file below image_root, got {name!r:.200}")
    try:
        data = read_bytes(root / name, inside=root)
    except ImageError as error:
        raise ValueError(f"the source that extra_info['image'] names in image_root: {error}") from None
    try:
        pixels = decode(data, name, reading="stored")
        with image_errors(name):  # of a strip of 1 x 10,000 nothing is left
            fitted = PIL.ImageOps.contain(
                PIL.Image.fromarray(pixels), (size, size), method=PIL.Image.Resampling.LANCZOS
            )
    except ImageError as error:
        return str(error)
    canvas = PIL.Image.new("RGB", (size, size), (255, 255, 255))
    canvas.paste(fitted, ((size - fitted.width) // 2, (size - fitted.height) // 2))
    return Image.of(canvas)


def _is_below(name: str) -> bool:
    """Whether a name leads neither up nor elsewhere, on any system. Links are followed later."""
    path = PureWindowsPath(name)  # it splits at both kinds of slashes
    return bool(path.name) and not path.anchor and ".." not in path.parts
