"""Every installed metric compared with the ground truth of synthetic edits: `python -m studies.validity`.

    python -m studies.validity --num-cases 200 --reward edival-if --out validity.html

Exit code 1 if a check fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.benchmarks.common.terminal import progress_bar, render
from editcritic.reward import SpecError, build

_SIZE = 64


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="studies.validity", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--num-cases", type=int, default=2000, help="edits with known ground truth, 8 or more")
    parser.add_argument("--seed", type=int, default=0, help="of scenes, pairs and noise")
    parser.add_argument("--image-size", type=int, default=_SIZE, help="side in pixels, 32 or more")
    parser.add_argument("--out", type=Path, default=Path("validity.html"), help="report file (HTML)")
    parser.add_argument("--reward", action="append", default=[], help="only this reward; repeatable (default: all)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="worker processes for experts")
    parser.add_argument("--no-noise-sweep", action="store_true", help="leave out the comparison with noisy experts")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    words = ["python", "-m", "studies.validity", "--num-cases", str(options.num_cases), "--seed", str(options.seed)]
    if options.image_size != _SIZE:
        words += ["--image-size", str(options.image_size)]
    for spec in options.reward:
        words += ["--reward", spec]
    command = shlex.join([*words, *(["--no-noise-sweep"] if options.no_noise_sweep else [])])
    try:
        for spec in options.reward:
            build(spec)  # invalid specs fail before the work
        for library in ("scipy.stats", "matplotlib"):
            bench_library(library)
    except (InputError, SpecError) as error:
        parser.exit(2, f"{parser.prog}: error: {error}\n")
    from .validity_report import terminal_tables, timing_summary, to_json, write_html
    from .validity_run import progress_total, run

    noise = not options.no_noise_sweep
    options.out.touch()
    with progress_bar(progress_total(options.num_cases, noise), "comparing") as (step, _):
        report = run(
            options.num_cases,
            options.seed,
            size=options.image_size,
            specs=options.reward,
            noise=noise,
            processes=options.processes,
            step=step,
        )
    write_html(options.out, report, command)
    if options.json:
        print(json.dumps({**to_json(report, command), "exit_code": report.exit_code, "report": str(options.out)}))
    else:
        render(terminal_tables(report))
        print(f"\n{timing_summary(report.seconds)}; the report is {options.out}")
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
