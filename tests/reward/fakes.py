"""Experts that do as they are told, questions to ask them, and programs that ask. The only fakes of these tests."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from editcritic.reward import (
    Abstention,
    Asks,
    Card,
    Detect,
    EditSample,
    Embed,
    Engine,
    Expert,
    Failure,
    Image,
    Judge,
    Match,
    Measure,
    Measured,
    Message,
    Metric,
    Rate,
    ReadText,
    Score,
    Segment,
    YesNo,
    ask,
    ask_each,
    gather,
)
from editcritic.reward.asking import Abstained, Ask, Unanswered
from editcritic.reward.query import Differ, Outcome, Query

PICTURE = Image.unseen("0" * 64, (8, 8))


def question(number: int) -> Rate:
    return Rate(PICTURE, str(number))


def verdict(draw: int, words: str = "is it good?") -> Judge:
    return Judge((Message((words, PICTURE)),), YesNo(), draw=draw)


def known(query: Query[Any]) -> Measured:
    """An answer that any question has, the same wherever and whenever it is asked."""
    return Measured(int(query.digest[:8], 16) / 2**32)


def mixed(query: Query[Any]) -> Outcome:
    """Like `known`, but to some questions there is no answer."""
    number = int(query.digest[:8], 16)
    if number % 7 == 0:
        return Failure("lost for words")
    return Abstention("who could know") if number % 5 == 0 else known(query)


class Fake(Expert):
    """Answers by a rule. `seen` counts how often each question reached it, `calls` holds the sizes of its batches.

    rule: query -> answer. whole: batch -> answers, instead. jitter_s: a call takes up to so long, at random.
    """

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (
        Detect,
        Match,
        Differ,
        Segment,
        Embed,
        Measure,
        Judge,
        ReadText,
        Rate,
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


class Says(Metric):
    """A metric that has its score already, or asks for it: scripted parts for compositions and rewards."""

    def __init__(self, score: Score | None = None, number: int | None = None, **card: Any) -> None:
        self.score = score
        self.number = number
        roles = () if number is None else ("preference",)
        self._card = Card(**{"name": "says", "version": 1, "summary": "as it was told", "roles": roles, **card})

    @property
    def card(self) -> Card:
        return self._card

    def __call__(self, sample: EditSample) -> Asks[Score]:
        if self.number is not None:
            (answer,) = yield from ask_each([question(self.number)])
            return Score.of(answer.value or 0.0)
        assert self.score is not None
        return self.score


def picture(seed: int = 0, width: int = 8, height: int = 8) -> Image:
    return Image.of(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def sample(name: str = "s", **fields: Any) -> EditSample:
    given: dict[str, Any] = {"instruction": "make it blue", "sources": (picture(0),), "edited": picture(1), **fields}
    return EditSample(id=name, **given)


def asks(*numbers: int) -> Asks[Score]:
    """Ask some questions at once; the score tells which, and in what order."""
    answers = yield from ask_each([question(number) for number in numbers])
    return Score.of(sum((place + 1) * (answer.value or 0.0) for place, answer in enumerate(answers)))


def alone(program: Asks[Score], rule: Callable[[Any], Any], name: str = "fake") -> Score:
    """What a program comes to when it is run by itself, without an engine: what every engine must come to as well."""
    value: Any = None
    while True:
        try:
            request = program.send(value)
        except StopIteration as stop:
            score: Score = stop.value
            return score
        except Unanswered as unanswered:
            made = Score.abstained if isinstance(unanswered, Abstained) else Score.failed
            return made(unanswered.reason)
        if isinstance(request, Ask):
            outcomes = [rule(query) for query in request.queries]
            value = tuple(Failure(o.reason, name) if isinstance(o, Failure) else o for o in outcomes)
        else:
            value = tuple(alone(part, rule, name) for part in request.programs)


Tree = list[Any]
"""A program to be: questions by number, asked together where they stand in a tuple, and trees to gather."""


def grown(tree: Tree) -> Asks[Score]:
    """The program of a tree: asks for its numbers, a tuple at a time, and gathers the trees in its lists."""
    found = 0.0
    parts: dict[str, Score] = {}
    for place, step in enumerate(tree):
        if isinstance(step, tuple):
            answers = yield from ask_each([question(number) for number in step])
            found += sum((place + 1) * (answer.value or 0.0) for answer in answers)
        else:
            scores = yield from gather([grown(part) for part in step])
            parts |= {f"{place}.{index}": score for index, score in enumerate(scores)}
    return Score.of(found, parts=parts)


def run_all(engine: Engine, programs: Sequence[Asks[Score]], expert: Expert, **roles: Expert) -> list[Score]:
    """Run programs side by side, all roles bound to one expert."""
    experts = dict.fromkeys(("preference", "judge", "detector", "features", "pixels", "reader"), expert) | roles
    return [future.result(60) for future in [engine.submit(program, experts) for program in programs]]


class Seeded(Expert):
    """Answers any question from its seed: an expert that another process can build from its spec."""

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = (Rate,)

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.id = f"seeded {seed}"

    def __call__(self, queries: Sequence[Any]) -> list[Outcome]:
        return [Measured(random.Random(f"{self.seed} {query.digest}").random()) for query in queries]


@dataclass(frozen=True)
class Rated:
    """What the expert of a role says of the edited picture: a metric that another process can build from its spec."""

    prompt: str = ""
    weights: tuple[float, ...] = (1.0,)
    role: str = "preference"

    @property
    def card(self) -> Card:
        return Card("rated", 1, "rated", roles=(self.role,))

    def __call__(self, sample: EditSample) -> Asks[Score]:
        answer = yield from ask(Rate(sample.edited, self.prompt), role=self.role)
        return Score.of((answer.value or 0.0) * self.weights[0])
