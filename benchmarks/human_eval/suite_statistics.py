"""Statistics of a suite: operations and their order, target areas (also detected ones), types, luminance, sources.

Complex-Edit (arXiv 2504.13143), section 2: operations per compound, and adjacent operations. EdiVal, table 2: types per
turn; figure 13: objects. DLEBench, section 3.2: target area as a share of the image.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from ...reward import EditSample, Engine, Expert, ImageError, Pools, Program
from ...reward.boxes import best_first
from ...reward.engine.program import ask
from ...reward.metrics.dlebench.tools import DETECTION_THRESHOLD
from ...reward.metrics.edival.task_parser import update_pools
from ...reward.queries.kinds import Detect
from ..common.csv_text import csv_text
from ..common.problems import num_problems
from ..suites.construction.workspace import PROMPTS, RejectionLog, ask_until_valid, run_programs
from ..suites.edival.published_counts import CATEGORIES, category_of
from ..suites.suite import Suite, SuiteItem

Number = float | int | None

AREA_BINS = (0.0, 0.0007, 0.001, 0.0025, 0.005, 0.008, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
"""Bin edges of the target area, as shares of the image. 0.07 % and 0.8 % are DLEBench's (section 3.2); its other edges
are in figure 4 alone."""

_QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999)
_REC_709 = np.array([0.2126, 0.7152, 0.0722])
_MAX_LABEL_VALUES = 40  # labels with more values are not listed
_LUMINANCE_SIDE = 256  # pixels per side, enough for quantiles


@dataclass(frozen=True)
class CountTable:
    """A table of plain numbers. rows: name -> one number per column; None if there is nothing to count."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Mapping[str, Sequence[Number]]
    notes: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def csv(self) -> str:
        """CSV with one row per line, its name first; numbers at full precision."""
        return csv_text([["", *self.columns], *([name, *row] for name, row in self.rows.items())])


def suite_statistics(suite: Suite) -> list[CountTable]:
    """Every non-empty table of the suite."""
    begun = _beginnings(suite.items)
    steps = [[] if item.id in begun else list(_operations(item)) for item in suite.items]
    tables = [_sizes(suite), _types(suite.items), _labels(suite.items), _operation_counts(steps)]
    tables += [*_adjacent(suite, steps), *_by_category(suite, steps), _areas(suite.items), _sources(suite.items)]
    tables += [_objects(suite.items), _luminance_table(suite.items)]
    return [table for table in tables if table.rows]


def _sizes(suite: Suite) -> CountTable:
    rows: dict[str, list[Number]] = {
        "items": [len(suite.items)],
        "cases": [len(suite.cases)],
        "problems with the data": [num_problems(suite.problems)],
    }
    lengths = Counter(len(item.sample.operations) for item in suite.items if item.sample.operations)
    rows |= {f"items of {count} operations": [num_items] for count, num_items in sorted(lengths.items())}
    return CountTable("size", f"{suite.info.title}: size", ["count"], rows)


def _types(items: Sequence[SuiteItem]) -> CountTable:
    """EdiVal's table 2: one row per type, one column per turn."""
    turns = sorted({int(item.labels["turn"]) for item in items if isinstance(item.labels.get("turn"), int)})
    counts = Counter((_type(item), item.labels.get("turn")) for item in items)
    columns = [*(f"turn {turn}" for turn in turns), "all"]
    every = Counter(map(_type, items))
    rows: dict[str, list[Number]] = {
        kind: [*(counts[kind, turn] for turn in turns), every[kind]] for kind in every if kind
    }
    return CountTable("types", "Items by type", columns, rows)


def _objects(items: Sequence[SuiteItem]) -> CountTable:
    """EdiVal's figure 13: distinct names of objects in the base images, and how often they occur, by category."""
    names: Counter[str] = Counter()
    cases: set[str] = set()
    for item in items:
        sample = item.sample
        task = sample.task or next((operation.task for operation in sample.operations), None)
        if item.case not in cases and sample.pools is not None and task is not None:
            introduced = update_pools(Pools(), task).all
            names.update(name.casefold() for name in sample.pools.all if name not in introduced)
        cases.add(item.case)
    rows: dict[str, list[Number]] = {}
    if names:
        by_category = {category: [n for n in names if category_of(n) == category] for category in CATEGORIES}
        rows = {title: [len(one), sum(names[name] for name in one)] for title, one in by_category.items()}
        rows["all"] = [len(names), names.total()]
    notes = ["Which word belongs to which category is ours. EdiVal's paper counts 724 objects, and does not say how."]
    return CountTable("objects", "Objects of the base images", ["names", "occurrences"], rows, notes)


