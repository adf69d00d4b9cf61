"""`bench make dlebench`: edits of small objects with reference pictures, in the layout of the published DLEBench."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...reward import Engine, Expert, Image
from ...reward.dlebench.crops import growth
from ...reward.image import Corners
from ...reward.prompts import Prompts
from ...reward.stats import Stats
from ...verifiers import Editor, Journal, JournalError
from ..inputs import InputError
from .asking import Notes, Reject, make_all
from .counterfactual import Metadata, Question, program
from .given import PROMPTS, Folder, opened, written
from .outcome import Outcome
from .references import Retoucher, Wanted, corners_of
from .review import REVIEW, Review, reviews

DATA, SOURCES, REFERENCES = "data.jsonl", "Source_Images", "Reference_Images"
JOURNAL = "journal"


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample with its metadata, before its reference is made. boxes: of its targets, in pixels of the source."""

    question: Question
    source: Image
    boxes: tuple[Corners, ...]
    data: Metadata

    @property
    def id(self) -> str:
        return self.question.id

    def row(self) -> dict[str, Any]:
        """A line of the data: the fields its card names, and those that readers need."""
        size = self.source.size
        return {
            "id": self.id,
            "image": f"{self.id}{self.question.image.suffix.lower()}",
            "reference_image": f"{self.id}.png",
            "edit_operation": self.data.instruction,
            "prompt_clean": self.data.clean,
            "prompt_adv": self.data.adverse,
            "type": self.data.type,
            "bbox": [list(corners) for corners in self.boxes],
            "modified_object": self.data.object,
            "edit_ops": self.data.operation,
            "question": self.question.text,
            "options": list(self.question.options),
            "answer": self.question.answer,
            "counterfactual": self.data.wrong,
            "context": [growth(min(x1 - x0, y1 - y0)) for x0, y0, x1, y1 in self.boxes],
            "size": list(size),
        }


@dataclass
class _Work:
    """What has become of questions so far."""

    rejects: list[Reject] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    finished: dict[str, Sample] = field(default_factory=dict)


@dataclass(frozen=True)
class Synthesis:
    """Makes samples of questions: metadata by the judge, references by the editor, both checked.

    seed: of the wrong options that are drawn, and of what the editor makes. labels: of people, see `review`. window:
    questions in work at a time.
    """

    judge: Expert
    editor: Editor
    seed: int = 0
    prompts: Prompts = PROMPTS
    labels: Sequence[Path] = ()
    window: int = 64

    def make(
        self,
        given: Sequence[Question | tuple[str, str]],
        out: Path,
        *,
        step: Callable[[], None] = lambda: None,
    ) -> Outcome:
        """given: questions, and id and problem of lines that are none.

        Writes `data.jsonl`, `Source_Images/`, `Reference_Images/`, `review.jsonl` for people, and `rejects.jsonl`; what
        the editor made and the judge said is kept in `journal/`. Raises `InputError`.
        """
        questions = [one for one in given if isinstance(one, Question)]
        folder = Folder(out, self._record(questions))
        known = reviews(out, self.labels)
        work = _Work([Reject(one[0], "given up", one[1]) for one in given if isinstance(one, tuple)])
        try:
            journal = Journal(out / JOURNAL)
        except JournalError as error:
            raise InputError(str(error)) from None
        with journal, Engine(log=journal.log, window=self.window) as engine:
            samples = list(self._samples(questions, engine, work, step))
            retoucher = Retoucher(self.editor, {"judge": self.judge}, engine, journal, self.seed)
            self._references(samples, known, retoucher, out, work)
            stats = engine.stats().since(Stats())
        folder.rejects(work.rejects)
        path = folder.lines(DATA, (sample.row() for sample in work.finished.values()))
        folder.lines(REVIEW, _reviewed(questions, samples, known, work))
        files = (path, out / SOURCES, out / REFERENCES, out / REVIEW)
        made = len(work.finished)
        return Outcome(made, len(given) - made - len(work.failed), work.failed, files, stats)

    def _record(self, questions: Sequence[Question]) -> dict[str, Any]:
        return {
            "suite": "dlebench",
            "seed": self.seed,
            "prompts": self.prompts.digest,
            "experts": {"judge": self.judge.id},
            "editor": self.editor.id,
            "questions": {
                one.id: [one.text, list(one.options), one.answer, opened(one.image).digest] for one in questions
            },
        }

    def _samples(
        self, questions: Sequence[Question], engine: Engine, work: _Work, step: Callable[[], None]
    ) -> Iterator[Sample]:
        """Those of which the judge made metadata."""
        programs = ((one.id, program(one, self.prompts, self.seed)) for one in questions)
        for question, found in zip(questions, make_all(programs, engine, {"judge": self.judge}), strict=True):
            step()
            work.rejects += found.rejects
            if found.failed:
                work.failed[found.id] = found.failed
            if found.value is not None:
                source = opened(question.image)
                yield Sample(question, source, corners_of(question.boxes, source.size), found.value)

    def _references(
        self, samples: Sequence[Sample], known: Mapping[str, Review], retoucher: Retoucher, out: Path, work: _Work
    ) -> None:
        """Make them, and put them beside their sources as each is finished."""
        wanted = []
        for sample in samples:
            review = known.get(sample.id, Review())
            if reason := review.turned_down:
                work.rejects.append(Reject(sample.id, "given up", reason))
                continue
            told, number, notes = sample.data.instruction, review.next.round, Notes(sample.id)
            wanted.append(Wanted(sample.id, told, sample.boxes, number, sample.source, notes))
        by_id = {sample.id: sample for sample in samples}
        for one in retoucher.all(wanted):
            work.rejects += one.notes.rejects
            if one.failed:
                work.failed[one.id] = one.failed
            elif not one.given_up:
                sample = by_id[one.id]
                _put(sample, one.picture, out)
                work.finished[one.id] = sample


def _put(sample: Sample, reference: Image, out: Path) -> None:
    row = sample.row()
    written(out / SOURCES / row["image"], lambda half: shutil.copyfile(sample.question.image, half))
    written(out / REFERENCES / row["reference_image"], lambda half: reference.pil().save(half, "PNG"))


def _reviewed(
    questions: Sequence[Question], samples: Sequence[Sample], known: Mapping[str, Review], work: _Work
) -> Iterator[dict[str, Any]]:
    """Lines for people: of what is finished, and of what they have decided before."""
    rows = {sample.id: sample.row() for sample in samples}
    for question in questions:
        name, review = question.id, known.get(question.id)
        if name in work.finished:
            yield (review or Review()).next.row(name, rows[name])
        elif review is not None:
            yield review.row(name, rows.get(name, {}))
