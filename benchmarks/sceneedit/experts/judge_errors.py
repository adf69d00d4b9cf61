"""Errors of a judge in graded answers, for each response format.

A flip mirrors an answer to the other end of the scale: excellent for bad, 9 for 1, the best of DLEBench's labels for
the worst. A bias moves probabilities towards the best option; answers without probabilities become the best.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ....reward.queries import Judge, Reply
from ....reward.queries.response_formats import FreeText, Grade, Json, Levels

DLEBENCH_LABELS = (
    ("Flawless Execution", "Over Modification", "Wrong Action", "Localization Failure"),
    ("Perfect Consistency", "Single Anomaly", "Multiple Anomalies", "Scene Collapse"),
)
"""DLEBench's labels, from the best."""

_ANSWER = re.compile(r"(?<=<Start Final Answer>)[^<]+(?=</Start Final Answer>)")


def perturb_reply(query: Judge, reply: Reply, flipped: bool, bias: float, biased: bool) -> Reply:
    """The reply, flipped and biased. biased: whether an answer without probabilities becomes the best.

    Text without a grade (questions, commands, calls, thoughts) stays unchanged.
    """
    match query.form:
        case Levels(options, weights):
            order = [option for _, option in sorted(zip(weights, options, strict=True))]
            return _perturb_option(reply, order, flipped=flipped, bias=bias, biased=biased)
        case Grade() as form:
            return _perturb_option(
                reply, form.options, flipped=flipped, bias=bias, biased=biased, sampled=form.temperature > 0
            )
        case Json(schema):
            return _perturb_json(json.loads(schema), reply, flipped=flipped, biased=biased)
        case FreeText():
            text = _ANSWER.sub(lambda match: _perturb_label(match[0], flipped, biased), reply.text)
            return reply if text == reply.text else replace(reply, text=text)
        case _:
            return reply


def _perturb_option(
    reply: Reply, order: Sequence[str], *, flipped: bool, bias: float, biased: bool, sampled: bool = False
) -> Reply:
    """order: the options from the worst to the best. sampled: the text is one of several draws, not the likeliest."""
    mirror = dict(zip(order, reversed(order), strict=True))
    text = mirror.get(reply.text, reply.text) if flipped else reply.text
    if not reply.probabilities:
        return replace(reply, text=order[-1] if biased and text in mirror else text)
    probabilities = {option: reply.probabilities.get(mirror[option] if flipped else option, 0.0) for option in order}
    shifted = {option: (1 - bias) * p + bias * (option == order[-1]) for option, p in probabilities.items()}
    if sampled:
        text = order[-1] if biased else text
    elif max(probabilities, key=lambda option: probabilities[option]) != max(
        shifted, key=lambda option: shifted[option]
    ):
        text = max(shifted, key=lambda option: shifted[option])
    return replace(reply, text=text, probabilities=shifted)


def _perturb_json(schema: Mapping[str, Any], reply: Reply, *, flipped: bool, biased: bool) -> Reply:
    try:
        value = json.loads(reply.text)
    except ValueError:
        return reply
    perturbed = _perturb_grades(schema, value, flipped, biased)
    return reply if perturbed == value else replace(reply, text=json.dumps(perturbed))


def _perturb_grades(schema: Mapping[str, Any], value: Any, flipped: bool, biased: bool) -> Any:
    """The value with all its grades (integers with a minimum and a maximum) flipped or biased."""
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        return {name: _perturb_grades(properties.get(name, {}), item, flipped, biased) for name, item in value.items()}
    if isinstance(value, list):
        return [_perturb_grades(schema.get("items", {}), item, flipped, biased) for item in value]
    if isinstance(value, int) and {"minimum", "maximum"} <= schema.keys():
        low, high = schema["minimum"], schema["maximum"]
        return high if biased else low + high - value if flipped else value
    return value


def _perturb_label(label: str, flipped: bool, biased: bool) -> str:
    for labels in DLEBENCH_LABELS:
        if label in labels:
            flipped_label = labels[len(labels) - 1 - labels.index(label)] if flipped else label
            return labels[0] if biased else flipped_label
    return label
