"""Samples, settings and rewards of a trainer of a tiny Kontext, and what tests compare of it."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch

from editcritic.integrations.diffusion_rl.diffusion_trainer import DiffusionTrainer
from editcritic.reward import EditSample, Score
from editcritic.verifiers import edit_request

from ..diffusers.editing import KONTEXT, picture

WORDS = ("Remove red star", "Add cat", "Change the color of blue circle to green", "Add dog")
SAMPLES = [edit_request(words, picture(number), id=f"s{number}") for number, words in enumerate(WORDS)]
CALL = {"num_inference_steps": 3, **KONTEXT}
SMALL: dict[str, Any] = {
    "max_steps": 2, "groups": 2, "group_size": 3, "lora_rank": 2, "lora_alpha": 4, "learning_rate": 1e-2,
    "pipeline_kwargs": CALL,
}  # fmt: skip


def worth(sample: EditSample) -> float:
    """How bright the image is."""
    return float(sample.edited.pixels.mean()) / 255


def bright(samples: Sequence[EditSample]) -> list[Score]:
    return [Score.of(worth(sample)) for sample in samples]


def silent(samples: Sequence[EditSample]) -> list[Score]:
    return [Score.abstained("nobody knows") for _ in samples]


def quiet(pipeline: Any) -> Any:
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


def lora(trainer: DiffusionTrainer) -> dict[str, torch.Tensor]:
    return {
        name: weight.detach().clone() for name, weight in trainer.denoiser.named_parameters() if weight.requires_grad
    }


def same(some: dict[str, torch.Tensor], others: dict[str, torch.Tensor]) -> bool:
    return list(some) == list(others) and all(torch.equal(some[name], others[name]) for name in some)


def untimed(log: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    return [{name: value for name, value in row.items() if not name.startswith("seconds/")} for row in log]


def killed_after(calls: int) -> Callable[[Sequence[EditSample]], list[Score]]:
    counts: Counter[str] = Counter()

    def judge(samples: Sequence[EditSample]) -> list[Score]:
        counts.update(["calls"])
        if counts["calls"] > calls:
            raise KeyError("the judge is down")
        return bright(samples)

    return judge
