"""Trains the tiny editor from scratch: `make sceneedit-editor`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from editcritic.benchmarks.common import optional_imports
from editcritic.benchmarks.common.argument_types import at_least_one

_THREADS = 2  # as for the committed weights: sums in floating point depend on it


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="studies.tiny_editor.train", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder for the pipeline (default: the package's)")
    parser.add_argument("--seed", type=int, default=0, help="of the examples and of the training (default: 0)")
    parser.add_argument("--steps", type=at_least_one, help="training steps (default: those of the package's editor)")
    parser.add_argument(
        "--examples", type=at_least_one, help="training examples (default: those of the package's editor)"
    )
    options = parser.parse_args(arguments)
    optional_imports.require_diffusers()

    import torch

    from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import PRETRAINED_PATH, untrained_pipeline

    from .trainer import TrainingConfig, TrainingData, train_editor

    defaults, out = TrainingConfig(), options.out or PRETRAINED_PATH
    config = TrainingConfig(
        seed=options.seed, steps=options.steps or defaults.steps, examples=options.examples or defaults.examples
    )
    torch.set_num_threads(_THREADS)
    torch.manual_seed(config.seed)
    began = time.monotonic()
    data = TrainingData.of(config.examples, config.seed)
    print(f"{config.examples} examples rendered in {time.monotonic() - began:.0f} s", flush=True)
    pipeline, losses = untrained_pipeline(), list[float]()
    for step, loss in train_editor(pipeline, data, config):
        losses.append(loss)
        if (step + 1) % 200 == 0:
            recent = sum(losses[-200:]) / 200
            progress = f"step {step + 1} of {config.steps}, loss {recent:.4f}, {time.monotonic() - began:.0f} s"
            print(progress, flush=True)
    pipeline.transformer.half()  # on disk; `load_pretrained` loads full precision
    pipeline.save_pretrained(out)
    size = sum(file.stat().st_size for file in out.rglob("*.safetensors")) / 1e6
    print(f"{out}: {size:.1f} MB in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
