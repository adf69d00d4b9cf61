"""What a trainer gets for a batch: values, none for what has none, retries, and columns to log."""

import importlib
import math
import pickle
import time
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

import editcritic.reward.reward as reward_module
from editcritic.benchmarks.sceneedit import toy
from editcritic.integrations.dataset_rows import build_samples
from editcritic.integrations.serving.client import RemoteError
from editcritic.integrations.trainers import trainer_reward
from editcritic.integrations.trainers.trainer_reward import (
    LOGGED_PARTS,
    TrainerReward,
    UnscoredError,
    part_value,
    resolve_scorer,
)
from editcritic.reward import Image, Reward, Score, TooManyFailures, default_experts, retry
from editcritic.reward.metrics.compose import Gate
from editcritic.reward.metrics.guards import NotACopy
from editcritic.reward.training.step_monitor import MonitoredReward

from ...reward.fakes import Fake, Rated
from .entries import rows_of, samples_of
from .trainer_cases import Judge, batch, served, values

EDITS = batch()
SAMPLES = samples_of(rows_of(EDITS))


def test_values_are_those_of_the_reward_and_parts_are_columns():
    scored = TrainerReward(Judge().reward())(SAMPLES)
    assert scored.values == values(EDITS)
    assert scored.columns["following"] == scored.values
    assert scored.columns["preservation"] == [1 - value for value in scored.values]
    assert scored.columns["guard"] == [1.0] * 16
    assert scored.columns["unscored"] == scored.columns["abstained"] == [0.0] * 16
    assert len(set(scored.columns["judge_seconds"])) == 1


def test_a_failure_that_passes_is_asked_again_at_once_and_the_others_are_not_nor_counted_again():
    judge = Judge(failing={EDITS.edited[5].digest: 1})
    assert TrainerReward(judge.reward())(SAMPLES).values == values(EDITS)
    assert sum(judge.batches) == 17
    judge = Judge(failing={EDITS.edited[5].digest: 1})
    reward = MonitoredReward(judge.reward(on_failures="none"), step_samples=len(EDITS.edited) + 1)
    assert TrainerReward(reward)(SAMPLES).values == values(EDITS)
    assert reward.monitor.steps == 0  # one more edit would complete the first


def test_a_callable_that_infrastructure_fails_is_asked_again_after_pauses_within_the_time_of_an_outage(monkeypatch):
    clock = Clock(monkeypatch)
    judge = Judge(failing=dict.fromkeys((image.digest for image in EDITS.edited), 4))
    plain = judge.reward(on_failures="none")
    assert TrainerReward(plain.__call__, outage_timeout_s=60)(SAMPLES).values == values(EDITS)
    assert [round(pause / most + 0.25) for pause, most in zip(clock.slept, (1, 2, 4), strict=True)] == [1, 1, 1]
    lasting = Judge(failing=Judge.always(*EDITS.edited)).reward(on_failures="none")
    with pytest.raises(UnscoredError, match=r"16 of 16 edits have no score: edit-0: failed \(.*did not answer") as got:
        TrainerReward(lasting.__call__, outage_timeout_s=60)(SAMPLES)
    assert 45 <= sum(clock.slept[3:]) <= 60
    again = pickle.loads(pickle.dumps(got.value))
    assert (again.scores, str(again)) == (got.value.scores, str(got.value))


class Clock:
    """Sleeps take no time, and are what time passes by."""

    def __init__(self, monkeypatch):
        self.now, self.slept = 0.0, []
        shared = {name: getattr(time, name) for name in ("perf_counter", "time", "strftime", "localtime")}
        clock = SimpleNamespace(sleep=self.sleep, monotonic=lambda: self.now, **shared)
        for module in (reward_module, retry):
            monkeypatch.setattr(module, "time", clock)
        for name in ("sleep", "monotonic"):
            monkeypatch.setattr(trainer_reward, name, getattr(clock, name))

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


@pytest.mark.parametrize("on_failures", ["wait", "none"])
def test_an_outage_of_a_rewards_expert_is_waited_for_once_and_what_was_scored_is_kept(monkeypatch, on_failures):
    clock = Clock(monkeypatch)
    judge = Judge(failing=Judge.always(*EDITS.edited[4:]))
    reward = judge.reward(on_failures=on_failures, outage_timeout_s=100.0)
    scored = TrainerReward(reward, missing="nan", outage_timeout_s=100.0)(SAMPLES)
    assert scored.values[:4] == values(EDITS)[:4]
    assert all(map(math.isnan, scored.values[4:]))
    assert sum(clock.slept) == pytest.approx(100)
    named = build_samples(
        EDITS.prompts, EDITS.edited, [[one] for one in EDITS.sources], [{"uid": f"u{row}"} for row in range(16)]
    )
    with pytest.raises(UnscoredError, match=r"12 of 16 edits have no score: u4/4: failed .*; u5/5: "):
        TrainerReward(reward, outage_timeout_s=100.0)(named)


