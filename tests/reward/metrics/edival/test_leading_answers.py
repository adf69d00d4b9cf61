"""The first word of a judge's reply."""

import pytest

from editcritic.reward.metrics.edival.inspector import leading_yes_no


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>Yes</answer>", True),
        ("\n<answer> **No** </answer>", False),
        ("Yes.", True),
        ("The cup is blue. <answer>Yes</answer>", None),
        ("<answer>No idea</answer>", None),
        ('{"answer": "yes"', None),
    ],
)
def test_a_reply_may_begin_with_its_answer_in_a_tag(text, answer):
    assert leading_yes_no(text) is answer
