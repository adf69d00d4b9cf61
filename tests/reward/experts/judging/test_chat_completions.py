"""Replies of servers: what of a message's content is its text."""

from __future__ import annotations

from typing import Any

import pytest

from editcritic.reward.experts.judging.chat_completions import Completion, parse_completion


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("yes", "yes"),
        (["ye", "s"], "yes"),
        ([{"type": "text", "text": None}, {"type": "text", "text": "yes"}], "yes"),
        ([{"type": "thinking", "thinking": "no"}, {"type": "output_text", "text": "yes"}], "yes"),
        ({"type": "text", "text": "yes"}, "yes"),
        (None, ""),
    ],
)
def test_the_text_of_a_message_is_read_in_each_shape(content: Any, text: str) -> None:
    completion = parse_completion({"choices": [{"message": {"content": content}, "finish_reason": "stop"}]})
    assert isinstance(completion, Completion)
    assert completion.text == text


@pytest.mark.parametrize("content", [7, [7], [{"type": "text", "text": ["yes"]}]])
def test_what_is_no_text_is_refused(content: Any) -> None:
    with pytest.raises(TypeError, match="and no text"):
        parse_completion({"choices": [{"message": {"content": content}}]})
