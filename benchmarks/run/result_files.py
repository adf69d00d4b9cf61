"""A folder of results: rows, tables and where they come from; whole, or without a `result.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..suites.figures import Numbers, draws
from ..suites.results import RESULT, RUN, SCHEMA, SCORES, Results
from ..suites.suite import Suite
from ..suites.tables import Computed
from .journal import write_whole


def weights_of(results: Results, count: int, seed: int) -> Numbers | None:
    """Draws of the cases for intervals; None for no draws."""
    return draws(len(results.cases), count, seed=seed) if count and results.cases else None


def write_results(
    folder: Path, suite: Suite, results: Results, lines: Iterable[str], draws_: int, seed: int
) -> list[Computed]:
    """Write everything but `run.json`; gives back the tables. lines: the rows as JSON.

    `result.json` is taken away first and written last: where it is, everything is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / RESULT).unlink(missing_ok=True)
    weights = weights_of(results, draws_, seed)
    tables = [Computed.of(table, weights) for table in suite.tables(results)]
    write_whole(folder / SCORES, "".join(f"{line}\n" for line in lines))
    for computed in tables:
        write_table(folder, computed)
    others = suite.write(results, folder)
    result = {
        "schema": SCHEMA,
        "editor": results.editor,
        "provenance": results.provenance,
        "counts": counts_of(results),
        "tables": [computed.to_json() for computed in tables],
        "files": sorted(str(path.relative_to(folder)) for path in others),
    }
    write_whole(folder / RESULT, json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    return tables


def write_table(folder: Path, computed: Computed) -> None:
    """One table three ways: `NAME.md`, `NAME.csv`, `NAME.tex`."""
    name = computed.table.name
    write_whole(folder / f"{name}.md", computed.markdown())
    write_whole(folder / f"{name}.csv", computed.csv())
    write_whole(folder / f"{name}.tex", computed.latex())


def write_run(folder: Path, facts: Mapping[str, Any]) -> None:
    """What differs between equal runs: times, counts of batches, machine, processes, places."""
    write_whole(folder / RUN, json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def counts_of(results: Results) -> dict[str, Any]:
    """How many items there are, how many have no picture, and of each metric how many scores have which status."""
    metrics: dict[str, dict[str, int]] = {}
    for row in results.rows:
        for name, score in row.scores.items():
            found = metrics.setdefault(name, dict.fromkeys(("scored", "not_applicable", "abstained", "failed"), 0))
            found[score.status] += 1
    missing = sum(bool(row.missing) for row in results.rows)
    return {
        "items": len(results.rows),
        "missing": missing,
        "metrics": {name: metrics[name] for name in sorted(metrics)},
    }


def result_files(folder: Path) -> Sequence[Path]:
    """Those that equal runs have in common, relative to the folder. Without hidden ones, folders of journals and runs.

    Raises OSError where there is no such folder.
    """
    head = json.loads((folder / RESULT).read_text(encoding="utf-8"))
    tables = [f"{table['name']}.{suffix}" for table in head["tables"] for suffix in ("md", "csv", "tex")]
    return [Path(name) for name in (SCORES, RESULT, *tables, *head["files"])]
