"""Following: whether each operation of a plan was carried out, by the strongest check that the experts allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import ClassVar

import numpy as np

from ... import missing_inputs
from ...boxes import Box
from ...card import Card
from ...edit_plan import EditPlan, OperationType, PlannedOperation, Target
from ...engine.program import Abstained, Program, ask, gather
from ...queries.kinds import MapChanges
from ...queries.outcomes import Abstention
from ...sample import EditSample, Task
from ...score import Evidence, Score
from ..compose import without_value
from ..edival.inspector import Condition, UnparsableReply, all_hold
from .frames import in_one_frame
from .instruction_words import with_related
from .pixel_edits import LookEdit, check_look, look_edit, look_in_question, staying_boxes
from .plan_of_sample import PLANNED_KINDS, UNCERTAIN, PlannedMetric
from .plans import is_whole, task_of_operation, words_of_plan
from .preservation import norm_of_colour, preservation
from .questions import check_questions, describe_change, list_differences, shows, words_of
from .targets import LocatedTarget, locate_targets, names_picture
from .task_checks import check_task
from .text_checks import removes_text, text_removed

_BY_BOXES: Mapping[OperationType, tuple[str, ...]] = {
    "subject_remove": ("target",),
    "position_change": ("target", "reference"),
    "count_change": ("target",),
    "color_alter": ("target",),
    "text_change": ("target", "reference"),
    "text_remove": ("target",),
}
"""Types that are decided without a model that looks where these objects have boxes in the source."""
_BY_DETECTOR: tuple[OperationType, ...] = ("subject_add", "subject_replace")
"""Types that are about something new, which no box in the source shows, and a detector finds."""


def advice(
    sample: EditSample, operation: PlannedOperation, located: LocatedTarget | None, reasons: Sequence[str]
) -> str:
    """What is missing for an operation on which experts abstained (reasons), and what to type. located: its target.
    Boxes are named only where they would decide it, and are not there yet; other reasons stay as they are."""
    from ...experts.colour import COLOURS, basic_colour

    if not all(missing_inputs.says_no_box(reason) or missing_inputs.says_no_judge(reason) for reason in reasons):
        return "; ".join(dict.fromkeys(reasons))
    if operation.old_text and operation.type == "text_remove":
        return missing_inputs.needs_readable_text(operation.old_text)
    slots: tuple[str, ...] = ()
    if operation.type == "text_remove" or task_of_operation(operation) is not None:
        slots = _BY_BOXES.get(operation.type, ())
    objects = [target for slot in slots if (target := getattr(operation, slot)) is not None]
    if objects and operation.type == "color_alter" and not basic_colour(operation.value):
        return missing_inputs.unknown_colour(operation.value, COLOURS)
    if located is not None and not located.boxes and _count(located.target) > len(located.others) > 0:
        target, others = located.target, located.others  # they are fewer than are meant
        return missing_inputs.needs_more_boxes(target.phrase, _count(target), len(others))
    lacking = _without_boxes(objects, reasons)
    related = _without_boxes([other for one in objects for other in with_related(one)[1:]], reasons)
    if lacking or related:
        is_misnamed = list(lacking) == [one.phrase for one in objects]
        return missing_inputs.needs_boxes(lacking or related, tuple(sample.boxes) if is_misnamed else ())
    if operation.type == "text_remove":
        return missing_inputs.needs_readable_text("")
    unboxed = operation.type in _BY_DETECTOR and any(missing_inputs.says_no_box(reason) for reason in reasons)
    return missing_inputs.needs_models(describe_change(operation), detector=unboxed)


def _without_boxes(targets: Sequence[Target], reasons: Sequence[str]) -> dict[str, int]:
    """The names without a box, with how many are meant."""
    counts = {target.phrase: _count(target) or 1 for target in targets}
    return {
        name: count
        for name, count in counts.items()
        if any(missing_inputs.says_no_box(reason, name) for reason in reasons)
    }


def _count(target: Target) -> int:
    return {"both": 2, "all": 0}[target.quantity] if isinstance(target.quantity, str) else target.quantity


MIN_VISIBLE_SHARE = 0.02
"""Share of a target's patches that must differ visibly from the source; letters are thin."""
VISIBLE_EXCESS, VISIBLE_COLOUR = 2.0, 8.0
"""Change of a patch from which on it is visible: in units of what is harmless (`preservation`), or of its mean colour
in CIE L*a*b*, where 2.3 is just noticeable."""
_VISIBLE_DRIFT = 0.98
"""Share that is left by drift (`preservation`) below which another look of the whole image is visible."""
PLAN_IS_UNCERTAIN = "the plan is uncertain"
_ELSEWHERE = ("position_change", "count_change", "duplicate")
"""Types that may change the image elsewhere than at the target's place."""

