"""What trainers hand over, as edits; and what they are given back."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from editcritic.integrations.dataset_rows import build_samples, images_from_batch
from editcritic.integrations.serving.server.app import ServerConfig, serve_in_thread
from editcritic.integrations.serving.server.service import ScoringService
from editcritic.integrations.trainers.trainer_reward import (
    TrainerReward,
    UnscoredError,
    resolve_scorer,
    score_samples,
    scorer_name,
)
from editcritic.reward import EditSample, Reward, Score, SpecError
from editcritic.reward.image import PixelFormatError

from ...reward.fakes import Fake, Rated, picture, sample

A, B = picture(1), picture(2)


def test_pictures_are_the_same_however_a_trainer_has_them():
    pixels = np.stack([A.pixels, B.pixels])
    floats = torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255
    beyond = torch.where(floats == 1, 1.01, torch.where(floats == 0, -0.01, floats)).requires_grad_()
    for batch in (
        pixels,
        pixels / 255,
        floats,
        beyond,
        [A.pil(), B.pil()],
        torch.from_numpy(pixels).permute(0, 3, 1, 2),
    ):
        assert images_from_batch(batch) == [A, B]


def test_groups_are_of_prompt_and_sources():
    samples = build_samples(["x", "x", "x", "y"], [A] * 4, [[A], [B], [A], [A]])
    groups = [one.group for one in samples if isinstance(one, EditSample)]
    assert len(groups) == 4
    assert groups[0] == groups[2]
    assert len(set(groups)) == 3


def test_metadata_adds_the_fields_of_samples_and_nothing_else():
    extra = {
        "boxes": {"cup": [[0, 0, 4, 4]]},
        "target_text": "CAFE",
        "task": {"type": "subject_remove", "object": "cup"},
    }
    plain, detailed = build_samples(["x"] * 2, [A] * 2, [[B]] * 2, [{"image": "/etc/passwd"}, {"editcritic": extra}])
    assert isinstance(plain, EditSample)
    assert isinstance(detailed, EditSample)
    assert plain.metadata == {}
    assert detailed.task is not None
    assert (list(detailed.boxes), detailed.target_text, detailed.task.object) == (["cup"], "CAFE", "cup")
    for wrong, message in (
        ({"mask": "/etc/passwd"}, "unknown field 'mask'"),
        ({"group": "all"}, "unknown field 'group'"),
        ({"boxes": 3}, "boxes"),
        ("boxes", "should be a table"),
        (["boxes"], "must be a table, got list"),
    ):
        with pytest.raises(ValueError, match=message):
            build_samples(["x"], [A], [[B]], [{"editcritic": wrong}])


def test_lists_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="2 prompts, 1 images, 1 sources"):
        build_samples(["x", "y"], [A], [[B]])


@pytest.mark.parametrize(
    "convert", [lambda batch: 2 * batch - 1, lambda batch: 255 * batch, lambda batch: batch[:, :2]]
)
def test_pixels_of_another_scale_or_shape_are_refused_and_not_clipped(convert):
    floats = torch.from_numpy(np.stack([A.pixels, B.pixels])).permute(0, 3, 1, 2) / 255
    for batch in (convert(floats), convert(floats).bfloat16(), list(convert(floats).numpy().transpose(0, 2, 3, 1))):
        with pytest.raises(PixelFormatError, match=r"float pixels must lie in \[0, 1\], got|expected an array of"):
            images_from_batch(batch)


def test_a_row_that_is_no_edit_is_a_failed_score_and_the_others_are_scored():
    floats = torch.from_numpy(np.stack([A.pixels] * 6)).permute(0, 3, 1, 2) / 255
    floats[1, 0, 0, 0] = math.nan
    floats[2, 0, 0, 0] = math.inf
    sources: list[list[Any]] = [[B], [B], [B], [], [B], images_from_batch([B.pil(), b"no picture"])]
    rows = build_samples(["x", "x", "x", "x", " ", "x"], images_from_batch(floats), sources)
    seen: list[EditSample] = []

    def scorer(samples: Any) -> list[Score]:
        seen.extend(samples)
        return [Score.of(0.5) for _ in samples]

    scores = score_samples(scorer, rows)
    assert [score.status for score in scores] == ["scored"] + ["failed"] * 5
    assert [one.id for one in seen] == ["edit-0"]
    reasons = ["NaN or infinite", "NaN or infinite", "no source image", "must not be empty", "encoded image is not an"]
    for score, reason in zip(scores[1:], reasons, strict=True):
        assert reason in score.reason
    with pytest.raises(UnscoredError, match=r"5 of 6 edits have no score: edit-1: failed \(the image edited: 1 of 192"):
        TrainerReward(scorer)(rows)
    values = TrainerReward(scorer, missing="nan")(rows).values
    assert values[0] == 0.5
    assert all(math.isnan(value) for value in values[1:])


def test_a_batch_without_any_edit_asks_no_scorer():
    rows = build_samples(["", ""], [A, A], [[B], [B]])
    assert [score.status for score in score_samples(no_scorer, rows)] == ["failed", "failed"]


def no_scorer(samples: Any) -> list[Score]:
    raise AssertionError("it has nothing to score")


def test_a_reward_is_anything_that_scores_or_says_what_does(tmp_path):
    reward = Reward.of("edit-balanced")
    assert resolve_scorer(reward) is reward
    path = tmp_path / "reward.toml"
    path.write_text('reward = "edit-balanced"\n', encoding="utf-8")
    for spec in ("edit-balanced", {"use": "edit-balanced"}, str(path)):
        assert scorer_name(resolve_scorer(spec)) == scorer_name(reward)
    with pytest.raises(ValueError, match="no reward"):
        resolve_scorer("")
    with pytest.raises(SpecError):
        resolve_scorer("no-such-reward")


def test_a_text_may_name_judge_servers_and_where_their_token_is(monkeypatch):
    monkeypatch.setenv("JUDGE", "correct-horse-battery-staple")
    reward = Reward(Rated(), {"preference": Fake()})
    service = ScoringService({"mine": reward, "other": reward})
    with serve_in_thread(service, ServerConfig(port=0, token="correct-horse-battery-staple")) as url:
        samples = [sample("a"), sample("b", edited=A)]
        scorer = resolve_scorer(f"{url},{url}?token_env=JUDGE&reward=mine&deadline_s=60")
        assert [score.value for score in scorer(samples)] == reward(samples).values
    service.close()
    with pytest.raises(ValueError, match="got 'token'"):
        resolve_scorer("http://127.0.0.1:1?token=secret")
    with pytest.raises(ValueError, match="deadline_s is a number, got 'soon'"):
        resolve_scorer("http://127.0.0.1:1?deadline_s=soon")


def test_scores_that_are_too_few_are_no_scores():
    with pytest.raises(ValueError, match="returned 0 scores for 1 edits"):
        score_samples(lambda samples: [], [sample("a")])
