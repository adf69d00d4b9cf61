"""One instruction of several, for editors that are asked for all of them at once. Paper, section 3.6 and appendix E."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal, get_args

Compression = Literal["default", "shuffle", "sequential", "keep"]
COMPRESSIONS: tuple[Compression, ...] = get_args(Compression)


def compressed(
    instructions: Sequence[str], compression: Compression, *, unchanged: Sequence[str] = (), seed: str = ""
) -> str:
    """The instructions as one.

    `default`: joined by ". ". `shuffle`: likewise, in an order drawn from `seed`. `sequential`: "first, A, then, B,
    last, C"; of two, "first, A, then, B". `keep`: as by default, and "Keep x, y unchanged." with the objects that are
    to stay, where there are any.
    """
    said = [instruction.strip().rstrip(".").rstrip() for instruction in instructions]
    if compression == "shuffle":
        random.Random(seed).shuffle(said)
    if compression == "sequential" and len(said) > 1:
        words = ["first", *["then"] * (len(said) - 1)]
        if len(said) > 2:
            words[-1] = "last"
        return ", ".join(f"{word}, {one}" for word, one in zip(words, said, strict=True))
    if compression == "keep" and unchanged:
        said.append(f"Keep {', '.join(unchanged)} unchanged.")
    return ". ".join(said)
