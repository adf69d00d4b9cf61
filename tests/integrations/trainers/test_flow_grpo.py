"""Calls as Flow-GRPO's training scripts make them."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from editcritic.integrations.trainers import patch_flow_grpo
from editcritic.integrations.trainers.flow_grpo import FlowGRPOReward, leave_out_missing
from editcritic.integrations.trainers.trainer_reward import UnknownTrainerError
from editcritic.reward import EditSample, Image, Reward, Score
from tests.integrations.trainers.entries import Seen
from tests.integrations.trainers.restated import edit_r1, flow_grpo
from tests.reward.fakes import Fake, Rated, picture

PROMPTS = ["make it blue", "make it blue", "make it red", "make it blue"]
EDITED = [picture(number) for number in (11, 12, 13, 14)]
SOURCES = [picture(number) for number in (1, 1, 1, 2)]
METADATA: list[dict[str, Any]] = [
    {"prompt": prompt, "image": f"images/{number}.png"} for number, prompt in enumerate(PROMPTS)
]
METADATA[3]["editcritic"] = {"target_text": "CAFE"}

IMAGES = torch.from_numpy(np.stack([one.pixels for one in EDITED])).movedim(3, 1) / 255
REFERENCES = [one.pil() for one in SOURCES]


USUAL = ("unscored", "abstained", "judge_seconds")


def reward() -> Reward:
    return Reward(Rated(), {"preference": Fake()})


def called(fn: Any, images: Any = IMAGES, ref_images: Any = REFERENCES) -> Any:
    """As the scripts do: in a pool of threads, and the main one goes on sampling meanwhile."""
    with ThreadPoolExecutor(max_workers=8) as executor:
        rewards = executor.submit(fn, images, PROMPTS, METADATA, ref_images, only_strict=True)
        details, extra = rewards.result()
    assert extra == {}
    return {key: torch.as_tensor(value).float() for key, value in details.items()}


def test_the_scores_are_those_of_the_reward_for_floats_and_bytes_alike():
    expected = torch.tensor([known_value(one) for one in EDITED])
    arrays = np.stack([one.pixels for one in EDITED])
    for images in (IMAGES, IMAGES.double(), arrays):
        details = called(FlowGRPOReward(reward()), images)
        assert set(details) == {"avg", "editcritic", *(f"editcritic_{name}" for name in USUAL)}
        assert torch.equal(details["avg"], expected)
        assert torch.equal(details["editcritic"], expected)


def known_value(image: Image) -> float:
    (score,) = reward()([EditSample("x", "make it blue", (SOURCES[0],), image)])
    assert score.value is not None
    return score.value


def test_a_row_may_have_several_sources_or_the_sources_may_be_a_batch():
    scorer = Seen()
    called(FlowGRPOReward(scorer), ref_images=[[one, one] for one in REFERENCES])
    assert {len(one.sources) for one in scorer.samples} == {2}
    scorer.samples.clear()
    batch = torch.from_numpy(np.stack([one.pixels for one in SOURCES])).movedim(3, 1)
    called(FlowGRPOReward(scorer), ref_images=batch)
    assert [one.source for one in scorer.samples] == SOURCES


def test_without_sources_there_is_nothing_to_judge():
    with pytest.raises(ValueError, match=r"pass ref_images, .* DiffusionNFT .* text-to-image"):
        FlowGRPOReward(reward())(IMAGES, PROMPTS, METADATA, only_strict=True)  # as DiffusionNFT calls


def test_it_stands_beside_rewards_of_flow_grpo():
    def multi_score(device: Any, score_dict: Mapping[str, float]) -> Any:
        assert set(score_dict) == {"pickscore"}
        weight = score_dict["pickscore"]
        return lambda images, *_, **__: ({"pickscore": [0.5] * 4, "avg": [0.5 * weight] * 4}, {})

    ours = called(FlowGRPOReward(reward()))["avg"]
    combined = FlowGRPOReward(reward()).combined_with(multi_score)
    both = called(combined("cpu", {"pickscore": 0.2, "editcritic": 2.0}))
    assert {"pickscore", "editcritic", "editcritic_unscored", "avg"} < set(both)
    assert torch.equal(both["editcritic"], ours)
    torch.testing.assert_close(both["avg"], 2 * ours + 0.1)
    torch.testing.assert_close(called(combined("cpu", {"editcritic": 0.5}))["avg"], ours / 2)
    torch.testing.assert_close(called(combined("cpu", {"pickscore": 0.2}))["avg"], torch.full((4,), 0.1))


def test_noise_that_is_drawn_meanwhile_is_not_drawn_again():
    """The main thread samples the next batch while rewards are computed in a pool."""
    began, drawn = threading.Event(), threading.Event()

    def scorer(samples: Sequence[EditSample]) -> list[Score]:
        began.set()
        assert drawn.wait(30)
        return [Score.of(0.5) for _ in samples]

    torch.manual_seed(3)
    expected = torch.rand(3).tolist()
    torch.manual_seed(3)
    with ThreadPoolExecutor(8) as executor:
        work = executor.submit(FlowGRPOReward(scorer), IMAGES, PROMPTS, METADATA, REFERENCES, only_strict=True)
        assert began.wait(30)
        values = [torch.rand(1).item()]
        drawn.set()
        work.result()
        values += [torch.rand(1).item(), torch.rand(1).item()]
    assert values == expected


def test_a_flow_grpo_that_is_not_what_was_read_is_refused_and_not_changed(monkeypatch):
    with pytest.raises(UnknownTrainerError, match=r"has no flow_grpo\.rewards\.multi_score \(No module named"):
        patch_flow_grpo(reward())
    package: Any = ModuleType("flow_grpo")
    package.rewards, package.stat_tracking = ModuleType("flow_grpo.rewards"), ModuleType("flow_grpo.stat_tracking")
    for module in (package, package.rewards, package.stat_tracking):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    tracker: Any = type("PerPromptStatTracker", (flow_grpo.PerPromptStatTracker,), {})
    package.stat_tracking.PerPromptStatTracker = tracker
    package.rewards.multi_score = other = lambda score_dict: None
    with pytest.raises(
        UnknownTrainerError, match=r"has multi_score\(score_dict\) in .*not multi_score\(device, score_d"
    ):
        patch_flow_grpo(reward())
    assert package.rewards.multi_score is other
    assert tracker.update is flow_grpo.PerPromptStatTracker.update
    package.rewards.multi_score = flow_grpo.multi_score
    del package.stat_tracking.PerPromptStatTracker
    with pytest.raises(UnknownTrainerError, match=r"has no flow_grpo\.stat_tracking\.PerPromptStatTracker"):
        patch_flow_grpo(reward())
    assert package.rewards.multi_score is flow_grpo.multi_score


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
