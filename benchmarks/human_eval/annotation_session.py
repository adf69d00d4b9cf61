"""An annotation session: the next question of each annotator, their labels, and the feedback during practice.

Every label is on the disk before it is acknowledged. The label file is the only resume state.
"""

from __future__ import annotations

import hashlib
import io
import random
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...reward import EditSample, Image
from ..suites.human_labels import (
    Label,
    LabelAnswer,
    LabelKind,
    append_label,
    effective_labels,
    read_labels,
    validation_message,
)
from .annotation_plan import (
    RECHECK_SHARE,
    TRIAL_QUESTIONS,
    LabelQuestion,
    QuestionPool,
    QuestionType,
    ScheduledQuestion,
    annotation_order,
    label_key,
    question_block,
)
from .annotation_texts import answer_choices, dimension_definition
from .annotator_checks import KnownAnswers, check_annotators, same_answer


class AnnotationError(ValueError):
    """An invalid request or answer; the message gives the reason."""


def _now() -> datetime:
    return datetime.now(timezone.utc).replace(microsecond=0)


@dataclass
class _AnnotatorState:
    """One annotator's schedule and labels."""

    schedule: list[ScheduledQuestion]
    labels: dict[tuple[object, ...], Label]

    def label(self, scheduled: ScheduledQuestion) -> Label | None:
        return self.labels.get(_question_slot(scheduled))

    @property
    def next(self) -> int | None:
        """Index of the first unanswered question; None at the end."""
        return next((number for number, scheduled in enumerate(self.schedule) if self.label(scheduled) is None), None)


def _question_group(scheduled: ScheduledQuestion) -> tuple[object, ...]:
    """Equal for questions that are counted together: practice, or a round of a dimension."""
    return () if scheduled.phase == "trial" else (scheduled.question.question_type, scheduled.round)


def _question_slot(scheduled: ScheduledQuestion) -> tuple[object, ...]:
    return (*scheduled.question.key, scheduled.phase, scheduled.round)


