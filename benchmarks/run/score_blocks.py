"""The scores of a table in blocks: ranges of rows that depend on the table alone, each a parquet file of its own. A
folder of scores has `block-N-DIGEST.parquet` and, in `_run`, which readers of parquet folders leave out, the settings
and the summary. The digest is over the settings and the rows, so that a file is that of this run or of none."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from ...integrations.row_check import BrokenFile, RowFile
from ...reward import Reward, Score
from ...reward.atomic_files import atomic_replacement, write_atomically
from ...reward.plain_text import one_line
from ...reward.queries.expert import ExpertDown
from ...reward.strict_json import parse_json
from ..common.errors import InputError
from ..common.reasons import reason_pattern
from ..common.sample_tables import SampleTable, TableRow
from ..common.terminal import plain_table
from .run_journal import ResumeFolder

SCHEMA: Final = 1
RUN_FOLDER: Final = "_run"
SUMMARY_FILE: Final = "summary.json"
INVALID: Final = "invalid"
"""In the column `status`: the row is no sample, and `reason` says why."""

SCORE_COLUMNS: Final = (
    "file", "row", "id", "value", "status", "reason", "cause", "metric", "reward", "parts", "credits", "evidence",
)  # fmt: skip
"""`parts`, `credits` and `evidence` are JSON, as in a scores file."""

_BLOCK_BYTES = 256 * 2**20
"""Of the rows of a block, unpacked: fewer rows where each is large."""
_METADATA_KEY = b"editcritic"
_MAX_REASONS = 100


@dataclass(frozen=True, slots=True)
class Block:
    """`count` rows of file number `file` of a table, from the position `first`."""

    number: int
    file: int
    first: int
    count: int
    digest: str

    @property
    def file_name(self) -> str:
        return f"block-{self.number:06d}-{self.digest}.parquet"


@dataclass
class BlockSummary:
    """Counts by status, and what is known of the values without keeping them. reasons: of missing values."""

    counts: Counter[str] = field(default_factory=Counter)
    total: float = 0.0
    lowest: float = math.inf
    highest: float = -math.inf
    reasons: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)

    def add(self, status: str, value: float | None, reason: str) -> None:
        self.counts[status] += 1
        if value is not None:
            self.total += value
            self.lowest, self.highest = min(self.lowest, value), max(self.highest, value)
        else:
            self._add_reason(status, 1, reason)

    def _add_reason(self, status: str, times: int, reason: str) -> None:
        key = (status, reason_pattern(reason))
        if key in self.reasons or len(self.reasons) < _MAX_REASONS:
            count, example = self.reasons.get(key, (0, reason))
            self.reasons[key] = (count + times, example)

    @property
    def rows(self) -> int:
        return sum(self.counts.values())

    @property
    def mean(self) -> float | None:
        return self.total / self.counts["scored"] if self.counts["scored"] else None

    def merge(self, other: BlockSummary) -> None:
        self.counts += other.counts
        self.total += other.total
        self.lowest, self.highest = min(self.lowest, other.lowest), max(self.highest, other.highest)
        for (status, _), (count, reason) in other.reasons.items():
            self._add_reason(status, count, reason)

    def to_json(self) -> dict[str, Any]:
        reasons = [[status, count, reason] for (status, _), (count, reason) in self.reasons.items()]
        bounds = {"lowest": self.lowest, "highest": self.highest} if self.counts["scored"] else {}
        return {"counts": dict(self.counts), "total": self.total, **bounds, "reasons": reasons}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> BlockSummary:
        """Raises ValueError, LookupError, TypeError or AttributeError for what `to_json` does not write."""
        lowest, highest = float(data.get("lowest", math.inf)), float(data.get("highest", -math.inf))
        summary = BlockSummary(Counter(), float(data["total"]), lowest, highest)
        for status, count in data["counts"].items():
            summary.counts[str(status)] = int(count)
        for status, count, reason in data["reasons"]:
            summary._add_reason(str(status), int(count), str(reason))
        return summary

    def table(self, title: str) -> Table:
        """For the terminal."""
        table = plain_table(Text(title))
        counts = [f"{count:,} {status.replace('_', ' ')}" for status, count in self.counts.items() if count]
        table.add_row("rows", Text(f"{self.rows:,}: {', '.join(counts)}" if counts else "0"))
        if self.mean is not None:
            table.add_row("values", f"mean {self.mean:.4f}  min {self.lowest:.4f}  max {self.highest:.4f}")
        reasons = sorted(self.reasons.items(), key=lambda item: -item[1][0])
        for (status, _), (count, reason) in reasons[:12]:
            table.add_row(status.replace("_", " "), Text(f"{count:,} x {reason}"))
        if len(reasons) > 12:
            table.add_row("", "and other reasons: they are in the column `reason`")
        return table


def run_settings(table: SampleTable, reward: Reward, block_rows: int) -> dict[str, Any]:
    """What decides the scores of a table, and their blocks. Raises `InputError`."""
    if not reward.is_repeatable:
        raise InputError(f"{reward.card.name} is built by code that no other process has: give a name or a TOML file")
    try:
        identity = reward.identity
        return {
            "schema": SCHEMA,
            "files": [file.identity for file in table.files],
            "block_rows": block_rows,
            "columns": dict(table.columns),
            "keep": list(table.keep),
            "reward": reward.signature,
            "experts": {role: expert.id for role, expert in reward.used_experts.items()},
            "identity": identity,
        }
    except BrokenFile as error:
        raise InputError(str(error)) from None
    except ExpertDown as error:
        raise InputError(
            f"which experts {reward.card.name} has is not known, so it cannot be resumed: {error}"
        ) from None


def blocks_of(table: SampleTable, settings: Mapping[str, Any]) -> Iterator[Block]:
    """The blocks of a table, in order."""
    number = 0
    shared = {name: value for name, value in settings.items() if name not in ("files", "block_rows")}
    for index, file in enumerate(table.files):
        fits = _BLOCK_BYTES // file.rows.row_bytes if file.rows.is_parquet else settings["block_rows"]
        size = max(min(settings["block_rows"], fits), 1)
        for first in range(0, file.rows.num_rows, size):
            count = min(size, file.rows.num_rows - first)
            content = json.dumps([shared, file.identity, first, count], sort_keys=True)
            yield Block(number, index, first, count, hashlib.sha256(content.encode()).hexdigest()[:16])
            number += 1


class ScoreFolder(ResumeFolder):
    """The folder of a run's scores. Raises `InputError` if it has scores of other settings, or something else."""

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        run_folder = path / RUN_FOLDER
        if not run_folder.is_dir() and (found := next(path.glob("*.parquet"), None)):
            raise InputError(f"{found} is there already, and of no run: give an empty folder, or a new one, to -o")
        super().__init__(run_folder)
        self.require_settings(settings, path)

    def remove_unfinished(self) -> None:
        """Remove what a killed run was writing. Call it while no other run uses the folder."""
        for path in self.path.glob(".block-*.tmp"):
            path.unlink(missing_ok=True)

    def summary(self, block: Block) -> BlockSummary | None:
        """The summary of a block that is there; None where it is not, or is damaged."""
        try:
            metadata = RowFile(self.path / block.file_name).schema.metadata or {}
            summary = BlockSummary.from_json(parse_json(metadata[_METADATA_KEY]))
        except (OSError, BrokenFile, ValueError, LookupError, TypeError, AttributeError):
            return None
        return summary if summary.rows == block.count else None

    def failed_rows(self, block: Block) -> list[int]:
        """The rows of a block that is there whose scores failed. Raises `InputError` if it is damaged."""
        rows = self._table(block).select(["row", "status"]).to_pylist()
        return [row["row"] for row in rows if row["status"] == "failed"]

    def write(self, block: Block, content: bytes) -> BlockSummary:
        """Write rows of a block atomically: all of them, or those that replace the same ones of its file. Returns the
        summary of the file. Raises OSError, and `InputError` if the file that is there is damaged."""
        import pyarrow
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(pyarrow.BufferReader(content))
        if len(table) < block.count:
            replaced = set(table["row"].to_pylist())
            there = self._table(block)
            kept = there.filter(pyarrow.array([row not in replaced for row in there["row"].to_pylist()]))
            table = pyarrow.concat_tables([kept, table]).sort_by("row")
        summary = BlockSummary()
        for row in table.select(["status", "value", "reason"]).to_pylist():
            summary.add(row["status"], row["value"], row["reason"] or "")
        metadata = {_METADATA_KEY: json.dumps(summary.to_json())}
        with atomic_replacement(self.path / block.file_name) as temporary:
            pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), temporary)
        return summary

    def _table(self, block: Block) -> Any:
        import pyarrow
        import pyarrow.parquet

        path = self.path / block.file_name
        try:
            return pyarrow.parquet.read_table(path)
        except (pyarrow.ArrowException, OSError) as error:
            raise InputError(f"{path} cannot be read, remove it: {one_line(str(error))}") from None

    def write_summary(self, data: Mapping[str, Any]) -> None:
        write_atomically(self.folder / SUMMARY_FILE, json.dumps(data, indent=2) + "\n")


