"""`bench build dlebench`: edits of small objects with reference images, in the layout of the published DLEBench."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ....reward import Engine, Expert, Image
from ....reward.atomic_files import atomic_replacement
from ....reward.engine.expert_queue import Stats
from ....reward.image import Corners
from ....reward.metrics.dlebench.tools import context_factor
from ....reward.queries.prompts import Prompts
from ....verifiers import Editor, Journal
from ....verifiers.selection import JournalError
from ...common.errors import InputError
from ..construction.workspace import (
    PROMPTS,
    ConstructionFolder,
    ConstructionReport,
    Rejection,
    RejectionLog,
    open_image,
    run_programs,
)
from .counterfactual import TYPES, CounterfactualEdit, VisualQuestion, counterfactual_program
from .reader import DATA_FILE, REFERENCES_FOLDER, SOURCES_FOLDER, parse_boxes
from .reference_images import (
    REVIEW_FILE,
    PendingReference,
    ReferenceGenerator,
    ReferenceReview,
    pixel_boxes,
    read_reviews,
)

JOURNAL = "journal"


@dataclass(frozen=True, slots=True)
class ConstructedSample:
    """A sample with its metadata, without reference. boxes: of its targets, in pixels of the source."""

    question: VisualQuestion
    source: Image
    boxes: tuple[Corners, ...]
    data: CounterfactualEdit

    @property
    def id(self) -> str:
        return self.question.id

    def row(self) -> dict[str, Any]:
        """A line of the data: the fields of the data set's card, and those that readers need."""
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
            "context": [context_factor(min(x1 - x0, y1 - y0)) for x0, y0, x1, y1 in self.boxes],
            "size": list(size),
        }

    def corrected(self, review: ReferenceReview) -> ConstructedSample:
        """With the metadata as a reviewer has changed it. Raises `InputError` for what cannot be used."""
        old = self.row()
        changes = {key: value for key, value in review.metadata.items() if value != old[key]}
        boxes = self.boxes
        if "bbox" in changes:
            try:
                boxes = pixel_boxes(parse_boxes(changes.pop("bbox"), self.source.size), self.source.size)
            except ValueError as error:
                raise InputError(f"{review.where} has a bbox that cannot be used: {error}") from None
        for key, value in changes.items():
            if not isinstance(value, str) or not value.strip():
                raise InputError(f"{review.where} has the {key} {value!r}: expected a text")
        operations = {name: operation for operation, name in TYPES.values()}
        type_ = changes.get("type", self.data.type)
        if type_ not in operations:
            raise InputError(f"{review.where} has the type {type_!r}: expected one of {', '.join(operations)}")
        texts = {_DATA_FIELDS[key]: " ".join(value.split()) for key, value in changes.items()}
        data = replace(self.data, **texts, operation=operations[type_])
        return replace(self, boxes=boxes, data=data)


_DATA_FIELDS = {
    "edit_operation": "instruction",
    "type": "type",
    "modified_object": "object",
    "prompt_clean": "clean",
    "prompt_adv": "adverse",
}
"""Field of the data -> attribute of `CounterfactualEdit`."""


@dataclass
class _ConstructionState:
    """Outcomes of the questions so far."""

    rejects: list[Rejection] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    finished: dict[str, ConstructedSample] = field(default_factory=dict)


