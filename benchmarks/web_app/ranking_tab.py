"""The tab "Score and rank": edits in, their order and the reasons for it out."""

from __future__ import annotations

import html
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr
import PIL.Image

from ...reward import EditSample, Score
from ...reward.score import score_line
from ..common.errors import InputError
from ..common.inputs import SampleEntry
from ..report.ranking_sheet import write_sheet
from ..run.scoring_run import score_entries
from . import ranking_results as results
from .messages import with_messages
from .ranking_inputs import demo_entries, demo_names, file_entries, uploaded_entries
from .ranking_results import RankedEdits
from .reward_choice import require_offered, reward_choice
from .settings import AppSettings

MAX_THRESHOLDS = 6
"""Sliders of the page; rewards have fewer thresholds."""

Pictures = list[tuple[PIL.Image.Image, str]]


def ranking_tab(settings: AppSettings) -> None:
    """Add the tab's components to the `gr.Blocks` that is being built."""
    state = gr.State(None)
    with gr.Row():
        with gr.Column(scale=2, min_width=320):
            with gr.Tabs():
                with gr.Tab("Drop"):
                    # Files, not pictures: a component for pictures writes them anew, and what it writes is scored.
                    source = gr.File(label="Source", file_types=["image"], height=110, elem_id="rank-source")
                    edits = gr.File(
                        label="Edits", file_types=["image"], file_count="multiple", height=140, elem_id="rank-edits"
                    )
                    instruction = gr.Textbox(
                        label="Instruction", placeholder="Make the mug blue", lines=2, elem_id="rank-instruction"
                    )
                    with gr.Accordion("Boxes of objects in the source (optional)", open=False):
                        boxes = gr.Textbox(
                            label='Pixel corners, as in {"mug": [[120, 80, 260, 240]]}',
                            elem_id="rank-boxes",
                        )
                    score_uploads = gr.Button("Score", variant="primary", elem_id="rank-score")
                with gr.Tab("Open"):
                    opened = gr.Dropdown(
                        settings.files.names("samples"),
                        value=None,
                        label="Samples",
                        info="files and folders that the app was started with: editcritic app FOLDER",
                        elem_id="rank-open",
                    )
                    score_file = gr.Button("Score", variant="primary", elem_id="rank-score-file")
                with gr.Tab("Example"):
                    example = gr.Dropdown(
                        demo_names(), label="A photograph with good and bad edits", elem_id="rank-example"
                    )
                    score_example = gr.Button("Score", variant="primary", elem_id="rank-score-example")
            choice = reward_choice(settings, "rank")
        with gr.Column(scale=5, min_width=320):
            group = gr.Dropdown([], label="Source and instruction", visible=False, elem_id="rank-group")
            gallery = gr.Gallery(
                label="Edits, best first",
                columns=4,
                height="auto",
                object_fit="contain",
                format="png",
                allow_preview=False,
                buttons=[],
                elem_id="rank-gallery",
            )
            accepted_from = gr.Slider(0, 1, 0.5, step=0.01, label="Accept from this score", elem_id="rank-accept")
            table = gr.Dataframe(
                headers=results.ROW_HEADERS,
                datatype="str",
                interactive=False,
                wrap=True,
                column_widths=["6%", "16%", "12%", "9%", "10%", "47%"],
                elem_id="rank-table",
            )
            with gr.Accordion("The chosen edit", open=True):
                chosen = gr.Dropdown([], label="Edit", elem_id="rank-chosen")
                panels = gr.Gallery(
                    label="Source, edit, and what changed",
                    columns=3,
                    height=420,
                    object_fit="contain",
                    format="png",
                    buttons=["fullscreen"],
                    elem_id="rank-panels",
                )
                parts = gr.Markdown(elem_id="rank-parts")
                with gr.Accordion("What the experts said", open=False):
                    said = gr.Markdown(elem_id="rank-evidence")
            with gr.Accordion("Why is one above the other?", open=True):
                with gr.Row():
                    first = gr.Dropdown([], label="This edit", elem_id="rank-first")
                    second = gr.Dropdown([], label="against this one", elem_id="rank-second")
                why = gr.Markdown(elem_id="rank-why")
            with gr.Accordion("Thresholds", open=False):
                no_thresholds = gr.Markdown("Score edits first.", elem_id="rank-no-thresholds")
                sliders = [
                    gr.Slider(0, 1, 0, step=0.01, visible=False, elem_id=f"rank-threshold-{number}")
                    for number in range(MAX_THRESHOLDS)
                ]
            with gr.Row():
                scores_file = gr.DownloadButton("Scores (JSONL)", interactive=False, elem_id="rank-scores-file")
                sheet_file = gr.DownloadButton("Sheet (HTML)", interactive=False, elem_id="rank-sheet-file")

    ranking_outputs = [group, gallery, table, chosen, first, second]
    threshold_outputs = [no_thresholds, *sliders]

    def scored(progress: gr.Progress, entries: list[SampleEntry], reward: str, experts: str, allowed: bool) -> Any:
        require_offered(settings, reward, experts, allowed)
        ranked = score(settings, entries, reward, experts, progress)
        return (
            ranked,
            *shown_ranking(ranked, None, 0.5),
            *shown_thresholds(ranked),
            *(gr.DownloadButton(value=str(path), interactive=True) for path in written(settings, ranked)),
        )

    scored_outputs = [state, *ranking_outputs, *threshold_outputs, scores_file, sheet_file]

    @with_messages
    def on_uploads(
        source: str | None,
        edits: list[str] | None,
        instruction: str,
        boxes: str,
        *choice: Any,
        progress: gr.Progress = gr.Progress(),  # noqa: B008  (gradio finds it there)
    ) -> Any:
        return scored(progress, uploaded_entries(source, edits, instruction, boxes), *choice)

    @with_messages
    def on_file(name: str | None, *choice: Any, progress: gr.Progress = gr.Progress()) -> Any:  # noqa: B008
        return scored(progress, file_entries(settings.files, name or ""), *choice)

    @with_messages
    def on_example(name: str, *choice: Any, progress: gr.Progress = gr.Progress()) -> Any:  # noqa: B008
        return scored(progress, demo_entries(name), *choice)

    inputs: list[tuple[gr.Button, Any, list[Any]]] = [
        (score_uploads, on_uploads, [source, edits, instruction, boxes]),
        (score_file, on_file, [opened]),
        (score_example, on_example, [example]),
    ]
    for button, function, given in inputs:
        button.click(
            function, [*given, *choice.inputs], scored_outputs, show_progress_on=[gallery], concurrency_limit=1
        )

    @with_messages
    def on_group(ranked: RankedEdits | None, name: str, accepted: float) -> Any:
        return shown_ranking(ranked, name, accepted)[1:] if ranked else (gr.skip(),) * 5

    group.input(on_group, [state, group, accepted_from], ranking_outputs[1:], show_progress="hidden")

    @with_messages
    def on_accept(ranked: RankedEdits | None, name: str | None, accepted: float) -> Any:
        return results.rows(ranked.ranking(name), accepted) if ranked else gr.skip()

    accepted_from.change(on_accept, [state, group, accepted_from], table, show_progress="hidden")

    def on_gallery(ranked: RankedEdits | None, name: str | None, event: gr.SelectData) -> Any:
        return ranked.ranking(name).candidates[int(event.index)].sample.id if ranked else gr.skip()

    gallery.select(on_gallery, [state, group], chosen, show_progress="hidden")

    @with_messages
    def on_chosen(ranked: RankedEdits | None, name: str | None) -> Any:
        if ranked is None or not name:
            return [], "", ""
        return (
            results.panels(settings, ranked, name),
            results.parts_text(ranked, name),
            results.evidence_text(ranked, name),
        )

    gr.on([chosen.change, state.change], on_chosen, [state, chosen], [panels, parts, said], show_progress="hidden")

    @with_messages
    def on_pair(ranked: RankedEdits | None, one: str | None, other: str | None) -> str:
        return results.why_text(ranked, one, other) if ranked and one and other and one != other else ""

    gr.on([first.change, second.change, state.change], on_pair, [state, first, second], why, show_progress="hidden")

    @with_messages
    def on_threshold(ranked: RankedEdits | None, name: str | None, accepted: float, *values: float) -> Any:
        if ranked is None:
            return (gr.skip(),) * 5
        moved = dict(zip(results.movable_thresholds(ranked.reward), values, strict=False))
        again = rescore(settings, ranked, moved)
        ranking = again.ranking(name)
        return (
            again,
            results.thumbnails(ranking),
            results.rows(ranking, accepted),
            *(gr.DownloadButton(value=str(path), interactive=True) for path in written(settings, again)),
        )

    for slider in sliders:
        slider.release(
            on_threshold,
            [state, group, accepted_from, *sliders],
            [state, gallery, table, scores_file, sheet_file],
            show_progress="hidden",
        )


