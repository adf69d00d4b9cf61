"""SceneJudge on DLEBench's questions: one of four labels, in its grammar."""

from __future__ import annotations

import numpy as np

from ....reward.queries import Reply
from ....reward.sample import TaskType
from .edit_comparison import EditComparison, most_likely_name
from .instruction_parser import ObjectName, ParsedRequest, canonical_term, parse_instruction
from .judge_question import Answers, Question
from .object_segments import DetectedObject
from .perception import ImagePerception, match_score, visibility
from .request_outcomes import (
    backdrop_probability,
    expected_count,
    is_mentioned,
    match_probability,
    position_probability,
    text_match,
)

_DONE = 0.5  # success probability from which on a request counts as carried out
_TOUCHED = 0.25  # attempt share from which on the target counts as changed
_WHOLE_PICTURE: tuple[TaskType, ...] = ("background_change",)
_ALTERED = 0.5  # ratio of opacity or size below which an object counts as altered in other ways
_SAME = 0.35  # greatest difference of an expected count that counts as equal


def _answer(question: Question) -> Reply:
    aspect, _, mode = question.query.topic.partition("/")[2].partition("_")
    question.expect(3 if mode == "oracle" else 2, or_more=True)
    if (aspect, mode) == ("following", "oracle"):
        label, reason = _by_reference(question)
    else:
        comparison = question.compare(question.images[:1], question.images[1])
        label, reason = _followed(comparison) if aspect == "following" else _consistent(comparison)
    return Reply(f"<Start Thinking>{reason}</Start Thinking>\n<Start Final Answer>{label}</Start Final Answer>")


DLEBENCH: Answers = {
    f"dlebench/{aspect}_{mode}": _answer
    for mode in ("oracle", "tools", "plain")
    for aspect in ("following", "consistency")
}
"""Labels, at once and without tools.

Instruction following: `Localization Failure` where the target is unchanged; `Wrong Action` where another change than
the requested one was made, another number included; `Over Modification` where the request is carried out, but shape,
colour or material of the object changed too, or it is faint; else `Flawless Execution`. With crops of a reference
(`following_oracle`) the reference defines the request: equal counts of each named object, the same side of each other,
the same letters, the same backdrop.

Visual consistency: `Scene Collapse` where the backdrop is another one without a request, or most other objects are
gone; else by the number of other changes: objects, spurious objects, copies and the backdrop.
"""


def _by_reference(question: Question) -> tuple[str, str]:
    requests = parse_instruction(question.slot("instruction"))
    source, edited, reference = map(question.perceive, question.images[:3])
    if source.digest == edited.digest:
        return "Localization Failure", "the target is as it was"
    matches_reference, touched = True, False
    for request in requests:
        for name in request.affected_names:
            expected, actual, before = (expected_count(image, name) for image in (reference, edited, source))
            count_matches = actual >= expected - _SAME and (actual <= expected + _SAME or _may_be_more(request, name))
            matches_reference = matches_reference and count_matches
            touched = touched or abs(actual - before) > _SAME
        matches_reference = matches_reference and _on_its_side(request, edited, reference)
        if request.task.type == "text_change":
            text = request.task.text or ""
            expected, actual, before = (text_match(image, text)[0] for image in (reference, edited, source))
            matches_reference = matches_reference and actual >= expected - _DONE
            touched = touched or [line for line, _, _ in edited.text_lines] != [
                line for line, _, _ in source.text_lines
            ]
        if request.task.type == "background_change":
            kind = canonical_term(request.task.value or "")
            matches_reference = matches_reference and backdrop_probability(edited, kind) >= _DONE
            touched = touched or source.backdrop_overlap(edited) < _DONE
    if matches_reference:
        altered = any(_altered(request, source, edited) for request in requests)
        return _labelled(altered)
    if touched or _objects_differ(source, edited):
        return "Wrong Action", "something else has been done to the target than what was asked for"
    return "Localization Failure", "the target is as it was"


