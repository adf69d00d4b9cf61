"""Rows of a trainer's batch that are no edits by their own content, such as a picture of NaN: they fail alone.

Such a row is the reason for it, a string, in place of its image or sample. That is one with more than
`reward.sample_limits` allows, with a picture that no file may have, or with a lone surrogate, too. What is wrong with a
whole batch, such as pixels in [-1, 1], is raised.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from ..reward import EditSample, Image, ImageError, Score
from ..reward.encoded_images import check_size
from ..reward.image import PixelFormatError
from ..reward.plain_text import check_text, one_line
from ..reward.plan_json import plan_to_json
from ..reward.sample_limits import SampleTooLarge


class UnusableRow(ValueError):
    """A row that is no edit by its own content. Raised by a `to_sample`, it fails that row alone."""


def image_or_reason(value: object) -> Image | str:
    """Anything `Image.of` takes, or an undecoded image of `datasets`, as an image; else the reason why it is none.

    Raises `PixelFormatError`.
    """
    if isinstance(value, Mapping):
        value = value["bytes"] if value.get("bytes") is not None else value.get("path")
    try:
        image = Image.of(value)
    except PixelFormatError:
        raise
    except ImageError as error:
        return str(error)
    try:
        check_size(image.size)  # arrays and tensors may have any shape
    except ImageError as error:
        return f"the picture {error}"
    return image


def sample_or_reason(to_sample: Callable[[Mapping[str, Any]], EditSample], row: Mapping[str, Any]) -> EditSample | str:
    """The sample of a row, or the reason why it is none: an `UnusableRow`, `SampleTooLarge` or `ImageError` of
    `to_sample`, or a lone surrogate. Raises `PixelFormatError`, and what else `to_sample` raises.
    """
    try:
        sample = to_sample(row)
        check_characters(sample)
    except PixelFormatError:
        raise
    except (UnusableRow, SampleTooLarge, ImageError) as error:
        return str(error)
    return sample


def check_characters(sample: EditSample) -> None:
    """Raise `UnusableRow` for a lone surrogate in a sample, which no judge can be sent and no log can hold."""
    texts = [sample.id, sample.instruction, sample.group, sample.hint, sample.target_text, *sample.boxes]
    texts += [operation.instruction for operation in sample.operations]
    if sample.plan is not None:
        texts.append(json.dumps(plan_to_json(sample.plan), ensure_ascii=False))
    try:
        for text in texts:
            check_text(text)
    except ValueError as error:
        raise UnusableRow(str(error)) from None


def excess(error: ValidationError) -> str:
    """What of a row is more than `reward.sample_limits` allows, or no character, if pydantic found that; else empty."""
    for item in error.errors(include_url=False, include_input=False):
        if isinstance(cause := item.get("ctx", {}).get("error"), SampleTooLarge):
            return str(cause)
        if item["type"] in _EXCESS:
            return one_line(f"{'.'.join(map(str, item['loc']))}: {item['msg']}")
    return ""


_EXCESS = frozenset({"too_long", "string_too_long", "less_than_equal", "string_unicode"})


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
