"""Compares selectors on the tiny editor: `python -m studies.selection`.

Held-out prompts, several seeds, one process each.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from editcritic.benchmarks.common import optional_imports
from editcritic.benchmarks.common.argument_types import at_least_one, new_image_file


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="studies.selection", description=__doc__)
    parser.add_argument("--prompts", type=at_least_one, default=81, help="of each seed (default: 81)")
    parser.add_argument("--compounds", type=int, default=40, help="of each seed; 0 for none (default: 40)")
    parser.add_argument("--seeds", type=at_least_one, default=3, help="number of seeds (default: 3)")
    parser.add_argument("--first-seed", type=at_least_one, help="the others follow it (default: the first reported)")
    parser.add_argument("--selectors", nargs="+", help="names of the selectors for prompts (default: all)")
    parser.add_argument("--calibration", type=Path, help="file of the calibration of previews; recorded if missing")
    parser.add_argument("--plot", type=new_image_file, help="file for a plot of quality against evaluations")
    options = parser.parse_args(arguments)
    optional_imports.require_diffusers()
    if options.plot is not None:
        optional_imports.bench_library("matplotlib")
    from editcritic.verifiers.selectors import PreviewCalibration
    from studies.selection.selection_study import plot, seeds_table, steps_table, table

    from .selection_study import (
        CALIBRATION_SEEDS,
        FIRST_REPORTED_SEED,
        PREVIEW_NAMES,
        CalibrationSeedRun,
        SelectionSeedRun,
        merge_calibrations,
        merge_studies,
        selector_names,
    )

    if unknown := [name for name in options.selectors or () if name not in selector_names()]:
        parser.error(f"--selectors {unknown[0]!r} is none of {', '.join(map(repr, selector_names()))}")
    first = FIRST_REPORTED_SEED if options.first_seed is None else options.first_seed
    seeds = range(first, first + options.seeds)
    if overlap := [seed for seed in seeds if seed in CALIBRATION_SEEDS]:
        parser.error(f"seed {overlap[0]} is one of the calibration's: choose others with --first-seed")
    with ProcessPoolExecutor(min(len(seeds), os.cpu_count() or 1), get_context("spawn")) as processes:
        calibration = None
        if options.selectors is not None and set(options.selectors).isdisjoint(PREVIEW_NAMES.values()):
            pass
        elif options.calibration is not None and options.calibration.exists():
            calibration = PreviewCalibration.load(options.calibration)
        else:
            runs = [CalibrationSeedRun(seed, options.prompts) for seed in CALIBRATION_SEEDS]
            calibration = merge_calibrations(list(processes.map(CalibrationSeedRun.run, runs)))
            if options.calibration is not None:
                calibration.save(options.calibration)
        seed_runs = [
            SelectionSeedRun(seed, options.prompts, options.compounds, calibration, options.selectors or ())
            for seed in seeds
        ]
        results = list(processes.map(SelectionSeedRun.run, seed_runs))
    study = merge_studies([part for part, _ in results])
    steps = {name: [row for _, part in results for row in part[name]] for name in results[0][1]}
    print("\n".join([*table(study), *seeds_table(study), *steps_table(steps)]), flush=True)
    if options.plot is not None:
        plot(study, options.plot)


if __name__ == "__main__":
    main()
