"""Readiness of a judge server: of experts whose ids cannot be determined yet."""

from collections.abc import Sequence
from typing import Any

import pytest

from editcritic.integrations.serving.server import readiness
from editcritic.integrations.serving.server.readiness import Readiness
from editcritic.reward import Expert, Reward
from editcritic.reward.queries import ExpertDown, Rate
from editcritic.reward.queries.answers import Outcome

from ....reward.fakes import Rated


class WeightsElsewhere(Expert):
    """An expert whose id is that of weights which may not be there."""

    kinds = (Rate,)

    def __init__(self, name: str) -> None:
        self.there = False
        self.name = name

    @property
    def id(self) -> str:  # type: ignore[override]  # as of experts that read their weights for it
        if not self.there:
            raise ExpertDown(f"{self.name} is not there")
        return self.name

    def __call__(self, queries: Sequence[Any]) -> Sequence[Outcome]:
        raise AssertionError("nothing is scored here")


def wait_until_loaded(experts: Readiness) -> None:
    for future in list(experts._loading.values()):
        future.result(timeout=30)


def test_experts_of_one_class_whose_ids_are_unknown_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "_RETRY_S", 0.0)
    first, second = WeightsElsewhere("first"), WeightsElsewhere("second")
    rewards = {"a": Reward(Rated(), {"preference": first}), "b": Reward(Rated(), {"preference": second})}
    experts = Readiness(rewards)
    experts.load()
    wait_until_loaded(experts)
    second_reason = {"preference of b": "ExpertDown: second is not there"}
    reasons = {"preference of a": "ExpertDown: first is not there"} | second_reason
    assert experts.report() == {"ready": False, "unavailable": reasons}

    first.there = True
    experts.report()  # prepares both again
    wait_until_loaded(experts)
    assert experts.report()["unavailable"] == second_reason  # and prepares that one again

    second.there = True
    experts.report()
    wait_until_loaded(experts)
    assert experts.report() == {"ready": True}
    for reward in rewards.values():
        reward.engine.close()


def test_each_reason_is_said_once_however_often_it_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "_RETRY_S", 0.0)
    missing = WeightsElsewhere("weights")
    experts = Readiness({"a": Reward(Rated(), {"preference": missing})})
    said = list[str]()
    experts.on_unavailable = said.append
    experts.load()
    wait_until_loaded(experts)
    for _ in range(2):
        experts.report()  # prepares it again
        wait_until_loaded(experts)
    assert said == ["ExpertDown: weights is not there"]
