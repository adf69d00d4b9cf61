"""A small language of yes/no questions about an edit, which SceneJudge writes and parses.

Statements, as in hints, have the same meaning: `There is one red star.` An unknown sentence raises `UnanswerableError`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from ....reward.queries.prompts import Prompts
from ....reward.sample import POSITIONS, Position
from ..vocabulary import BACKDROPS
from .edit_comparison import EditComparison, name_phrase
from .instruction_parser import ObjectName, ParsedRequest, UnanswerableError, canonical_term, parse_known_name
from .perception import ImagePerception
from .picture_looks import sigmoid
from .request_outcomes import (
    backdrop_probability,
    best_match,
    count_probability,
    match_probability,
    position_probability,
    presence_probability,
    text_match,
)

LIGHT_QUESTION = "Is the light as it was?"
SOLID_QUESTION = "Are all things solid?"
CLEAN_QUESTION = "Is the picture as clean as before?"
UNREQUESTED_QUESTION = "Is there nothing that nobody asked for?"
BACKDROP_QUESTION = "Is the background as it was?"
OTHER_OBJECTS_QUESTION = "Are all other things as they were?"

_BRIGHTER, _SOFT = 0.08, 0.02
"""Relative change of brightness with probability 1/2 of another light, and the width of the transition."""
_DIFFERENT = 0.15  # slope of the verdict at a similarity of one half
_SIZES = 1.8  # greatest ratio of size, up or down, to the median object of the first source
_FIXED_QUESTIONS = {"question_transfer_multi": "transfer", "question_consistency_multi": "consistency"}
"""I2I-Bench's questions that are the same for all samples, by prompt name."""

_PLACES: dict[Position, str] = {
    "left": "on the left of",
    "right": "on the right of",
    "above": "above",
    "below": "below",
}
_PLACE = "|".join(_PLACES.values())


# -- writing ----------------------------------------------------------------------------------------------------------


def write_physics_questions(comparison: EditComparison) -> list[str]:
    """Five questions on physical plausibility; the comparison is of the source with itself."""
    kinds = [request.task.value or "" for request in comparison.requests if request.task.type == "background_change"]
    behind = [f"Is the background {kind}?" for kind in kinds] or [LIGHT_QUESTION]
    return [*behind, SOLID_QUESTION, CLEAN_QUESTION, UNREQUESTED_QUESTION, OTHER_OBJECTS_QUESTION]


def write_composition_questions(comparison: EditComparison) -> list[str]:
    """Five to seven questions on whether new objects fit in with the rest."""
    result = _result(comparison.requests)
    outcome_questions = [question for request in comparison.requests for question in _outcome_questions(request)][:2]
    of_result = [] if result is None else [f"Is {name_phrase(result)} about as large as the other things?"]
    return [
        *outcome_questions,
        *of_result,
        SOLID_QUESTION,
        CLEAN_QUESTION,
        OTHER_OBJECTS_QUESTION,
        UNREQUESTED_QUESTION,
    ][:7]


def write_transfer_questions(comparison: EditComparison) -> list[str]:
    """Five to seven questions on whether an object from another source is preserved."""
    questions = []
    for request in comparison.requests:
        if request.new_object is not None:
            questions += [
                f"Does {name_phrase(request.new_object)} look as in picture {request.source_index + 1}?",
                *_outcome_questions(request),
            ]
    return [*questions[:4], OTHER_OBJECTS_QUESTION, BACKDROP_QUESTION, UNREQUESTED_QUESTION][:7]


def write_consistency_questions(comparison: EditComparison) -> list[str]:
    """Five or six questions on whether objects of several sources fit together."""
    result = _result(comparison.requests)
    of_result = [] if result is None else [f"Is {name_phrase(result)} about as large as the other things?"]
    return [*of_result, LIGHT_QUESTION, SOLID_QUESTION, CLEAN_QUESTION, UNREQUESTED_QUESTION, BACKDROP_QUESTION]