_NEED_TARGET = (
    *("subject_remove", "subject_replace", "position_change", "count_change", "color_alter", "material_alter"),
    *("resize", "rotate", "duplicate", "extraction", "pose", "expression", "attribute"),
)
"""Types that cannot be carried out without their target: they are about an object, and nothing else."""
_OF_OBJECTS = ("subject_remove", "subject_replace", "color_alter", "material_alter")
"""Types whose target is an object in the picture even if it is called like one: the frame of a mirror."""


@dataclass(frozen=True)
class PlanFollowing(PlannedMetric):
    """Whether the operations of the sample's plan were carried out, in [0, 1]: half the mean over them, half whether
    all hold, so at least 0.75 exactly if all do. One that holds loses at most 0.02, another one counts half its
    degree, below 0.25. EdiVal's algorithms check its types where a detector finds the target, arithmetic what pixels
    decide, and questions of the plan all else. What the source shows already is not applicable; a change that cannot
    be seen does not count. `credits` has the operations.

    Args:
        list_differences: Whether a judge is also asked to list all differences, where an operation is checked by
            questions: one that no difference belongs to was not carried out.
    """

    card: ClassVar[Card] = Card(
        name="any-edit-following",
        version=5,
        summary="every operation of the instruction was carried out",
        kinds={**PLANNED_KINDS, "changes": ("map_changes", "remains")},
        requires=("sources", "edited", "instruction"),
        source="docs/metrics.md; algorithms 3-11 of EdiVal-Agent (ICLR 2026) where the operation has one",
        failure_modes=(
            "Looks at what was asked for and at nothing else: reward it together with preservation. Without a detector "
            "it rests on the judge alone, and without a judge only what a detector, a reader or colours decide has a "
            "value. What a plan leaves out is not checked."
        ),
        aspect="following",
    )

    list_differences: bool = True

    def score(self, sample: EditSample) -> Program[Score]:
        framed = yield from in_one_frame(sample)
        plan = framed.plan
        planned = Evidence("plan", text=words_of_plan(plan), numbers={"confidence": plan.confidence})
        checks = [
            _Check(self, framed.sample, plan, operation, framed.verdicts.get(index))
            for index, operation in enumerate(plan.operations)
        ]
        scored = yield from gather([check.score() for check in checks])
        credits = {f"operation {number}": score for number, score in enumerate(scored, start=1)}
        evidence = [planned]
        answered = not any(score.status in ("failed", "abstained") for score in scored)
        if self.list_differences and answered and any(check.by_questions for check in checks):
            credits, listed = yield from self._with_differences(sample, plan, checks, credits)
            evidence.append(listed)
        score = _whole(credits, evidence)
        if plan.confidence <= UNCERTAIN:
            score = replace(score, reason=f"{PLAN_IS_UNCERTAIN}; {score.reason}")
        return score

    def _with_differences(
        self, sample: EditSample, plan: EditPlan, checks: list[_Check], credits: Mapping[str, Score]
    ) -> Program[tuple[dict[str, Score], Evidence]]:
        """The credits, lowered for operations that questions confirm and no listed difference belongs to."""
        carried_out, evidence = yield from list_differences(sample, plan, self.prompt_pack)
        changed = dict(credits)
        for index, (name, credit) in enumerate(credits.items()):
            if checks[index].by_questions and credit.value is not None and index not in carried_out:
                reason = f"none of the differences that the judge lists belongs to it; {credit.reason}"
                changed[name] = replace(credit, value=min(credit.value, _NOT_LISTED), reason=reason)
        return changed, evidence


