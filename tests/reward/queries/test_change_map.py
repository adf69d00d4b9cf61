"""Change maps: checked, and the same after a round trip through JSON."""

import json
from dataclasses import replace

import numpy as np
import pytest

from editcritic.reward.queries import ChangeMap, MapChanges
from editcritic.reward.queries.kinds import InvalidAnswer
from editcritic.reward.queries.serialization import answer_from_json, answer_to_json

from ..fakes import picture

QUERY = MapChanges(picture(1), picture(2))


def change_map(seed: int = 0) -> ChangeMap:
    random = np.random.default_rng(seed)
    features, envelope = random.random((2, 3, 4), np.float32)
    colour, before, after = random.random((3, 3, 4, 3), np.float32)
    return ChangeMap(
        features, colour - np.float32(0.5), envelope, before, after, 1.02, True, 0.99, (0.01, -0.02), 0.3, 0.8, 0.4
    )


def test_the_round_trip_is_exact():
    record = json.loads(json.dumps(answer_to_json(change_map()), allow_nan=False))
    again = answer_from_json(record)
    assert again == change_map()
    assert hash(again) == hash(change_map())
    assert again != change_map(1)
    QUERY.check(again)


@pytest.mark.parametrize(
    "damage",
    [
        {"change_map": "not base64!"},
        {"change_map": "AAAA"},
        {"shape": [3, 5]},
        {"numbers": {}},
        {"numbers": {"shift": [0.0, 0.0], "unknown": 1}},
        {"numbers": {**answer_to_json(change_map())["numbers"], "gain": float("nan")}},
    ],
)
def test_a_damaged_record_is_refused(damage):
    with pytest.raises(ValueError, match=r"damaged|base64"):
        answer_from_json(answer_to_json(change_map()) | damage)


@pytest.mark.parametrize(
    "changes",
    [
        replace(change_map(), features=np.full((3, 4), np.nan, np.float32)),
        replace(change_map(), features=np.full((3, 4), -1, np.float32)),
        replace(change_map(), features=np.zeros((3, 4))),  # type: ignore[arg-type]  # float64, on purpose
        replace(change_map(), colour=np.zeros((3, 4), np.float32)),
        replace(change_map(), features=np.zeros((0, 4), np.float32)),
        replace(change_map(), structure=float("inf")),
        None,
    ],
)
def test_invalid_answers_are_refused(changes):
    with pytest.raises(InvalidAnswer, match="map_changes"):
        QUERY.check(changes)
