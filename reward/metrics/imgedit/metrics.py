"""ImgEdit-Bench's metrics: three grades of an edit by criteria of its type, and one of a hard instruction (UGE).

A reply has a line of reasons and then one line for each grade, `Criterion: n`. It is read strictly, or as the released
code does.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from types import MappingProxyType
from typing import ClassVar, Literal, get_args

from ...card import Card
from ...engine.program import Program, ask, unparsable_reply
from ...queries.kinds import Judge
from ...queries.parsing import shorten
from ...queries.response_formats import FreeText, Reply
from ...sample import EditSample
from ...score import Evidence, Score
from ..edival.task_parser import task_of
from ..prompted_metric import PromptedMetric

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
    """The type of an edit: `compose` for several operations, else the only one's name if that is one, or the task's.
    None if these leave it open."""
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
    """The grade of each criterion, an integer from 1 to 5 (perhaps out of 5) on a line with its name. Raises ValueError
    for a criterion without such a line or with two, and for any other number behind a colon."""
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
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            yield _plain(name.strip(_NAME_MARKS)), value.strip(_VALUE_MARKS), line


def _plain(name: str) -> str:
    return " ".join(name.casefold().replace("&", " and ").split())


def released_grades(text: str) -> tuple[int, ...]:
    """The numbers that the released code reads: each line that is anything, a colon, a blank and digits alone; its
    grade is their mean. `4/5` and `4.5` are passed over, and any number counts. Raises ValueError for a reply without
    any, and for digits that are no number of up to nine."""
    fields = [line.strip().split(": ") for line in text.splitlines()]
    found = [pair[1] for pair in fields if len(pair) == 2 and pair[1].isdigit()]
    for digits in found:
        if len(digits) > _MAX_DIGITS or not digits.isdecimal():
            raise ValueError(f"expected a grade, got {shorten(digits)}")
    if not found:
        raise ValueError(f"expected lines 'Criterion: n', got {shorten(text)}")
    return tuple(map(int, found))


Protocol = Literal["fixed", "official"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)

GRADES, CAPPED = "grades", "capped"
"""Evidence: the grades as the judge gave them; how many of them were lowered."""

NUMBERS, OUT_OF_RANGE = "numbers", "out of range"
"""Of the evidence `grades` in `official`: how many numbers were averaged, and how many of them are no grade."""

PACKAGE = "editcritic.reward.metrics.imgedit"

_FORM = FreeText(max_tokens=1024)
"""The reasons have at most 20 words; a judge that writes more is not cut off before its grades."""

_CARD = Card(
    "imgedit",
    1,
    "",
    range=(float(LOWEST), float(HIGHEST)),
    unit="grade 1-5",
    kinds={"judge": ("judge",)},
    requires=("sources", "edited", "instruction"),
    protocols=PROTOCOLS,
    aspect="overall",
)


@dataclass(frozen=True)
class GradedEdit(PromptedMetric):
    """One question about the edit of one picture. protocol: how a reply is read. `fixed`: exactly the lines asked for,
    integers from 1 to 5, with the rules on how grades bound each other enforced and counted in the evidence.
    `official`: as the released code does (`released_grades`)."""

    protocol: Protocol = "fixed"
    prompts: str | None = None
    card: ClassVar[Card]
    package: ClassVar[str] = PACKAGE
    variant: ClassVar[str] = "protocol"
    choices: ClassVar[Mapping[str, Collection[object]]] = {"protocol": PROTOCOLS}
    one_picture: ClassVar[str] = "ImgEdit-Bench"

    @abstractmethod
    def fixed_score(self, reply: Reply, criteria: Sequence[str], sample: EditSample) -> Score:
        """The score of a reply in `fixed`. Raises ValueError for a reply that is none."""

    def graded(self, question: Judge, criteria: Sequence[str], sample: EditSample) -> Program[Score]:
        """The score of a question about these criteria."""
        reply = yield from ask(question)
        try:
            if self.protocol == "official":
                grades = released_grades(reply.text)
                out_of_range = sum(not LOWEST <= grade <= HIGHEST for grade in grades)
                reason = f"mean of {', '.join(map(str, grades))}"
                if out_of_range:
                    reason += f"; as released, numbers outside of {LOWEST} to {HIGHEST} count: {out_of_range}"
                numbers = {NUMBERS: float(len(grades)), OUT_OF_RANGE: float(out_of_range)}
                evidence = Evidence(GRADES, sample.edited.digest, text=reply.text, numbers=numbers)
                return Score.of(round(fmean(grades), 2), reason, evidence=[evidence])
            return self.fixed_score(reply, criteria, sample)
        except ValueError as error:
            raise unparsable_reply(f"{question.topic}: {error}", reply) from None


def _evidence(reply: Reply, sample: EditSample, numbers: Mapping[str, float], capped: int) -> list[Evidence]:
    evidence = [Evidence(GRADES, sample.edited.digest, text=reply.text, numbers=numbers)]
    return [*evidence, Evidence(CAPPED, numbers={GRADES: float(capped)})] if capped else evidence


@dataclass(frozen=True)
class ImgEditScore(GradedEdit):
    """The mean of three grades, from 1 to 5, by criteria of the edit's type. The second and third may not exceed the
    first: in `fixed` such a one counts as the first, with the evidence `capped`, and `parts` has the grades that
    count; in `official` they count as given, and the mean may lie outside of 1 to 5.

    Args:
        edit_type: Of all edits; by default that of each sample (`edit_type_of`). Where it is not known, and for several
            sources, the metric is not applicable.
        extract_source: Whether the judge sees the source of an extraction beside the extracted object. The published
            words speak of the extracted image alone, and the released code shows both. By default as the words in
            `fixed`, as the code in `official`.
    """

    edit_type: EditType | None = None
    extract_source: bool | None = None

    card: ClassVar[Card] = replace(
        _CARD,
        name="imgedit",
        summary="what was asked for is done exactly, and looks natural and physically right",
        source=(
            "ImgEdit (arXiv 2505.20275), ImgEdit-Bench, and the released code (PKU-YuanGroup/ImgEdit, Benchmark/Basic) "
            "for criteria, parsing and means. The published judge is GPT-4o in the code and GPT-4.1 in the table."
        ),
        failure_modes=(
            "One impression of one judge, on five coarse steps: many edits tie, words written into the image may sway "
            "it, and changes that it overlooks cost nothing. Of an extraction it sees the extracted object alone in "
            "protocol fixed: any object of the kind on white wins (extract_source=true shows the source)."
        ),
    )

    choices: ClassVar[Mapping[str, Collection[object]]] = {
        "protocol": PROTOCOLS,
        "edit_type": (None, *EDIT_TYPES),
        "extract_source": (None, True, False),
    }

    def score(self, sample: EditSample) -> Program[Score]:
        edit_type = self.edit_type or edit_type_of(sample)
        if edit_type is None:
            names = ", ".join(EDIT_TYPES)
            return Score.not_applicable(
                f"the type of this edit is not known: give edit_type, or operations with one of the names {names}"
            )
        criteria = CRITERIA[edit_type]
        ending = self.prompt_pack.render("ending", **dict(zip(("first", "second", "third"), criteria, strict=True)))
        shows_source = self.protocol == "official" if self.extract_source is None else self.extract_source
        alone = edit_type == "extract" and not shows_source
        pictures = (sample.edited,) if alone else (sample.source, sample.edited)
        slots = {"instruction": sample.instruction}
        question = self.question(f"imgedit/{edit_type}", pictures, _FORM, slots, ending=ending)
        return (yield from self.graded(question, criteria, sample))

    def fixed_score(self, reply: Reply, criteria: Sequence[str], sample: EditSample) -> Score:
        """The mean of the grades that count."""
        given = read_grades(reply.text, criteria)
        counted = [min(grade, given[0]) for grade in given]
        capped = sum(grade > given[0] for grade in given)
        numbers = dict(zip(criteria, map(float, given), strict=True))
        reason = f"mean of {', '.join(map(str, given))}" + (f", none above {given[0]}" if capped else "")
        parts = {name: Score.of(grade) for name, grade in zip(criteria, counted, strict=True)}
        return Score.of(fmean(counted), reason, evidence=_evidence(reply, sample, numbers, capped), parts=parts)


DAMAGED_MAX = 3
"""The highest grade of an edit that changed what was not to be edited."""


@dataclass(frozen=True)
class ImgEditUge(GradedEdit):
    """One grade from 1 to 5, at most 3 if areas changed that were not to be edited, of which the judge says whether
    they did. In `fixed` a higher one counts as 3, with the evidence `capped`; in `official` as given: a pack with the
    published words needs it."""

    card: ClassVar[Card] = replace(
        _CARD,
        name="imgedit-uge",
        summary="a hard instruction is followed exactly and naturally, and all else is as it was",
        source=(
            "ImgEdit (arXiv 2505.20275), ImgEdit-Bench, understanding-grounding-editing suite, and the released code "
            "(PKU-YuanGroup/ImgEdit, Benchmark/UGE) for criteria, parsing and mean."
        ),
        failure_modes=(
            "One impression of one judge, on five coarse steps, and its own word on whether anything else changed: "
            "damage that it overlooks costs nothing, and words written into the image may sway it."
        ),
    )

    def score(self, sample: EditSample) -> Program[Score]:
        slots = {"instruction": sample.instruction}
        question = self.question("imgedit/uge", (sample.source, sample.edited), _FORM, slots)
        return self.graded(question, (SCORE,), sample)

    def fixed_score(self, reply: Reply, criteria: Sequence[str], sample: EditSample) -> Score:
        """The grade that counts."""
        (given,) = read_grades(reply.text, criteria)
        damaged = read_damage(reply.text)
        counted = min(given, DAMAGED_MAX) if damaged else given
        evidence = _evidence(reply, sample, {SCORE: float(given), "changed": float(damaged)}, counted < given)
        what = "changed" if damaged else "unchanged"
        return Score.of(counted, f"graded {given}, the other areas {what}", evidence=evidence)
