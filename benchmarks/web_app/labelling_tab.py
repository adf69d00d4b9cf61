"""The tab "Label": people answer questions about edits, by mouse, key or thumb; every answer is saved at once."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import gradio as gr

from ...reward import ImageError
from ...reward.atomic_files import write_atomically
from ...reward.strict_json import parse_json
from ..common.errors import InputError
from ..common.markdown import markdown_text
from ..human_eval.agreement_tables import STATISTIC_DESCRIPTIONS, agreement_between, agreement_with
from ..human_eval.annotation_schedule import QuestionType
from ..human_eval.annotation_session import AnnotationSession, AnsweredElsewhere, clean_annotator_name
from ..human_eval.annotation_texts import AnswerChoice, answer_choices
from ..human_eval.calibration_fit import load_score_source
from ..human_eval.label_matching import ScoreLookup
from ..human_eval.label_sheets import ImportedLabels, import_labels, labels_csv, labels_jsonl
from ..human_eval.shown_questions import Feedback, ShownQuestion
from ..run.editor_outputs import MissingOutput
from ..suites.human_labels import LABEL_KINDS, LabelAnswer, LabelKind
from ..suites.tables import ComputedTable
from .label_sessions import LabelSessions
from .label_start import NameForm, StartForm, name_text
from .messages import QUICK, with_messages
from .question_view import PictureStore, drawing_script, feedback_html, question_html
from .settings import AppSettings

Updates = dict[Any, Any]  # component -> what it shows now
_KEYS = {"ArrowLeft": ("left", "←"), "ArrowRight": ("right", "→"), "ArrowDown": ("down", "↓")}
"""Names of keys in classes, and on buttons; others are their own."""

_SHOWN = re.compile(r"(\d{1,7}) (\d{1,7})")


class QuestionPanel:
    """The question, its answers by kind, feedback to practice, and ways back and forth. Added to the page being built.
    shown: number and revision of the question in a window, for whoever answers it. boxes: what is drawn, as JSON."""

    def __init__(self, store: PictureStore) -> None:
        self._store = store
        self.buttons: dict[LabelKind, list[tuple[AnswerChoice, gr.Button]]] = {}
        self._rows: dict[LabelKind, gr.Row] = {}
        with gr.Column(visible=False, elem_id="label-ask") as self.column:
            self._view = gr.HTML(elem_id="label-question", js_on_load=drawing_script("question.js"))
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
                    placeholder="Note",
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
        lookup = load_score_source(session.score_sources, ())[0].lookup if session.score_sources else None
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


_DRAWN = "document.querySelector('#label-question .drawing')?.dataset.boxes ?? ''"
"""The boxes of the window, which only the browser knows until they are saved."""


@dataclass(frozen=True, slots=True)
class Seat:
    """Who answers in a window, and since when the question is shown, as `time.monotonic()`."""

    session: AnnotationSession
    annotator: str = ""
    shown_at: float = 0.0


def labelling_tab(settings: AppSettings) -> None:
    """Add the tab's components to the `gr.Blocks` that is being built."""
    sessions = LabelSessions(settings.files)
    form = StartForm(sessions, visible=settings.session is None)
    names = NameForm(settings.session)
    panel = QuestionPanel(PictureStore(settings.folder))
    with gr.Column(visible=False, elem_id="label-done") as done:
        gr.Markdown("**All questions are answered.** All answers are saved. Thank you.")
        checks = gr.Markdown(elem_id="label-checks")
        repeated = gr.Dropdown([], label="Dimensions to repeat", visible=False, elem_id="label-repeated")
        with gr.Row():
            repeat = gr.Button("Repeat", visible=False, elem_id="label-repeat")
            reopen = gr.Button("Back [u]", elem_id="label-reopen", elem_classes=["key-u"])
    agreement, label_files = AgreementPanel(), FilesPanel(settings.folder)
    seat = gr.State(None)
    side_panels: list[Any] = [agreement.panel, label_files.panel]
    outputs = [seat, *panel.outputs, names.column, done, checks, repeated, repeat, *side_panels]

    def present(window_seat: Seat | None) -> Seat:
        """Raises `InputError` for a window without a session."""
        if window_seat is not None:
            return window_seat
        if settings.session is None:
            raise InputError("this window shows no questions: choose what to label, and start")
        return Seat(settings.session)

    def answering(window_seat: Seat | None) -> Seat:
        if window_seat is None or not window_seat.annotator:
            raise InputError("this window was opened anew: give your name again")
        return window_seat

    def show(now: Seat, question: ShownQuestion | None) -> Updates:
        """A question, or the end."""
        if question is None:
            return {**panel.hide(), **end(now)}
        return {
            seat: replace(now, shown_at=time.monotonic()),
            **panel.show(question, now.annotator),
            names.column: gr.Column(visible=False),
            done: gr.Column(visible=False),
        }

    def show_next(now: Seat) -> Updates:
        return show(now, now.session.question(now.annotator))

    def end(now: Seat) -> Updates:
        annotator_checks = now.session.checks(now.annotator)
        again = [
            (f"{check.dimension} ({check.kind})", f"{check.kind}:{check.dimension}")
            for check in annotator_checks
            if check.needs_repeat
        ]
        lines = [f"- {markdown_text(str(check))}" for check in annotator_checks]
        lines += [f"- not asked, as a picture cannot be shown: {markdown_text(text)}" for text in unread(now)]
        return {
            seat: now,
            names.column: gr.Column(visible=False),
            done: gr.Column(visible=True),
            checks: "\n".join(lines),
            repeated: gr.Dropdown(again, value=again[0][1] if again else None, visible=bool(again)),
            repeat: gr.Button(visible=bool(again)),
        }

    def unread(now: Seat) -> list[str]:
        """The reasons without names of editors, which messages of missing pictures may hold."""
        count = len(now.session.unreadable(now.annotator))
        return [f"{count} questions"] if count else []

    @with_messages
    def on_start(*choice: Any) -> Any:
        session = sessions.open(StartForm.choice(*choice))
        return (
            Seat(session),
            gr.Column(visible=False),
            gr.Column(visible=True),
            name_text(session),
            *(gr.Accordion(visible=True),) * 2,
        )

    form.start.click(
        on_start,
        form.inputs,
        [seat, form.column, names.column, names.text, *side_panels],
        show_progress_on=[form.status],  # on the form, an error would lie over what is to be mended
    )

    @with_messages
    def on_begin(window_seat: Seat | None, name: str) -> Any:
        now = replace(present(window_seat), annotator=clean_annotator_name(name))
        return {**show_next(now), **dict.fromkeys(side_panels, gr.Accordion(visible=True))}

    gr.on([names.begin.click, names.name.submit], on_begin, [seat, names.name], outputs, **QUICK)

    def submit(now: Seat, shown: str, answer: LabelAnswer, note: str) -> Updates:
        number, revision = shown_number(shown)
        seconds = time.monotonic() - now.shown_at
        try:
            feedback = now.session.submit(now.annotator, number, answer, seconds, note, revision)
        except AnsweredElsewhere as error:
            gr.Info(str(error))
            return show_next(now)
        if feedback is None:
            return show_next(now)
        return panel.show_feedback(feedback, now.session.shown(now.annotator, number))

    @with_messages
    def on_answer(answer: LabelAnswer, window_seat: Seat | None, shown: str, note: str) -> Any:
        return submit(answering(window_seat), shown, answer, note)

    for buttons in panel.buttons.values():
        for choice, button in buttons:
            inputs = [seat, panel.shown, panel.note]
            button.click(partial(on_answer, choice.value), inputs, outputs, show_progress="hidden")

    @with_messages
    def on_boxes(window_seat: Seat | None, shown: str, note: str, drawn: str) -> Any:
        boxes = drawn_boxes(drawn)
        if not boxes:
            raise InputError("there is no box: draw one, or say that nothing is visible")
        return submit(answering(window_seat), shown, boxes, note)

    panel.save.click(
        on_boxes,
        [seat, panel.shown, panel.note, panel.boxes],
        outputs,
        js=f"(seat, shown, note, boxes) => [seat, shown, note, {_DRAWN}]",
        show_progress="hidden",
    )
    panel.nothing.click(partial(on_answer, ()), [seat, panel.shown, panel.note], outputs, show_progress="hidden")

    @with_messages
    def on_resume(window_seat: Seat | None) -> Any:
        return show_next(answering(window_seat))

    panel.resume.click(on_resume, seat, outputs, **QUICK)

    @with_messages
    def on_back(window_seat: Seat | None, shown: str) -> Any:
        now = answering(window_seat)
        number = shown_number(shown)[0] if shown else len(now.session.schedule(now.annotator))
        return shown_first(now, range(number - 1, -1, -1))

    @with_messages
    def on_forward(window_seat: Seat | None, shown: str) -> Any:
        now = answering(window_seat)
        upcoming = now.session.question(now.annotator)
        last = upcoming.number if upcoming else len(now.session.schedule(now.annotator))
        return shown_first(now, range(shown_number(shown)[0] + 1, last))

    def shown_first(now: Seat, numbers: Iterable[int]) -> Updates:
        """The first of these questions whose pictures can be shown, else the next one."""
        for number in numbers:
            try:
                return show(now, now.session.question(now.annotator, number))
            except (MissingOutput, ImageError):
                continue
        return show_next(now)

    gr.on([panel.back.click, reopen.click], on_back, [seat, panel.shown], outputs, **QUICK)
    panel.forward.click(on_forward, [seat, panel.shown], outputs, **QUICK)

    @with_messages
    def on_repeat(window_seat: Seat | None, dimension: str | None) -> Any:
        now = answering(window_seat)
        question_type = QuestionType.parse(dimension or "")
        now.session.repeat_dimension(now.annotator, question_type.kind, question_type.dimension)
        return show_next(now)

    repeat.click(on_repeat, [seat, repeated], outputs, **QUICK)

    _connect_side_panels(seat, present, agreement, label_files)


