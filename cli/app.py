"""The command line `editcritic`.

What is used every day stands at the top level; `bench` runs suites, `judge` compares and calibrates judges, and `dev`
tests metrics. Commands import their modules when they run, so `--help` is fast. With `--json`, standard output holds
one JSON document and nothing else.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ..benchmarks.common.terminal import echo, limit_library_threads, replace_unencodable_output
from .audit import audit
from .bench.app import app as bench
from .command_group import command_group
from .dev.app import app as dev
from .doctor import doctor
from .edit import edit
from .judge.app import app as judge
from .log import app as log
from .plan import plan
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
        "plan": plan,
        "doctor": doctor,
        "rewards": rewards,
        "rows": rows,
    },
    epilog="Exit codes: 0 success (an edit that a metric cannot judge is a result); 1 finished, but something failed "
    "or differs; 2 invalid input or usage (valid samples are still scored); 130 interrupted by Ctrl-C, 143 by SIGTERM.",
)
for group in (bench, judge, log, dev):
    app.add_typer(group)


def _print_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        echo(f"editcritic {version('editcritic')}", stderr=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the program itself."""


def run() -> None:
    """Run the command that was typed. Raises SystemExit."""
    limit_library_threads()
    replace_unencodable_output()
    app()
