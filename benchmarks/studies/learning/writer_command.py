"""Does our TRL reward teach a language model? `python -m editcritic.benchmarks.learning.writer`.

A tiny writer splits and rewrites compound instructions for an editor (`writer_world`, `writer_hand`), and is trained by
GRPO on the reward of the pictures that come of it, and on two rewards that see its words only (`writer_study`).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from .. import extras
from ..inputs import InputError
from ..options import at_least_one, new_file, new_picture


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="editcritic.benchmarks.learning.writer", description=__doc__)
    parser.add_argument("--seeds", type=at_least_one, default=3, help="how many (default: 3)")
    parser.add_argument("--steps", type=at_least_one, default=80, help="of each training loop (default: 80)")
    parser.add_argument("--processes", type=at_least_one, default=1, help="seeds side by side (default: 1)")
    parser.add_argument("--json", type=new_file, help="write the figures and curves there")
    parser.add_argument("--plot", type=new_picture, help="draw the curves there")
    given = parser.parse_args(arguments)
    try:
        extras.trl()
        if given.plot is not None:
            extras.bench("matplotlib")
    except InputError as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    from .writer_report import figures, plot, table
    from .writer_study import Work

    works = [Work(seed, steps=given.steps) for seed in range(given.seeds)]
    with ProcessPoolExecutor(given.processes, get_context("spawn")) as processes:
        outcomes = list(processes.map(Work.done, works))
    print("\n".join(table(outcomes)), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(figures(outcomes), indent=1) + "\n", encoding="utf-8")
    if given.plot is not None:
        plot(outcomes, given.plot)


if __name__ == "__main__":
    main()
