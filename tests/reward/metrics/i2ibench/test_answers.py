"""Raw answers of judges to the questions in JSON, read as any judge's answer is read."""

import json
from typing import Any

import pytest

from editcritic.reward.metrics.i2ibench.dimension import QUESTIONS
from editcritic.reward.metrics.i2ibench.similarity import COMMANDS, COMMANDS_BY_SOURCE
from editcritic.reward.metrics.i2ibench.specialists import STYLE
from editcritic.reward.queries import Failure, Json, Reply
from editcritic.reward.queries.response_formats import parse_reply

FIVE = [f"Is {number} right?" for number in range(5)]
ASKED = json.dumps({"questions": FIVE})
TABLE_, WALL = "Please segment the table", "Please segment the wall"
CAT: dict[str, Any] = {"source_index": 1, "segmentation_prompt": "Please segment the cat"}
GRADE: dict[str, Any] = {
    "style_requirement": "a",
    "position_requirement": "b",
    "image_observation": "c",
    "reasoning": "d",
    "score": 4,
}
SEVEN, MARKED = [*FIVE, "Is 5?", "Is 6?"], ["Ist {a} [b] richtig?", *FIVE[1:]]
QUOTED = {**GRADE, "style_requirement": "\u201cneon\u201d, rötlich"}
STYLED = json.dumps(GRADE)


def fenced(text, language="json"):
    return f"```{language}\n{text}\n```"


READ: list[tuple[Json, str, Any]] = [
    (QUESTIONS, ASKED, {"questions": FIVE}),
    (QUESTIONS, fenced(ASKED), {"questions": FIVE}),
    (QUESTIONS, fenced(ASKED, ""), {"questions": FIVE}),
    (QUESTIONS, f"Here are the questions:\n{ASKED}", {"questions": FIVE}),
    (QUESTIONS, f"<think>What matters? {{}}</think>\n{ASKED}", {"questions": FIVE}),
    (QUESTIONS, json.dumps({"questions": SEVEN}, indent=2), {"questions": SEVEN}),
    (QUESTIONS, ASKED.replace('"]', '",]'), {"questions": FIVE}),
    (QUESTIONS, f"{ASKED}\n{ASKED}", {"questions": FIVE}),
    (QUESTIONS, json.dumps({"questions": MARKED}), {"questions": MARKED}),
    (COMMANDS, json.dumps([TABLE_, WALL]), [TABLE_, WALL]),
    (COMMANDS, "[]", []),
    (COMMANDS, fenced(json.dumps([TABLE_])), [TABLE_]),
    (COMMANDS, f"The subjects are {json.dumps([TABLE_, WALL])}.", [TABLE_, WALL]),
    (COMMANDS, f'["{TABLE_}", "{WALL}",]', [TABLE_, WALL]),
    (COMMANDS, f"<think>[1, 2]</think>{json.dumps([WALL])}", [WALL]),
    (COMMANDS_BY_SOURCE, json.dumps([CAT]), [CAT]),
    (COMMANDS_BY_SOURCE, "[]", []),
    (COMMANDS_BY_SOURCE, "```\n[]\n```", []),
    (COMMANDS_BY_SOURCE, f"Answer: {json.dumps([CAT, {**CAT, 'source_index': 0}])}", [CAT, {**CAT, "source_index": 0}]),
    (COMMANDS_BY_SOURCE, json.dumps([{**CAT, "source_index": 1.0}]), [{**CAT, "source_index": 1}]),
    (COMMANDS_BY_SOURCE, json.dumps([{**CAT, "source_index": "1"}]), [{**CAT, "source_index": 1}]),
    (STYLE, STYLED, GRADE),
    (STYLE, json.dumps({**GRADE, "score": "4"}), {**GRADE, "score": 4}),
    (STYLE, fenced(STYLED), GRADE),
    (STYLE, fenced(json.dumps(GRADE, indent=4)), GRADE),
    (STYLE, f"Sure. {STYLED} I hope this helps.", GRADE),
    (STYLE, json.dumps({**GRADE, "score": 1}), {**GRADE, "score": 1}),
    (STYLE, json.dumps(QUOTED, ensure_ascii=False), QUOTED),
]

