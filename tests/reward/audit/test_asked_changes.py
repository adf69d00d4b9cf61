"""What an instruction may ask for, by its words."""

from typing import Any

import pytest

from editcritic.reward.audit import asked_changes
from editcritic.reward.audit.asked_changes import COLOUR, DETAIL, FRAMING, ORIENTATION, AskedChange
from editcritic.reward.audit.request import Request

from ..fakes import sample

KINDS: dict[str, Any] = {name: kind for name, kind in vars(asked_changes).items() if isinstance(kind, AskedChange)}


def request(instruction: str) -> Request:
    return Request(sample(instruction=instruction))


@pytest.mark.parametrize("name", KINDS)
def test_each_phrase_is_found_in_an_instruction(name: str) -> None:
    """A phrase that no instruction can have, since its words are separated otherwise, would be a dead letter."""
    phrases = KINDS[name].phrases.split(", ")
    words = AskedChange(frozenset(), "no such phrase")
    for phrase in phrases:
        asked = request(f"Remove the {phrase} from the picture")
        assert f" {phrase}" in " ".join(("", *asked.words)), phrase
        assert AskedChange(frozenset(), phrase).may_be_asked_by(asked)
        assert not words.may_be_asked_by(asked)
    assert len(set(phrases)) == len(phrases)


@pytest.mark.parametrize(
    ("instruction", "kind"),
    [
        ("Make it black-and-white", COLOUR),
        ("Make it a 16-bit game", DETAIL),
        ("Give it a low-res look", DETAIL),
        ("Make it a close-up of the cat", FRAMING),
        ("Show it through a fish-eye lens", ORIENTATION),
        ("Give the cat a fish eye view", ORIENTATION),
    ],
)
def test_hyphens_separate_words(instruction: str, kind: AskedChange) -> None:
    assert kind.may_be_asked_by(request(instruction))
