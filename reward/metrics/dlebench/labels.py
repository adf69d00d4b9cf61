"""The labels of DLEBench's two criteria: what they are worth (paper, tables 3 and 5), and which words are one."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Four labels from the best, worth 4, to the worst, worth 1.

    counted: labels whose number (one, several) is what they say, so that a slip in it makes them unclear.
    """

    labels: tuple[str, str, str, str]
    counted: tuple[str, ...] = ()

    def score(self, label: str) -> int:
        """4 to 1, as in the paper's rubric."""
        return len(self.labels) - self.labels.index(label)

    def share(self, label: str) -> float:
        """(score - 1) / 3, in [0, 1]; the paper's tables print it times 100."""
        return (self.score(label) - 1) / (len(self.labels) - 1)

    def exactly(self, words: str) -> str | None:
        """The label that the words are and nothing else, None if they are none.

        Case, marks around it, and how its two words are joined do not matter; British spelling and a plural are let
        through where they say the same.
        """
        return self._spellings().get(_bare(words))

    def _spellings(self) -> dict[str, str]:
        known: dict[str, str] = {}
        for label in self.labels:
            plain = _bare(label)
            known[plain] = known[plain.replace("ization", "isation")] = label
            if label not in self.counted:
                plural = f"{plain[:-1]}ies" if plain.endswith("y") else f"{plain}s"
                known[plural] = known[plural.replace("ization", "isation")] = label
        return known

    def named(self, text: str) -> set[str]:
        """The labels that stand anywhere in a text."""
        bare = re.sub(r"[\s_-]+", "", text.casefold())
        return {label for spelling, label in self._spellings().items() if spelling in bare}

    def __str__(self) -> str:
        return ", ".join(self.labels)


FOLLOWING = Scale(("Flawless Execution", "Over Modification", "Wrong Action", "Localization Failure"))
CONSISTENCY = Scale(
    ("Perfect Consistency", "Single Anomaly", "Multiple Anomalies", "Scene Collapse"),
    counted=("Single Anomaly", "Multiple Anomalies"),
)

_MARKS = " \t\r\n\f\v\u00a0*_`\"'“”\u2018’.,:;!#()[]{}-–—"
"""What may stand around a label. A question mark may not: it asks."""


def _bare(words: str) -> str:
    return re.sub(r"[\s_-]+", "", words.strip(_MARKS).casefold())
