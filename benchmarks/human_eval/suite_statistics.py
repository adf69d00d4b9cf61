"""What a suite asks for, in numbers: operations and what follows what, target sizes, types, light, sources.

Complex-Edit (arXiv 2504.13143), section 2: operations a compound, and which stand next to each other. EdiVal, table 2:
types a turn. DLEBench, section 3.2: how much of the picture a target takes.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ...reward import EditSample, Image, ImageError
from ..suites.suite import Item, Suite

Number = float | int | None

AREAS = (0.0, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""Bounds of the classes of target area, as shares of the picture."""

_QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999)
_REC_709 = np.array([0.2126, 0.7152, 0.0722])
_FEW = 40  # values of a label that are told one by one
_SMALL = 256  # pixels a side that are enough for quantiles


@dataclass(frozen=True)
class Counts:
    """A table of plain numbers. rows: name -> a number a column; None where there is nothing to count."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[Number]]
    notes: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "columns": list(self.columns),
            "rows": {name: list(row) for name, row in self.rows.items()},
            "notes": list(self.notes),
        }

    def csv(self) -> str:
        """A row a line, its name first; numbers in full."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["", *self.columns])
        writer.writerows([name, *row] for name, row in self.rows.items())
        return out.getvalue()


def of(suite: Suite, *, light: bool = True) -> list[Counts]:
    """Every table that the suite has something for. light: look at the pixels of sources, which decodes them."""
    steps = [list(_operations(item)) for item in suite.items]
    found = [_sizes(suite), _types(suite.items), _labels(suite.items), _operation_counts(steps)]
    found += [*_adjacent(suite, steps), _areas(suite.items), _sources(suite.items)]
    if light:
        found.append(_light(suite.items))
    return [one for one in found if one.rows]


def _sizes(suite: Suite) -> Counts:
    rows: dict[str, list[Number]] = {
        "items": [len(suite.items)],
        "cases": [len(suite.cases)],
        "problems with the data": [len(suite.problems)],
    }
    longest = Counter(len(item.sample.operations) for item in suite.items if item.sample.operations)
    rows |= {f"items of {count} operations": [many] for count, many in sorted(longest.items())}
    return Counts("size", f"{suite.about.title}: size", ["count"], rows)


def _types(items: Sequence[Item]) -> Counts:
    """EdiVal's table 2: a row a type, a column a turn."""
    turns = sorted({int(item.labels["turn"]) for item in items if isinstance(item.labels.get("turn"), int)})
    counts = Counter((_type(item), item.labels.get("turn")) for item in items)
    kinds = list(dict.fromkeys(kind for kind, _ in counts if kind))
    columns = [*(f"turn {turn}" for turn in turns), "all"]
    rows: dict[str, list[Number]] = {
        kind: [*(counts[kind, turn] for turn in turns), sum(many for (name, _), many in counts.items() if name == kind)]
        for kind in kinds
    }
    return Counts("types", "Items by type", columns, rows)


def _labels(items: Sequence[Item]) -> Counts:
    """Items by each other label that has few values."""
    rows: dict[str, list[Number]] = {}
    for label in dict.fromkeys(name for item in items for name in item.labels if name not in ("type", "turn")):
        counts = Counter(item.labels[label] for item in items if label in item.labels)
        if len(counts) <= _FEW:
            rows |= {f"{label} {value}": [many] for value, many in counts.items()}
    return Counts("labels", "Items by label", ["count"], rows)


def _type(item: Item) -> str:
    said = item.labels.get("type")
    if said is not None:
        return str(said)
    return item.sample.task.type if item.sample.task is not None else ""


def _operations(item: Item) -> Iterator[str]:
    """What an item asks for, in order; of an item of one edit, its type."""
    for operation in item.sample.operations:
        yield operation.name or (operation.task.type if operation.task is not None else "(unnamed)")
    if not item.sample.operations and (kind := _type(item)):
        yield kind


def _operation_counts(steps: Iterable[Sequence[str]]) -> Counts:
    steps = list(steps)
    if not any(len(some) > 1 for some in steps):
        return Counts("operations", "", [], {})
    every = Counter(name for some in steps for name in some)
    first = Counter(some[0] for some in steps if some)
    last = Counter(some[-1] for some in steps if some)
    within = Counter(name for some in steps for name in set(some))
    total = sum(every.values())
    rows: dict[str, list[Number]] = {
        name: [many, many / total, within[name], first[name], last[name]] for name, many in every.most_common()
    }
    columns = ["count", "share", "items with it", "first", "last"]
    return Counts("operations", "Operations", columns, rows)


