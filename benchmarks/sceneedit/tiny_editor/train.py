"""Teaches the tiny editor from nothing: `make sceneedit-editor`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from ... import extras
from ...inputs import InputError
from ...options import at_least_one

_THREADS = 2  # as many as the editor that is committed was taught with: sums come out the same


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="editcritic.benchmarks.sceneedit.learned.train", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder for the pipeline (default: the package's)")
    parser.add_argument("--seed", type=int, default=0, help="of the lessons and of the training (default: 0)")
    parser.add_argument("--steps", type=at_least_one, help="default: as many as the package's editor was taught in")
    parser.add_argument("--lessons", type=at_least_one, help="default: as many as the package's editor was taught with")
    given = parser.parse_args(arguments)
    if given.out is not None:
        try:
            given.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            parser.error(f"argument --out: {given.out} cannot be a folder: {error.strerror}")
    try:
        extras.diffusers()
    except InputError as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")

    import torch

    from .pipeline import TAUGHT, untaught
    from .teaching import Settings, Taught, teach

    usual, out = Settings(), given.out or TAUGHT
    settings = Settings(seed=given.seed, steps=given.steps or usual.steps, lessons=given.lessons or usual.lessons)
    torch.set_num_threads(_THREADS)
    torch.manual_seed(settings.seed)
    began = time.monotonic()
    taught = Taught.of(settings.lessons, settings.seed)
    print(f"{settings.lessons} lessons drawn in {time.monotonic() - began:.0f} s", flush=True)
    pipeline, losses = untaught(), list[float]()
    for step, loss in teach(pipeline, taught, settings):
        losses.append(loss)
        if (step + 1) % 200 == 0:
            recent = sum(losses[-200:]) / 200
            said = f"step {step + 1} of {settings.steps}, loss {recent:.4f}, {time.monotonic() - began:.0f} s"
            print(said, flush=True)
    pipeline.transformer.half()  # on disk; it is loaded in full precision
    pipeline.save_pretrained(out)
    size = sum(file.stat().st_size for file in out.rglob("*.safetensors")) / 1e6
    print(f"{out}: {size:.1f} MB in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
