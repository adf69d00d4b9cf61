"""The trackers of Flow-GRPO, Edit-R1 and DiffusionNFT, restated, and what leaves out missing rewards."""

import math
from typing import Any

import numpy as np
import pytest

from editcritic.integrations.trainers.flow_grpo_statistics import leave_out_missing
from editcritic.integrations.trainers.trainer_reward import UnknownTrainerError

from .restated import edit_r1, flow_grpo

TRACKERS: list[Any] = [flow_grpo.PerPromptStatTracker, edit_r1.PerPromptStatTracker, edit_r1.DiffusionNFTStatTracker]


def patched(tracker: Any) -> Any:
    """A class of its own, that the others stay as they are."""
    own: Any = type("PerPromptStatTracker", (tracker,), {})
    return leave_out_missing(own)


def rows(seed: int, timesteps: int = 3) -> tuple[list[str], np.ndarray[Any, Any]]:
    """48 rows of 6 prompts in any order, rewards as they are gathered: float32, the same in each timestep."""
    generator = np.random.default_rng(seed)
    prompts = [f"prompt {number}" for number in generator.permutation(np.repeat(np.arange(6), 8))]
    rewards = generator.random(48, dtype=np.float32)
    return prompts, np.repeat(rewards[:, None], timesteps, axis=1) if timesteps else rewards


def parts(result: Any) -> list[np.ndarray[Any, Any]]:
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("tracker", TRACKERS)
@pytest.mark.parametrize("global_std", [True, False])
def test_without_a_nan_results_are_those_of_the_tracker_to_the_bit(tracker, global_std):
    own, theirs = patched(tracker)(global_std), tracker(global_std)
    for seed in range(4):
        prompts, rewards = rows(seed)
        for one, other in zip(parts(own.update(prompts, rewards)), parts(theirs.update(prompts, rewards)), strict=True):
            assert np.array_equal(one, other)
        assert own.get_stats() == theirs.get_stats()
        if hasattr(tracker, "get_mean_of_top_rewards"):
            assert [own.get_mean_of_top_rewards(share) for share in (100, 50, 10)] == [
                theirs.get_mean_of_top_rewards(share) for share in (100, 50, 10)
            ]
        assert getattr(own, "banned_prompts", None) == getattr(theirs, "banned_prompts", None)
        own.clear()
        theirs.clear()
    assert own.get_stats() == theirs.get_stats() == (0, 6)


@pytest.mark.parametrize("tracker", TRACKERS)
@pytest.mark.parametrize("global_std", [True, False])
@pytest.mark.parametrize("timesteps", [0, 3])
def test_with_nans_the_other_rows_are_as_if_alone(tracker, global_std, timesteps):
    own, theirs = patched(tracker)(global_std), tracker(global_std)
    for seed in range(4):
        prompts, rewards = rows(seed, timesteps)
        missing = np.random.default_rng(100 + seed).random(48) < 0.2
        missing |= np.array(prompts) == "prompt 3"  # a whole group
        rewards[missing] = math.nan
        got = parts(own.update(prompts, rewards))
        wanted = parts(theirs.update(np.array(prompts)[~missing], rewards[~missing]))
        for one, other in zip(got, wanted, strict=True):
            assert one.shape == rewards.shape
            assert np.array_equal(one[~missing], other)
            assert not one[missing].any()
        assert own.get_stats() == theirs.get_stats()
        if hasattr(tracker, "get_mean_of_top_rewards"):
            assert own.get_mean_of_top_rewards(25) == theirs.get_mean_of_top_rewards(25)
        own.clear()
        theirs.clear()


@pytest.mark.parametrize("tracker", TRACKERS)
def test_updates_before_clear_are_the_trackers_own(tracker):
    for kind in (tracker, patched(tracker)):
        one = kind()
        one.update(["a", "a", "b"], np.array([[1.0], [2.0], [3.0]]))
        one.update(["c", "c"], np.array([[1.0], [math.nan]]))
        assert set(one.stats) == {"a", "b", "c"}
        with pytest.raises(AttributeError):  # theirs, too, takes a prompt once
            one.update(["a"], np.array([[1.0]]))


