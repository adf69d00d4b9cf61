"""The left side of the tab "Score and rank": which edits, by which reward."""

from __future__ import annotations

import gradio as gr

from .ranking_inputs import MAX_EDITS, demo_names
from .reward_choice import reward_choice
from .settings import AppSettings

_FIRST = 60
"""Edits of a file that are scored unless the user says how many."""


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
                instruction = gr.Textbox(
                    label="Instruction", placeholder="Make the mug blue", lines=2, elem_id="rank-instruction"
                )
                with gr.Accordion("A folder instead of single edits", open=False):
                    gr.Markdown(
                        "Edits of the source; or, without a source, a `samples.jsonl` with its pictures, or pairs "
                        "`ID_source.png` and `ID_edited.png` with the instruction in `ID.txt`."
                    )
                    folder = gr.File(label="Folder", file_count="directory", height=110, elem_id="rank-folder")
                with gr.Accordion("Boxes of objects in the source (optional)", open=False):
                    boxes = gr.Textbox(
                        label='Pixel corners, as in {"mug": [[120, 80, 260, 240]]}', elem_id="rank-boxes"
                    )
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
        self.uploads = [source, edits, folder, instruction, boxes]
        self.opened = [opened, limit]
