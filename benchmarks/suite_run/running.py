"""A suite is judged: rows are kept one by one, results are written when all is there.

    from editcritic.benchmarks.suite_run.running import run
    results = run(suite, Path("outputs"), editor="mine", experts=experts(), out=Path("results/mine"))

The same call again goes on where the last one ended, in whatever way it ended.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ...reward import Expert, load_experts, no_download
from ...reward.spec import Spec
from ..inputs import InputError
from ..suites.results import RESULT, Results, Row
from ..suites.suite import Suite
from ..suites.tables import Computed
from .asked import Asked, How
from .generating import generated_rows
from .journal import RowJournal, read_json, refuse_others
from .judging import has_failed
from .outputs import Outputs
from .part import Part
from .provenance import provenance_of
from .rows import line_of, missing_row
from .sharing import ALONE, HandedIn, Meeting, Share
from .writing import counts_of, weights_of, write_results, write_run

__all__ = ["Asked", "How", "Ran", "RunIncomplete", "carry_out", "run"]

JOURNAL = "journal"


class RunIncomplete(RuntimeError):
    """A run that ended early; the message says why and what to do. results: of what was judged, the rest missing."""

    def __init__(self, message: str, results: Results) -> None:
        super().__init__(message)
        self.results = results


@dataclass(frozen=True)
class Ran:
    """What became of a run. ended: why it ended early, empty if it did not. tables: empty where nothing was written."""

    results: Results
    ended: str
    tables: Sequence[Computed]
    facts: Mapping[str, Any]
    journal: Path | None

    @property
    def failed(self) -> int:
        """Items with a failed score."""
        return sum(any(map(has_failed, row.scores.values())) for row in self.results.rows)

    @property
    def missing(self) -> int:
        """Items that were not judged."""
        return sum(bool(row.missing) for row in self.results.rows)

    @property
    def exit_code(self) -> int:
        """0 all is there; 1 some scores failed, items are missing, or the run ended early."""
        return int(bool(self.ended or self.failed or self.missing))


def run(
    suite: Suite,
    outputs: Path,
    *,
    editor: str = "editor",
    experts: Mapping[str, Expert | Spec] | None = None,
    protocol: str | None = None,
    metrics: Sequence[str] = (),
    out: Path | None = None,
    journal: Path | None = None,
    reproducible: bool = False,
    how: How | None = None,
) -> Results:
    """Judge what an editor has made of a suite.

    experts: role -> expert or its spec; those that need no download by default. out: the folder of results; without one
    nothing is written. journal: what was judged before; in `out` by default. Other arguments as in `Asked` and `How`.

    Items without a picture are rows that say so. Raises `InputError` for what cannot be run, `RunIncomplete` where the
    run ended early and partial results are not allowed.
    """
    given = no_download() if experts is None else load_experts(experts)
    asked = Asked(suite, outputs, editor, given, protocol, tuple(metrics), reproducible)
    ran = carry_out(asked, how or How(), out=out, journal=journal)
    assert ran is not None  # this process is the only one
    if ran.ended and not (how and how.allow_partial):
        raise RunIncomplete(ran.ended, ran.results)
    return ran.results


def carry_out(
    asked: Asked, how: How, *, out: Path | None = None, journal: Path | None = None, share: Share = ALONE
) -> Ran | None:
    """As `run`, and tells what became of it instead of raising `RunIncomplete`.

    share: of several processes that carry out the same on one machine; None is for all but the first of them.
    """
    began = now()
    place = journal or (None if out is None else out / JOURNAL)
    check_places(out, asked)
    if place is None:
        if share.world > 1:
            raise InputError("several processes need a folder to meet in: give out or journal")
        part = Part(asked, how, None, asked.suite.items)
        lines = part.work()
        return finish(asked, how, out, place, lines, part.ended, {"began": began, "processes": [part.facts()]})
    with RowJournal(place, share.rank) as book, Meeting(place, share) as meeting:
        book.agree(asked.settings)
        part = Part(asked, how, book, share.items(asked.suite), share=share)
        handed = HandedIn(part.work(), part.ended, part.facts())
        if share.rank:
            meeting.hand_in(handed)
            return None
        parts = [handed, *meeting.collect(part.tell)]
        lines = {name: line for one in parts for name, line in one.lines.items()}
        ended = "; ".join(dict.fromkeys(one.ended for one in parts if one.ended))
        facts = {"began": began, "processes": [one.facts for one in parts]}
        return finish(asked, how, out, place, lines, ended, facts)


def check_places(out: Path | None, asked: Asked) -> None:
    """Raise `InputError` where there are no outputs, or the folder holds results of other settings."""
    Outputs(asked.suite, asked.outputs)
    if out is not None and (out / RESULT).exists():
        held = read_json(out / RESULT).get("provenance", {})
        refuse_others({name: held.get(name) for name in asked.settings}, asked.settings, str(out))


def finish(
    asked: Asked,
    how: How,
    out: Path | None,
    journal: Path | None,
    lines: Mapping[str, str],
    ended: str,
    facts: Mapping[str, Any],
) -> Ran:
    """Results of rows, written where all is there, or partial ones are allowed."""
    items = asked.suite.items
    said = _said(ended, len(lines), len(items), journal) if len(lines) < len(items) else ""
    whole = [lines.get(item.id) or line_of(missing_row(item, "not judged: the run ended early")) for item in items]
    rows = [Row.from_json(json.loads(line)) for line in whole]
    complete = len(lines) == len(items)
    provenance = provenance_of(asked.settings, asked.suite, asked.judges, rows, asked.draws, asked.seed, complete)
    results = Results(asked.editor, rows, provenance)
    run_facts = {
        **facts,
        "ended": now(),
        "stopped": said,
        "complete": complete,
        "counts": counts_of(results),
        "problems": [str(problem) for problem in asked.suite.problems],
        "machine": {"system": platform.platform(), "cores": os.cpu_count()},
        "given": dict(how.given),
        "latency": {
            name: row["seconds"]
            for name, row in generated_rows(asked.outputs).items()
            if row.get("file") and "seconds" in row  # others than `bench generate` may have written it
        },
    }
    tables: Sequence[Computed] = ()
    if complete or how.allow_partial:
        if out is not None:
            tables = write_results(out, asked.suite, results, whole, asked.draws, asked.seed)
        else:
            weights = weights_of(results, asked.draws, asked.seed)
            tables = [Computed.of(table, weights) for table in asked.suite.tables(results)]
    if out is not None:
        write_run(out, run_facts)
    return Ran(results, said, tables, run_facts, journal)


def _said(ended: str, judged: int, items: int, journal: Path | None) -> str:
    """Why a run ended early, and how it goes on."""
    kept = "nothing was kept, for there is no journal" if journal is None else f"what was judged is in {journal}"
    return (
        f"stopped: {ended or 'not all items were judged'}; {judged} of {items} items are done, {kept}: the same "
        "command goes on from there, and --allow-partial writes results of what is there"
    )


def now() -> str:
    """The time, for people."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