def score(
    settings: AppSettings, entries: Sequence[SampleEntry], reward: str, experts: str, progress: gr.Progress
) -> RankedEdits:
    """Score the entries; those that are no samples are warnings. Raises `InputError` if none is one."""
    bound = settings.scorers.reward(reward, experts)
    samples: list[EditSample] = []
    scores: list[Score] = []

    def on_score(name: str, score: Score) -> None:
        scores.append(score)
        progress((len(scores), len(entries)), desc=f"{name}: {results.value_text(score)}", unit="edits")

    problems: list[str] = []
    progress((0, len(entries)), desc="scoring", unit="edits")
    outcome = score_entries(bound, entries, on_score, on_problem=problems.append, on_sample=samples.append)
    if not scores:
        raise InputError("; ".join(problems[:3]) or outcome.stop_reason or "nothing was scored")
    for problem in problems[:5]:
        gr.Warning(html.escape(problem), duration=None)
    return RankedEdits(samples[: len(scores)], scores, bound.card.range[0], reward, experts, {})


def rescore(settings: AppSettings, ranked: RankedEdits, thresholds: dict[str, float]) -> RankedEdits:
    """The same edits with other thresholds, from answers that are there: no expert is asked."""
    reward = settings.scorers.recorded(ranked.reward, ranked.experts, **thresholds)
    scores = reward(ranked.samples)
    return RankedEdits(ranked.samples, list(scores), reward.card.range[0], ranked.reward, ranked.experts, thresholds)


