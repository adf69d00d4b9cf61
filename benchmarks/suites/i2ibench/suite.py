"""I2I-Bench: 30 dimensions of single-image editing and multi-image composition, each scored where it applies. The
paper's Overall weights a dimension by the number of its prompts (appendix D): an unweighted mean over dimensions
differs by up to 0.032 from the printed values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ....reward.metrics.i2ibench.dimensions import DIMENSIONS, PACKAGE, Pipeline
from ....reward.metrics.i2ibench.overall import PIPELINES, SYSTEM_PROMPTS
from ....reward.queries.prompts import Prompts
from ....reward.queries.specs import Spec
from ....verifiers import edit_request
from ...common.errors import InputError, input_errors
from ...common.problems import Problems
from ..bootstrap import Statistic
from ..results import ResultRow, Results
from ..rows import DataProblem
from ..suite import (
    LabelValue,
    Suite,
    SuiteInfo,
    SuiteItem,
    decode_images,
    json_digest,
    make_items,
    opened,
    require_choice,
)
from ..tables import Table
from .reader import CATEGORIES, OPTIONAL, PROMPTS_FILE, REQUIRED, I2IPrompt, prompts_file, read_prompts

HALVES = ("all", "single", "multi")


def _both(*names: str) -> tuple[str, ...]:
    return (*names, *(f"multi-{name}" for name in names))


def _by(pipeline: Pipeline) -> tuple[str, ...]:
    return tuple(name for name, dimension in DIMENSIONS.items() if dimension.pipeline == pipeline)


_METRIC_OPTIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "content": ("content", _by("text")),
    "letters": ("letters", _by("text")),
    "inverted": ("inverted", ("multi-non-edited-fidelity",)),
    "transfer": ("protocol", ("multi-cross-source-attribute",)),
    "consistency": ("protocol", ("multi-inter-subject-consistency",)),
    "answering_view": ("answering_view", _by("questions")),
    "shown_images": ("shown_images", _both("blending-naturalness")),
    "quality_scale": ("scale", _both("image-quality")),
    "aesthetics_scale": ("scale", _both("aesthetic-quality")),
}
"""Option of the suite -> option of metrics, and the dimensions that have it: where the paper says it in two ways."""


class I2IBench(Suite):
    """A folder with `prompts.jsonl` (see `reader`), or that file itself; outputs are `{id}.png`.

    Args:
        half: `single` or `multi` for the prompts of one half only.
        prompts: A prompt pack for the judge. Labels of items: `category` and `half`; cases are scenes. The other
            options are those of metrics, see `reward.metrics.i2ibench`: content=part, letters=exact, inverted=true,
            answering_view=edited, shown_images=edited, transfer=two_levels, consistency=five_levels or two_levels,
            quality_scale and aesthetics_scale as in [1,10].
    """

    name: ClassVar[str] = "i2ibench"
    info: ClassVar[SuiteInfo] = SuiteInfo(
        "I2I-Bench",
        "Wang, Wang, Duan, Kang, Zhai, Min: I2I-Bench: A Comprehensive Benchmark Suite for Image-to-Image Editing "
        "Models, 2025",
        "the paper's prompts are not published: the licence of a constructed suite is that of its images",
        "",
        PROMPTS_FILE,
        ", ".join(f"`{name}`" for name in REQUIRED) + "; optional: " + ", ".join(f"`{name}`" for name in OPTIONAL),
        "{id}.png",
        ("i2i-overall",),
    )

    def __init__(
        self,
        data: Path | None = None,
        *,
        half: str = "all",
        prompts: str | None = None,
        content: str = "whole",
        letters: str = "folded",
        inverted: bool = False,
        answering_view: str = "full",
        shown_images: str = "both",
        transfer: str = "questions",
        consistency: str = "questions",
        quality_scale: Sequence[float] | None = None,
        aesthetics_scale: Sequence[float] | None = None,
    ) -> None:
        if data is None:
            raise InputError(
                "i2ibench needs the folder of its prompts: give --data; none are published, but "
                "`editcritic bench build i2ibench` constructs some for your own images"
            )
        require_choice(self.name, "half", half, HALVES)
        with input_errors(ValueError):
            Prompts(PACKAGE, prompts)
        self.half, self.prompts = half, prompts
        self._dimension_options = _dimension_options(
            content=content,
            letters=letters,
            inverted=inverted,
            answering_view=answering_view,
            shown_images=shown_images,
            transfer=transfer,
            consistency=consistency,
            quality_scale=None if quality_scale is None else list(quality_scale),
            aesthetics_scale=None if aesthetics_scale is None else list(aesthetics_scale),
        )
        path, problems = prompts_file(Path(data)), Problems[DataProblem]()
        prompts_of_half = [
            prompt
            for prompt in read_prompts(path, problems)
            if half == "all" or prompt.category.multi == (half == "multi")
        ]
        items = self._items(prompts_of_half, path.parent, problems)
        self.digest = json_digest([_item_digest_fields(item) for item in items])
        self._hold(items, problems, f"{data} has no usable prompts of the half {half}")
        for name in self._dimension_options:
            if not self._dimensions & {*_METRIC_OPTIONS[name][1]}:
                raise InputError(f"{name} is for {', '.join(_METRIC_OPTIONS[name][1])}: no prompt has them")

    @property
    def options(self) -> Mapping[str, LabelValue]:
        """Options that the results depend on besides the data; a prompt pack as its digest."""
        options: dict[str, LabelValue] = {} if self.half == "all" else {"half": self.half}
        options |= {
            name: str(value) if isinstance(value, list) else value for name, value in self._dimension_options.items()
        }
        return options if self.prompts is None else {**options, "prompts": Prompts(PACKAGE, self.prompts).digest}

    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        """A metric for each dimension of the items, by its name, e.g. `multi-spatial-accuracy`.

        Args:
            protocol: `judge-only` is the ablation of section 4.3, one query for a level, for all dimensions. `paper`
                sends what appendix F marks as system prompts as such.
        """
        if protocol is not None:
            require_choice(self.name, "protocol", protocol, ("judge-only", "paper"))
        options: dict[str, Any] = {"judge_only": True} if protocol == "judge-only" else {}
        options |= {} if self.prompts is None else {"prompts": self.prompts}
        if protocol == "judge-only" and self._dimension_options:
            raise InputError(f"judge-only asks for a level alone: leave {', '.join(self._dimension_options)} out")
        specs: dict[str, dict[str, Any]] = {
            name: {"use": f"i2i-{name}", **options, **({"paper": True} if protocol == "paper" and marked else {})}
            for name, marked in SYSTEM_PROMPTS.items()
            if name in self._dimensions
        }
        for suite_option, value in self._dimension_options.items():
            option, names = _METRIC_OPTIONS[suite_option]
            for name in specs.keys() & names:
                specs[name][option] = value
        return specs

    @property
    def _dimensions(self) -> set[str]:
        return {name for item in self.items for name in item.sample.dimensions or ()}

    def judges(self, metric: str, item: SuiteItem) -> bool:
        return metric in (item.sample.dimensions or ())

    def asks_about(self, dimension: str, item: SuiteItem) -> bool:
        """A dimension of I2I-Bench is asked about where it is one of the prompt's; others, as `overall`, anywhere."""
        return dimension not in DIMENSIONS or self.judges(dimension, item)

    def tables(self, results: Results) -> list[Table]:
        """Overall, tables 1 and 2, success, category by dimension, single against multi."""

        def applies(row: ResultRow, metric: str) -> bool:
            item = self.by_id.get(row.id)
            return metric in row.scores if item is None else self.judges(metric, item)

        return i2ibench_tables(results, applies)

    def _items(self, prompts: Sequence[I2IPrompt], folder: Path, problems: Problems[DataProblem]) -> list[SuiteItem]:
        images = decode_images((path for prompt in prompts for path in prompt.sources), folder)

        def items_of(prompt: I2IPrompt) -> list[SuiteItem]:
            sample = edit_request(
                prompt.instruction,
                *(opened(images[path]) for path in prompt.sources),
                id=prompt.id,
                target_text=prompt.target_text,
                hint=prompt.hint,
                dimensions=prompt.dimensions,
            )
            labels = {"category": prompt.category.name, "half": "multi" if prompt.category.multi else "single"}
            return [SuiteItem(prompt.id, prompt.scene, prompt.id, sample, labels=labels)]

        return make_items(prompts, items_of, lambda prompt: prompt.where, problems)


