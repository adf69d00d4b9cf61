"""What it holds: to be written."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from types import MappingProxyType
from typing import ClassVar, Literal, get_args

from ...card import Card
from ...engine.program import Program, ask, unparsable_reply
from ...image import Image
from ...queries.kinds import Judge
from ...queries.parsing import shorten
from ...queries.prompts import Prompts
from ...queries.response_formats import FreeText, Reply
from ...sample import EditSample
from ...score import Evidence, Score
from ..edival.task_parser import task_of

EditType = Literal["add", "adjust", "extract", "replace", "remove", "background", "style", "compose", "action"]
EDIT_TYPES: tuple[EditType, ...] = get_args(EditType)
"""In the order of the published table, where `compose` is called hybrid."""

Criteria = tuple[str, str, str]

CRITERIA: Mapping[EditType, Criteria] = MappingProxyType(
    {
        "add": ("Prompt Compliance", "Visual Naturalness", "Physical & Detail Coherence"),
        "adjust": ("Prompt Compliance", "Visual Seamlessness", "Physical & Detail Fidelity"),
        "extract": ("Object Identity", "Mask Precision", "Visual Quality"),
        "replace": ("Prompt Compliance", "Visual Naturalness", "Physical & Detail Integrity"),
        "remove": ("Prompt Compliance", "Visual Naturalness", "Physical & Detail Integrity"),
        "background": ("Instruction Compliance", "Visual Seamlessness", "Physical Consistency"),
        "style": ("Style Fidelity", "Content Preservation", "Rendering Quality"),
        "compose": ("Instruction Compliance", "Visual Naturalness", "Physical Consistency & Fine Detail"),
        "action": ("Action Fidelity", "Identity Preservation", "Visual & Anatomical Coherence"),
    }
)
"""Type -> the names of its criteria in replies. The first one bounds the others."""

_TYPE_OF_TASK: Mapping[str, EditType] = {
    "subject_add": "add",
    "subject_remove": "remove",
    "subject_replace": "replace",
    "color_alter": "adjust",
    "material_alter": "adjust",
    "background_change": "background",
}
"""ImgEdit-Bench has no type for EdiVal's other tasks: positions, counts and texts."""


def edit_type_of(sample: EditSample) -> EditType | None:
    """The type of an edit: `compose` for several operations, else the name of the only one if it is a type, else that
    of the sample's task, annotated or parsed. None if all of these leave it open.
    """
    if len(sample.operations) > 1:
        return "compose"
    names = [operation.name.strip().casefold() for operation in sample.operations]
    named = next((kind for kind in EDIT_TYPES if kind in names), None)
    if named is not None:
        return named
    task = task_of(sample)
    return None if task is None else _TYPE_OF_TASK.get(task.type)


LOWEST, HIGHEST = 1, 5
"""Of every grade."""

SCORE, NON_EDITED = "Score", "Non-edited areas"
"""The lines of a reply on a hard instruction."""

_NAME_MARKS = " \t*_`#>-•"
_VALUE_MARKS = " \t*_`."
_GRADE = re.compile(rf"([{LOWEST}-{HIGHEST}])(?:\s*/\s*{HIGHEST})?")
_NUMBER = re.compile(r"[-+]?[0-9]+(?:[.,][0-9]+)?(?:\s*/\s*[0-9]+)?")
_MAX_DIGITS = 9


def read_grades(text: str, criteria: Sequence[str]) -> tuple[int, ...]:
    """The grade of each criterion, from 1 to 5: an integer, alone or out of 5, on a line that begins with its name.

    Case, `&` for `and`, and marks of emphasis do not matter. Raises ValueError if a criterion has no such line or two
    of them, and for any other line with a number behind a colon: which grade it is would be a guess.
    """
    known = {_plain(criterion): criterion for criterion in criteria}
    grades: dict[str, int] = {}
    for name, value, line in _labelled_lines(text):
        if name in known:
            grade = _GRADE.fullmatch(value)
            if grade is None:
                raise ValueError(
                    f"expected {known[name]!r} as an integer from {LOWEST} to {HIGHEST}, got {shorten(line)}"
                )
            if name in grades:
                raise ValueError(f"expected one line {known[name]!r}, got several")
            grades[name] = int(grade[1])
        elif _NUMBER.fullmatch(value):
            raise ValueError(f"expected grades of {', '.join(criteria)} only, got {shorten(line)}")
    if missing := [criterion for name, criterion in known.items() if name not in grades]:
        raise ValueError(f"expected a line for each of {', '.join(criteria)}, {', '.join(missing)} missing")
    return tuple(grades[name] for name in known)


