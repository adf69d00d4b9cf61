"""The tab "Compare results": two result folders or score files, their difference, and the items that differ most."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gradio as gr

from ...reward import EditSample, ImageError, Score
from ...reward.score import SCHEMA
from ..common.errors import InputError
from ..common.inputs import SampleSource
from ..common.markdown import markdown_text
from ..report.comparison import compare_results
from ..report.results_loading import load_result_folders
from ..run.editor_outputs import MissingOutput
from ..suites.results import ResultRow, Results, parsed_lines, require_schema
from ..suites.suite import Suite
from . import comparison_results as results
from .comparison_results import ComparedResults
from .messages import scroll_to, with_messages
from .open_files import OpenFiles, ResultPictures
from .settings import AppSettings

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
        if names[0] == names[1]:
            raise InputError("A and B are the same results: choose two")
        loaded = [one for name in names for one in load_result_folders([files.path("results", name)])[:1]]
        first, second = (one.results for one in loaded)
        suites = [results.provenance.get("suite") for results in (first, second)]
        if suites[0] != suites[1]:
            raise InputError(f"the results are of different suites: {suites[0]} and {suites[1]}")
        pictures = ResultPictures.find(files, loaded)
        return ComparedInputs(first, second, pictures.suite, pictures.sample, pictures.notes)
    if any(is_folder):
        raise InputError("one is a result folder, the other a score file: choose two of one kind")
    paths = [_score_path(files, name, upload, side) for name, upload, side in zip(names, uploads, "AB", strict=True)]
    named = [path.name if upload else name or "" for path, name, upload in zip(paths, names, uploads, strict=True)]
    if paths[0] == paths[1]:
        raise InputError("A and B are the same file: choose two")
    titles = (named[0], named[1]) if named[0] != named[1] else (f"{named[0]} (A)", f"{named[1]} (B)")
    first, second = (score_results(path, title) for path, title in zip(paths, titles, strict=True))
    samples = _samples(files, pictures, [path for path, upload in zip(paths, uploads, strict=True) if not upload])

    def sample(side: int, item: str) -> EditSample:
        if item not in samples:
            raise MissingOutput("its picture is not known: choose the samples that were scored")
        return samples[item]

    return ComparedInputs(first, second, None, sample, ())


def _score_path(files: OpenFiles, name: str | None, upload: str | None, side: str) -> Path:
    if upload:
        return Path(upload)
    if not name:
        raise InputError(f"{side} is not chosen: pick it from the list, or drop a score file")
    return files.path("scores", name)


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


MAX_ITEMS = 40
"""Items that are shown at a time: each has three pictures."""
_JSON_ITEMS = 1_000
"""Changed items of each metric in the file."""

_START = (
    "Choose two results of one suite, or two score files of the same edits, as `editcritic score -o` writes them. "
    "Differences are B minus A."
)


def comparison_tab(settings: AppSettings) -> None:
    """Add the tab's components to the `gr.Blocks` that is being built."""
    state = gr.State(None)
    names = [*settings.files.names("results"), *settings.files.names("scores")]
    with gr.Row():
        with gr.Column(scale=2, min_width=320):
            chosen = [_chooser(names, "A (before)", "compare-a"), _chooser(names, "B (after)", "compare-b")]
            with gr.Accordion("Score files of your own, and pictures", open=False):
                uploads = [_upload("A", "compare-upload-a"), _upload("B", "compare-upload-b")]
                pictures = gr.Dropdown(
                    ["", *settings.files.names("samples")],
                    value="",
                    label="Pictures of score files",
                    info="the samples that were scored; none: those that lie beside the scores",
                    elem_id="compare-pictures",
                )
            threshold = gr.Slider(
                0, 1, 0.5, step=0.01, label="Threshold of metrics in 0 to 1", elem_id="compare-threshold"
            )
            compare = gr.Button("Compare", variant="primary", elem_id="compare-start")
        with gr.Column(scale=5, min_width=320):
            status = gr.Markdown(_START, elem_id="compare-status")
            with gr.Column(visible=False, elem_id="compare-results") as shown:
                metrics = gr.Markdown(elem_id="compare-metrics", elem_classes="lined")
                with gr.Accordion("Leaderboard of the suite", open=False, visible=False) as board:
                    leaderboard = gr.Markdown(elem_id="compare-leaderboard", elem_classes="lined")
                with gr.Accordion("Settings that differ", open=False):
                    differing = gr.Markdown(elem_id="compare-settings")
                download = gr.DownloadButton("Comparison (JSON)", elem_id="compare-file")
                with gr.Row():
                    metric = gr.Dropdown([], label="Metric", elem_id="compare-metric")
                    order = gr.Dropdown(
                        list(results.ORDERS), value=results.ORDERS[0], label="Items first", elem_id="compare-order"
                    )
                    count = gr.Number(
                        8, minimum=1, maximum=MAX_ITEMS, precision=0, label="Items shown", elem_id="compare-count"
                    )
                items = gr.HTML(elem_id="compare-items")

    @with_messages
    def on_compare(
        first: str | None,
        second: str | None,
        first_upload: str | None,
        second_upload: str | None,
        of: str | None,
        crossing: float,
        order_by: str,
        how_many: float | None,
        progress: gr.Progress = gr.Progress(),  # noqa: B008  (gradio finds it there)
    ) -> Any:
        progress(None, desc="reading and comparing")
        try:
            compared = compared_results(
                settings, (first, second), (first_upload, second_upload), of, threshold=crossing
            )
        except InputError as error:
            return {
                state: None,
                status: f"**Not compared:** {markdown_text(str(error))}",
                shown: gr.Column(visible=False),
            }
        best = results.leaderboard_text(compared)
        return {
            state: compared,
            status: results.summary_text(compared),
            shown: gr.Column(visible=True),
            metrics: results.metrics_text(compared),
            board: gr.Accordion(visible=bool(best)),
            leaderboard: best,
            differing: results.settings_text(compared),
            download: str(written(settings, compared)),
            metric: gr.Dropdown(compared.metrics, value=compared.metrics[0]),
            items: results.items_html(compared, None, order_by, _bounded(how_many)),
        }

    compare.click(
        on_compare,
        [*chosen, *uploads, pictures, threshold, order, count],
        [state, status, shown, metrics, board, leaderboard, differing, download, metric, items],
        show_progress_on=[status],
        concurrency_limit=1,
    ).then(None, js=scroll_to("compare-status"))

    @with_messages
    def on_items(compared: ComparedResults | None, name: str | None, order_by: str, how_many: float | None) -> Any:
        return results.items_html(compared, name, order_by, _bounded(how_many)) if compared else gr.skip()

    for component in (metric, order, count):
        component.input(on_items, [state, metric, order, count], items, queue=False)  # see `quick_events`


