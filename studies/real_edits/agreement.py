"""How well a reward agrees with what readers say of edits, beside baselines of three lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.reward import Reward, Score
from editcritic.reward.bootstrap_intervals import percentile_interval, resampled_rows

from .destroyed import parts_of
from .real_edit import FOLLOWED, PRESERVED, STATES, RealEdit

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


@dataclass(frozen=True)
class Separation:
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


def scored(reward: Reward, edits: Sequence[RealEdit], step: Callable[[str], None] = lambda name: None) -> list[Scored]:
    """Each edit with its boxes."""
    rows = []
    for edit in edits:
        (score,) = reward([edit.sample()])
        rows.append(Scored(edit, score))
        step(edit.id)
    return rows


def separation(
    edits: Sequence[RealEdit], values: Sequence[float | None], is_good: Callable[[RealEdit], bool | None] | None = None
) -> Separation:
    """How well numbers tell good edits from bad ones; those without a number, or neither good nor bad, are left out.

    is_good: another question than `RealEdit.is_good`.
    """
    asked = (lambda edit: edit.is_good) if is_good is None else is_good
    rows = [
        (edit, value, truth)
        for edit, value in zip(edits, values, strict=True)
        if value is not None and (truth := asked(edit)) is not None
    ]
    good = [(edit, value) for edit, value, truth in rows if truth]
    bad = [(edit, value) for edit, value, truth in rows if not truth]
    bases = sorted({edit.base for edit, _, _ in rows})
    higher = _higher([value for _, value in good], [value for _, value in bad])
    together = np.array([[one.group == other.group for other, _ in bad] for one, _ in good], bool).reshape(higher.shape)
    if not good or not bad:
        return Separation(len(good), len(bad), len(bases), None, None, None, 0.0, 0)
    places = {base: number for number, base in enumerate(bases)}
    interval = _interval(higher, *([places[edit.base] for edit, _ in some] for some in (good, bad)), count=len(bases))
    low, high = (None, None) if interval is None else interval
    right, pairs = float(higher[together].sum()), int(together.sum())
    return Separation(len(good), len(bad), len(bases), float(higher.mean()), low, high, right, pairs)


def _higher(good: Sequence[float], bad: Sequence[float]) -> NDArray[np.float64]:
    """good x bad: 1 where the good one is higher, 0.5 where they are equal."""
    first, second = np.array(good, np.float64)[:, None], np.array(bad, np.float64)[None]
    return np.asarray((first > second) + 0.5 * (first == second), np.float64)


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
    """By title: of the reward and of the baselines, on all edits and on those with boxes."""
    sets = {"all": list(rows), "with boxes": [row for row in rows if row.edit.boxes]}
    tables: dict[str, Separation] = {}
    simple = {row.edit.id: baselines(row.edit) for row in rows}
    for title, some in sets.items():
        edits = [row.edit for row in some]
        tables[f"reward, {title}"] = separation(edits, [row.score.value for row in some])
        tables[f"reward, {title}, missing as 0"] = separation(edits, [row.score.value or 0.0 for row in some])
        for name in next(iter(simple.values()), {}):
            tables[f"{name}, {title}"] = separation(edits, [simple[row.edit.id][name] for row in some])
    boxed = [row for row in rows if row.edit.boxes]
    numbers: dict[str, list[float | None]] = {
        "reward": [row.score.value for row in boxed],
        "reward, missing as 0": [row.score.value or 0.0 for row in boxed],
    }
    for name in next(iter(simple.values()), {}):
        numbers[name] = [simple[row.edit.id][name] for row in boxed]
    for name, values in numbers.items():
        tables[f"{name}, with boxes, place aside"] = separation(
            [row.edit for row in boxed], values, lambda edit: edit.is_kept
        )
    edits = [row.edit for row in rows]
    tables["preservation, intact or drifted : damaged"] = separation(
        edits, [row.part("preservation") for row in rows], lambda edit: _told(edit.preserved, ("damaged",))
    )
    tables["preservation, intact : damaged"] = separation(
        edits, [row.part("preservation") for row in rows], lambda edit: _told(edit.preserved, ("damaged",), _DRIFTED)
    )
    tables["preservation, intact : drifted"] = separation(
        edits, [row.part("preservation") for row in rows], lambda edit: _told(edit.preserved, _DRIFTED, ("damaged",))
    )
    tables["following, followed : not"] = separation(
        edits, [row.part("following") for row in rows], lambda edit: _told(edit.followed, ("no",), ("partly",))
    )
    tables["region, place clean : broken"] = separation(
        edits, [row.part("region") for row in rows], lambda edit: _told(edit.place, ("broken",), ("traces",))
    )
    return tables


_DRIFTED = ("minor drift",)


def _told(label: str | None, bad: Sequence[str], neither: Sequence[str] = ()) -> bool | None:
    return None if label is None or label in neither else label not in bad


@dataclass(frozen=True)
class Quartiles:
    """Of a part's values. low: how many are below the bar of the part."""

    name: str
    count: int
    quartiles: tuple[float, float, float]
    low: int


