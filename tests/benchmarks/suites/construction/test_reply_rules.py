"""What is left of a judge's answer without the marks around it."""

import random

import pytest

from editcritic.benchmarks.suites.construction.reply_rules import strip_answer

from ....reward.test_linear_parsing import at_most


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (' "lamp." ', "lamp"),
        ("New object: **lamp**.", "lamp"),
        ("\u201c'*lamp*'\u3002\u201d", "lamp"),
        ("...lamp...", "...lamp"),
        ('"', '"'),
        ('""', ""),
        ('"a" or "b"', 'a" or "b'),
        ("* . *", ""),
        ("", ""),
    ],
)
def test_labels_and_marks_around_an_answer_are_left_out(reply, answer):
    assert strip_answer(reply) == answer


def test_marks_in_any_order_are_stripped_as_often_as_there_are_some():
    chance = random.Random(0)
    for _ in range(2_000):
        text = "".join(chance.choice(" *.\u3002\"'`ab\u3000") for _ in range(chance.randrange(14)))
        stripped = strip_answer(text)
        assert stripped in text
        assert strip_answer(stripped) == stripped
        assert set(text.replace(stripped, "", 1)) <= set(" *.\u3002\"'`\u3000")


def test_marks_are_stripped_in_linear_time():
    """A copy for each pair of marks took a minute."""
    for unit in ('"', '*"', '". '):
        text = unit * (2_000_000 // len(unit))
        with at_most(5, "strip_answer", text):
            strip_answer(text)