def _labels(items: Sequence[SuiteItem]) -> CountTable:
    rows: dict[str, list[Number]] = {}
    for label in dict.fromkeys(name for item in items for name in item.labels if name not in ("type", "turn")):
        counts = Counter(item.labels[label] for item in items if label in item.labels)
        if len(counts) <= _MAX_LABEL_VALUES:
            rows |= {f"{label} {value}": [count] for value, count in counts.items()}
    return CountTable("labels", "Items by label", ["count"], rows)


def _type(item: SuiteItem) -> str:
    label = item.labels.get("type")
    if label is not None:
        return str(label)
    return item.sample.task.type if item.sample.task is not None else ""


def _operations(item: SuiteItem) -> Iterator[str]:
    for operation in item.sample.operations:
        yield operation.name or (operation.task.type if operation.task is not None else "(unnamed)")
    if not item.sample.operations and (kind := _type(item)):
        yield kind


def _beginnings(items: Sequence[SuiteItem]) -> set[str]:
    """Items whose operations begin those of another item of the case: levels of one sequence, which counts once."""
    by_case: dict[str, list[SuiteItem]] = {}
    for item in items:
        by_case.setdefault(item.case, []).append(item)
    begun: set[str] = set()
    for case_items in by_case.values():
        sequences = [item.sample.operations for item in case_items]
        longer = {sequence[:length] for sequence in sequences for length in range(1, len(sequence))}
        begun |= {item.id for item in case_items if item.sample.operations in longer}
    return begun


def _by_category(suite: Suite, steps: Sequence[Sequence[str]]) -> list[CountTable]:
    """Figure 3 of Complex-Edit: the operations and their order by category, where the suite has categories."""
    categories = suite.operation_categories
    if not categories:
        return []
    named = [[categories.get(name, "(other)") for name in names] for names in steps]
    tables = [_operation_counts(named), *_adjacent(suite, named)]
    return [replace(one, name=f"{one.name}-by-category", title=f"{one.title}, by category") for one in tables]


def _operation_counts(steps: Iterable[Sequence[str]]) -> CountTable:
    steps = list(steps)
    if not any(len(names) > 1 for names in steps):
        return CountTable("operations", "", [], {})
    every = Counter(name for names in steps for name in names)
    first = Counter(names[0] for names in steps if names)
    last = Counter(names[-1] for names in steps if names)
    within = Counter(name for names in steps for name in set(names))
    total = sum(every.values())
    rows: dict[str, list[Number]] = {
        name: [count, count / total, within[name], first[name], last[name]] for name, count in every.most_common()
    }
    columns = ["count", "share", "items with it", "first", "last"]
    return CountTable("operations", "Operations", columns, rows)


def _adjacent(suite: Suite, steps: Sequence[Sequence[str]]) -> list[CountTable]:
    """Which operation follows which: within a compound, and from one turn to the next."""
    follows = Counter(pair for names in steps for pair in pairwise(names))
    by_id = {item.id: names for item, names in zip(suite.items, steps, strict=True)}
    for item, names in zip(suite.items, steps, strict=True):
        before = by_id.get(item.previous) if item.previous else None
        if before and names:
            follows[before[-1], names[0]] += 1
    if not follows:
        return []
    names = list(dict.fromkeys(name for pair in follows for name in pair))
    rows: dict[str, list[Number]] = {first: [follows[first, second] for second in names] for first in names}
    notes = ["the operation of the row comes before that of the column"]
    return [CountTable("adjacency", "Which operation follows which", names, rows, notes)]


def _areas(items: Sequence[SuiteItem]) -> CountTable:
    areas = [box.area for item in items for box in item.sample.targets]
    num_without = sum(not item.sample.targets for item in items)
    return area_table("targets", "Target area", areas, [f"{len(areas)} boxes; {num_without} items have none"])


def area_table(name: str, title: str, ratios: Sequence[float], notes: Sequence[str]) -> CountTable:
    """Shares of the image: counts by bin, the share of those up to its end (the CDF), and quantiles."""
    areas = np.array(ratios, np.float64)
    if not len(areas):
        return CountTable(name, title, [], {}, notes)
    bounds = list(pairwise(AREA_BINS))
    places = np.clip(np.searchsorted(AREA_BINS, areas, side="right") - 1, 0, len(bounds) - 1)
    counts = np.bincount(places, minlength=len(bounds))
    rows: dict[str, list[Number]] = {
        f"{100 * low:g} % to {100 * high:g} %": [int(count), float(count / len(areas)), float((areas <= high).mean())]
        for (low, high), count in zip(bounds, counts, strict=True)
    }
    rows |= {
        f"quantile {share:g}": [None, float(np.quantile(areas, share)), None] for share in (0.05, 0.25, 0.5, 0.75, 0.95)
    }
    return CountTable(name, title, ["boxes", "share", "up to"], rows, [*notes, "area as a share of the image"])


