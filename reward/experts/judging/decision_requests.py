"""Judgements as typed decisions (System One): a question about a state, answered by a probability for every option.

Of transformers: `pipeline("decision")` answers such requests here, `transformers serve` at `/v1/systemone`. No text is
generated, so only forms with options can be asked: `YesNo` is a `noul`, `Levels` a `choice` in the order given (what
the words are worth is no part of the question), `Grade` a `score` over its integers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..forms import FreeText, Grade, Json, Levels, Message, Reply, YesNo, read_reply
from ..image import Image
from ..outcomes import Failure
from ..query import Judge
from .writers import drawn

QUESTION = "judgement"
"""The name of the one question of a request."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A request. state: the conversation. questions: one, named `QUESTION`. images: by the placeholder in the text."""

    state: str
    questions: dict[str, dict[str, Any]]
    images: dict[str, Image]


def request_of(query: Judge) -> Decision | Failure:
    """What to ask. The last piece of text is the question, everything else the state it is about.

    The parts of a message are put together without anything between them, as chat templates do. A picture that is shown
    twice is one asset with two places in the text. Placeholders have the query's digest in them, so that no text can
    contain one by accident or on purpose.
    """
    if isinstance(query.form, FreeText | Json):
        return Failure("this endpoint writes no text, it picks options: bind a chat judge to this role")
    said = [(m, p) for m, message in enumerate(query.messages) for p, part in enumerate(message.parts)]
    last = next((at for at in reversed(said) if isinstance(query.messages[at[0]].parts[at[1]], str)), None)
    if last is None:
        return Failure("there are only pictures: put the question in words after them")
    names: dict[Image, str] = {}
    for image in query.images:
        names.setdefault(image, f"<picture-{len(names) + 1}-{query.digest[:12]}>")

    def words(at: tuple[int, int]) -> str:
        part = query.messages[at[0]].parts[at[1]]
        return part if isinstance(part, str) else names[part]

    turns = [
        (message, "".join(words((m, p)) for p in range(len(message.parts)) if (m, p) != last))
        for m, message in enumerate(query.messages)
    ]
    question = {**_kind(query.form), "instructions": words(last)}
    return Decision(_state(turns), {QUESTION: question}, {name: image for image, name in names.items()})


def reply_of(query: Judge, answers: object) -> Reply | Failure:
    """The reply that the answers to a request are: the probability of every option, and the most probable one as text.

    A `Grade` at a temperature above 0 is drawn from them, by the query's digest. `mass` is None: the probabilities are
    among the options from the start. What is no finite distribution over the options is a `Failure`.
    """
    answer = answers.get(QUESTION) if isinstance(answers, Mapping) else None
    try:
        found = _probabilities(query, answer)
    except (KeyError, TypeError, ValueError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        return Failure(f"the answer is no decision on this question: {why}", raw=_raw(answers))
    temperature = query.form.temperature if isinstance(query.form, Grade) else 0.0
    return read_reply(query.form, drawn(found, temperature, query.digest), found)


def _kind(form: YesNo | Levels | Grade) -> dict[str, Any]:
    match form:
        case YesNo():
            return {"type": "noul"}
        case Levels(options):
            return {"type": "choice", "criteria": dict.fromkeys(options)}
        case Grade():
            return {"type": "score", "criteria": list(form.options)}


def _state(turns: list[tuple[Message, str]]) -> str:
    """One turn is told as it is, several with their speakers."""
    if len(turns) == 1:
        return turns[0][1]
    told = []
    for message, text in turns:
        calls = "".join(f"\n(calls {call.name}: {call.arguments})" for call in message.calls)
        if text or calls:
            told.append(f"{message.speaker}: {text}{calls}")
    return "\n\n".join(told)


def _probabilities(query: Judge, answer: Any) -> dict[str, float]:
    form = query.form
    if not isinstance(answer, Mapping):
        raise TypeError(f"a table was expected, got {type(answer).__name__}")
    match form:
        case YesNo():
            yes = _number(answer["noul"])
            found = {"yes": yes, "no": 1.0 - yes}
        case Levels(options):
            found = {option: _number(answer["probabilities"][option]) for option in options}
        case Grade():
            levels = enumerate(form.options)  # a score's levels are counted from 0
            found = {option: _number(answer["probabilities"][str(level)]) for level, option in levels}
        case _:
            raise TypeError(f"{type(form).__name__} has no options")
    total = sum(found.values())
    if abs(total - 1.0) > 1e-3:
        raise ValueError(f"the probabilities sum to {total:.4g}, not to 1")
    return {option: p / total for option, p in found.items()}


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{value!r:.40} is no probability")
    if not -1e-6 <= value <= 1.0 + 1e-6:
        raise ValueError(f"{value!r:.40} is no probability")
    return min(max(float(value), 0.0), 1.0)


def _raw(answers: object) -> str:
    try:
        return json.dumps(answers)[:2000]
    except (TypeError, ValueError):
        return repr(answers)[:2000]
