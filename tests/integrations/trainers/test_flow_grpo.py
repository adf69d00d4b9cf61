"""Calls as Flow-GRPO's training scripts make them."""

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
from editcritic.integrations.trainers.flow_grpo import FlowGRPOReward
from editcritic.integrations.trainers.trainer_reward import UnknownTrainerError
from editcritic.reward import EditSample, Image, Reward, Score

from ...reward.fakes import Fake, Rated, picture
from .entries import Seen
from .restated import flow_grpo as restated

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
    tracker: Any = type("PerPromptStatTracker", (restated.PerPromptStatTracker,), {})
    package.stat_tracking.PerPromptStatTracker = tracker
    package.rewards.multi_score = other = lambda score_dict: None
    with pytest.raises(
        UnknownTrainerError, match=r"has multi_score\(score_dict\) in .*not multi_score\(device, score_d"
    ):
        patch_flow_grpo(reward())
    assert package.rewards.multi_score is other
    assert tracker.update is restated.PerPromptStatTracker.update
    package.rewards.multi_score = restated.multi_score
    del package.stat_tracking.PerPromptStatTracker
    with pytest.raises(UnknownTrainerError, match=r"has no flow_grpo\.stat_tracking\.PerPromptStatTracker"):
        patch_flow_grpo(reward())
    assert package.rewards.multi_score is restated.multi_score
