"""Write a result folder: rows, tables and provenance. Without a `result.json` it is incomplete."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...reward.atomic_files import write_atomically
from ...reward.plain_text import one_line
from ...reward.strict_json import read_json
from ..common.errors import InputError
from ..suites.bootstrap import Numbers, bootstrap_weights
from ..suites.results import RESULT_FILE, RUN_FILE, RUN_SCHEMA, SCHEMA, SCORES_FILE, Results
from ..suites.suite import Suite
from ..suites.tables import ComputedTable, write_tables


def case_weights(results: Results, count: int, seed: int) -> Numbers | None:
    """Bootstrap weights of the cases for intervals; None for `count` 0."""
    return bootstrap_weights(len(results.cases), count, seed=seed) if count and results.cases else None


def write_results(
    folder: Path, suite: Suite, results: Results, row_lines: Iterable[str], tables: Sequence[ComputedTable]
) -> None:
    """Write everything but `run.json`. row_lines: the rows as JSON.

    `result.json` is removed first and written last: if it exists, the folder is complete.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULT_FILE).unlink(missing_ok=True)
    write_atomically(folder / SCORES_FILE, "".join(f"{line}\n" for line in row_lines))
    write_tables(tables, folder)
    official_files = suite.write_official_files(results, folder)
    result = {
        "schema": SCHEMA,
        "editor": results.editor,
        "provenance": results.provenance,
        "counts": status_counts(results),
        "tables": [computed.to_json() for computed in tables],
        "files": sorted(str(path.relative_to(folder)) for path in official_files),
    }
    write_atomically(folder / RESULT_FILE, json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def write_run_file(folder: Path, run_facts: Mapping[str, Any]) -> None:
    """Write what differs between equal runs: times, batch counts, machine, processes, paths."""
    write_atomically(
        folder / RUN_FILE,
        json.dumps({"schema": RUN_SCHEMA, **run_facts}, indent=2, ensure_ascii=False, allow_nan=False) + "\n",
    )


def status_counts(results: Results) -> dict[str, Any]:
    """Number of items, of items without an image, and of scores by status for each metric."""
    metrics: dict[str, dict[str, int]] = {}
    for row in results.rows:
        for name, score in row.scores.items():
            counts = metrics.setdefault(name, dict.fromkeys(("scored", "not_applicable", "abstained", "failed"), 0))
            counts[score.status] += 1
    num_missing = sum(bool(row.missing_reason) for row in results.rows)
    return {
        "items": len(results.rows),
        "num_missing": num_missing,
        "metrics": {name: metrics[name] for name in sorted(metrics)},
    }


def result_files(folder: Path) -> Sequence[Path]:
    """Files that are equal for equal runs, relative to the folder: no hidden files, journals, `run.json` or `run.toml`.
    Raises OSError if there is no such folder, and `InputError` for a `result.json` that does not list them."""
    try:
        result = read_json(folder / RESULT_FILE)
        tables = [f"{table['name']}.{suffix}" for table in result["tables"] for suffix in ("md", "csv", "tex")]
        return [Path(name) for name in (SCORES_FILE, RESULT_FILE, *tables, *result["files"])]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(one_line(f"{folder / RESULT_FILE} does not list its files: {error!r}")) from None
