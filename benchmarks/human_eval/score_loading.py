"""Scores to hold labels against: of folders of results, and of files that `editcritic score` wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...reward import Score
from ...reward.score import SCHEMA
from ..inputs import InputError
from ..suites.results import SCORES, Results, Row
from .labels import Label, read
from .meeting import Meeting
from .score_maps import Source, described


def source_of(given: Sequence[str], labels: Sequence[Path]) -> tuple[Source, list[Label]]:
    """Scores and labels. given: folders of results; files of scores, as in FILE or EDITOR=FILE for labels that name
    editors. Files of one editor are put together by id: scores of several metrics. Raises `InputError`, OSError.
    """
    results: list[Results] = []
    rows: dict[str, dict[str, Row]] = {}
    files, experts = [], dict[str, str]()
    for text in given:
        editor, path = _place(text)
        if path.is_dir():
            one = Results.load(path)
            results.append(one)
            files.append(described(path / SCORES, editor=one.editor, rows=len(one.rows)))
            experts |= {f"{one.editor}: {role}": expert for role, expert in _experts(one)}
            continue
        known = rows.setdefault(editor, {})
        count = 0
        for count, (name, score) in enumerate(read_scores(path), start=1):  # noqa: B007  (the last number is the count)
            row = known.get(name, Row(name, name, {}))
            metric = score.metric.partition("@")[0] or "score"
            if metric in row.scores:
                raise InputError(f"{path} has a second score of {metric} for {name!r}: one an edit is expected")
            known[name] = replace(row, scores={**row.scores, metric: score})
        files.append(described(path, editor=editor, rows=count))
    results += [Results(editor, list(found.values())) for editor, found in rows.items()]
    label_files = [described(path) for path in labels]
    meeting = Meeting(results)
    if not meeting.rows:
        raise InputError("there are no scores: give folders of results, or files that `editcritic score -o` wrote")
    return Source(meeting, files, label_files, experts), read(labels)


def read_scores(path: Path) -> Iterator[tuple[str, Score]]:
    """Id and score of each line of a scores file. Raises `InputError` naming the line that is none, OSError."""
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                data: Any = json.loads(line)
                if data["schema"] != SCHEMA:
                    raise ValueError(f"schema {data['schema']} is not {SCHEMA}: written by another version")
                yield str(data["id"]), Score.from_json(data)
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                raise InputError(f"{path}:{number} is no line of a scores file: {error!r}") from None


def _place(text: str) -> tuple[str, Path]:
    """A file or folder as it is, or behind the name of an editor."""
    editor, equals, rest = text.partition("=")
    if Path(text).exists() or not equals:
        return "", Path(text)
    return editor, Path(rest)


def _experts(one: Results) -> Iterator[tuple[str, str]]:
    for role, said in dict(one.provenance.get("experts", {})).items():
        yield role, str(said.get("id", "")) if isinstance(said, dict) else str(said)
