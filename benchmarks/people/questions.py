"""What people are asked: which pictures, about what, in which order.

I2I-Bench, section 3.3 and appendix B: one dimension at a time, a trial of about 30 first, 20 % looked at again, and a
dimension with more than 10 % errors judged anew. EdiVal, appendix Q: yes or no. Complex-Edit, section 4.1: two pictures
of one instruction, a metric at a time and as a whole. DLEBench, section 3 and 5.3: boxes, references, four levels.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

from ...reward import EditSample
from ..inputs import InputError
from ..suite_run.outputs import Outputs
from ..suites.suite import Item, Suite
from .labels import KINDS, OVERALL, Kind, Label, Phase
from .meeting import On

TRIAL = 30
RECHECKED = 0.2
_APART = 8  # questions between the first time and the second, where there are so many
_PAIRED: frozenset[Kind] = frozenset({"pair"})
_OF_DATA: frozenset[Kind] = frozenset({"boxes", "reference"})


@dataclass(frozen=True, slots=True)
class About:
    """A kind of answer on one dimension, as in `pair:overall`."""

    kind: Kind
    dimension: str

    @staticmethod
    def of(text: str) -> About:
        """Raises `InputError`."""
        name, _, dimension = text.partition(":")
        kind = next((kind for kind in KINDS if kind == name), None)
        if kind is None or not dimension:
            kinds = ", ".join(KINDS)
            raise InputError(f"--ask is KIND:DIMENSION, as in pair:overall, and kinds are {kinds}; got {text!r}")
        return About(kind, dimension)


@dataclass(frozen=True, slots=True)
class Question:
    """on: (editor, id), two of them for a pair, none of whose editors the annotator is told."""

    about: About
    on: On

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for labels of the same thing (`key_of`)."""
        return (self.about.kind, self.about.dimension, frozenset(self.on))


def key_of(label: Label) -> tuple[object, ...]:
    """Of what a label is about."""
    return (label.kind, label.dimension, frozenset(label.on))


@dataclass(frozen=True, slots=True)
class Asked:
    """A question in its place. swapped: the first of a pair is shown on the right."""

    question: Question
    phase: Phase
    swapped: bool
    round: int = 1


@dataclass
class Pool:
    """All that can be asked. editors: name -> folder of pictures. skipped: what has no picture, and why."""

    suite: Suite
    editors: Mapping[str, Path]
    skipped: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._outputs = {name: Outputs(self.suite, folder) for name, folder in self.editors.items()}

    def sample(self, editor: str, name: str) -> EditSample:
        """The item with that editor's picture; as the data has it where there is no editor. Raises `MissingPicture`."""
        item = self.suite.by_id[name]
        return self._outputs[editor].sample(item) if editor else item.sample

    def questions(self, about: Sequence[About], *, items: int | None = None, seed: int = 0) -> list[Question]:
        """Every question there is a picture for, of so many items (drawn by seed). Raises `InputError` for none."""
        chosen = list(self.suite.items)
        if items is not None and items < len(chosen):
            drawn = set(random.Random(seed).sample(range(len(chosen)), items))
            chosen = [item for number, item in enumerate(chosen) if number in drawn]
        found = [question for one in about for item in chosen for question in self._of(one, item)]
        if not found:
            why = f"; {self.skipped[0]}" if self.skipped else ""
            raise InputError(f"there is nothing to ask about {', '.join(one.dimension for one in about)}{why}")
        return found

    def _of(self, about: About, item: Item) -> list[Question]:
        if about.kind in _OF_DATA:
            if about.kind == "reference" and item.sample.reference is None:
                self.skipped.append(f"{item.id} has no reference")
                return []
            return [Question(about, (("", item.id),))]
        there = [name for name in self.editors if self._has(name, item)]
        if about.kind in _PAIRED:
            return [Question(about, ((a, item.id), (b, item.id))) for a, b in combinations(there, 2)]
        return [Question(about, ((name, item.id),)) for name in there]

    def _has(self, editor: str, item: Item) -> bool:
        one: Item | None = item
        while one is not None:
            if self.suite.find(self.editors[editor], one) is None:
                self.skipped.append(f"{editor} has no picture {one.place}")
                return False
            one = self.suite.by_id[one.after] if one.after else None
        return True


def order(
    questions: Sequence[Question],
    annotator: str,
    *,
    seed: int = 0,
    trial: int = TRIAL,
    rechecked: float = RECHECKED,
    known: frozenset[tuple[object, ...]] = frozenset(),
) -> list[Asked]:
    """What an annotator is asked, in order: a trial, then one dimension after the other, the whole impression last.

    trial: questions for practice, a third of all at most, those with a known answer first; they are not asked again.
    rechecked: share of a dimension's questions that come a second time, later and with sides swapped; those with a
    known answer first. The same for the same annotator and seed.
    """
    chance = random.Random(f"{seed} {annotator}")
    practice = _practice(questions, chance, min(trial, len(questions) // 3), known)
    left = [question for question in questions if question.key not in practice]
    found = [Asked(question, "trial", chance.random() < 0.5) for question in questions if question.key in practice]
    chance.shuffle(found)
    abouts = sorted(dict.fromkeys(question.about for question in left), key=lambda one: one.dimension == OVERALL)
    for about in abouts:
        found += block([one for one in left if one.about == about], chance, rechecked, known)
    return found


def block(
    questions: Sequence[Question],
    chance: random.Random,
    rechecked: float,
    known: frozenset[tuple[object, ...]] = frozenset(),
    round: int = 1,  # noqa: A002  (the field's name)
) -> list[Asked]:
    """A dimension's questions, some of them twice."""
    first = [Asked(question, "main", chance.random() < 0.5, round) for question in questions]
    chance.shuffle(first)
    many = len(first)
    again = sorted(range(many), key=lambda place: (first[place].question.key not in known, chance.random()))
    places = [(float(place), one) for place, one in enumerate(first)]
    for place in again[: int(rechecked * many + 0.5)]:
        one = first[place]
        later = chance.uniform(min(place + _APART, many), many)
        places.append((later, Asked(one.question, "recheck", not one.swapped, round)))
    return [one for _, one in sorted(places, key=lambda pair: pair[0])]


def _practice(
    questions: Sequence[Question], chance: random.Random, count: int, known: frozenset[tuple[object, ...]]
) -> set[tuple[object, ...]]:
    """Questions of the trial, as many of each dimension as can be."""
    by_about: dict[About, list[Question]] = {}
    for question in questions:
        by_about.setdefault(question.about, []).append(question)
    for some in by_about.values():
        chance.shuffle(some)
        some.sort(key=lambda question: question.key not in known)
    found: list[Question] = []
    while len(found) < count:
        for some in by_about.values():
            if some and len(found) < count:
                found.append(some.pop(0))
    return {question.key for question in found}
