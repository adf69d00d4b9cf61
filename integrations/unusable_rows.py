"""Rows of a trainer's batch that are no edits by their own content, such as a picture of NaN: they fail alone.

Such a row is the reason for it, a string, in place of its image or sample. What is wrong with a whole batch, such as
pixels in [-1, 1], is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..reward import EditSample, Image, ImageError, Score
from ..reward.image import PixelFormatError


class UnusableRow(ValueError):
    """A row that is no edit by its own content. Raised by a `to_sample`, it fails that row alone."""


def image_or_reason(value: object) -> Image | str:
    """Anything `Image.of` takes, or an undecoded image of `datasets`, as an image; else the reason why it is none.

    Raises `PixelFormatError`.
    """
    if isinstance(value, Mapping):
        value = value["bytes"] if value.get("bytes") is not None else value.get("path")
    try:
        return Image.of(value)
    except PixelFormatError:
        raise
    except ImageError as error:
        return str(error)


def score_usable(
    scorer: Callable[[Sequence[EditSample]], Sequence[Score]], rows: Sequence[EditSample | str]
) -> list[Score]:
    """One score per row, failed where a row is a reason. All samples are scored in one call; without any, in none.

    Raises ValueError for another number of scores, and what the scorer raises.
    """
    samples = [row for row in rows if isinstance(row, EditSample)]
    scores = list(scorer(samples)) if samples else []
    if len(scores) != len(samples):
        name = getattr(scorer, "__name__", type(scorer).__name__)
        raise ValueError(f"{name} returned {len(scores)} scores for {len(samples)} edits")
    scores_left = iter(scores)
    return [next(scores_left) if isinstance(row, EditSample) else Score.failed(row) for row in rows]