@dataclass(frozen=True)
class DleBenchBuilder:
    """Constructs samples from questions: metadata by the judge, references by the editor, both validated. seed: for
    sampling wrong options, and for the editor. labels: human labels, see `read_reviews`. window: questions in
    flight."""

    judge: Expert
    editor: Editor
    seed: int = 0
    prompts: Prompts = PROMPTS
    labels: Sequence[Path] = ()
    window: int = 64

    def make(
        self, entries: Sequence[VisualQuestion | tuple[str, str]], out: Path, *, step: Callable[[], None] = lambda: None
    ) -> ConstructionReport:
        """entries: questions, and id and problem of invalid lines.

        Writes `data.jsonl`, `Source_Images/`, `Reference_Images/`, `review.jsonl` for reviewers, and
        `rejections.jsonl`; `journal/` keeps edits and answers. Raises `InputError`.
        """
        questions = [entry for entry in entries if isinstance(entry, VisualQuestion)]
        folder = ConstructionFolder(out, self._record(questions))
        reviews = read_reviews(out, self.labels)
        state = _ConstructionState(
            [Rejection(entry[0], "rejected", entry[1]) for entry in entries if isinstance(entry, tuple)]
        )
        try:
            journal = Journal(out / JOURNAL)
        except JournalError as error:
            raise InputError(str(error)) from None
        with journal, Engine(log=journal.answer_log, window=self.window) as engine:
            samples = [
                sample.corrected(reviews.get(sample.id, ReferenceReview()))
                for sample in self._samples(questions, engine, state, step)
            ]
            generator = ReferenceGenerator(self.editor, {"judge": self.judge}, engine, journal, self.seed)
            self._references(samples, reviews, generator, out, state)
            stats = engine.stats().since(Stats())
        folder.write_rejections(state.rejects)
        path = folder.write_jsonl(DATA_FILE, (sample.row() for sample in samples if sample.id in state.finished))
        folder.write_jsonl(REVIEW_FILE, _review_rows(questions, samples, reviews, state))
        files = (path, out / SOURCES_FOLDER, out / REFERENCES_FOLDER, out / REVIEW_FILE)
        num_finished = len(state.finished)
        return ConstructionReport(
            num_finished, len(entries) - num_finished - len(state.failed), state.failed, files, stats
        )

    def _record(self, questions: Sequence[VisualQuestion]) -> dict[str, Any]:
        return {
            "suite": "dlebench",
            "seed": self.seed,
            "prompts": self.prompts.digest,
            "experts": {"judge": self.judge.id},
            "editor": self.editor.id,
            "questions": {
                question.id: [question.text, list(question.options), question.answer, open_image(question.image).digest]
                for question in questions
            },
        }

    def _samples(
        self, questions: Sequence[VisualQuestion], engine: Engine, state: _ConstructionState, step: Callable[[], None]
    ) -> Iterator[ConstructedSample]:
        """The samples for which the judge has written valid metadata."""
        programs = ((one.id, counterfactual_program(one, self.prompts, self.seed)) for one in questions)
        for question, result in zip(questions, run_programs(programs, engine, {"judge": self.judge}), strict=True):
            step()
            state.rejects += result.rejects
            if result.failed:
                state.failed[result.id] = result.failed
            if result.value is not None:
                source = open_image(question.image)
                yield ConstructedSample(question, source, pixel_boxes(question.boxes, source.size), result.value)

    def _references(
        self,
        samples: Sequence[ConstructedSample],
        reviews: Mapping[str, ReferenceReview],
        generator: ReferenceGenerator,
        out: Path,
        state: _ConstructionState,
    ) -> None:
        """Generate the references, and save each when it is finished."""
        pending = []
        for sample in samples:
            review = reviews.get(sample.id, ReferenceReview())
            if reason := review.rejection_reason:
                state.rejects.append(Rejection(sample.id, "rejected", reason))
                continue
            if review.decision == "accept" and (out / REFERENCES_FOLDER / sample.row()["reference_image"]).is_file():
                state.finished[sample.id] = sample  # the accepted picture, whatever was corrected since
                continue
            instruction, number, notes = sample.data.instruction, review.next_review.round, RejectionLog(sample.id)
            pending.append(PendingReference(sample.id, instruction, sample.boxes, number, sample.source, notes))
        by_id = {sample.id: sample for sample in samples}
        for reference in generator.generate_all(pending):
            state.rejects += reference.notes.rejects
            if reference.failed:
                state.failed[reference.id] = reference.failed
            elif not reference.abandoned:
                sample = by_id[reference.id]
                _save_reference(sample, reference.picture, out)
                state.finished[reference.id] = sample


def _save_reference(sample: ConstructedSample, reference: Image, out: Path) -> None:
    row = sample.row()
    for folder in (SOURCES_FOLDER, REFERENCES_FOLDER):
        (out / folder).mkdir(parents=True, exist_ok=True)
    with atomic_replacement(out / SOURCES_FOLDER / row["image"]) as temporary:
        shutil.copyfile(sample.question.image, temporary)
    with atomic_replacement(out / REFERENCES_FOLDER / row["reference_image"]) as temporary:
        reference.pil().save(temporary, "PNG")


def _review_rows(
    questions: Sequence[VisualQuestion],
    samples: Sequence[ConstructedSample],
    reviews: Mapping[str, ReferenceReview],
    state: _ConstructionState,
) -> Iterator[dict[str, Any]]:
    """Review lines: of finished samples, and of earlier decisions."""
    rows = {sample.id: sample.row() for sample in samples}
    for question in questions:
        name, review = question.id, reviews.get(question.id)
        if name in state.finished:
            yield (review or ReferenceReview()).next_review.row(name, rows[name])
        elif review is not None:
            yield review.row(name, rows.get(name, {}))
