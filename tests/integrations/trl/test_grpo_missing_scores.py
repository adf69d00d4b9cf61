"""The lines of docs/trainers/trl.md in TRL's own trainer: missing scores, batches, ranges, and a killed trainer."""

import itertools
import json
import os
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editcritic.integrations.trl import RewardFunction
from editcritic.reward.queries import Rate

from ...tiny_language_model import tiny_language_model
from ..trainers.killed_trainer import killed_and_restarted
from ..trainers.trainer_cases import Batch, Judge, advantages_without, batch, check_log, documented, served, values

EDITS = batch()
REWARD = 'RewardFunction("http://127.0.0.1:8321", editor=editor)'
EPSILON = 1e-4  # that TRL adds to a standard deviation
FOLDER = "EDITCRITIC_TEST_TRAINER"  # of a trainer in a child process


def rows_of(edits: Batch) -> Any:
    from datasets import Dataset

    rows = range(0, len(edits.prompts), edits.group_size)
    return Dataset.from_list(
        [
            {
                "prompt": f"Edit {row}: {edits.prompts[row]}",
                "instruction": edits.prompts[row],
                "source": edits.sources[row].pil(),
            }
            for row in rows
        ]
    )


def decoder(pictures: Sequence[Any]) -> Callable[..., Any]:
    """A `decode_image` by which completion k of a step is picture k, so that a test knows which ones fail."""
    following = itertools.cycle(pictures)
    return lambda completion, completion_ids, row: next(following)


def apply_patch(lines: str) -> str:
    kept = [line[1:] for line in lines.splitlines() if not line.startswith("-")]
    return textwrap.dedent("\n".join(kept))


def trained(folder: Path, edits: Batch, reward: str, names: dict[str, Any], **settings: Any) -> Any:
    """A trainer after its steps, from the documented script with another line for the reward."""
    from trl import GRPOConfig

    rows = rows_of(edits)
    config = GRPOConfig(
        output_dir=str(folder / "out"), use_cpu=True, bf16=False, num_generations=edits.group_size,
        max_completion_length=4, logging_steps=1, report_to=[], disable_tqdm=True, shuffle_dataset=False,
        **{"per_device_train_batch_size": len(edits.prompts), "max_steps": 1, "save_strategy": "no", **settings},
    )  # fmt: skip
    script = apply_patch(documented("TRL", "diff")[0])
    assert REWARD in script
    model = tiny_language_model(folder / "model", rows["prompt"])
    scope = {"model": str(model), "config": config, "rows": rows, **names}
    exec(script.replace(REWARD, reward), scope)
    trainer = scope["trainer"]
    trainer.train(resume_from_checkpoint=(folder / "out" / "checkpoint-1").exists())
    return trainer


IN_PROCESS = "RewardFunction(judge.reward(on_failures='none'), decode_image=decode_image, outage_timeout_s=0)"


def logged(trainer: Any) -> tuple[list[float], list[float], dict[str, float]]:
    (rewards,) = trainer._logs["rewards"].values()
    entry = next(entry for entry in trainer.state.log_history if "reward" in entry)
    assert np.isfinite(entry["loss"])
    return [*rewards], [*trainer._logs["advantages"]], entry


@pytest.mark.parametrize(("scale", "of_group"), [("group", True), ("batch", False), ("none", None)])
def test_a_missing_score_changes_no_other_advantage_than_its_absence_does(scale, of_group, tmp_path):
    judge = Judge(failing=Judge.always(EDITS.edited[5]), abstaining={EDITS.edited[10].digest})
    names = {"judge": judge, "decode_image": decoder(EDITS.edited)}
    rewards, advantages, entry = logged(trained(tmp_path, EDITS, IN_PROCESS, names, scale_rewards=scale))
    expected = [0.0 if row == 10 else value for row, value in enumerate(values(EDITS))]
    assert np.isnan(rewards[5])
    assert [rewards[row] for row in range(16) if row != 5] == pytest.approx([*expected[:5], *expected[6:]])
    assert advantages == pytest.approx(advantages_without(expected, [5], of_group, 1, EPSILON), abs=1e-5)
    assert advantages[5] == 0
    assert entry["reward"] == pytest.approx(np.mean([*expected[:5], *expected[6:]]))
    check_log("TRL", entry)
    followed = [value for row, value in enumerate(values(EDITS)) if row not in (5, 10)]
    assert entry["parted/following"] == pytest.approx(np.mean(followed))
    assert entry["parted/judge_seconds"] > 0


def test_nothing_scored_leaves_the_policy_as_it_is(tmp_path: Path) -> None:
    judge = Judge(failing=Judge.always(*EDITS.edited))
    names = {"judge": judge, "decode_image": decoder(EDITS.edited)}
    _, advantages, entry = logged(trained(tmp_path, EDITS, IN_PROCESS, names))
    assert advantages == [0.0] * 16
    assert (entry["grad_norm"], entry["parted/unscored"]) == (0.0, 1.0)


def resumed_steps(url: str) -> list[list[float]]:
    """Two steps with a checkpoint after the first; from there if there is one. The rewards that it has seen."""
    folder = Path(os.environ[FOLDER])
    seen = folder / "rewards.json"
    steps: list[list[float]] = json.loads(seen.read_text()) if seen.exists() else []
    inner = RewardFunction(url, decode_image=shade, name="parted")

    def reward(**call: Any) -> list[float | None]:
        got = inner(**call)
        steps.append([value for value in got if value is not None])
        seen.write_text(json.dumps(steps))
        return got

    settings = {"max_steps": 2, "save_strategy": "steps", "save_steps": 1, "per_device_train_batch_size": 4}
    trainer = trained(folder, batch(groups=2), "remote", {"remote": reward}, **settings)
    assert trainer.state.global_step == 2
    return steps


def shade(completion: Any, completion_ids: Sequence[int], row: Any) -> Any:
    """A picture that the policy's tokens determine: a step that is repeated has the same ones only with its noise."""
    return np.resize(np.array(completion_ids), (8, 8, 3)).astype(np.uint8)


def second_group(query: Rate) -> bool:
    return query.prompt == batch(groups=2).prompts[4]


def test_a_killed_run_goes_on_from_its_checkpoint_with_the_same_rewards(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path / "straight"))
    (tmp_path / "straight").mkdir()
    (tmp_path / "killed").mkdir()
    whole = Judge()
    with served(whole.reward()) as url:
        uninterrupted = resumed_steps(url)
    monkeypatch.setenv(FOLDER, str(tmp_path / "killed"))
    steps, asked = killed_and_restarted(f"{__name__}:resumed_steps", Judge(), hold=second_group)
    assert steps == uninterrupted
    assert [len(step) for step in steps] == [4, 4]
    assert asked == sum(whole.batches)
