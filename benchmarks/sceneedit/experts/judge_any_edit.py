"""SceneJudge on the questions of `any-edit`: yes or no about an image, a pair or a crop, and lists of differences."""

from __future__ import annotations

import json
import re

from ....reward import Box
from ....reward.queries import Reply
from ....reward.queries.prompts import Prompts
from ..vocabulary import TEXT
from .edit_comparison import EditComparison, most_likely_name
from .instruction_parser import (
    ObjectName,
    ParsedRequest,
    UnanswerableError,
    crop_of,
    find_name,
    find_names,
    is_never_drawn,
    look_of,
    parse_instruction,
)
from .judge_question import Answers, Question, json_reply, yes_no_reply
from .perception import ImagePerception, visibility
from .picture_looks import CHANGES, LOOKS, is_blurred, sigmoid
from .question_language import yes_probability
from .request_outcomes import best_match, is_mentioned, match_probability, presence_probability, request_outcome

_DONE = 0.5  # credit from which on an operation shows in the edited image
_LINE = re.compile(r"(\d+)\. (.+)")
_REPORTED_SEVERITY = 0.3  # severity from which on an unrequested change is listed
_CHANGED = 0.7  # similarity of an object below which it differs
_UNSEEN = 0.03  # probability of something that no picture shows
_MIN_SHARE_OF_WINDOW = 0.3
"""Sides of an object, relative to those of a part of the picture, from which on the part is of this object."""

_MAX_WINDOW = 0.85  # sides of a part of the picture, relative to the picture, from which on it is nearly all of it

_PROMPTS = Prompts("editcritic.reward.metrics.any_edit")


def _asking(prompt: str, slot: str) -> re.Pattern[str]:
    """The pattern of a question that a prompt makes, with what its slot says as the group `words`."""
    text = " ".join(_PROMPTS.render(prompt, **{slot: "SLOT"}).split())
    return re.compile(re.escape(text).replace("SLOT", "(?P<words>.+)"), re.IGNORECASE)


_ABOUT_CHANGE = (_asking("planned_change", "change"), _asking("planned_change_again", "change"))
_ABOUT_LOOK = _asking("planned_look", "value")
_ABOUT_PRESENCE = _asking("planned_presence", "object")
_ABOUT_CONTENT = " ".join(_PROMPTS.render("planned_content").split())


# Questions are those of `question_language`; or quote an instruction in double quotes: whether the pair shows that it
# was carried out; or are those that `any-edit` makes of plans: whether a change was made, which may be one of the whole
# picture in everyday words, whether the picture has a look, and whether its content is as before.


def _about_picture(question: Question) -> Reply:
    """A crop, or the edited image."""
    question.expect(1)
    asked, comparison = _asked(question)
    if question.query.topic == "any-edit/edited":
        if look := _ABOUT_LOOK.fullmatch(asked):
            return yes_no_reply(_look_probability(look["words"], comparison.edited))
        if shown := _ABOUT_PRESENCE.fullmatch(asked):
            return yes_no_reply(_sighting_probability(shown["words"], comparison.edited))
    return yes_no_reply(yes_probability(asked, comparison))


def _about_pair(question: Question) -> Reply:
    question.expect(2)
    asked, comparison = _asked(question)
    if asked == _ABOUT_CONTENT:
        return yes_no_reply(comparison.picture_change.same_content)
    change = next((match for pattern in _ABOUT_CHANGE if (match := pattern.fullmatch(asked))), None)
    if change is not None:
        return yes_no_reply(_change_probability(change["words"], comparison))
    if instruction := re.search(r'"(.+)"', asked):
        comparison = question.comparisons.get(question.images[:1], question.images[1], instruction[1])
        return yes_no_reply(comparison.success_probability)
    return yes_no_reply(yes_probability(asked, comparison))


def _asked(question: Question) -> tuple[str, EditComparison]:
    """What is asked, and the comparison of the first image with the last."""
    comparison = question.comparisons.get(question.images[:1], question.images[-1], "")
    return " ".join(question.slot("question").split()), comparison


