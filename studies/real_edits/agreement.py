"""How well a reward agrees with what readers say of edits, beside baselines of three lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.benchmarks.common.terminal import echo
from editcritic.reward import Reward, Score
from editcritic.reward.bootstrap_intervals import percentile_interval, resampled_rows
from studies.real_edits.destroyed import parts_of
from studies.real_edits.hand_edits import HAND_EDITS, HandEdit
from studies.real_edits.real_edit import FOLLOWED, PRESERVED, STATES, RealEdit

FOLLOWED_FROM = 0.75
"""`following` of an honest edit is to be at least this."""

_BASELINE_SIDE = 512


@dataclass(frozen=True)
class Scored:
    """An edit with its score; the parts are found at any depth."""

    edit: RealEdit
    score: Score

    def part(self, name: str) -> float | None:
        """The value of a part; None where there is none."""
        part = parts_of(self.score).get(name)
        return None if part is None else part.value

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.edit.id,
            "group": self.edit.group,
            "base": self.edit.base,
            "operation": self.edit.operation,
            "boxed": bool(self.edit.boxes),
            "good": self.edit.is_good,
            "followed": self.edit.followed,
            "preserved": self.edit.preserved,
            "place": self.edit.place,
            "value": self.score.value,
            "status": self.score.status,
            "parts": {name: part.value for name, part in parts_of(self.score).items()},
            "reason": self.score.reason,
        }


class Separation(NamedTuple):
    """Of good and bad edits by a number. auc: None where one of the two is missing. low, high: 95 % over base
    photographs, or None. right, pairs: of a good and a bad edit of one group; equal ones count half.
    """

    good: int
    bad: int
    bases: int
    auc: float | None
    low: float | None
    high: float | None
    right: float
    pairs: int


def scored(reward: Reward, edits: Sequence[RealEdit]) -> list[Scored]:
    """Each edit with its boxes."""
    rows = []
    for edit in edits:
        (score,) = reward([edit.sample()])
        rows.append(Scored(edit, score))
        echo(edit.id)
    return rows


def separation(
    edits: Sequence[RealEdit], values: Sequence[float | None], is_good: Callable[[RealEdit], bool | None] | None = None
) -> Separation:
    """How well numbers tell good edits from bad ones; those without a number, or neither good nor bad, are left out.

    is_good: another question than `RealEdit.is_good`.
    """
    rows = [
        (edit, value, edit.is_good if is_good is None else is_good(edit))
        for edit, value in zip(edits, values, strict=True)
        if value is not None
    ]
    good = [(edit, value) for edit, value, truth in rows if truth is True]
    bad = [(edit, value) for edit, value, truth in rows if truth is False]
    bases = sorted({edit.base for edit, _ in good + bad})
    if not good or not bad:
        return Separation(len(good), len(bad), len(bases), None, None, None, 0.0, 0)
    first, second = (np.array([value for _, value in some]) for some in (good, bad))
    higher = (first[:, None] > second) + 0.5 * (first[:, None] == second)
    together = np.array([[one.group == other.group for other, _ in bad] for one, _ in good])
    places = [[bases.index(edit.base) for edit, _ in some] for some in (good, bad)]
    low, high = _interval(higher, *places, count=len(bases)) or (None, None)
    right, pairs = float(higher[together].sum()), int(together.sum())
    return Separation(len(good), len(bad), len(bases), float(higher.mean()), low, high, right, pairs)


def _interval(
    higher: NDArray[np.float64], good: Sequence[int], bad: Sequence[int], *, count: int
) -> tuple[float, float] | None:
    """good, bad: the number of each edit's photograph, of `count`; photographs are drawn whole."""
    if count < 2:
        return None
    drawn = resampled_rows(count, np.random.default_rng(0))
    times = np.stack([np.bincount(row, minlength=count) for row in drawn]).astype(np.float64)
    weights, others = times[:, list(good)], times[:, list(bad)]
    total = weights.sum(axis=1) * others.sum(axis=1)
    sums = ((weights @ higher) * others).sum(axis=1)
    return percentile_interval(np.divide(sums, total, out=np.full_like(sums, np.nan), where=total > 0))


