"""The sessions of the tab "Label": that of the start, and those that are begun on the page, one a label file."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..common.errors import InputError
from ..human_eval.annotation_schedule import RECHECK_SHARE, TRIAL_QUESTIONS, QuestionType, known_answers
from ..human_eval.annotation_session import AnnotationSession
from ..human_eval.question_pools import open_paths
from ..suites.human_labels import read_labels
from .open_files import OpenFiles

NEW_FILE = "labels.jsonl"  # name of a label file that the page makes, in a folder that was named at the start

QUESTION_TYPES = (
    *("pair:overall", "pair:following", "pair:preservation", "pair:quality", "yes-no:following", "yes-no:preservation"),
    *(
        "four-level:following",
        "four-level:consistency",
        "four-level:quality",
        "stars:realism",
        "boxes:target",
        "reference:reference",
    ),
)
"""Offered by the page; others can be typed."""


@dataclass(frozen=True, slots=True)
class SessionChoice:
    """What a user chose. shown: names of results or samples. questions: KIND:DIMENSION, none for the default. labels,
    gold_labels: names of label files. num_items: None for all."""

    shown: tuple[str, ...]
    labels: str
    questions: tuple[str, ...] = ()
    gold_labels: str = ""
    num_items: int | None = None
    practice_questions: int = TRIAL_QUESTIONS
    recheck_share: float = RECHECK_SHARE


@dataclass
class LabelSessions:
    """Thread-safe."""

    files: OpenFiles
    _open: dict[Path, tuple[SessionChoice, AnnotationSession]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def sources(self) -> list[str]:
        """What can be labelled. The files of results are none by themselves."""
        results = self.files.names("results")
        inner = tuple(f"{name}/" for name in results)
        return [*results, *(name for name in self.files.names("samples") if not name.startswith(inner))]

    def label_files(self) -> list[str]:
        """Label files, those first that are made when they are chosen."""
        return list(dict.fromkeys([*self.files.new_file(NEW_FILE), *self.files.names("labels")]))

    def open(self, choice: SessionChoice) -> AnnotationSession:
        """The session of a label file: the same one for every window. Raises `InputError` and `SpecError`."""
        path = self._label_path(choice.labels)
        with self._lock:
            earlier, session = self._open.get(path, (None, None))
            if session is not None and earlier == choice:
                return session
            if session is not None and session.is_used:
                raise InputError(
                    f"{choice.labels} is being filled with other questions: choose the same ones, or another label file"
                )
            session = self._made(choice, path)
            self._open[path] = choice, session
            return session

    def _made(self, choice: SessionChoice, path: Path) -> AnnotationSession:
        if not choice.shown:
            raise InputError("nothing is chosen to label: pick results or samples")
        results, samples = self.files.names("results"), self.files.names("samples")
        paths = [
            self.files.path("results" if name in results or name not in samples else "samples", name)
            for name in choice.shown
        ]
        source = open_paths(paths, self.files.holds)
        types: Sequence[QuestionType] = list(map(QuestionType.parse, choice.questions)) or source.default_types
        gold = known_answers(read_labels([self.files.path("labels", choice.gold_labels)])) if choice.gold_labels else {}
        return AnnotationSession(
            source.pool,
            source.pool.questions(types, items=choice.num_items),
            path,
            gold,
            practice_questions=choice.practice_questions,
            recheck_share=choice.recheck_share,
            score_sources=source.scores,
        )

    def _label_path(self, name: str) -> Path:
        if name in (new := self.files.new_file(NEW_FILE)):
            return new[name]
        return self.files.path("labels", name)
