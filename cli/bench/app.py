"""`editcritic bench`: the commands of the group."""

from __future__ import annotations

from ..command_group import command_group
from .build import app as build
from .compare import compare
from .generate import generate
from .prepare import prepare
from .prompts import prompts
from .report import report
from .run import run
from .verify import verify

app = command_group(
    "bench",
    "Run benchmark suites, from their data to tables and reports.",
    {
        "prepare": prepare,
        "generate": generate,
        "run": run,
        "report": report,
        "compare": compare,
        "prompts": prompts,
        "verify": verify,
    },
)
app.add_typer(build)
