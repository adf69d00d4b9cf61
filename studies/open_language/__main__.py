"""`any-edit` with nothing given but a source, an edit and a sentence:
`python -m studies.open_language --seeds 61 62 63 --cases 2000`.

Plans are made by `RulePlanner`, everything else by experts that see pixels only. Seeds up to 49 were used during
development. Exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from editcritic.benchmarks.common import optional_imports
from editcritic.benchmarks.common.argument_types import at_least_one

from .open_report import checks, markdown, measure_best_of_n
from .study import PLANS, measure


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="studies.open_language", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[61, 62, 63], help="seeds (default: 61 62 63)")
    parser.add_argument("--cases", type=at_least_one, default=2000, help="edits, over all seeds (default: 2000)")
    parser.add_argument(
        "--plans", choices=PLANS, default="rules", help="`hand`: by the author of the sentences (default: rules)"
    )
    parser.add_argument("--processes", type=at_least_one, default=1, help="processes (default: 1)")
    parser.add_argument(
        "--best-of", type=Path, metavar="FOLDER", help="also select with the tiny editor; a folder to resume from"
    )
    parser.add_argument("--best-of-seeds", type=int, nargs="+", default=[10, 11, 12], help="(default: 10 11 12)")
    parser.add_argument("--prompts", type=at_least_one, default=81, help="of each of these seeds (default: 81)")
    options = parser.parse_args(arguments)
    if options.best_of is not None:
        optional_imports.require_diffusers()
    study = measure(options.seeds, options.cases, options.plans, options.processes)
    best_of = None
    if options.best_of is not None:
        best_of = measure_best_of_n(options.best_of_seeds, options.prompts, options.best_of)
    print(markdown(study, best_of))
    parser.exit(int(not all(check.passed for check in checks(study))))


if __name__ == "__main__":
    main()