def read_damage(text: str) -> bool:
    """Whether the judge found that areas changed which were not to be edited. Raises ValueError unless one line says
    `Non-edited areas: changed` or `unchanged`.
    """
    found = [value.casefold() for name, value, _ in _labelled_lines(text) if name == _plain(NON_EDITED)]
    if len(found) != 1 or found[0] not in ("changed", "unchanged"):
        got = shorten(", ".join(found)) if found else "none"
        raise ValueError(f"expected one line '{NON_EDITED}: changed' or '{NON_EDITED}: unchanged', got {got}")
    return found[0] == "changed"


def _labelled_lines(text: str) -> Iterator[tuple[str, str, str]]:
    """Name, value and text of each line with a colon."""
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            yield _plain(name.strip(_NAME_MARKS)), value.strip(_VALUE_MARKS), line


def _plain(name: str) -> str:
    return " ".join(name.casefold().replace("&", " and ").split())


@dataclass(frozen=True, slots=True)
class ReleasedGrade:
    """A sample's grade as released: the mean of `numbers`, rounded to two decimals. numbers: in the order of lines."""

    numbers: tuple[int, ...]

    @property
    def value(self) -> float:
        return round(fmean(self.numbers), 2)

    @property
    def out_of_range(self) -> int:
        """How many numbers are no grade."""
        return sum(not LOWEST <= number <= HIGHEST for number in self.numbers)


def released_grade(text: str) -> ReleasedGrade:
    """A reply as the released code reads it: every line that is anything, a colon, a blank and digits alone.

    So `4/5` and `4.5` are passed over, a missing criterion is left out of the mean, and any number counts, whatever
    its name and size. Raises ValueError for a reply without such a line, which the released code leaves out of all
    means, and for digits that are no number of up to nine digits, on which it stops or exceeds all scales.
    """
    numbers = []
    for line in text.splitlines():
        fields = line.strip().split(": ")
        if len(fields) != 2 or not fields[1].isdigit():
            continue
        if len(fields[1]) > _MAX_DIGITS or not fields[1].isdecimal():
            raise ValueError(f"expected a grade, got {shorten(line)}")
        numbers.append(int(fields[1]))
    if not numbers:
        raise ValueError(f"expected lines 'Criterion: n', got {shorten(text)}")
    return ReleasedGrade(tuple(numbers))


Protocol = Literal["fixed", "official"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)

GRADES, CAPPED = "grades", "capped"
"""Evidence: the grades as the judge gave them; how many of them were lowered."""

NUMBERS, OUT_OF_RANGE = "numbers", "out of range"
"""Of the evidence `grades` in `official`: how many numbers were averaged, and how many of them are no grade."""

PACKAGE = "editcritic.reward.metrics.imgedit"

_FORM = FreeText(max_tokens=1024)
"""The reasons have at most 20 words; a judge that writes more is not cut off before its grades."""


@dataclass(frozen=True)
class GradedEdit(ABC):
    """One question about the edit of one picture. Not applicable to several sources.

    protocol: how a reply is read. `fixed`: exactly the lines that were asked for, with integers from 1 to 5; the rules
    on how grades bound each other are enforced, and their use is counted in the evidence. `official`: as the released
    code reads it (see `reply_reading.released_grade`).
    prompts: a folder whose `<name>.txt` files replace the prompts of the same names.

    Raises ValueError for an invalid option.
    """

    protocol: Protocol = "fixed"
    prompts: str | None = None
    card: ClassVar[Card]

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"unknown protocol {self.protocol!r}: {self.card.name} has {' and '.join(PROTOCOLS)}")
        _ = self.prompt_pack  # read now; raises for a pack that is not a folder

    @cached_property
    def prompt_pack(self) -> Prompts:
        """Its prompts, as they were when the metric was made."""
        return Prompts(PACKAGE, self.prompts)

    @property
    @abstractmethod
    def signature(self) -> str:
        """The card's, with the options."""

    def __call__(self, sample: EditSample) -> Program[Score]:
        if len(sample.sources) > 1:
            reason = f"ImgEdit-Bench judges the edit of one picture, and this sample has {len(sample.sources)} sources"
            score = Score.not_applicable(f"{reason}: use a metric for several")
        else:
            score = yield from self._score(sample)
        return score.with_signature(self.signature)

    @abstractmethod
    def _score(self, sample: EditSample) -> Program[Score]: ...

    @abstractmethod
    def _fixed_score(self, reply: Reply, sample: EditSample) -> Score:
        """The score of a reply in `fixed`. Raises ValueError for a reply that is none."""

    def _graded(self, question: Judge, sample: EditSample) -> Program[Score]:
        reply = yield from ask(question)
        try:
            return _released_score(reply, sample) if self.protocol == "official" else self._fixed_score(reply, sample)
        except ValueError as error:
            raise unparsable_reply(f"{question.topic}: {error}", reply) from None

    def _question(self, topic: str, pictures: tuple[Image, ...], instruction: str, ending: str = "") -> Judge:
        slots = {"instruction": instruction} | ({"ending": ending} if ending else {})
        messages = self.prompt_pack.messages(topic, pictures, slots)
        return Judge(messages, _FORM, f"imgedit/{topic}", (("instruction", instruction),))


