"""Recordings: an answer log that also holds the samples, the reward and its scores, so that a run can be done again.

No picture is in it, only digests. A recording is a cache as well: a run that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ..reward import Abstention, AnswerLog, EditSample, Expert, Failure, Reward, Score
from ..reward.files import sample_from_json, sample_to_json
from ..reward.query import Outcome, Query
from ..reward.spec import build
from .inputs import InputError

NO_ANSWER = "the recording holds no answer to this question"


class Recording:
    """Writes what a replay needs into a log: open it with `AnswerLog(path, describe=True)` and give that to the reward.

    Raises `InputError` where the log holds a run of another reward already.
    """

    def __init__(self, log: AnswerLog, reward: Reward) -> None:
        self._log = log
        spec = json.dumps(reward.spec, sort_keys=True)
        if (held := log.meta("spec")) not in (None, spec):
            raise InputError(f"{log.path} is a recording of another reward ({_name(held)}): give another file")
        self._known = set(log.samples())
        log.meta("spec", spec)
        log.meta("experts", json.dumps({role: expert.id for role, expert in reward.experts.items()}))

    def add(self, sample: EditSample) -> None:
        row = json.dumps(sample_to_json(sample))
        if row not in self._known:
            self._log.add_sample(row)

    def keep(self, name: str, score: Score) -> None:
        """What the sample was worth, for a replay to compare with."""
        self._log.meta(f"score of {name}", json.dumps(_short(score)))


class Recorded(Expert):
    """Stands for an expert of which only its answers are known.

    It adapts queries as that expert does, if it could be built here (which loads no model); otherwise as they are.
    """

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = tuple(Query.__subclasses__())

    def __init__(self, name: str, stands_for: Expert | None) -> None:
        self.id = name
        self._stands_for = stands_for

    def __call__(self, queries: Sequence[Query[Any]]) -> Sequence[Outcome]:
        return [Failure(NO_ANSWER)] * len(queries)

    def adapt(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        return query if self._stands_for is None else self._stands_for.adapt(query, sample)


class Recall:
    """A recording, to be read: samples with unseen pictures, the reward's spec, experts, scores.

    Raises `InputError` for a file that is none, `LogError` for one that is no log at all.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise InputError(f"{path} {'is not a file' if path.exists() else 'does not exist'}: give a recording")
        _check(path)
        self.log = AnswerLog(path)
        self.log.teach_derivations()
        self._rows = self.log.samples()
        if not self._rows:
            raise InputError(f"{path} holds answers but no samples: it is a cache, not made with --record")

    @property
    def spec(self) -> dict[str, Any]:
        """Of the reward that was recorded."""
        spec: dict[str, Any] = json.loads(self.log.meta("spec") or "{}")
        return spec

    def __len__(self) -> int:
        return len(self._rows)

    def samples(self) -> Iterator[EditSample]:
        """As they were, but for their pixels. Raises `InputError` for one that cannot be read."""
        for number, row in enumerate(self._rows, start=1):
            try:
                yield sample_from_json(json.loads(row))
            except ValueError as error:
                raise InputError(f"sample {number} of {self.log.path} cannot be read: {error}") from None

    def experts(self) -> dict[str, Expert]:
        """By role, under the ids they had; each knows what was recorded and nothing else."""
        ids: dict[str, str] = json.loads(self.log.meta("experts") or "{}")
        specs: dict[str, Any] = self.spec.get("experts", {})
        return {role: Recorded(name, _built(specs.get(role))) for role, name in ids.items()}

    def score_of(self, name: str) -> dict[str, Any] | None:
        """Value and status the sample was recorded with; None if it was never scored."""
        text = self.log.meta(f"score of {name}")
        return None if text is None else json.loads(text)


def _check(path: Path) -> None:
    """Refuse what is no answer log, before opening it as one adds our tables to somebody else's database."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
            tables = {row[0] for row in db.execute("select name from sqlite_master")}
    except sqlite3.Error:
        tables = set()
    if not {"meta", "answers", "samples"} <= tables:
        raise InputError(f"{path} is not a recording: `editcritic score --record` makes them")


def agrees(score: Score, recorded: Mapping[str, Any]) -> bool:
    """Whether a replayed score is the recorded one, to the last bit."""
    return _short(score) == recorded


def _short(score: Score) -> dict[str, Any]:
    return {"value": score.value, "status": score.status}


def _built(spec: Any) -> Expert | None:
    if spec is None:
        return None
    try:
        expert = build(spec, "editcritic.experts")
    except (ImportError, ValueError):  # a package or a model that is not here: answers need neither
        return None
    return expert if isinstance(expert, Expert) else None


def _name(spec: str | None) -> str:
    reward = json.loads(spec or "{}").get("reward", {})
    return str(reward.get("name", reward.get("use", "?")))
