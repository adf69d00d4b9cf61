"""GEdit-Bench: edits by VIEScore's semantic consistency (SC), perceptual quality (PQ) and their root (O).

The official result files are CSV files of scores per type, of which the released code makes its statistics:
`eval_results_new/{editor}_{task_type}_gpt_score.csv` and, of all types, `..._combined_gpt_score.csv`. As in the
released code, edits without an output or without a score have no line. Paths are relative to the folder of outputs. The
released `calculate_statistics.py` computes the English averages from them. For Chinese it selects the rows with the
language `zh`, which neither these files nor the released ones have: they say `cn`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ....reward.atomic_files import write_atomically
from ....reward.metrics.viescore.metrics import PROTOCOLS, SemanticConsistency
from ....reward.queries.specs import Spec
from ....verifiers import edit_request
from ...common.csv_text import csv_text
from ...common.errors import InputError
from ...common.problems import Problems
from ..results import OUTPUTS_ENTRY, ResultRow, Results
from ..rows import DataProblem
from ..suite import LabelValue, Suite, SuiteInfo, SuiteItem, find_image, lines_digest, make_items, require_choice
from ..tables import Table
from .reader import LANGUAGES, PICTURES, TYPES, GEditRow, read_gedit
from .tables import gedit_tables

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

    data: a folder with parquet files or a data set saved by `save_to_disk`, as published; or one parquet file.
    language: `en`, `cn` or `both`. sources: the column of the sources, `input_image`, which the released code shows the
    judge, or `input_image_raw`, the pictures as they were posted. prompts: a folder of prompts that override ours.

    Outputs are `fullset/{task_type}/{language}/{key}.png`. Labels of items: `type`, `language`, `intersection` (1 for
    edits that all editors of the paper made). Cases are sources, so that both languages of one are one case.

    In protocol `official`, a source beside the outputs, `{key}_SRCIMG.png`, replaces that of the data, only `.png`
    counts, and files are read as PIL's `convert("RGB")` gives them.

    Raises `InputError` for unusable data. Invalid rows are `problems`.
    """

    name: ClassVar[str] = "gedit"
    info: ClassVar[SuiteInfo] = SuiteInfo(
        "GEdit-Bench",
        "S. Liu, Y. Han, P. Xing, F. Yin, R. Wang, W. Cheng, et al.: Step1X-Edit: A Practical Framework for General "
        "Image Editing. arXiv:2504.17761, 2025; metric: M. Ku, D. Jiang, C. Wei, X. Yue, W. Chen: VIEScore. "
        "arXiv:2312.14867, 2023",
        "MIT, by the data set's card",
        "https://huggingface.co/datasets/stepfun-ai/GEdit-Bench",
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
            raise InputError("gedit needs its data: give --data with the folder of its parquet files, or one of them")
        require_choice(self.name, "language", language, (*LANGUAGES, "both"))
        require_choice(self.name, "column of sources", sources, PICTURES)
        try:
            self._prompts = SemanticConsistency(prompts=prompts).prompt_pack
        except ValueError as error:
            raise InputError(str(error)) from None
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
        """`sc` and `pq`, each a grade from 0 to 10; the tables compute O. Raises `InputError` for another protocol."""
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
        """SC, PQ and O of both languages, of the full set first, and by type; see `tables.py`."""
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


COLUMNS = (
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
        write_atomically(path, csv_text([COLUMNS, *name_lines]))
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