@pytest.mark.parametrize("on_failures", ["raise", "wait", "none"])
def test_edits_that_fail_among_many_that_do_not_are_no_outage(monkeypatch, on_failures):
    clock = Clock(monkeypatch)
    edits = batch(groups=16)
    judge = Judge(failing=Judge.always(*edits.edited[:20:4]))
    scored = TrainerReward(judge.reward(on_failures=on_failures), missing="nan")(samples_of(rows_of(edits)))
    assert [math.isnan(value) for value in scored.values] == [row in range(0, 20, 4) for row in range(64)]
    assert sum(judge.batches) == 64 + 5
    if on_failures == "raise":  # which ends the run in an outage at once
        with pytest.raises(TooManyFailures):
            TrainerReward(Judge(failing=Judge.always(*EDITS.edited)).reward(on_failures="raise"), missing="nan")(
                SAMPLES
            )
    assert clock.slept == []


@pytest.mark.parametrize("on_failures", ["wait", "none"])
def test_a_server_that_was_never_there_gives_nan_or_names_the_edits(on_failures, caplog):
    url = f"http://127.0.0.1:9?on_failures={on_failures}&outage_timeout_s=0.2"
    scored = TrainerReward(url, missing="nan")(SAMPLES)
    assert all(map(math.isnan, scored.values))
    assert scored.columns["unscored"] == [1.0] * 16
    with pytest.raises(UnscoredError, match=r"16 of 16 edits have no score: edit-0: failed \(no judge server"):
        TrainerReward(url)(SAMPLES)
    assert "http://127.0.0.1:9: outage for 0 s, waiting until" in caplog.text


def test_a_wrong_configuration_is_raised_at_once(monkeypatch):
    monkeypatch.setenv("JUDGE_TOKEN", "the-right-token-of-a-test")
    with served(Judge().reward(), token="the-right-token-of-a-test") as url:
        with pytest.raises(RemoteError, match=r"refused access .*token_env"):
            TrainerReward(url, missing="nan")(SAMPLES)
        with pytest.raises(RemoteError, match="identity=00000000 is required"):
            TrainerReward(f"{url}?token_env=JUDGE_TOKEN&identity=00000000", missing="nan")(SAMPLES)


def test_a_deadline_is_kept_also_while_nobody_is_there():
    with served(Judge().reward()) as url:
        reward: Any = TrainerReward(url, missing="nan", deadline_s=1.5)
        assert reward(SAMPLES).values == values(EDITS)
    scored = reward(SAMPLES)
    assert {score.reason for score in scored.scores} == {"not scored within 1.5 s"}
    never = TrainerReward("http://127.0.0.1:9", missing="nan", deadline_s=1.5)(SAMPLES)
    assert all(score.reason.startswith("not scored within 1.5 s") for score in never.scores)


@pytest.mark.parametrize(("seconds", "warns"), [(99.0, False), (100.0, True)])
def test_a_time_out_of_collectives_that_ends_before_the_outage_is_warned_of(caplog, seconds, warns):
    distributed = importlib.import_module("torch.distributed")
    distributed.init_process_group(
        "gloo", store=distributed.HashStore(), rank=0, world_size=1, timeout=timedelta(seconds=100)
    )
    try:
        TrainerReward(Judge().reward(on_failures="none"), outage_timeout_s=seconds)
    finally:
        distributed.destroy_process_group()
    assert ("torch.distributed ends processes that wait for this one after 100 s" in caplog.text) == warns


def test_an_edit_that_nobody_can_judge_has_the_lowest_value_and_is_not_asked_after_a_pause(monkeypatch):
    clock = Clock(monkeypatch)
    judge = Judge(abstaining={EDITS.edited[3].digest})
    scored = TrainerReward(judge.reward())(SAMPLES)
    assert scored.values[3] == 0.0
    assert scored.columns["abstained"] == [float(row == 3) for row in range(16)]
    assert scored.columns["unscored"] == [0.0] * 16
    excluded = TrainerReward(judge.reward(), abstained="exclude", missing="nan")(SAMPLES)
    assert math.isnan(excluded.values[3])
    assert clock.slept == []


