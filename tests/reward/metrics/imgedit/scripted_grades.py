"""Samples of each type, and scripted judges of ImgEdit-Bench's questions. They stand at the expert boundary."""

from __future__ import annotations

from typing import Any

from editcritic.reward import EditSample, Engine, Score
from editcritic.reward.metrics.imgedit.metrics import CRITERIA, EditType
from editcritic.reward.queries import Judge, Reply
from editcritic.reward.sample import Operation

from ...fakes import Fake, picture

BEFORE, AFTER = picture(1), picture(2)


def edit(kind: str = "add", **fields: Any) -> EditSample:
    instruction = "Do what is {asked}"
    options = {"operations": (Operation(instruction, kind),), "sources": (BEFORE,), "edited": AFTER, **fields}
    return EditSample(id="s", instruction=instruction, **options)


def graded(kind: EditType, *grades: object) -> str:
    """A reply with these grades of a type's criteria."""
    lines = [f"{name}: {grade}" for name, grade in zip(CRITERIA[kind], grades, strict=True)]
    return "\n".join(["Brief reasoning: made up", *lines])


class Heard(Fake):
    """Replies with a text, and keeps the questions."""

    def __init__(self, text: str) -> None:
        super().__init__(lambda query: Reply(text))
        self.queries: list[Judge] = []

    def __call__(self, queries: Any) -> Any:
        self.queries += queries
        return super().__call__(queries)


def scored(metric: Any, text: str, sample: EditSample) -> tuple[Score, list[Judge]]:
    """The score where the judge replies with a text, and what it was asked."""
    judge = Heard(text)
    with Engine() as engine:
        return engine.submit(metric(sample), {"judge": judge}, sample).result(60), judge.queries


def words(query: Judge) -> str:
    """What the judge is told, after the images."""
    text = query.messages[0].content[-1]
    assert isinstance(text, str)
    return text


def numbers(score: Score, what: str) -> dict[str, float] | None:
    """The numbers of the evidence of that name, if there is one."""
    return next((dict(item.numbers) for item in score.evidence if item.what == what), None)
