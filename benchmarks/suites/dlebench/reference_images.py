"""DLEBench, steps 2 and 3: the reference image of a perfect edit, and its review by people.

The crop around each target follows Eq. 1; an editor edits the crop, a judge verifies it, and it is pasted back. Paper:
section 3.1.

`review.jsonl` has a line per sample, with an empty `decision`: accept, regenerate or discard. Running the command again
applies the decisions: samples to regenerate get new references, with other seeds, up to three times (rounds 2 to 4);
samples rejected after that, or discarded, are left out of the data. Labels of `editcritic judge label` of the kind
`reference` count as decisions, too.

A line also has the metadata: what a reviewer changes in `CORRECTABLE` fields goes into the data. An accepted reference
stays as it is; otherwise it is made anew from the corrected instruction and boxes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ....reward import Box, EditSample, Engine, Expert, Image, Program, Score
from ....reward.engine import gather
from ....reward.image import Corners
from ....reward.metrics.dlebench.metrics import SmallObjectFollowing, VisualConsistency
from ....reward.metrics.dlebench.tools import crop_corners, touched_pixels
from ....reward.regular_files import read_text
from ....reward.strict_json import parse_json
from ....verifiers import Editor, Journal, edit_request
from ....verifiers.selection import CandidateRequest, EditorError, NoiseSpec
from ....verifiers.selection.generation import CandidateGenerator
from ...common.errors import InputError
from ..construction.workspace import MAX_ATTEMPTS, RejectionLog
from ..human_labels import read_labels

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
        """One attempt at the current target of each reference."""
        crops = [reference.picture.crop(*reference.crop) for reference in open_references]
        requests = []
        for reference, crop in zip(open_references, crops, strict=True):
            sample = edit_request(reference.instruction, crop, id=reference.id)
            seed = self.seed + (reference.round - 1) * MAX_ATTEMPTS + reference.attempt
            requests.append(
                CandidateRequest(
                    f"{reference.target}/{reference.round}/{reference.attempt}", sample, sample, NoiseSpec(seed)
                )
            )
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
            reference.notes.add(
                "rejected",
                f"no reference after {MAX_ATTEMPTS} attempts at target {reference.target + 1}; the last: {reason}",
            )


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
