"""A reward gives what its version gave: who changes a value raises the version, and says so in CHANGELOG.md."""

import json
from typing import Any

import pytest

from .reward_values import RECORD, measured

NOTE = "raise the metric's version, note it in CHANGELOG.md, and run python -m tests.stability.reward_values"
TOLERANCE = 6e-3
"""The lowest versions of numpy, OpenCV and Pillow, which round pixels otherwise, change values by up to 4e-3."""


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    return measured()


@pytest.fixture(scope="module")
def before() -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    return recorded


def changed(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The samples whose value is another one."""
    values = before["values"], now["values"]
    return [name for name in values[0].keys() | values[1] if not _equal(*(one.get(name) for one in values))]


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, float) and isinstance(second, float):
        return abs(first - second) <= TOLERANCE * max(1.0, abs(first))
    return bool(first == second)


def test_the_samples_are_those_of_the_record(now: dict[str, Any], before: dict[str, Any]) -> None:
    assert now["samples"] == before["samples"], "SceneEdit draws other edits: record the values anew, and nothing else"


def test_a_version_keeps_its_values(now: dict[str, Any], before: dict[str, Any]) -> None:
    wrong = {
        spec: names
        for spec, recorded in before["rewards"].items()
        if spec in now["rewards"]
        and now["rewards"][spec]["version"] == recorded["version"]
        and (names := changed(recorded, now["rewards"][spec]))
    }
    assert wrong == {}, NOTE


def test_the_record_has_the_versions_of_now(now: dict[str, Any], before: dict[str, Any]) -> None:
    versions = [{spec: one["version"] for spec, one in values["rewards"].items()} for values in (before, now)]
    assert versions[0] == versions[1], NOTE


def test_most_rewards_tell_edits_apart(before: dict[str, Any]) -> None:
    """A record of statuses and ones would keep nothing."""
    kinds = {spec: {*one["values"].values()} for spec, one in before["rewards"].items()}
    numbers = {spec: {value for value in values if isinstance(value, float)} for spec, values in kinds.items()}
    assert sum(len(values) > 1 for values in numbers.values()) >= 0.85 * len(numbers), {
        spec: values for spec, values in kinds.items() if len(numbers[spec]) < 2
    }


@pytest.mark.parametrize("value", [0.5 + 3 * TOLERANCE, "abstained", None])
def test_another_value_is_seen(value: Any) -> None:
    assert changed({"values": {"a": 0.5, "b": 1.0}}, {"values": {"a": value, "b": 1.0}}) == ["a"]