class BlockWriter:
    """Collects rows of a block as parquet. reward: signature of the reward."""

    def __init__(self, table: SampleTable, block: Block, reward: str) -> None:
        self._table = table
        self._file = table.files[block.file]
        self._reward = reward
        self._rows: list[dict[str, Any]] = []
        self._kept: list[Mapping[str, Any]] = []

    def add(self, row: TableRow, score: Score | None) -> None:
        """The score of a row; None for one that is no sample. Rows may be added in any order."""
        entry: dict[str, Any] = {"file": self._file.name, "row": row.number}
        if score is None:
            entry |= {"status": INVALID, "reason": row.problem}
            entry |= {} if row.sample is None else {"id": row.sample.id}
        else:
            data = score.to_json()
            entry |= {name: data.get(name) for name in ("value", "status", "reason", "cause", "metric")}
            entry |= {name: _json(data[name]) for name in ("parts", "credits", "evidence") if name in data}
            entry |= {"id": "" if row.sample is None else row.sample.id, "reward": self._reward}
        self._rows.append(entry)
        self._kept.append(row.kept)

    def content(self) -> bytes:
        """A parquet file of the rows, in the order of the table."""
        import pyarrow
        import pyarrow.parquet

        types = {"row": pyarrow.int64(), "value": pyarrow.float64()}
        order = sorted(range(len(self._rows)), key=lambda index: self._rows[index]["row"])
        columns = {
            name: pyarrow.array(
                [_utf8(self._rows[index].get(name)) for index in order], types.get(name, pyarrow.string())
            )
            for name in SCORE_COLUMNS
        }
        for name in self._table.keep:
            values = [self._kept[index].get(name) for index in order]
            columns[name] = _kept_column(self._file.rows, name, values)
        buffer = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
        return bytes(buffer.getvalue())


def check_kept(keep: Sequence[str]) -> None:
    """Raise `InputError` for a column to keep that has the name of a column of scores, or is named twice."""
    for number, name in enumerate(keep):
        if name in SCORE_COLUMNS or name in keep[:number]:
            raise InputError(
                f"keep {name!r:.80}: scores have a column of this name; `file` and `row` say which row it is"
            )


def _kept_column(file: RowFile, name: str, values: list[Any]) -> Any:
    import pyarrow

    if file.is_parquet:
        return pyarrow.array(values, file.schema.field(name).type)
    texts = [value if value is None or isinstance(value, str) else _json(value) for value in values]
    return pyarrow.array(map(_utf8, texts), pyarrow.string())  # lines of JSONL have no types: text, or JSON


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _utf8(value: Any) -> Any:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