def _may_be_more(request: ParsedRequest, name: ObjectName) -> bool:
    """Whether the result of a request may exist once more elsewhere, which does not concern the target."""
    return name == request.resulting_object and request.task.type in (
        "subject_replace",
        "color_alter",
        "material_alter",
        "text_change",
    )


def _on_its_side(request: ParsedRequest, edited: ImagePerception, reference: ImagePerception) -> bool:
    """Whether an object with a requested position is on that side, if the reference shows both objects there."""
    name, position, reference_name = request.resulting_object, request.task.position, request.reference
    if (
        name is None
        or position is None
        or reference_name is None
        or position_probability(reference, name, position, reference_name) < _DONE
    ):
        return True
    return position_probability(edited, name, position, reference_name) >= _DONE


def _labelled(altered: bool) -> tuple[str, str]:
    if altered:
        return "Over Modification", "what was asked for is done, and the target has changed in other ways"
    return "Flawless Execution", "what was asked for is done"


def _followed(comparison: EditComparison) -> tuple[str, str]:
    """The label of the worst request."""
    worst = ("Flawless Execution", "what was asked for is done")
    order = ("Flawless Execution", "Over Modification", "Wrong Action", "Localization Failure")
    for request, outcome in zip(comparison.requests, comparison.outcomes, strict=True):
        if outcome.success_probability >= _DONE:
            verdict = _labelled(_altered(request, comparison.source, comparison.edited))
        elif outcome.attempt_share >= _TOUCHED or _lost(request, comparison):
            verdict = "Wrong Action", "something else has been done to the target than what was asked for"
        else:
            verdict = "Localization Failure", "the target is as it was"
        worst = max(worst, verdict, key=lambda label_and_reason: order.index(label_and_reason[0]))
    return worst


def _consistent(comparison: EditComparison) -> tuple[str, str]:
    if comparison.is_scene_collapsed:
        return "Scene Collapse", "the scene is another one"
    changes = [change.description for change in comparison.unrequested_changes]
    label = ("Perfect Consistency", "Single Anomaly", "Multiple Anomalies")[min(len(changes), 2)]
    return label, "; ".join(changes) or "all but the target is as it was"


def _lost(request: ParsedRequest, comparison: EditComparison) -> bool:
    """Whether the object of a request is no longer what it was."""
    if request.object is None or comparison.is_identical:
        return False
    before = expected_count(comparison.source, request.object)
    return before > _DONE and expected_count(comparison.edited, request.object) < before - _DONE


def _altered(request: ParsedRequest, source: ImagePerception, edited: ImagePerception) -> bool:
    """Whether the result of a request is faint or of another size."""
    if (
        request.task.type in _WHOLE_PICTURE
        or request.resulting_object is None
        or request.resulting_object.kind == "text"
    ):
        return False
    obj = _best_match(edited, request.resulting_object)
    original = None if request.object is None else _best_match(source, request.object)
    if obj is None:
        return False
    faint = obj.opacity < _ALTERED * (original.opacity if original is not None else 1.0)
    if original is None or request.task.type in ("subject_replace", "count_change"):
        return faint
    size = np.sqrt(obj.box.w * obj.box.h / max(original.box.w * original.box.h, 1e-9))
    return bool(faint or not _ALTERED < size < 1 / _ALTERED)


def _best_match(picture: ImagePerception, name: ObjectName) -> DetectedObject | None:
    return max(picture.objects, key=lambda obj: match_score(obj, name), default=None)


def _objects_differ(source: ImagePerception, edited: ImagePerception) -> bool:
    """Whether one of the images shows an object that the other does not."""
    source_names, edited_names = (
        {
            most_likely_name(obj)
            for obj in image.objects
            if match_probability(max(obj.shapes.values()) * visibility(obj)) > _DONE
        }
        for image in (source, edited)
    )
    return any(not is_mentioned(tuple(edited_names), name) for name in source_names) or any(
        not is_mentioned(tuple(source_names), name) for name in edited_names
    )
