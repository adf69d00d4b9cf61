"""The trainer of diffusion editors in two processes of one group."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import FluxKontextPipeline

from editcritic.integrations.diffusion_rl import DiffusionConfig, DiffusionTrainer
from editcritic.integrations.diffusion_rl import diffusion_trainer as trainer
from editcritic.integrations.diffusion_rl.across_processes import batch_advantages
from editcritic.reward import EditSample, Score

from ...pipelines import kontext
from ..prepared_processes import found_by_both
from .test_diffusion_trainer import assert_close, learnt
from .test_nonfinite import broken, in_training
from .tiny_trainer import SAMPLES, SMALL, bright, lora, quiet, silent, untimed

GROUPS = 2
"""Of each process."""


def trainer_of(folder: Path, name: str, reward: Any, **settings: Any) -> DiffusionTrainer:
    pipeline = quiet(FluxKontextPipeline.from_pretrained(folder / "kontext"))
    config = DiffusionConfig(folder / name, **SMALL | {"groups": GROUPS, "save_steps": 2, **settings})
    return DiffusionTrainer(pipeline, reward, SAMPLES, config)


def uneven(samples: Sequence[EditSample]) -> list[Score]:
    """Rewards of another spread for each source; an abstention in one group, and one that failed as a whole."""
    scores = bright(samples)
    for row, (sample, score) in enumerate(zip(samples, scores, strict=True)):
        source = sample.id.partition("/")[0]
        if source == "s3":
            scores[row] = Score.failed("connection refused", cause="infrastructure")
        elif source == "s2" and not row % SMALL["group_size"]:
            scores[row] = Score.abstained("nobody knows")
        else:
            scores[row] = Score.of({"s0": 1, "s1": 30, "s2": 5}[source] * (score.value or 0.0))
    return scores


def learnt_from_uneven(folder: Path, name: str, **settings: Any) -> tuple[Any, dict[str, Any]]:
    """The gradient of a batch of uneven rewards with one standard deviation for all; its advantages and its log."""
    run = trainer_of(folder, name, uneven, scale_rewards="batch", judge_std=1e-4, max_grad_norm=1e9, **settings)
    batch = run.rollout(0)
    process = run.accelerator.process_index
    values = batch_advantages(batch, uneven(batch.samples), run.config, process, None)[0].values.tolist()
    (gradient,), log = learnt(run, batch, uneven(batch.samples))
    return gradient, {"values": values, "log": untimed([log])[0]}


def as_a_rank(folder: str) -> None:
    rank = int(os.environ["RANK"])
    Path(folder, f"{rank}.json").write_text(json.dumps(found_by(Path(folder), rank)))


def found_by(folder: Path, rank: int) -> dict[str, Any]:
    """Gradients of rows of both; two steps, in the first of which the second process has no scores, and in the second
    neither has; then three steps, in the second of which the second process learns nothing and in the
    third neither; then one more, resumed. Last, a run in which the second process has NaN.
    """
    gradient_run = trainer_of(folder, "gradient", bright, max_grad_norm=1e9)
    batch = gradient_run.rollout(0)
    (gradient,), _ = learnt(gradient_run, batch, bright(batch.samples))
    torch.save(gradient, folder / f"{rank}.gradient")
    gradient, from_uneven = learnt_from_uneven(folder, "uneven")
    torch.save(gradient, folder / f"{rank}.uneven")
    lonely_steps = iter([silent if rank else bright, silent])

    def lonely_judge(samples: Sequence[EditSample]) -> list[Score]:
        return next(lonely_steps)(samples)

    lonely = trainer_of(folder, "lonely", lonely_judge, max_steps=2, scale_rewards="batch")
    lonely.train()
    sample_ids: list[list[str]] = []

    def judge(samples: Sequence[EditSample]) -> list[Score]:
        sample_ids.append([sample.id for sample in samples])
        alike = [Score.of(0.5)] * len(samples)
        return [bright(samples), alike if rank else bright(samples), silent(samples)][len(sample_ids) - 1]

    whole = trainer_of(folder, "run", judge, max_steps=3, overlap=True)
    weights: list[str] = []

    def note(it: DiffusionTrainer, *_: Any) -> dict[str, float]:
        weights.append(digest(it))
        return {"rank": float(rank)}

    whole.callbacks = [note]
    whole.train()
    resumed = trainer_of(folder, "run", bright, max_steps=4)
    resumed.train(resume=True)
    return {
        "nan": with_nan(folder, rank),
        "processes": whole.accelerator.num_processes,
        "uneven": from_uneven,
        "lonely": untimed(lonely.log_history),
        "asked": sample_ids,
        "weights": [*weights, digest(resumed)],
        "log": untimed(whole.log_history),
        "resumed": untimed(resumed.log_history),
        "had": {row["step"]: row["ratio_deviation"] for row in whole.log_history if "ratio_deviation" in row},
    }


def with_nan(folder: Path, rank: int) -> dict[str, Any]:
    """Of a run whose second process has a row of NaN in the first step, and NaN in its gradient in all others."""
    run = trainer_of(folder, "nan", bright, max_steps=9, save_steps=1, overlap=False)
    weights = [digest(run)]
    run.callbacks = [lambda it, *_: weights.append(digest(it))]
    if rank:
        broken(run, lambda calls: calls == 2 or in_training(run, 1)(calls))
    with pytest.raises(FloatingPointError) as error:
        run.train()
    return {"weights": [*weights, digest(run)], "log": untimed(run.log_history), "error": str(error.value)}


def digest(trainer: DiffusionTrainer) -> str:
    return hashlib.sha256(b"".join(one.numpy().tobytes() for one in lora(trainer).values())).hexdigest()


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A folder with what both processes have left, and what they found."""
    folder = tmp_path_factory.mktemp("ranks")
    kontext(folder / "kontext")
    return folder, found_by_both(f"{__name__}:as_a_rank", folder)


