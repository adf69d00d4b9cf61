"""Real trainers on tiny models, a few steps each, with what they are given."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from editcritic.integrations.trl.preferences import make_preference_pairs
from editcritic.integrations.trl.reward_function import Rollout
from editcritic.reward import EditSample, Image, Score
from editcritic.reward.queries import Abstention, Measurement

from ..tiny_language_model import tiny_language_model
from ..verifiers.numpy_editor import read, scenes


def asking(*completions, **columns):
    """A call as a trainer makes it: one scene, one request, so many completions."""
    count = len(completions)
    (scene,) = scenes(1)
    columns = {"instruction": ["make it blue"] * count, "source": [scene.source.pil()] * count} | columns
    return {"prompts": ["say it better"] * count, "completions": list(completions), **columns}


def sample_of(rollout: Rollout) -> EditSample:
    assert rollout.sample is not None
    return rollout.sample


def half_known(query):
    """Knows only images of which the first pixel is dark."""
    value = read(query.image)
    return Measurement(value) if value < 0.5 else Abstention("too bright")


def rollouts(*values: float | None, group: str = "g", texts: tuple[str, ...] = ()) -> list[Rollout]:
    (source,) = scenes(1)
    result = []
    for number, value in enumerate(values):
        shade = Image.of(np.full((8, 8, 3), number, np.uint8))
        sample = replace(source, id=f"{group}/{number}", group=group, edited=shade)
        score = Score.abstained("unknown") if value is None else Score.of(value)
        result.append(Rollout(sample, score, (texts[number],) if texts else (), prompt="Say it: "))
    return result


def rows_of(samples: list[EditSample]) -> Any:
    from datasets import Dataset

    return Dataset.from_list(
        [{"prompt": f"Say it better: {sample.instruction}\n", "instruction": sample.instruction,
          "source": sample.source.pil()} for sample in samples]
    )  # fmt: skip


def grpo(folder: Path, reward: Any, rows: Any, model: Path | None = None, **settings: Any) -> Any:
    from trl import GRPOConfig, GRPOTrainer

    model = model or tiny_language_model(folder / "model", rows["prompt"])
    config = GRPOConfig(
        output_dir=str(folder / "out"), use_cpu=True, bf16=False, max_steps=2, num_generations=4,
        max_completion_length=6, logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True,
        **{"per_device_train_batch_size": 4, "learning_rate": 1e-2, **settings},
    )  # fmt: skip
    trainer = GRPOTrainer(str(model), reward_funcs=[reward], args=config, train_dataset=rows)
    trainer.train()
    return trainer


def written(count: int = 8) -> Any:
    """Text pairs in which every other chosen one is longer."""
    from datasets import Dataset

    all_rollouts = []
    for number in range(count):
        texts = ("make it blue", "make it a little bluer")[:: 1 if number % 2 else -1]
        all_rollouts += rollouts(*((0.9, 0.2) if number % 4 < 2 else (0.2, 0.9)), group=f"{number}", texts=texts)
    rows = make_preference_pairs(all_rollouts).to_text_rows()
    assert len(rows) == count
    return Dataset.from_list(rows)


def settings(folder: Path) -> dict[str, Any]:
    return {
        "output_dir": str(folder / "out"), "use_cpu": True, "bf16": False, "max_steps": 2, "logging_steps": 1,
        "per_device_train_batch_size": 2, "save_strategy": "no", "report_to": [], "disable_tqdm": True,
    }  # fmt: skip


def dpo(folder: Path, model: Path | None = None) -> Any:
    from trl import DPOConfig, DPOTrainer

    rows = written()
    model = model or tiny_language_model(folder / "model", rows["chosen"])
    trainer = DPOTrainer(str(model), args=DPOConfig(**settings(folder)), train_dataset=rows)
    trainer.train()
    return trainer


def losses(trainer: Any) -> list[float]:
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
