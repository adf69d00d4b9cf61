"""Failures say whether only infrastructure can be the reason: what an edit may have caused must not help it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from editcritic.reward import Engine, ImageError, Reward, Score
from editcritic.reward.queries import ExpertDown, Failure, Measurement

from ..fakes import Fake, Rated, picture, sample


def raising(error: Exception) -> Any:
    def rule(query: Any) -> Any:
        raise error

    return rule


def score_by(expert: Fake) -> Score:
    with Engine() as engine:
        return Reward(Rated(), {"preference": expert}, engine=engine, on_failures="none")([sample()])[0]


@pytest.mark.parametrize(
    "expert",
    [
        Fake(raising(RuntimeError("CUDA error: an illegal memory access"))),
        Fake(raising(MemoryError("out of memory"))),
        Fake(raising(ConnectionResetError("lost"))),
        Fake(raising(TimeoutError("no response"))),
        Fake(raising(ExpertDown("no such weights"))),
        Fake(lambda query: time.sleep(1.5), deadline_s=0.2),
        Fake(lambda query: Failure("budget spent", infrastructure=True)),
    ],
    ids=["crash", "out of memory", "connection", "time-out", "down", "hung", "said so"],
)
def test_time_outs_lost_connections_and_crashes_are_infrastructure(expert):
    score = score_by(expert)
    assert (score.status, score.cause) == ("failed", "infrastructure")
    assert Score.from_json(score.to_json()) == score


@pytest.mark.parametrize(
    "answer", [Failure("the judge refused"), Failure("the judge gave no answer"), Measurement(float("nan"))]
)
def test_refusals_and_unreadable_answers_may_be_the_edits_doing(answer):
    score = score_by(Fake(lambda query: answer))
    assert (score.status, score.cause) == ("failed", "")


def test_a_query_that_crashes_alone_in_its_batch_may_be_the_reason_itself():
    def rule(query: Any) -> Any:
        if query.image == picture(2):
            raise ValueError("the box is empty")
        if query.image == picture(5):
            raise MemoryError("out of memory")
        return Measurement(0.5)

    edits = [replace(sample(), id=str(seed), edited=picture(seed)) for seed in range(8)]
    with Engine() as engine:
        scores = Reward(Rated(), {"preference": Fake(rule)}, engine=engine, on_failures="none")(edits)
    assert [score.status for score in scores].count("scored") == 6
    assert (scores[2].cause, scores[5].cause) == ("", "infrastructure")


def test_a_picture_that_an_expert_cannot_read_is_no_outage_and_opens_no_circuit():
    unreadable = Fake(raising(ImageError("cup.png is truncated")))
    edits = [replace(sample(), id=str(seed), edited=picture(seed)) for seed in range(40)]
    with Engine(breaker=4) as engine:
        scores = Reward(Rated(), {"preference": unreadable}, engine=engine, on_failures="none")(edits)
        assert engine.down_experts() == {}
    assert {(score.status, score.cause) for score in scores} == {("failed", "")}
    assert sum(unreadable.seen.values()) >= 40  # each was tried alone


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        ("scored", "edit"),
        ("scored", "infrastructure"),
        ("abstained", "guard"),
        ("failed", "edit"),
        ("not_applicable", "edit"),
    ],
)
def test_a_cause_belongs_to_its_status(status, cause):
    value = 0.0 if status == "scored" else None
    with pytest.raises(ValueError, match=f"a Score that is {status} cannot have the cause '{cause}'"):
        Score(value, status, "why", cause=cause)
