"""Compares selectors on the tiny editor: `python -m editcritic.benchmarks.studies.selection`.

Held-out prompts, several seeds, one process each.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from ...common import optional_imports
from ...common.argument_types import at_least_one, new_file, new_image_file
from ...common.errors import InputError


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="editcritic.benchmarks.studies.selection", description=__doc__)
    parser.add_argument("--prompts", type=at_least_one, default=81, help="of each seed (default: 81)")
    parser.add_argument("--compounds", type=at_least_one, default=40, help="of each seed (default: 40)")
    parser.add_argument("--seeds", type=at_least_one, default=3, help="number of seeds (default: 3)")
    parser.add_argument("--journal", type=Path, help="folder to resume from after an interruption")
    parser.add_argument("--json", type=new_file, help="file to write the figures to")
    parser.add_argument("--plot", type=new_image_file, help="file for a plot of quality against evaluations")
    options = parser.parse_args(arguments)
    try:
        optional_imports.require_diffusers()
        if options.plot is not None:
            optional_imports.bench_library("matplotlib")
    except InputError as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    from .selection_report import figures, plot, steps_table, table
    from .selection_study import FIRST_REPORTED_SEED, SelectionSeedRun, merge_studies

    seed_runs = [
        SelectionSeedRun(seed, options.prompts, options.compounds, options.journal)
        for seed in range(FIRST_REPORTED_SEED, FIRST_REPORTED_SEED + options.seeds)
    ]
    with ProcessPoolExecutor(min(len(seed_runs), os.cpu_count() or 1), get_context("spawn")) as processes:
        results = list(processes.map(SelectionSeedRun.run, seed_runs))
    study = merge_studies([part for part, _ in results])
    steps = {name: [row for _, part in results for row in part[name]] for name in results[0][1]}
    print("\n".join([*table(study), *steps_table(steps)]), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(figures(study, steps), indent=1) + "\n", encoding="utf-8")
    if options.plot is not None:
        plot(study, options.plot)


if __name__ == "__main__":
    main()
