"""Beside the questions of the tab "Label": agreement so far, and labels in and out as files."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import gradio as gr

from ...reward.atomic_files import write_atomically
from ..common.errors import InputError
from ..common.markdown import markdown_text
from ..human_eval.agreement_tables import STATISTIC_DESCRIPTIONS
from ..human_eval.annotation_session import AnnotationSession
from ..human_eval.label_agreement import agreement_between, agreement_with, score_lookup
from ..human_eval.label_matching import ScoreLookup
from ..human_eval.label_sheets import ImportedLabels, labels_csv, labels_jsonl
from ..human_eval.question_sheets import import_labels
from ..suites.tables import ComputedTable

_BY_NAME = "the metric of the dimension's name"
_SHOWN_PROBLEMS = 5


class AgreementPanel:
    """Tables that are computed when the panel is opened, and when they are asked for again."""

    def __init__(self) -> None:
        with gr.Accordion("Agreement so far", open=False, visible=False, elem_id="label-agreement") as self.panel:
            self.metric = gr.Dropdown(
                [_BY_NAME], value=_BY_NAME, label="Compared with scores of", visible=False, elem_id="label-metric"
            )
            self.text = gr.Markdown(elem_id="label-agreement-text")
            self.refresh = gr.Button("With the newest answers", size="sm", elem_id="label-refresh")

    def show(self, session: AnnotationSession, metric: str) -> dict[Any, Any]:
        """The tables, and the metrics that scores have."""
        lookup = score_lookup(session.score_sources) if session.score_sources else None
        choices = [_BY_NAME, *(lookup.metrics if lookup else ())]
        if metric == _BY_NAME and len(choices) == 2:
            metric = choices[1]
        return {
            self.metric: gr.Dropdown(choices, value=metric, visible=lookup is not None),
            self.text: agreement_text(session, lookup, None if metric == _BY_NAME else metric),
        }


def agreement_text(session: AnnotationSession, lookup: ScoreLookup | None = None, metric: str | None = None) -> str:
    """Checks of annotators, and tables between them and with scores, as Markdown."""
    labels = session.labels
    if all(label.phase != "main" for label in labels):
        return "There is nothing to compare yet: practice does not count."
    lines = [f"- {markdown_text(str(check))}" for check in session.checks()]
    tables: list[ComputedTable] = []
    try:
        tables += agreement_between(labels, session.pool)
        if lookup is not None:
            tables += agreement_with(labels, lookup, metric)
    except InputError as error:
        lines.append(f"- {markdown_text(str(error))}")
    columns = dict.fromkeys(column for table in tables for column in table.table.columns)
    notes = [f"- {name}: {STATISTIC_DESCRIPTIONS[name]}" for name in columns if name in STATISTIC_DESCRIPTIONS]
    return "\n\n".join(["\n".join(lines), *(table.markdown() for table in tables), "\n".join(notes)])


class FilesPanel:
    """Labels as files. folder: where they are written for download; None: a temporary one."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        with gr.Accordion("Labels in and out", open=False, visible=False, elem_id="label-files") as self.panel:
            with gr.Row():
                with gr.Column():
                    self.export = gr.Button("Export", elem_id="label-export")
                    self.exported = gr.File(
                        label="CSV and JSONL", file_count="multiple", interactive=False, elem_id="label-exported"
                    )
                self.upload = gr.File(
                    label="Import labels (CSV or JSONL), or an answered question sheet",
                    file_types=[".csv", ".jsonl"],
                    elem_id="label-import",
                )
            self.outcome = gr.Markdown(elem_id="label-imported")

    def written(self, session: AnnotationSession) -> list[str]:
        """Paths of the labels as CSV and JSONL. Raises OSError."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        labels = session.labels
        write_atomically(folder / "labels.csv", labels_csv(labels))
        write_atomically(folder / "labels.jsonl", labels_jsonl(labels))
        return [str(folder / "labels.csv"), str(folder / "labels.jsonl")]

    @staticmethod
    def imported(session: AnnotationSession, path: str | None) -> str:
        """Add the labels of an uploaded file, and say as Markdown what it held, or why nothing. Raises OSError."""
        if not path:
            return "There is no file: drop labels as CSV or JSONL."
        try:
            imported = import_labels(session, Path(path))
        except InputError as error:
            return f"Nothing was added: {markdown_text(str(error))}"
        return import_text(imported, session.add_labels(imported.labels))


def import_text(imported: ImportedLabels, num_new: int) -> str:
    """What an import did, as Markdown."""
    lines = [f"{num_new:,} labels were added, {len(imported.labels) - num_new:,} were there already."]
    if imported.unanswered:
        lines.append(f"{imported.unanswered:,} rows have no answer.")
    if imported.problems.total:
        lines.append(f"{imported.problems.total:,} rows were left out:")
    shown = [f"- {markdown_text(problem)}" for problem in imported.problems[:_SHOWN_PROBLEMS]]
    return "\n".join([" ".join(lines), "", *shown])