def baselines(edit: RealEdit) -> dict[str, float]:
    """Outside of the target: minus the mean absolute difference (in shares of the range), and SSIM. Needs `bench`."""
    width, height = edit.source.size
    scale = min(1.0, _BASELINE_SIDE / max(width, height))
    size = (max(7, round(width * scale)), max(7, round(height * scale)))
    before, after = (image.resized(*size).pixels.astype(np.float64) / 255 for image in (edit.source, edit.edited))
    similar = bench_library("skimage.metrics").structural_similarity
    _, local = similar(before, after, channel_axis=2, data_range=1.0, full=True)
    outside = np.ones((size[1], size[0]), np.uint8)
    for x0, y0, x1, y1 in edit.target_boxes:
        corners = (int(x0 * scale), int(y0 * scale)), (int(x1 * scale), int(y1 * scale))
        cv2.rectangle(outside, *corners, 0, -1)
    kept = outside > 0 if outside.any() else np.ones_like(outside, bool)
    return {
        "-L1 outside of the target": -float(np.abs(before - after)[kept].mean()),
        "SSIM outside of the target": float(local[kept].mean()),
    }


def agreement(rows: Sequence[Scored]) -> dict[str, Separation]:
    """By title: of the reward and of the baselines, on all edits and on those with boxes; and of its parts."""
    boxed = [row for row in rows if row.edit.boxes]
    simple = {row.edit.id: baselines(row.edit) for row in rows}
    numbers: dict[str, Callable[[Scored], float | None]] = {
        "reward, {}": lambda row: row.score.value,
        "reward, {}, missing as 0": lambda row: row.score.value or 0.0,
        "-L1 outside of the target, {}": lambda row: simple[row.edit.id]["-L1 outside of the target"],
        "SSIM outside of the target, {}": lambda row: simple[row.edit.id]["SSIM outside of the target"],
    }
    tables: dict[str, Separation] = {}
    for title, some in (("all", rows), ("with boxes", boxed)):
        for name, number in numbers.items():
            tables[name.format(title)] = separation([row.edit for row in some], list(map(number, some)))
    for name, number in numbers.items():
        tables[name.replace(", {}", "") + ", with boxes, place aside"] = separation(
            [row.edit for row in boxed], list(map(number, boxed)), lambda edit: edit.is_kept
        )
    for title, label, bad, neither in (
        ("preservation, intact or drifted : damaged", "preserved", "damaged", None),
        ("preservation, intact : damaged", "preserved", "damaged", "minor drift"),
        ("preservation, intact : drifted", "preserved", "minor drift", "damaged"),
        ("following, followed : not", "followed", "no", "partly"),
        ("region, place clean : broken", "place", "broken", "traces"),
    ):
        part = title.partition(",")[0]
        tables[title] = separation(
            [row.edit for row in rows],
            [row.part(part) for row in rows],
            partial(_told, label=label, bad=bad, neither=neither),
        )
    return tables


def _told(edit: RealEdit, label: str, bad: str, neither: str | None) -> bool | None:
    said = getattr(edit, label)
    return None if said in (None, neither) else said != bad


@dataclass(frozen=True)
class Quartiles:
    """Of a part's values. low: how many are below the bar of the part."""

    name: str
    count: int
    quartiles: list[float]
    low: int


def part_quartiles(rows: Sequence[Scored]) -> list[Quartiles]:
    """`following` of honest edits; `preservation` and `region` by what the reader says of them."""
    honest = [row for row in rows if row.edit.is_good]
    groups = [("following", FOLLOWED_FROM, "honest edits", honest), ("region", 0.8, "honest edits", honest)]
    groups += [("preservation", 0.5, told, [row for row in rows if row.edit.preserved == told]) for told in PRESERVED]
    groups += [("region", 0.8, f"place {state}", [row for row in rows if row.edit.place == state]) for state in STATES]
    found = []
    for part, bar, title, some in groups:
        known = [value for row in some if (value := row.part(part)) is not None]
        if known:
            quartiles = np.quantile(known, [0.25, 0.5, 0.75]).tolist()
            low = sum(value < bar for value in known)
            found.append(Quartiles(f"{part}, {title} (below {bar})", len(known), quartiles, low))
    return found


