"""SceneJudge on I2I-Bench's questions: levels, yes or no, questions of its own, commands to a segmenter."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....reward.queries import Reply
from ....reward.queries.response_formats import Levels
from ..vocabulary import TEXT
from .edit_comparison import EditComparison, most_likely_name, name_phrase
from .instruction_parser import ObjectName, UnanswerableError, parse_instruction
from .judge_question import Answers, Question, json_reply, level_reply, yes_no_reply
from .question_language import (
    statements_probability,
    write_composition_questions,
    write_consistency_questions,
    write_physics_questions,
    write_transfer_questions,
    yes_probability,
)
from .request_outcomes import best_match, count_probability, match_probability

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


def _answer(question: Question) -> Reply:
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
    """The measure behind a level."""
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
    **{f"i2i/{topic}": _answer for topic in _OTHER_TOPICS},
    "i2i/text_style": _style,
}


# -- commands to a segmenter ------------------------------------------------------------------------------------------


def _commands(topic: str, comparison: EditComparison) -> Reply:
    match topic:
        case "segment_edited":
            return Reply(
                _command([_edited(request.resulting_object or request.object) for request in comparison.requests])
            )
        case "segment_unchanged":
            return json_reply([_command([name_phrase(name)]) for name in _others(comparison)] or _backdrop(comparison))
        case "segment_preserved_multi":
            return json_reply(
                [{"source_index": 0, "segmentation_prompt": _command([name_phrase(n)])} for n in _others(comparison)]
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


def _edited(name: ObjectName | None) -> str:
    """The visible result of a request; the background where it is about no object."""
    return "background" if name is None else TEXT if name.kind == TEXT else name_phrase(name)


def _others(comparison: EditComparison) -> list[ObjectName]:
    """Distinct names of the first source's objects that no request mentions."""
    return list(dict.fromkeys(most_likely_name(obj) for obj, _ in comparison.untouched_objects))


def _backdrop(comparison: EditComparison) -> list[str]:
    return [] if comparison.backdrop_preservation is None else [_command(["background"])]
