"""GEdit-Bench: edits by VIEScore's semantic consistency (SC), perceptual quality (PQ) and their root (O).

The official CSV files, `eval_results_new/{editor}_{task_type}_gpt_score.csv` and `..._combined_gpt_score.csv`, have no
line for edits without output or score. The released `calculate_statistics.py` computes the English averages from them;
for Chinese it selects rows of the language `zh`, while these and the released files say `cn`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ....reward import Image, ImageError
from ....reward.atomic_files import write_atomically
from ....reward.metrics.viescore.metrics import MAX_GRADE, PROTOCOLS, SemanticConsistency, overall
from ....reward.queries.specs import Spec
from ....verifiers import edit_request
from ...common.csv_text import csv_text
from ...common.errors import InputError, input_errors
from ...common.problems import Problems
from ..bootstrap import Statistic, plain_mean
from ..results import OUTPUTS_ENTRY, ResultRow, Results
from ..rows import DataProblem, Row, choice, file_name, read_rows, reasons, text, usable
from ..split_files import extracted_images, find_split_files
from ..suite import (
    LabelValue,
    Suite,
    SuiteInfo,
    SuiteItem,
    find_image,
    lines_digest,
    make_items,
    missing_data,
    require_choice,
)
from ..tables import Table

PICTURES: Sequence[str] = ("input_image", "input_image_raw")
"""Columns of pictures: as the judge sees them, and as people posted them."""

_COLUMNS = ("task_type", "key", "instruction", "instruction_language", "Intersection_exist")

FULLSET = "fullset"
"""The folder of outputs that the released code reads."""

_RELEASED = "official"
_BESIDE = "sources_beside_outputs"
_MEANINGS = {
    "fixed": "two integers from 0 to 10, or a failed score",
    _RELEASED: "grades and files as the released code reads them, without its random grades",
}


class GEditBench(Suite):
    """GEdit-Bench in one language or both.

    Outputs are `fullset/{task_type}/{language}/{key}.png`. Labels of items: `type`, `language`, `intersection` (1 for
    edits that all editors of the paper made). Cases are sources, so that both languages of one are one case.

    In protocol `official`, a source beside the outputs, `{key}_SRCIMG.png`, replaces that of the data, only `.png`
    counts, and files are read as PIL's `convert("RGB")` gives them.

    Raises `InputError` for unusable data. Invalid rows are `problems`.

    Args:
        data: A folder with parquet files or a data set saved by `save_to_disk`, as published; or one parquet file.
        language: `en`, `cn` or `both`.
        sources: The column of the sources, `input_image`, which the released code shows the judge, or
            `input_image_raw`, the pictures as they were posted.
        prompts: A folder of prompts that override ours.
    """

    name: ClassVar[str] = "gedit"
    info: ClassVar[SuiteInfo] = SuiteInfo(
        "GEdit-Bench",
        "S. Liu, Y. Han, P. Xing, F. Yin, R. Wang, W. Cheng, et al.: Step1X-Edit: A Practical Framework for General "
        "Image Editing. arXiv:2504.17761, 2025; metric: M. Ku, D. Jiang, C. Wei, X. Yue, W. Chen: VIEScore. "
        "arXiv:2312.14867, 2023",
        "MIT, by the data set's card",
        "https://huggingface.co/datasets/stepfun-ai/GEdit-Bench",
        "parquet files, or a saved data set",
        ", ".join(f"`{column}`" for column in _COLUMNS) + ", and " + " or ".join(f"`{column}`" for column in PICTURES),
        f"{FULLSET}/{{task_type}}/{{language}}/{{key}}.png",
        ("viescore-sc", "viescore-pq"),
    )

    def __init__(
        self,
        data: str | Path | None = None,
        *,
        language: str = "both",
        sources: str = "input_image",
        prompts: str | None = None,
    ) -> None:
        if data is None:
            raise missing_data(self.name, "the folder of its parquet files, or one of them")
        require_choice(self.name, "language", language, (*LANGUAGES, "both"))
        require_choice(self.name, "column of sources", sources, PICTURES)
        with input_errors(ValueError):
            self._prompts = SemanticConsistency(prompts=prompts).prompt_pack
        self.language, self.sources, self.released = language, sources, False
        languages = tuple(LANGUAGES) if language == "both" else (language,)
        problems = Problems[DataProblem]()
        rows = read_gedit(Path(data), languages, sources, problems)
        items = make_items(rows, _items, lambda row: row.id, problems)
        # instructions, labels and pixels
        self.digest = lines_digest(
            [item.id, item.sample.instruction, dict(item.labels), item.sample.source.digest] for item in items
        )
        self._hold(items, problems, f"none of the rows of {data} is usable")

    @property
    def options(self) -> Mapping[str, LabelValue]:
        """Options that the results depend on besides the data; a folder of prompts as its digest."""
        options: dict[str, LabelValue] = {"language": self.language, "sources": self.sources}
        return options if self._prompts.overrides is None else {**options, "prompts": self._prompts.digest}

    @property
    def protocols(self) -> Mapping[str, str]:
        return {protocol: _MEANINGS[protocol] for protocol in PROTOCOLS}

    def under(self, protocol: str | None) -> GEditBench:
        """In `official`, files are read as in the released code."""
        if self.released == (protocol == _RELEASED):
            return self
        suite = copy.copy(self)
        suite.released = protocol == _RELEASED
        suite.reading = "stored" if suite.released else "upright"
        return suite

    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        """`sc` and `pq`, each a grade from 0 to 10; the tables compute O.

        Raises:
            InputError: For another protocol.
        """
        protocol = protocol or PROTOCOLS[0]
        require_choice(self.name, "protocol", protocol, PROTOCOLS)
        shared: dict[str, Any] = {"protocol": protocol}
        if self._prompts.overrides is not None:
            shared["prompts"] = self._prompts.overrides
        return {"sc": {"use": "viescore-sc", **shared}, "pq": {"use": "viescore-pq", **shared}}

    def find_output(self, outputs: Path, item: SuiteItem) -> Path | None:
        """`fullset/{task_type}/{language}/{key}.png`; without `fullset` if there is no such folder.

        In protocol `official` no other format is read, as in the released code.
        """
        image = find_image(_folder(outputs) / item.output_path.removeprefix(f"{FULLSET}/"))
        return None if self.released and image is not None and image.suffix != ".png" else image

    def find_source(self, outputs: Path, item: SuiteItem) -> Path | None:
        """In protocol `official`, the source beside the output, if there is one."""
        path = _folder(outputs) / f"{item.output_path.removeprefix(f'{FULLSET}/')}_SRCIMG.png"
        return path if self.released and path.is_file() else None

    @staticmethod
    def is_source_name(name: str) -> bool:
        """As those that the released code writes beside its outputs."""
        return name.endswith("_SRCIMG.png")

    def output_facts(self, outputs: Path) -> Mapping[str, Any]:
        """In protocol `official`, how many sources are beside the outputs: `sources_beside_outputs`."""
        if not self.released:
            return {}
        return {_BESIDE: sum(self.find_source(outputs, item) is not None for item in self.items)}

    def tables(self, results: Results) -> list[Table]:
        """SC, PQ and O of both languages, of the full set first, and by type."""
        notes = []
        beside = results.provenance.get(OUTPUTS_ENTRY, {}).get(_BESIDE)
        if isinstance(beside, int):
            notes.append(
                f"{beside} of {len(self.items)} sources are beside the outputs; the others are those of the data, "
                "where the released code leaves the edit out."
            )
            notes.append(
                "The released code gives a reply that it cannot read a random grade, and drops edits that it cannot "
                "score; here they are missing values."
            )
        return gedit_tables(results, notes)

    def write_official_files(self, results: Results, folder: Path) -> list[Path]:
        """Write the tables of scores that the released code computes its statistics from."""
        paths = {item.id: item.output_path for item in self.items}
        return write_official_files(results, paths, folder)


def _folder(outputs: Path) -> Path:
    folder = outputs / FULLSET
    return folder if folder.is_dir() else outputs


def _items(row: GEditRow) -> list[SuiteItem]:
    labels: dict[str, LabelValue] = {"type": row.type, "language": row.language, "intersection": int(row.intersection)}
    sample = edit_request(row.instruction, row.image, id=row.id)
    path = f"{FULLSET}/{row.type}/{row.language}/{row.key}"
    return [SuiteItem(row.id, row.id, path, sample, labels=labels)]


FILE_COLUMNS = (
    "source_image",
    "edited_image",
    "instruction",
    "sementics_score",
    "quality_score",
    "intersection_exist",
    "instruction_language",
)
"""As the released code spells them."""

FOLDER = "eval_results_new"


def write_official_files(results: Results, paths: Mapping[str, str], folder: Path) -> list[Path]:
    """Write the files under `folder` and return their paths. paths: item -> path of its output, without suffix."""
    into = folder / FOLDER
    into.mkdir(parents=True, exist_ok=True)
    editor = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in results.editor).strip(".")
    lines = {kind: _lines(results.rows, paths, kind) for kind in TYPES}
    lines["combined"] = [line for kind_lines in lines.values() for line in kind_lines]
    written = []
    for name, name_lines in lines.items():
        path = into / f"{editor or 'editor'}_{name}_gpt_score.csv"
        write_atomically(path, csv_text([FILE_COLUMNS, *name_lines]))
        written.append(path)
    return written


def _lines(rows: Sequence[ResultRow], paths: Mapping[str, str], kind: str) -> list[list[object]]:
    lines: list[list[object]] = []
    for row in rows:
        sc, pq = row.score("sc"), row.score("pq")
        if row.labels.get("type") != kind or sc is None or pq is None or sc.value is None or pq.value is None:
            continue
        path = paths[row.id]
        lines.append(
            [
                f"{path}_SRCIMG.png",
                f"{path}.png",
                row.instruction,
                sc.value,
                pq.value,
                bool(row.labels["intersection"]),
                row.labels["language"],
            ]
        )
    return lines


AVERAGE = "Average"
COLUMNS = ("SC", "PQ", "O")
_UNIT = "grade 0-10"
_GRADES: Mapping[str, tuple[str, str]] = {
    "Success": ("sc", "success"),
    "No over-editing": ("sc", "no_overediting"),
    "Naturalness": ("pq", "naturalness"),
    "No artifacts": ("pq", "no_artifacts"),
}


def gedit_tables(results: Results, notes: Sequence[str] = ()) -> list[Table]:
    """The full set and the intersection subset of the languages, the single grades, and each by type (appendix)."""
    languages = [language for language in LANGUAGES if results.filter(language=language)]
    if not languages:
        return []
    full = {language: results.filter(language=language) for language in languages}
    subset = {language: results.filter(language=language, intersection=1) for language in languages}
    all_notes = ["O: root of SC x PQ of each edit; the average is the plain mean over the types.", *notes]
    above = sum(any((row.value(name) or 0) > MAX_GRADE for name in ("sc", "pq")) for row in results.rows)
    if above:
        edits = "edit has" if above == 1 else "edits have"
        all_notes.append(f"{above} {edits} a grade above {MAX_GRADE}, where the scale ends: as released, it counts.")
    all_notes += [note for language in languages if (note := _absent_types(language, full[language]))]
    tables = [_languages("leaderboard", "GEdit-Bench, full set", results, full, all_notes)]
    subset = {language: rows for language, rows in subset.items() if rows}
    if subset:
        tables.append(_languages("intersection", "GEdit-Bench, intersection subset", results, subset, all_notes[:1]))
    tables.append(_grades(results, full))
    for language, rows in full.items():
        tables.append(_types(f"types-{language}", f"GEdit-Bench by type, {LANGUAGES[language]}", results, rows))
    for language, rows in subset.items():
        title = f"GEdit-Bench by type, {LANGUAGES[language]}, intersection subset"
        tables.append(_types(f"types-{language}-intersection", title, results, rows))
    return tables


def value_of(column: str) -> Callable[[ResultRow], float | None]:
    """SC, PQ or O of a row; O needs both of the others."""

    def value(row: ResultRow) -> float | None:
        sc, pq = row.value("sc"), row.value("pq")
        if column != "O":
            return sc if column == "SC" else pq
        return None if sc is None or pq is None else overall(sc, pq)

    return value


def _languages(
    name: str, title: str, results: Results, rows: Mapping[str, Sequence[ResultRow]], notes: Sequence[str]
) -> Table:
    figures = {
        f"{language.upper()} {column}": _average(results, language_rows, value_of(column))
        for language, language_rows in rows.items()
        for column in COLUMNS
    }
    headline = f"{next(iter(rows)).upper()} O"
    return Table(name, title, list(figures), {"all": figures}, unit=_UNIT, notes=notes, ranking_column=headline)


def _grades(results: Results, rows: Mapping[str, Sequence[ResultRow]]) -> Table:
    """The two grades of each question, of which the lower one counts."""
    figures = {
        LANGUAGES[language]: {
            column: _average(results, language_rows, lambda row, path=path: row.value(*path))  # type: ignore[misc]
            for column, path in _GRADES.items()
        }
        for language, language_rows in rows.items()
    }
    notes = ["SC is the lower of the first two grades of an edit, PQ that of the others."]
    return Table("grades", "GEdit-Bench, grades of the judge", list(_GRADES), figures, unit=_UNIT, notes=notes)


def _types(name: str, title: str, results: Results, rows: Sequence[ResultRow]) -> Table:
    figures: dict[str, dict[str, Statistic]] = {
        kind: {column: results.mean(kind_rows, value_of(column)) for column in COLUMNS}
        for kind, kind_rows in _by_type(rows).items()
    }
    figures[AVERAGE] = {column: _average(results, rows, value_of(column)) for column in COLUMNS}
    return Table(name, title, COLUMNS, figures, unit=_UNIT)


def _average(results: Results, rows: Sequence[ResultRow], value: Callable[[ResultRow], float | None]) -> Statistic:
    return Statistic.combine(plain_mean, *(results.mean(kind_rows, value) for kind_rows in _by_type(rows).values()))


def _by_type(rows: Sequence[ResultRow]) -> dict[str, list[ResultRow]]:
    by_type = {kind: [row for row in rows if row.labels.get("type") == kind] for kind in TYPES}
    return {kind: kind_rows for kind, kind_rows in by_type.items() if kind_rows}


def _absent_types(language: str, rows: Sequence[ResultRow]) -> str:
    present = _by_type(rows)
    absent = [kind for kind in TYPES if kind not in present]
    if not absent:
        return ""
    return f"{LANGUAGES[language]}: the data have no edits of {', '.join(absent)}; the average is over {len(present)}."


TYPES: Sequence[str] = (
    "background_change",
    "color_alter",
    "material_alter",
    "motion_change",
    "ps_human",
    "style_change",
    "subject-add",
    "subject-remove",
    "subject-replace",
    "text_change",
    "tone_transfer",
)
"""The values of `task_type`, in the order of the released tables."""

LANGUAGES: Mapping[str, str] = {"en": "English", "cn": "Chinese"}

_SPLIT = "train"


@dataclass(frozen=True, slots=True)
class GEditRow:
    """A row. type: of `TYPES`. language: of `LANGUAGES`. key: names the output. intersection: see the module."""

    type: str
    key: str
    language: str
    instruction: str
    intersection: bool
    image: Image

    @property
    def id(self) -> str:
        """Unique among the rows."""
        return f"{self.language}.{self.type}.{self.key}"


def read_gedit(data: Path, languages: Sequence[str], pictures: str, problems: Problems[DataProblem]) -> list[GEditRow]:
    """The valid rows in these languages. data: parquet shards, one parquet file, or a data set saved by `save_to_disk`.
    pictures: the column of the sources. Raises `InputError` if the data cannot be read, or has no such rows."""
    tables = find_split_files(data, _SPLIT, (*_COLUMNS, pictures), "GEdit-Bench")
    images = extracted_images("gedit", tables, pictures)
    rows = (
        (where, {**cells, pictures: image})
        for image, (where, cells) in zip(images, tables.rows(*_COLUMNS), strict=True)
        if cells["instruction_language"] not in LANGUAGES or cells["instruction_language"] in languages
    )
    each = read_rows(rows, lambda row, where: _row(row, pictures), lambda row: row.id)
    found = usable(each, problems)
    if not found:
        in_languages = " or ".join(LANGUAGES[one] for one in languages)
        raise InputError(f"{data} has no usable rows in {in_languages}: {reasons(problems, 'it has none')}")
    return found


def _row(cells: Row, pictures: str) -> GEditRow:
    image = cells[pictures]
    kind = choice(cells, "task_type", {one: one for one in TYPES})
    language = choice(cells, "instruction_language", {one: one for one in LANGUAGES})
    instruction, intersection = text(cells, "instruction"), cells["Intersection_exist"]
    if "\\" in text(cells, "key"):
        raise ValueError(f"{cells['key'][:80]!r} is not a file name, and outputs are named after it")
    if intersection not in (True, False):
        raise ValueError(f"expected true or false in 'Intersection_exist', got {str(intersection)!r:.80}")
    if isinstance(image, ImageError):
        raise ValueError(f"{pictures}: {image}")
    return GEditRow(kind, file_name(cells["key"]), language, instruction, bool(intersection), image)