def _sources(items: Sequence[SuiteItem]) -> CountTable:
    counts = Counter(len(item.sample.sources) for item in items)
    sizes = Counter(image.size for sample in _first_samples(items) for image in sample.sources)
    rows: dict[str, list[Number]] = {
        f"{num_sources} source{'s' * (num_sources > 1)}": [count] for num_sources, count in sorted(counts.items())
    }
    rows |= {f"{width} x {height}": [count] for (width, height), count in sizes.most_common(10)}
    notes = ["items by number of sources; then images by size in pixels, the ten most frequent sizes"]
    return CountTable("sources", "Sources", ["count"], rows, notes)


def _luminance_table(items: Sequence[SuiteItem]) -> CountTable:
    """Luminance (Rec. 709) of the first source of each case: mean over images of each quantile over pixels."""
    quantiles, num_broken = [], 0
    for image in {image.digest: image for sample in _first_samples(items) for image in sample.sources[:1]}.values():
        step = max(1, max(image.size) // _LUMINANCE_SIDE)
        try:
            light = image.pixels[::step, ::step].astype(np.float64) @ _REC_709 / 2.55
        except ImageError:
            num_broken += 1
        else:
            quantiles.append([*np.quantile(light, _QUANTILES), light.mean(), light.std()])
    if not quantiles:
        return CountTable("luminance", "", [], {})
    table = np.array(quantiles)
    names = [*(f"quantile {share:g}" for share in _QUANTILES), "mean", "standard deviation"]
    rows: dict[str, list[Number]] = {
        name: [float(column.mean()), float(column.min()), float(column.max())]
        for name, column in zip(names, table.T, strict=True)
    }
    notes = [f"luminance 0 to 100 of {len(quantiles)} images: quantiles over the pixels of an image"]
    notes += [f"{num_broken} images could not be read"] if num_broken else []
    return CountTable("luminance", "Luminance of the sources", ["mean over images", "darkest", "lightest"], rows, notes)


def _first_samples(items: Sequence[SuiteItem]) -> list[EditSample]:
    samples: dict[str, EditSample] = {}
    for item in items:
        samples.setdefault(item.case, item.sample)
    return list(samples.values())


WHOLE_IMAGE = "image"

_RESULT = re.compile(r"\[\s*result\s*\]\s*:(.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TargetArea:
    """name: of the target. ratio: of its best box, as a share of the source; 1 for the whole image, None: not found."""

    name: str
    ratio: float | None


def target_areas(
    suite: Suite, experts: Mapping[str, Expert], *, step: Callable[[], None] = lambda: None
) -> tuple[dict[str, TargetArea], dict[str, str]]:
    """The target of each item by its id, and why there is none of others. experts: with the roles `judge` and
    `detector`. The minimum score of a detection is not published."""
    found: dict[str, TargetArea] = {}
    problems: dict[str, str] = {}
    programs = ((item.id, partial(_area_program, item.sample)) for item in suite.items)
    with Engine() as engine:
        for result in run_programs(programs, engine, experts):
            step()
            if result.value is not None:
                found[result.id] = result.value
            else:
                problems[result.id] = result.failed or result.rejects[-1].reason
    return found, problems


def target_area_table(areas: Sequence[TargetArea], num_problems: int = 0) -> CountTable:
    """Ratios by interval, and the share of targets up to each: the CDF of figure 3."""
    ratios = [area.ratio for area in areas if area.ratio is not None]
    whole = sum(area.name == WHOLE_IMAGE for area in areas)
    counts = f"{len(ratios)} targets, of which {whole} are the whole image; {len(areas) - len(ratios)} were not found"
    notes = [
        f"{counts}, and {num_problems} not named: neither counts",
        "named by a judge, found by a detector (DLEBench, appendix 11)",
    ]
    return area_table("target-areas", "Target area, detected", ratios, notes)


def parse_target(reply: str) -> str:
    """The target's name in a reply. Raises ValueError unless there is exactly one."""
    names = {
        re.sub(r"^(?:an?|the)\s+", "", name.strip(" \t.\"'`*"), flags=re.IGNORECASE) for name in _RESULT.findall(reply)
    }
    if len(names) != 1 or not (name := names.pop()):
        raise ValueError("one line is expected: [Result]: the name")
    return WHOLE_IMAGE if name.casefold() == WHOLE_IMAGE else name


def _area_program(sample: EditSample, notes: RejectionLog) -> Program[TargetArea]:
    prompt = PROMPTS.render("dlebench_target", instruction=sample.instruction)
    slots = {"instruction": sample.instruction}
    name = yield from ask_until_valid(
        notes, "dlebench/target", prompt, None, parse_target, temperature=0.0, max_tokens=64, slots=slots
    )
    if name == WHOLE_IMAGE:
        return TargetArea(name, 1.0)
    detections = yield from ask(Detect(sample.source, (name,)))
    boxes = best_first(detections.above(DETECTION_THRESHOLD))
    return TargetArea(name, boxes[0].area if boxes else None)
