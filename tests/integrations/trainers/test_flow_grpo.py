"""Calls as Flow-GRPO's training scripts make them."""

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

from editcritic.integrations.serving.server.app import serve_in_thread
from editcritic.integrations.serving.server.service import ScoringService
from editcritic.integrations.trainers import patch_flow_grpo
from editcritic.integrations.trainers.flow_grpo import FlowGRPOReward
from editcritic.integrations.trainers.trainer_reward import UnknownTrainerError, UnscoredError
from editcritic.reward import EditSample, Image, Reward, Score
from editcritic.reward.image import PixelFormatError

from ...reward.fakes import Fake, Rated, picture
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


def test_a_picture_of_dance_grpo_is_scored_in_the_loop_that_makes_it():
    details, _ = FlowGRPOReward(reward())([EDITED[0].pil()], PROMPTS[:1], None, [REFERENCES[0]])
    assert details["avg"] == [known_value(EDITED[0])]


def known_value(image: Image) -> float:
    (score,) = reward()([EditSample("x", "make it blue", (SOURCES[0],), image)])
    assert score.value is not None
    return score.value


def test_edits_are_grouped_by_prompt_and_source():
    samples: list[EditSample] = []

    def scorer(batch: Sequence[EditSample]) -> list[Score]:
        samples.extend(batch)
        return [Score.of(0.5) for _ in batch]

    called(FlowGRPOReward(scorer))
    assert [one.instruction for one in samples] == PROMPTS
    assert [one.source for one in samples] == SOURCES
    assert [one.target_text for one in samples] == ["", "", "", "CAFE"]
    groups = [one.group for one in samples]
    assert groups[0] == groups[1]
    assert len(set(groups)) == 3


def test_a_row_may_have_several_sources_or_the_sources_may_be_a_batch():
    samples: list[EditSample] = []

    def scorer(batch: Sequence[EditSample]) -> list[Score]:
        samples.extend(batch)
        return [Score.of(0.5) for _ in batch]

    called(FlowGRPOReward(scorer), ref_images=[[one, one] for one in REFERENCES])
    assert {len(one.sources) for one in samples} == {2}
    samples.clear()
    batch = torch.from_numpy(np.stack([one.pixels for one in SOURCES])).movedim(3, 1)
    called(FlowGRPOReward(scorer), ref_images=batch)
    assert [one.source for one in samples] == SOURCES


def test_without_sources_there_is_nothing_to_judge():
    with pytest.raises(ValueError, match=r"pass ref_images, .* DiffusionNFT .* text-to-image"):
        FlowGRPOReward(reward())(IMAGES, PROMPTS, METADATA, only_strict=True)  # as DiffusionNFT calls


def test_the_requirement_of_edit_r1_is_the_hint():
    samples: list[EditSample] = []

    def scorer(batch: Sequence[EditSample]) -> list[Score]:
        samples.extend(batch)
        return [Score.of(0.5) for _ in batch]

    rows = [{"requirement": "the sky is blue"}, {}, {"editcritic": {"hint": "as it was"}, "requirement": "other"}, {}]
    FlowGRPOReward(scorer)(IMAGES, PROMPTS, rows, REFERENCES)
    assert [one.hint for one in samples] == ["the sky is blue", "", "as it was", ""]


def test_a_judge_server_gives_the_same():
    service = ScoringService(reward())
    with serve_in_thread(service) as url:
        assert torch.equal(called(FlowGRPOReward(url))["avg"], called(FlowGRPOReward(reward()))["avg"])
    service.close()


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


def lacking(samples: Sequence[EditSample]) -> list[Score]:
    """The second one never has any."""
    lost = Score.failed("lost", cause="infrastructure")
    return [lost if one.edited == EDITED[1] else Score.of(0.5) for one in samples]


def test_a_missing_score_ends_the_run_naming_it():
    with pytest.raises(UnscoredError, match=r"1 of 4 edits have no score: edit-1: failed \(lost\)"):
        called(FlowGRPOReward(lacking, outage_timeout_s=0))


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


def test_a_picture_of_nan_and_an_empty_prompt_are_missing_scores_of_their_rows(monkeypatch):
    images = IMAGES.clone()
    images[1] = math.nan
    monkeypatch.setattr(f"{__name__}.PROMPTS", [*PROMPTS[:2], "", PROMPTS[3]])
    values = called(FlowGRPOReward(reward(), missing="nan"), images)["avg"]
    assert torch.isnan(values).tolist() == [False, True, True, False]
    whole = called(FlowGRPOReward(reward(), missing="nan"))["avg"]
    assert values[0] == whole[0]
    assert values[3] == whole[3]
    with pytest.raises(UnscoredError, match=r"edit-1: failed \(the image edited: .* NaN .*edit-2: .*must not be"):
        called(FlowGRPOReward(reward()), images)


def test_references_that_are_no_pictures_fail_their_rows():
    references: list[Any] = [REFERENCES[0], [REFERENCES[1], np.full((4, 4, 3), np.nan)], REFERENCES[2], []]
    values = called(FlowGRPOReward(reward(), missing="nan"), ref_images=references)["avg"]
    assert torch.isnan(values).tolist() == [False, True, False, True]


@pytest.mark.parametrize("convert", [lambda images: 2 * images - 1, lambda images: 255 * images])
def test_tensors_of_another_scale_are_refused(convert):
    with pytest.raises(PixelFormatError, match="float pixels must lie in"):
        called(FlowGRPOReward(reward(), missing="nan"), convert(IMAGES))
    with pytest.raises(PixelFormatError, match="float pixels must lie in"):
        called(FlowGRPOReward(reward(), missing="nan"), ref_images=convert(IMAGES))


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
