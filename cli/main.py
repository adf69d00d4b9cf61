"""The command line `editcritic`.

Exit codes: 0 success; 1 finished, but some scores failed, no candidate was chosen, a replay differed, or an installed
part does not work; 2 invalid input or usage (valid input is still processed); 130 interrupted. With `--json`, standard
output holds one JSON document and nothing else. Commands import their modules when they run, so `--help` is fast.
"""

from __future__ import annotations

import typer

from ..benchmarks.common.terminal import limit_library_threads, replace_unencodable_output
from .bench.app import app as bench
from .calibration import app as calibration
from .diff import diff
from .doctor import doctor
from .edit import edit
from .rank import rank
from .replay import replay
from .rewards import rewards
from .score import score
from .serve import serve

app = typer.Typer(
    name="editcritic",
    help="Scores image edits: for selection, for RL and for benchmarks, with the same scorer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

for command in (rewards, score, rank, edit, replay, diff, serve, doctor):
    app.command()(command)
app.add_typer(bench)
app.add_typer(calibration)


def main() -> None:
    """Entry point."""
    limit_library_threads()
    replace_unencodable_output()
    app()


if __name__ == "__main__":
    main()
