"""EdiVal-IF: instruction following, binary or dense (for ranking edits with the same verdict).

Protocol `paper`: algorithms 3 to 11, appendix O.3, thresholds of appendix C.2, one program per task type. Each sends
all its queries, whatever the answers, so that a failed edit is ranked by how nearly it succeeded. Where the paper
contradicts itself, an option decides (`PaperOptions`). Protocol `official`: see `released_code`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from ...card import Card
from ...engine.program import Program
from ...image import Image
from ...missing_inputs import no_form
from ...queries.response_formats import Reply
from ...sample import EditSample, Position, Task
from ...score import Evidence, Score
from ..prompted_metric import PromptedMetric, refuse
from . import released_code
from .inspector import (
    Condition,
    EditInspector,
    ImageRole,
    PhraseDetections,
    UnparsableReply,
    all_hold,
    box_on_side,
    boxes_overlap,
    crop_box,
    deduplicate_boxes,
    judge_confirms,
    leading_yes_no,
    normalize_text,
    text_contains,
    texts_equal,
)
from .task_parser import task_of

TextMatch = Literal["exact", "substring"]
AttributeView = Literal["crop", "whole", "both"]


@dataclass(frozen=True, kw_only=True)
class PaperOptions:
    """Options for what the paper leaves open or states in two ways.

    position_margin: minimum distance of two centres, in fractions of the sides (algorithms 5, 6: unspecified).
    text_match: whether the text read must equal the requested text or contain it (algorithm 10: unspecified).
    attribute_view: what the judge sees of a recoloured object: its crop from the edited image (O.3), the whole edited
        image (algorithms 8 and 9), or both crops (equation 2).
    judge_replacement: whether the judge must also confirm a replacement (O.3; algorithm 3 has no such step).
    require_old_absent: whether the replaced object must not be detected (appendix K; not in algorithm 3).
    threshold: one detection threshold for all tasks, as in the ablation of appendix C.2, instead of one per task.
    max_box_size: boxes with both sides above this fraction of the image are dropped (C.2); None keeps them.
    duplicate_iou: boxes that overlap by more than this (IoU) are one object ("validated detections", O.3, with the
        value of the released code); 1.0 counts every box, as algorithm 7 is written.
    min_crop_size: minimum side of a crop, as a fraction of the image's side (O.3).
    """

    position_margin: float = 0.03
    text_match: TextMatch = "exact"
    attribute_view: AttributeView = "crop"
    judge_replacement: bool = True
    require_old_absent: bool = False
    threshold: float | None = None
    max_box_size: float | None = 0.98
    duplicate_iou: float = 0.8
    min_crop_size: float = 0.05

    def problems(self) -> dict[str, object]:
        """What may be wrong with the options -> whether it is."""
        threshold, largest = self.threshold, self.max_box_size
        return {
            f"needs position_margin in [0, 1), got {self.position_margin}": not 0 <= self.position_margin < 1,
            f"needs threshold in (0, 1) or None, got {threshold}": threshold is not None and not 0 < threshold < 1,
            f"needs max_box_size in (0, 1] or None, got {largest}": largest is not None and not 0 < largest <= 1,
            f"needs duplicate_iou in [0, 1], got {self.duplicate_iou}": not 0 <= self.duplicate_iou <= 1,
            f"needs min_crop_size in [0, 1], got {self.min_crop_size}": not 0 <= self.min_crop_size <= 1,
        }


def evaluate_task(options: PaperOptions, inspector: EditInspector, task: Task) -> Program[Condition]:
    """The program for a task."""
    return _PaperProtocol(options, inspector).program(task)


_REMOVE, _POSITION, _DEFAULT_THRESHOLD = 0.30, 0.40, 0.35


@dataclass(frozen=True, slots=True)
class _PaperProtocol:
    """The algorithms, on one edit."""

    options: PaperOptions
    inspector: EditInspector

    def program(self, task: Task) -> Program[Condition]:
        match task:
            case Task(type="subject_add", new=str(new)):
                return self._added(new, task.position, task.reference)
            case Task(type="subject_remove", object=str(name)):
                return self._removed(name)
            case Task(type="subject_replace", object=str(old), new=str(new)):
                return self._replaced(old, new)
            case Task(type="position_change", object=str(name), position=str(position), reference=str(reference)):
                return self._moved(name, position, reference)
            case Task(type="count_change", object=str(name), count=int(count)):
                return self._counted(name, count)
            case Task(type="color_alter", object=str(name), value=str(value)):
                return self._attribute("color", name, value)
            case Task(type="material_alter", object=str(name), value=str(value)):
                return self._attribute("material", name, value)
            case Task(type="text_change", text=str(text)):
                return self._written(text, task.object)
            case Task(type="background_change", value=str(value)):
                return self._background(value)
            case _:
                raise AssertionError(f"a task without its slots: {task}")

    def _added(self, new: str, position: Position | None, reference: str | None) -> Program[Condition]:  # algorithm 5
        if position is None or reference is None:
            before, after = yield from self._detect(("source", new), ("edited", new))
            return all_hold([before.absent(), after.present()])
        before, after, other = yield from self._detect(("source", new), ("edited", new), ("edited", reference))
        conditions = [before.absent(), after.present(), other.present()]
        if after.best and other.best:
            conditions.append(box_on_side(position, after.best, other.best, self.options.position_margin))
        return all_hold(conditions, total=4)

    def _removed(self, name: str) -> Program[Condition]:  # algorithm 4
        before, after = yield from self._detect(("source", name), ("edited", name), threshold=_REMOVE)
        return all_hold([before.present(), after.absent()])

    def _replaced(self, old: str, new: str) -> Program[Condition]:  # algorithm 3, O.3, appendix K
        before, after = yield from self._detect(("source", old), ("edited", new))
        conditions = [before.present(), after.present()]
        if self.options.require_old_absent:
            (left,) = yield from self._detect(("edited", old))
            conditions.append(left.absent())
        if self.options.judge_replacement:
            pictures = (self.inspector.source, self.inspector.edited)
            conditions.append((yield from self._ask("replaced", pictures, {"object": old, "new": new})))
        if before.boxes and after.boxes:
            conditions.append(boxes_overlap(before.boxes, after.boxes, f"{old} and {new}"))
        return all_hold(conditions, total=3 + self.options.require_old_absent + self.options.judge_replacement)

    def _moved(self, name: str, position: Position, reference: str) -> Program[Condition]:  # algorithm 6
        before, after, other = yield from self._detect(
            ("source", name), ("edited", name), ("edited", reference), threshold=_POSITION
        )
        at_first = len(deduplicate_boxes(before.boxes, self.options.duplicate_iou))
        conditions = [
            after.present(),
            other.present(),
            after.has_count(at_first, self.options.duplicate_iou, exactly=False),
        ]
        if after.best and other.best:
            conditions.append(box_on_side(position, after.best, other.best, self.options.position_margin))
        return all_hold(conditions, total=4)

    def _counted(self, name: str, count: int) -> Program[Condition]:  # algorithm 7
        (after,) = yield from self._detect(("edited", name))
        return all_hold([after.has_count(count, self.options.duplicate_iou)])

    def _attribute(
        self, attribute: str, name: str, value: str
    ) -> Program[Condition]:  # algorithms 8 and 9, O.3, equation 2
        slots = {"object": name, "value": value}
        if self.options.attribute_view == "whole":
            return all_hold([(yield from self._ask(attribute, (self.inspector.edited,), slots))])
        if self.options.attribute_view == "crop":
            (after,) = yield from self._detect(("edited", name))
            conditions = [after.present()]
            if after.best:
                crop = crop_box(self.inspector.edited, after.best, self.options.min_crop_size)
                conditions.append((yield from self._ask(attribute, (crop,), slots)))
            return all_hold(conditions, total=2)
        before, after = yield from self._detect(("source", name), ("edited", name))
        conditions = [before.present(), after.present()]
        if before.best and after.best:
            crops = (
                crop_box(self.inspector.source, before.best, self.options.min_crop_size),
                crop_box(self.inspector.edited, after.best, self.options.min_crop_size),
            )
            conditions.append((yield from self._ask(f"{attribute}_pair", crops, slots)))
        return all_hold(conditions, total=3)

    def _written(self, text: str, name: str | None) -> Program[Condition]:  # algorithm 10, O.3
        if name is None:
            return all_hold([(yield from self._read(self.inspector.edited, text))])
        (after,) = yield from self._detect(("edited", name))
        conditions = [after.present()]
        if after.best:
            crop = crop_box(self.inspector.edited, after.best, self.options.min_crop_size)
            conditions.append((yield from self._read(crop, text)))
        return all_hold(conditions, total=2)

    def _background(self, value: str) -> Program[Condition]:  # algorithm 11
        return all_hold([(yield from self._ask("background", (self.inspector.edited,), {"value": value}))])

    def _detect(
        self, *queries: tuple[ImageRole, str], threshold: float = _DEFAULT_THRESHOLD
    ) -> Program[tuple[PhraseDetections, ...]]:
        return self.inspector.detect(
            *queries, threshold=self.options.threshold or threshold, max_box_size=self.options.max_box_size
        )

    def _ask(self, topic: str, pictures: tuple[Image, ...], slots: Mapping[str, str]) -> Program[Condition]:
        reply = yield from self.inspector.ask_yes_no(topic, pictures, slots)
        return judge_verdict(topic, reply)

    def _read(self, picture: Image, text: str) -> Program[Condition]:
        text_read, confidence = yield from self.inspector.read_text(picture, text)
        reason = f"read {text_read[:80]!r}, wanted {text!r}"
        if self.options.text_match == "exact":
            return texts_equal(normalize_text(text_read), normalize_text(text), reason, confidence=confidence)
        return text_contains(normalize_text(text_read), normalize_text(text), reason)


def judge_verdict(topic: str, reply: Reply) -> Condition:
    """The verdict from the probability of yes, or else from the first word. Raises `UnparsableReply`."""
    p = reply.probabilities.get("yes")
    holds = leading_yes_no(reply.text) if p is None else p >= 0.5
    if holds is None:
        raise UnparsableReply(topic, reply.text)
    reason = f"the judge, asked about {topic}, says {reply.text[:80]!r}"
    return judge_confirms(holds, p, reason if p is None else f"{reason} (yes: {p:.2f})")


@dataclass(frozen=True)
class InstructionFollowing(PaperOptions, PromptedMetric):
    """EdiVal-IF of one turn: 1 if the edited image follows the instruction, else 0. Options: `PaperOptions`. Not
    applicable to instructions of none of the nine forms, without a `task`.

    Args:
        protocol: `paper` (algorithms 3 to 11) or `official` (the released code of 27 October 2025; takes no options).
        dense: Return a degree in [0, 1] instead, which is at least 0.5 exactly if the verdict is 1.
        prompts: A folder whose `<name>.txt` files replace the prompts of the same names.
    """

    card: ClassVar[Card] = Card(
        name="edival-if",
        version=3,
        summary="the edited image does what the instruction asks",
        kinds={"detector": ("detect",), "judge": ("judge",), "reader": ("read_text",)},
        requires=("sources", "edited", "instruction"),
        protocols=("paper", "official"),
        source="EdiVal-Agent (ICLR 2026), section 2.4, algorithms 3-11, appendices C.2, K and O.3; released code",
        failure_modes=(
            "Looks at what was asked for and at nothing else: a removal is won by spoiling the image until the "
            "detector finds nothing, a count by pasted stickers, a colour by painting the whole image, a judge by "
            "words written into it. Reward it together with content consistency."
        ),
        aspect="following",
    )

    protocol: str = "paper"
    dense: bool = False
    prompts: str | None = None

    package: ClassVar[str] = __package__
    variant: ClassVar[str] = "protocol"
    flags: ClassVar[tuple[str, ...]] = ("dense",)
    choices: ClassVar[Mapping[str, Collection[object]]] = {
        "protocol": card.protocols,
        "text_match": get_args(TextMatch),
        "attribute_view": get_args(AttributeView),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        changed = ", ".join(f"{name}={value}" for name, value in self.changed_options().items())
        has_none = f"has no options in protocol official, got {changed}: leave them out"
        refuse(self.card.name, {**self.problems(), has_none: self.protocol == "official" and changed})

    def score(self, sample: EditSample) -> Program[Score]:
        task = task_of(sample)
        if task is None:
            return Score.not_applicable(no_form(sample.instruction))
        if self.protocol == "official":
            inspector = released_code.make_inspector(sample, self.prompt_pack)
            program = released_code.evaluate_task(inspector, task, sample.instruction)
        else:
            inspector = EditInspector(sample.source, sample.edited, self.prompt_pack)
            program = evaluate_task(self, inspector, task)
        try:
            verdict = yield from program
        except UnparsableReply as error:
            return Score.failed(str(error), evidence=inspector.evidence)
        checked = [("condition", condition) for condition in verdict.conditions]
        weighed = [_evidence(*named) for named in (*checked, ("verdict", verdict))]
        value = verdict.degree if self.dense else float(verdict.holds)
        return Score.of(value, verdict.reason, evidence=[*inspector.evidence, *weighed])


def _evidence(name: str, condition: Condition) -> Evidence:
    numbers = {"holds": float(condition.holds), "degree": condition.degree}
    return Evidence(name, text=condition.reason, numbers=numbers)
