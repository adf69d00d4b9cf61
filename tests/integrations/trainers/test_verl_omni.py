"""Calls as verl-omni's reward managers make them: by keyword, a sample at a time, many at once."""

import asyncio
import inspect
import io
import math
from typing import Any

import pytest
import torch

from editcritic.integrations.serving.server.app import serve_in_thread
from editcritic.integrations.serving.server.service import ScoringService
from editcritic.integrations.trainers.trainer_reward import UnscoredError
from editcritic.integrations.trainers.verl_omni import compute_score
from editcritic.reward import EditSample, Image, Reward, Score
from editcritic.reward.image import PixelFormatError
from editcritic.reward.queries import Failure

from ...reward.fakes import Fake, Rated, picture


def png(image: Image) -> bytes:
    buffer = io.BytesIO()
    image.pil().save(buffer, "PNG")
    return buffer.getvalue()


def tensor(image: Image) -> torch.Tensor:
    return torch.from_numpy(image.pixels.copy()).permute(2, 0, 1)


def row(number: int, **changes: Any) -> dict[str, Any]:
    """What a manager passes, of a dataset made by verl-omni's preprocessing."""
    info = {
        "split": "train",
        "index": number,
        "instruction": "make it blue",
        "image": "data/a.png",
        "source_img": {"bytes": png(picture(number % 3)), "path": None},
        "target_img": None,
        "num_turns": None,
        "rollout_reward_scores": {},
    }
    return {
        "data_source": "uniimageedit",
        "solution_image": tensor(picture(number)),
        "ground_truth": "make it blue",
        "extra_info": info | changes,
    }


def managed(rows: list[dict[str, Any]], **extra: Any) -> list[float]:
    """A batch as the managers run it: keywords, then `float(result["score"])`."""
    assert inspect.iscoroutinefunction(compute_score)

    async def run() -> list[dict[str, Any]]:
        return await asyncio.gather(*(compute_score(**one, **extra) for one in rows))

    results = asyncio.run(asyncio.wait_for(run(), 60))
    assert all(set(one) == {"score", "unscored"} for one in results)
    return [float(one["score"]) for one in results]


def expected(numbers: range) -> list[float | None]:
    samples = [EditSample("x", "make it blue", (picture(0),), picture(number)) for number in numbers]
    return [score.value for score in Reward(Rated(), {"preference": Fake()})(samples)]


@pytest.mark.parametrize("here", [True, False], ids=["reward", "server"])
def test_a_batch_is_scored_all_at_once(here):
    reward = Reward(Rated(), {"preference": Fake(jitter_s=0.01)})
    rows = [row(number) for number in range(30)]
    if here:
        assert managed(rows, reward=reward, reward_router_address="ignored") == expected(range(30))
        return
    service = ScoringService(reward)
    with serve_in_thread(service) as url:
        assert managed(rows, server_url=url, model_name="ignored") == expected(range(30))
    service.close()


def test_pictures_may_be_bytes_floats_or_batches():
    samples: list[EditSample] = []

    def scorer(batch: Any) -> list[Score]:
        samples.extend(batch)
        return [Score.of(0.5)]

    whole = tensor(picture(4))
    for image in (whole, whole / 255, whole[None], torch.stack([whole, whole * 0]), (whole[None] / 255).bfloat16()):
        assert managed([{**row(4), "solution_image": image}], reward=scorer) == [0.5]
    assert {one.edited for one in samples[:4]} == {picture(4)}
    assert {one.source for one in samples} == {picture(1)}


def test_what_is_asked_for_is_the_instruction_else_the_ground_truth_and_groups_have_their_source():
    samples: list[EditSample] = []

    def scorer(batch: Any) -> list[Score]:
        samples.extend(batch)
        return [Score.of(0.5)]

    for info in ({"instruction": "make it red"}, {"instruction": None}, {"editcritic": {"target_text": "CAFE"}}):
        managed([row(3, **info)], reward=scorer)
    managed([row(4)], reward=scorer)
    assert [one.instruction for one in samples] == ["make it red", *["make it blue"] * 3]
    assert [one.target_text for one in samples] == ["", "", "CAFE", ""]
    assert samples[1].group == samples[2].group
    assert len({one.group for one in samples}) == 3


def test_a_missing_score_is_nan_and_said_so_or_an_exception_and_never_zero():
    reward = Reward(Rated(), {"preference": Fake(lambda query: Failure("lost for words"))}, on_failures="none")
    result = asyncio.run(compute_score(**row(4), reward=reward))
    assert math.isnan(result["score"])
    assert result["unscored"] == 1
    with pytest.raises(UnscoredError, match="edit-0: failed"):
        asyncio.run(compute_score(**row(4), reward=reward, missing="raise"))
    with pytest.raises(ValueError, match="must be 'raise' or 'nan'"):
        asyncio.run(compute_score(**row(4), reward=reward, missing="zero"))


def test_one_nan_makes_every_advantage_of_a_step_nan():
    """verl-omni's default, `global_std`: the deviation is over the whole step. Its engine then skips the update."""
    rewards = torch.tensor([0.1, math.nan, 0.3, 0.7])
    deviation = torch.std(rewards)
    assert torch.isnan((rewards[2:] - rewards[2:].mean()) / (deviation + 1e-4)).all()


def test_a_server_is_connected_to_once():
    service = ScoringService(Reward(Rated(), {"preference": Fake()}))
    with serve_in_thread(service) as url:
        managed([row(number) for number in range(4)], server_url=url)
        managed([row(number) for number in range(4)], server_url=url)
        from editcritic.integrations.trainers import verl_omni

        assert [name for name, _ in verl_omni._scorers].count(url) == 1
    service.close()


def test_without_a_source_or_a_reward_it_says_so():
    with pytest.raises(ValueError, match="source_img"):
        asyncio.run(compute_score(**row(4, source_img=None), reward="edit-balanced"))
    with pytest.raises(ValueError, match="no reward"):
        asyncio.run(compute_score(**row(4)))


def test_a_picture_of_nan_is_a_missing_score_and_another_scale_a_mistake():
    whole = tensor(picture(4)) / 255
    reward = Reward(Rated(), {"preference": Fake()})
    result = asyncio.run(compute_score(**{**row(4), "solution_image": whole * math.nan}, reward=reward))
    assert math.isnan(result["score"])
    assert result["unscored"] == 1
    with pytest.raises(UnscoredError, match=r"edit-0: failed \(the image edited: .* NaN"):
        asyncio.run(compute_score(**{**row(4), "solution_image": whole * math.nan}, reward=reward, missing="raise"))
    with pytest.raises(PixelFormatError, match="float pixels must lie in"):
        asyncio.run(compute_score(**{**row(4), "solution_image": 2 * whole - 1}, reward=reward))