def _chooser(names: list[str], label: str, elem_id: str) -> gr.Dropdown:
    info = "" if names else "none: start the app with folders of results, as in `editcritic app results`"
    return gr.Dropdown(["", *names], value="", label=label, info=info, elem_id=elem_id)


def _upload(side: str, elem_id: str) -> gr.File:
    return gr.File(label=f"{side}: score file", file_types=[".jsonl"], height=110, elem_id=elem_id)


def compared_results(
    settings: AppSettings,
    names: tuple[str | None, str | None],
    uploads: tuple[str | None, str | None],
    pictures: str | None,
    *,
    threshold: float,
) -> ComparedResults:
    """Open and compare two results. Raises `InputError` for what cannot be compared."""
    inputs = open_inputs(settings.files, names, uploads, pictures)
    comparison = compare_results(inputs.first, inputs.second, suite=inputs.suite, threshold=threshold)
    return ComparedResults(inputs, comparison)


def written(settings: AppSettings, compared: ComparedResults) -> Path:
    """The comparison as JSON, as `editcritic bench compare --json` prints it, in the app's private folder."""
    path = Path(tempfile.mkdtemp(dir=settings.folder)) / "comparison.json"
    text = json.dumps(compared.comparison.to_json(_JSON_ITEMS), ensure_ascii=False, indent=1)
    path.write_text(text, encoding="utf-8", errors="backslashreplace")
    return path


def _bounded(count: float | None) -> int:
    return max(1, min(int(count or 1), MAX_ITEMS))
