"""What selectors gain on the tiny editor: `python -m editcritic.benchmarks.selection`.

Held-out prompts, several seeds, a process each.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from .. import extras
from ..inputs import InputError
from ..options import at_least_one, new_file, new_picture


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="editcritic.benchmarks.selection", description=__doc__)
    parser.add_argument("--prompts", type=at_least_one, default=81, help="of each seed (default: 81)")
    parser.add_argument("--compounds", type=at_least_one, default=40, help="of each seed (default: 40)")
    parser.add_argument("--seeds", type=at_least_one, default=3, help="how many (default: 3)")
    parser.add_argument("--journal", type=Path, help="a folder, to go on from after an interruption")
    parser.add_argument("--json", type=new_file, help="write the figures there")
    parser.add_argument("--plot", type=new_picture, help="draw quality against evaluations there")
    given = parser.parse_args(arguments)
    try:
        extras.diffusers()
        if given.plot is not None:
            extras.bench("matplotlib")
    except InputError as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    from .report import figures, plot, steps_table, table
    from .study import FIRST, Work, together

    works = [Work(seed, given.prompts, given.compounds, given.journal) for seed in range(FIRST, FIRST + given.seeds)]
    with ProcessPoolExecutor(min(len(works), os.cpu_count() or 1), get_context("spawn")) as processes:
        found = list(processes.map(Work.done, works))
    study = together([part for part, _ in found])
    steps = {name: [one for _, part in found for one in part[name]] for name in found[0][1]}
    print("\n".join([*table(study), *steps_table(steps)]), flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(figures(study, steps), indent=1) + "\n", encoding="utf-8")
    if given.plot is not None:
        plot(study, given.plot)


if __name__ == "__main__":
    main()
