"""The labels of DLEBench's two criteria: their scores (paper, tables 3 and 5) and accepted spellings."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LabelScale:
    """Four labels from the best, with score 4, to the worst, with score 1.

    numbered_labels: labels whose grammatical number is their meaning (one, several), so that a plural is not accepted.
    """

    labels: tuple[str, str, str, str]
    numbered_labels: tuple[str, ...] = ()

    def rubric_score(self, label: str) -> int:
        """Score from 4 to 1, as in the paper's rubric."""
        return len(self.labels) - self.labels.index(label)

    def normalized_score(self, label: str) -> float:
        """(score - 1) / 3, in [0, 1]; the paper's tables print it times 100."""
        return (self.rubric_score(label) - 1) / (len(self.labels) - 1)

    def parse_exact(self, words: str) -> str | None:
        """The label that the text consists of, or None.

        Case, marks around it and the separator of its two words are ignored; British spelling and a plural are accepted
        if the meaning is the same.
        """
        return self._spellings().get(_normalized_label(words))

    def _spellings(self) -> dict[str, str]:
        spellings: dict[str, str] = {}
        for label in self.labels:
            normalized = _normalized_label(label)
            spellings[normalized] = spellings[normalized.replace("ization", "isation")] = label
            if label not in self.numbered_labels:
                plural = f"{normalized[:-1]}ies" if normalized.endswith("y") else f"{normalized}s"
                spellings[plural] = spellings[plural.replace("ization", "isation")] = label
        return spellings

    def labels_in(self, text: str) -> set[str]:
        """The labels that occur anywhere in a text."""
        squeezed = re.sub(r"[\s_-]+", "", text.casefold())
        return {label for spelling, label in self._spellings().items() if spelling in squeezed}

    def __str__(self) -> str:
        return ", ".join(self.labels)


FOLLOWING = LabelScale(("Flawless Execution", "Over Modification", "Wrong Action", "Localization Failure"))
CONSISTENCY = LabelScale(
    ("Perfect Consistency", "Single Anomaly", "Multiple Anomalies", "Scene Collapse"),
    numbered_labels=("Single Anomaly", "Multiple Anomalies"),
)

_MARKS = " \t\r\n\f\v\u00a0*_`\"'“”\u2018’.,:;!#()[]{}-–—"
"""Characters allowed around a label. A question mark is not: it is no verdict."""


def _normalized_label(words: str) -> str:
    return re.sub(r"[\s_-]+", "", words.strip(_MARKS).casefold())