def _result(requests: Sequence[ParsedRequest]) -> ObjectName | None:
    return next((request.resulting_object for request in requests if request.resulting_object is not None), None)


def _outcome_questions(request: ParsedRequest) -> list[str]:
    task = request.task
    match task.type:
        case "background_change":
            return [f"Is the background {task.value}?"]
        case "text_change":
            return [f'Can the text "{task.text}" be read?']
        case "count_change":
            return [f"Is the number of {task.object} {task.count}?"]
        case "subject_remove":
            return [f"Is there no {task.object}?"]
        case _:
            pass
    assert request.resulting_object is not None
    questions = [f"Is there one {name_phrase(request.resulting_object)}?"]
    if task.position is not None:
        questions.append(f"Is {task.new or task.object} {_PLACES[task.position]} {task.reference}?")
    return questions


# -- reading ----------------------------------------------------------------------------------------------------------


def yes_probability(question: str, comparison: EditComparison) -> float:
    """The probability of yes. Raises `UnanswerableError`."""
    sentence = " ".join(question.split())
    for pattern, evaluate in _SENTENCES:
        match = pattern.fullmatch(sentence)
        if match is not None:
            return min(max(evaluate(comparison, match), 0.0), 1.0)
    for prompt, kind in _FIXED_QUESTIONS.items():
        if sentence == " ".join(Prompts("editcritic.reward.metrics.i2ibench").render(prompt).split()):
            return _looks_taken(comparison) if kind == "transfer" else comparison.naturalness
    raise UnanswerableError(f"the answer to {question!r:.120}: it knows its own questions")


def statements_probability(statements: str, comparison: EditComparison) -> float:
    """The probability that all statements hold, each ending in a full stop. Raises `UnanswerableError`."""
    each = [statement for statement in re.split(r"\.(?:\s+|$)", statements.strip()) if statement]
    if not each:
        raise UnanswerableError("what a right result shows: the hint is empty")
    return min(yes_probability(statement, comparison) for statement in each)


