"""The command line that these scripts share, and how their figures are printed."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from editcritic.benchmarks.common.argument_types import add_json_option
from editcritic.benchmarks.common.terminal import plain_table, print_json, render

Rows = Sequence[Mapping[str, Any]]
"""Of one table: a cell by its column."""


def parser_of(text: str | None) -> argparse.ArgumentParser:
    """A parser with the option `--json`. text: the script's docstring."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_json_option(parser)
    return parser


def show(title: str, rows: Rows) -> None:
    """Print a table."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    table = plain_table(title, *columns, right=columns[1:])
    for row in rows:
        table.add_row(*(_cell(row.get(column, "")) for column in columns))
    render(table)


def _cell(value: Any) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def print_rows(options: argparse.Namespace, title: str, rows: Rows) -> None:
    """Print a table, or with `--json` its rows."""
    if options.json:
        print_json(rows)
    else:
        show(title, rows)
