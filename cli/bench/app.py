"""`editcritic bench`: the commands of the group."""

from __future__ import annotations

import typer

from .agreement import agreement
from .compare import compare
from .construct import app as construct
from .generate import generate
from .golden import golden
from .label import label
from .lock import lock
from .prepare import prepare
from .report import report
from .reproduce import reproduce
from .run import run
from .scaling import scaling
from .stats import stats
from .table import table
from .validity import validity
from .variance import variance

_HELP = "Run benchmark suites, and measure the metrics themselves."

app = typer.Typer(
    name="bench",
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

for command in (
    *(prepare, generate, run, lock, reproduce),
    *(table, report, compare),
    *(label, agreement, golden, variance, scaling, stats, validity),
):
    app.command()(command)
app.add_typer(construct)
