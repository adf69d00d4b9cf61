"""How labelling begins: what is asked about, unless the app was started with it, and who answers."""

from __future__ import annotations

from typing import Any

import gradio as gr

from ..common.markdown import markdown_text
from ..human_eval.annotation_schedule import RECHECK_SHARE, TRIAL_QUESTIONS
from ..human_eval.annotation_session import AnnotationSession
from .label_sessions import QUESTION_TYPES, LabelSessions, SessionChoice

_SHOWN_NAMES = 20
_PRACTICE = "Practice needs known answers: choose a label file under More, Known answers. Without one, there is none."


class StartForm:
    """Components to choose what is labelled; hidden where the app was started with it."""

    def __init__(self, sessions: LabelSessions, *, visible: bool) -> None:
        sources, label_files = sessions.sources(), sessions.label_files()
        with gr.Column(visible=visible, elem_id="label-choose") as self.column:
            if not sources or not label_files:
                gr.Markdown(
                    "Nothing can be labelled: start the app with folders of results or samples, as in "
                    "`editcritic app results`. Label files are written there. Or use `editcritic judge label`."
                )
            shown = gr.Dropdown(
                sources,
                value=[],
                multiselect=True,
                label="Label",
                info="results of several editors for one suite, or one file or folder of samples",
                elem_id="label-sources",
            )
            questions = gr.Dropdown(
                list(QUESTION_TYPES),
                value=[],
                multiselect=True,
                allow_custom_value=True,
                label="Questions",
                info="or type KIND:DIMENSION; empty: pairs where a picture has several edits, else yes or no",
                elem_id="label-questions",
            )
            labels = gr.Dropdown(
                label_files,
                value=label_files[0] if label_files else None,
                label="Label file",
                info="existing labels are kept, and counted",
                elem_id="label-file",
            )
            with gr.Accordion("More", open=False):
                gold = gr.Dropdown(
                    ["", *sessions.files.names("labels")],
                    value="",
                    label="Known answers",
                    info="labels for practice, and for checks",
                    elem_id="label-gold",
                )
                num_items = gr.Number(
                    None,
                    label="Items",
                    info="drawn at random; empty or 0: all",
                    minimum=0,  # which an emptied field sends
                    precision=0,
                    elem_id="label-items",
                )
                practice = gr.Number(
                    TRIAL_QUESTIONS,
                    label="Practice questions",
                    info="of those with a known answer, at most a third of all",
                    minimum=0,
                    precision=0,
                    elem_id="label-practice",
                )
                recheck = gr.Slider(
                    0, 1, RECHECK_SHARE, label="Fraction of questions asked twice", step=0.05, elem_id="label-recheck"
                )
            self.start = gr.Button("Start", variant="primary", elem_id="label-start")
            self.status = gr.Markdown(_PRACTICE, min_height=60, elem_id="label-status")
        self.inputs: list[Any] = [shown, questions, labels, gold, num_items, practice, recheck]

    @staticmethod
    def choice(
        shown: list[str] | None,
        questions: list[str] | None,
        labels: str | None,
        gold: str | None,
        num_items: float | None,
        practice: float | None,
        recheck: float,
    ) -> SessionChoice:
        """The values of `inputs`."""
        return SessionChoice(
            tuple(shown or ()),
            labels or "",
            tuple(questions or ()),
            gold or "",
            int(num_items or 0) or None,
            max(0, int(practice or 0)),
            min(max(float(recheck), 0.0), 1.0),
        )


class NameForm:
    """Components for the annotator's name."""

    def __init__(self, session: AnnotationSession | None) -> None:
        with gr.Column(visible=session is not None, elem_id="label-begin-panel") as self.column:
            self.text = gr.Markdown("" if session is None else name_text(session), elem_id="label-title")
            self.name = gr.Textbox(label="Your name", max_length=100, max_lines=1, elem_id="label-name", autofocus=True)
            self.begin = gr.Button("Begin", variant="primary", elem_id="label-begin")


def name_text(session: AnnotationSession) -> str:
    """What an annotator reads first, as Markdown."""
    types = dict.fromkeys(question.question_type for question in session.questions)
    about = markdown_text(", ".join(f"{one.dimension} ({one.kind})" for one in types))
    names = markdown_text(", ".join(session.annotators[:_SHOWN_NAMES]))
    if count := session.num_practice:
        practice = f" {count} practice questions come first, and show the known answer."
    else:
        practice = " There is no practice: it needs known answers." if session.practice_questions else ""
    return (
        f"**{len(session.questions):,} questions: {about}.** You see image edits and answer questions about one "
        f"dimension at a time. Each answer is saved at once, in {markdown_text(session.path.name)}: stop at any time, "
        f"and continue later with the same name.{practice}{f' Names so far: {names}.' if names else ''}"
    )
