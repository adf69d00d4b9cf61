"""Cards: signatures, ranges and aspects."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from editcritic.reward import Card, build
from editcritic.reward.card import joint_kinds
from editcritic.reward.metrics import Gate, WeightedMean, all_guards

from .fakes import Says


def test_a_share_lies_in_0_to_1():
    shares = {bounds for bounds in BOUNDS if Card("m", 1, "m", range=bounds).is_unit_range}
    assert shares == {(0.0, 1.0), (0.25, 0.75)}


BOUNDS = ((0.0, 1.0), (0.25, 0.75), (-1.0, 1.0), (0.0, 10.0), (0.0, None), (None, 1.0), (None, None))


def test_a_composition_speaks_about_what_all_its_parts_speak_about():
    following, consistency = Says(aspect="following"), Says(aspect="consistency")
    assert WeightedMean({"a": following, "b": following}).card.aspect == "following"
    assert WeightedMean({"a": following, "b": consistency}).card.aspect == ""


def test_a_guarded_reward_speaks_about_what_the_reward_speaks_about():
    assert Gate(Says(aspect="cheating"), Says(aspect="following")).card.aspect == "following"
    assert all_guards().card.aspect == "cheating"
    assert build("edit-balanced").card.aspect == "overall"


def test_roles_are_those_of_the_kinds() -> None:
    kinds: dict[str, tuple[str, ...]] = {"detector": ("detect",), "judge.planner": ("judge",)}
    card = Card("m", 1, "m", kinds=kinds)
    assert card.roles == ("detector", "judge.planner")
    assert Card("m", 1, "m", roles=("detector", "judge.planner", "reader"), kinds=kinds).kinds == kinds
    assert (Card("m", 1, "m", roles=("reader",)).kinds, Card("m", 1, "m").roles) == ({}, ())
    assert card.with_kinds({"reader": ("read_text",)}).roles == ("reader",)
    assert hash(card) == hash(Card("m", 1, "m", roles=card.roles))


def test_kinds_of_a_role_that_is_none_are_refused() -> None:
    with pytest.raises(ValueError, match="kinds of queries for judge, and its roles are reader"):
        Card("m", 1, "m", roles=("reader",), kinds={"judge": ("judge",)})
    with pytest.raises(ValueError, match="the text 'read_text' as kinds of queries for reader: give a tuple of texts"):
        Card("m", 1, "m", kinds={"reader": "read_text"})  # type: ignore[dict-item]


def test_a_card_is_the_same_after_json() -> None:
    card = Card("m", 1, "m", kinds={"features.clip": ("embed", "embed_text")})
    values: dict[str, Any] = json.loads(json.dumps(asdict(card)))
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    assert Card(**values) == card


def test_a_composition_has_the_kinds_of_all_its_parts() -> None:
    cards = [Card("a", 1, "a", kinds={"features": kinds}) for kinds in (("embed",), ("embed", "embed_text"))]
    assert joint_kinds(cards) == {"features": ("embed", "embed_text")}
