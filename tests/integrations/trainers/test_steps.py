"""A step of each trainer, restated, with the lines of its page: what a missing score does to advantages and to the log.

By each trainer's own formula, written out once more, of a step in which that edit does not occur.
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import HashStore  # type: ignore[attr-defined]

from editcritic.reward import Reward

from ..trl import test_grpo_missing_scores as trl
from . import test_dance_grpo, test_flow_factory, test_flow_grpo_script, test_omnigen2_rl, test_unirl, test_verl_omni
from .restated.unirl import logged
from .test_verl_omni import own_modules  # noqa: F401  (a fixture)
from .trainer_cases import Judge, advantages_without, batch, check_log, served, values

EDITS = batch()
Step = tuple[Sequence[float], Mapping[str, Any]]
"""Advantages in the order of the edits, and the log."""


def script(name: str) -> Callable[[Reward, Path], Step]:
    def step(reward: Reward, folder: Path) -> Step:
        got = test_flow_grpo_script.run(name, reward, statistics=True)
        return [got.advantages[row] for row in range(16)], got.log

    return step


def flow_factory(version: str) -> Callable[[Reward, Path], Step]:
    def step(reward: Reward, folder: Path) -> Step:
        with pytest.MonkeyPatch.context() as patch:
            theirs = test_flow_factory.install(version, lambda name, module: patch.setitem(sys.modules, name, module))
            read = test_flow_factory.settings(reward, outage_timeout_s=0)
            trainer = theirs.Trainer(read | {"train": test_flow_factory.train(("sum", True))})
            return trainer.step([test_flow_factory.samples_of(theirs)]).tolist(), trainer.log[0]

    return step


def verl_omni(reward: Reward, folder: Path) -> Step:
    with served(reward) as url:
        data, log = test_verl_omni.step(
            test_verl_omni.lines(test_verl_omni.SINGLE, test_verl_omni.WITHOUT_MISSING, url=url), EDITS
        )
    return data.batch["advantages"][:, 0].tolist(), log


def unirl(reward: Reward, folder: Path) -> Step:
    part = test_unirl.step(EDITS, reward=reward, outage_timeout_s="0")
    assert part.advantages is not None
    return part.advantages.tolist(), {f"rollout/{name}": value for name, value in logged(part).items()}


def omnigen2_rl(reward: Reward, folder: Path) -> Step:
    torch.distributed.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    try:
        hurried = test_omnigen2_rl.CLIENT.replace('missing="nan"', 'missing="nan", outage_timeout_s=0')
        got = test_omnigen2_rl.run(test_omnigen2_rl.configuration(":0"), (test_omnigen2_rl.LOG, hurried), reward=reward)
    finally:
        torch.distributed.destroy_process_group()
    return [got.advantages[row] for row in range(16)], got.log


def dance_grpo(reward: Reward, folder: Path) -> Step:
    step = test_dance_grpo.run_step(folder, EDITS, reward)
    assert math.isfinite(step.mean_reward)
    assert step.weight != 0.5
    return step.advantages, step.logged


def grpo_of_trl(reward: Reward, folder: Path) -> Step:
    judge = type("Judge", (), {"reward": lambda self, **options: reward})()
    names = {"judge": judge, "decode_image": trl.decoder(EDITS.edited)}
    _, advantages, entry = trl.logged(trl.trained(folder, EDITS, trl.IN_PROCESS, names))
    return advantages, entry


STEPS: dict[str, tuple[str, Callable[[Reward, Path], Step], tuple[bool, float, float]]] = {
    "flow_grpo": ("Flow-GRPO", script("flow_grpo_script"), (False, 0, 1e-4)),
    "edit_r1": ("Edit-R1", script("edit_r1_script"), (False, 0, 1e-4)),
    "flow_factory": ("Flow-Factory", flow_factory("flow_factory"), (False, 0, 0)),
    "flow_factory_sources": ("Flow-Factory", flow_factory("flow_factory_sources"), (False, 0, 0)),
    "verl_omni": ("verl-omni", verl_omni, (False, 1 / 3, 1e-4)),  # of each reward three times
    "unirl": ("UniRL", unirl, (True, 0, 1e-8)),
    "omnigen2_rl": ("OmniGen2-RL", omnigen2_rl, (True, 0, 1e-8)),
    "dance_grpo": ("DanceGRPO", dance_grpo, (True, 1, 1e-8)),
    "trl": ("TRL", grpo_of_trl, (True, 1, 1e-4)),
}
"""Title of the page, the step, and its standard deviation: of the group or of all rewards, the degrees of freedom that
it takes off, and what is added to it."""

each_trainer = pytest.mark.parametrize("trainer", STEPS)


def is_finite(log: Mapping[str, Any]) -> bool:
    return all(
        math.isfinite(value)
        for name, value in log.items()
        if isinstance(value, float) and "critic/rewards/mean" not in name
    )


@each_trainer
def test_a_missing_and_an_abstaining_edit_do_not_change_the_advantages_of_the_others(trainer, tmp_path):
    title, step, formula = STEPS[trainer]
    judge = Judge(failing=Judge.always(EDITS.edited[5]), abstaining={EDITS.edited[10].digest})
    advantages, log = step(judge.reward(on_failures="none"), tmp_path)
    rewards = [0.0 if row == 10 else value for row, value in enumerate(values(EDITS))]  # the lowest of the range
    assert advantages == pytest.approx(advantages_without(rewards, [5], *formula), rel=2e-5, abs=2e-5)
    assert advantages[5] == 0
    check_log(title, log)
    assert is_finite(log)


@each_trainer
@pytest.mark.filterwarnings("ignore:Degrees of freedom")  # the deviation of that group, which is NaN
def test_a_group_without_any_value_has_no_advantage_and_the_others_keep_theirs(trainer: str, tmp_path: Path) -> None:
    _, step, formula = STEPS[trainer]
    judge = Judge(failing=Judge.always(*EDITS.edited[4:8]))
    advantages, log = step(judge.reward(on_failures="none"), tmp_path)
    assert advantages == pytest.approx(advantages_without(values(EDITS), range(4, 8), *formula), rel=2e-5, abs=2e-5)
    assert list(advantages[4:8]) == [0.0] * 4
    assert is_finite(log)


@each_trainer
@pytest.mark.filterwarnings("error:Mean of empty slice")
def test_a_reward_without_parts_logs_none(trainer: str, tmp_path: Path) -> None:
    title, step, _ = STEPS[trainer]
    _, log = step(Judge(parts=False).reward(on_failures="none"), tmp_path)
    check_log(title, log, parts=False, share=0)
    assert is_finite(log)
