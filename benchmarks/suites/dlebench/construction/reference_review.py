"""DLEBench, step 3: human review of references in a file: accept, regenerate or discard.

`review.jsonl` has a line per sample, with an empty `decision`. Running the command again applies the decisions: samples
to regenerate get new references, with other seeds, up to three times (rounds 2 to 4); samples rejected after that, or
discarded, are left out of the data. Labels of `editcritic judge label` of the kind `reference` count as decisions, too.

A line also has the metadata: what a reviewer changes in `CORRECTABLE` fields goes into the data. An accepted reference
stays as it is; otherwise it is made anew from the corrected instruction and boxes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .....reward.regular_files import read_text
from .....reward.strict_json import parse_json
from ....common.errors import InputError
from ...human_labels import read_labels

REVIEW_FILE = "review.jsonl"
DECISIONS = ("", "accept", "regenerate", "discard")
MAX_ROUNDS = 4
"""Maximum references of a sample, before it is left out: the first and three more (section 3.1)."""
CORRECTABLE = ("edit_operation", "type", "modified_object", "prompt_clean", "prompt_adv", "bbox")
"""Fields of the data that a reviewer may change."""

_SHOWN = ("image", "reference_image", "question", "answer", *CORRECTABLE)


@dataclass(frozen=True, slots=True)
class ReferenceReview:
    """round: of the current reference, from 1. decision: one of `DECISIONS`, about that reference.

    metadata: the line's `CORRECTABLE` fields. where: file and line, for messages.
    """

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
