"""Compression of several instructions to one, for single-pass editing. Paper, section 3.6 and appendix E."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal, get_args

Compression = Literal["default", "shuffle", "sequential", "keep"]
COMPRESSIONS: tuple[Compression, ...] = get_args(Compression)


def compress_instructions(
    instructions: Sequence[str], compression: Compression, *, unchanged: Sequence[str] = (), seed: str = ""
) -> str:
    """Join instructions to one.

    `default`: joined by ". ". `shuffle`: likewise, in a random order by `seed`. `sequential`: "first, A, then, B,
    last, C"; of two, "first, A, then, B". `keep`: as `default`, with "Keep x, y unchanged." for the unchanged objects,
    if any.
    """
    clauses = [instruction.strip().rstrip(".").rstrip() for instruction in instructions]
    if compression == "shuffle":
        random.Random(seed).shuffle(clauses)
    if compression == "sequential" and len(clauses) > 1:
        words = ["first", *["then"] * (len(clauses) - 1)]
        if len(clauses) > 2:
            words[-1] = "last"
        return ", ".join(f"{word}, {clause}" for word, clause in zip(words, clauses, strict=True))
    if compression == "keep" and unchanged:
        clauses.append(f"Keep {', '.join(unchanged)} unchanged.")
    return ". ".join(clauses)
