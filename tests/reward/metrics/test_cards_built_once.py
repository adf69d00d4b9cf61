"""A metric's card is built once an object, and changes nothing else about it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace

import pytest

from editcritic.benchmarks.common.reward_catalogue import list_rewards
from editcritic.reward import Card, EditSample, Engine, Program, Reward, Score, build, spec_of
from editcritic.reward.metrics import Fallback, Gate, GeometricMean, Metric, Minimum, Product, Threshold, WeightedMean
from editcritic.reward.metrics.any_edit.overall import FollowedAndPreserved
from editcritic.reward.metrics.any_edit.plan_preservation import PlanPreservation
from editcritic.reward.queries.identity import metric_digest

from ..fakes import Fake, sample


def test_every_reward_builds_its_card_once_and_is_otherwise_as_before() -> None:
    names = [entry.name for entry in list_rewards() if entry.card is not None]
    assert len(names) >= 66
    for name in names:
        metric, untouched = build(name), build(name)
        assert metric.card is metric.card, name
        assert metric == untouched, name
        assert metric_digest(metric) == metric_digest(untouched), name
        assert build(spec_of(metric)) == metric, name
        for again in (pickle.loads(pickle.dumps(metric)), copy.copy(metric)):
            assert (again, again.card) == (untouched, metric.card), name
        if is_dataclass(metric):
            assert [one.name for one in fields(metric)] == [one.name for one in fields(untouched)], name
            assert repr(metric) == repr(untouched), name


def test_a_metric_with_other_options_has_a_card_of_its_own() -> None:
    one = PlanPreservation()
    assert "features.face" not in one.card.roles
    assert "features.face" in replace(one, faces="embedder").card.roles
    whole = FollowedAndPreserved()
    assert "features.face" not in whole.card.roles
    assert "features.face" in replace(whole, preservation=PlanPreservation(faces="embedder")).card.roles


@dataclass(frozen=True)
class WithProperty:
    """A metric as somebody may write it: each read of its card builds one. reads: how many were."""

    value: float
    reads: list[None]

    @property
    def card(self) -> Card:
        self.reads.append(None)
        return Card("with-property", 1, "a test")

    def __call__(self, sample: EditSample) -> Program[Score]:
        return Score.of(self.value)
        yield


COMPOSED: dict[str, Callable[[WithProperty], Metric]] = {
    "alone": lambda part: part,
    "gate": lambda part: Gate(part, Gate(part, part)),
    "mean": lambda part: WeightedMean({"a": part, "b": part}),
    "geometric mean": lambda part: GeometricMean({"a": part}),
    "product": lambda part: Product({"a": part, "b": Minimum({"c": part})}),
    "threshold": lambda part: Threshold(part, 0.5),
    "fallback": lambda part: Fallback(part, part),
    "followed": lambda part: FollowedAndPreserved(part, part, None),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_a_property_that_builds_a_card_is_read_when_a_reward_is_made_and_not_with_each_sample(name: str) -> None:
    reads: list[None] = []
    with Engine() as engine:
        reward = Reward(COMPOSED[name](WithProperty(1.0, reads)), {"any": Fake()}, engine=engine)
        (first,) = reward([sample("first")])
        count = len(reads)
        scores = reward([sample(f"s{number}") for number in range(5)])
        assert list(scores) == [first] * 5
        assert len(reads) == count
        assert "with-property@1" in _signatures(first)
    assert count


def _signatures(score: Score) -> set[str]:
    return {score.metric} | {one for part in score.parts.values() for one in _signatures(part)}
