"""`bench build dlebench`: edits of small objects with reference images, in the layout of the published DLEBench.

Each crop by Eq. 1 (section 3.1) is edited, verified by a judge and pasted back. Running the command again applies the
decisions of `review.jsonl`, or of labels of the kind `reference`: a sample to regenerate gets another reference (rounds
2 to 4), one that is discarded or rejected in round 4 is left out. What a reviewer corrects (`CORRECTABLE`) goes into
the data; a reference that is accepted stays, any other is made anew from the correction.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ....reward import Box, EditSample, Engine, Expert, Image, Program, Score
from ....reward.atomic_files import atomic_replacement
from ....reward.engine import gather
from ....reward.engine.expert_queue import Stats
from ....reward.image import Corners
from ....reward.metrics.dlebench.metrics import SmallObjectFollowing, VisualConsistency
from ....reward.metrics.dlebench.tools import context_factor, crop_corners, touched_pixels
from ....reward.queries.prompts import Prompts
from ....reward.regular_files import read_text
from ....reward.strict_json import parse_json
from ....verifiers import Editor, Journal, edit_request
from ....verifiers.selection import CandidateRequest, EditorError, JournalError, NoiseSpec
from ....verifiers.selection.generation import CandidateGenerator
from ...common.errors import InputError, input_errors
from ..construction.workspace import (
    MAX_ATTEMPTS,
    PROMPTS,
    ConstructionFolder,
    ConstructionReport,
    Rejection,
    RejectionLog,
    open_image,
    run_programs,
)
from ..human_labels import read_labels
from .counterfactual import TYPES, CounterfactualEdit, VisualQuestion, counterfactual_program
from .reader import DATA_FILE, REFERENCES_FOLDER, SOURCES_FOLDER, parse_boxes

STAGE = "dlebench/reference"


@dataclass
class PendingReference:
    """A reference to generate. round: from 1, incremented when a human review rejects it. picture: current state."""

    id: str
    instruction: str
    boxes: tuple[Corners, ...]
    round: int
    picture: Image
    notes: RejectionLog
    target: int = 0
    attempt: int = 0
    failed: str = ""
    abandoned: bool = False

    @property
    def is_open(self) -> bool:
        """Whether targets are left."""
        return self.target < len(self.boxes) and not self.failed and not self.abandoned

    @property
    def crop(self) -> Corners:
        """The crop of the current target."""
        return crop_corners(self.boxes[self.target], self.picture.size)


@dataclass(frozen=True)
class ReferenceGenerator:
    """Generates references with an editor, and a judge with the metrics that verify them.

    An edit is accepted if both metrics give their best label, in the mode without tools, on the crops. Each target has
    `MAX_ATTEMPTS`.
    """

    editor: Editor
    experts: dict[str, Expert]
    engine: Engine
    journal: Journal
    seed: int = 0

    def generate_all(self, references: Sequence[PendingReference]) -> Iterator[PendingReference]:
        """Yield the references as they finish, in order; in the editor's batches."""
        generator = CandidateGenerator(self.editor, self.journal, lambda cost, reused: None)  # no budget
        batch_size = max(1, self.editor.batch_size)
        for start in range(0, len(references), batch_size):
            group = references[start : start + batch_size]
            while open_references := [reference for reference in group if reference.is_open]:
                try:
                    self._try_targets(generator, open_references)
                except EditorError as error:
                    for reference in open_references:
                        reference.failed = str(error)
            yield from group

    def _try_targets(self, generator: CandidateGenerator, open_references: Sequence[PendingReference]) -> None:
        crops = [reference.picture.crop(*reference.crop) for reference in open_references]
        requests = []
        for reference, crop in zip(open_references, crops, strict=True):
            sample = edit_request(reference.instruction, crop, id=reference.id)
            seed = self.seed + (reference.round - 1) * MAX_ATTEMPTS + reference.attempt
            name = f"{reference.target}/{reference.round}/{reference.attempt}"
            requests.append(CandidateRequest(name, sample, sample, NoiseSpec(seed)))
        candidates = generator.generate(requests)
        edited_crops: list[tuple[PendingReference, Image, Image]] = []
        for reference, crop, candidate in zip(open_references, crops, candidates, strict=True):
            if candidate.picture is None:  # the editor failed: a later run retries
                reference.failed = candidate.error
            else:
                edited_crops.append((reference, crop, candidate.picture.resized(*crop.size)))
        programs = ((_accept(reference.instruction, crop, edited), None) for reference, crop, edited in edited_crops)
        for (reference, _, edited), score in zip(edited_crops, self.engine.run(programs, self.experts), strict=True):
            if score.status != "scored":
                reference.failed = score.reason
            elif score.value == 1.0:
                reference.picture = paste_region(reference.picture, edited, reference.crop)
                reference.target, reference.attempt = reference.target + 1, 0
            else:
                self._reject(reference, score.reason)

    def _reject(self, reference: PendingReference, reason: str) -> None:
        reference.notes.add(STAGE, f"target {reference.target + 1}: {reason}", reference.attempt)
        reference.attempt += 1
        if reference.attempt == MAX_ATTEMPTS:
            reference.abandoned = True
            attempts = f"{MAX_ATTEMPTS} attempts at target {reference.target + 1}"
            reference.notes.add("rejected", f"no reference after {attempts}; the last: {reason}")


