"""Judge queries as typed decisions (System One): a question about a state, answered with option probabilities.

transformers answers them with `pipeline("decision")`, and `transformers serve` at `/v1/systemone`. No text is
generated, so only forms with options are supported: `YesNo` is a `noul`, `Levels` a `choice` in the same order (the
values of the levels are not sent), `Grade` a `score` over its integers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...image import Image
from ...queries.kinds import Judge
from ...queries.outcomes import Failure
from ...queries.response_formats import FreeText, Grade, Json, Levels, Message, Reply, YesNo, parse_reply
from .logits_processors import sample_option

QUESTION = "judgement"
"""The name of a request's only question."""


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """A request. state: the conversation. questions: one, named `QUESTION`. images: by placeholder in the text."""

    state: str
    questions: dict[str, dict[str, Any]]
    images: dict[str, Image]


def make_request(query: Judge) -> DecisionRequest | Failure:
    """The request of a query. The last text part is the question, everything before it the state.

    The parts of a message are concatenated without separators, as in chat templates. An image that appears twice is one
    asset with two placeholders. Placeholders contain the query's digest, so that no text can contain one.
    """
    if isinstance(query.form, FreeText | Json):
        return Failure("this endpoint generates no text, it selects options: bind a chat judge to this role")
    positions = [(m, p) for m, message in enumerate(query.messages) for p, part in enumerate(message.content)]
    question_position = next(
        (
            position
            for position in reversed(positions)
            if isinstance(query.messages[position[0]].content[position[1]], str)
        ),
        None,
    )
    if question_position is None:
        return Failure("the query has images only: add the question as text after them")
    placeholders: dict[Image, str] = {}
    for image in query.images:
        placeholders.setdefault(image, f"<picture-{len(placeholders) + 1}-{query.digest[:12]}>")

    def words(position: tuple[int, int]) -> str:
        part = query.messages[position[0]].content[position[1]]
        return part if isinstance(part, str) else placeholders[part]

    turns = [
        (message, "".join(words((m, p)) for p in range(len(message.content)) if (m, p) != question_position))
        for m, message in enumerate(query.messages)
    ]
    question = {**_question_type(query.form), "instructions": words(question_position)}
    return DecisionRequest(_state(turns), {QUESTION: question}, {name: image for image, name in placeholders.items()})


def parse_answers(query: Judge, answers: object) -> Reply | Failure:
    """The reply from the answers to a request: the probability of every option, and the most probable one as text.

    A `Grade` at a temperature above 0 is sampled, seeded by the query's digest. `option_mass` is None: the model
    normalises over the options. Anything but a finite distribution over the options is a `Failure`.
    """
    answer = answers.get(QUESTION) if isinstance(answers, Mapping) else None
    try:
        probabilities = _probabilities(query, answer)
    except (KeyError, TypeError, ValueError) as error:
        problem = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        return Failure(f"the answer is no decision on this question: {problem}", raw=_raw(answers))
    temperature = query.form.temperature if isinstance(query.form, Grade) else 0.0
    return parse_reply(query.form, sample_option(probabilities, temperature, query.digest), probabilities)


def _question_type(form: YesNo | Levels | Grade) -> dict[str, Any]:
    match form:
        case YesNo():
            return {"type": "noul"}
        case Levels(options):
            return {"type": "choice", "criteria": dict.fromkeys(options)}
        case Grade():
            return {"type": "score", "criteria": list(form.options)}


def _state(turns: list[tuple[Message, str]]) -> str:
    """The text of a single turn; several turns with their roles."""
    if len(turns) == 1:
        return turns[0][1]
    texts = []
    for message, text in turns:
        calls = "".join(f"\n(calls {call.name}: {call.arguments})" for call in message.tool_calls)
        if text or calls:
            texts.append(f"{message.role}: {text}{calls}")
    return "\n\n".join(texts)


def _probabilities(query: Judge, answer: Any) -> dict[str, float]:
    form = query.form
    if not isinstance(answer, Mapping):
        raise TypeError(f"expected a mapping, got {type(answer).__name__}")
    match form:
        case YesNo():
            yes = _number(answer["noul"])
            probabilities = {"yes": yes, "no": 1.0 - yes}
        case Levels(options):
            probabilities = {option: _number(answer["probabilities"][option]) for option in options}
        case Grade():
            levels = enumerate(form.options)  # levels of a score are numbered from 0
            probabilities = {option: _number(answer["probabilities"][str(level)]) for level, option in levels}
        case _:
            raise TypeError(f"{type(form).__name__} has no options")
    total = sum(probabilities.values())
    if abs(total - 1.0) > 1e-3:
        raise ValueError(f"the probabilities sum to {total:.4g}, not to 1")
    return {option: p / total for option, p in probabilities.items()}


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e-6 <= value <= 1.0 + 1e-6:
        raise ValueError(f"{value!r:.40} is no probability")
    return min(max(float(value), 0.0), 1.0)


def _raw(answers: object) -> str:
    try:
        return json.dumps(answers)[:2000]
    except (TypeError, ValueError):
        return repr(answers)[:2000]
