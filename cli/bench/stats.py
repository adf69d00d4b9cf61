"""`editcritic bench stats`: statistics of a suite."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...benchmarks.common.terminal import echo, exit_code_command, print_json, render
from ..options import Data, Json, SuiteName


@exit_code_command
def stats(
    suite: SuiteName,
    data: Data = None,
    luminance: Annotated[
        bool, typer.Option("--luminance/--no-luminance", help="Compute luminance statistics of the source images.")
    ] = True,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Output folder for the tables (CSV).")] = None,
    as_json: Json = False,
) -> int:
    """Print statistics of a suite: operations and their order, target areas, types, sources, luminance."""
    from rich.table import Table

    from ...benchmarks.human_eval.suite_statistics import suite_statistics
    from ...benchmarks.run.suite_loading import load_suite

    loaded = load_suite(suite, data)
    tables = suite_statistics(loaded, luminance=luminance)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for count_table in tables:
            (out / f"{count_table.name}.csv").write_text(count_table.csv(), encoding="utf-8")
    if as_json:
        print_json(
            {"suite": loaded.name, "data": loaded.digest, "tables": [count_table.to_json() for count_table in tables]}
        )
        return 0
    for count_table in tables:
        table = Table("", title=count_table.title, title_justify="left")
        square = list(count_table.columns) == list(count_table.rows)  # columns too many to be named twice
        for number, name in enumerate(count_table.columns, start=1):
            table.add_column(str(number) if square else name, justify="right")
        for number, (name, row) in enumerate(count_table.rows.items(), start=1):
            table.add_row(f"{number} {name}" if square else name, *(_shown(number) for number in row))
        render(table)
        for note in count_table.notes:
            echo(f"  {note}", stderr=False)
    return 0


def _shown(number: float | int | None) -> str:
    return "" if number is None else str(number) if isinstance(number, int) else f"{number:.4g}"
