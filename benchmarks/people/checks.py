"""Whether labels can be relied on: questions asked twice, and questions whose answer is known.

I2I-Bench, appendix B: a fifth is looked at again, and a dimension with more than 10 % errors is judged anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .boxes import ALIKE, drawn_alike
from .labels import Label, standing
from .questions import key_of

TOLERATED = 0.1
"""Share of errors beyond which a dimension is to be judged again."""

Known = Mapping[tuple[object, ...], Label]
"""What is known to be right, by `key_of`."""


@dataclass(frozen=True, slots=True)
class Check:
    """Of one annotator's last round of a dimension.

    twice: questions asked a second time, `otherwise` of them answered otherwise. known: questions whose answer is
    known, `wrong` of them answered otherwise.
    """

    annotator: str
    kind: str
    dimension: str
    twice: int
    otherwise: int
    known: int
    wrong: int

    @property
    def errors(self) -> float | None:
        """Share of all that was checked; None where nothing was."""
        return (self.otherwise + self.wrong) / (self.twice + self.known) if self.twice + self.known else None

    @property
    def again(self) -> bool:
        """Whether the dimension is to be judged again."""
        return self.errors is not None and self.errors > TOLERATED

    def __str__(self) -> str:
        said = f"{self.dimension} ({self.kind}), {self.annotator}: "
        if self.errors is None:
            return said + "nothing was checked"
        parts = [f"{self.otherwise} of {self.twice} asked twice were answered otherwise"] if self.twice else []
        parts += [f"{self.wrong} of {self.known} differ from the known answer"] if self.known else []
        verdict = f"more than {TOLERATED:.0%}: to be judged again" if self.again else "fine"
        return said + f"{', '.join(parts)} ({self.errors:.0%} errors, {verdict})"

    def to_json(self) -> dict[str, Any]:
        return {
            "annotator": self.annotator,
            "kind": self.kind,
            "dimension": self.dimension,
            "twice": self.twice,
            "otherwise": self.otherwise,
            "known": self.known,
            "wrong": self.wrong,
            "errors": self.errors,
            "again": self.again,
        }


def checks(labels: Sequence[Label], known: Known) -> list[Check]:
    """One an annotator and dimension, in the order they come."""
    counted = standing(labels)
    found = []
    for annotator, kind, dimension in dict.fromkeys(
        (one.annotator, one.kind, one.dimension) for one in counted if one.phase == "main"
    ):
        ours = [one for one in counted if (one.annotator, one.kind, one.dimension) == (annotator, kind, dimension)]
        main = {key_of(one): one for one in ours if one.phase == "main"}
        twice = [(main[key_of(one)], one) for one in ours if one.phase == "recheck" and key_of(one) in main]
        told = [(known[key], one) for key, one in main.items() if key in known]
        found.append(
            Check(
                annotator,
                kind,
                dimension,
                len(twice),
                sum(not alike(*pair) for pair in twice),
                len(told),
                sum(not alike(*pair) for pair in told),
            )
        )
    return found


def answers(labels: Sequence[Label]) -> Known:
    """What is known to be right: the labels of phase `answer`, or all of them where there is none."""
    standard = [one for one in labels if one.phase == "answer"]
    return {key_of(one): one for one in standing(standard or [one for one in labels if one.phase == "main"])}


def alike(one: Label, other: Label) -> bool:
    """Whether two labels about the same thing say the same, whoever of a pair stands first."""
    if isinstance(one.label, tuple) and isinstance(other.label, tuple):
        return drawn_alike(one.label, other.label) >= ALIKE
    value, same = other.value, one.on == other.on
    return one.value == (value if same or value is None else -value)
