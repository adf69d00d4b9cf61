"""How far a text that was read is the text that was meant: matching letters in order, as difflib finds them.

The texts may be a stranger's, and difflib takes minutes for repetitive ones, with the interpreter locked. Here all
common runs of letters are found once, in numpy, and time is bounded by the length of the texts.
"""

from __future__ import annotations

from difflib import SequenceMatcher

import numpy as np
from numpy.typing import NDArray

PIECE = 400
"""Letters of a longer text that are compared at a time."""
_FEW = 1_024
"""Pairs of letters up to which difflib is faster."""


def matching_letters(one: str, other: str, *, least: int = 1) -> int:
    """Number of letters that match in order, in runs of at least `least`: difflib's blocks without autojunk (Ratcliff
    and Obershelp). Of two texts longer than `PIECE`, the first is compared piece by piece."""
    length = PIECE if len(other) > PIECE else max(1, len(one))
    pieces = [one[start : start + length] for start in range(0, len(one), length)]
    return sum(size for piece in pieces for size in _runs(piece, other) if size >= least)


def similarity(one: str, other: str) -> float:
    """Twice the matching letters by all letters, in [0, 1]: `ratio` of difflib."""
    letters = len(one) + len(other)
    return 2 * matching_letters(one, other) / letters if letters else 1.0


def _runs(one: str, other: str) -> list[int]:
    if len(one) * len(other) <= _FEW:
        blocks = SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
        return [block.size for block in blocks if block.size]
    a, b = _letters(one), _letters(other)
    common = np.zeros((len(a) + 1, len(b) + 1), np.int32)  # length of the run that begins at both positions
    for row in range(len(a) - 1, -1, -1):
        common[row, :-1] = (common[row + 1, 1:] + 1) * (b == a[row])
    sizes: list[int] = []
    windows = [(0, len(a), 0, len(b))]
    while windows:
        top, bottom, left, right = windows.pop()
        if top == bottom or left == right:
            continue
        rows, columns = np.arange(bottom - top, 0, -1)[:, None], np.arange(right - left, 0, -1)
        inside = np.minimum(np.minimum(common[top:bottom, left:right], rows), columns)
        row, column = divmod(int(inside.argmax()), right - left)
        size = int(inside[row, column])
        if size:
            sizes.append(size)
            row, column = top + row, left + column
            windows += [(top, row, left, column), (row + size, bottom, column + size, right)]
    return sizes


def _letters(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