@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_step_without_any_value_has_no_advantages_and_no_mean(tracker):
    own = patched(tracker)()
    for part in parts(own.update(["a", "a", "b"], np.full((3, 2), math.nan))):
        assert np.array_equal(part, np.zeros((3, 2)))
    assert own.get_stats() == (0, 0)
    if hasattr(tracker, "get_mean_of_top_rewards"):
        assert math.isnan(own.get_mean_of_top_rewards(100))


@pytest.mark.parametrize("kind", ["rwr", "sft", "dpo", "gardo"])
def test_other_types_of_flow_grpo_leave_the_rows_out(kind):
    prompts, rewards = rows(7, timesteps=0 if kind == "dpo" else 2)
    dists = np.random.default_rng(8).normal(size=(48, 5)) if kind == "gardo" else None
    kept = np.random.default_rng(9).random(48) < 0.8
    wanted = flow_grpo.PerPromptStatTracker().update(
        np.array(prompts)[kept], rewards[kept], None if dists is None else dists[kept], type=kind
    )
    rewards[~kept] = math.nan
    for arguments, options in (((dists,), {"type": kind}), ((), {"dists": dists, "type": kind})):
        got = patched(flow_grpo.PerPromptStatTracker)().update(prompts, rewards, *arguments, **options)
        assert np.array_equal(got[kept], wanted)
        assert not got[~kept].any()


def test_a_prompt_is_banned_only_where_all_its_rows_have_values():
    high = np.array([[0.95], [0.96], [0.95], [0.96]])
    own = patched(edit_r1.PerPromptStatTracker)()
    part = high.copy()
    part[0] = math.nan
    own.update(["a", "a", "b", "b"], part)
    assert own.banned_prompts == {"b"}
    own.clear()
    own.update(["a", "a", "b", "b"], high)
    assert own.banned_prompts == {"a", "b"}
    own.clear()
    own.update(["a", "a", "b", "b"], part)  # what is banned stays so
    assert own.banned_prompts == {"a", "b"}


def test_it_is_the_class_itself_that_is_changed_and_once():
    scripts: Any = type("PerPromptStatTracker", (flow_grpo.PerPromptStatTracker,), {})
    assert leave_out_missing(scripts) is scripts
    once = scripts.update
    assert leave_out_missing(scripts).update is once
    assert scripts().update(["a", "a", "a"], [[0.0], [math.nan], [1.0]])[1] == 0
    assert not hasattr(scripts, "get_mean_of_top_rewards")


class _NoUpdate:
    pass


class _OtherArguments:
    def update(self, rewards: Any, prompts: Any) -> Any:
        return rewards


class _NeedsMore(flow_grpo.PerPromptStatTracker):
    def __init__(self, groups: int) -> None:
        super().__init__()


class _Mapping(flow_grpo.PerPromptStatTracker):
    def update(self, prompts: Any, rewards: Any, dists: Any = None, type: str = "grpo") -> Any:  # noqa: A002
        return {"advantages": super().update(prompts, rewards)}


class _Ranks(flow_grpo.PerPromptStatTracker):
    def update(self, prompts: Any, rewards: Any, dists: Any = None, type: str = "grpo") -> Any:  # noqa: A002
        return -super().update(prompts, rewards)


@pytest.mark.parametrize(
    ("tracker", "message"),
    [
        (_NoUpdate, "has no update in _NoUpdate"),
        (_OtherArguments, r"has update\(self, rewards, prompts\) .* not update\(prompts, rewards\)"),
        (_NeedsMore, "has another _NeedsMore"),
        (_Mapping, "has a _Mapping that compares rewards otherwise"),
        (_Ranks, "has a _Ranks that compares rewards otherwise"),
    ],
)
def test_a_class_that_is_not_what_was_read_is_refused_and_not_changed(tracker, message):
    before = dict(vars(tracker))
    with pytest.raises(UnknownTrainerError, match=f"this flow_grpo {message}.*; what was read is Flow-GRPO at"):
        leave_out_missing(tracker)
    assert dict(vars(tracker)) == before
