"""GRPO with the TRL reward on a language model: `python -m studies.learning.writer_command`.

A tiny writer splits and rewrites compound instructions for an editor (`writer_tasks`, `rule_based_editor`). It is
trained by GRPO on the reward of the resulting images, and on two control rewards of its text alone (`writer_study`).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from editcritic.benchmarks.common import optional_imports
from editcritic.benchmarks.common.argument_types import at_least_one, new_image_file


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="studies.learning.writer_command", description=__doc__)
    parser.add_argument("--seeds", type=at_least_one, default=3, help="number of seeds (default: 3)")
    parser.add_argument("--steps", type=at_least_one, default=80, help="steps of each training loop (default: 80)")
    parser.add_argument("--processes", type=at_least_one, default=1, help="seeds in parallel (default: 1)")
    parser.add_argument("--plot", type=new_image_file, help="file for a plot of the curves")
    options = parser.parse_args(arguments)
    optional_imports.require_trl()
    if options.plot is not None:
        optional_imports.bench_library("matplotlib")
    from studies.learning.writer_study import plot, table

    from .writer_study import WriterSeedRun

    seed_runs = [WriterSeedRun(seed, steps=options.steps) for seed in range(options.seeds)]
    with ProcessPoolExecutor(options.processes, get_context("spawn")) as processes:
        outcomes = list(processes.map(WriterSeedRun.run, seed_runs))
    print("\n".join(table(outcomes)), flush=True)
    if options.plot is not None:
        plot(outcomes, options.plot)


if __name__ == "__main__":
    main()
