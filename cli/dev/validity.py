"""`editcritic dev validity`: every installed metric compared with the ground truth of synthetic edits."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from ...benchmarks.common.terminal import echo, exit_code_command, print_json, progress_bar, render
from ..options import Json

_SIZE = 64


@exit_code_command
def validity(
    num_cases: Annotated[
        int, typer.Option("--num-cases", min=8, help="Number of edits with known ground truth.")
    ] = 2000,
    seed: Annotated[int, typer.Option("--seed", help="Random seed of scenes, pairs and noise.")] = 0,
    image_size: Annotated[int, typer.Option("--image-size", min=32, help="Image side in pixels.")] = _SIZE,
    out: Annotated[Path, typer.Option("-o", "--out", help="Report file (HTML).")] = Path("validity.html"),
    reward: Annotated[
        list[str] | None,
        typer.Option("--reward", help="Only this reward, as in `score`. Repeatable. Default: all."),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes", min=1, help="Number of worker processes for experts. Default: the number of cores."
        ),
    ] = None,
    noise_sweep: Annotated[
        bool, typer.Option("--noise-sweep/--no-noise-sweep", help="Repeat the comparison with noisy experts.")
    ] = True,
    as_json: Json = False,
) -> int:
    """Compare every installed metric with the ground truth of synthetic edits. Exit code 1 if a check fails.

    Example: editcritic dev validity --num-cases 200 --reward edival-if -o validity.html
    """
    from ...benchmarks.common.optional_imports import bench_library
    from ...benchmarks.studies.validity.validity_report import terminal_tables, timing_summary, to_json, write_html
    from ...benchmarks.studies.validity.validity_run import progress_total, run
    from ...reward import build

    specs = tuple(reward or ())
    words = ["editcritic", "dev", "validity", "--num-cases", str(num_cases), "--seed", str(seed)]
    if image_size != _SIZE:
        words += ["--image-size", str(image_size)]
    for spec in specs:
        words += ["--reward", spec]
    command = shlex.join([*words, *([] if noise_sweep else ["--no-noise-sweep"])])
    for spec in specs:
        build(spec)  # invalid specs fail before the work
    for library in ("scipy.stats", "matplotlib"):
        bench_library(library)
    out.touch()
    with progress_bar(progress_total(num_cases, noise_sweep), "comparing") as (step, _):
        num_processes = processes or os.cpu_count() or 1
        report = run(
            num_cases, seed, size=image_size, specs=specs, noise=noise_sweep, processes=num_processes, step=step
        )
    write_html(out, report, command)
    if as_json:
        print_json({**to_json(report, command), "report": str(out)})
    else:
        render(terminal_tables(report))
        echo(f"\n{timing_summary(report.seconds)}; the report is {out}", stderr=False)
    return report.exit_code