def _accept(instruction: str, crop: Image, edited: Image) -> Program[Score]:
    """1.0 if both metrics give their best label; the reason has the labels."""
    sample = EditSample("crop", instruction, (crop,), edited)
    parts = yield from gather([SmallObjectFollowing(mode="plain")(sample), VisualConsistency(mode="plain")(sample)])
    unscored = next((part for part in parts if part.status != "scored"), None)
    if unscored is not None:
        return unscored
    return Score.of(min(part.value or 0.0 for part in parts), "; ".join(part.reason for part in parts))


def paste_region(picture: Image, region: Image, corners: Corners) -> Image:
    """The image with a region replaced."""
    x0, y0, x1, y1 = corners
    pixels = np.array(picture.pixels)
    pixels[y0:y1, x0:x1] = region.pixels
    return Image.of(pixels)


def pixel_boxes(boxes: Sequence[Box], size: tuple[int, int]) -> tuple[Corners, ...]:
    """Boxes in pixels of the image. Raises ValueError for one outside of it."""
    corners = [touched_pixels(box, size) for box in boxes]
    if None in corners:
        raise ValueError(f"box {corners.index(None) + 1} lies outside of the image")
    return tuple(box_corners for box_corners in corners if box_corners is not None)


REVIEW_FILE = "review.jsonl"
DECISIONS = ("", "accept", "regenerate", "discard")
MAX_ROUNDS = 4
"""Maximum references of a sample, before it is left out: the first and three more (section 3.1)."""
CORRECTABLE = ("edit_operation", "type", "modified_object", "prompt_clean", "prompt_adv", "bbox")
"""Fields of the data that a reviewer may change."""

_SHOWN = ("image", "reference_image", "question", "answer", *CORRECTABLE)


