"""Questions: a small language of yes or no about an edit, in which SceneJudge writes and which it reads back.

Statements, as in hints, say the same: `There is one red star.` A sentence it does not know is `Unknown`, never a guess.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from ....reward.prompts import Prompts
from ....reward.sample import POSITIONS, Position
from ..words import BACKDROPS
from .deeds import best, exactly, firm, is_there, on_side, shows, written
from .pairs import Pair, said
from .phrases import Name, word
from .sights import Sight
from .wishes import Unknown, Wish, named

LIGHT = "Is the light as it was?"
SOLID = "Are all things solid?"
CLEAN = "Is the picture as clean as before?"
UNASKED = "Is there nothing that nobody asked for?"
BACKDROP = "Is the background as it was?"
OTHERS = "Are all other things as they were?"

_BRIGHTER, _SOFT = 0.08, 0.02
"""Change of brightness, as a share, at which it is even whether the light is another, and how softly that sets in."""
_DIFFERENT = 0.15
"""Slope of a verdict on what is alike by half."""
_SIZES = 1.8
"""How many times as large as the usual thing of the first source something may be, or as small, to fit in."""
_BY_HEART = {"question_transfer_multi": "transfer", "question_consistency_multi": "consistency"}
"""Questions of I2I-Bench that are the same for all samples, by the names of their prompts."""

_PLACES: dict[Position, str] = {
    "left": "on the left of",
    "right": "on the right of",
    "above": "above",
    "below": "below",
}
_PLACE = "|".join(_PLACES.values())


# -- writing ----------------------------------------------------------------------------------------------------------


def about_physics(pair: Pair) -> list[str]:
    """Five questions on whether the picture can be: pair is the source with itself."""
    kinds = [wish.task.value or "" for wish in pair.wishes if wish.task.type == "background_change"]
    behind = [f"Is the background {kind}?" for kind in kinds] or [LIGHT]
    return [*behind, SOLID, CLEAN, UNASKED, OTHERS]


def about_composition(pair: Pair) -> list[str]:
    """Five to seven questions on whether what is new stands well among the rest."""
    result = _result(pair.wishes)
    asked = [question for wish in pair.wishes for question in _of_wish(wish)][:2]
    of_result = [] if result is None else [f"Is {said(result)} about as large as the other things?"]
    return [*asked, *of_result, SOLID, CLEAN, OTHERS, UNASKED][:7]


def about_transfer(pair: Pair) -> list[str]:
    """Five to seven questions on whether what is taken from another source is what it was there."""
    found = []
    for wish in pair.wishes:
        if wish.new is not None:
            found += [f"Does {said(wish.new)} look as in picture {wish.source + 1}?", *_of_wish(wish)]
    return [*found[:4], OTHERS, BACKDROP, UNASKED][:7]


def about_consistency(pair: Pair) -> list[str]:
    """Five or six questions on whether what comes from several sources fits together."""
    result = _result(pair.wishes)
    of_result = [] if result is None else [f"Is {said(result)} about as large as the other things?"]
    return [*of_result, LIGHT, SOLID, CLEAN, UNASKED, BACKDROP]


def _result(asked: Sequence[Wish]) -> Name | None:
    return next((wish.result for wish in asked if wish.result is not None), None)


def _of_wish(wish: Wish) -> list[str]:
    """Whether it is carried out."""
    task = wish.task
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
    assert wish.result is not None
    found = [f"Is there one {said(wish.result)}?"]
    if task.position is not None:
        found.append(f"Is {task.new or task.object} {_PLACES[task.position]} {task.reference}?")
    return found


# -- reading ----------------------------------------------------------------------------------------------------------


def answer(question: str, pair: Pair) -> float:
    """The probability of yes. Raises `Unknown`."""
    sentence = " ".join(question.split())
    for pattern, judge in _SENTENCES:
        match = pattern.fullmatch(sentence)
        if match is not None:
            return min(max(judge(pair, match), 0.0), 1.0)
    for prompt, what in _BY_HEART.items():
        if sentence == " ".join(Prompts("editcritic.reward.i2ibench").render(prompt).split()):
            return _looks_taken(pair) if what == "transfer" else _fits_together(pair)
    raise Unknown(f"the answer to {question!r:.120}: it knows its own questions")


def hold(statements: str, pair: Pair) -> float:
    """The probability that all of these statements hold, each ending in a full stop. Raises `Unknown`."""
    each = [statement for statement in re.split(r"\.(?:\s+|$)", statements.strip()) if statement]
    if not each:
        raise Unknown("what a right result shows: the hint is empty")
    return min(answer(statement, pair) for statement in each)


def _sentence(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _one(pair: Pair, match: re.Match[str]) -> float:
    return exactly(pair.edited, named(match["name"]), 1)


def _none(pair: Pair, match: re.Match[str]) -> float:
    return exactly(pair.edited, named(match["name"]), 0)


def _so_many(pair: Pair, match: re.Match[str]) -> float:
    return exactly(pair.edited, named(match["name"]), int(match["count"]))


def _beside(pair: Pair, match: re.Match[str]) -> float:
    position = next(one for one in POSITIONS if _PLACES[one] == match["place"].casefold())
    return on_side(pair.edited, named(match["name"]), position, named(match["reference"]))


def _kind(pair: Pair, match: re.Match[str]) -> float:
    kind = word(match["kind"])
    if kind not in BACKDROPS:
        raise Unknown(f"whether the background is {kind!r}: it knows {', '.join(BACKDROPS)}")
    return shows(pair.edited, kind)


def _read(pair: Pair, match: re.Match[str]) -> float:
    on = named(match["on"]) if match["on"] else None
    return written(pair.edited, match["text"], on)[0]


def _as_large(pair: Pair, match: re.Match[str]) -> float:
    """Between half and twice as large as the usual thing of the first source."""
    found = best(pair.edited, named(match["name"]))
    usual = [math.sqrt(one.box.w * one.box.h) for one in pair.source.seen]
    if found is None or not usual:
        return 0.0
    ratio = math.sqrt(found.w * found.h) / float(np.median(usual))
    return firm(found.score) * _even(math.log(_SIZES) - abs(math.log(max(ratio, 1e-6))), 0.1)


def _as_there(pair: Pair, match: re.Match[str]) -> float:
    place = int(match["picture"]) - 1
    if not 0 <= place < len(pair.sources):
        raise Unknown(f"what picture {place + 1} shows: there are {len(pair.sources)}")
    return _taken(named(match["name"]), pair.sources[place], pair.edited)


def _taken(name: Name, source: Sight, edited: Sight) -> float:
    return is_there(source, name) * is_there(edited, name)


def _light(pair: Pair, _: re.Match[str]) -> float:
    free = ~(pair.source.covered | pair.edited.covered)
    if np.count_nonzero(free) < 64:
        return 0.5
    ratio = float(pair.edited.calm[free].mean()) / max(float(pair.source.calm[free].mean()), 1.0)
    return _even(_BRIGHTER - abs(ratio - 1), _SOFT)


def _unasked(pair: Pair, _: re.Match[str]) -> float:
    return max(0.0, 1 - len(pair.strangers) - pair.copies)


def _others(pair: Pair, _: re.Match[str]) -> float:
    return _even(min((alike for _, alike in pair.others), default=1.0) - 0.5, _DIFFERENT)


def _same_backdrop(pair: Pair, _: re.Match[str]) -> float:
    return 1.0 if pair.backdrop is None else _even(pair.backdrop - 0.5, _DIFFERENT)


def _looks_taken(pair: Pair) -> float:
    """Whether what each wish takes from another source is there, as it looks there."""
    taken = [wish for wish in pair.wishes if wish.new is not None and wish.source < len(pair.sources)]
    if not taken:
        raise Unknown("what is to be taken from another picture: the instruction names nothing")
    return min(_taken(wish.new, pair.sources[wish.source], pair.edited) for wish in taken if wish.new is not None)


def _fits_together(pair: Pair) -> float:
    return pair.natural


def _even(ahead: float, soft: float) -> float:
    return 1 / (1 + math.exp(-max(-50.0, min(50.0, ahead / soft))))


_NAME = r"(?P<name>[\w ]+?)"
_SENTENCES: tuple[tuple[re.Pattern[str], Callable[[Pair, re.Match[str]], float]], ...] = (
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
    (_sentence(re.escape(LIGHT)), _light),
    (_sentence(re.escape(SOLID)), lambda pair, _: pair.solid),
    (_sentence(re.escape(CLEAN)), lambda pair, _: _even(pair.clean - 0.75, 0.08)),
    (_sentence(re.escape(UNASKED)), _unasked),
    (_sentence(re.escape(BACKDROP)), _same_backdrop),
    (_sentence(re.escape(OTHERS)), _others),
)
