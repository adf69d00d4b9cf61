"""SceneJudge on the questions of DLEBench, one of four labels in its grammar, and of I2I-Bench."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ....reward.queries import Reply
from ....reward.queries.response_formats import Levels
from ....reward.sample import TaskType
from ..vocabulary import TEXT
from .edit_comparison import EditComparison, most_likely_name, name_phrase
from .instruction_parser import ObjectName, ParsedRequest, UnanswerableError, canonical_term, parse_instruction
from .judge_question import Answers, Question, json_reply, level_reply, yes_no_reply
from .object_segments import DetectedObject
from .perception import ImagePerception, match_score, visibility
from .question_language import (
    statements_probability,
    write_composition_questions,
    write_consistency_questions,
    write_physics_questions,
    write_transfer_questions,
    yes_probability,
)
from .request_outcomes import (
    backdrop_probability,
    best_match,
    count_probability,
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


_QUESTION_WRITERS: Mapping[str, Callable[[EditComparison], list[str]]] = {
    "questions_physical": write_physics_questions,
    "questions_composition": write_composition_questions,
    "questions_physical_multi": write_physics_questions,
    "questions_composition_multi": write_composition_questions,
    "questions_transfer_multi": write_transfer_questions,
    "questions_consistency_multi": write_consistency_questions,
}
_DIMENSIONS: Mapping[str, Callable[[EditComparison], float]] = {
    "quality": lambda comparison: comparison.edited.visual_quality,
    "blending": lambda comparison: comparison.naturalness,
    "artifacts": lambda comparison: comparison.naturalness * (1 + comparison.preservation) / 2,
    "plausibility": lambda comparison: comparison.naturalness,
    "composition": lambda comparison: comparison.naturalness * (1 + comparison.credit) / 2,
    "inter-subject": lambda comparison: comparison.naturalness,
    "extraction": lambda comparison: comparison.credit * comparison.preservation,
    "fidelity": lambda comparison: comparison.preservation,
    "subject consistency": lambda comparison: comparison.preservation,
    "accuracy": lambda comparison: comparison.credit,
    "following": lambda comparison: comparison.credit,
    "knowledge": lambda comparison: comparison.credit,
    "attribute": lambda comparison: comparison.credit,
}
"""Word of a dimension's title -> its measure; the first word in the title counts, `_PRIORITY_DIMENSIONS` before others.
"""
_PRIORITY_DIMENSIONS = ("extraction", "inter-subject")

_STYLE_STEPS = 4  # steps of a style grade above the lowest


# Levels and yes or no depend on the requests' success probability, on preservation, and on cleanliness and opacity
# relative to the source. `knowledge` depends on the hint alone. The questions that it writes are of a small language
# (`question_language`), which `answer` parses. Commands to a segmenter name objects in the image: those that the
# instruction made or changed, those that it leaves alone, or those that it takes from another source.


def _written(question: Question) -> Reply:
    topic = question.query.topic.partition("/")[2]
    if not question.images:
        raise UnanswerableError(f"what to ask by {topic} without a picture")
    return json_reply({"questions": _QUESTION_WRITERS[topic](question.compare(question.images, question.images[0]))})


def _answer_i2i(question: Question) -> Reply:
    topic, images = question.query.topic.partition("/")[2], question.images
    if len(images) < 2:
        raise UnanswerableError(f"i2i/{topic} by {len(images)} pictures: expected sources and an edited one")
    comparison = question.compare(images[:-1], images[-1])
    if topic.startswith("segment_"):
        return _commands(topic, comparison)
    if isinstance(question.query.form, Levels):
        return level_reply(_share(topic, question.slot("dimension"))(comparison), question.query.form.options)
    return yes_no_reply(_certainty(topic, comparison, question))


def _style(question: Question) -> Reply:
    """Whether there are letters, of any text, and at the requested place."""
    perceived, text = question.perceive(question.images[-1]), question.slot("text")
    names = [
        request.object or request.new_object
        for request in parse_instruction(question.slot("instruction"))
        if request.object or request.new_object
    ]
    plate = next((name for name in names if name is not None and name.kind == "sign"), None)
    confidence = max((box.score for box in perceived.locate_text()), default=0.0)
    plate_box = best_match(perceived, plate) if plate is not None else None
    if plate is not None:
        on_plate = max(
            (
                match_probability(plate_box.score)
                for box in perceived.locate_text()
                if plate_box and box.iou(plate_box) > 0
            ),
            default=0.0,
        )
        confidence *= (1 + on_plate) / 2
    return json_reply(
        {
            "style_requirement": f"letters that can be read, {text!r} or others",
            "position_requirement": "anywhere" if plate is None else f"on the {name_phrase(plate)}",
            "image_observation": f"{len(perceived.text_lines)} lines of text",
            "reasoning": f"letters where they should be: {confidence:.2f}",
            "score": 1 + round(_STYLE_STEPS * min(1.0, match_probability(confidence))) if confidence else 1,
        }
    )


def _share(topic: str, dimension: str) -> Callable[[EditComparison], float]:
    if topic != "level":
        return _DIMENSIONS[topic]
    title = dimension.casefold()
    for word in (*_PRIORITY_DIMENSIONS, *_DIMENSIONS):
        if word in title:
            return _DIMENSIONS[word]
    raise UnanswerableError(f"what {dimension!r} is: it knows {', '.join(_DIMENSIONS)}")


def _certainty(topic: str, comparison: EditComparison, question: Question) -> float:
    match topic:
        case "success":
            return comparison.success_probability
        case "knowledge":
            return 0.0 if comparison.is_identical else statements_probability(question.slot("hint"), comparison)
        case "answer":
            return yes_probability(question.slot("question"), comparison)
        case "count":
            new = [request.new_object for request in comparison.requests if request.new_object is not None]
            return min((count_probability(comparison.edited, name, 1) for name in new), default=0.0)
        case _:
            raise UnanswerableError(f"i2i/{topic} in this form of an answer")


_OTHER_TOPICS = (
    *("blending", "artifacts", "following", "success", "knowledge", "answer", "segment_edited", "segment_unchanged"),
    *("segment_preserved_multi", "segment_details_multi", "count", "level"),
)
I2IBENCH: Answers = {
    **{f"i2i/{topic}": _written for topic in _QUESTION_WRITERS},
    **{f"i2i/{topic}": _answer_i2i for topic in _OTHER_TOPICS},
    "i2i/text_style": _style,
}


# -- commands to a segmenter ------------------------------------------------------------------------------------------


def _commands(topic: str, comparison: EditComparison) -> Reply:
    match topic:
        case "segment_edited":
            return Reply(
                _command([_edited_name(request.resulting_object or request.object) for request in comparison.requests])
            )
        case "segment_unchanged":
            return json_reply(
                [_command([name_phrase(name)]) for name in _other_names(comparison)] or _backdrop(comparison)
            )
        case "segment_preserved_multi":
            return json_reply(
                [
                    {"source_index": 0, "segmentation_prompt": _command([name_phrase(n)])}
                    for n in _other_names(comparison)
                ]
            )
        case _:
            transferred = [
                request
                for request in comparison.requests
                if request.new_object is not None and 0 < request.source_index < len(comparison.sources)
            ]
            return json_reply(
                [
                    {
                        "source_index": request.source_index,
                        "segmentation_prompt": _command([name_phrase(request.new_object)]),
                    }
                    for request in transferred
                    if request.new_object is not None
                ]
            )


def _command(names: list[str]) -> str:
    return f"Please segment the {' and the '.join(dict.fromkeys(names))}"


def _edited_name(name: ObjectName | None) -> str:
    """The visible result of a request; the background where it is about no object."""
    return "background" if name is None else TEXT if name.kind == TEXT else name_phrase(name)


def _other_names(comparison: EditComparison) -> list[ObjectName]:
    """Distinct names of the first source's objects that no request mentions."""
    return list(dict.fromkeys(most_likely_name(obj) for obj, _ in comparison.untouched_objects))


def _backdrop(comparison: EditComparison) -> list[str]:
    return [] if comparison.backdrop_preservation is None else [_command(["background"])]
