"""TRL's trainers in two processes of one group."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editcritic.integrations.trl.reward_function import RewardFunction

from ..tiny_language_model import tiny_language_model
from ..verifiers.numpy_editor import Painter, graded, judge, scenes
from .prepared_processes import found_by_both
from .trl_runs import dpo, grpo, half_known, losses, rows_of


def as_a_rank(folder: str) -> None:
    """What each of the processes does."""
    found = trained_by_a_rank(Path(folder))
    Path(folder, f"{os.environ['RANK']}.json").write_text(json.dumps(found))


def trained_by_a_rank(folder: Path) -> dict[str, Any]:
    """Two steps of each trainer; a process has two of each group of four."""
    reward = RewardFunction(graded(judge(rule=half_known)), editor=Painter())
    rewarded = grpo(folder, reward, rows_of(scenes(2)), folder / "model", per_device_train_batch_size=2)
    preferred = dpo(folder, folder / "model")
    trained = [*rewarded.model.parameters(), *preferred.model.parameters()]
    return {
        "processes": rewarded.accelerator.num_processes,
        "logged": [entry for entry in rewarded.state.log_history if "reward" in entry],
        "reasons": list(rewarded._logs["extra"]["graded/reason"]),
        "losses": losses(preferred),
        "weights": [float(one.detach().double().sum()) for one in trained],
    }


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What both processes found."""
    folder = tmp_path_factory.mktemp("ranks")
    tiny_language_model(folder / "model", [one.instruction for one in scenes(2)])
    return found_by_both(f"{__name__}:as_a_rank", folder)


def test_both_processes_end_with_the_same_weights(ranks):
    first, second = ranks
    assert first["processes"] == second["processes"] == 2
    assert first["weights"] == second["weights"]


def test_rewards_and_metrics_are_those_of_both(ranks):
    first, second = ranks
    for one, other in zip(first["logged"], second["logged"], strict=True):
        assert one["graded/unscored"] == other["graded/unscored"]
        assert one["rewards/graded/mean"] == other["rewards/graded/mean"] < 0.5
    assert len(first["reasons"]) == 4  # of the last step


def test_dpo_goes_on(ranks):
    assert all(np.isfinite(loss) for result in ranks for loss in result["losses"])