@dataclass
class AnnotationSession:
    """Annotators, their questions and the label file. Thread-safe.

    path: label file; existing labels are read from it. known_answers: gold labels, for feedback and checks.
    definitions: dimension -> text shown to annotators, overrides the built-in one. clock: time of a label. Raises
    `InputError` for a file that is not a label file.
    """

    pool: QuestionPool
    questions: Sequence[LabelQuestion]
    path: Path
    known_answers: KnownAnswers = field(default_factory=dict)
    seed: int = 0
    practice_questions: int = TRIAL_QUESTIONS
    recheck_share: float = RECHECK_SHARE
    definitions: Mapping[str, str] = field(default_factory=dict)
    clock: Callable[[], datetime] = _now

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._labels = read_labels([self.path]) if self.path.exists() else []
        self._states: dict[str, _AnnotatorState] = {}
        self._images: dict[str, Image] = {}
        self._secret = secrets.token_bytes(16)
        self.path.touch()  # fail before labelling, not after it

    @property
    def annotators(self) -> list[str]:
        """Names of all annotators with labels, in order of their first label."""
        return list(dict.fromkeys(label.annotator for label in self._labels if label.phase != "answer"))

    # -- questions ----------------------------------------------------------------------------------------------------

    def current_question(self, annotator: str, number: int | None = None) -> dict[str, Any]:
        """The question that the page shows: the next one, or an answered one by number; at the end the checks.

        Raises `AnnotationError` for a number beyond the next question, `MissingOutput` and `ImageError`.
        """
        with self._lock:
            state = self._state(annotator)
            next_number = state.next
            if number is None and next_number is None:
                return self._finished(annotator, state)
            index = next_number if number is None else number
            assert index is not None
            if not 0 <= index < len(state.schedule) or (next_number is not None and index > next_number):
                raise AnnotationError(f"there is no question {index} for {annotator} yet: the next is {next_number}")
            return self._question_document(state, index)

    def _question_document(self, state: _AnnotatorState, number: int) -> dict[str, Any]:
        scheduled = state.schedule[number]
        question_type = scheduled.question.question_type
        samples = [self.pool.sample(editor, name) for editor, name in scheduled.question.item_keys]
        first = samples[0]
        previous = state.label(scheduled)
        phase = "trial" if scheduled.phase == "trial" else "main"  # a recheck looks like any other
        group = [other for other in state.schedule if _question_group(other) == _question_group(scheduled)]
        return {
            "finished": False,
            "number": number,
            "total": len(state.schedule),
            "answered": sum(state.label(other) is not None for other in state.schedule),
            "progress": {"index": group.index(scheduled) + 1, "total": len(group)},
            "phase": phase,
            "kind": question_type.kind,
            "dimension": question_type.dimension,
            "definition": self.definitions.get(question_type.dimension) or dimension_definition(question_type),
            "instruction": _shown_instruction(question_type, first),
            "hint": first.hint,
            "images": self._shown_images(scheduled, samples),
            "size": list(first.source.size),
            "choices": answer_choices(question_type, self.pool.suite.name),
            "previous_label": None if previous is None else _displayed_label(previous.label, scheduled, previous),
            "note": "" if previous is None else previous.note,
        }

    def _shown_images(self, scheduled: ScheduledQuestion, samples: Sequence[EditSample]) -> list[dict[str, Any]]:
        question_type = scheduled.question.question_type
        sources = samples[0].turns[0].sources if question_type.about_conversation else samples[0].sources
        names = ["source"] if len(sources) == 1 else [f"source {number}" for number in range(1, len(sources) + 1)]
        images = list(zip(names, sources, strict=True))
        if question_type.about_conversation and len(samples) == 1:
            images += [(f"after turn {turn.turn}", turn.edited) for turn in samples[0].history]
        match scheduled.question.question_type.kind:
            case "pair":
                left, right = (samples[1], samples[0]) if scheduled.swapped else (samples[0], samples[1])
                images += [("left", left.edited), ("right", right.edited)]
            case "reference":
                reference = samples[0].reference
                assert reference is not None
                images.append(("reference", reference))
            case "boxes":
                images = images[:1]
            case _:
                images.append(("edited", samples[0].edited))
        return [{"role": role, "key": self._register_image(image), "size": list(image.size)} for role, image in images]

    def _register_image(self, image: Image) -> str:
        key = hashlib.blake2b(image.digest.encode(), key=self._secret, digest_size=12).hexdigest()
        self._images[key] = image
        return key

    def image(self, key: str) -> bytes | None:
        """PNG of an image that was shown; None for any other key. Raises `ImageError`."""
        with self._lock:
            image = self._images.get(key)
        if image is None:
            return None
        out = io.BytesIO()
        image.pil().save(out, "PNG", compress_level=1)
        return out.getvalue()

    # -- answers ------------------------------------------------------------------------------------------------------

    def submit(
        self, annotator: str, number: int, answer: LabelAnswer, seconds: float, note: str = ""
    ) -> dict[str, Any]:
        """Save an answer: it is on the disk when this returns. During practice the result holds feedback.

        answer: left, right or tie for a pair; else as in a label. Raises `AnnotationError` for an invalid answer or
        question number, and OSError.
        """
        with self._lock:
            state = self._state(annotator)
            next_number = state.next
            if not 0 <= number < len(state.schedule) or (next_number is not None and number > next_number):
                raise AnnotationError(f"there is no question {number} for {annotator} yet: the next is {next_number}")
            scheduled = state.schedule[number]
            label = self._label(annotator, scheduled, answer, seconds, note)
            append_label(self.path, label)
            self._labels.append(label)
            state.labels[_question_slot(scheduled)] = label
            return {"saved": True, "feedback": self._feedback(scheduled, label) if scheduled.phase == "trial" else None}

    def _label(
        self, annotator: str, scheduled: ScheduledQuestion, answer: LabelAnswer, seconds: float, note: str
    ) -> Label:
        question_type, item_keys = scheduled.question.question_type, scheduled.question.item_keys
        is_pair = len(item_keys) == 2
        if is_pair:
            sides = {
                "left": "B" if scheduled.swapped else "A",
                "right": "A" if scheduled.swapped else "B",
                "tie": "tie",
            }
            if answer not in sides:
                raise AnnotationError(f"the answer of a pair is left, right or tie, got {answer!r}")
            answer = sides[str(answer)]
        if isinstance(answer, tuple):
            width, height = self.pool.sample(*item_keys[0]).source.size
            if any(x1 > width or y1 > height for _, _, x1, y1 in answer):
                raise AnnotationError(f"a box lies outside its {width} x {height} image")
        try:
            return Label(
                kind=question_type.kind,
                id=(item_keys[0][1], item_keys[1][1]) if is_pair else item_keys[0][1],
                editor=(item_keys[0][0], item_keys[1][0]) if is_pair else item_keys[0][0],
                dimension=question_type.dimension,
                label=answer,
                annotator=annotator,
                time=self.clock(),
                seconds=round(seconds, 1),
                swapped=scheduled.swapped and is_pair,
                note=note,
                phase=scheduled.phase,
                round=scheduled.round,
            )
        except ValidationError as error:
            raise AnnotationError(validation_message(error)) from None

    def _feedback(self, scheduled: ScheduledQuestion, label: Label) -> dict[str, Any]:
        """Feedback to a practice question: from the known answer, else from the majority of the other annotators."""
        key = scheduled.question.key
        gold = self.known_answers.get(key)
        if gold is not None:
            return {
                "is_correct": same_answer(gold, label),
                "known": _displayed_label(gold.label, scheduled, gold),
                "note": gold.note,
                "source": "gold",
            }
        other_labels = [
            other for other in self._labels if label_key(other) == key and other.annotator != label.annotator
        ]
        counts = Counter(
            str(_displayed_label(other.label, scheduled, other))
            for other in effective_labels(other_labels)
            if other.kind != "boxes"
        )
        if not counts:
            return {"is_correct": None, "known": None, "note": "", "source": "none"}
        majority, _ = counts.most_common(1)[0]
        return {
            "is_correct": str(_displayed_label(label.label, scheduled, label)) == majority,
            "known": majority,
            "note": "",
            "source": "majority",
        }

    # -- repeated dimensions -----------------------------------------------------------------------------------------

    def repeat_dimension(self, annotator: str, kind: LabelKind, dimension: str) -> dict[str, Any]:
        """Schedule all questions of a dimension again. Raises `AnnotationError` before its last round is complete."""
        with self._lock:
            state = self._state(annotator)
            question_type = QuestionType(kind, dimension)
            last_round = [
                scheduled
                for scheduled in state.schedule
                if scheduled.phase != "trial" and scheduled.question.question_type == question_type
            ]
            if not last_round:
                raise AnnotationError(f"there are no questions about {dimension} ({kind})")
            if any(state.label(scheduled) is None for scheduled in last_round):
                raise AnnotationError(f"{dimension} has unanswered questions: answer them first")
            state.schedule += self._round(
                annotator, question_type, last_round, max(scheduled.round for scheduled in last_round) + 1
            )
            return {"round": state.schedule[-1].round}

    def _round(
        self, annotator: str, question_type: QuestionType, last_round: Sequence[ScheduledQuestion], number: int
    ) -> list[ScheduledQuestion]:
        questions = list(dict.fromkeys(scheduled.question for scheduled in last_round))
        rng = random.Random(f"{self.seed} {annotator} {question_type.kind} {question_type.dimension} {number}")
        return question_block(questions, rng, self.recheck_share, frozenset(self.known_answers), number)

    # -- annotator state ----------------------------------------------------------------------------------------------

    def _state(self, annotator: str) -> _AnnotatorState:
        if annotator not in self._states:
            own_labels = [entry for entry in self._labels if entry.annotator == annotator and entry.phase != "answer"]
            known_keys = frozenset(self.known_answers)
            plan = annotation_order(
                self.questions,
                annotator,
                seed=self.seed,
                practice_questions=self.practice_questions,
                recheck_share=self.recheck_share,
                known_keys=known_keys,
            )
            for question_type in dict.fromkeys(entry.question.question_type for entry in plan):
                last_round = [
                    entry for entry in plan if entry.phase != "trial" and entry.question.question_type == question_type
                ]
                rounds = [
                    entry.round
                    for entry in own_labels
                    if (entry.kind, entry.dimension) == (question_type.kind, question_type.dimension)
                ]
                for number in range(2, max(rounds, default=1) + 1):
                    plan += self._round(annotator, question_type, last_round, number)
            labels_by_slot = {(*label_key(entry), entry.phase, entry.round): entry for entry in own_labels}
            self._states[annotator] = _AnnotatorState(plan, labels_by_slot)
        return self._states[annotator]

    def _finished(self, annotator: str, state: _AnnotatorState) -> dict[str, Any]:
        own_labels = [entry for entry in self._labels if entry.annotator == annotator]
        checks = check_annotators(own_labels, self.known_answers)
        return {
            "finished": True,
            "total": len(state.schedule),
            "answered": len(state.schedule),
            "checks": [{**entry.to_json(), "text": str(entry)} for entry in checks],
        }


def _displayed_label(answer: LabelAnswer, scheduled: ScheduledQuestion, label: Label) -> Any:
    """The label as this question shows it: sides of a pair instead of A and B."""
    if label.kind != "pair":
        return answer
    if answer == "tie":
        return "tie"
    first_is_better = (answer == "A") == (
        label.item_keys == scheduled.question.item_keys
    )  # whether the first item of this question is preferred
    return "left" if first_is_better != scheduled.swapped else "right"


def _shown_instruction(question_type: QuestionType, sample: EditSample) -> str:
    """The instruction, or of a question about a conversation those of all turns so far, numbered."""
    if question_type.about_conversation:
        return "\n".join(f"{turn.turn}. {turn.instruction}" for turn in sample.turns)
    return sample.instruction
