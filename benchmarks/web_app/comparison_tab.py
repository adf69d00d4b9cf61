"""The tab "Compare": two result folders or score files, their difference, and the items that differ most."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import gradio as gr

from ..common.errors import InputError
from ..common.markdown import markdown_text
from ..report.comparison import compare_results
from . import comparison_results as results
from .comparison_results import ComparedResults, open_inputs
from .messages import UPLOADED, scroll_to, with_messages
from .settings import AppSettings

MAX_ITEMS = 40  # items that are shown at a time: each has three pictures
_JSON_ITEMS = 1_000  # changed items of each metric in the file

_START = {
    True: "Choose two results of one suite, or two score files of the same edits.",
    False: "Drop two score files of the same edits. For results, start the app with their folders.",
}
"""By whether something was named at the start."""


def comparison_tab(settings: AppSettings) -> None:
    """Add the tab's components to the `gr.Blocks` that is being built."""
    state = gr.State(None)
    samples = settings.files.names("samples")
    names = [*settings.files.names("results"), *settings.files.names("scores")]
    with gr.Row():
        with gr.Column(scale=2, min_width=320):
            chosen = [_chooser(names, "A (before)", "compare-a"), _chooser(names, "B (after)", "compare-b")]
            with gr.Accordion("Score files of your own, and pictures", open=not names, elem_id="compare-own"):
                uploads = [_upload("A", "compare-upload-a"), _upload("B", "compare-upload-b")]
                pictures = gr.Dropdown(
                    ["", *samples],
                    value="",
                    visible=bool(samples),
                    label="Pictures of score files",
                    info="the samples that were scored; none: those that lie beside the scores",
                    elem_id="compare-pictures",
                )
            threshold = gr.Slider(
                0, 1, 0.5, step=0.01, label="Threshold of metrics in 0 to 1", elem_id="compare-threshold"
            )
            compare = gr.Button("Compare", variant="primary", elem_id="compare-start")
        with gr.Column(scale=5, min_width=320):
            status = gr.Markdown(f"{_START[bool(names)]} Differences are B minus A.", elem_id="compare-status")
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

    compare.click(None, js=UPLOADED).then(
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
        component.input(on_items, [state, metric, order, count], items, queue=False)  # see `QUICK`


def _chooser(names: list[str], label: str, elem_id: str) -> gr.Dropdown:
    return gr.Dropdown(["", *names], value="", label=label, visible=bool(names), elem_id=elem_id)


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
