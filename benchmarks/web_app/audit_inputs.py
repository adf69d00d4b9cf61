"""What the tab "Audit" is given: good edits, families, and how many edits."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import gradio as gr

from ...reward.audit import Family, all_families, select_families
from ...reward.audit.family import RELATIONS
from ..common.errors import InputError
from ..common.inputs import SampleEntry, SampleSource
from ..demo.candidate_edits import good_edits
from .open_files import OpenFiles
from .quick_events import QUICK
from .ranking_inputs import uploaded_entries

DEMO, FILE, UPLOAD = "demo", "file", "upload"
MAX_EDITS = 64
"""Of an audit on the page: more are for `editcritic audit`, which can be left alone for hours."""
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


@dataclass(frozen=True, slots=True)
class FamilyChoice:
    """relations, names: their values are those of `chosen_families`. limit: the number of edits."""

    relations: gr.CheckboxGroup
    names: gr.Dropdown
    limit: gr.Number

    @property
    def inputs(self) -> list[gr.components.Component]:
        """For the inputs of an event: relations, names, limit."""
        return [self.relations, self.names, self.limit]


def family_choice() -> FamilyChoice:
    """Add the components to the page that is being built."""
    counts = {relation: len(select_families([relation])) for relation in RELATIONS}
    limit = gr.Number(
        DEFAULT_EDITS,
        precision=0,
        label="Edits at most",
        info=f"1 to {MAX_EDITS}, of as many sources as possible; 16 or more say most",
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
    return FamilyChoice(relations, names, limit)


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
