"""`editcritic bench`: suites from data to tables, and what the metrics themselves are worth."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from . import bench_agree, bench_data, bench_report, bench_run
from .terminal import document, plainly, progress, say, show

app = typer.Typer(
    name="bench",
    help="Run benchmark suites, and measure the metrics themselves.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_SIZE = 64


@app.callback()
def group() -> None:
    """Run benchmark suites, and measure the metrics themselves."""


for part in (bench_run, bench_report, bench_agree, bench_data):
    part.add_to(app)


@app.command()
@plainly
def validity(
    cases: Annotated[int, typer.Option("--cases", min=8, help="Edits with a known truth.")] = 2000,
    seed: Annotated[int, typer.Option("--seed", help="Of the scenes, of the pairs, and of the noise.")] = 0,
    size: Annotated[int, typer.Option("--size", min=32, help="Of the pictures, in pixels a side.")] = _SIZE,
    out: Annotated[Path, typer.Option("-o", "--out", help="Write the report (HTML) here.")] = Path("validity.html"),
    reward: Annotated[
        list[str] | None,
        typer.Option("--reward", help="Only this one, as in `score`; may be given several times. Default: all."),
    ] = None,
    processes: Annotated[
        int | None, typer.Option("--processes", min=1, help="To ask experts in. Default: as many as there are cores.")
    ] = None,
    sweep: Annotated[bool, typer.Option("--sweep/--no-sweep", help="Ask again with experts that err.")] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on standard output, nothing else.")
    ] = False,
) -> int:
    """Compare every installed metric with the truth of drawn edits. Exit code 1 if a check fails."""
    from ..reward import build
    from .extras import bench
    from .validity.report import seconds_of, table, to_json, write_html
    from .validity.run import run, steps_of

    specs = tuple(reward or ())
    written = ["editcritic", "bench", "validity", "--cases", str(cases), "--seed", str(seed)]
    if size != _SIZE:
        written += ["--size", str(size)]
    for spec in specs:
        written += ["--reward", spec]
    command = shlex.join([*written, *([] if sweep else ["--no-sweep"])])
    for spec in specs:
        build(spec)  # what is refused is refused before the work
    for library in ("scipy.stats", "matplotlib"):
        bench(library)
    out.touch()
    with progress(steps_of(cases, sweep), "comparing") as (step, _):
        many = processes or os.cpu_count() or 1
        found = run(cases, seed, size=size, specs=specs, noise=sweep, processes=many, step=step)
    write_html(out, found, command)
    if as_json:
        document({**to_json(found, command), "report": str(out)})
    else:
        show(table(found))
        say(f"\n{seconds_of(found.seconds)}; the report is {out}", stderr=False)
    return found.exit_code
