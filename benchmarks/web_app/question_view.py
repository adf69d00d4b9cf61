"""A question as HTML, and its pictures as files with random names: no address tells an editor or a file."""

from __future__ import annotations

import hashlib
import html
import json
import re
import secrets
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import gradio as gr
import jinja2

from ...reward import Image
from ..common.errors import InputError
from ..human_eval.annotation_plan import QuestionType
from ..human_eval.annotation_texts import AnswerChoice, answer_choices
from ..human_eval.shown_questions import Feedback, ShownPicture, ShownQuestion
from ..report.page import page_templates
from ..suites.human_labels import LABEL_KINDS, LabelAnswer, LabelKind

MIN_SIDE = 400
"""Pixels: smaller pictures are enlarged to this side."""
COARSE_SIDE = 128
"""Pixels: smaller pictures are shown without interpolation."""


@dataclass
class PictureStore:
    """folder: the page's own, in which a folder of pictures is made; None: a temporary one."""

    folder: str | None

    def __post_init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(dir=self.folder))
        self._secret = secrets.token_bytes(16)
        self._lock = threading.Lock()

    def address(self, image: Image) -> str:
        """The address of the picture below that of the page. Raises `ImageError` and OSError."""
        key = hashlib.blake2b(image.digest.encode(), key=self._secret, digest_size=12).hexdigest()
        path = self._folder / f"{key}.png"
        with self._lock:
            if not path.exists():
                image.pil().save(path, "PNG", compress_level=1)
        return f"gradio_api/file={path}"


def question_html(shown: ShownQuestion, annotator: str, store: PictureStore) -> str:
    """The question with its pictures; all texts are escaped. Raises `ImageError` and OSError."""
    is_drawing = shown.question_type.kind == "boxes"
    drawn = shown.previous_answer if isinstance(shown.previous_answer, tuple) else ()
    source = store.address(shown.pictures[0].image)
    return _template().render(
        shown=shown,
        annotator=annotator,
        is_drawing=is_drawing,
        boxes=json.dumps(drawn),
        pictures=[_picture(picture, store, source) for picture in shown.pictures],
    )


def feedback_html(feedback: Feedback, shown: ShownQuestion) -> str:
    """What a practice question's answer is held against, in words."""
    texts: dict[LabelAnswer | None, str] = {choice.value: choice.text for choice in shown.choices}
    known = html.escape(texts.get(feedback.known, "other boxes"))
    is_gold = feedback.source == "gold"
    if feedback.is_correct is None:
        text = "Saved. No other annotator has answered this question yet."
    elif feedback.is_correct:
        text = "This is the known answer." if is_gold else "Most other annotators agree."
    else:
        text = f"The known answer is: {known}." if is_gold else f"Most other annotators answered: {known}."
    note = f" {html.escape(feedback.note)}" if feedback.note else ""
    verdict = {None: "", True: " correct", False: " wrong"}[feedback.is_correct]
    return f'<p class="label-verdict{verdict}" role="status">{text}{note}</p>'


def _picture(picture: ShownPicture, store: PictureStore, source: str) -> dict[str, Any]:
    width, height = picture.image.size
    is_source = picture.role.startswith("source")
    return {
        "role": picture.role,
        "place": "base" if is_source else "edit",
        "address": store.address(picture.image),
        "under": "" if is_source else source,
        "width": width,
        "height": height,
        "shown_width": round(width * max(1.0, MIN_SIDE / max(width, height))),
        "is_coarse": max(width, height) <= COARSE_SIDE,
    }


@cache
def _template() -> jinja2.Template:
    return page_templates(Path(__file__).parent).get_template("question.html")


Updates = dict[Any, Any]
"""Component -> what it shows now."""

_KEYS = {"ArrowLeft": ("left", "←"), "ArrowRight": ("right", "→"), "ArrowDown": ("down", "↓")}
"""Names of keys in classes, and on buttons; others are their own."""

_SHOWN = re.compile(r"(\d{1,7}) (\d{1,7})")


