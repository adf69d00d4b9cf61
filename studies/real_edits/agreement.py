"""How well a reward agrees with what readers say of edits, beside baselines of three lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.benchmarks.common.terminal import echo
from editcritic.reward import Reward, Score
from editcritic.reward.bootstrap_intervals import percentile_interval, resampled_rows

from .hand_edits import HAND_EDITS, HandEdit
from .real_edit import PRESERVED, STATES, RealEdit

_BASELINE_SIDE = 512


def parts_of(score: Score) -> dict[str, Score]:
    """The parts of a score and theirs, by name; an outer one hides an inner one."""
    found: dict[str, Score] = {}
    for name, part in score.parts.items():
        found = {**found, **parts_of(part)} if name in found else {**parts_of(part), **found, name: part}
    return found


class Scored(NamedTuple):
    """An edit with its score; the parts are found at any depth."""

    edit: RealEdit
    score: Score

    def part(self, name: str) -> float | None:
        """The value of a part; None where there is none."""
        part = parts_of(self.score).get(name)
        return None if part is None else part.value


class Separation(NamedTuple):
    """Of good and bad edits by a number. auc: None where one of the two is missing. low, high: 95 % over base
    photographs, or None."""

    good: int
    bad: int
    bases: int
    auc: float | None = None
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.auc is None:
            return f"{self.good} good, {self.bad} bad"
        interval = "" if self.low is None or self.high is None else f" ({self.low:.2f} to {self.high:.2f})"
        return f"AUC {self.auc:.3f}{interval}; {self.good} good, {self.bad} bad, {self.bases} photographs"


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
        (edit.base, value, edit.is_good if is_good is None else is_good(edit))
        for edit, value in zip(edits, values, strict=True)
        if value is not None
    ]
    good, bad = ([(base, value) for base, value, truth in rows if truth is wanted] for wanted in (True, False))
    bases = sorted({base for base, _ in good + bad})
    if not good or not bad:
        return Separation(len(good), len(bad), len(bases))
    first, second = (np.array([value for _, value in some]) for some in (good, bad))
    higher = (first[:, None] > second) + 0.5 * (first[:, None] == second)
    places = [[bases.index(base) for base, _ in some] for some in (good, bad)]
    low, high = _interval(higher, *places, count=len(bases)) or (None, None)
    return Separation(len(good), len(bad), len(bases), float(higher.mean()), low, high)


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
        values = [row.part(title.partition(",")[0]) for row in rows]
        told = partial(_told, label=label, bad=bad, neither=neither)
        tables[title] = separation([row.edit for row in rows], values, told)
    return tables


def _told(edit: RealEdit, label: str, bad: str, neither: str | None) -> bool | None:
    said = getattr(edit, label)
    return None if said in (None, neither) else said != bad


def part_quartiles(rows: Sequence[Scored]) -> Iterator[str]:
    """Lines on `following` of honest edits, and on `preservation` and `region` by what the reader says of them."""
    honest = [row for row in rows if row.edit.is_good]
    groups = [("following", 0.75, "honest edits", honest), ("region", 0.8, "honest edits", honest)]
    groups += [("preservation", 0.5, told, [row for row in rows if row.edit.preserved == told]) for told in PRESERVED]
    groups += [("region", 0.8, f"place {state}", [row for row in rows if row.edit.place == state]) for state in STATES]
    for part, bar, title, some in groups:
        if known := [value for row in some if (value := row.part(part)) is not None]:
            quartiles = " ".join(f"{number:.2f}" for number in np.quantile(known, [0.25, 0.5, 0.75]))
            low = sum(value < bar for value in known)
            name = f"{part}, {title} (below {bar})"
            yield f"{name:46s} n={len(known):3d} quartiles {quartiles}; below: {low}"


def reader_agreement(edits: Sequence[RealEdit]) -> dict[str, tuple[int, int]]:
    """By label: of the edits that a second reader has labelled, how many have the same label, and their number."""
    both = [(edit, edit.second) for edit in edits if edit.second is not None]
    return {
        label: (sum(getattr(edit, label) == second[number] for edit, second in both), len(both))
        for number, label in enumerate(("followed", "preserved", "place"))
    }


class HandScore(NamedTuple):
    """An edit with its score. boxed: whether it was scored with its boxes."""

    edit: HandEdit
    boxed: bool
    score: Score

    @property
    def is_right(self) -> bool | None:
        """Whether an honest edit has at least 0.5, or a wrong one less; None without a value."""
        return None if self.score.value is None else (self.score.value >= 0.5) == self.edit.is_honest


def hand_scores(reward: Reward) -> list[HandScore]:
    """Each edit without boxes, then with them."""
    rows = []
    for boxed in (False, True):
        for edit in HAND_EDITS:
            (score,) = reward([edit.sample(boxed=boxed)])
            rows.append(HandScore(edit, boxed, score))
            echo(edit.id)
    return rows


def hand_lines(rows: Sequence[HandScore]) -> Iterator[str]:
    """A line for each edit, and counts without and with boxes."""
    for row in rows:
        mark = {None: "none ", True: "right", False: "WRONG"}[row.is_right]
        value = "     " if row.score.value is None else f"{row.score.value:.3f}"
        boxes = "boxes" if row.boxed else "     "
        yield f"{mark} {value} {boxes} {row.edit.id:18s} {row.edit.fault or 'honest'}: {row.score.reason}"[:240]
    for title, boxed in (("without boxes", False), ("with boxes", True)):
        some = [row for row in rows if row.boxed == boxed]
        known = [row for row in some if row.is_right is not None]
        honest = [row for row in known if row.edit.is_honest]
        right, honest_right = (sum(row.is_right is True for row in of) for of in (known, honest))
        yield (
            f"{title}: {len(known)} of {len(some)} have a score, {right} of {len(known)} a right one "
            f"({honest_right} of {len(honest)} honest ones)"
        )
