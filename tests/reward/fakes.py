"""Scripted experts, queries for them, and programs that send the queries. The only fakes of these tests."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from editcritic.reward import Card, EditSample, Engine, Expert, Image, Program, Score, ask
from editcritic.reward.engine import ask_many, gather
from editcritic.reward.engine.program import Abstained, Ask, RunOnce, Unanswered
from editcritic.reward.metrics import Metric
from editcritic.reward.queries import (
    Abstention,
    Detect,
    Embed,
    Failure,
    Judge,
    Match,
    Measure,
    Measurement,
    Message,
    Plan,
    Rate,
    ReadText,
    Segment,
    YesNo,
)
from editcritic.reward.queries.answers import Outcome
from editcritic.reward.queries.kinds import Differ, Query

PICTURE = Image.from_digest("0" * 64, (8, 8))
Tree = list[Any]
"""A description of a program: a tuple of query numbers is sent at once, a list of trees is gathered."""


def question(number: int) -> Rate:
    return Rate(PICTURE, str(number))


def verdict(draw: int, text: str = "is it good?") -> Judge:
    return Judge((Message((text, PICTURE)),), YesNo(), draw=draw)


def known(query: Query[Any]) -> Measurement:
    """A deterministic answer to any query."""
    return Measurement(int(query.digest[:8], 16) / 2**32)


def mixed(query: Query[Any]) -> Outcome:
    """Like `known`, but some queries have no answer."""
    number = int(query.digest[:8], 16)
    if number % 7 == 0:
        return Failure("lost for words")
    return Abstention("who could know") if number % 5 == 0 else known(query)


class Fake(Expert):
    """Answers by a rule. `seen` counts the queries by digest, `calls` holds the sizes of its batches.

    rule: query -> answer. whole: batch -> answers, instead. jitter_s: maximum random duration of a call.
    """

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (
        *(Detect, Match, Differ, Segment, Embed, Measure, Judge, ReadText, Rate, Plan),
    )

    def __init__(
        self,
        rule: Callable[[Any], Any] = known,
        *,
        whole: Callable[[Sequence[Any]], Any] | None = None,
        name: str = "fake",
        batch: int = 64,
        concurrency: int = 1,
        deadline_s: float = 600.0,
        jitter_s: float = 0.0,
    ) -> None:
        self.rule = rule
        self.whole = whole
        self.id = name
        self.batch = batch
        self.concurrency = concurrency
        self.deadline_s = deadline_s
        self.jitter_s = jitter_s
        self.seen: Counter[str] = Counter()
        self.calls: list[int] = []
        self._lock = threading.Lock()

    def __call__(self, queries: Sequence[Any]) -> Any:
        with self._lock:
            self.calls.append(len(queries))
            self.seen.update(query.digest for query in queries)
        if self.jitter_s:
            time.sleep(random.random() * self.jitter_s)
        return [self.rule(query) for query in queries] if self.whole is None else self.whole(queries)


class Held(Fake):
    """Answers once `go` is set; `begun` is set when it is asked."""

    def __init__(self, **options: Any) -> None:
        super().__init__(self._answer, **options)
        self.begun, self.go = threading.Event(), threading.Event()

    def _answer(self, query: Query[Any]) -> Measurement:
        self.begun.set()
        assert self.go.wait(30)
        return known(query)


class Says(Metric):
    """A metric with a fixed score, or a rated one: scripted parts for compositions and rewards."""

    def __init__(self, score: Score | None = None, number: int | None = None, **card: Any) -> None:
        self.score = score
        self.number = number
        roles = () if number is None else ("preference",)
        self._card = Card(**{"name": "says", "version": 1, "summary": "scripted", "roles": roles, **card})

    @property
    def card(self) -> Card:
        return self._card

    def __call__(self, sample: EditSample) -> Program[Score]:
        if self.number is not None:
            (answer,) = yield from ask_many([question(self.number)])
            return Score.of(answer.value or 0.0)
        assert self.score is not None
        return self.score


def picture(seed: int = 0, width: int = 8, height: int = 8) -> Image:
    return Image.of(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def sample(name: str = "s", **fields: Any) -> EditSample:
    options: dict[str, Any] = {"instruction": "make it blue", "sources": (picture(0),), "edited": picture(1), **fields}
    return EditSample(id=name, **options)


def asks(*numbers: int) -> Program[Score]:
    """Send some queries at once; the score depends on their numbers and order."""
    answers = yield from ask_many([question(number) for number in numbers])
    return Score.of(sum((index + 1) * (answer.value or 0.0) for index, answer in enumerate(answers)))


def alone(program: Program[Score], rule: Callable[[Any], Any], name: str = "fake") -> Score:
    """The score of a program without an engine: the reference for every engine."""
    try:
        score: Score = value_alone(program, rule, name)
    except Unanswered as unanswered:
        score_type = Score.abstained if isinstance(unanswered, Abstained) else Score.failed
        return score_type(unanswered.reason)
    return score


def value_alone(program: Program[Any], rule: Callable[[Any], Any], name: str) -> Any:
    """What a program returns, with everything that it shares run anew each time. Raises what it raises."""
    value: Any = None
    while True:
        try:
            request = program.send(value)
        except StopIteration as stop:
            return stop.value
        if isinstance(request, Ask):
            outcomes = [rule(query) for query in request.queries]
            value = tuple(Failure(o.reason, name) if isinstance(o, Failure) else o for o in outcomes)
        elif isinstance(request, RunOnce):
            try:
                value = (value_alone(request.program(), rule, name),)
            except Unanswered as unanswered:
                value = (unanswered,)
        else:
            value = tuple(alone(part, rule, name) for part in request.programs)


def grown(tree: Tree) -> Program[Score]:
    """The program of a tree: sends its numbers, a tuple at a time, and gathers the trees in its lists."""
    total = 0.0
    parts: dict[str, Score] = {}
    for position, step in enumerate(tree):
        if isinstance(step, tuple):
            answers = yield from ask_many([question(number) for number in step])
            total += sum((position + 1) * (answer.value or 0.0) for answer in answers)
        else:
            scores = yield from gather([grown(part) for part in step])
            parts |= {f"{position}.{index}": score for index, score in enumerate(scores)}
    return Score.of(total, parts=parts)


def run_all(engine: Engine, programs: Sequence[Program[Score]], expert: Expert, **roles: Expert) -> list[Score]:
    """Run programs concurrently, all roles bound to one expert."""
    names = ("preference", "judge", "detector", "features", "pixels", "reader", "planner")
    experts = dict.fromkeys(names, expert) | roles
    return [future.result(60) for future in [engine.submit(program, experts) for program in programs]]


class Seeded(Expert):
    """Answers any query from its seed: an expert that another process can build from its spec."""

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Rate,)

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.id = f"seeded {seed}"

    def __call__(self, queries: Sequence[Any]) -> list[Outcome]:
        return [Measurement(random.Random(f"{self.seed} {query.digest}").random()) for query in queries]


@dataclass(frozen=True)
class Rated:
    """The rating of the edited image: a metric that another process can build from its spec."""

    prompt: str = ""
    weights: tuple[float, ...] = (1.0,)
    role: str = "preference"

    @property
    def card(self) -> Card:
        return Card("rated", 1, "rated", roles=(self.role,))

    def __call__(self, sample: EditSample) -> Program[Score]:
        answer = yield from ask(Rate(sample.edited, self.prompt), role=self.role)
        return Score.of((answer.value or 0.0) * self.weights[0])
