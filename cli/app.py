"""The command line `editcritic`.

What is used every day stands at the top level; `bench` runs suites, `judge` compares and calibrates judges, and `dev`
tests metrics. Commands import their modules when they run, so `--help` is fast. With `--json`, standard output holds
one JSON document and nothing else.
"""

from __future__ import annotations

import typer

from ..benchmarks.common.terminal import echo, limit_library_threads, replace_unencodable_output
from .audit import audit
from .bench.build import app as build
from .bench.compare import compare
from .bench.generate import generate
from .bench.list import list_suites
from .bench.prepare import prepare
from .bench.prompts import prompts
from .bench.report import report
from .bench.run import run as bench_run
from .bench.verify import verify
from .dev.diff import diff
from .dev.replay import replay
from .doctor import doctor
from .edit import edit
from .estimate import estimate
from .judge.agreement import agreement
from .judge.calibrate import app as calibrate
from .judge.drift import drift
from .judge.faults import judge_faults
from .judge.label import label
from .judge.variance import variance
from .log import app as log
from .options import command_group
from .rank import rank
from .rewards import rewards
from .rows import rows
from .score import score
from .serve import serve
from .web_app import web_app

app = command_group(
    "editcritic",
    "Scores image edits: for selection, for RL and for benchmarks, with the same scorer. A reward (a metric) scores an "
    "edit. It queries experts: models in roles such as detector or judge. A judge is a vision-language model that "
    "answers questions about images. A suite is a benchmark.",
    {
        "score": score,
        "rank": rank,
        "audit": audit,
        "edit": edit,
        "app": web_app,
        "serve": serve,
        "estimate": estimate,
        "doctor": doctor,
        "rewards": rewards,
        "rows": rows,
    },
    epilog="Exit codes: 0 success (an edit that a metric cannot judge is a result); 1 finished, but something failed "
    "or differs; 2 invalid input or usage (valid samples are still scored); 130 interrupted by Ctrl-C, 143 by SIGTERM.",
)
bench = command_group(
    "bench",
    "Run benchmark suites, from their data to tables and reports.",
    {
        "list": list_suites,
        "prepare": prepare,
        "generate": generate,
        "run": bench_run,
        "report": report,
        "compare": compare,
        "prompts": prompts,
        "verify": verify,
    },
)
bench.add_typer(build)
judge = command_group(
    "judge",
    "Measure judges and metrics: agreement with people, faults, drift, variance, calibration.",
    {"label": label, "agreement": agreement, "faults": judge_faults, "drift": drift, "variance": variance},
)
judge.add_typer(calibrate)
dev = command_group("dev", "Test metrics on recorded answers; compare images.", {"replay": replay, "diff": diff})
for group in (bench, judge, log, dev):
    app.add_typer(group)


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        echo(f"editcritic {version('editcritic')}", stderr=False)
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", help="Print the version.", callback=_print_version, is_eager=True),
) -> None:
    """Options of the program itself."""


def run() -> None:
    """Run the command that was typed. Raises SystemExit."""
    limit_library_threads()
    replace_unencodable_output()
    app()
