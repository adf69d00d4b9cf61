"""The two that the tab "Compare results" is given: result folders, or files of `editcritic score -o`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...reward import EditSample, ImageError, Score
from ...reward.score import SCHEMA
from ..common.errors import InputError
from ..common.inputs import SampleSource
from ..report.results_loading import load_result_folders
from ..run.editor_outputs import MissingOutput
from ..suites.results import ResultRow, Results, parsed_lines, require_schema
from ..suites.suite import Suite
from .open_files import OpenFiles
from .result_pictures import ResultPictures

FindSample = Callable[[int, str], EditSample]
"""Side (0 or 1) and id of an item -> its sample. Raises `MissingOutput`."""


@dataclass(frozen=True)
class ComparedInputs:
    """Two results with the same kind of rows. notes: what could not be opened beside them, for the reader."""

    first: Results
    second: Results
    suite: Suite | None
    sample: FindSample
    notes: tuple[str, ...]


def open_inputs(
    files: OpenFiles, names: tuple[str | None, str | None], uploads: tuple[str | None, str | None], pictures: str | None
) -> ComparedInputs:
    """names: of what may be opened; an uploaded score file takes its place. pictures: name of the samples of score
    files; without one, samples that lie beside them.

    Raises `InputError` for what cannot be opened, and for two without a common metric.
    """
    inputs = _opened(files, names, uploads, pictures)
    metrics = [
        {metric: None for row in results.rows for metric in row.scores} for results in (inputs.first, inputs.second)
    ]
    if metrics[0].keys().isdisjoint(metrics[1]):
        a, b = (", ".join(names) or "none" for names in metrics)
        raise InputError(f"the two have no metric in common: A has {a}; B has {b}")
    return inputs


def _opened(
    files: OpenFiles, names: tuple[str | None, str | None], uploads: tuple[str | None, str | None], pictures: str | None
) -> ComparedInputs:
    folders = set(files.names("results"))
    is_folder = [not upload and name in folders for name, upload in zip(names, uploads, strict=True)]
    if all(is_folder):
        return _of_folders(files, names)
    if any(is_folder):
        raise InputError("one is a result folder, the other a score file: choose two of one kind")
    paths = [_score_path(files, name, upload, side) for name, upload, side in zip(names, uploads, "AB", strict=True)]
    named = [path.name if upload else name or "" for path, name, upload in zip(paths, names, uploads, strict=True)]
    titles = _titles(paths, named)
    first, second = (score_results(path, title) for path, title in zip(paths, titles, strict=True))
    samples = _samples(files, pictures, [path for path, upload in zip(paths, uploads, strict=True) if not upload])

    def sample(side: int, item: str) -> EditSample:
        if item not in samples:
            raise MissingOutput("its picture is not known: choose the samples that were scored")
        return samples[item]

    return ComparedInputs(first, second, None, sample, ())


def _of_folders(files: OpenFiles, names: tuple[str | None, str | None]) -> ComparedInputs:
    if names[0] == names[1]:
        raise InputError("A and B are the same results: choose two")
    loaded = [one for name in names for one in load_result_folders([files.path("results", name)])[:1]]
    first, second = (one.results for one in loaded)
    suites = [results.provenance.get("suite") for results in (first, second)]
    if suites[0] != suites[1]:
        raise InputError(f"the results are of different suites: {suites[0]} and {suites[1]}")
    pictures = ResultPictures.find(files, loaded)
    return ComparedInputs(first, second, pictures.suite, pictures.sample, pictures.notes)


def _score_path(files: OpenFiles, name: str | None, upload: str | None, side: str) -> Path:
    if upload:
        return Path(upload)
    if not name:
        raise InputError(f"{side} is not chosen: pick it from the list, or drop a score file")
    return files.path("scores", name)


def _titles(paths: list[Path], titles: list[str]) -> tuple[str, str]:
    if paths[0] == paths[1]:
        raise InputError("A and B are the same file: choose two")
    return (titles[0], titles[1]) if titles[0] != titles[1] else (f"{titles[0]} (A)", f"{titles[1]} (B)")


def score_results(path: Path, title: str) -> Results:
    """A score file as results: a case an edit; the signatures of metrics and reward are its provenance.

    Raises `InputError` for an invalid line, and for two scores of one metric for an id.
    """
    rows: dict[str, dict[str, Score]] = {}
    signatures: dict[str, str] = {}
    rewards: dict[str, None] = {}
    try:
        for name, reward, score in parsed_lines(path, "a line of a scores file", _score_line):
            metric = score.metric.partition("@")[0] or "score"
            if metric in rows.setdefault(name, {}):
                raise InputError(f"{title} has two scores of {metric} for {name!r:.100}: expected one per edit")
            rows[name][metric] = score
            signatures.setdefault(metric, score.metric)
            rewards.setdefault(reward)
    except OSError as error:
        raise InputError(f"{title} cannot be read: {error.strerror}") from None
    if not rows:
        raise InputError(f"{title} has no scores: give a file of `editcritic score -o`")
    provenance = {"metric_signatures": signatures, "rewards": ", ".join(rewards)}
    return Results(title, [ResultRow(name, name, {}, scores) for name, scores in rows.items()], provenance)


def _score_line(data: Any) -> tuple[str, str, Score]:
    require_schema(data, SCHEMA)
    return str(data["id"]), str(data.get("reward", "")), Score.from_json(data)


def _samples(files: OpenFiles, name: str | None, beside: list[Path]) -> Mapping[str, EditSample]:
    """Samples by id: those that were named, or else those in the folders of these files."""
    if name:
        paths = [files.path("samples", name)]
    else:
        folders = {path.parent for path in beside}
        paths = [path for path in files.paths_by_name("samples").values() if path in folders or path.parent in folders]
    samples: dict[str, EditSample] = {}
    for path in paths:
        try:
            entries = [entry.sample for entry in SampleSource.open(path).read() if entry.sample is not None]
        except (InputError, ImageError, OSError):
            if name:
                raise
            continue  # what lies beside the scores need not be theirs
        for sample in entries:
            samples.setdefault(sample.id, sample)
    return samples