def _sentence(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _one(comparison: EditComparison, match: re.Match[str]) -> float:
    return count_probability(comparison.edited, parse_known_name(match["name"]), 1)


def _none(comparison: EditComparison, match: re.Match[str]) -> float:
    return count_probability(comparison.edited, parse_known_name(match["name"]), 0)


def _so_many(comparison: EditComparison, match: re.Match[str]) -> float:
    return count_probability(comparison.edited, parse_known_name(match["name"]), int(match["count"]))


def _beside(comparison: EditComparison, match: re.Match[str]) -> float:
    position = next(candidate for candidate in POSITIONS if _PLACES[candidate] == match["place"].casefold())
    return position_probability(
        comparison.edited, parse_known_name(match["name"]), position, parse_known_name(match["reference"])
    )


def _kind(comparison: EditComparison, match: re.Match[str]) -> float:
    kind = canonical_term(match["kind"])
    if kind not in BACKDROPS:
        raise UnanswerableError(f"whether the background is {kind!r}: it knows {', '.join(BACKDROPS)}")
    return backdrop_probability(comparison.edited, kind)


def _read(comparison: EditComparison, match: re.Match[str]) -> float:
    on = parse_known_name(match["on"]) if match["on"] else None
    return text_match(comparison.edited, match["text"], on)[0]


def _as_large(comparison: EditComparison, match: re.Match[str]) -> float:
    """Whether its size is within `_SIZES` of the median object of the first source."""
    box = best_match(comparison.edited, parse_known_name(match["name"]))
    usual = [math.sqrt(obj.box.w * obj.box.h) for obj in comparison.source.objects]
    if box is None or not usual:
        return 0.0
    ratio = math.sqrt(box.w * box.h) / float(np.median(usual))
    return match_probability(box.score) * sigmoid((math.log(_SIZES) - abs(math.log(max(ratio, 1e-6)))) / 0.1)


def _as_there(comparison: EditComparison, match: re.Match[str]) -> float:
    index = int(match["picture"]) - 1
    if not 0 <= index < len(comparison.sources):
        raise UnanswerableError(f"what picture {index + 1} shows: there are {len(comparison.sources)}")
    return _taken(parse_known_name(match["name"]), comparison.sources[index], comparison.edited)


def _taken(name: ObjectName, source: ImagePerception, edited: ImagePerception) -> float:
    return presence_probability(source, name) * presence_probability(edited, name)


def _light(comparison: EditComparison, _: re.Match[str]) -> float:
    free = ~(comparison.source.foreground_mask | comparison.edited.foreground_mask)
    if np.count_nonzero(free) < 64:
        return 0.5
    ratio = float(comparison.edited.denoised[free].mean()) / max(float(comparison.source.denoised[free].mean()), 1.0)
    return sigmoid((_BRIGHTER - abs(ratio - 1)) / _SOFT)


def _unasked(comparison: EditComparison, _: re.Match[str]) -> float:
    return max(0.0, 1 - len(comparison.spurious_objects) - comparison.extra_copies)


def _others(comparison: EditComparison, _: re.Match[str]) -> float:
    return sigmoid(
        (min((similarity for _, similarity in comparison.untouched_objects), default=1.0) - 0.5) / _DIFFERENT
    )


def _same_backdrop(comparison: EditComparison, _: re.Match[str]) -> float:
    return (
        1.0
        if comparison.backdrop_preservation is None
        else sigmoid((comparison.backdrop_preservation - 0.5) / _DIFFERENT)
    )


def _looks_taken(comparison: EditComparison) -> float:
    taken = [
        request
        for request in comparison.requests
        if request.new_object is not None and request.source_index < len(comparison.sources)
    ]
    if not taken:
        raise UnanswerableError("what is to be taken from another picture: the instruction names nothing")
    return min(
        _taken(request.new_object, comparison.sources[request.source_index], comparison.edited)
        for request in taken
        if request.new_object is not None
    )


_NAME = r"(?P<name>[\w ]+?)"
_SENTENCES: tuple[tuple[re.Pattern[str], Callable[[EditComparison, re.Match[str]], float]], ...] = (
    (_sentence(rf"(?:Is there|There is) one {_NAME}\??"), _one),
    (_sentence(rf"(?:Is there|There is) no {_NAME}\??"), _none),
    (_sentence(rf"Is the number of {_NAME} (?P<count>\d+)\?"), _so_many),
    (_sentence(rf"The number of {_NAME} is (?P<count>\d+)"), _so_many),
    (_sentence(r"(?:Is the background|The background is) (?!as )(?P<kind>[\w ]+?)\??"), _kind),
    (_sentence(r'Can the text "(?P<text>[^"]+)" be read(?: on (?P<on>[\w ]+))?\?'), _read),
    (_sentence(r'The text "(?P<text>[^"]+)" can be read(?: on (?P<on>[\w ]+))?'), _read),
    (_sentence(rf"Is {_NAME} about as large as the other things\?"), _as_large),
    (_sentence(rf"Does {_NAME} look as in picture (?P<picture>\d)\?"), _as_there),
    (_sentence(rf"Is {_NAME} (?P<place>{_PLACE}) (?P<reference>[\w ]+?)\?"), _beside),
    (_sentence(rf"{_NAME} is (?P<place>{_PLACE}) (?P<reference>[\w ]+?)"), _beside),
    (_sentence(re.escape(LIGHT_QUESTION)), _light),
    (_sentence(re.escape(SOLID_QUESTION)), lambda comparison, _: comparison.opacity_ratio),
    (_sentence(re.escape(CLEAN_QUESTION)), lambda comparison, _: sigmoid((comparison.cleanliness - 0.75) / 0.08)),
    (_sentence(re.escape(UNREQUESTED_QUESTION)), _unasked),
    (_sentence(re.escape(BACKDROP_QUESTION)), _same_backdrop),
    (_sentence(re.escape(OTHER_OBJECTS_QUESTION)), _others),
)
