"""Findings: whether a condition holds, and how clearly, so that edits with the same verdict can still be ranked.

The degree of a finding lies in [0, 1] and is at least 0.5 exactly when the condition holds: the verdict comes first and
bounds the degree, never the other way round. It grows with what decides the condition (a score above its threshold, a
distance beyond its margin, the probability of yes), and findings combined by `all_of` and `any_of` keep that.
"""

from __future__ import annotations

import difflib
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from ..boxes import Box
from ..sample import Position

_BELOW_HALF = math.nextafter(0.5, 0.0)


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition that was looked at. `why` says in a few words what was found; `parts` are what it is made of."""

    holds: bool
    degree: float
    why: str
    parts: tuple[Finding, ...] = ()

    def __post_init__(self) -> None:
        if not 0.0 <= self.degree <= 1.0 or self.holds != (self.degree >= 0.5):
            raise ValueError(f"degree {self.degree} cannot belong to a condition that {_verb(self.holds)}: {self.why}")


def _verb(holds: bool) -> str:
    return "holds" if holds else "does not hold"


def finding(holds: bool, clearness: float, nearness: float, why: str) -> Finding:
    """A condition that holds with some `clearness`, or fails with some `nearness` to holding (clipped to [0, 1])."""
    if holds:
        return Finding(True, 0.5 + 0.5 * _clip(clearness), why)
    return Finding(False, min(0.5 * _clip(nearness), _BELOW_HALF), why)


def _clip(share: float) -> float:
    return min(max(share, 0.0), 1.0)


def all_of(findings: Sequence[Finding], *, of: int | None = None) -> Finding:
    """Whether all hold. With `of`, how many conditions there are: those left out were not looked at, and are 0.

    If all hold, the mean degree; else half of the mean of what each reaches of 0.5, so that one more condition met
    counts, and none makes up for one that fails.
    """
    count = len(findings) if of is None else of
    if len(findings) == count and all(part.holds for part in findings):
        degree = 0.5 + 0.5 * _clip(sum(2 * part.degree - 1 for part in findings) / count)
        return Finding(True, degree, "; ".join(part.why for part in findings), tuple(findings))
    reached = sum(min(1.0, 2 * part.degree) for part in findings) / count
    why = "; ".join(part.why for part in findings if not part.holds)
    return Finding(False, min(0.5 * reached, _BELOW_HALF), why, tuple(findings))


def any_of(findings: Sequence[Finding]) -> Finding:
    """Whether one holds: the clearest decides."""
    clearest = max(findings, key=lambda part: part.degree)
    why = clearest.why if clearest.holds else "; ".join(part.why for part in findings)
    return Finding(clearest.holds, clearest.degree, why, tuple(findings))


# -- detections --------------------------------------------------------------------------------------------------------


def above(score: float, threshold: float, why: str) -> Finding:
    """Whether a score lies strictly above its threshold."""
    return finding(score > threshold, _share(score - threshold, 1 - threshold), _share(score, threshold), why)


def not_above(score: float, threshold: float, why: str) -> Finding:
    """Whether it does not."""
    return finding(score <= threshold, _share(threshold - score, threshold), _share(1 - score, 1 - threshold), why)


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def counted(
    boxes: Sequence[Box], weaker: Sequence[Box], target: int, threshold: float, why: str, *, exactly: bool = True
) -> Finding:
    """Whether there are `target` boxes (`exactly`; else: at most). `weaker` ones scored too low to be counted.

    A right count is as clear as the box nearest to the threshold; a wrong one is as near as it has boxes to go, the
    nearest of which counts by how far its score has to go.
    """
    last_in = _share(min((box.score for box in boxes), default=1.0) - threshold, 1 - threshold)
    first_out = _share(threshold - max((box.score for box in weaker), default=0.0), threshold)
    found = len(boxes)
    if found == target or (found < target and not exactly):
        return finding(True, min(_clip(last_in) if exactly else 1.0, _clip(first_out)), 0.0, why)
    to_go = abs(found - target) - 1 + _clip(last_in if found > target else first_out)
    return finding(False, 0.0, 1 / (1 + to_go), why)


def touching(old: Sequence[Box], new: Sequence[Box], names: str) -> Finding:
    """Whether any of the old boxes overlaps any of the new ones at all; where none does, how far they are apart."""
    overlap = max((a.iou(b) for a in old for b in new), default=0.0)
    gap = min((_gap(a, b) for a in old for b in new), default=math.inf)
    why = f"{names} overlap (IoU {overlap:.3f})" if overlap > 0 else f"{names} do not overlap"
    return finding(overlap > 0, overlap, 1 - gap / math.sqrt(2), why)


def _gap(a: Box, b: Box) -> float:
    """Between the nearest edges, in sides of the picture."""
    across = max(a.x0 - b.x1, b.x0 - a.x1, 0.0)
    down = max(a.y0 - b.y1, b.y0 - a.y1, 0.0)
    return math.hypot(across, down)


def beside(
    position: Position, moved: tuple[float, float], reference: tuple[float, float], margin: float, why: str
) -> Finding:
    """Whether a centre lies on one side of another by more than `margin` (all in sides of the picture, y downwards)."""
    (x, y), (u, v) = moved, reference
    holds = {
        "left": x < u - margin,
        "right": x > u + margin,
        "above": y < v - margin,
        "below": y > v + margin,
    }[position]
    ahead = {"left": u - x, "right": x - u, "above": v - y, "below": y - v}[position] - margin
    return finding(holds, ahead / (1 - margin), 1 + ahead / (1 + margin), why)


def neither_inside(a: Box, b: Box, names: str) -> Finding:
    """Whether neither box contains the other; clearer the less of the smaller one is covered."""
    inside = a.contains(b) or b.contains(a)
    why = f"{'one' if inside else 'neither'} of {names} lies inside the other"
    across = min(a.x1, b.x1) - max(a.x0, b.x0)
    down = min(a.y1, b.y1) - max(a.y0, b.y0)
    shared = across * down if across > 0 and down > 0 else 0.0
    to_edge = min(abs(a.x0 - b.x0), abs(a.y0 - b.y0), abs(a.x1 - b.x1), abs(a.y1 - b.y1))
    return finding(not inside, 1 - _share(shared, min(a.area, b.area)), 1 - 2 * to_edge, why)


# -- judges and readers ------------------------------------------------------------------------------------------------


def said_yes(holds: bool, probability: float | None, why: str) -> Finding:
    """A judge's verdict, as clear as the probability of yes says where the judge can tell."""
    p = float(holds) if probability is None else probability
    return finding(holds, 2 * p - 1, 2 * p, why)


def same_text(read: str, wanted: str, why: str, *, confidence: float = 1.0) -> Finding:
    """Whether two texts are equal; if so, as clear as the reader was confident, else as near as they are similar."""
    similarity = difflib.SequenceMatcher(None, read, wanted, autojunk=False).ratio()
    return finding(read == wanted, confidence, similarity, why)


def has_text(read: str, wanted: str, why: str) -> Finding:
    """Whether `wanted` is part of what was read; clearest where there is nothing else."""
    blocks = difflib.SequenceMatcher(None, read, wanted, autojunk=False).get_matching_blocks()
    found = sum(block.size for block in blocks)
    return finding(wanted in read, _share(len(wanted), len(read)), _share(found, len(wanted)), why)


def normalised(text: str) -> str:
    """Without case, punctuation and white space, in any script; compatibility forms made equal (full-width letters).

    A text of nothing but punctuation keeps it.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    visible = [letter for letter in folded if not letter.isspace() and unicodedata.category(letter) != "Cf"]
    letters = [letter for letter in visible if unicodedata.category(letter)[0] != "P"] or visible
    return unicodedata.normalize("NFKC", "".join(letters))  # accents may have moved next to another letter