def part_quartiles(rows: Sequence[Scored]) -> list[Quartiles]:
    """`following` of honest edits; `preservation` and `region` by what the reader says of them."""
    honest = [row for row in rows if row.edit.is_good]
    groups: list[tuple[str, float, list[float | None]]] = [
        ("following, honest edits", FOLLOWED_FROM, [row.part("following") for row in honest]),
        ("region, honest edits", 0.8, [row.part("region") for row in honest]),
    ]
    for label in PRESERVED:
        some = [row for row in rows if row.edit.preserved == label]
        groups.append((f"preservation, {label}", 0.5, [row.part("preservation") for row in some]))
    for state in STATES:
        some = [row for row in rows if row.edit.place == state]
        groups.append((f"region, place {state}", 0.8, [row.part("region") for row in some]))
    found = []
    for name, bar, values in groups:
        known = [value for value in values if value is not None]
        if known:
            low, middle, high = (float(number) for number in np.quantile(known, [0.25, 0.5, 0.75]))
            found.append(
                Quartiles(f"{name} (below {bar})", len(known), (low, middle, high), sum(v < bar for v in known))
            )
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
    both = [(edit, edit.second) for edit in edits if edit.second is not None]
    columns: list[tuple[str, Sequence[Any], list[tuple[Any, Any]]]] = [
        ("followed", FOLLOWED, [(edit.followed, second[0]) for edit, second in both]),
        ("preserved", PRESERVED, [(edit.preserved, second[1]) for edit, second in both]),
        ("place", STATES, [(edit.place, second[2]) for edit, second in both]),
        (
            "good, neither or bad",
            (True, None, False),
            [
                (edit.is_good, replace(edit, followed=second[0], preserved=second[1], place=second[2]).is_good)
                for edit, second in both
            ],
        ),
    ]
    if not both:
        return []
    return [
        ReaderAgreement(label, len(pairs), sum(one == other for one, other in pairs), _weighted_kappa(order, pairs))
        for label, order, pairs in columns
    ]


def _weighted_kappa(order: Sequence[Any], pairs: Sequence[tuple[Any, Any]]) -> float | None:
    first, second = (np.array([order.index(pair[side]) for pair in pairs], np.float64) for side in (0, 1))
    chance = float(((first[:, None] - second[None]) ** 2).mean())
    return None if not chance else 1 - float(((first - second) ** 2).mean()) / chance


def surprises(rows: Sequence[Scored], count: int) -> list[Scored]:
    """The edits whose value is furthest from what the reader says of them, a missing one counting as 0."""
    told: Mapping[str, bool | None] = {row.edit.id: row.edit.is_good for row in rows}
    known = [row for row in rows if told[row.edit.id] is not None]
    return sorted(known, key=lambda row: -abs((row.score.value or 0.0) - float(bool(told[row.edit.id]))))[:count]
