"""Shared by experts that answer `Detect`: boxes above a score, and phrases for CLIP-like text encoders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...boxes import Box
from ...image import Image
from ...queries.answers import Detections
from ...queries.kinds import Detect
from ...queries.outcomes import Failure
from .checkpoint import LoadedModel

NOT_FINITE = "the model's output holds NaN or infinity: load it with dtype float32"


def make_detections(
    boxes: NDArray[np.floating], scores: NDArray[np.floating], labels: Sequence[str], min_score: float
) -> Detections | Failure:
    """Boxes with a score of `min_score` or more, in the model's order; a `Failure` if an output is not finite. boxes: n
    x 4, centre and size in fractions of the sides. scores: n, in [0, 1]. labels: n."""
    if not (np.isfinite(boxes).all() and np.isfinite(scores).all()):
        return Failure(NOT_FINITE)
    detections = []
    for n in range(len(scores)):
        if scores[n] >= min_score:
            cx, cy, w, h = boxes[n].tolist()
            detections.append(Box(cx, cy, w, h, float(scores[n]), labels[n]))
    return Detections(tuple(detections), min_score)


def check_scores(**scores: float) -> None:
    """Raise ValueError for an option, by its name, that is no score."""
    for option, value in scores.items():
        if not 0 <= value <= 1:
            raise ValueError(f"{option} is a score in [0, 1], got {value}")


def clip_tokens(tokenizer: Any, phrases: Sequence[str], max_tokens: int) -> Any:
    """`input_ids` and `attention_mask`, phrases x max_tokens, padded as these models were trained. Control tokens such
    as `<|endoftext|>` in a phrase are read as plain text."""
    return tokenizer(
        list(phrases), padding="max_length", max_length=max_tokens, split_special_tokens=True, return_tensors="pt"
    )


def max_phrase_tokens(loaded: LoadedModel) -> int:
    """The longest phrase that the model reads."""
    return int(loaded.model.config.text_config.max_position_embeddings)


def group_by_image(
    queries: Sequence[Detect], tokenizer: Any, max_tokens: int
) -> tuple[dict[Image, list[int]], dict[int, Failure]]:
    """Query indices by image, and failures by query index for invalid phrases. max_tokens: the longest phrase that the
    model reads."""
    by_image: dict[Image, list[int]] = {}
    failed: dict[int, Failure] = {}
    for index, query in enumerate(queries):
        problem = _problem(tokenizer, query.phrases, max_tokens)
        if problem:
            failed[index] = Failure(problem)
        else:
            by_image.setdefault(query.image, []).append(index)
    return by_image, failed


def _problem(tokenizer: Any, phrases: Sequence[str], max_tokens: int) -> str:
    if not phrases:
        return "there is no phrase to detect: give one or more"
    for phrase in phrases:
        if not phrase.strip():
            return f"the phrase {phrase!r} is empty: name an object"
        count = len(tokenizer(phrase, split_special_tokens=True)["input_ids"])
        if count > max_tokens:
            return f"the phrase {phrase!r:.80} takes {count} tokens, the model reads {max_tokens}: use fewer words"
    return ""
