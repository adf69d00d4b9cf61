"""DLEBench, step 3: what people say of references, in a file that they fill in: accept, regenerate or discard.

`review.jsonl` has a line a sample, with an empty `decision`. Running the command again carries decisions out: what is
to be regenerated is made once more, with other seeds, as round 2 and then 3; what is turned down three times, or
discarded, is left out of the data. Labels of `editcritic bench label` of the kind `reference` count as decisions, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..inputs import InputError
from ..people.labels import read

REVIEW = "review.jsonl"
DECISIONS = ("", "accept", "regenerate", "discard")
ROUNDS = 3
"""References that people are shown of a sample, before it is left out (section 3.1)."""


@dataclass(frozen=True, slots=True)
class Review:
    """round: from 1, of the reference that is there. decision: one of `DECISIONS`, about that reference."""

    round: int = 1
    decision: str = ""

    @property
    def next(self) -> Review:
        """Where the decision leads: to a reference that nobody has decided on, or to itself."""
        return Review(self.round + 1) if self.decision == "regenerate" and self.round < ROUNDS else self

    @property
    def turned_down(self) -> str:
        """Why the sample is left out; empty if it is not."""
        if self.decision == "discard":
            return "discarded by whoever reviewed it"
        if self.decision == "regenerate" and self.round >= ROUNDS:
            return f"{ROUNDS} references were turned down by whoever reviewed them"
        return ""

    def row(self, name: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """A line of the file, with what a person wants to see of the sample's data."""
        shown = {key: data[key] for key in ("image", "reference_image", "edit_operation", "type") if key in data}
        return {"id": name, **shown, "round": self.round, "decision": self.decision}


def reviews(folder: Path, labels: Sequence[Path] = ()) -> dict[str, Review]:
    """By sample. Raises `InputError` naming the line that cannot be used."""
    found: dict[str, Review] = {}
    path = folder / REVIEW
    lines = path.read_text(encoding="utf-8-sig").split("\n") if path.is_file() else []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            review = Review(int(row["round"]), str(row["decision"]).strip().casefold())
            name = str(row["id"])
        except (ValueError, LookupError, TypeError) as error:
            raise InputError(f"{path}:{number} is no line of a review: {error}") from None
        if review.decision not in DECISIONS:
            raise InputError(
                f"{path}:{number} has the decision {row['decision']!r}: expected {', '.join(filter(None, DECISIONS))}, "
                "or nothing"
            )
        found[name] = review
    for name, decision in _labelled(labels, found).items():
        found[name] = Review(found[name].round, decision)
    return found


def _labelled(paths: Iterable[Path], known: Mapping[str, Review]) -> dict[str, str]:
    """What labels say of the references that are there; one who wants it made again outweighs the others."""
    found: dict[str, str] = {}
    for label in read(paths):
        if label.kind != "reference" or label.phase == "trial" or not isinstance(label.id, str):
            continue
        here = known.get(label.id)
        if here is not None and here.round == label.round and found.get(label.id) != "regenerate":
            found[label.id] = str(label.label)
    return found
