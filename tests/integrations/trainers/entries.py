"""The entry of each adapter, called as its trainer calls it: rows go in, a value for each comes out."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from editcritic.integrations.trainers.dance_grpo import DanceGRPOReward
from editcritic.integrations.trainers.flow_factory import FlowFactoryReward
from editcritic.integrations.trainers.flow_grpo import FlowGRPOReward
from editcritic.integrations.trainers.omnigen2_rl import OmniGen2Reward
from editcritic.integrations.trainers.trainer_reward import UnscoredError
from editcritic.integrations.trainers.unirl import UniRLRewardBackend
from editcritic.integrations.trainers.verl_omni import compute_score
from editcritic.integrations.trl import RewardFunction
from editcritic.reward import EditSample, Image, Score

from .trainer_cases import Batch


@dataclass(frozen=True)
class Row:
    """source, edited: anything that an adapter takes as a picture. metadata: as the trainer has it."""

    prompt: str
    source: Any
    edited: Any
    metadata: Any = field(default_factory=dict)


Values = Sequence[float | None]
Entry = Callable[[Sequence[Row]], Values]


def rows_of(edits: Batch) -> list[Row]:
    columns = zip(edits.prompts, edits.sources, edits.edited, strict=True)
    return [Row(*columns_, {"uid": f"row{number}"}) for number, columns_ in enumerate(columns)]


def rows_of_samples(samples: Sequence[EditSample]) -> list[Row]:
    return [Row(one.instruction, one.source, one.edited) for one in samples]


def samples_of(rows: Sequence[Row]) -> list[EditSample]:
    return [
        EditSample(id=f"edit-{number}", instruction=row.prompt, sources=(row.source,), edited=row.edited)
        for number, row in enumerate(rows)
    ]


class Seen:
    """A reward that keeps the samples."""

    def __init__(self) -> None:
        self.samples: list[EditSample] = []

    def __call__(self, samples: Sequence[EditSample]) -> list[Score]:
        self.samples += samples
        return [Score.of(0.5) for _ in samples]


def tensor(picture: Any) -> torch.Tensor:
    """3 x H x W; uint8, or the floats of an array."""
    pixels = picture.pixels if isinstance(picture, Image) else np.asarray(picture)
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1)


def unit(picture: Any) -> torch.Tensor:
    """As `tensor`; bytes in [0, 1]."""
    pixels = tensor(picture)
    return pixels / 255 if pixels.dtype == torch.uint8 else pixels


def flow_grpo(reward: Any, **options: Any) -> Entry:
    function = FlowGRPOReward(reward, **options)

    def call(rows: Sequence[Row]) -> Values:
        edited, sources = [row.edited for row in rows], [[row.source] for row in rows]
        details, _ = function(edited, [row.prompt for row in rows], [row.metadata for row in rows], sources)
        assert ("editcritic_alarms" in details) == ("monitor" in options)
        return details["avg"]

    return call


def flow_factory(reward: Any, **options: Any) -> Entry:
    config = SimpleNamespace(extra_kwargs={"reward": reward, **options})
    model: Any = FlowFactoryReward(config, SimpleNamespace(device="cpu"))

    def call(rows: Sequence[Row]) -> Values:
        output = model(
            [row.prompt for row in rows],
            image=[row.edited for row in rows],
            condition_images=[[row.source] for row in rows],
            metadata=[row.metadata for row in rows],
        )
        values: list[float] = output.rewards.tolist()
        return values

    return call


def verl_omni(reward: Any, **options: Any) -> Entry:
    """One edit a call, many at once."""

    def call(rows: Sequence[Row]) -> Values:
        async def gathered() -> list[dict[str, float]]:
            calls = (
                compute_score(
                    "edits", tensor(row.edited), row.prompt, {**row.metadata, "source_img": row.source},
                    reward=reward, **options,
                )
                for row in rows
            )  # fmt: skip
            return await asyncio.gather(*calls)

        results = asyncio.run(gathered())
        assert all(("alarms" in result) == ("monitor" in options) for result in results)
        return [result["score"] for result in results]

    return call


def unirl(reward: Any, **options: Any) -> Entry:
    backend = UniRLRewardBackend(reward, **options)

    def images(pictures: Sequence[Any]) -> Any:
        return SimpleNamespace(to_list=lambda: [SimpleNamespace(pixels=unit(one)) for one in pictures])

    def call(rows: Sequence[Row]) -> Values:
        request = SimpleNamespace(
            generated={"image": images([row.edited for row in rows])},
            conditioning={"image": images([row.source for row in rows])},
            generation_prompt=SimpleNamespace(texts=[row.prompt for row in rows]),
            metadata=[row.metadata for row in rows],
        )
        response = backend.compute_rewards(request)
        assert ("alarms" in response.component_rewards) == ("monitor" in options)
        if not all(response.successes):  # as its RewardService does
            raise UnscoredError(f"row0/0: {'; '.join(filter(None, response.errors))}", [])
        rewards: list[float] = response.rewards
        return rewards

    return call


def omnigen2_rl(reward: Any, **options: Any) -> Entry:
    function = OmniGen2Reward(reward, **options)

    def call(rows: Sequence[Row]) -> Values:
        metadata = [{"instruction": row.prompt, **row.metadata} for row in rows]
        _, rewards, _, answered = function([[row.source] for row in rows], [row.edited for row in rows], metadata)
        assert all(("alarms" in row["editcritic_score"]) == ("monitor" in options) for row in answered)
        return list(rewards)

    return call


def dance_grpo(reward: Any, **options: Any) -> Entry:
    function = DanceGRPOReward(reward, **options)

    def call(rows: Sequence[Row]) -> Values:
        captions = [{"instruction": row.prompt, "source_image": row.source, **row.metadata} for row in rows]
        values: list[float] = function([row.edited for row in rows], captions).tolist()
        return values

    return call


def trl(reward: Any, *, missing: str = "nan", **options: Any) -> Entry:
    function = RewardFunction(reward, **options)

    def call(rows: Sequence[Row]) -> Values:
        columns: Mapping[str, Any] = {
            "instruction": [row.prompt for row in rows],
            "source": [row.source for row in rows],
            "edited": [row.edited for row in rows],
            "editcritic": [row.metadata.get("editcritic") for row in rows],
        }
        return function([""] * len(rows), [""] * len(rows), **columns)

    return call


ENTRIES: Mapping[str, Callable[..., Entry]] = {
    entry.__name__: entry for entry in (flow_grpo, flow_factory, verl_omni, unirl, omnigen2_rl, dance_grpo, trl)
}
TAKES_NONE = {"trl", "own_trainer"}
"""Trainers that take None for a missing reward: there is no `missing`."""