def _dimension_options(**values: Any) -> dict[str, Any]:
    """Those that differ from the metrics' defaults. Raises `InputError` for what a metric refuses."""
    changed = {}
    for name, value in values.items():
        option, (dimension, *_) = _METRIC_OPTIONS[name]
        metric = PIPELINES[DIMENSIONS[dimension].pipeline]
        with input_errors(ValueError):
            metric(dimension, **{option: value})
        if value != getattr(metric, option):
            changed[name] = value
    return changed


def _item_digest_fields(item: SuiteItem) -> list[Any]:
    sample = item.sample
    sources = [source.digest for source in sample.sources]
    labels = dict(item.labels)
    return [item.id, item.case, labels, sample.instruction, sample.target_text, sample.hint, sample.dimensions, sources]


OVERALL = "Overall"
SUCCESS_THRESHOLD = 0.5
"""Minimum two-level score of a success (section 4.3)."""

_IS_MULTI: Mapping[str, bool] = {"single": False, "multi": True}


def title_of(dimension: str) -> str:
    """The column of a dimension, e.g. `Spatial-Accuracy`."""
    return "-".join(word.capitalize() for word in dimension.removeprefix("multi-").split("-"))


MetricApplies = Callable[[ResultRow, str], bool]
"""Whether a dimension applies to a row, even if its image is missing."""