def _released_score(reply: Reply, sample: EditSample) -> Score:
    """The mean of whatever numbers the lines have. Raises ValueError for a reply without any."""
    grade = released_grade(reply.text)
    numbers = {NUMBERS: float(len(grade.numbers)), OUT_OF_RANGE: float(grade.out_of_range)}
    evidence = Evidence(GRADES, sample.edited.digest, text=reply.text, numbers=numbers)
    reason = f"mean of {', '.join(map(str, grade.numbers))}"
    if grade.out_of_range:
        reason += f"; as released, numbers outside of {LOWEST} to {HIGHEST} count: {grade.out_of_range}"
    return Score.of(grade.value, reason, evidence=[evidence])


@dataclass(frozen=True)
class ImgEditScore(GradedEdit):
    """The mean of three grades, from 1 to 5, by criteria of the edit's type. Both images and the instruction are shown.

    The second and the third grade may not exceed the first: the judge is told so. In `fixed` one that does counts as
    the first, and the evidence `capped` says how many did; `parts` has the grades that count, by criterion. In
    `official` they count as given, and evidence alone has them; a mean may then be outside of 1 to 5.

    edit_type: of all edits; by default that of each sample (`criteria.edit_type_of`). Where it is not known, and for
    several sources, the metric is not applicable.
    extract_source: whether the judge sees the source of an extraction beside the extracted object. The published words
    speak of the extracted image alone, and the released code shows both. By default as the words in `fixed`, as the
    code in `official`.
    """

    edit_type: EditType | None = None
    extract_source: bool | None = None

    card: ClassVar[Card] = Card(
        name="imgedit",
        version=1,
        summary="what was asked for is done exactly, and looks natural and physically right",
        range=(float(LOWEST), float(HIGHEST)),
        unit="grade 1-5",
        kinds={"judge": ("judge",)},
        requires=("sources", "edited", "instruction"),
        protocols=PROTOCOLS,
        source=(
            "ImgEdit (arXiv 2505.20275), ImgEdit-Bench, and the released code (PKU-YuanGroup/ImgEdit, Benchmark/Basic) "
            "for criteria, parsing and means. The published judge is GPT-4o in the code and GPT-4.1 in the table."
        ),
        failure_modes=(
            "One impression of one judge, on five coarse steps: many edits tie, words written into the image may sway "
            "it, and changes that it overlooks cost nothing. Of an extraction it sees the extracted object alone in "
            "protocol fixed: any object of the kind on white wins (extract_source=true shows the source)."
        ),
        aspect="overall",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.edit_type is not None and self.edit_type not in EDIT_TYPES:
            raise ValueError(f"unknown edit_type {self.edit_type!r}: imgedit has {', '.join(EDIT_TYPES)}")
        if self.extract_source not in (None, True, False):
            raise ValueError(f"extract_source is true or false, got {self.extract_source!r}")

    @cached_property
    def signature(self) -> str:
        """As in `imgedit@1/fixed[edit_type=add]`, with a prompt pack's digest."""
        values = {"edit_type": self.edit_type, "extract_source": self.extract_source}
        options = [f"{name}={value}" for name, value in values.items() if value is not None]
        return self.card.signature_with(self.protocol, [*options, *self.prompt_pack.options])

    def _score(self, sample: EditSample) -> Program[Score]:
        edit_type = self._type_of(sample)
        if edit_type is None:
            return Score.not_applicable(
                f"the type of this edit is not known: give edit_type, or operations with one of the names "
                f"{', '.join(EDIT_TYPES)}"
            )
        return (yield from self._graded(self._question_about(sample, edit_type), sample))

    def _type_of(self, sample: EditSample) -> EditType | None:
        return self.edit_type or edit_type_of(sample)

    def _question_about(self, sample: EditSample, edit_type: EditType) -> Judge:
        first, second, third = CRITERIA[edit_type]
        ending = self.prompt_pack.render("ending", first=first, second=second, third=third)
        alone = edit_type == "extract" and not (
            self.protocol == "official" if self.extract_source is None else self.extract_source
        )
        pictures = (sample.edited,) if alone else (sample.source, sample.edited)
        return self._question(edit_type, pictures, sample.instruction, ending)

    def _fixed_score(self, reply: Reply, sample: EditSample) -> Score:
        """The mean of the grades that count."""
        edit_type = self._type_of(sample)
        assert edit_type is not None  # it was asked about
        criteria = CRITERIA[edit_type]
        given = read_grades(reply.text, criteria)
        counted = [min(grade, given[0]) for grade in given]
        capped = sum(low < grade for low, grade in zip(counted, given, strict=True))
        numbers = {name: float(grade) for name, grade in zip(criteria, given, strict=True)}
        evidence = [Evidence(GRADES, sample.edited.digest, text=reply.text, numbers=numbers)]
        if capped:
            evidence.append(Evidence(CAPPED, numbers={GRADES: float(capped)}))
        listed = ", ".join(map(str, given))
        reason = f"mean of {listed}" + (f", none above {given[0]}" if capped else "")
        parts = {name: Score.of(grade) for name, grade in zip(criteria, counted, strict=True)}
        return Score.of(fmean(counted), reason, evidence=evidence, parts=parts)


DAMAGED_MAX = 3
"""The highest grade of an edit that changed what was not to be edited."""


@dataclass(frozen=True)
class ImgEditUge(GradedEdit):
    """One grade from 1 to 5, at most 3 if areas changed that were not to be edited. Not applicable to several sources.

    The judge is told so and says of these areas whether they changed. In `fixed` a higher grade counts as 3 where it
    says that they did, with the evidence `capped`, and a reply that does not say it is a failed score. In `official`
    the grade counts as given. The published question asks for no such line: a prompt pack with its words needs
    `official`.
    """

    card: ClassVar[Card] = Card(
        name="imgedit-uge",
        version=1,
        summary="a hard instruction is followed exactly and naturally, and all else is as it was",
        range=(float(LOWEST), float(HIGHEST)),
        unit="grade 1-5",
        kinds={"judge": ("judge",)},
        requires=("sources", "edited", "instruction"),
        protocols=PROTOCOLS,
        source=(
            "ImgEdit (arXiv 2505.20275), ImgEdit-Bench, understanding-grounding-editing suite, and the released code "
            "(PKU-YuanGroup/ImgEdit, Benchmark/UGE) for criteria, parsing and mean."
        ),
        failure_modes=(
            "One impression of one judge, on five coarse steps, and its own word on whether anything else changed: "
            "damage that it overlooks costs nothing, and words written into the image may sway it."
        ),
        aspect="overall",
    )

    @cached_property
    def signature(self) -> str:
        """As in `imgedit-uge@1/fixed`, with a prompt pack's digest."""
        return self.card.signature_with(self.protocol, self.prompt_pack.options)

    def _score(self, sample: EditSample) -> Program[Score]:
        question = self._question("uge", (sample.source, sample.edited), sample.instruction)
        return (yield from self._graded(question, sample))

    def _fixed_score(self, reply: Reply, sample: EditSample) -> Score:
        """The grade that counts."""
        (given,) = read_grades(reply.text, (SCORE,))
        damaged = read_damage(reply.text)
        counted = min(given, DAMAGED_MAX) if damaged else given
        numbers = {SCORE: float(given), "changed": float(damaged)}
        evidence = [Evidence(GRADES, sample.edited.digest, text=reply.text, numbers=numbers)]
        if counted < given:
            evidence.append(Evidence(CAPPED, numbers={GRADES: 1.0}))
        what = "changed" if damaged else "unchanged"
        return Score.of(counted, f"graded {given}, the other areas {what}", evidence=evidence)