@dataclass(frozen=True, slots=True)
class ReferenceReview:
    """round: of the current reference, from 1. decision: one of `DECISIONS`, about that reference. metadata: the line's
    `CORRECTABLE` fields. where: file and line, for messages."""

    round: int = 1
    decision: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    where: str = REVIEW_FILE

    @property
    def next_review(self) -> ReferenceReview:
        """The review after the decision: of a new reference to review, or unchanged."""
        is_regenerated = self.decision == "regenerate" and self.round < MAX_ROUNDS
        return replace(self, round=self.round + 1, decision="") if is_regenerated else self

    @property
    def rejection_reason(self) -> str:
        """Why the sample is left out, or empty."""
        if self.decision == "discard":
            return "discarded by the reviewer"
        if self.decision == "regenerate" and self.round >= MAX_ROUNDS:
            return f"{MAX_ROUNDS} references were rejected by the reviewer"
        return ""

    def row(self, name: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """A line of the file, with the relevant fields of the sample's data."""
        data = {**self.metadata, **data}  # of a sample that could not be made this time, what the line had
        shown = {key: data[key] for key in _SHOWN if key in data}
        return {"id": name, **shown, "round": self.round, "decision": self.decision}


def read_reviews(folder: Path, labels: Sequence[Path] = ()) -> dict[str, ReferenceReview]:
    """Reviews by sample. Raises `InputError` naming an invalid line."""
    reviews: dict[str, ReferenceReview] = {}
    path = folder / REVIEW_FILE
    lines = read_text(path, encoding="utf-8-sig").split("\n") if path.is_file() else []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = parse_json(line)
            metadata = {key: row[key] for key in CORRECTABLE if key in row}
            decision = str(row["decision"]).strip().casefold()
            review = ReferenceReview(int(row["round"]), decision, metadata, f"{path}:{number}")
            name = str(row["id"])
        except (ValueError, LookupError, TypeError) as error:
            raise InputError(f"{path}:{number} is not a review line: {error}") from None
        if review.decision not in DECISIONS:
            raise InputError(
                f"{path}:{number} has the decision {row['decision']!r}: expected {', '.join(filter(None, DECISIONS))}, "
                "or nothing"
            )
        reviews[name] = review
    for name, decision in _decisions_from_labels(labels, reviews).items():
        reviews[name] = replace(reviews[name], decision=decision)
    return reviews


def _decisions_from_labels(paths: Iterable[Path], reviews: Mapping[str, ReferenceReview]) -> dict[str, str]:
    """Decisions from labels of the current references; one `regenerate` overrides `accept`."""
    decisions: dict[str, str] = {}
    for label in read_labels(paths):
        if label.kind != "reference" or label.phase == "trial" or not isinstance(label.id, str):
            continue
        review = reviews.get(label.id)
        if review is not None and review.round == label.round and decisions.get(label.id) != "regenerate":
            decisions[label.id] = str(label.label)
    return decisions


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
    out: Path
    reviews: Mapping[str, ReferenceReview]
    rejects: list[Rejection]
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
        rejects = [Rejection(entry[0], "rejected", entry[1]) for entry in entries if isinstance(entry, tuple)]
        state = _ConstructionState(out, read_reviews(out, self.labels), rejects)
        with input_errors(JournalError):
            journal = Journal(out / JOURNAL)
        with journal, Engine(log=journal.answer_log, window=self.window) as engine:
            samples = [
                sample.corrected(state.reviews.get(sample.id, ReferenceReview()))
                for sample in self._samples(questions, engine, state, step)
            ]
            generator = ReferenceGenerator(self.editor, {"judge": self.judge}, engine, journal, self.seed)
            _make_references(samples, generator, state)
            stats = engine.stats().since(Stats())
        folder.write_rejections(state.rejects)
        path = folder.write_jsonl(DATA_FILE, (sample.row() for sample in samples if sample.id in state.finished))
        folder.write_jsonl(REVIEW_FILE, _review_rows(questions, samples, state))
        files = (path, out / SOURCES_FOLDER, out / REFERENCES_FOLDER, out / REVIEW_FILE)
        num_finished = len(state.finished)
        num_rejected = len(entries) - num_finished - len(state.failed)
        return ConstructionReport(num_finished, num_rejected, state.failed, files, stats)

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
        programs = ((one.id, counterfactual_program(one, self.prompts, self.seed)) for one in questions)
        for question, result in zip(questions, run_programs(programs, engine, {"judge": self.judge}), strict=True):
            step()
            state.rejects += result.rejects
            if result.failed:
                state.failed[result.id] = result.failed
            if result.value is not None:
                source = open_image(question.image)
                yield ConstructedSample(question, source, pixel_boxes(question.boxes, source.size), result.value)


def _make_references(
    samples: Sequence[ConstructedSample], generator: ReferenceGenerator, state: _ConstructionState
) -> None:
    pending = []
    for sample in samples:
        review, file = state.reviews.get(sample.id, ReferenceReview()), sample.row()["reference_image"]
        if reason := review.rejection_reason:
            state.rejects.append(Rejection(sample.id, "rejected", reason))
        elif review.decision == "accept" and (state.out / REFERENCES_FOLDER / file).is_file():
            state.finished[sample.id] = sample  # the accepted picture, whatever was corrected since
        else:
            instruction, number, notes = sample.data.instruction, review.next_review.round, RejectionLog(sample.id)
            pending.append(PendingReference(sample.id, instruction, sample.boxes, number, sample.source, notes))
    by_id = {sample.id: sample for sample in samples}
    for reference in generator.generate_all(pending):
        state.rejects += reference.notes.rejects
        if reference.failed:
            state.failed[reference.id] = reference.failed
        elif not reference.abandoned:
            sample = by_id[reference.id]
            _save_reference(sample, reference.picture, state.out)
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
    questions: Sequence[VisualQuestion], samples: Sequence[ConstructedSample], state: _ConstructionState
) -> Iterator[dict[str, Any]]:
    rows = {sample.id: sample.row() for sample in samples}
    for question in questions:
        name, review = question.id, state.reviews.get(question.id)
        if name in state.finished:
            yield (review or ReferenceReview()).next_review.row(name, rows[name])
        elif review is not None:
            yield review.row(name, rows.get(name, {}))
