"""Complex-Edit: 531 real and 531 synthetic images, each with instructions of eight levels. Paper: arXiv 2504.13143.
Data: parquet files or a saved data set with the columns `image` and `edit`. Outputs: a folder per level, `C1` to `C8`,
each with an image per row (`0000.png`, ...); with only one level they may be in a flat folder."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from ....reward.metrics.complexedit.judging import MODES, ComplexEditOptions, Sampling, ScoringMode
from ....reward.metrics.complexedit.metrics import (
    ComplexEditInstructionFollowing,
    IdentityPreservation,
    Operations,
    PerceptualQuality,
)
from ....reward.queries.specs import Spec
from ....verifiers import edit_request
from ...common.errors import InputError, input_errors
from ...common.inputs import list_images
from ...common.problems import Problems
from ..bootstrap import Statistic, plain_mean
from ..results import ResultRow, Results
from ..rows import DataProblem
from ..suite import LabelValue, Suite, SuiteInfo, SuiteItem, lines_digest, make_items, missing_data, require_choice
from ..tables import Table
from .construction import CATEGORIES
from .reader import ComplexEditRow, read_split

LEVELS = 8
_PAPER = "paper"

_KINDS: Mapping[str, type[ComplexEditOptions]] = {
    "if": ComplexEditInstructionFollowing,
    "ip": IdentityPreservation,
    "pq": PerceptualQuality,
}


class ComplexEdit(Suite):
    """One split of Complex-Edit.

    Ablations of tables 1 and 2 and section 4.1.4, as the metrics have them: reasoning (None: for IF and IP, not PQ),
    rubric, sampling, pq_instruction.

    Raises `InputError` for unusable data. Invalid rows are `problems`.

    Args:
        data: A folder with parquet files (as on the hub) or a data set saved by `save_to_disk`; or one parquet file.
        split: `test_real` or `test_syn`.
        levels: Of complexity, e.g. `1-8`, `3` or `1,8`.
        mode: Of the judge queries (see `ComplexEditOptions`): `numeric`, as in the paper, is the mean of `n` grades;
            `expected` and `token_probability` need one pass and a judge with probabilities.
        seed: Of the sampled grades.
        max_replacements: Maximum number of failed grades that are sampled again.
        mean: Of the three scores for O, `arithmetic` (the paper's) or `geometric`.
        prompts: A folder of prompts that override ours.
        operations: `listed`, which is ours, tells the judge the atomic operations of IF and IP; the paper's protocol
            has `hidden`.
    """

    name: ClassVar[str] = "complex-edit"
    info: ClassVar[SuiteInfo] = SuiteInfo(
        "Complex-Edit",
        "S. Yang, M. Hui, B. Zhao, Y. Zhou, N. Ruiz, C. Xie: Complex-Edit: CoT-Like Instruction Generation for "
        "Complexity-Controllable Image Editing Benchmark. arXiv:2504.13143, 2025",
        "CC BY-NC 4.0, by the data set's card",
        "https://huggingface.co/datasets/UCSC-VLAA/Complex-Edit",
        "parquet files, or a saved data set",
        "`image`; `edit`, with the lists `sequence` (`name`, `instruction`) and `compound` (`compound_instruction`)",
        "C{level}/{row}.png",
        tuple(kind.card.name for kind in _KINDS.values()),
    )

    def __init__(
        self,
        data: str | Path | None = None,
        *,
        split: str = "test_real",
        levels: str | int = f"1-{LEVELS}",
        mode: ScoringMode = "numeric",
        n: int = 20,
        seed: int = 0,
        max_replacements: int = 2,
        mean: Mean = "arithmetic",
        prompts: str | None = None,
        operations: Operations = "hidden",
        reasoning: bool | None = None,
        rubric: bool = True,
        sampling: Sampling = "sampled",
        pq_instruction: bool = False,
    ) -> None:
        if data is None:
            raise missing_data(self.name, "the folder of its parquet files, or one of them")
        require_choice(self.name, "mean", mean, MEANS)
        self.split, self.mode, self.mean = split, mode, mean
        self.levels = _levels(levels)
        self._sampling: dict[str, Any] = {"n": n, "seed": seed, "max_replacements": max_replacements}
        self._prompts = prompts
        self._judging: dict[str, Any] = {"operations": operations, "pq_instruction": pq_instruction}
        self._judging |= {"reasoning": reasoning, "rubric": rubric, "sampling": sampling}
        self._metrics(mode)  # rejects invalid options before reading data
        split_data = read_split(Path(data), split)
        self.rows, problems = split_data.rows, split_data.problems
        items = make_items(
            split_data.edits, lambda edit: self._items(edit, problems), lambda edit: f"row {edit.number}", problems
        )
        self.digest = lines_digest(
            [item.id, item.sample.instruction, item.sample.source.digest, item.sample.operations] for item in items
        )
        self._hold(items, problems, f"none of the {split_data.rows} rows of {data} is usable")

    def _items(self, edit: ComplexEditRow, problems: Problems[DataProblem]) -> list[SuiteItem]:
        case = f"{edit.number:04}"
        num_levels = min(len(edit.compounds), len(edit.sequence))
        if missing := [level for level in self.levels if level > num_levels]:
            message = f"has {len(edit.sequence)} atomic and {len(edit.compounds)} compound instructions"
            problems.append(
                DataProblem(f"row {edit.number}", f"{message}: level C{missing[0]} and later ones are left out")
            )
        return [
            SuiteItem(
                f"{case}/C{level}",
                case,
                case if len(self.levels) == 1 else f"C{level}/{case}",
                edit_request(
                    edit.compounds[level - 1],
                    edit.image,
                    id=f"{case}/C{level}",
                    operations=edit.sequence[:level],
                    metadata={"compounds": edit.compounds[:level]},  # what a step is judged by, section 5.4.2
                ),
                labels={"level": level, "split": self.split},
            )
            for level in self.levels
            if level <= num_levels
        ]

    @property
    def options(self) -> Mapping[str, LabelValue]:
        """Options that the results depend on; a folder of prompts as its digest."""
        options: dict[str, LabelValue] = {
            "split": self.split,
            "levels": ",".join(map(str, self.levels)),
            "mode": self.mode,
        }
        options |= {**(self._sampling if "n" in self._metrics(self.mode)["if"] else {}), "mean": self.mean}
        options |= self._not_of_the_paper()
        if self._prompts is not None:
            options["prompts"] = ComplexEditInstructionFollowing(prompts=self._prompts).prompt_pack.digest
        return options

    operation_categories: ClassVar[Mapping[str, str]] = CATEGORIES

    dependent_options: ClassVar[Mapping[str, str]] = {"n": "mode", "seed": "mode", "max_replacements": "mode"}

    @property
    def protocols(self) -> Mapping[str, str]:
        meanings = {
            "numeric": "the mean of several grades, as in the paper",
            "token_probability": "the probability of a yes",
            "expected": "the expectation over the probabilities of the grades",
        }
        modes: dict[str, str] = {mode: meanings[mode] for mode in sorted(MODES, key=lambda mode: mode != self.mode)}
        return {**modes, _PAPER: "numeric, with the paper's system prompts"}

    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        """`if`, `ip` and `pq`, each a grade from 0 to 10; the tables compute O.

        Args:
            protocol: None is the suite's `mode`; `paper` is the mode `numeric` with criteria and rubrics as system
                prompts (figure 16); other modes by their names.

        Raises:
            InputError: For another one, and for `numeric` options with another mode.
        """
        if protocol == _PAPER and (changed := self._not_of_the_paper()):
            named = ", ".join(f"{name}={value}" for name, value in changed.items())
            raise InputError(f"the paper's protocol of complex-edit has not {named}: leave it out, or the protocol")
        mode = {None: self.mode, _PAPER: "numeric"}.get(protocol, protocol)
        if mode not in MODES:
            raise InputError(f"complex-edit has no protocol {protocol!r}: expected one of paper, {', '.join(MODES)}")
        return self._metrics(mode, paper=protocol == _PAPER)

    def _not_of_the_paper(self) -> dict[str, Any]:
        paper = {"operations": "hidden", "pq_instruction": False, "reasoning": None, "rubric": True}
        return {name: value for name, value in self._judging.items() if value != {**paper, "sampling": "sampled"}[name]}

    def _metrics(self, mode: str, *, paper: bool = False) -> dict[str, Spec]:
        specs: dict[str, Spec] = {}
        for name, kind in _KINDS.items():
            options: dict[str, Any] = {"mode": mode, **({"paper": True} if paper else {})}
            options |= {} if self._prompts is None else {"prompts": self._prompts}
            for option, value in self._not_of_the_paper().items():
                option = "instruction" if option == "pq_instruction" else option
                if option in {field.name for field in fields(kind)}:
                    options[option] = value
            with input_errors(ValueError):
                metric = kind(**options, **self._sampling)
            specs[name] = {"use": metric.card.name, **options, **({} if metric.asks_once else self._sampling)}
        return specs

    def find_output(self, outputs: Path, item: SuiteItem) -> Path | None:
        """By row number, or by order of names (see `images_by_row`). Raises `InputError` if it is ambiguous."""
        folder = level_folder(outputs, int(item.labels["level"]), alone=len(self.levels) == 1)
        return images_by_row(folder, self.rows).get(int(item.id.partition("/")[0]))

    def tables(self, results: Results) -> list[Table]:
        """IF, IP, PQ and O over the levels first (table 3), then by level (tables 4 and 5)."""
        names = {item.id: [operation.name for operation in item.sample.operations] for item in self.items}
        return tables_of(results, self.mean, names)


def _levels(text: str | int) -> tuple[int, ...]:
    """Parse `1-8`, `3` or `1,8` to sorted numbers. Raises `InputError`."""
    levels: set[int] = set()
    for part in str(text).split(","):
        match = re.fullmatch(r"\s*C?(\d+)\s*(?:-\s*C?(\d+)\s*)?", part, re.IGNORECASE)
        if match is None:
            raise InputError(f"complex-edit's levels are written as 1-{LEVELS}, 3 or 1,{LEVELS}, got {text!r}")
        levels |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    if not levels or min(levels) < 1 or max(levels) > LEVELS:
        raise InputError(f"complex-edit has the levels 1 to {LEVELS}, got {text!r}")
    return tuple(sorted(levels))


def level_folder(outputs: Path, level: int, *, alone: bool) -> Path:
    """The folder of a level. alone: it is the only level, so its images may be in `outputs` itself."""
    folder = outputs / f"C{level}"
    return outputs if alone and not folder.is_dir() else folder


def images_by_row(folder: Path, rows: int) -> Mapping[int, Path]:
    """Row -> image file, of a folder that is read again after changes. Images named by row numbers (`0000.png`) belong
    to these rows, all or some. With other names there has to be one for each row, in the order of names; else
    `InputError`."""
    return _by_number(folder, rows, folder.stat().st_mtime_ns) if folder.is_dir() else {}


@lru_cache(maxsize=64)
def _by_number(folder: Path, rows: int, changed: int) -> Mapping[int, Path]:
    paths = list_images(folder)
    numbers = [int(path.stem) if path.stem.isascii() and path.stem.isdecimal() else -1 for path in paths]
    if all(0 <= number < rows for number in numbers):
        repeated = sorted({number for number in numbers if numbers.count(number) > 1})
        if repeated:
            raise InputError(f"{folder} has several images of row {repeated[0]}: keep one of them")
        return dict(zip(numbers, paths, strict=True))
    if len(paths) != rows:
        unnumbered = next(path.name for path, number in zip(paths, numbers, strict=True) if not 0 <= number < rows)
        raise InputError(
            f"{folder} contains {len(paths)} images for {rows} rows, and {unnumbered} is not named after a row: give "
            f"one for each row in the order of the rows, or name them 0000 to {rows - 1:04}"
        )
    if min(numbers) >= 0:  # numbers without leading zeros do not sort as names
        paths = [path for _, path in sorted(zip(numbers, paths, strict=True))]
    return dict(enumerate(paths))


Mean = Literal["arithmetic", "geometric"]
MEANS: tuple[Mean, ...] = get_args(Mean)

BASE_METRICS = ("if", "ip", "pq")
OVERALL = "o"
METRICS = (*BASE_METRICS, OVERALL)


def overall(following: float, preservation: float, quality: float, *, mean: Mean = "arithmetic") -> float:
    """Complex-Edit's O: the arithmetic mean of the three (section 3.1.3), or the geometric one (section 4.1.5)."""
    values = (following, preservation, quality)
    return fmean(values) if mean == "arithmetic" else math.prod(values) ** (1 / len(values))


def value_of(metric: str, mean: Mean = "arithmetic") -> Callable[[ResultRow], float | None]:
    """A row's value of `if`, `ip`, `pq` or `o`; `o` needs the other three."""

    def value(row: ResultRow) -> float | None:
        if metric != OVERALL:
            return row.value(metric)
        following, preservation, quality = (row.value(part) for part in BASE_METRICS)
        if following is None or preservation is None or quality is None:
            return None
        return overall(following, preservation, quality, mean=mean)

    return value


def level_curve(results: Results, metric: str = OVERALL, *, mean: Mean = "arithmetic") -> dict[int, Statistic]:
    """Level -> mean of a metric (`if`, `ip`, `pq` or `o`) over its images, from the lowest level on."""
    levels = sorted({int(row.labels["level"]) for row in results.rows})
    return {
        level: results.mean([row for row in results.rows if row.labels["level"] == level], value_of(metric, mean))
        for level in levels
    }


def level_mean(figures: Mapping[int, Statistic]) -> Statistic:
    """The unweighted mean over levels; undefined if a level is."""
    return Statistic.combine(plain_mean, *figures.values())


def complexity_drop(figures: Mapping[int, Statistic]) -> Statistic:
    """Highest minus lowest level, as in tables 4 and 5: negative if scores drop with complexity."""
    return Statistic.combine(np.subtract, figures[max(figures)], figures[min(figures)], monotone=False)


_UNIT = "grade 0-10"


def tables_of(results: Results, mean: Mean, operations: Mapping[str, Sequence[str]]) -> list[Table]:
    """The leaderboard, the levels and, in mode `numeric`, the operations and the measurements. operations: item -> the
    names of its operations, in order."""
    if not results.rows:
        return []
    curves = {metric.upper(): level_curve(results, metric, mean=mean) for metric in METRICS}
    notes = [f"O: {mean} mean of IF, IP and PQ of each image."]
    tables = [leaderboard(curves, notes), levels(curves, notes)]
    by_name = operation_rows(results, operations)
    if by_name:
        rows = {
            name: {"IF": results.metric_mean(operation_results, "if")} for name, operation_results in by_name.items()
        }
        notes = ["Grades of single operations, over images and levels; their mean may differ from IF."]
        tables.append(Table("operations", "Complex-Edit by operation", ["IF"], rows, unit=_UNIT, notes=notes))
    if any(_evidence_number(part, "n")(row) is not None for row in results.rows for part in BASE_METRICS):
        tables.append(measurements(results))
    return tables


def operation_rows(results: Results, operations: Mapping[str, Sequence[str]]) -> dict[str, list[ResultRow]]:
    """Name of an atomic operation -> a row per edit with it, with its grade as `if`; sorted by name. Empty where
    operations have no grades."""
    rows_by_name: dict[str, list[ResultRow]] = {}
    graded = False
    for row in results.rows:
        score, names = row.score("if"), operations.get(row.id, ())
        credits = [] if score is None else list(score.credits.values())
        graded |= bool(credits)
        for name, credit in zip_longest(names, credits[: len(names)]):  # a score without a value has no credits
            scores = {} if credit is None else {"if": credit}
            rows_by_name.setdefault(name or "(not named)", []).append(replace(row, scores=scores))
    return dict(sorted(rows_by_name.items())) if graded else {}


def leaderboard(curves: Mapping[str, Mapping[int, Statistic]], notes: list[str]) -> Table:
    """Table 3: the three scores and O, unweighted mean over the levels."""
    level_numbers = list(next(iter(curves.values())))
    levels_text = (
        f"level C{level_numbers[0]}"
        if len(level_numbers) == 1
        else f"mean over the levels {', '.join(f'C{level}' for level in level_numbers)}"
    )
    row = {name: level_mean(figures) for name, figures in curves.items()}
    return Table("leaderboard", f"Complex-Edit, {levels_text}", list(curves), {"all": row}, unit=_UNIT, notes=notes)


def levels(curves: Mapping[str, Mapping[int, Statistic]], notes: list[str]) -> Table:
    """Tables 4 and 5: the same by level, their mean, and the difference of highest and lowest level."""
    level_numbers = list(next(iter(curves.values())))
    rows = {f"C{level}": {name: figures[level] for name, figures in curves.items()} for level in level_numbers}
    if len(level_numbers) > 1:
        rows["mean"] = {name: level_mean(figures) for name, figures in curves.items()}
        rows[f"C{level_numbers[-1]} - C{level_numbers[0]}"] = {
            name: complexity_drop(figures) for name, figures in curves.items()
        }
    return Table("levels", "Complex-Edit by level", list(curves), rows, unit=_UNIT, notes=notes)


def measurements(results: Results) -> Table:
    """Number of grades per score, their standard deviation, and the number of replaced failures."""
    columns: Mapping[str, str] = {"measurements": "n", "standard deviation": "std", "replaced": "measurements"}
    rows = {
        part.upper(): {
            column: results.mean(
                [row for row in results.rows if row.value(part) is not None], _evidence_number(part, name)
            )
            for column, name in columns.items()
        }
        for part in BASE_METRICS
    }
    notes = ["Means over images and levels. Standard deviation: of the grades of one image, over all of them."]
    return Table("measurements", "Measurements per score", list(columns), rows, notes=notes)


def _evidence_number(part: str, name: str) -> Callable[[ResultRow], float | None]:
    def value(row: ResultRow) -> float | None:
        score = row.score(part)
        evidence = {} if score is None else {item.what: item.numbers for item in score.evidence}
        if "measurements" not in evidence:
            return None
        return (
            evidence.get("replaced", {"measurements": 0.0})[name]
            if name == "measurements"
            else evidence["measurements"][name]
        )

    return value
