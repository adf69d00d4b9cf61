"""Answer logs merged into one, as those of several machines: an equal answer is kept once, another one is a conflict.

Logs may be a stranger's: nothing in them runs, and damaged rows of caches are left out and counted. Rows pass one by
one, so that memory does not grow with the logs.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from ..atomic_files import atomic_replacement
from ..digests import record_checksum
from ..plain_text import one_line
from ..strict_json import parse_json
from .answer_log import MAX_ROW_BYTES, AnswerLog, LogError
from .shared_database import DATABASE_ERRORS

Keep = Literal["first", "none"]
"""Of answers that differ: the first in the order of the logs, or none, so that the query is asked again."""
MAX_CONFLICTS: Final = 20
"""Conflicts that are kept and shown; the others are counted."""
_COMMIT_ROWS = 2_000
_SHOWN = 200  # characters of an answer in a conflict
_OF_ONE_REWARD = ("spec", "experts")  # metadata that the recordings which are merged have to share


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two logs have different rows for one key. kind: of the row, as `answer`. expert: its id, of answers. query: the
    kind of the query, where a log knows it, else the fields of the answer. first, other: both, abbreviated.
    """

    kind: str
    expert: str
    query: str
    first: str
    other: str
    other_log: str


@dataclass
class MergedLog:
    """A log that was read. added: rows that no log before it had."""

    path: str
    rows: int = 0
    added: int = 0
    damaged: int = 0


@dataclass
class MergeReport:
    """answers: in the merged log. counts: conflicts by kind of row, expert and kind of query. conflicts: the first."""

    answers: int = 0
    samples: int = 0
    logs: list[MergedLog] = field(default_factory=list)
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    conflicts: list[Conflict] = field(default_factory=list)

    @property
    def num_conflicts(self) -> int:
        return self.counts.total()

    @property
    def damaged(self) -> int:
        return sum(log.damaged for log in self.logs)


@dataclass(frozen=True)
class _Kind:
    """A kind of row. keys, values: its columns, in the order of the fields that the log reads."""

    table: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    may_be_damaged: bool = False


_CACHE = {
    "answer": _Kind("answers", ("expert_number", "query_digest"), ("answer",), may_be_damaged=True),
    "image file": _Kind("image_files", ("file_digest",), ("image_digest", "width", "height"), may_be_damaged=True),
}
_RECORDING = {
    "meta": _Kind("meta", ("key",), ("value",)),
    "derived image": _Kind("derived_images", ("parent_digest", "operation"), ("image_digest",)),
    "rewriting": _Kind("rewritings", ("expert_number", "sample_digest", "query_digest"), ("rewritten",)),
    "sample": _Kind("samples", ("sample",), ()),
}


def merge_logs(paths: Sequence[Path], out: Path, *, keep: Keep = "first", answers_only: bool = False) -> MergeReport:
    """Merge logs into `out`, atomically. What `out` has already stays, and counts as the first log. answers_only: leave
    out what recordings have beside answers; else recordings have to be of one reward, and the merged log is a recording
    of all their samples. The logs that are read are not changed. Raises `LogError` for a file that is no answer log or
    is damaged as a database, for recordings that do not fit, for an `out` that is one of the logs or that a process
    uses; OSError if it cannot be written.
    """
    if any(os.path.realpath(path) == os.path.realpath(out) for path in paths):
        raise LogError(f"{out} is one of the logs that are read: they are not changed; give another file")
    sources = list(paths)
    if out.exists():
        AnswerLog(out).close()  # the last process that closes it moves over what is in the -wal beside it
        if any(Path(f"{out}{suffix}").exists() for suffix in ("-wal", "-shm")):
            raise LogError(f"{out} is used by a process: wait for that to end, or give a new file")
        sources = [out, *sources]
    with atomic_replacement(out) as temporary, closing(AnswerLog(temporary)) as merged:
        merger = _Merger(merged, keep)
        for path in sources:
            with closing(AnswerLog(path, read_only=True)) as log:
                merger.add(log, {**_CACHE, **({} if answers_only else _RECORDING)})
        merger.finish()
    return merger.report


