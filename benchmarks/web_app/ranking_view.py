"""The right side of the tab "Score and rank": the order, one edit in detail, two edits against each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradio as gr
import PIL.Image

from ..report.ranking import CandidateRanking
from . import ranking_results as results
from .ranking_results import RankedEdits
from .settings import AppSettings

MAX_THRESHOLDS = 6  # sliders of the page; rewards have fewer thresholds
Updates = dict[Any, Any]  # component -> what it shows now


class RankingView:
    """Components, added to the page that is being built, and what they show of `RankedEdits`."""

    def __init__(self, settings: AppSettings) -> None:
        self._settings = settings
        self.status = gr.Markdown(
            "Drop a picture and edits of it, open samples or results, or score the example: the order and the reasons "
            "for it appear here.",
            elem_id="rank-status",
        )
        with gr.Column(visible=False, elem_id="rank-results") as self.column:
            self.group = gr.Dropdown([], label="Source and instruction", visible=False, elem_id="rank-group")
            self.gallery = _gallery(
                "Best first: click one for its details", 4, "rank-gallery", allow_preview=False, buttons=[]
            )
            self.unranked = _gallery("Not ranked", 4, "rank-unranked", allow_preview=False, buttons=[])
            self.accepted_from = gr.Slider(0, 1, 0.5, step=0.01, label="Accept from this score", elem_id="rank-accept")
            self.table = gr.Markdown(elem_id="rank-table", elem_classes="tight")
            with gr.Accordion("The chosen edit", open=True):
                self.chosen = gr.Dropdown([], label="Edit", elem_id="rank-chosen")
                self.panels = _gallery(
                    "Click one to enlarge it",
                    3,
                    "rank-panels",
                    buttons=["fullscreen"],
                )
                self.parts = gr.Markdown(elem_id="rank-parts")
                with gr.Accordion("What the experts said", open=False):
                    self.evidence = gr.Markdown(elem_id="rank-evidence")
            with gr.Accordion("Why is one above the other?", open=True):
                with gr.Row():
                    self.first = gr.Dropdown([], label="This edit", min_width=240, elem_id="rank-first")
                    self.second = gr.Dropdown([], label="against this one", min_width=240, elem_id="rank-second")
                self.why = gr.Markdown(elem_id="rank-why", elem_classes="tight")
            with gr.Accordion("Thresholds of the reward", open=False):
                self.about_thresholds = gr.Markdown(elem_id="rank-no-thresholds")
                self.sliders = [
                    gr.Slider(0, 1, 0, step=0.01, visible=False, elem_id=f"rank-threshold-{number}")
                    for number in range(MAX_THRESHOLDS)
                ]
            with gr.Row():
                self.scores_file = gr.DownloadButton("Scores (JSONL)", elem_id="rank-scores-file")
                self.sheet_file = gr.DownloadButton("Sheet (HTML)", elem_id="rank-sheet-file")

    @property
    def outputs(self) -> list[Any]:
        """All that the methods below change."""
        order = [self.status, self.column, self.group, self.gallery, self.unranked, self.table]
        details = [self.chosen, self.panels, self.parts, self.evidence, self.first, self.second, self.why]
        return [*order, *details, self.about_thresholds, *self.sliders, *self.files]

    @property
    def files(self) -> list[gr.DownloadButton]:
        """Buttons of what can be downloaded, which is written after it is shown."""
        return [self.scores_file, self.sheet_file]

    def show(
        self, ranked: RankedEdits, group: str | None, accepted_from: float, chosen: Sequence[str | None] = ()
    ) -> Updates:
        """A group's order. chosen: the edit in detail and the two that are compared, where they are in the group."""
        ranking = ranked.ranking(group)
        names = [one.sample.id for one in ranking.candidates]
        detail, first, second = (
            name if name in names else default
            for name, default in zip(
                [*chosen, None, None, None], (names[0], names[0], names[1] if len(names) > 1 else None), strict=False
            )
        )
        groups = results.group_names(ranked)
        best_first = [one for one in ranking.candidates if one.rank is not None]
        unranked = ranking.candidates[len(best_first) :]
        return {
            self.column: gr.Column(visible=True),
            self.group: gr.Dropdown(groups, value=ranking.group, visible=len(groups) > 1),
            self.gallery: _shown(results.thumbnails(best_first)),
            self.unranked: _shown(results.thumbnails(unranked)),
            **self.show_accepted(ranking, accepted_from),
            self.chosen: gr.Dropdown(names, value=detail),
            **self.show_edit(ranked, detail),
            self.first: gr.Dropdown(names, value=first),
            self.second: gr.Dropdown(names, value=second),
            **self.show_pair(ranked, first, second),
        }

    def show_files_pending(self) -> Updates:
        """Buttons without files: those of other scores are not these."""
        return {button: gr.DownloadButton(interactive=False) for button in self.files}

    def show_accepted(self, ranking: CandidateRanking, accepted_from: float) -> Updates:
        """The table."""
        return {self.table: results.ranking_text(ranking, accepted_from)}

    def show_edit(self, ranked: RankedEdits, name: str | None) -> Updates:
        """One edit: pictures, plan and parts, and what experts said."""
        if name is None:
            return {self.panels: [], self.parts: "", self.evidence: ""}
        return {
            self.panels: results.panels(self._settings, ranked, name),
            self.parts: results.parts_text(ranked, name),
            self.evidence: results.evidence_text(ranked, name),
        }

    def show_pair(self, ranked: RankedEdits, first: str | None, second: str | None) -> Updates:
        """Why one edit is above another."""
        is_pair = first and second and first != second
        return {self.why: results.why_text(ranked, first, second) if is_pair else "Choose two edits."}  # type: ignore[arg-type]

    def show_thresholds(self, ranked: RankedEdits) -> Updates:
        """A slider for each threshold of the reward."""
        thresholds = list(results.movable_thresholds(ranked.reward).items())[:MAX_THRESHOLDS]
        note = (
            "Moved over the answers that are there: no expert is asked again."
            if thresholds
            else f"{ranked.reward} has no thresholds to move: its constants are those of its protocol."
        )
        # Some must be below 1, and none is of use there.
        shown = [
            gr.Slider(value=value, maximum=max(value, 0.99), label=name, visible=True) for name, value in thresholds
        ]
        hidden = [gr.Slider(visible=False)] * (MAX_THRESHOLDS - len(thresholds))
        return {self.about_thresholds: note, **dict(zip(self.sliders, [*shown, *hidden], strict=True))}


def thumbnail_gallery(label: str, elem_id: str) -> gr.Gallery:
    """Small pictures, hidden while there are none."""
    return _gallery(label, 6, elem_id, allow_preview=False, buttons=[], visible=False)


def _shown(pictures: Sequence[tuple[PIL.Image.Image, str]]) -> gr.Gallery:
    return gr.Gallery(list(pictures), selected_index=None, visible=bool(pictures))


def _gallery(label: str, columns: int, elem_id: str, **options: Any) -> gr.Gallery:
    return gr.Gallery(
        label=label,
        columns=columns,
        height="auto",
        object_fit="contain",
        format="png",
        interactive=False,
        elem_id=elem_id,
        **options,
    )
