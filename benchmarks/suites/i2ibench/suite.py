"""I2I-Bench: 30 dimensions of single-image editing and multi-image composition, each scored where it applies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ....reward import ImageError
from ....reward.metrics.i2ibench.dimension import PACKAGE
from ....reward.metrics.i2ibench.overall import SYSTEM_PROMPTS
from ....reward.queries.prompts import Prompts
from ....reward.queries.specs import Spec
from ....reward.sample_limits import SampleTooLarge
from ....verifiers import edit_request
from ...common.errors import InputError
from ...common.problems import Problems
from ..image_index import SuiteImage, decode_images
from ..results import ResultRow, Results
from ..suite import DataProblem, LabelValue, Suite, SuiteInfo, SuiteItem, share_cases
from ..tables import Table
from .reader import I2IPrompt, prompts_file, read_prompts
from .tables import i2ibench_tables

HALVES = ("all", "single", "multi")


class I2IBench(Suite):
    """A folder with `prompts.jsonl` (see `reader`), or that file itself; outputs are `{id}.png`.

    half: `single` or `multi` for the prompts of one half only. prompts: a prompt pack for the judge. Labels of items:
    `category` and `half`; cases are scenes.
    """

    name: ClassVar[str] = "i2ibench"
    info: ClassVar[SuiteInfo] = SuiteInfo(
        "I2I-Bench",
        "Wang, Wang, Duan, Kang, Zhai, Min: I2I-Bench: A Comprehensive Benchmark Suite for Image-to-Image Editing "
        "Models, 2025",
        "the paper's prompts are not published: the licence of a constructed suite is that of its images",
        "",
    )

    def __init__(self, data: Path | None = None, *, half: str = "all", prompts: str | None = None) -> None:
        if data is None:
            raise InputError(
                "i2ibench needs the folder of its prompts: give --data; none are published, but "
                "`editcritic bench build i2ibench` constructs some for your own images"
            )
        if half not in HALVES:
            raise InputError(f"half is one of {', '.join(HALVES)}, got {half!r}")
        try:
            Prompts(PACKAGE, prompts)
        except ValueError as error:
            raise InputError(str(error)) from None
        self.half, self.prompts = half, prompts
        self.problems: Problems[DataProblem] = Problems()
        selected = [
            prompt
            for prompt in read_prompts(Path(data), self.problems)
            if half == "all" or prompt.category.multi == (half == "multi")
        ]
        self.items: Sequence[SuiteItem] = self._items(selected, prompts_file(Path(data)).parent)
        if not self.items:
            reasons = "; ".join(map(str, self.problems[:3])) or f"none of its prompts is of the half {half}"
            raise InputError(f"{data} has no usable prompts: {reasons}")
        self.digest = hashlib.sha256(
            json.dumps([_item_digest_fields(item) for item in self.items]).encode()
        ).hexdigest()
        self.items = share_cases(self.items)

    @property
    def options(self) -> Mapping[str, LabelValue]:
        """Options that the results depend on besides the data; a prompt pack as its digest."""
        options: dict[str, LabelValue] = {} if self.half == "all" else {"half": self.half}
        return options if self.prompts is None else {**options, "prompts": Prompts(PACKAGE, self.prompts).digest}

    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        """A metric for each dimension of the items, by its name, e.g. `multi-spatial-accuracy`.

        protocol: `judge-only` is the ablation of section 4.3, one query for a level, for all dimensions. `paper` sends
        what appendix F marks as system prompts as such.
        """
        if protocol not in (None, "judge-only", "paper"):
            raise InputError(f"i2ibench has no protocol {protocol!r}: expected judge-only, paper, or none")
        options: dict[str, Any] = {"judge_only": True} if protocol == "judge-only" else {}
        options |= {} if self.prompts is None else {"prompts": self.prompts}
        used = {name for item in self.items for name in item.sample.dimensions or ()}
        return {
            name: {"use": f"i2i-{name}", **options, **({"paper": True} if protocol == "paper" and marked else {})}
            for name, marked in SYSTEM_PROMPTS.items()
            if name in used
        }

    def judges(self, metric: str, item: SuiteItem) -> bool:
        return metric in (item.sample.dimensions or ())

    def tables(self, results: Results) -> list[Table]:
        """Overall, tables 1 and 2, success, category by dimension, single against multi."""

        def applies(row: ResultRow, metric: str) -> bool:
            item = self.by_id.get(row.id)
            return metric in row.scores if item is None else self.judges(metric, item)

        return i2ibench_tables(results, applies)

    def _items(self, prompts: Sequence[I2IPrompt], folder: Path) -> list[SuiteItem]:
        images = decode_images((path for prompt in prompts for path in prompt.sources), folder)
        items = []
        for prompt in prompts:
            opened = [images[path] for path in prompt.sources]
            if error := next((one for one in opened if isinstance(one, ImageError)), None):
                self.problems.append(DataProblem(prompt.where, str(error)))
                continue
            try:
                sample = edit_request(
                    prompt.instruction,
                    *(one.image for one in opened if isinstance(one, SuiteImage)),
                    id=prompt.id,
                    target_text=prompt.target_text,
                    hint=prompt.hint,
                    dimensions=prompt.dimensions,
                )
            except SampleTooLarge as problem:
                self.problems.append(DataProblem(prompt.where, str(problem)))
                continue
            labels = {"category": prompt.category.name, "half": "multi" if prompt.category.multi else "single"}
            items.append(SuiteItem(prompt.id, prompt.scene, prompt.id, sample, labels=labels))
        return items


def _item_digest_fields(item: SuiteItem) -> list[Any]:
    sample = item.sample
    sources = [source.digest for source in sample.sources]
    labels = dict(item.labels)
    return [item.id, item.case, labels, sample.instruction, sample.target_text, sample.hint, sample.dimensions, sources]
