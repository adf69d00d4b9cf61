"""The tab "Audit": how would a reward be hacked?"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from ...reward.audit import Family, all_families, select_families
from ...reward.audit.family import RELATIONS
from ..common.errors import InputError
from ..common.inputs import SampleEntry, SampleSource
from ..demo.candidate_edits import good_edits
from .audit_jobs import AuditChoice, AuditJob, AuditJobs, done_html, progress_html, report_html, stored_report_html
from .messages import QUICK, UPLOADED, with_messages
from .open_files import OpenFiles
from .ranking_inputs import uploaded_entries
from .reward_choice import require_offered, reward_choice
from .settings import AppSettings

DEMO, FILE, UPLOAD = "demo", "file", "upload"
MAX_EDITS = 64  # of an audit on the page: more are for `editcritic audit`, which can be left alone for hours
DEFAULT_EDITS = 16


@dataclass(frozen=True, slots=True)
class EditChoice:
    """Components to choose the good edits. inputs: for the inputs of an event, as of `entries`."""

    files: OpenFiles
    inputs: list[gr.components.Component]

    def entries(
        self, kind: str, name: str | None, source: str | None, edit: str | None, instruction: str, boxes: str
    ) -> Iterable[SampleEntry]:
        """The edits that were chosen. Raises `InputError`."""
        if kind == FILE:
            return SampleSource.open(self.files.path("samples", name)).read()
        if kind == UPLOAD:
            return uploaded_entries(source, [edit] if edit else [], instruction, boxes)
        if kind != DEMO:
            raise InputError(f"{kind!r:.100} is no kind of edits")
        return [SampleEntry(sample.id, sample) for sample in good_edits()]

    def argument(self, kind: str, name: str | None) -> str:
        """The same for `editcritic audit`; empty for what was uploaded. Raises `InputError`."""
        if kind == FILE:
            return str(self.files.path("samples", name))
        return DEMO if kind == DEMO else ""


def edit_choice(files: OpenFiles) -> EditChoice:
    """Add the components to the page that is being built."""
    names = files.names("samples")
    kinds = [("Photographs of the demo", DEMO), ("Samples", FILE), ("One of mine", UPLOAD)]
    first = FILE if names else DEMO
    kind = gr.Radio(kinds, value=first, label="Good edits", elem_id="audit-edits")
    with gr.Column(visible=first == DEMO) as demo:
        gr.Markdown("Photographs with edits made by hand. Nothing is downloaded.")
    with gr.Column(visible=first == FILE) as opened:
        name = gr.Dropdown(
            names,
            value=names[0] if names else None,
            label="Samples",
            info="files and folders that the app was started with: editcritic app FOLDER",
            elem_id="audit-open",
        )
    with gr.Column(visible=False) as upload:
        source = gr.File(label="Source", file_types=["image"], height=110, elem_id="audit-source")
        edit = gr.File(label="Good edit", file_types=["image"], height=110, elem_id="audit-edit")
        instruction = gr.Textbox(
            label="Instruction", placeholder="Make the mug blue", lines=2, elem_id="audit-instruction"
        )
        with gr.Accordion("Boxes of objects in the source (optional)", open=False):
            boxes = gr.Textbox(label='Pixel corners, as in {"mug": [[120, 80, 260, 240]]}', elem_id="audit-boxes")
    panels: Mapping[str, gr.Column] = {DEMO: demo, FILE: opened, UPLOAD: upload}

    def show(chosen: str) -> list[gr.Column]:
        return [gr.Column(visible=name == chosen) for name in panels]

    kind.change(show, kind, list(panels.values()), **QUICK)
    return EditChoice(files, [kind, name, source, edit, instruction, boxes])


def family_choice() -> list[gr.components.Component]:
    """Add the components to the page that is being built: relations, names, both as of `chosen_families`, and limit."""
    counts = {relation: len(select_families([relation])) for relation in RELATIONS}
    limit = gr.Number(
        DEFAULT_EDITS,
        precision=0,
        label="Edits at most",
        info=f"1 to {MAX_EDITS}, of as many sources as possible; 16 or more give firm rates",
        elem_id="audit-limit",
    )
    relations = gr.CheckboxGroup(
        [(f"{demand} ({counts[relation]})", relation) for relation, demand in RELATIONS.items()],
        value=list(RELATIONS),
        label="Variants that",
        elem_id="audit-relations",
    )
    names = gr.Dropdown(
        [family.name for family in all_families()],
        multiselect=True,
        label="Only these families (optional)",
        info="the fewer, the shorter it takes; without any, all of the above",
        elem_id="audit-families",
    )
    return [relations, names, limit]


def chosen_families(relations: Sequence[str], names: Sequence[str]) -> tuple[Family, ...]:
    """Those of these names; without any, all of these relations. Raises `InputError`."""
    chosen = list(names or relations)
    if not chosen:
        raise InputError("no variants are chosen: tick what they must do, or name families")
    try:
        return select_families(chosen)
    except ValueError as error:
        raise InputError(str(error)) from None


def audit_command(argument: str, reward: str, experts: str, limit: int, families: Sequence[str]) -> str:
    """The command that makes the same audit; empty without an argument."""
    if not argument:
        return ""
    words = ["editcritic", "audit", argument, "--reward", reward, "--experts", experts, "--limit", str(limit)]
    if set(families) != set(RELATIONS):
        words += [word for name in families for word in ("--family", name)]
    return shlex.join(words)


def edit_limit(typed: float | None) -> int:
    """The number of edits. Raises `InputError`."""
    if typed is None or not 1 <= typed <= MAX_EDITS:
        raise InputError(f"the number of edits is from 1 to {MAX_EDITS}: use `editcritic audit` for more")
    return int(typed)


Updates = dict[Any, Any]  # new values of components
_WATCH_S = 1.0  # between two looks at an audit

_SHOW_STATUS = "() => document.getElementById('audit-status').scrollIntoView({block: 'center'})"
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
            page, figures = job.files()
        except Exception:
            yield {status: ""}
            raise
        yield {
            status: done_html(job.progress(), job.problems),
            report: report_html(page),
            page_file: gr.DownloadButton(value=str(page), visible=True),
            figures_file: gr.DownloadButton(value=str(figures), visible=True),
        }

    outputs = [job_of_window, start, stop, status, report, page_file, figures_file]
    start.click(None, js=_SHOW_STATUS)
    started = start.click(None, js=UPLOADED).then(
        on_start,
        [*edits.inputs, *families, *choice.inputs],
        outputs,
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
