"""The answer log: experts' answers on disk.

An append-only store (query digest, expert id) -> answer in one SQLite file. It serves as disk cache, recording and
resume state: resuming is replaying. Failures are never stored. Several processes of one machine may share it, also
forked ones.

Every row that is read has a checksum over its content and what it is looked up by. A damaged answer counts as not
stored, so that it is asked again; a damaged row of a recording (its samples, its reward) is an error. A row that is
longer than what is written counts as damaged.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import warnings
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

from ..digests import record_checksum
from ..encoded_images import MAX_PIXELS
from ..image import Size
from ..plain_text import one_line
from ..queries.answers import Answer
from ..queries.kinds import Query
from ..queries.outcomes import Abstention
from ..queries.serialization import answer_from_json, answer_to_json
from ..sample import EditSample
from ..strict_json import parse_json
from .shared_database import DATABASE_ERRORS, SharedDatabase

SCHEMA = 3
_TABLES = f"""
begin immediate;
create table if not exists meta (
    key text primary key, value text not null, checksum text not null
) without rowid;
create table if not exists experts (number integer primary key, id text not null unique);
create table if not exists answers (
    expert_number integer not null, query_digest blob not null, answer text not null, checksum text not null,
    primary key (expert_number, query_digest)
) without rowid;
create table if not exists queries (
    query_digest blob primary key, kind text not null, description text not null
) without rowid;
create table if not exists image_files (
    file_digest text primary key, image_digest text not null, width int, height int,
    checksum text not null
) without rowid;
create table if not exists derived_images (
    parent_digest text not null, operation text not null, image_digest text not null, checksum text not null,
    primary key (parent_digest, operation)
) without rowid;
create table if not exists rewritings (
    expert_number integer not null, sample_digest blob not null, query_digest blob not null, rewritten text not null,
    checksum text not null, primary key (expert_number, sample_digest, query_digest)
) without rowid;
create table if not exists samples (
    number integer primary key, sample text not null, checksum text not null
);
insert or ignore into meta values ('schema', '{SCHEMA}', '{record_checksum("meta", "schema", str(SCHEMA))}');
commit;
pragma cache_size = -65536;       -- 64 MiB: keys are random, and pages are reused
pragma wal_autocheckpoint = 8192; -- 32 MiB, for the same reason
"""
_RECORDS = {
    "answer": ("answers left join experts on number = expert_number", ("id", "lower(hex(query_digest))", "answer")),
    "derived image": ("derived_images", ("parent_digest", "operation", "image_digest")),
    "image file": ("image_files", ("file_digest", "image_digest", "width", "height")),
    "meta": ("meta", ("key", "value")),
    "rewriting": (
        "rewritings left join experts on number = expert_number",
        ("id", "lower(hex(sample_digest))", "lower(hex(query_digest))", "rewritten"),
    ),
    "sample": ("samples", ("sample",)),
}
"""Table and fields of every kind of record that is read; their checksum is over the kind and these fields as text."""
MAX_ANSWER_BYTES = 128 * 2**20
"""Of one answer as text; an upscaled photograph of 36 million pixels has about 100 MiB. Longer ones are not stored."""
_MAX_CONTAINERS = 1_000_000
"""Lists and tables in the JSON of an answer; boxes and lines of text have one each, embeddings one per row."""
MAX_ROW_BYTES = 16 * 2**20
"""Of each field of other rows."""
_CHUNK = 500  # SQLite's older limit is 999 variables
_DIGEST = re.compile("[0-9a-f]{64}")
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError)
"""What reading and checking an answer of unknown content raises."""
AskedQuery = tuple[str, Query[Any], "Query[Any] | Abstention | None"]
"""The id of an expert, a query to it, and what it rewrote that to; None for an expert that rewrites none."""


class LogError(ValueError):
    """A file that is no answer log, has another schema, or is damaged in a row that cannot be asked for again."""


class AnswerLog:
    """`AnswerLog(path)` opens or creates a log. `record_queries=True` also stores the queries, for replays.

    Args:
        read_only: The file must exist, and neither it nor its folder is changed.

    Raises:
        LogError: For any other file, naming it.
    """

    def __init__(self, path: str | Path, *, record_queries: bool = False, read_only: bool = False) -> None:
        self.path = Path(path)
        self.records_queries = record_queries
        self._recorded_origins: set[tuple[str, str]] = set()
        self._expert_numbers: dict[str, int] = {}
        self._rejected: set[tuple[int, bytes]] = set()
        """Primary keys of stored answers that were rejected, to be replaced."""
        self._warned = False
        self._last_sample: tuple[EditSample | None, str] = (None, "")
        self._database = SharedDatabase(
            self.path,
            _TABLES,
            schema=SCHEMA,
            tables={"answers"},
            kind="an answer log",
            replacement="another file" if read_only else "a new file",
            error_class=LogError,
            read_only=read_only,
        )

    @property
    def _db(self) -> sqlite3.Connection:
        return self._database.connection

    # -- answers ------------------------------------------------------------------------------------------------------

    def get(self, expert: str, queries: Sequence[Query[Any]]) -> dict[str, Answer | Abstention | None]:
        """Stored answers of an expert, by query digest. None where the stored row is damaged, or is no answer to such a
        query; the first of these warns.
        """
        answers: dict[str, Answer | Abstention | None] = {}
        by_digest = {query.digest.encode(): query for query in queries}
        keys = [bytes.fromhex(query.digest) for query in by_digest.values()]
        with self._database.lock:
            if (number := self._expert_number(expert)) is None:
                return answers
            for start in range(0, len(keys), _CHUNK):
                chunk = keys[start : start + _CHUNK]
                condition = f"where expert_number = ? and query_digest in ({','.join('?' * len(chunk))})"
                for (_, digest, answer), intact in self._rows("answer", condition, (number, *chunk)):
                    query = by_digest.get(digest)
                    if query is None:  # a row in the wrong place
                        continue
                    try:
                        if not intact:
                            raise ValueError("its checksum is wrong")
                        answers[query.digest] = _read_answer(query, answer)
                    except _UNREADABLE as error:
                        answers[query.digest] = None
                        self._reject((number, bytes.fromhex(query.digest)), query, error)
        return answers

    def _reject(self, key: tuple[int, bytes], query: Query[Any], error: Exception) -> None:
        self._rejected.add(key)
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"the answer log {self.path} is damaged: what it has for a query of kind {query.kind} cannot be used "
                f"({one_line(str(error))}). It counts as not stored, and so does every other such row",
                RuntimeWarning,
                stacklevel=3,
            )

    def _rows(
        self, kind: str, condition: str = "", parameters: Sequence[object] = ()
    ) -> Iterator[tuple[tuple[Any, ...], bool]]:
        """Fields of the stored records of a kind, as UTF-8, and whether they are intact. Hold the lock meanwhile."""
        table, fields = _RECORDS[kind]
        limit = MAX_ANSWER_BYTES if kind == "answer" else MAX_ROW_BYTES
        # As bytes: damaged text may not be valid UTF-8.
        columns = ", ".join(
            f"case when length(cast({name} as blob)) <= {limit} then cast({name} as blob) end"
            for name in (*fields, "checksum")
        )
        for *row, checksum in self._db.execute(f"select {columns} from {table} {condition}", parameters):
            yield tuple(row), None not in row and record_checksum(kind, *row).encode() == checksum

    def _intact_rows(
        self, kind: str, condition: str = "", parameters: Sequence[object] = ()
    ) -> Iterator[tuple[str, ...]]:
        """As `_rows`, as text. Raises `LogError` at a row that is not intact."""
        for row, intact in self._rows(kind, condition, parameters):
            try:
                if not intact:
                    raise ValueError("its checksum is wrong")
                yield tuple(field.decode() for field in row)
            except ValueError:  # one of them is no UTF-8
                raise LogError(
                    f"{self.path} is damaged: a row ({kind}) is not as it was written; use a copy of the file"
                ) from None

    def verify(self, *, rows: bool = True) -> None:
        """Read everything, and raise `LogError` if anything is damaged.

        For recordings, whose answers cannot be asked for again, before all of a table is read. Takes about as long as
        reading all answers.

        Args:
            rows: Else the structure of the file alone.
        """
        with self._database.lock:
            try:
                check = "integrity_check" if rows else "quick_check"
                problem = self._db.execute(f"pragma {check}(1)").fetchone()[0]
                if problem != "ok":
                    raise LogError(f"{self.path} is damaged ({' '.join(problem.split())}): use a copy of the file")
                for kind in _RECORDS if rows else ():
                    for _ in self._intact_rows(kind):
                        pass
            except DATABASE_ERRORS as error:
                raise LogError(f"{self.path} is damaged ({error}): use a copy of the file") from None

    def put(self, expert: str, answered: Sequence[tuple[Query[Any], Answer | Abstention]]) -> None:
        """Store answers in one transaction. The first answer to a query is kept, unless `get` rejected it."""
        with self._database.lock:
            number = self._add_expert(expert)
            with self._database.transaction() as db:
                for query, answer in answered:
                    key = (number, bytes.fromhex(query.digest))
                    text = json.dumps(answer_to_json(answer), allow_nan=False)
                    if len(text) > MAX_ANSWER_BYTES:
                        continue
                    conflict = "replace" if key in self._rejected else "ignore"
                    db.execute(
                        f"insert or {conflict} into answers values (?, ?, ?, ?)",
                        (*key, text, record_checksum("answer", expert, query.digest, text)),
                    )
                if self.records_queries:
                    db.executemany(
                        "insert or ignore into queries values (?, ?, ?)",
                        (
                            (bytes.fromhex(query.digest), query.kind, json.dumps(query.describe()))
                            for query, _ in answered
                        ),
                    )
            self._rejected.difference_update((number, bytes.fromhex(query.digest)) for query, _ in answered)

    # -- what a replay needs of queries -------------------------------------------------------------------------------

    def record_asked(self, sample: EditSample | None, asked: Sequence[AskedQuery]) -> None:
        """Store how the queries of a sample were rewritten, and the derivation of the images in them, if the log
        `records_queries`.

        Also for queries answered from the cache: images derived from two images may be equal, and then only one of two
        queries reaches an expert, but a replay needs both derivations. Of an expert that rewrites queries, those that
        it left as they were are stored, too: a replay of another reward has to tell them from those not asked.
        """
        if not self.records_queries:
            return
        with self._database.lock:
            origins = {(parent, operation): digest for parent, operation, digest in _origins(asked)}
            origins = {key: digest for key, digest in origins.items() if key not in self._recorded_origins}
            rewritings = list(self._rewritings(sample, asked))
            if not origins and not rewritings:
                return
            with self._database.transaction() as db:
                db.executemany(
                    "insert or replace into derived_images values (?, ?, ?, ?)",
                    ((*key, digest, record_checksum("derived image", *key, digest)) for key, digest in origins.items()),
                )
                db.executemany("insert or replace into rewritings values (?, ?, ?, ?, ?)", rewritings)
            self._recorded_origins |= origins.keys()

    def _rewritings(self, sample: EditSample | None, asked: Sequence[AskedQuery]) -> Iterator[tuple[object, ...]]:
        for expert, query, rewritten in asked:
            if rewritten is None:
                continue
            name = self._digest_of_sample(sample)
            if not name:
                return
            row = {"abstained": rewritten.reason} if isinstance(rewritten, Abstention) else {"query": rewritten.digest}
            key, text = (name, query.digest), json.dumps(row)
            checksum = record_checksum("rewriting", expert, *key, text)
            yield (self._add_expert(expert), *map(bytes.fromhex, key), text, checksum)

    def rewritten(self, expert: str, sample: EditSample | None, query: Query[Any]) -> Query[Any] | Abstention | None:
        """How a query was rewritten when it was recorded; None if that is not stored."""
        condition = "where expert_number = ? and sample_digest = ? and query_digest = ?"
        with self._database.lock:
            key = (self._digest_of_sample(sample), query.digest)
            if (number := self._expert_number(expert)) is None:
                return None
            rows = self._intact_rows("rewriting", condition, (number, *map(bytes.fromhex, key)))
            text = next((row[-1] for row in rows), "null")
        match parse_json(text):
            case {"abstained": str(reason)}:
                return Abstention(reason)
            case {"query": str(digest)} if _DIGEST.fullmatch(digest):
                return query if digest == query.digest else query.rewritten_as(digest)
            case _:
                return None

    def _digest_of_sample(self, sample: EditSample | None) -> str:
        """sha256 over a sample as a recording has it, hex; empty for one that cannot be recorded."""
        if self._last_sample[0] is not sample or sample is None:  # programs ask several times
            self._last_sample = sample, _digest_of_sample(sample)
        return self._last_sample[1]

    def derived_digest(self, parent_digest: str, operation: str) -> str | None:
        """The recorded digest of an image derived from one without pixels; None if there is none."""
        with self._database.lock:
            rows = self._intact_rows(
                "derived image", "where parent_digest = ? and operation = ?", (parent_digest, operation)
            )
            return next((digest for *_, digest in rows if _DIGEST.fullmatch(digest)), None)

    # -- experts ------------------------------------------------------------------------------------------------------

    def _expert_number(self, expert: str) -> int | None:
        if expert not in self._expert_numbers:
            (number,) = self._db.execute("select number from experts where id = ?", (expert,)).fetchone() or (None,)
            if not isinstance(number, int):
                return None
            self._expert_numbers[expert] = number
        return self._expert_numbers[expert]

    def _add_expert(self, expert: str) -> int:
        if (number := self._expert_number(expert)) is None:
            self._db.execute("insert or ignore into experts (id) values (?)", (expert,))
            number = self._expert_number(expert)
        if number is None:
            raise LogError(f"{self.path} is damaged: its table of experts has no row for {expert}")
        return number

    def __len__(self) -> int:
        with self._database.lock:
            return int(self._db.execute("select count(*) from answers").fetchone()[0])

    # -- metadata, samples and images ---------------------------------------------------------------------------------

    def meta(self, key: str, value: str | None = None) -> str | None:
        """Read metadata of this log, or write it.

        Raises:
            LogError: For a damaged row.
        """
        with self._database.lock:
            if value is not None:
                row = (key, value, record_checksum("meta", key, value))
                self._db.execute("insert or replace into meta values (?, ?, ?)", row)
                return value
            return next((stored for _, stored in self._intact_rows("meta", "where key = ?", (key,))), None)

    def add_sample(self, sample: str) -> None:
        """Store a sample (JSON, images by digest) for a replay."""
        with self._database.lock:
            row = (sample, record_checksum("sample", sample))
            self._db.execute("insert into samples (sample, checksum) values (?, ?)", row)

    def samples(self) -> list[str]:
        """The stored samples, in order.

        Raises:
            LogError: For a damaged row.
        """
        with self._database.lock:
            return [sample for (sample,) in self._intact_rows("sample", "order by number")]

    @property
    def files(self) -> MutableMapping[str, tuple[str, Size]]:
        """File digest -> (content digest, size), for `Image.open(path, index=log.files)`."""
        return _FileTable(self)

    def close(self) -> None:
        """Close the file. Closing it twice is allowed."""
        self._database.close()

    def __enter__(self) -> AnswerLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _FileTable(MutableMapping[str, tuple[str, Size]]):
    """The table `image_files`; a damaged row counts as missing."""

    def __init__(self, log: AnswerLog) -> None:
        self._log = log

    def __getitem__(self, file: str) -> tuple[str, Size]:
        with self._log._database.lock:
            for (_, digest, width, height), intact in self._log._rows("image file", "where file_digest = ?", (file,)):
                if intact and _DIGEST.fullmatch(digest.decode(errors="replace")) and _is_size(width, height):
                    return digest.decode(), (int(width), int(height))
        raise KeyError(file)

    def __setitem__(self, file: str, value: tuple[str, Size]) -> None:
        digest, (width, height) = value
        row = (file, digest, width, height, record_checksum("image file", file, digest, str(width), str(height)))
        with self._log._database.lock:
            self._log._db.execute("insert or replace into image_files values (?, ?, ?, ?, ?)", row)

    def __delitem__(self, file: str) -> None:
        with self._log._database.lock:
            self._log._db.execute("delete from image_files where file_digest = ?", (file,))

    def __iter__(self) -> Iterator[str]:
        with self._log._database.lock:
            rows = list(self._log._rows("image file"))
        return iter([row[0].decode(errors="replace") for row, intact in rows if intact])

    def __len__(self) -> int:
        return len(list(iter(self)))


def _read_answer(query: Query[Any], text: bytes) -> Answer | Abstention:
    if text.count(b"[") + text.count(b"{") > _MAX_CONTAINERS:  # each takes twenty times the bytes that it has here
        raise ValueError(f"it has more than {_MAX_CONTAINERS:,} lists and tables")
    answer = answer_from_json(json.loads(text))
    if not isinstance(answer, Abstention):
        query.check(answer)
    elif not isinstance(answer.reason, str):
        raise ValueError(f"an abstention for the reason {answer.reason!r:.80}")
    return answer


def _is_size(width: bytes, height: bytes) -> bool:
    sides = [int(side) if len(side) < 10 and side.isdigit() else 0 for side in (width, height)]
    return all(sides) and sides[0] * sides[1] <= MAX_PIXELS


def _origins(asked: Sequence[AskedQuery]) -> Iterator[tuple[str, str, str]]:
    """Of each derived image in the queries: the digest of what it was derived from, the operation, its own digest."""
    images = [image for _, query, _ in asked for image in query.images]
    while images:
        image = images.pop()
        images += image.parents
        if image.origin is not None:
            parent, operation = image.origin
            yield parent.digest, operation, image.digest


def _digest_of_sample(sample: EditSample | None) -> str:
    from ..sample_files import sample_to_json

    try:
        text = json.dumps(None if sample is None else sample_to_json(sample))
    except (TypeError, ValueError, RecursionError):  # as it has no id, or metadata that are no JSON
        return ""
    return hashlib.sha256(text.encode()).hexdigest()