class _Merger:
    def __init__(self, merged: AnswerLog, keep: Keep) -> None:
        self.report = MergeReport()
        self._log = merged
        self._db = merged._db
        self._keep = keep
        self._db.execute("pragma synchronous = off")  # the file has no name yet that anybody reads
        self._db.execute("create temp table seen (kind text, key text, value text, primary key (kind, key))")

    def add(self, log: AnswerLog, kinds: dict[str, _Kind]) -> None:
        log.verify(rows=False)
        counts = MergedLog(str(log.path))
        self.report.logs.append(counts)
        try:
            self._db.execute("begin")
            for kind, described in kinds.items():
                for fields in self._read(log, kind, described, counts):
                    counts.rows += 1
                    counts.added += self._add_row(log, kind, described, fields)
                    if counts.rows % _COMMIT_ROWS == 0:
                        self._db.execute("commit")
                        self._db.execute("begin")
            if "meta" in kinds:
                columns = ("query_digest", "kind", "description")
                fitting = " and ".join(f"length({column}) <= {MAX_ROW_BYTES}" for column in columns)
                for row in log._db.execute(f"select {', '.join(columns)} from queries where {fitting}"):
                    self._db.execute("insert or ignore into queries values (?, ?, ?)", row)
            self._db.execute("commit")
        except DATABASE_ERRORS as error:
            raise LogError(
                f"{log.path} cannot be merged ({error}): is it damaged? Use a copy, or leave it out"
            ) from None

    def finish(self) -> None:
        self.report.answers = len(self._log)
        self.report.samples = len(self._db.execute("select 1 from samples").fetchall())
        self._db.execute("drop table seen")

    def _read(self, log: AnswerLog, kind: str, described: _Kind, counts: MergedLog) -> Iterator[tuple[str, ...]]:
        """The rows of a log as text. Raises `LogError` for a damaged one that cannot be left out."""
        if not described.may_be_damaged:
            yield from log._intact_rows(kind, "order by number" if kind == "sample" else "")
            return
        for row, intact in log._rows(kind):
            try:
                if not intact:
                    raise ValueError
                fields = tuple(item.decode() for item in row)
                _stored(kind, fields, 0)
            except ValueError:  # no UTF-8, no digest, no number
                counts.damaged += 1
            else:
                yield fields

    def _add_row(self, log: AnswerLog, kind: str, described: _Kind, fields: tuple[str, ...]) -> bool:
        if kind == "meta" and fields[0] == "schema":
            return False
        if kind == "sample":
            return self._add_sample(log, fields[0])
        number = self._log._add_expert(fields[0]) if described.keys[0] == "expert_number" else 0
        stored = _stored(kind, fields, number)
        key, value = stored[: len(described.keys)], stored[len(described.keys) :]
        where = " and ".join(f"{column} = ?" for column in described.keys)
        columns = ", ".join(described.values)
        there = self._db.execute(f"select {columns} from {described.table} where {where}", key).fetchone()
        if there is None:
            if self._keep == "none" and self._seen(kind, _text_of(key)) is not None:
                return False
            row = (*stored, record_checksum(kind, *fields))
            self._db.execute(f"insert into {described.table} values ({','.join('?' * len(row))})", row)
            return True
        if there != value:
            self._report(log, kind, described, fields, there)
            if self._keep == "none":
                self._see(kind, _text_of(key))
                self._db.execute(f"delete from {described.table} where {where}", key)
        return False

    def _report(
        self, log: AnswerLog, kind: str, described: _Kind, fields: tuple[str, ...], there: tuple[Any, ...]
    ) -> None:
        if kind == "meta" and fields[0] in _OF_ONE_REWARD:
            raise LogError(
                f"{log.path} is a recording of another reward, or with other experts, than those before it: a replay "
                "needs one. Merge them apart, or their answers alone"
            )
        expert = fields[0] if described.keys[0] == "expert_number" else ""
        first, other = (" ".join(map(str, value)) for value in (there, fields[len(described.keys) :]))
        query = self._query_of(log, fields[1], other) if kind == "answer" else ""
        self.report.counts[kind, expert, query] += 1
        if len(self.report.conflicts) < MAX_CONFLICTS:
            self.report.conflicts.append(Conflict(kind, expert, query, _shown(first), _shown(other), str(log.path)))

    def _query_of(self, log: AnswerLog, digest: str, answer: str) -> str:
        """The kind of a query, which recordings have; else the fields of the answer to it."""
        for database in (log._db, self._db):
            found = database.execute("select kind from queries where query_digest = ?", (bytes.fromhex(digest),))
            if (row := found.fetchone()) is not None:
                return one_line(str(row[0]))
        try:
            parsed = parse_json(answer, max_values=10_000_000)
        except ValueError:
            return "?"
        return one_line(", ".join(parsed)) if isinstance(parsed, dict) else "?"

    def _add_sample(self, log: AnswerLog, sample: str) -> bool:
        try:
            name = str(parse_json(sample, max_values=1_000_000)["id"])
        except (ValueError, LookupError, TypeError):
            raise LogError(f"{log.path} has a sample that cannot be read: record it again") from None
        digest = hashlib.sha256(sample.encode()).hexdigest()
        if (known := self._seen("sample", name)) is not None:
            if known != digest:
                raise LogError(
                    f"{log.path} has another sample {name!r:.80} than a log before it: scores are recorded by id, so "
                    "give the samples different ids, or merge the answers alone"
                )
            return False
        self._see("sample", name, digest)
        self._log.add_sample(sample)
        return True

    def _seen(self, kind: str, key: str) -> str | None:
        row = self._db.execute("select value from seen where kind = ? and key = ?", (kind, key)).fetchone()
        return None if row is None else str(row[0])

    def _see(self, kind: str, key: str, value: str = "") -> None:
        self._db.execute("insert or ignore into seen values (?, ?, ?)", (kind, key, value))


def _stored(kind: str, fields: tuple[str, ...], expert_number: int) -> tuple[Any, ...]:
    """The columns of a row from its fields as text. Raises ValueError."""
    match kind, fields:
        case "answer" | "rewriting", (_, *digests, text):
            keys = [bytes.fromhex(digest) for digest in digests]
            if any(len(key) != 32 for key in keys):
                raise ValueError("a digest has another length")
            return (expert_number, *keys, text)
        case "image file", (file, image, width, height):
            return (file, image, int(width), int(height))
        case _:
            return fields


def _shown(text: str) -> str:
    return one_line(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _text_of(key: tuple[Any, ...]) -> str:
    return " ".join(item.hex() if isinstance(item, bytes) else str(item) for item in key)