def i2ibench_tables(results: Results, applies: MetricApplies) -> list[Table]:
    """Overall of each half; tables 1 and 2; success of the two-level dimensions; category by dimension; single against
    multi. Only halves, categories and dimensions with scores."""
    subset = _Subset(results, applies)
    halves = {half: dimensions for half in _IS_MULTI if (dimensions := subset.dimensions(half))}
    means = {half: subset.means(results.filter(half=half), dimensions) for half, dimensions in halves.items()}
    overalls = {half.capitalize(): row[OVERALL] for half, row in means.items() if OVERALL in row}
    board = Table(
        "leaderboard", "I2I-Bench, Overall", list(overalls), {"all": overalls}, 1.0, "0 to 1", 3, _OVERALL_NOTE,
        ranking_column=next(iter(overalls), ""),
    )  # fmt: skip
    return [
        board,
        *(_table(half, f"I2I-Bench, {half}-image editing", {"all": row}) for half, row in means.items()),
        *_success(subset, halves),
        *(
            _table(f"categories-{half}", f"I2I-Bench by category, {half}-image editing", subset.categories(half, names))
            for half, names in halves.items()
        ),
        *_single_vs_multi(subset, halves),
    ]


_OVERALL_NOTE = ("Overall is the mean over all (prompt, dimension) scores",)


def _table(name: str, title: str, rows: Mapping[str, Mapping[str, Statistic]]) -> Table:
    columns = [column for column in dict.fromkeys(name for row in rows.values() for name in row) if column != OVERALL]
    return Table(name, title, [*columns, OVERALL], rows, 1.0, "0 to 1", 3, _OVERALL_NOTE)


def _value_of(dimension: str) -> Callable[[ResultRow], float | None]:
    return lambda row: row.value(dimension)


