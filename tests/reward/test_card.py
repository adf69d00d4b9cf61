"""Cards: signatures, ranges and aspects."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from editcritic.reward import Card, build
from editcritic.reward.card import joint_kinds
from editcritic.reward.metrics import Gate, WeightedMean, all_guards

from .fakes import Says

BOUNDS = ((0.0, 1.0), (0.25, 0.75), (-1.0, 1.0), (0.0, 10.0), (0.0, None), (None, 1.0), (None, None))


def test_ranges_roles_and_kinds_of_a_card():
    shares = {bounds for bounds in BOUNDS if Card("m", 1, "m", range=bounds).is_unit_range}
    assert shares == {(0.0, 1.0), (0.25, 0.75)}
    kinds: dict[str, tuple[str, ...]] = {"detector": ("detect",), "judge.planner": ("judge",)}
    card = Card("m", 1, "m", kinds=kinds)
    assert card.roles == ("detector", "judge.planner")
    assert Card("m", 1, "m", roles=("detector", "judge.planner", "reader"), kinds=kinds).kinds == kinds
    assert (Card("m", 1, "m", roles=("reader",)).kinds, Card("m", 1, "m").roles) == ({}, ())
    assert card.with_kinds({"reader": ("read_text",)}).roles == ("reader",)
    assert hash(card) == hash(Card("m", 1, "m", roles=card.roles))
    with pytest.raises(ValueError, match="kinds of queries for judge, and its roles are reader"):
        Card("m", 1, "m", roles=("reader",), kinds={"judge": ("judge",)})
    with pytest.raises(ValueError, match="the text 'read_text' as kinds of queries for reader: give a tuple of texts"):
        Card("m", 1, "m", kinds={"reader": "read_text"})  # type: ignore[dict-item]
    card = Card("m", 1, "m", kinds={"features.clip": ("embed", "embed_text")})
    values: dict[str, Any] = json.loads(json.dumps(asdict(card)))
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    assert Card(**values) == card


def test_a_composition_speaks_about_what_all_its_parts_do():
    following, consistency = Says(aspect="following"), Says(aspect="consistency")
    assert WeightedMean({"a": following, "b": following}).card.aspect == "following"
    assert WeightedMean({"a": following, "b": consistency}).card.aspect == ""
    assert Gate(Says(aspect="cheating"), Says(aspect="following")).card.aspect == "following"
    assert all_guards().card.aspect == "cheating"
    assert build("edit-balanced").card.aspect == "overall"
    cards = [Card("a", 1, "a", kinds={"features": kinds}) for kinds in (("embed",), ("embed", "embed_text"))]
    assert joint_kinds(cards) == {"features": ("embed", "embed_text")}
