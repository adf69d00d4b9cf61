"""Scripted experts, so that a test can say in a line what was found and said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from editcritic.reward.boxes import Box
from editcritic.reward.image import Image
from editcritic.reward.metrics.edival.following import InstructionFollowing
from editcritic.reward.queries.answers import Detections, Outcome, RecognizedText
from editcritic.reward.queries.expert import Expert
from editcritic.reward.queries.kinds import Detect, Judge, Query, ReadText
from editcritic.reward.queries.outcomes import Abstention, Failure
from editcritic.reward.queries.response_formats import Reply
from editcritic.reward.sample import EditSample, Task
from editcritic.reward.score import Score

from ..scripted import run

SOURCE = Image.from_digest("a" * 64, (512, 512))
EDITED = Image.from_digest("b" * 64, (512, 512))


@dataclass
class Scene(Expert):
    """What detector, judge and reader have to say about one edit; `queries` are those that it got.

    Boxes are (cx, cy, w, h, score). An image that is not `SOURCE`, or cut out of it, is the edited one.
    """

    source: Mapping[str, Sequence[tuple[float, ...]]] = field(default_factory=dict)
    edited: Mapping[str, Sequence[tuple[float, ...]]] = field(default_factory=dict)
    judge: Reply | Abstention | Failure | dict[str, str] = field(default_factory=lambda: Reply("yes"))
    text: str = ""
    unknown: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    queries: list[Query[Any]] = field(default_factory=list)
    id: str = "scene"

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Detect, Judge, ReadText)

    def __call__(self, queries: Sequence[Query[Any]]) -> Sequence[Outcome]:
        self.queries += queries
        return [self._answer(query) for query in queries]

    def _answer(self, query: Query[Any]) -> Outcome:
        match query:
            case Detect(image, (phrase,)) if phrase in self.unknown:
                return Abstention(f"cannot look for {phrase}")
            case Detect(image, (phrase,)) if phrase in self.broken:
                return Failure(f"crashed on {phrase}")
            case Detect(image, (phrase,)):
                while image.origin is not None:
                    image = image.origin[0]
                boxes = (self.source if image == SOURCE else self.edited).get(phrase, ())
                return Detections(tuple(Box(cx, cy, w, h, p, phrase) for cx, cy, w, h, p in boxes), min_score=0.05)
            case Judge(slots=slots):
                return Reply(self.judge[dict(slots)["object"]]) if isinstance(self.judge, dict) else self.judge
            case _:
                return RecognizedText.without_boxes(self.text)

    def of_kind(self, kind: type[Any]) -> list[Any]:
        return [query for query in self.queries if isinstance(query, kind)]


Follow = Callable[..., Score]


@pytest.fixture(scope="session")
def follow() -> Follow:
    """Score one scene: `follow(task, instruction or both, Scene(...), protocol=..., dense=..., ...)`."""

    def scored(task: Any, scene: Scene, **options: Any) -> Score:
        instruction, planned = task if isinstance(task, tuple) else (task, None)
        if isinstance(task, Task):
            instruction, planned = "see the task", task
        sample, metric = EditSample("s", instruction, (SOURCE,), EDITED, task=planned), InstructionFollowing(**options)
        return run(metric, sample, dict.fromkeys(metric.card.roles, scene))

    return scored


@pytest.fixture(scope="session")
def scene() -> type[Scene]:
    """The class, for tests to make scenes of."""
    return Scene
