"""What experts that answer `Detect` have in common: the order of boxes, and phrases for text encoders like CLIP's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..boxes import Box
from ..image import Image
from ..outcomes import Failure
from ..query import Detect, Detections

NOT_FINITE = "the model's output holds NaN or infinity: load it with dtype float32"


def detections(
    boxes: NDArray[np.floating], scores: NDArray[np.floating], labels: Sequence[str], floor: float
) -> Detections | Failure:
    """Boxes with a score of `floor` or more, best first; a `Failure` where a number of the model's is none.

    boxes: n x 4, centre and size in fractions of the sides. scores: n, in [0, 1]. labels: n.
    """
    if not (np.isfinite(boxes).all() and np.isfinite(scores).all()):
        return Failure(NOT_FINITE)
    kept = []
    for n in np.argsort(-scores, kind="stable"):
        if scores[n] >= floor:
            cx, cy, w, h = boxes[n].tolist()
            kept.append(Box(cx, cy, w, h, float(scores[n]), labels[n]))
    return Detections(tuple(kept), floor)


def clip_tokens(tokenizer: Any, phrases: Sequence[str], longest: int) -> Any:
    """`input_ids` and `attention_mask`, phrases x longest, padded as these models were trained.

    Marks such as `<|endoftext|>` in a phrase are letters like others.
    """
    return tokenizer(
        list(phrases), padding="max_length", max_length=longest, split_special_tokens=True, return_tensors="pt"
    )


def by_picture(
    queries: Sequence[Detect], tokenizer: Any, longest: int
) -> tuple[dict[Image, list[int]], dict[int, Failure]]:
    """The places of the queries about each picture, and by place those that fail: with phrases that cannot be asked.

    longest: how many tokens of a phrase the model reads.
    """
    about: dict[Image, list[int]] = {}
    failed: dict[int, Failure] = {}
    for place, query in enumerate(queries):
        problem = _problem(tokenizer, query.phrases, longest)
        if problem:
            failed[place] = Failure(problem)
        else:
            about.setdefault(query.image, []).append(place)
    return about, failed


def _problem(tokenizer: Any, phrases: Sequence[str], longest: int) -> str:
    if not phrases:
        return "there is no phrase to look for: give one or more"
    for phrase in phrases:
        if not phrase.strip():
            return f"the phrase {phrase!r} is empty: say what to look for"
        count = len(tokenizer(phrase, split_special_tokens=True)["input_ids"])
        if count > longest:
            return f"the phrase {phrase!r:.80} takes {count} tokens, the model reads {longest}: use fewer words"
    return ""