_NOT_LISTED = 0.25
"""Degree, at most, of an operation that questions confirm and no listed difference belongs to."""


@dataclass
class _Check:
    """The check of one operation. frame: the verdict on it, if it asked for another frame. by_questions: whether
    questions decide it, known once it was scored."""

    metric: PlanFollowing
    sample: EditSample
    plan: EditPlan
    operation: PlannedOperation
    frame: Condition | None = None
    by_questions: bool = False

    def score(self) -> Program[Score]:
        """The degree of the operation."""
        if self.frame is not None:
            return Score.of(self.frame.degree, self.frame.reason)
        if (look := look_edit(self.operation)) is not None:
            decided = yield from self._look(look)
            if decided is not None:
                return decided
        try:
            targets = yield from self._locate()
        except Abstained as unlocated:  # about the source alone: the same for every edit of the group
            try:
                return (yield from self._checked(None, is_detectable=False))
            except Abstained as unseen:
                raise self._advised(None, unlocated, unseen) from None
        needs_target = self.operation.type in _NEED_TARGET
        for needed in (self.operation.target if needs_target else None, self.operation.reference):
            if needed is None or needed not in targets or targets[needed].detected:
                continue
            present = yield from shows(self.sample.source, needed, self.metric.prompt_pack)
            if not present:
                return Score.not_applicable(f"there is no {needed.words} in the source")
        located = None if self.operation.target is None else targets.get(self.operation.target)
        try:
            return (yield from self._checked(located, is_detectable=located is None or bool(located.boxes)))
        except Abstained as unseen:
            raise self._advised(located, unseen) from None

    def _advised(self, located: LocatedTarget | None, *abstained: Abstained) -> Abstained:
        """What experts abstained on, with what would help."""
        outcomes = [outcome for error in abstained for outcome in error.outcomes]
        reasons = [outcome.reason for outcome in outcomes if isinstance(outcome, Abstention)]
        return Abstained(advice(self.sample, self.operation, located, reasons), abstained[-1].outcomes)

    def _checked(self, located: LocatedTarget | None, *, is_detectable: bool) -> Program[Score]:
        evidence: list[Evidence] = []
        task = self._task() if is_detectable else None
        verdict: Condition | None = None
        try:
            if removes_text(self.operation):
                verdict = yield from text_removed(self.sample, self.operation, located, evidence)
            if verdict is None and task is not None:
                done_before = yield from check_task(self.sample, self.sample.source, self.operation, task, located, [])
                if done_before.holds:
                    return Score.not_applicable(f"the source shows it already: {words_of(self.operation)}")
                target = self.operation.target
                others = (other for other in self.plan.operations if other is not self.operation)
                also = set() if target is None else {other.type for other in others if other.target == target}
                stays = not any(is_whole(operation) for operation in self.plan.operations)
                about = (self.sample, self.sample.edited, self.operation, task, located, evidence, also)
                verdict = yield from check_task(*about, surroundings_stay=stays)
            elif verdict is None:
                self.by_questions = True
                boxes = () if located is None else located.boxes
                verdict = yield from check_questions(
                    self.sample, self.operation, boxes, self.metric.prompt_pack, evidence
                )
        except UnparsableReply as error:
            return Score.failed(str(error), evidence=evidence)
        if verdict is None:
            why = "no question of the plan can tell, as their answers about the source contradict it"
            if located is not None and not located.boxes and not self.operation.questions:
                why = f"{located.target.words!r} is not found in the source, and the plan has no questions"
            return Score.failed(f"{words_of(self.operation)}: {why}", evidence=evidence)
        if verdict.holds:
            verdict = yield from self._visible(verdict, located)
        return Score.of(verdict.degree, verdict.reason, evidence=evidence)

    def _task(self) -> Task | None:
        """EdiVal's task; that of a removal for an annotated text that no reader reads."""
        target = self.operation.target
        if self.operation.type == "text_remove" and target is not None and target.phrase in self.sample.boxes:
            return Task("subject_remove", object=target.phrase)
        return task_of_operation(self.operation)

    def _look(self, look: LookEdit) -> Program[Score | None]:
        nothing_to_do = yield from look_in_question(look, self.sample)
        if nothing_to_do:
            return Score.not_applicable(f"{nothing_to_do}: {words_of(self.operation)}")
        boxes: tuple[Box, ...] = ()
        if look.place == "background":
            boxes = yield from staying_boxes(self.sample, self.plan)
        elif look.place == "object":
            try:
                targets = yield from self._locate()
            except Abstained:  # about the source alone: the same for every edit of the group
                return None
            target = self.operation.target
            boxes = targets[target].boxes if target is not None and target in targets else ()
        if look.place != "whole" and not boxes:
            return None
        looks = (look_edit(operation) for operation in self.plan.operations)
        also = {other.quantity for other in looks if other is not None} - {look.quantity}
        evidence: list[Evidence] = []
        may_be_grey = "desaturat" in f"{self.operation.value} {self.operation.words}".casefold()
        verdict = yield from check_look(self.sample, look, boxes, also, evidence, may_be_grey=may_be_grey)
        return Score.of(verdict.degree, verdict.reason, evidence=evidence)

    def _locate(self) -> Program[Mapping[Target, LocatedTarget]]:
        """Its targets in the source. Abstains with a detector that does not know what is new either."""
        of_object = self.operation.type in _OF_OBJECTS
        targets = [target for target in self.operation.targets if of_object or not names_picture(target)]
        return (yield from locate_targets(self.sample.source, targets))

    def _visible(self, verdict: Condition, located: LocatedTarget | None) -> Program[Condition]:
        """The verdict, unless the change cannot be seen."""
        source, edited = self.sample.source, self.sample.edited
        changes = yield from ask(MapChanges(source, edited))
        in_place = located is not None and located.boxes and self.operation.type not in _ELSEWHERE
        where = located.boxes if in_place and located is not None else None
        measured = preservation(changes, within=where)
        recoloured = norm_of_colour(changes.colour) >= VISIBLE_COLOUR
        seen = (measured.heat >= VISIBLE_EXCESS) | (recoloured & np.isfinite(measured.heat))
        visible = np.count_nonzero(seen) / max(measured.compared, 1)
        if visible > (MIN_VISIBLE_SHARE if in_place else 0.0) or measured.drift < _VISIBLE_DRIFT:
            return verdict
        share = f"{visible:.1%} of {'the image' if where is None else 'its place'} differs visibly from the source"
        return all_hold([verdict, Condition(False, 0.0, f"too small or too pale to be seen: {share}")])


_DOUBT = 0.02
"""What an operation loses that holds by a hair. How clearly one holds says more about the expert than about the edit:
among edits that follow, preservation should decide."""


def _whole(credits: Mapping[str, Score], evidence: list[Evidence]) -> Score:
    """Half the mean degree, half whether all hold; what was done before is left out."""
    if (missing := without_value(credits)) is not None:
        return replace(missing, parts={}, credits=dict(credits), evidence=tuple(evidence))
    degrees = {name: score.value for name, score in credits.items() if score.value is not None}
    if not degrees:
        (reason, *_) = [score.reason for score in credits.values()]
        return replace(Score.not_applicable(reason, evidence=evidence), credits=dict(credits))
    missed = [name for name, degree in degrees.items() if degree < 0.5]
    done = fmean(degree / 2 if degree < 0.5 else 1 - _DOUBT * (2 - 2 * degree) for degree in degrees.values())
    value = done / 2 + (0.0 if missed else 0.5 * done)
    reason = "; ".join(f"{name}: {credits[name].reason}" for name in missed) if missed else "every operation is done"
    return Score.of(value, reason, credits=dict(credits), evidence=evidence)