@dataclass(frozen=True)
class ReaderAgreement:
    """Of two readers on one label. equal: how many edits they label alike. kappa: Cohen's, weighted by the squared
    distance of the labels in their order (1968); None where a reader gives all of them one label.
    """

    label: str
    count: int
    equal: int
    kappa: float | None


def reader_agreement(edits: Sequence[RealEdit]) -> list[ReaderAgreement]:
    """Of the edits that a second reader has labelled, by label, and on whether they are good; empty without any."""
    both = [
        (edit, replace(edit, followed=edit.second[0], preserved=edit.second[1], place=edit.second[2]))
        for edit in edits
        if edit.second is not None
    ]
    if not both:
        return []
    found = []
    for label, name, order in (
        ("followed", "followed", FOLLOWED),
        ("preserved", "preserved", PRESERVED),
        ("place", "place", STATES),
        ("good, neither or bad", "is_good", (True, None, False)),
    ):
        pairs = [(getattr(one, name), getattr(other, name)) for one, other in both]
        equal = sum(one == other for one, other in pairs)
        found.append(ReaderAgreement(label, len(pairs), equal, _weighted_kappa(order, pairs)))
    return found


def _weighted_kappa(order: Sequence[Any], pairs: Sequence[tuple[Any, Any]]) -> float | None:
    first, second = (np.array([order.index(pair[side]) for pair in pairs], np.float64) for side in (0, 1))
    chance = float(((first[:, None] - second[None]) ** 2).mean())
    return None if not chance else 1 - float(((first - second) ** 2).mean()) / chance


def surprises(rows: Sequence[Scored], count: int) -> list[Scored]:
    """The edits whose value is furthest from what the reader says of them, a missing one counting as 0."""
    known = [row for row in rows if row.edit.is_good is not None]
    return sorted(known, key=lambda row: -abs((row.score.value or 0.0) - float(bool(row.edit.is_good))))[:count]


THRESHOLD = 0.5
"""An honest edit is to have at least this, a wrong one less."""


@dataclass(frozen=True)
class HandScore:
    """An edit with its score. boxed: whether it was scored with its boxes."""

    edit: HandEdit
    boxed: bool
    score: Score

    @property
    def is_right(self) -> bool | None:
        """None without a value."""
        return None if self.score.value is None else (self.score.value >= THRESHOLD) == self.edit.is_honest

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.edit.id,
            "instruction": self.edit.instruction,
            "fault": self.edit.fault,
            "boxed": self.boxed,
            "value": self.score.value,
            "right": self.is_right,
            "status": self.score.status,
            "reason": self.score.reason,
        }


def hand_scores(reward: Reward) -> list[HandScore]:
    """Each edit without boxes, then with them."""
    rows = []
    for boxed in (False, True):
        for edit in HAND_EDITS:
            (score,) = reward([edit.sample(boxed=boxed)])
            rows.append(HandScore(edit, boxed, score))
            echo(edit.id)
    return rows


def hand_figures(rows: Sequence[HandScore]) -> dict[str, dict[str, int]]:
    """Counts without and with boxes: edits, scored, right, honest ones that are scored, right honest ones."""
    figures = {}
    for title, boxed in (("without boxes", False), ("with boxes", True)):
        some = [row for row in rows if row.boxed == boxed]
        scored = [row for row in some if row.is_right is not None]
        honest = [row for row in scored if row.edit.is_honest]
        figures[title] = {
            "edits": len(some),
            "scored": len(scored),
            "right": sum(row.is_right is True for row in scored),
            "honest scored": len(honest),
            "honest right": sum(row.is_right is True for row in honest),
        }
    return figures
