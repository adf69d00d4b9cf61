"""Misjudging: what becomes of a graded answer when a judge errs, in each form there is.

To turn round is to take the other end of the scale: excellent for bad, 9 for 1, the best of DLEBench's labels for the
worst. A bias lifts: probabilities move towards the best option, and what is said without any becomes the best.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ....reward import Judge, Reply
from ....reward.forms import FreeText, Grade, Json, Levels

LABELS = (
    ("Flawless Execution", "Over Modification", "Wrong Action", "Localization Failure"),
    ("Perfect Consistency", "Single Anomaly", "Multiple Anomalies", "Scene Collapse"),
)
"""Of DLEBench, from the best."""

_ANSWER = re.compile(r"(?<=<Start Final Answer>)[^<]+(?=</Start Final Answer>)")


def misjudged(query: Judge, reply: Reply, turned: bool, bias: float, swayed: bool) -> Reply:
    """The answer, turned round if so said, and lifted. swayed: whether what has no probabilities becomes the best.

    Words that are no grade (questions, commands, calls, thoughts) stay as they are.
    """
    match query.form:
        case Levels(options, weights):
            order = [option for _, option in sorted(zip(weights, options, strict=True))]
            return _on_scale(reply, order, turned=turned, bias=bias, swayed=swayed)
        case Grade() as form:
            return _on_scale(reply, form.options, turned=turned, bias=bias, swayed=swayed, drawn=form.temperature > 0)
        case Json(schema):
            return _in_json(json.loads(schema), reply, turned=turned, swayed=swayed)
        case FreeText():
            text = _ANSWER.sub(lambda found: _label(found[0], turned, swayed), reply.text)
            return reply if text == reply.text else replace(reply, text=text)
        case _:
            return reply


def _on_scale(
    reply: Reply, order: Sequence[str], *, turned: bool, bias: float, swayed: bool, drawn: bool = False
) -> Reply:
    """order: the options from the worst to the best. drawn: the text is one of several draws, not the likeliest."""
    mirror = dict(zip(order, reversed(order), strict=True))
    said = mirror.get(reply.text, reply.text) if turned else reply.text
    if not reply.probabilities:
        return replace(reply, text=order[-1] if swayed and said in mirror else said)
    chances = {option: reply.probabilities.get(mirror[option] if turned else option, 0.0) for option in order}
    lifted = {option: (1 - bias) * p + bias * (option == order[-1]) for option, p in chances.items()}
    if drawn:
        said = order[-1] if swayed else said
    elif max(chances, key=lambda option: chances[option]) != max(lifted, key=lambda option: lifted[option]):
        said = max(lifted, key=lambda option: lifted[option])
    return replace(reply, text=said, probabilities=lifted)


def _in_json(schema: Mapping[str, Any], reply: Reply, *, turned: bool, swayed: bool) -> Reply:
    try:
        value = json.loads(reply.text)
    except ValueError:
        return reply
    changed = _graded(schema, value, turned, swayed)
    return reply if changed == value else replace(reply, text=json.dumps(changed))


def _graded(schema: Mapping[str, Any], value: Any, turned: bool, swayed: bool) -> Any:
    """The value with all its grades (integers with a least and a most) turned round or lifted."""
    if isinstance(value, dict):
        known = schema.get("properties", {})
        return {name: _graded(known.get(name, {}), one, turned, swayed) for name, one in value.items()}
    if isinstance(value, list):
        return [_graded(schema.get("items", {}), one, turned, swayed) for one in value]
    if isinstance(value, int) and {"minimum", "maximum"} <= schema.keys():
        low, high = schema["minimum"], schema["maximum"]
        return high if swayed else low + high - value if turned else value
    return value


def _label(label: str, turned: bool, swayed: bool) -> str:
    for labels in LABELS:
        if label in labels:
            said = labels[len(labels) - 1 - labels.index(label)] if turned else label
            return labels[0] if swayed else said
    return label