UNREAD: list[tuple[Json, str]] = [
    (QUESTIONS, ""),
    (QUESTIONS, "1. Is it right?\n2. Is it there?"),
    (QUESTIONS, json.dumps(FIVE)),
    (QUESTIONS, json.dumps({"physical_questions": FIVE})),
    (QUESTIONS, json.dumps({"questions": FIVE, "notes": "none"})),
    (QUESTIONS, json.dumps({"questions": FIVE[:4]})),
    (QUESTIONS, json.dumps({"questions": [*FIVE, *FIVE[:3]]})),
    (QUESTIONS, json.dumps({"questions": [*FIVE[:4], 5]})),
    (QUESTIONS, json.dumps({"questions": [{"question": text} for text in FIVE]})),
    (QUESTIONS, ASKED[:-10]),
    (QUESTIONS, f"<think>{ASKED}"),
    (QUESTIONS, f"{ASKED}\nor rather\n{ASKED.replace('right', 'wrong')}"),
    (QUESTIONS, ASKED[:-1] + f', "questions": {json.dumps(FIVE)}}}'),
    (COMMANDS, TABLE_),
    (COMMANDS, json.dumps(TABLE_)),
    (COMMANDS, json.dumps([CAT])),
    (COMMANDS, json.dumps([[TABLE_]])),
    (COMMANDS, json.dumps([TABLE_, None])),
    (COMMANDS, f"{json.dumps([TABLE_])} or {json.dumps([WALL])}"),
    (COMMANDS, f"['{TABLE_}']"),
    (COMMANDS, json.dumps({"commands": [TABLE_]})),
    (COMMANDS_BY_SOURCE, json.dumps(CAT)),
    (COMMANDS_BY_SOURCE, json.dumps([TABLE_])),
    (COMMANDS_BY_SOURCE, json.dumps([{**CAT, "source_index": -1}])),
    (COMMANDS_BY_SOURCE, json.dumps([{**CAT, "source_index": "-1"}])),
    (COMMANDS_BY_SOURCE, json.dumps([{**CAT, "source_index": 0.5}])),
    (COMMANDS_BY_SOURCE, json.dumps([{**CAT, "source_index": True}])),
    (COMMANDS_BY_SOURCE, json.dumps([{"source_index": 0}])),
    (COMMANDS_BY_SOURCE, '["source_index": 1, "segmentation_prompt": "Please segment the cat"]'),
    (COMMANDS_BY_SOURCE, "None of them."),
    (STYLE, "4"),
    (STYLE, "Score: 4"),
    (STYLE, json.dumps({"analysis": GRADE})),
    (STYLE, json.dumps({**GRADE, "score": 0})),
    (STYLE, json.dumps({**GRADE, "score": 6})),
    (STYLE, json.dumps({**GRADE, "score": 3.5})),
    (STYLE, json.dumps({**GRADE, "score": "6"})),
    (STYLE, json.dumps({**GRADE, "score": [4]})),
    (STYLE, json.dumps(dict(list(GRADE.items())[3:]))),
    (STYLE, f"{STYLED}\n{json.dumps({**GRADE, 'score': 5})}"),
    (STYLE, STYLED.replace("4", "NaN")),
    (STYLE, STYLED[:-4]),
]


@pytest.mark.parametrize(("form", "reply_text", "value"), READ)
def test_what_is_plain_is_read(form, reply_text, value):
    reply = parse_reply(form, reply_text)
    assert isinstance(reply, Reply), reply
    assert form.reply_value(reply) == value


@pytest.mark.parametrize(("form", "reply_text"), UNREAD)
def test_what_is_not_plain_is_a_failure_with_the_words(form, reply_text):
    failure = parse_reply(form, reply_text)
    assert isinstance(failure, Failure)
    assert failure.raw == reply_text
