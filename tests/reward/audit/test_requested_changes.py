"""What an instruction may ask for, by its words."""

import pytest

from editcritic.reward.audit import requested_changes
from editcritic.reward.audit.requested_changes import COLOUR, DETAIL, FRAMING, ORIENTATION, Request, RequestedChange

from ..fakes import sample

KINDS = {name: kind for name, kind in vars(requested_changes).items() if isinstance(kind, RequestedChange)}


def request(instruction: str) -> Request:
    return Request(sample(instruction=instruction))


@pytest.mark.parametrize("name", KINDS)
def test_each_phrase_is_found_in_an_instruction(name: str) -> None:
    """A phrase that no instruction can have, since its words are separated otherwise, would be a dead letter."""
    phrases = KINDS[name].phrases.split(", ")
    words = RequestedChange(frozenset(), "no such phrase")
    for phrase in phrases:
        asked = request(f"Remove the {phrase} from the picture")
        assert f" {phrase}" in " ".join(("", *asked.words)), phrase
        assert RequestedChange(frozenset(), phrase).may_be_in(asked)
        assert not words.may_be_in(asked)
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
def test_hyphens_separate_words(instruction: str, kind: RequestedChange) -> None:
    assert kind.may_be_in(request(instruction))
