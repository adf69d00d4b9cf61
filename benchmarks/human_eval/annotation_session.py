"""An annotation session: the next question of each annotator, their labels, and the feedback during practice.

Every label is on the disk before it is acknowledged. The label file is the only resume state.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from pydantic import ValidationError

from ...reward import ImageError
from ..run.editor_outputs import MissingOutput
from ..suites.human_labels import (
    Label,
    LabelAnswer,
    LabelKind,
    append_labels,
    read_labels,
    validation_message,
)
from .annotation_schedule import (
    RECHECK_SHARE,
    TRIAL_QUESTIONS,
    AnnotatorCheck,
    KnownAnswers,
    LabelQuestion,
    QuestionType,
    ScheduledQuestion,
    annotation_order,
    check_annotators,
    label_key,
    practice_count,
    question_block,
    same_answer,
)
from .question_pools import QuestionPool
from .shown_questions import Feedback, ShownQuestion, displayed_answer, shown_question, stored_answer

MAX_SECONDS = 86_400  # of an answer: who takes a day went home


class AnnotationError(ValueError):
    """An invalid request or answer; the message gives the reason."""


class AnsweredElsewhere(AnnotationError):
    """The question has another answer than the one that was shown: of a double click, or of another window."""


def _now() -> datetime:
    return datetime.now(timezone.utc).replace(microsecond=0)


def clean_annotator_name(name: str) -> str:
    """An annotator's name, stripped. Raises `AnnotationError` for an empty, long or unprintable name."""
    name = name.strip()
    if not name or len(name) > 100 or not name.isprintable():
        raise AnnotationError("a name is 1 to 100 printable characters")
    return name


@dataclass
class _AnnotatorState:
    """One annotator's schedule, and labels by the slot of their question, oldest first. unreadable: keys of questions
    whose pictures cannot be shown, with the reason; they are passed over."""

    schedule: list[ScheduledQuestion]
    labels: dict[tuple[object, ...], list[Label]]
    unreadable: dict[tuple[object, ...], str] = field(default_factory=dict)

    def labels_of(self, scheduled: ScheduledQuestion) -> list[Label]:
        return self.labels.get(((*scheduled.question.key, scheduled.phase, scheduled.round)), [])

    @property
    def next(self) -> int | None:
        """Index of the first unanswered question that can be shown; None at the end."""
        unanswered = (number for number, one in enumerate(self.schedule) if not self.labels_of(one))
        return next((n for n in unanswered if self.schedule[n].question.key not in self.unreadable), None)


def _question_group(scheduled: ScheduledQuestion) -> tuple[object, ...]:
    """Equal for questions that are counted together: practice, or a round of a dimension."""
    return () if scheduled.phase == "trial" else (scheduled.question.question_type, scheduled.round)


