"""How much of a gradient is noise: `python -m editcritic.benchmarks.learning.gradients --set objective='"nft"'`.

The tiny editor makes pictures for lessons, all with the weights it comes with. The gradient of one half of them is
compared with that of the other half: a cosine of 1 is the same direction, 0 is noise.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from .. import extras
from ..inputs import InputError
from ..options import at_least_one


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="editcritic.benchmarks.learning.gradients", description=__doc__)
    parser.add_argument("--groups", type=at_least_one, default=48, help="of 8 pictures, in each half (default: 48)")
    parser.add_argument("--seed", type=int, default=0, help="of lessons and noise (default: 0)")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=JSON", help="settings of DiffusionConfig")
    given = parser.parse_args(arguments)
    try:
        extras.diffusers()
        extras.trl()  # brings peft
    except InputError as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    try:
        said = {name: json.loads(value) for name, _, value in (one.partition("=") for one in given.set)}
        found = cosine(given.groups, given.seed, said)
    except (TypeError, ValueError) as error:
        parser.exit(2, f"{parser.prog}: error: --set: {error}\n")
    print(f"cosine of two halves of {8 * given.groups} pictures: {found:.3f}", flush=True)


def cosine(groups: int, seed: int, settings: Mapping[str, Any]) -> float:
    """Of the gradients of so many groups of 8 pictures and of as many others. See `DiffusionConfig` for settings."""
    import torch

    from ...integrations.diffusion_rl import DiffusionConfig, DiffusionTrainer
    from ...reward import Reward
    from ..sceneedit.critics import experts
    from ..sceneedit.learned.pipeline import load
    from .editing import Lessons
    from .editor_rewards import following

    with tempfile.TemporaryDirectory() as folder:
        same = {"groups": 1, "group_size": 8, "max_grad_norm": 1e9, "learning_rate": 0.0, "seed": seed}
        config = DiffusionConfig(folder, **{**same, **settings})
        trainer = DiffusionTrainer(load(), Reward(following(), experts()), Lessons(seed), config)
        halves: list[list[Any]] = [[], []]

        def kept(optimizer: Any, *_: Any) -> None:
            grads = [torch.zeros_like(one) if one.grad is None else one.grad for one in trainer.weights]
            halves[number % 2].append(torch.cat([grad.flatten() for grad in grads]))

        trainer.optimizer.register_step_pre_hook(kept)
        for number in range(2 * groups):
            batch = trainer.rollout(number)
            trainer.learn(batch, trainer.reward(batch.samples))
        one, other = (sum(half, torch.zeros(())) for half in halves)
        return float(torch.nn.functional.cosine_similarity(one.flatten(), other.flatten(), dim=0))


if __name__ == "__main__":
    main()
