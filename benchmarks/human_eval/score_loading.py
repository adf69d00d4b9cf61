"""Loading of scores to compare with labels: result folders, and files written by `editcritic score`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...reward import Score
from ...reward.score import SCHEMA
from ..common.errors import InputError
from ..suites.human_labels import Label, read_labels
from ..suites.results import SCORES_FILE, ResultRow, Results, load_results, parsed_lines, require_schema
from .calibration_fit import CalibrationSource, file_provenance
from .label_matching import ScoreLookup


def load_score_source(sources: Sequence[str], labels: Sequence[Path]) -> tuple[CalibrationSource, list[Label]]:
    """Scores and labels. sources: result folders; score files as FILE, or EDITOR=FILE for labels that name editors.
    Files of one editor are merged by id: scores of several metrics. Raises `InputError`, OSError."""
    results: list[Results] = []
    rows: dict[str, dict[str, ResultRow]] = {}
    files, experts = [], dict[str, str]()
    for text in sources:
        editor, path = _split_editor(text)
        if path.is_dir():
            run = load_results(path)
            results.append(run)
            files.append(file_provenance(path / SCORES_FILE, editor=run.editor, rows=len(run.rows)))
            experts |= {f"{run.editor}: {role}": expert for role, expert in _experts(run)}
            continue
        editor_rows = rows.setdefault(editor, {})
        count = 0
        for count, (name, score) in enumerate(read_scores(path), start=1):  # noqa: B007  (the last number is the count)
            row = editor_rows.get(name, ResultRow(name, name, {}))
            metric = score.metric.partition("@")[0] or "score"
            if metric in row.scores:
                raise InputError(f"{path} has two scores of {metric} for {name!r}: expected one per edit")
            editor_rows[name] = replace(row, scores={**row.scores, metric: score})
        files.append(file_provenance(path, editor=editor, rows=count))
    results += [Results(editor, list(by_id.values())) for editor, by_id in rows.items()]
    label_files = [file_provenance(path) for path in labels]
    lookup = ScoreLookup(results)
    if not lookup.rows:
        raise InputError("there are no scores: give result folders, or files written by `editcritic score -o`")
    return CalibrationSource(lookup, files, label_files, experts), read_labels(labels)


def read_scores(path: Path) -> Iterator[tuple[str, Score]]:
    """Id and score of each line of a scores file. Raises `InputError` with the number of an invalid line, OSError."""
    return parsed_lines(path, "a line of a scores file", _score)


def _score(data: Any) -> tuple[str, Score]:
    require_schema(data, SCHEMA)
    return str(data["id"]), Score.from_json(data)


def _split_editor(text: str) -> tuple[str, Path]:
    """Editor and path of `PATH` or `EDITOR=PATH`."""
    editor, equals, rest = text.partition("=")
    if Path(text).exists() or not equals:
        return "", Path(text)
    return editor, Path(rest)


def _experts(results: Results) -> Iterator[tuple[str, str]]:
    for role, expert in dict(results.provenance.get("experts", {})).items():
        yield role, str(expert.get("id", "")) if isinstance(expert, dict) else str(expert)
