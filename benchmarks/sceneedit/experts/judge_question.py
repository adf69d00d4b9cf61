"""A question to SceneJudge, what it compares, and its reply from a probability or a share in each response format."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import Any

from ....reward import Image
from ....reward.queries import Judge, Reply
from ....reward.queries.response_formats import Grade
from .edit_comparison import EditComparison, EditComparisonCache
from .instruction_parser import UnanswerableError
from .perception import ImagePerception, PerceptionCache


@dataclass(frozen=True)
class Question:
    """A query with a topic. The judge uses its images in their order and reads its slots, not the message."""

    query: Judge
    slots: Mapping[str, str]
    perception: PerceptionCache
    comparisons: EditComparisonCache

    @property
    def images(self) -> tuple[Image, ...]:
        return self.query.images

    @property
    def visual_quality(self) -> float:
        """That of the last image, in [0, 1]."""
        return self.perceive(self.images[-1]).visual_quality

    def slot(self, name: str) -> str:
        return self.slots.get(name, "")

    def perceive(self, image: Image) -> ImagePerception:
        return self.perception.perceive(image)

    def expect(self, count: int, *, or_more: bool = False) -> None:
        """Raises `UnanswerableError` for another number of images."""
        if len(self.images) < count or (len(self.images) > count and not or_more):
            raise UnanswerableError(f"{self.query.topic} by {len(self.images)} pictures: expected {count}")

    def compare(self, sources: Sequence[Image], edited: Image, operations: str = "") -> EditComparison:
        """The edit by the slot `instruction`. Raises `UnanswerableError` for unknown words."""
        return self.comparisons.get(sources, edited, self.slot("instruction"), operations)

    def pair(self) -> EditComparison:
        """The edit of two images, a source and the edited one. Raises `UnanswerableError`."""
        self.expect(2)
        return self.compare(self.images[:1], self.images[1])


Answers = Mapping[str, Callable[[Question], Reply]]
"""Topic -> what answers it. Raises `UnanswerableError`."""


def changes_in_words(comparison: EditComparison) -> str:
    """What changed without a request."""
    return "; ".join(change.description for change in comparison.unrequested_changes) or "all else is as it was"


LEVELS = ("bad", "poor", "fair", "good", "excellent")


def yes_no_reply(p: float) -> Reply:
    """Yes with this probability."""
    p = min(max(p, 0.0), 1.0)
    return Reply("yes" if p >= 0.5 else "no", {"yes": p, "no": 1 - p})


def level_reply(share: float, options: Sequence[str]) -> Reply:
    """One of the five levels, spread around `share` in [0, 1]. Raises `UnanswerableError` for other words."""
    if {option.casefold() for option in options} != set(LEVELS):
        raise UnanswerableError(f"which of {', '.join(options)} it is: its levels are {', '.join(reversed(LEVELS))}")
    level_probabilities = dict(zip(LEVELS, binomial_probabilities(share, len(LEVELS) - 1), strict=True))
    probabilities = {option: level_probabilities[option.casefold()] for option in options}
    return Reply(max(options, key=lambda option: probabilities[option]), probabilities)


def grade_reply(share: float, query: Judge) -> Reply:
    """An integer of the query's scale: the most probable one or, at a temperature, a sampled one."""
    form = query.form
    assert isinstance(form, Grade)
    step_probabilities = binomial_probabilities(share, form.high - form.low)
    probabilities = {str(form.low + step): probability for step, probability in enumerate(step_probabilities)}
    grade = form.low + sample_index(step_probabilities, query, "grade", form.temperature)
    return Reply(str(grade), probabilities)


def json_reply(value: Any) -> Reply:
    """A reply in JSON."""
    return Reply(json.dumps(value))


def binomial_probabilities(share: float, steps: int) -> list[float]:
    """Probabilities of 0 to `steps`, binomial: the mean is exactly share x steps, and shares 0 and 1 are certain."""
    return list(_binomial_probabilities(round(min(max(share, 0.0), 1.0), 6), steps))


@lru_cache(maxsize=4096)
def _binomial_probabilities(share: float, steps: int) -> tuple[float, ...]:
    return tuple(comb(steps, k) * share**k * (1 - share) ** (steps - k) for k in range(steps + 1))


def sample_index(probabilities: Sequence[float], query: Judge, label: str, temperature: float = 1.0) -> int:
    """An index sampled with these probabilities; at temperature 0 the most probable one.

    It depends on the query, its draw included, and on `label` alone.
    """
    if temperature <= 0:
        return max(range(len(probabilities)), key=lambda index: probabilities[index])
    weights = [probability ** (1 / temperature) for probability in probabilities]
    remaining = uniform_draw(query, label) * sum(weights)
    for index, weight in enumerate(weights):
        remaining -= weight
        if remaining < 0:
            return index
    return max(index for index, weight in enumerate(weights) if weight > 0)


def uniform_draw(query: Judge, label: str) -> float:
    """A uniform number in [0, 1), a function of the label and the query with its draw."""
    return int.from_bytes(hashlib.sha256(f"{label} {query.digest}".encode()).digest()[:8], "big") / 2**64
