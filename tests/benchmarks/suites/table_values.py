"""The numbers of tables."""

from editcritic.benchmarks.suites.results import Results
from editcritic.benchmarks.suites.suite import Suite
from editcritic.benchmarks.suites.tables import ComputedTable, Table, TableCell


def table(suite: Suite, results: Results, name: str) -> Table:
    return next(one for one in suite.tables(results) if one.name == name)


def cells(suite: Suite, results: Results, name: str) -> dict[str, dict[str, TableCell]]:
    """By row and column."""
    return {row: dict(of_row) for row, of_row in ComputedTable.compute(table(suite, results, name), None).cells.items()}


def values(suite: Suite, results: Results, name: str) -> dict[str, dict[str, float | None]]:
    """By row and column."""
    return {
        row: {column: cell.value for column, cell in of_row.items()}
        for row, of_row in cells(suite, results, name).items()
    }
