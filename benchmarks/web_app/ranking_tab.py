"""The tab "Score and rank": edits in, their order and the reasons for it out."""

from __future__ import annotations

import html
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from ...reward import EditSample, Image, Score
from ...reward.score import score_line
from ..common.errors import InputError
from ..common.inputs import SampleEntry
from ..common.markdown import markdown_text
from ..report.ranking_sheet import write_sheet
from ..run.scoring_run import score_entries
from .messages import QUICK, UPLOADED, scroll_to, with_messages
from .question_view import PictureStore, drawing_script
from .ranking_inputs import MAX_EDITS, demo_entries, demo_names, file_entries, folder_entries, uploaded_entries
from .ranking_results import RankedEdits, dropped_pictures, movable_thresholds, value_text
from .ranking_view import RankingView, Updates, thumbnail_gallery
from .reward_choice import require_offered, reward_choice
from .settings import AppSettings
from .source_view import plan_html, source_html

_FIRST = 60  # edits of a file that are scored unless the user says how many


class RankingForm:
    """Components, added to the page that is being built. uploads, opened: inputs of the event of their button."""

    def __init__(self, settings: AppSettings) -> None:
        with gr.Tabs():
            with gr.Tab("Drop"):
                # Files, not pictures: a component for pictures writes them anew, and what it writes is scored.
                source = gr.File(label="Source", file_types=["image"], height=110, elem_id="rank-source")
                edits = gr.File(
                    label="Edits", file_types=["image"], file_count="multiple", height=140, elem_id="rank-edits"
                )
                dropped = thumbnail_gallery("Dropped edits", "rank-dropped")
                instruction = gr.Textbox(
                    label="Instruction", placeholder="Make the mug blue", lines=2, elem_id="rank-instruction"
                )
                plan = gr.HTML(elem_id="rank-plan")
                view = gr.HTML(visible=False, elem_id="rank-source-view", js_on_load=drawing_script("source.js"))
                with gr.Accordion("A folder instead of single edits", open=False):
                    gr.Markdown(
                        "Edits of the source; or, without a source, a `samples.jsonl` with its pictures, or pairs "
                        "`ID_source.png` and `ID_edited.png` with the instruction in `ID.txt`."
                    )
                    folder = gr.File(label="Folder", file_count="directory", height=110, elem_id="rank-folder")
                as_json = gr.Checkbox(False, label="Boxes as JSON", elem_id="rank-as-json", container=False)
                # Hidden, but there: the picture's script writes into it.
                boxes = gr.Textbox(
                    label='Pixel corners in the source, as in {"mug": [[120, 80, 260, 240]]}',
                    visible="hidden",
                    elem_id="rank-boxes",
                )
                as_json.change(lambda on: gr.Textbox(visible=True if on else "hidden"), as_json, boxes, **QUICK)
                self.score_uploads = gr.Button("Score", variant="primary", elem_id="rank-score")
            with gr.Tab("Open"):
                names = [*settings.files.names("samples"), *settings.files.names("results")]
                opened = gr.Dropdown(
                    names,
                    value=[],
                    multiselect=True,
                    label="Samples or results",
                    info="One file or folder of samples, or result folders of one suite, whose editors are ranked"
                    if names
                    else "Nothing can be opened: start the app with files or folders, as in `editcritic app FOLDER`",
                    elem_id="rank-open",
                )
                limit = gr.Number(
                    _FIRST, minimum=1, maximum=MAX_EDITS, precision=0, label="Edits at most", elem_id="rank-limit"
                )
                self.score_file = gr.Button("Score", variant="primary", elem_id="rank-score-file")
            with gr.Tab("Example"):
                self.example = gr.Dropdown(
                    demo_names(), label="A photograph with good and bad edits", elem_id="rank-example"
                )
                self.score_example = gr.Button("Score", variant="primary", elem_id="rank-score-example")
        self.choice = reward_choice(settings, "rank")
        self.uploads: list[Any] = [source, edits, folder, instruction, boxes]
        self._follow_uploads(settings, dropped, plan, view)
        self.opened = [opened, limit]

    def _follow_uploads(self, settings: AppSettings, dropped: gr.Gallery, plan: gr.HTML, view: gr.HTML) -> None:
        """Show what is dropped, the plan of what is typed, and the source with its boxes."""
        source, edits, _, instruction, _ = self.uploads
        store = PictureStore(settings.folder)

        @with_messages
        def on_source(path: str | None) -> Any:
            return gr.HTML(source_html(Image.open(Path(path)), store) if path else "", visible=bool(path))

        @with_messages
        def on_edits(paths: list[str] | None) -> Any:
            pictures = dropped_pictures(paths or ())
            return gr.Gallery(pictures, visible=bool(pictures))

        source.change(on_source, source, view, **QUICK)
        instruction.change(plan_html, instruction, plan, trigger_mode="always_last", **QUICK)
        edits.change(on_edits, edits, dropped, **QUICK)