def _differences(question: Question) -> Reply:
    operations = [match[2] for line in question.slot("operations").splitlines() if (match := _LINE.match(line))]
    sources, edited = question.images[:-1], question.images[-1]
    comparison = question.comparisons.get(sources, edited, "")
    entries = [
        {"what": words, "operation": number}
        for number, words in enumerate(operations, start=1)
        if _difference_probability(words, comparison) >= _DONE
    ]
    requests = [request for words in operations for request in _requests(words)]
    if len(requests) == len(operations):  # it understands which changes nobody asked for
        asked = question.comparisons.get(sources, edited, "all of them", operations=json.dumps(operations))
        entries += [
            {"what": change.description, "operation": 0}
            for change in asked.unrequested_changes
            if change.severity >= _REPORTED_SEVERITY
        ]
    return json_reply({"differences": entries})


ANY_EDIT: Answers = {
    "any-edit/edited": _about_picture,
    "any-edit/crop": _about_picture,
    "any-edit/pair": _about_pair,
    "any-edit/differences": _differences,
}


def _requests(words: str) -> tuple[ParsedRequest, ...]:
    """The requests of a sentence in EdiVal's forms; none for others."""
    try:
        return parse_instruction(words)
    except UnanswerableError:
        return ()


def _sighting_probability(words: str, picture: ImagePerception) -> float:
    """Whether a picture shows an object; one whose shape cannot be made out may have any."""
    name = find_name(words)
    if isinstance(name, str):
        raise UnanswerableError(f"whether a picture shows {words!r:.120}: {name}")
    if name.kind == TEXT:
        return presence_probability(picture, name)
    sightings = [
        visibility(obj)
        * (obj.colours[name.colour] if name.colour else 1.0)
        * (obj.shapes.get(name.kind, 0.0) + 1 - max(obj.shapes.values()))
        for obj in picture.objects
    ]
    return min(1.0, max(sightings, default=0.0))


def _look_probability(words: str, picture: ImagePerception) -> float:
    look = look_of(words)
    if look == "blur":
        return is_blurred(picture.pixels, picture.objects)
    if look is None or look not in LOOKS:
        raise UnanswerableError(f"whether a picture looks like {words!r:.120}: it knows {', '.join(LOOKS)}, blurred")
    return LOOKS[look](picture.pixels)


def _change_probability(words: str, comparison: EditComparison) -> float:
    requests = _requests(words)
    if requests:
        outcomes = [request_outcome(request, comparison.source, comparison.edited) for request in requests]
        return min(outcome.success_probability for outcome in outcomes)
    shown = crop_of(words)
    if shown is not None:
        return _crop_probability(shown, comparison)
    look = look_of(words)
    if look is not None and look in CHANGES:
        return comparison.picture_change.probability(look)
    if is_never_drawn(words):
        return _UNSEEN
    raise UnanswerableError(f"whether this was done: {words!r:.120}")


def _crop_probability(shown: Box | ObjectName, comparison: EditComparison) -> float:
    """Whether the edit shows this part of the source, and little else."""
    window = comparison.picture_change.window
    if window is None:
        return _UNSEEN
    if isinstance(shown, Box):
        return sigmoid((window.iou(shown) - 0.7) / 0.05)
    box = best_match(comparison.source, shown)
    if box is None:
        return _UNSEEN
    inside = max(0.0, min(box.x1, window.x1) - max(box.x0, window.x0)) * max(
        0.0, min(box.y1, window.y1) - max(box.y0, window.y0)
    )
    share = max(box.w, box.h) / max(window.w, window.h)
    return (
        match_probability(box.score)
        * sigmoid((inside / max(box.area, 1e-9) - 0.8) / 0.05)
        * sigmoid((share - _MIN_SHARE_OF_WINDOW) / 0.03)
        * sigmoid((_MAX_WINDOW - max(window.w, window.h)) / 0.03)
    )


def _difference_probability(words: str, comparison: EditComparison) -> float:
    """Whether a difference between the two pictures belongs to a request: of a request that it does not understand in
    full, whether an object that it names differs.
    """
    requests = _requests(words)
    if requests:
        return min(request_outcome(request, comparison.source, comparison.edited).credit for request in requests)
    if crop_of(words) is not None or look_of(words) is not None:
        return _change_probability(words, comparison)
    names = find_names(words)
    if not names:
        raise UnanswerableError(f"whether a difference belongs to this: {words!r:.120}")
    changed = [obj for obj, similarity in comparison.untouched_objects if similarity < _CHANGED]
    changed += comparison.spurious_objects
    return float(any(is_mentioned(names, most_likely_name(obj)) for obj in changed))
