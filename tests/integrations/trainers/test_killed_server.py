"""A judge server that is killed while training runs: what each adapter gives its trainer, and when it is back."""

import asyncio
import math
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from editcritic.integrations.diffusion_rl import diffusion_trainer
from editcritic.integrations.serving.client import RemoteReward
from editcritic.integrations.trainers.dance_grpo import DanceGRPOReward
from editcritic.integrations.trainers.flow_factory import FlowFactoryReward
from editcritic.integrations.trainers.flow_grpo import FlowGRPOReward
from editcritic.integrations.trainers.omnigen2_rl import OmniGen2Reward
from editcritic.integrations.trainers.trainer_reward import TrainerReward, UnscoredError
from editcritic.integrations.trainers.unirl import UniRLRewardBackend
from editcritic.integrations.trainers.verl_omni import compute_score
from editcritic.integrations.trl import RewardFunction
from editcritic.reward import EditSample, Reward

from ...reward.fakes import Fake, Rated, known
from ..serving.processes import judge
from .trainer_cases import Batch, batch

NEEDS = ("torch",)

EDITS = batch(groups=2, group_size=2)
LATER = batch(groups=2, group_size=2, first=200)
META = [{"uid": f"row{row}"} for row in range(4)]

Step = Callable[[Batch], Sequence[float | None]]


def tensors(edits: Batch) -> Any:
    return torch.from_numpy(edits.tensor).movedim(3, 1)


def flow_grpo(url: str, **options: Any) -> Step:
    reward = FlowGRPOReward(url, **options)
    return lambda edits: reward(tensors(edits) / 255, edits.prompts, META, [one.pil() for one in edits.sources])[0][
        "avg"
    ]


def flow_factory(url: str, **options: Any) -> Step:
    model: Any = FlowFactoryReward(SimpleNamespace(extra_kwargs={"reward": url, **options}), None)
    sources = [[one.pil()] for one in EDITS.sources]
    return lambda edits: model(
        edits.prompts, image=list(tensors(edits) / 255), condition_images=sources, metadata=META
    ).rewards.tolist()


def verl_omni(url: str, **options: Any) -> Step:
    def step(edits: Batch) -> list[float | None]:
        async def scored() -> Any:
            return await asyncio.gather(
                *(
                    compute_score(
                        "edits", picture, prompt, {**row, "source_img": source.pil()}, server_url=url, **options
                    )
                    for picture, prompt, row, source in zip(
                        tensors(edits), edits.prompts, META, edits.sources, strict=True
                    )
                )
            )

        return [result["score"] for result in asyncio.run(scored())]

    return step


def unirl(url: str, *, missing: str, **options: Any) -> Step:
    backend = UniRLRewardBackend(url, missing=missing, **options)

    def images(pictures: Any) -> Any:
        return SimpleNamespace(to_list=lambda: [SimpleNamespace(pixels=one / 255) for one in pictures])

    def step(edits: Batch) -> list[float | None]:
        sources = Batch(edits.prompts, edits.sources, edits.sources, 2)
        request = SimpleNamespace(
            generated={"image": images(tensors(edits))},
            primitives={"image": images(tensors(sources)), "text": SimpleNamespace(texts=edits.prompts)},
            metadata=META,
        )
        response = backend.compute_rewards(request)
        if not all(response.successes):  # as its RewardService does
            raise UnscoredError(f"{META[0]['uid']}/0: {response.errors[0]}", [])
        rewards: list[float | None] = response.rewards
        return rewards

    return step


def omnigen2(url: str, **options: Any) -> Step:
    reward = OmniGen2Reward(url, **options)
    rows = [{"instruction": prompt, **row} for prompt, row in zip(EDITS.prompts, META, strict=True)]
    return lambda edits: list(
        reward([[one.pil()] for one in edits.sources], [one.pil() for one in edits.edited], rows)[1]
    )


def dance_grpo(url: str, **options: Any) -> Step:
    reward = DanceGRPOReward(url, **options)
    return lambda edits: reward(
        [one.pil() for one in edits.edited],
        [
            {"instruction": prompt, "source_image": source.pil()}
            for prompt, source in zip(edits.prompts, edits.sources, strict=True)
        ],
    ).tolist()


def to_sample(row: Any) -> EditSample:
    return EditSample(id="row", instruction=row["prompt"], sources=(row["source"],), edited=row["edited"])


def trl(url: str, *, missing: str, **options: Any) -> Step:
    function = RewardFunction(url, to_sample=to_sample, **options)
    return lambda edits: function(edits.prompts, edits.prompts, source=edits.sources, edited=edits.edited)


