"""Recordings: an answer log that also contains samples, reward and scores, so that the run can be replayed.

It contains no images, only digests. A recording is also a cache: an interrupted run resumes from it.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ...reward import AnswerLog, EditSample, Expert, Reward, Score
from ...reward.config import build
from ...reward.queries import Abstention, Failure
from ...reward.queries.kinds import Outcome, Query
from ...reward.sample_files import sample_from_json, sample_to_json
from ..common.errors import InputError

NOT_RECORDED = "the recording has no answer to this query"


class RecordingWriter:
    """Writes what a replay needs into a log: open it with `AnswerLog(path, describe=True)` and pass it to the reward.

    Raises `InputError` if the log contains a run of another reward.
    """

    def __init__(self, log: AnswerLog, reward: Reward) -> None:
        self._log = log
        spec = json.dumps(reward.spec, sort_keys=True)
        if (recorded := log.meta("spec")) not in (None, spec):
            raise InputError(f"{log.path} is a recording of another reward ({_name(recorded)}): give another file")
        self._known = set(log.samples())
        log.meta("spec", spec)
        log.meta("experts", json.dumps({role: expert.id for role, expert in reward.experts.items()}))

    def add_sample(self, sample: EditSample) -> None:
        row = json.dumps(sample_to_json(sample))
        if row not in self._known:
            self._log.add_sample(row)

    def add_score(self, name: str, score: Score) -> None:
        """Record the score, for a replay to compare with."""
        self._log.meta(f"score:{name}", json.dumps(_value_and_status(score)))


class ReplayExpert(Expert):
    """Replaces an expert by its recorded answers.

    It rewrites queries as that expert does if the expert can be built (which loads no model), else not at all.
    """

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = tuple(Query.__subclasses__())

    def __init__(self, name: str, stands_for: Expert | None) -> None:
        self.id = name
        self._stands_for = stands_for

    def __call__(self, queries: Sequence[Query[Any]]) -> Sequence[Outcome]:
        return [Failure(NOT_RECORDED, infrastructure=True)] * len(queries)

    def rewrite_query(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        return query if self._stands_for is None else self._stands_for.rewrite_query(query, sample)


class RecordingReader:
    """Reads a recording: samples without pixels, the reward's spec, experts, scores.

    Raises `InputError` for a file that is no recording, `LogError` for one that is no answer log, or damaged: what was
    recorded cannot be asked again.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise InputError(f"{path} {'is not a file' if path.exists() else 'does not exist'}: give a recording")
        _check(path)
        self.log = AnswerLog(path)
        self.log.verify()
        self.log.load_derivations()
        self._rows = self.log.samples()
        if not self._rows:
            raise InputError(f"{path} contains answers but no samples: it is a cache, not written with --record")

    @property
    def spec(self) -> dict[str, Any]:
        """Spec of the recorded reward."""
        spec: dict[str, Any] = json.loads(self.log.meta("spec") or "{}")
        return spec

    def __len__(self) -> int:
        return len(self._rows)

    def samples(self) -> Iterator[EditSample]:
        """The recorded samples, without pixels. Raises `InputError` for one that cannot be read."""
        for number, row in enumerate(self._rows, start=1):
            try:
                yield sample_from_json(json.loads(row))
            except ValueError as error:
                raise InputError(f"sample {number} of {self.log.path} cannot be read: {error}") from None

    def experts(self) -> dict[str, Expert]:
        """Replay experts by role, with the recorded ids."""
        ids: dict[str, str] = json.loads(self.log.meta("experts") or "{}")
        specs: dict[str, Any] = self.spec.get("experts", {})
        return {role: ReplayExpert(name, _build_expert(specs.get(role))) for role, name in ids.items()}

    def recorded_score(self, name: str) -> dict[str, Any] | None:
        """Recorded value and status of a sample; None if it was not scored."""
        text = self.log.meta(f"score:{name}")
        return None if text is None else json.loads(text)


def _check(path: Path) -> None:
    """Reject other files, before `AnswerLog` adds its tables to a foreign database."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
            tables = {row[0] for row in db.execute("select name from sqlite_master")}
    except sqlite3.Error:
        tables = set()
    if not {"meta", "answers", "samples"} <= tables:
        raise InputError(f"{path} is not a recording: `editcritic score --record` writes one")


def same_score(score: Score, recorded: Mapping[str, Any]) -> bool:
    """Whether a replayed score equals the recorded one, to the last bit."""
    return _value_and_status(score) == recorded


def _value_and_status(score: Score) -> dict[str, Any]:
    return {"value": score.value, "status": score.status}


def _build_expert(spec: Any) -> Expert | None:
    if spec is None:
        return None
    try:
        expert = build(spec, "editcritic.experts")
    except (ImportError, ValueError):  # a missing package or model: a replay needs neither
        return None
    return expert if isinstance(expert, Expert) else None


def _name(spec: str | None) -> str:
    reward = json.loads(spec or "{}").get("reward", {})
    return str(reward.get("name", reward.get("use", "?")))