@pytest.fixture(scope="module")
def folder(both):
    return both[0]


@pytest.fixture(scope="module")
def ranks(both):
    return both[1]


def test_both_processes_have_the_same_weights_to_the_bit_after_each_step(ranks):
    first, second = ranks
    assert first["processes"] == second["processes"] == 2
    assert first["weights"] == second["weights"]
    after_one, after_two, after_three, resumed = first["weights"]
    assert len({after_one, after_two, resumed}) == 3  # a process without a telling row stops nobody
    assert after_two == after_three  # and where none has one, nothing moves


def test_each_process_makes_pictures_of_its_own(ranks):
    for mine, theirs in zip(ranks[0]["asked"], ranks[1]["asked"], strict=True):
        assert len(mine) == len(theirs) == 3 * GROUPS
        assert not {one.split("/")[0] for one in mine} & {one.split("/")[0] for one in theirs}


def test_both_log_the_same_means(ranks):
    first, second = ranks
    assert first["log"] == second["log"]
    assert [row["rank"] for row in first["log"]] == [0.5] * 3
    assert [row["frac_reward_zero_std"] for row in first["log"]] == [0.0, 0.5, 1.0]
    assert [row["abstained"] for row in first["log"]] == [0.0, 0.0, 1.0]
    assert first["resumed"] == second["resumed"]
    assert [row["step"] for row in first["resumed"]] == [0, 1, 2, 3]
    assert first["resumed"][:2] == first["log"][:2]


def test_one_process_writes(folder):
    lines = (folder / "run" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [0, 1, 2, 3]
    assert sorted(path.name for path in (folder / "run").glob("*checkpoint*")) == ["checkpoint-2", "checkpoint-4"]


HALF = GROUPS * SMALL["group_size"]
"""The images of one of two processes."""


@pytest.fixture
def of_both(monkeypatch):
    """One process makes the images of two."""
    seed = trainer._derived_seed
    monkeypatch.setattr(trainer, "_derived_seed", lambda run, step, _, row: seed(run, step, row // HALF, row % HALF))


def test_the_gradient_is_that_of_one_process_with_all_groups(folder, of_both):
    gradients = [torch.load(folder / f"{rank}.gradient") for rank in range(2)]
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))
    alone = trainer_of(folder, "alone", bright, groups=2 * GROUPS, max_grad_norm=1e9, rollout_batch_size=HALF)
    batch = alone.rollout(0)
    (right,), _ = learnt(alone, batch, bright(batch.samples))
    assert_close(gradients[0], right)


def test_one_standard_deviation_is_that_of_the_rows_of_all_processes(folder, ranks, of_both):
    gradient, alone = learnt_from_uneven(folder, "alone", groups=2 * GROUPS, rollout_batch_size=HALF)
    assert [value for rank in ranks for value in rank["uneven"]["values"]] == alone["values"]
    assert_close(torch.load(folder / "0.uneven"), gradient)
    parts = alone["values"][:HALF], alone["values"][HALF:]
    assert [any(values) for values in parts] == [True, True]
    # Each process by itself would have a spread of its own.
    spreads = [float(np.std([value for value in values if value], ddof=1)) for values in parts]
    assert max(spreads) > 1.5 * min(spreads)


def test_the_log_is_that_of_the_rows_of_all_processes(folder, ranks, of_both):
    _, alone = learnt_from_uneven(folder, "alone", groups=2 * GROUPS, rollout_batch_size=HALF)
    first, second = (rank["uneven"]["log"] for rank in ranks)
    assert first == second
    assert first == pytest.approx(alone["log"], rel=1e-3, abs=1e-6)
    assert first["unscored"] == 0.25
    assert first["abstained"] == pytest.approx(1 / 12)
    assert first["reward"] > 1  # of nine rows that have one


def test_nan_in_one_process_is_left_out_and_skipped_and_ends_the_run_in_both(ranks, folder):
    first, second = (rank["nan"] for rank in ranks)
    assert first == second
    before, *after = first["weights"]
    assert before not in after
    assert after == [after[0]] * 4
    assert [row["frac_nonfinite"] for row in first["log"]] == pytest.approx([1 / 12, 0, 0])
    assert [row["skipped_updates"] for row in first["log"]] == [0, 1, 1]
    assert "step 3, mini-batch 0: NaN or infinite is the loss of s" in first["error"]
    assert sorted(path.name for path in (folder / "nan").glob("checkpoint-*")) == ["checkpoint-2", "checkpoint-3"]


def test_a_process_without_a_score_keeps_nobody_waiting(ranks):
    first, second = (rank["lonely"] for rank in ranks)
    assert first == second
    assert [row["abstained"] for row in first] == [0.5, 1.0]
    assert "reward" in first[0]
    assert "reward" not in first[1]