def _adjacent(suite: Suite, steps: Sequence[Sequence[str]]) -> list[Counts]:
    """Which operation follows which: within a compound, and from one item to the one made of it."""
    follows = Counter(pair for some in steps for pair in pairwise(some))
    by_id = {item.id: some for item, some in zip(suite.items, steps, strict=True)}
    for item, some in zip(suite.items, steps, strict=True):
        before = by_id.get(item.after) if item.after else None
        if before and some:
            follows[before[-1], some[0]] += 1
    if not follows:
        return []
    names = list(dict.fromkeys(name for pair in follows for name in pair))
    rows: dict[str, list[Number]] = {one: [follows[one, other] for other in names] for one in names}
    notes = ["a row is followed by a column"]
    return [Counts("adjacency", "Which operation follows which", names, rows, notes)]


def _areas(items: Sequence[Item]) -> Counts:
    """Of target boxes, as shares of the picture: how many lie in each class, and quantiles."""
    areas = np.array([box.area for item in items for box in item.sample.targets], np.float64)
    if not len(areas):
        return Counts("targets", "", [], {})
    bounds = list(pairwise(AREAS))
    places = np.clip(np.searchsorted(AREAS, areas, side="right") - 1, 0, len(bounds) - 1)
    counts = np.bincount(places, minlength=len(bounds))
    rows: dict[str, list[Number]] = {
        f"{100 * low:g} % to {100 * high:g} %": [int(many), float(many / len(areas))]
        for (low, high), many in zip(bounds, counts, strict=True)
    }
    rows |= {f"quantile {share:g}": [None, float(np.quantile(areas, share))] for share in (0.05, 0.25, 0.5, 0.75, 0.95)}
    none = sum(not item.sample.targets for item in items)
    notes = [f"{len(areas)} boxes; {none} items have none", "area as a share of the picture"]
    return Counts("targets", "Target area", ["boxes", "share"], rows, notes)


def _sources(items: Sequence[Item]) -> Counts:
    counts = Counter(len(item.sample.sources) for item in items)
    sizes = Counter(image.size for sample in _first_samples(items) for image in sample.sources)
    rows: dict[str, list[Number]] = {
        f"{many} source{'s' * (many > 1)}": [count] for many, count in sorted(counts.items())
    }
    rows |= {f"{width} x {height}": [count] for (width, height), count in sizes.most_common(10)}
    notes = ["items with so many sources; then pictures of so many pixels, the ten most frequent sizes"]
    return Counts("sources", "Sources", ["count"], rows, notes)


def _light(items: Sequence[Item]) -> Counts:
    """Luminance (Rec. 709) of the first source of each case: mean over pictures of each quantile over pixels."""
    found, broken = [], 0
    for image in {image.digest: image for sample in _first_samples(items) for image in sample.sources[:1]}.values():
        try:
            found.append(_luminance(image))
        except ImageError:
            broken += 1
    if not found:
        return Counts("light", "", [], {})
    table = np.array(found)
    rows: dict[str, list[Number]] = {
        f"quantile {share:g}": [float(column.mean()), float(column.min()), float(column.max())]
        for share, column in zip(_QUANTILES, table.T, strict=False)
    }
    mean, spread = table[:, -2], table[:, -1]
    rows["mean"] = [float(mean.mean()), float(mean.min()), float(mean.max())]
    rows["standard deviation"] = [float(spread.mean()), float(spread.min()), float(spread.max())]
    notes = [f"luminance 0 to 100 of {len(found)} pictures: of pixels within a picture"]
    notes += [f"{broken} pictures could not be read"] if broken else []
    return Counts("light", "Light of the sources", ["mean over pictures", "darkest", "lightest"], rows, notes)


def _luminance(image: Image) -> list[float]:
    step = max(1, max(image.size) // _SMALL)
    light = image.pixels[::step, ::step].astype(np.float64) @ _REC_709 / 2.55
    return [*(float(one) for one in np.quantile(light, _QUANTILES)), float(light.mean()), float(light.std())]


def _first_samples(items: Sequence[Item]) -> list[EditSample]:
    """One a case."""
    found: dict[str, EditSample] = {}
    for item in items:
        found.setdefault(item.case, item.sample)
    return list(found.values())
