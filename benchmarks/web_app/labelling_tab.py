"""The tab "Label": people answer questions about edits, by mouse, key or thumb; every answer is saved at once."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gradio as gr

from ...reward import ImageError
from ...reward.strict_json import parse_json
from ..common.errors import InputError
from ..common.markdown import markdown_text
from ..human_eval.annotation_plan import QuestionType
from ..human_eval.annotation_session import AnnotationSession, AnsweredElsewhere, clean_annotator_name
from ..human_eval.shown_questions import ShownQuestion
from ..run.editor_outputs import MissingOutput
from ..suites.human_labels import LabelAnswer
from .label_question_panel import QuestionPanel, Updates, shown_number
from .label_sessions import LabelSessions
from .label_side_panels import AgreementPanel, FilesPanel
from .label_start import NameForm, StartForm, name_text
from .messages import with_messages
from .question_view import PictureStore
from .quick_events import QUICK
from .settings import AppSettings

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

    label_files.upload.upload(
        on_import,
        [seat, label_files.upload],
        [label_files.outcome, label_files.upload],
        **QUICK,
    )


def drawn_boxes(text: str) -> tuple[tuple[float, float, float, float], ...]:
    """Boxes as the browser sends them. Raises `InputError`; which boxes are allowed is a matter of the session."""
    try:
        return tuple((float(x0), float(y0), float(x1), float(y1)) for x0, y0, x1, y1 in parse_json(text or "[]"))
    except (ValueError, TypeError) as error:
        raise InputError(f"boxes are a list of x0, y0, x1, y1 each: {error}") from None