@dataclass(frozen=True)
class _Subset:
    results: Results
    applies: MetricApplies

    def dimensions(self, half: str) -> list[str]:
        """The dimensions that apply to a row and that this run measures, in the table's order. A dimension of which no
        output was made counts: its values are missing."""
        rows = self.results.filter(half=half)
        left_out = self.results.provenance.get("skipped_metrics", {})
        return [
            name
            for name, dimension in DIMENSIONS.items()
            if dimension.multi == _IS_MULTI[half]
            and name not in left_out
            and any(self.applies(row, name) and (name in row.scores or not row.scores) for row in rows)
        ]

    def _rows(self, rows: Iterable[ResultRow], dimension: str) -> list[ResultRow]:
        return [row for row in rows if self.applies(row, dimension)]

    def mean(self, rows: Iterable[ResultRow], dimension: str) -> Statistic:
        """Mean over the rows that the dimension applies to."""
        return self.results.metric_mean(self._rows(rows, dimension), dimension)

    def success(self, rows: Iterable[ResultRow], dimension: str) -> Statistic:
        """Share of these rows that reaches `SUCCESS_THRESHOLD`."""

        def succeeded(row: ResultRow) -> float | None:
            score = row.value(dimension)
            return None if score is None else float(score >= SUCCESS_THRESHOLD)

        return self.results.mean(self._rows(rows, dimension), succeeded)

    def means(self, rows: Sequence[ResultRow], dimensions: Sequence[str]) -> dict[str, Statistic]:
        """Means by dimension, and the paper's Overall."""
        means = {name: self.mean(rows, name) for name in dimensions}
        present = {name: mean for name, mean in means.items() if mean.count or mean.num_missing}
        row = {title_of(name): mean for name, mean in present.items()}
        counted = [name for name in present if DIMENSIONS[name].in_overall]
        if counted:
            row[OVERALL] = self.results.pooled_mean((self._rows(rows, name), _value_of(name)) for name in counted)
        return row

    def categories(self, half: str, dimensions: Sequence[str]) -> dict[str, dict[str, Statistic]]:
        """The means of each category with rows."""
        rows = {category.title: self.results.filter(category=category.name) for category in CATEGORIES.values()}
        present = {
            title: category_rows
            for title, category_rows in rows.items()
            if category_rows and category_rows[0].labels.get("half") == half
        }
        return {title: self.means(category_rows, dimensions) for title, category_rows in present.items()}


def _success(subset: _Subset, halves: Mapping[str, Sequence[str]]) -> list[Table]:
    rows: dict[str, dict[str, Statistic]] = {}
    for half, dimensions in halves.items():
        half_rows = subset.results.filter(half=half)
        two_level = [name for name in dimensions if DIMENSIONS[name].pipeline == "two levels"]
        if two_level:
            rows[half] = {title_of(name): subset.success(half_rows, name) for name in two_level}
    if not rows:
        return []
    columns = list(dict.fromkeys(column for half_row in rows.values() for column in half_row))
    note = f"a score of at least {SUCCESS_THRESHOLD} is a success (section 4.3)"
    return [Table("success", "I2I-Bench, success by dimension", columns, rows, 100.0, "percent", 1, [note])]


def _single_vs_multi(subset: _Subset, halves: Mapping[str, Sequence[str]]) -> list[Table]:
    """Comparison of the dimensions of both halves (section 4.5 and figure 5)."""
    shared = [name for name in halves.get("single", ()) if f"multi-{name}" in halves.get("multi", ())]
    if not shared:
        return []
    single = {title_of(name): subset.mean(subset.results.filter(half="single"), name) for name in shared}
    multi = {title_of(name): subset.mean(subset.results.filter(half="multi"), f"multi-{name}") for name in shared}
    difference = {name: Statistic.combine(np.subtract, multi[name], single[name], monotone=False) for name in single}
    rows = {"single": single, "multi": multi, "multi − single": difference}
    note = "a dimension may differ between the halves: the paper's single-image fidelity is of regions"
    title = "I2I-Bench, single against multi"
    return [Table("single-multi", title, list(single), rows, 1.0, "0 to 1", 3, [note])]
