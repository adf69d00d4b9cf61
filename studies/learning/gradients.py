"""Measures the noise of a gradient: `python -m studies.learning.gradients --set
objective='"nft"'`.

The pretrained tiny editor edits training examples. The gradient of one half of the edits is compared with that of the
other half: a cosine of 1 is the same direction, 0 is noise.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from editcritic.benchmarks.common import optional_imports
from editcritic.benchmarks.common.argument_types import at_least_one


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="studies.learning.gradients", description=__doc__)
    parser.add_argument("--groups", type=at_least_one, default=48, help="groups of 8 images in each half (default: 48)")
    parser.add_argument("--seed", type=int, default=0, help="of examples and noise (default: 0)")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=JSON", help="fields of DiffusionConfig")
    options = parser.parse_args(arguments)
    optional_imports.require_diffusers()
    optional_imports.require_trl()  # brings peft
    overrides = {name: json.loads(value) for name, _, value in (setting.partition("=") for setting in options.set)}
    similarity = cosine(options.groups, options.seed, overrides)
    print(f"cosine of two halves of {8 * options.groups} images: {similarity:.3f}", flush=True)


def cosine(groups: int, seed: int, settings: Mapping[str, Any]) -> float:
    """Cosine of the gradients of `groups` groups of 8 images and of as many others. settings: of `DiffusionConfig`."""
    import torch

    from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
    from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import load_pretrained
    from editcritic.integrations.diffusion_rl import DiffusionConfig, DiffusionTrainer
    from editcritic.reward import Reward
    from studies.learning.editor_worker import TrainingEdits, following

    with tempfile.TemporaryDirectory() as folder:
        defaults = {"groups": 1, "group_size": 8, "max_grad_norm": 1e9, "learning_rate": 0.0, "seed": seed}
        config = DiffusionConfig(folder, **{**defaults, **settings})
        trainer = DiffusionTrainer(load_pretrained(), Reward(following(), scene_experts()), TrainingEdits(seed), config)
        halves: list[list[Any]] = [[], []]

        def kept(optimizer: Any, *_: Any) -> None:
            grads = [
                torch.zeros_like(first_gradient) if first_gradient.grad is None else first_gradient.grad
                for first_gradient in trainer.weights
            ]
            halves[number % 2].append(torch.cat([grad.flatten() for grad in grads]))

        trainer.optimizer.register_step_pre_hook(kept)
        for number in range(2 * groups):
            batch = trainer.rollout(number)
            trainer.update(batch, trainer.reward(batch.samples))
        first_gradient, second_gradient = (sum(half, torch.zeros(())) for half in halves)
        return float(torch.nn.functional.cosine_similarity(first_gradient.flatten(), second_gradient.flatten(), dim=0))


if __name__ == "__main__":
    main()
