"""The tab "Audit": how would a reward be hacked?"""

from __future__ import annotations

from typing import Any

import gradio as gr

from .audit_inputs import audit_command, chosen_families, edit_choice, edit_limit, family_choice
from .audit_jobs import AuditChoice, AuditJob, AuditJobs
from .audit_report import done_html, progress_html, report_html, stored_report_html
from .messages import with_messages
from .quick_events import QUICK
from .reward_choice import require_offered, reward_choice
from .settings import AppSettings

Updates = dict[Any, Any]
"""New values of components."""

_WATCH_S = 1.0
"""Between two looks at an audit."""

_SHOW_STATUS = (
    "(...given) => { document.getElementById('audit-status').scrollIntoView({block: 'center'}); return given; }"
)
"""The button that starts is below the fold, what it shows above."""

_INTRODUCTION = (
    "Of good edits, variants are made whose right order is known: damaged ones must score lower, harmless changes must "
    "not matter, broken pictures must have no score. How often is the reward wrong, and what would a policy gain?"
)
_TIME = (
    "Each edit has up to three variants of each family: with all families and the experts `cpu`, an edit takes half a "
    "minute or more. You can stop at any time, with a report of what is scored by then."
)


def audit_tab(settings: AppSettings) -> None:
    """Add the tab's components to the `gr.Blocks` that is being built."""
    jobs = AuditJobs(settings.scorers, settings.folder)
    job_of_window = gr.State(None)
    with gr.Row():
        with gr.Column(scale=2, min_width=320):
            gr.Markdown(_INTRODUCTION)
            edits = edit_choice(settings.files)
            choice = reward_choice(settings, "audit")
            families = family_choice()
            gr.Markdown(_TIME)
            start = gr.Button("Start", variant="primary", elem_id="audit-start")
            with gr.Accordion("Open figures that are there", open=False):
                stored = gr.Dropdown(
                    settings.files.names("audit"),
                    value=None,
                    label="Figures",
                    info="what `editcritic audit -o audit.json` wrote, among the files that the app was started with; "
                    "without pictures",
                    elem_id="audit-stored",
                )
                show_stored = gr.Button("Show", elem_id="audit-show")
        with gr.Column(scale=5, min_width=320):
            status = gr.HTML("<p>The report will be here.</p>", elem_id="audit-status")
            stop = gr.Button("Stop, and report", variant="stop", visible=False, elem_id="audit-stop")
            with gr.Row():
                page_file = gr.DownloadButton("Page (HTML)", visible=False, elem_id="audit-page-file")
                figures_file = gr.DownloadButton("Figures (JSON)", visible=False, elem_id="audit-figures-file")
            report = gr.HTML(elem_id="audit-report")

    def no_files() -> Updates:
        return {page_file: gr.DownloadButton(visible=False), figures_file: gr.DownloadButton(visible=False)}

    @with_messages
    def on_start(
        kind: str,
        name: str | None,
        source: str | None,
        edit: str | None,
        instruction: str,
        boxes: str,
        relations: list[str],
        names: list[str],
        limit: float | None,
        reward: str,
        experts: str,
        allowed: bool,
    ) -> Any:
        require_offered(settings, reward, experts, allowed)
        chosen = chosen_families(relations, names)
        most = edit_limit(limit)
        entries = edits.entries(kind, name, source, edit, instruction, boxes)
        command = audit_command(edits.argument(kind, name), reward, experts, most, names or relations)
        job = jobs.start(AuditChoice(entries, reward, experts, chosen, most, command))
        try:
            yield {
                job_of_window: job,
                start: gr.Button(interactive=False),
                stop: gr.Button("Stop, and report", visible=True, interactive=True),
                status: progress_html(job.progress(), job.problems),
                report: "",
                **no_files(),
            }
            while job.is_running:
                job.wait(_WATCH_S)
                yield {status: progress_html(job.progress(), job.problems)}
        finally:
            job.stop()  # also where the window is closed
        try:
            files = job.files()
        except Exception:
            yield {status: ""}
            raise
        yield {
            status: done_html(job.progress(), job.problems),
            report: report_html(files.page),
            page_file: gr.DownloadButton(value=str(files.page), visible=True),
            figures_file: gr.DownloadButton(value=str(files.figures), visible=True),
        }

    outputs = [job_of_window, start, stop, status, report, page_file, figures_file]
    started = start.click(
        on_start,
        [*edits.inputs, *families.inputs, *choice.inputs],
        outputs,
        js=_SHOW_STATUS,
        show_progress="hidden",
        concurrency_limit=None,  # `AuditJobs` has its own, and says so
    )
    started.then(lambda: (gr.Button(interactive=True), gr.Button(visible=False)), None, [start, stop], **QUICK)

    @with_messages
    def on_stop(job: AuditJob | None) -> gr.Button:
        if job is not None:
            job.stop()
        return gr.Button("Stopping", interactive=False)

    stop.click(on_stop, job_of_window, stop, **QUICK)

    @with_messages
    def on_stored(name: str | None) -> Any:
        shown = stored_report_html(settings.files.path("audit", name), settings.folder)
        return {status: "", report: shown, **no_files()}

    show_stored.click(on_stored, stored, [status, report, page_file, figures_file], show_progress_on=[report])