@dataclass
class AnnotationSession:
    """Annotators, their questions and the label file. Thread-safe. path: label file; existing labels are read from it.
    known_answers: gold labels, for feedback and checks. definitions: dimension -> text shown to annotators, overrides
    the built-in one. clock: time of a label. score_sources: result folders and files of scores that labels are compared
    with, as `load_score_source` takes them. Raises `InputError` for a file that is not a label file."""

    pool: QuestionPool
    questions: Sequence[LabelQuestion]
    path: Path
    known_answers: KnownAnswers = field(default_factory=dict)
    seed: int = 0
    practice_questions: int = TRIAL_QUESTIONS
    recheck_share: float = RECHECK_SHARE
    definitions: Mapping[str, str] = field(default_factory=dict)
    clock: Callable[[], datetime] = _now
    score_sources: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._labels = read_labels([self.path]) if self.path.exists() else []
        self._states: dict[str, _AnnotatorState] = {}
        append_labels(self.path, [])  # fail before labelling, not after it
        self._num_read = len(self._labels)

    @property
    def labels(self) -> list[Label]:
        """All labels of the file, in order."""
        with self._lock:
            return list(self._labels)

    @property
    def annotators(self) -> list[str]:
        """Names of all annotators with labels, in order of their first label."""
        return list(dict.fromkeys(label.annotator for label in self.labels if label.phase != "answer"))

    @property
    def num_practice(self) -> int:
        """Practice questions of each annotator."""
        return practice_count(self.questions, self.practice_questions, frozenset(self.known_answers))

    @property
    def is_used(self) -> bool:
        """Whether a label was saved since the session began."""
        return len(self._labels) > self._num_read

    def schedule(self, annotator: str) -> list[ScheduledQuestion]:
        """All questions of an annotator, in order."""
        with self._lock:
            return list(self._state(annotator).schedule)

    def question(self, annotator: str, number: int | None = None) -> ShownQuestion | None:
        """The next question, or None at the end; with `number` the next or an earlier one. A next question whose
        pictures cannot be read is passed over, see `unreadable`. Raises `AnnotationError` for a number beyond the next
        question; with `number` also `MissingOutput` and `ImageError`."""
        with self._lock:
            state = self._state(annotator)
            if number is not None:
                return self._shown(state, self._checked_number(annotator, state, number))
            while (index := state.next) is not None:
                try:
                    return self._shown(state, index)
                except (MissingOutput, ImageError) as error:
                    state.unreadable[state.schedule[index].question.key] = str(error)
            return None

    def unreadable(self, annotator: str) -> list[str]:
        """Why questions were passed over, a line each."""
        with self._lock:
            return list(self._state(annotator).unreadable.values())

    def shown(self, annotator: str, number: int) -> ShownQuestion:
        """A question of the schedule, whether earlier ones are answered or not. Raises as `question`."""
        with self._lock:
            return self._shown(self._state(annotator), number)

    def _shown(self, state: _AnnotatorState, number: int) -> ShownQuestion:
        scheduled = state.schedule[number]
        group = [other for other in state.schedule if _question_group(other) == _question_group(scheduled)]
        return shown_question(
            self.pool,
            scheduled,
            number=number,
            total=len(state.schedule),
            answered=sum(bool(state.labels_of(other)) for other in state.schedule),
            position=group.index(scheduled) + 1,
            group_size=len(group),
            labels=state.labels_of(scheduled),
            definition=self.definitions.get(scheduled.question.question_type.dimension, ""),
        )

    def checks(self, annotator: str | None = None) -> list[AnnotatorCheck]:
        """Consistency and errors of an annotator, or of all; see `check_annotators`."""
        labels = [label for label in self.labels if annotator in (None, label.annotator)]
        return check_annotators(labels, self.known_answers)

    @staticmethod
    def _checked_number(annotator: str, state: _AnnotatorState, number: int) -> int:
        next_number = state.next
        if not 0 <= number < len(state.schedule) or (next_number is not None and number > next_number):
            raise AnnotationError(f"there is no question {number} for {annotator} yet: the next is {next_number}")
        return number

    def submit(
        self,
        annotator: str,
        number: int,
        answer: LabelAnswer,
        seconds: float,
        note: str = "",
        revision: int | None = None,
    ) -> Feedback | None:
        """Save an answer: it is on the disk when this returns. Returns the feedback to a practice question. answer:
        left, right or tie for a pair; else as in a label. revision: that of the question as it was shown; None changes
        whatever the question has. Raises `AnnotationError` for an invalid answer or question number,
        `AnsweredElsewhere` where the question has been answered since it was shown, and OSError."""
        with self._lock:
            state = self._state(annotator)
            scheduled = state.schedule[self._checked_number(annotator, state, number)]
            if revision is not None and revision != len(state.labels_of(scheduled)):
                raise AnsweredElsewhere("this question was answered already, by a double click or in another window")
            label = self.make_label(annotator, scheduled, answer, note, seconds=min(max(seconds, 0.0), MAX_SECONDS))
            self._save([label])
            if scheduled.phase != "trial":
                return None
            gold = self.known_answers[scheduled.question.key]
            return Feedback(same_answer(gold, label), displayed_answer(gold, scheduled), gold.note)

    def add_labels(self, labels: Sequence[Label]) -> int:
        """Save labels that came from elsewhere, without those that the file has; returns how many were new. A label
        that differs from the file's is later, and counts. Raises OSError."""
        with self._lock:
            last = {label.judgement_key: label for label in self._labels}
            new = []
            for label in labels:
                before = last.get(label.judgement_key)
                if before is None or not _same_content(before, label):
                    new.append(label)
                    last[label.judgement_key] = label
            self._save(new)
            return len(new)

    def _save(self, labels: Sequence[Label]) -> None:
        append_labels(self.path, labels)
        self._labels += labels
        for label in labels:
            state = self._states.get(label.annotator)
            if state is not None and label.phase != "answer":
                state.labels.setdefault((*label_key(label), label.phase, label.round), []).append(label)

    def make_label(
        self,
        annotator: str,
        scheduled: ScheduledQuestion,
        answer: LabelAnswer,
        note: str = "",
        *,
        seconds: float | None = None,
    ) -> Label:
        """The label of an answer as in `submit`, which is not saved. Raises `AnnotationError` for an invalid one."""
        question_type, item_keys = scheduled.question.question_type, scheduled.question.item_keys
        is_pair = len(item_keys) == 2
        try:
            answer = stored_answer(answer, scheduled)
        except ValueError as error:
            raise AnnotationError(str(error)) from None
        if isinstance(answer, tuple):
            width, height = self.pool.sample(*item_keys[0]).source.size
            if any(x1 > width or y1 > height for _, _, x1, y1 in answer):
                raise AnnotationError(f"a box lies outside its {width} x {height} image")
        editors = tuple(editor for editor, _ in item_keys)
        try:
            return Label(
                kind=question_type.kind,
                id=(item_keys[0][1], item_keys[1][1]) if is_pair else item_keys[0][1],
                editor=(editors[0], editors[1]) if is_pair and any(editors) else editors[0],
                dimension=question_type.dimension,
                label=answer,
                annotator=annotator,
                time=self.clock(),
                seconds=None if seconds is None else round(seconds, 1),
                swapped=scheduled.swapped and is_pair,
                note=note,
                phase=scheduled.phase,
                round=scheduled.round,
            )
        except ValidationError as error:
            raise AnnotationError(validation_message(error)) from None

    def repeat_dimension(self, annotator: str, kind: LabelKind, dimension: str) -> int:
        """Schedule all questions of a dimension again; returns the number of the round. Raises `AnnotationError` before
        its last round is complete, and for a dimension that is void for the annotator."""
        with self._lock:
            state = self._state(annotator)
            question_type = QuestionType(kind, dimension)
            asked = [one for one in state.schedule if one.phase != "trial"]
            last_round = [one for one in asked if one.question.question_type == question_type]
            if not last_round:
                raise AnnotationError(f"there are no questions about {dimension} ({kind})")
            if any(not state.labels_of(scheduled) for scheduled in last_round):
                raise AnnotationError(f"{dimension} has unanswered questions: answer them first")
            own = [label for label in self._labels if label.annotator == annotator]
            for check in check_annotators(own, self.known_answers):
                if check.is_void and (check.kind, check.dimension) == (kind, dimension):
                    raise AnnotationError(f"{check}")
            number = max(scheduled.round for scheduled in last_round) + 1
            state.schedule += self._round(annotator, question_type, last_round, number)
            return number

    def _round(
        self, annotator: str, question_type: QuestionType, last_round: Sequence[ScheduledQuestion], number: int
    ) -> list[ScheduledQuestion]:
        questions = list(dict.fromkeys(scheduled.question for scheduled in last_round))
        rng = random.Random(f"{self.seed} {annotator} {question_type.kind} {question_type.dimension} {number}")
        return question_block(questions, rng, self.recheck_share, frozenset(self.known_answers), number)

    def _state(self, annotator: str) -> _AnnotatorState:
        if annotator not in self._states:
            own_labels = [entry for entry in self._labels if entry.annotator == annotator and entry.phase != "answer"]
            plan = annotation_order(
                self.questions,
                annotator,
                seed=self.seed,
                practice_questions=self.practice_questions,
                recheck_share=self.recheck_share,
                known_keys=frozenset(self.known_answers),
            )
            rounds: dict[QuestionType, int] = {}
            for label in own_labels:
                about = QuestionType(label.kind, label.dimension)
                rounds[about] = max(label.round, rounds.get(about, 1))
            for about in dict.fromkeys(entry.question.question_type for entry in plan):
                first = [entry for entry in plan if entry.phase != "trial" and entry.question.question_type == about]
                for number in range(2, rounds.get(about, 1) + 1):
                    plan += self._round(annotator, about, first, number)
            labels: dict[tuple[object, ...], list[Label]] = {}
            for entry in own_labels:
                labels.setdefault((*label_key(entry), entry.phase, entry.round), []).append(entry)
            self._states[annotator] = _AnnotatorState(plan, labels)
        return self._states[annotator]


def _same_content(first: Label, second: Label) -> bool:
    """Whether two labels of the same judgement say the same, whatever the order of a pair."""
    if isinstance(first.label, tuple) or isinstance(second.label, tuple):
        return first.label == second.label and first.note == second.note
    return same_answer(first, second) and first.note == second.note