def test_a_missing_value_is_no_number_and_only_a_filled_column_has_the_mean_of_the_others():
    def scored_without(*failing: Image) -> Any:
        reward = Judge(failing=Judge.always(*failing)).reward(on_failures="none")
        return TrainerReward(reward, missing="nan", outage_timeout_s=0)(SAMPLES)

    scored, empty = scored_without(EDITS.edited[5]), scored_without(*EDITS.edited)
    known = [value for row, value in enumerate(values(EDITS)) if row != 5]
    assert math.isnan(scored.values[5])
    assert scored.values[:5] + scored.values[6:] == known
    assert math.isnan(scored.columns["following"][5])
    assert scored.filled_columns["following"] == [*known[:5], pytest.approx(sum(known) / 15), *known[5:]]
    assert scored.columns["unscored"] == [float(row == 5) for row in range(16)]
    assert set(empty.columns) == set(scored.columns), "the names do not depend on what became of a call"
    assert all(math.isnan(value) for value in (*empty.values, *empty.filled_columns["guard"]))


BUILT_IN = ("any-edit", "edival-o", "complex-edit-o", "edit-score", "guards", "judge-quality")


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_reward_has_the_parts_that_its_card_names(name):
    drawn = toy(6)
    pairs = zip(drawn.samples, (*drawn.samples[1:], drawn.samples[0]), strict=True)
    edits = [replace(sample, edited=other.source) for sample, other in pairs]  # no copies, which guards reject
    reward = Reward.of(name, drawn.experts)
    found = {part for score in reward(edits) for part in LOGGED_PARTS if part_value(score, part) is not None}
    assert found == {*TrainerReward(reward).logged_parts}


@pytest.mark.parametrize("where", [nullcontext, served])
def test_parts_that_the_reward_cannot_have_are_no_columns(where):
    def names(reward: Any, **options: Any) -> list[str]:
        return list(TrainerReward(reward, **options)(SAMPLES).columns)

    usual = ["unscored", "abstained", "judge_seconds"]
    plain = Reward(Rated(), {"preference": Fake()})
    partly = Reward(Gate(NotACopy(), Rated()), {**default_experts(), "preference": Fake()})
    for reward, parts in ((Judge().reward(), ["following", "preservation", "guard"]), (partly, ["guard"]), (plain, [])):
        with where(reward) as scorer:
            assert names(scorer) == [*parts, *usual]
    assert names(partly.__call__) == usual, "of a callable nobody knows"
    assert names(partly.__call__, logged_parts=["guard/not_a_copy"]) == ["guard/not_a_copy", *usual]


def test_options_are_given_by_keyword_and_in_urls():
    assert TrainerReward(Judge().reward(), missing=math.nan).missing == "nan"  # as hydra reads the word
    built = resolve_scorer("edit-balanced", on_failures="none", max_failure_rate="0.25")
    assert (built.on_failures, built.max_failure_rate) == ("none", 0.25)  # type: ignore[attr-defined]
    assert resolve_scorer("edit-balanced").on_failures == "wait"  # type: ignore[attr-defined]
    url = "http://127.0.0.1:1?on_failures=none&max_failure_rate=0.25&max_concurrency=2&chunk_size=64"
    remote: Any = resolve_scorer(url)
    assert (remote.on_failures, remote.max_failure_rate) == ("none", 0.25)
    assert (remote.max_concurrency, remote.chunk_size, remote.detail) == (2, 64, "parts")
    assert resolve_scorer("http://127.0.0.1:1", chunk_size="64").chunk_size == 64  # type: ignore[attr-defined]
    for query, message in (("token=secret", "got 'token'"), ("deadline_s=soon", "deadline_s is a number, got 'soon'")):
        with pytest.raises(ValueError, match=message):
            resolve_scorer(f"http://127.0.0.1:1?{query}")
    with pytest.raises(ValueError, match=r"takes the options on_failures, .* got 'chunk_size'"):
        resolve_scorer("edit-balanced", chunk_size=64)
    with pytest.raises(ValueError, match="give on_failures to it instead"):
        resolve_scorer(Judge().reward(), on_failures="none")
    for wrong, message in (
        ({"missing": "0"}, "missing must be 'raise' or 'nan', got '0'"),
        ({"abstained": "mean"}, "abstained must be 'lowest' or 'exclude'"),
        ({"outage_timeout_s": "soon"}, "outage_timeout_s is a number, got 'soon'"),
        ({"outage_timeout_s": -1}, "0 or more"),
    ):
        with pytest.raises(ValueError, match=message):
            TrainerReward(Judge().reward(), **wrong)


def test_parts_are_named_by_path_and_the_nearest_counts():
    inner = {"guard": Score.of(0.25, parts={"not_a_copy": Score.of(0.5)}), "following": Score.of(0.75)}
    score = Score.of(1.0, parts={"outer": Score.of(1.0, parts=inner), "guard": Score.of(0.0)})
    reward = TrainerReward(lambda samples: [score], logged_parts=("following", "guard", "outer/guard/not_a_copy"))
    (sample, *_) = SAMPLES
    columns = reward([sample]).columns
    assert [columns[name][0] for name in reward.logged_parts] == [0.75, 0.0, 0.5]