def shown_ranking(ranked: RankedEdits, name: str | None, accepted_from: float) -> tuple[Any, ...]:
    """Values of group, gallery, table, and the choosers of edits."""
    ranking = ranked.ranking(name)
    names = [one.sample.id for one in ranking.candidates]
    groups = results.group_names(ranked)
    other = names[1] if len(names) > 1 else None
    return (
        gr.Dropdown(groups, value=ranking.group, visible=len(groups) > 1),
        results.thumbnails(ranking),
        results.rows(ranking, accepted_from),
        gr.Dropdown(names, value=names[0]),
        gr.Dropdown(names, value=names[0]),
        gr.Dropdown(names, value=other),
    )


def shown_thresholds(ranked: RankedEdits) -> list[Any]:
    """The note, and a slider for each threshold of the reward."""
    thresholds = list(results.movable_thresholds(ranked.reward).items())[:MAX_THRESHOLDS]
    note = (
        "Moved over the answers that are there: no expert is asked again."
        if thresholds
        else f"{ranked.reward} has no thresholds to move: its constants are those of its protocol."
    )
    hidden = [gr.Slider(visible=False)] * (MAX_THRESHOLDS - len(thresholds))
    return [note, *(gr.Slider(value=value, label=name, visible=True) for name, value in thresholds), *hidden]


def written(settings: AppSettings, ranked: RankedEdits) -> tuple[Path, Path]:
    """The files for download, in the app's private folder: scores, and a sheet of all groups."""
    folder = Path(tempfile.mkdtemp(dir=settings.folder))
    reward = settings.scorers.reward(ranked.reward, ranked.experts, **ranked.options)
    scores, sheet = folder / "scores.jsonl", folder / "ranking.html"
    with scores.open("w", encoding="utf-8") as file:
        for sample, score in zip(ranked.samples, ranked.scores, strict=True):
            file.write(score_line(sample.id, score, reward.known_signature))
    write_sheet(sheet, ranked.rankings, reward.card)
    return scores, sheet