def _connect_side_panels(seat: gr.State, present: Any, agreement: AgreementPanel, label_files: FilesPanel) -> None:
    @with_messages
    def on_agreement(window_seat: Seat | None, metric: str) -> Any:
        return agreement.show(present(window_seat).session, metric)

    gr.on(
        [agreement.panel.expand, agreement.metric.input, agreement.refresh.click],
        on_agreement,
        [seat, agreement.metric],
        [agreement.metric, agreement.text],
        show_progress_on=[agreement.text],
        queue=False,  # see `quick_events`
    )

    @with_messages
    def on_export(window_seat: Seat | None) -> list[str]:
        return label_files.written(present(window_seat).session)

    label_files.export.click(on_export, seat, label_files.exported, **QUICK)

    @with_messages
    def on_import(window_seat: Seat | None, path: str | None) -> Any:
        return label_files.imported(present(window_seat).session, path), None  # the next file is dropped in its place

    label_files.upload.upload(on_import, [seat, label_files.upload], [label_files.outcome, label_files.upload], **QUICK)


def drawn_boxes(text: str) -> tuple[tuple[float, float, float, float], ...]:
    """Boxes as the browser sends them. Raises `InputError`; which boxes are allowed is a matter of the session."""
    try:
        return tuple((float(x0), float(y0), float(x1), float(y1)) for x0, y0, x1, y1 in parse_json(text or "[]"))
    except (ValueError, TypeError) as error:
        raise InputError(f"boxes are a list of x0, y0, x1, y1 each: {error}") from None
