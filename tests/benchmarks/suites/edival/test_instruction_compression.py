"""The four ways of asking for several turns at once."""

from __future__ import annotations

import pytest

from editcritic.benchmarks.suites.edival.instruction_compression import compress_instructions

SAID = ("Remove cup", "Add hat.", "Change the color of cat to red")


def test_by_default_instructions_are_joined_as_published() -> None:
    assert compress_instructions(SAID, "default") == "Remove cup. Add hat. Change the color of cat to red"


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1, "Remove cup"),
        (2, "first, Remove cup, then, Add hat"),
        (3, "first, Remove cup, then, Add hat, last, Change the color of cat to red"),
    ],
)
def test_the_sequential_connector_says_the_order(count: int, words: str) -> None:
    assert compress_instructions(SAID[:count], "sequential") == words


def test_what_must_stay_is_named_where_there_is_something() -> None:
    assert compress_instructions(SAID[:1], "keep", unchanged=("cat", "dog")) == "Remove cup. Keep cat, dog unchanged."
    assert compress_instructions(SAID[:1], "keep") == "Remove cup"


def test_a_shuffle_keeps_all_instructions_and_is_the_same_for_the_same_seed() -> None:
    drawn = {compress_instructions(SAID, "shuffle", seed=str(seed)) for seed in range(40)}
    assert len(drawn) == 6
    assert {frozenset(one.split(". ")) for one in drawn} == {frozenset(("Remove cup", "Add hat", SAID[2]))}
    assert compress_instructions(SAID, "shuffle", seed="5") == compress_instructions(SAID, "shuffle", seed="5")