class QuestionPanel:
    """The question, its answers by kind, feedback to practice, and ways back and forth. Added to the page being built.

    shown: number and revision of the question in a window, for whoever answers it. boxes: what is drawn, as JSON.
    """

    def __init__(self, store: PictureStore) -> None:
        self._store = store
        self.buttons: dict[LabelKind, list[tuple[AnswerChoice, gr.Button]]] = {}
        self._rows: dict[LabelKind, gr.Row] = {}
        with gr.Column(visible=False, elem_id="label-ask") as self.column:
            script = files(__package__).joinpath("question.js").read_text(encoding="utf-8")
            self._view = gr.HTML(elem_id="label-question", js_on_load=script)
            self.shown = gr.Textbox(elem_id="label-shown", elem_classes="label-hidden")
            self.boxes = gr.Textbox(elem_id="label-boxes", elem_classes="label-hidden")
            for kind in LABEL_KINDS:
                with gr.Row(visible=False, elem_classes="label-answers") as self._rows[kind]:
                    if kind == "boxes":
                        self.save = _button("Save the boxes", "save", "Enter")
                        self.nothing = _button("Nothing visible", "none", "0")
                    else:
                        choices = answer_choices(QuestionType(kind, "quality"), "")
                        self.buttons[kind] = [
                            (choice, _button(choice.text, str(choice.value), *choice.keys)) for choice in choices
                        ]
            with gr.Column(visible=False, elem_id="label-feedback") as self._feedback:
                self._verdict = gr.HTML()
                self.resume = _button("Next", "continue", "Enter", variant="primary")
            with gr.Row(equal_height=True, elem_classes="label-moves"):
                self.back = _button("Back", "back", "u", size="sm", min_width=80)
                self.forward = _button("Forward", "forward", "f", size="sm", min_width=80)
                self.note = gr.Textbox(
                    label="Note",
                    show_label=False,
                    placeholder="Note (saved with the answer)",
                    max_length=2000,
                    max_lines=1,
                    scale=4,
                    elem_id="label-note",
                    elem_classes="leave-on-enter",
                )

    @property
    def outputs(self) -> list[Any]:
        """All that `show` and `show_feedback` may change."""
        texts = [self._view, self.shown, self._verdict, self.note]
        return [self.column, self._feedback, self.back, self.forward, *texts, *self._answers()]

    def show(self, shown: ShownQuestion, annotator: str) -> Updates:
        """Raises `ImageError` and OSError."""
        kind = shown.question_type.kind
        updates: Updates = {
            self.column: gr.Column(visible=True),
            self._view: question_html(shown, annotator, self._store),
            self.shown: f"{shown.number} {shown.revision}",
            self._feedback: gr.Column(visible=False),
            self.back: gr.Button(interactive=shown.number > 0),
            self.forward: gr.Button(interactive=shown.revision > 0),
            self.note: shown.note,
            **{row: gr.Row(visible=other == kind) for other, row in self._rows.items()},
        }
        for choice, (_, button) in zip(shown.choices, self.buttons.get(kind, ()), strict=True):
            is_previous = shown.previous_answer == choice.value
            variant: Literal["primary", "secondary"] = "primary" if is_previous else "secondary"
            updates[button] = gr.Button(_text(choice.text, *choice.keys), variant=variant)
        return updates

    def show_feedback(self, feedback: Feedback, shown: ShownQuestion) -> Updates:
        """Beside the question, which can no longer be answered."""
        return {
            self._feedback: gr.Column(visible=True),
            self._verdict: feedback_html(feedback, shown),
            **{row: gr.Row(visible=False) for row in self._rows.values()},
        }

    def hide(self) -> Updates:
        """Without a question."""
        return {self.column: gr.Column(visible=False), self.shown: ""}

    def _answers(self) -> Iterator[Any]:
        yield from self._rows.values()
        for buttons in self.buttons.values():
            yield from (button for _, button in buttons)


def shown_number(text: str) -> tuple[int, int]:
    """Number and revision of the question that a window shows. Raises `InputError`."""
    found = _SHOWN.fullmatch(text)
    if found is None:
        raise InputError("this window shows no question: give your name again")
    return int(found[1]), int(found[2])


def _button(text: str, name: str, *keys: str, **options: Any) -> gr.Button:
    classes = [f"key-{_KEYS.get(key, (key.lower(),))[0]}" for key in keys]
    return gr.Button(_text(text, *keys), elem_id=f"label-{name}", elem_classes=classes, **options)


def _text(text: str, *keys: str) -> str:
    key = _KEYS.get(keys[0], ("", keys[0]))[1]
    return text if text.startswith(f"{key}:") else f"{text} [{key}]"  # a level is its own key