def own_trainer(url: str, *, missing: str, **options: Any) -> Step:
    trainer: Any = SimpleNamespace(
        reward=RemoteReward(url, on_failures="wait", **options),
        accelerator=SimpleNamespace(is_main_process=False),
        heldout=None,
        audit_probe=None,
    )

    def step(edits: Batch) -> list[float | None]:
        rows = [
            EditSample(id=str(row), instruction=prompt, sources=(source,), edited=edited)
            for row, (prompt, source, edited) in enumerate(zip(edits.prompts, edits.sources, edits.edited, strict=True))
        ]
        scores = diffusion_trainer.DiffusionTrainer._score(trainer, SimpleNamespace(rows=rows)).scores  # type: ignore[arg-type]
        return [score.value for score in scores]

    return step


def shared(url: str, **options: Any) -> Step:
    reward = TrainerReward(url, **options)
    return lambda edits: list(reward([to_sample(row) for row in _rows(edits)]).values)


def _rows(edits: Batch) -> list[dict[str, Any]]:
    return [
        {"prompt": prompt, "source": source, "edited": edited}
        for prompt, source, edited in zip(edits.prompts, edits.sources, edits.edited, strict=True)
    ]


ADAPTERS = {
    adapter.__name__: adapter
    for adapter in (flow_grpo, flow_factory, verl_omni, unirl, omnigen2, dance_grpo, trl, own_trainer, shared)
}
TAKES_NONE = {"trl", "own_trainer"}
"""Trainers that take None for a missing reward: there is no `missing`."""


@pytest.fixture(scope="module")
def steps() -> Iterator[dict[tuple[str, str], Any]]:
    """Adapters of a server that is killed when each has been called once, and what they gave. Those with `wait` are
    called again at once, and the server is started again meanwhile.
    """
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = str(unused.getsockname()[1])
    made: dict[tuple[str, str], Any] = {}
    with ExitStack() as servers, ThreadPoolExecutor(len(ADAPTERS)) as threads:
        url, process = servers.enter_context(judge("--port", port))
        for name, adapter in ADAPTERS.items():
            for mode in ("nan", "raise", "wait"):
                seconds = 60.0 if mode == "wait" else 0.4
                step = adapter(url, missing="nan" if mode == "wait" else mode, outage_timeout_s=seconds)
                made[name, mode] = step, step(EDITS)
        process.kill()
        process.wait()
        for name in ADAPTERS:
            made[name, "nan"] = made[name, "nan"][1], _outcome(made[name, "nan"][0])
            made[name, "raise"] = made[name, "raise"][1], _outcome(made[name, "raise"][0])
        waiting = {name: threads.submit(_outcome, made[name, "wait"][0]) for name in ADAPTERS}
        time.sleep(0.3)  # so that they have begun
        assert not any(future.done() for future in waiting.values())
        servers.enter_context(judge("--port", port))
        for name, future in waiting.items():
            made[name, "wait"] = made[name, "wait"][1], future.result(60)
        yield made


def rated(edits: Batch) -> list[float | None]:
    """What the server's reward gives in this process."""
    samples = [to_sample(row) for row in _rows(edits)]
    return list(Reward(Rated(), {"preference": Fake(known)})(samples).values)


def _outcome(step: Step) -> Any:
    try:
        return step(LATER)
    except Exception as error:  # noqa: BLE001  (what ends the run)
        return error


@pytest.mark.parametrize("name", ADAPTERS)
def test_nan_is_what_every_edit_without_a_score_has(steps, name):
    before, during = steps[name, "nan"]
    assert all(0 <= value <= 1 for value in before)
    assert len(during) == 4
    assert all(value is None if name in TAKES_NONE else math.isnan(value) for value in during)


@pytest.mark.parametrize("name", [name for name in ADAPTERS if name not in TAKES_NONE])
def test_raise_ends_the_run_and_names_the_edits(steps, name):
    before, during = steps[name, "raise"]
    assert all(0 <= value <= 1 for value in before)
    assert isinstance(during, UnscoredError)
    first = {"dance_grpo": "edit-0", "shared": "row"}.get(name, "row0/0")
    assert f"{first}: failed" in str(during)
    assert "no response for 0.4 s" in str(during)


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_server_that_is_back_in_time_scores_as_if_nothing_had_happened(steps, name):
    before, during = steps[name, "wait"]
    assert before == pytest.approx(rated(EDITS))
    assert during == pytest.approx(rated(LATER))