def ranking_tab(settings: AppSettings) -> None:
    """Add the tab's components to the `gr.Blocks` that is being built."""
    state = gr.State(None)
    with gr.Row():
        with gr.Column(scale=2, min_width=320):
            form = RankingForm(settings)
        with gr.Column(scale=5, min_width=320):
            view = RankingView(settings)

    def scored(
        progress: gr.Progress, entries: list[SampleEntry], note: str, reward: str, experts: str, allowed: bool
    ) -> Updates:
        require_offered(settings, reward, experts, allowed)
        ranked = score(settings, entries, reward, experts, progress)
        count = f"**{len(ranked.scores)} edits** by {markdown_text(reward)} with {markdown_text(experts)}. {note}"
        low, high = ranked.limits
        middle = (low + high) / 2
        return {
            state: ranked,
            view.status: count,
            **view.show(ranked, None, middle),
            view.accepted_from: gr.Slider(low, high, middle, step=(high - low) / 100),
            **view.show_thresholds(ranked),
            **view.show_files_pending(),
        }

    @with_messages
    def on_files(ranked: RankedEdits | None) -> Any:
        if ranked is None:
            return gr.skip(), gr.skip()
        return [gr.DownloadButton(value=str(path), interactive=True) for path in written(settings, ranked)]

    @with_messages
    def on_uploads(
        source: str | None,
        edits: list[str] | None,
        folder: list[str] | None,
        instruction: str | None,
        boxes: str | None,
        *choice: Any,
        progress: gr.Progress = gr.Progress(),  # noqa: B008  (gradio finds it there)
    ) -> Any:
        if folder:
            entries = folder_entries(folder, settings.folder, source, instruction, boxes)
        else:
            entries = uploaded_entries(source, edits, instruction, boxes)
        return scored(progress, entries, "", *choice)

    @with_messages
    def on_file(
        names: list[str] | None,
        limit: float | None,
        *choice: Any,
        progress: gr.Progress = gr.Progress(),  # noqa: B008
    ) -> Any:
        entries, has_more = file_entries(settings.files, names or (), int(limit or 1))
        more = f"These are the first {len(entries)}; there are more." if has_more else ""
        return scored(progress, entries, more, *choice)

    @with_messages
    def on_example(name: str | None, *choice: Any, progress: gr.Progress = gr.Progress()) -> Any:  # noqa: B008
        return scored(progress, demo_entries(name or ""), "", *choice)

    inputs: list[tuple[Any, Any, list[Any]]] = [
        (form.score_uploads.click(None, js=UPLOADED).then, on_uploads, form.uploads),
        (form.score_file.click, on_file, form.opened),
        (form.score_example.click, on_example, [form.example]),
    ]
    outputs = [state, view.accepted_from, *view.outputs]
    for event, function, components in inputs:
        done = event(
            function, [*components, *form.choice.inputs], outputs, show_progress_on=[view.status], concurrency_limit=1
        )
        done.success(None, js=scroll_to("rank-status"))
        done.success(on_files, state, view.files, **QUICK)

    @with_messages
    def on_group(ranked: RankedEdits | None, name: str, accepted: float) -> Any:
        return view.show(ranked, name, accepted) if ranked else {}

    view.group.input(on_group, [state, view.group, view.accepted_from], view.outputs, **QUICK)

    @with_messages
    def on_accept(ranked: RankedEdits | None, name: str | None, accepted: float) -> Any:
        return view.show_accepted(ranked.ranking(name), accepted) if ranked else {}

    view.accepted_from.input(
        on_accept, [state, view.group, view.accepted_from], view.outputs, trigger_mode="always_last", **QUICK
    )

    def pictures(has_rank: bool) -> Callable[..., Any]:
        @with_messages
        def on_picture(ranked: RankedEdits | None, group: str | None, event: gr.SelectData) -> Any:
            if ranked is None:
                return {}
            shown = [one for one in ranked.ranking(group).candidates if (one.rank is not None) == has_rank]
            name = shown[int(event.index)].sample.id
            return {view.chosen: name, **view.show_edit(ranked, name)}

        return on_picture

    for gallery, has_rank in ((view.gallery, True), (view.unranked, False)):
        gallery.select(pictures(has_rank), [state, view.group], view.outputs, **QUICK)

    @with_messages
    def on_chosen(ranked: RankedEdits | None, name: str | None) -> Any:
        return view.show_edit(ranked, name) if ranked else {}

    view.chosen.input(on_chosen, [state, view.chosen], view.outputs, **QUICK)

    @with_messages
    def on_pair(ranked: RankedEdits | None, one: str | None, other: str | None) -> Any:
        return view.show_pair(ranked, one, other) if ranked else {}

    for chooser in (view.first, view.second):
        chooser.input(on_pair, [state, view.first, view.second], view.outputs, **QUICK)

    @with_messages
    def on_threshold(
        ranked: RankedEdits | None,
        group: str | None,
        accepted: float,
        chosen: str | None,
        first: str | None,
        second: str | None,
        *values: float,
    ) -> Any:
        if ranked is None:
            return {}
        moved = dict(zip(movable_thresholds(ranked.reward), values, strict=False))
        again = rescore(settings, ranked, moved)
        shown = view.show(again, group, accepted, (chosen, first, second))
        return {state: again, **shown, **view.show_files_pending()}

    for slider in view.sliders:
        slider.input(
            on_threshold,
            [state, view.group, view.accepted_from, view.chosen, view.first, view.second, *view.sliders],
            outputs,
            show_progress="hidden",
            trigger_mode="always_last",
        ).success(on_files, state, view.files, **QUICK)


