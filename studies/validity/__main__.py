"""Every installed metric compared with the ground truth of synthetic edits: `python -m studies.validity`.

    python -m studies.validity --num-cases 200 --reward edival-if --out validity.html

Exit code 1 if a check fails.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.benchmarks.common.terminal import render

from .validity_report import terminal_tables, write_html
from .validity_run import run


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="studies.validity", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--num-cases", type=int, default=2000, help="edits with known ground truth, 8 or more")
    parser.add_argument("--seed", type=int, default=0, help="of scenes, pairs and noise")
    parser.add_argument("--image-size", type=int, default=64, help="side in pixels, 32 or more")
    parser.add_argument("--out", type=Path, default=Path("validity.html"), help="report file (HTML)")
    parser.add_argument("--reward", action="append", default=[], help="only this reward; repeatable (default: all)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="worker processes for experts")
    parser.add_argument("--no-noise-sweep", action="store_true", help="leave out the comparison with noisy experts")
    options = parser.parse_args(arguments)
    for library in ("scipy.stats", "matplotlib"):
        bench_library(library)  # what is missing is told before the work
    options.out.touch()
    result = run(
        options.num_cases,
        options.seed,
        size=options.image_size,
        specs=options.reward,
        noise=not options.no_noise_sweep,
        processes=options.processes,
    )
    given = sys.argv[1:] if arguments is None else arguments
    write_html(options.out, result, shlex.join(["python", "-m", "studies.validity", *given]))
    for table in terminal_tables(result):
        render(table)
    print(f"\nthe report is {options.out}")
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