def score(
    settings: AppSettings, entries: Sequence[SampleEntry], reward: str, experts: str, progress: gr.Progress
) -> RankedEdits:
    """Score the entries; those that are no samples are warnings. Raises `InputError` if none is one."""
    bound = settings.scorers.reward(reward, experts)
    samples: list[EditSample] = []
    scores: list[Score] = []

    def on_score(name: str, score: Score) -> None:
        scores.append(score)
        progress((len(scores), len(entries)), desc=f"{name}: {value_text(score)}", unit="edits")

    problems: list[str] = []
    progress((0, len(entries)), desc="scoring", unit="edits")
    outcome = score_entries(bound, entries, on_score, on_problem=problems.append, on_sample=samples.append)
    if not scores:
        raise InputError("; ".join(problems[:3]) or outcome.stop_reason or "nothing was scored")
    for problem in problems[:5]:
        gr.Warning(html.escape(problem), duration=None)
    return RankedEdits(samples[: len(scores)], scores, bound.card.range, reward, experts, {})


def rescore(settings: AppSettings, ranked: RankedEdits, thresholds: dict[str, float]) -> RankedEdits:
    """The same edits with other thresholds, from answers that are there: no expert is asked."""
    scores = settings.scorers.rescored(ranked.reward, ranked.experts, ranked.samples, **thresholds)
    return RankedEdits(ranked.samples, list(scores), ranked.range, ranked.reward, ranked.experts, thresholds)


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
