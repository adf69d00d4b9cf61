"""I2I-Bench: 30 dimensions of editing one picture and of making one out of several, each scored where it applies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ....reward import ImageError
from ....reward.i2ibench.dimension import PACKAGE
from ....reward.i2ibench.table import TABLE
from ....reward.prompts import Prompts
from ....reward.spec import Spec
from ....verifiers import unedited
from ...inputs import InputError
from ..opening import opened
from ..results import Results, Row
from ..suite import About, Item, Label, Problem, Suite
from ..tables import Table
from .reading import Prompt, read_prompts
from .tables import tables

HALVES = ("all", "single", "multi")


class I2IBench(Suite):
    """A folder with `prompts.jsonl` (see `reading`), or that file itself; outputs are `{id}.png`.

    half: `single` or `multi` for the prompts of one half only. prompts: a prompt pack for the judge. Labels of items:
    `category` and `half`; cases are scenes.
    """

    name: ClassVar[str] = "i2ibench"
    about: ClassVar[About] = About(
        "I2I-Bench",
        "Wang, Wang, Duan, Kang, Zhai, Min: I2I-Bench: A Comprehensive Benchmark Suite for Image-to-Image Editing "
        "Models, 2025",
        "the paper's prompts are not published: whoever makes a suite says what holds for its pictures",
        "",
    )

    def __init__(self, data: Path | None = None, *, half: str = "all", prompts: str | None = None) -> None:
        if data is None:
            raise InputError(
                "i2ibench needs the folder of its prompts: give --data; none are published, and "
                "`editcritic bench prepare i2ibench` makes some of your own pictures"
            )
        if half not in HALVES:
            raise InputError(f"half is one of {', '.join(HALVES)}, got {half!r}")
        try:
            Prompts(PACKAGE, prompts)
        except ValueError as error:
            raise InputError(str(error)) from None
        self.half, self.prompts = half, prompts
        self.problems: list[Problem] = []
        wanted = [
            one
            for one in read_prompts(Path(data), self.problems)
            if half == "all" or one.category.multi == (half == "multi")
        ]
        self.items: Sequence[Item] = self._items(wanted)
        if not self.items:
            told = "; ".join(map(str, self.problems[:3])) or f"none of its prompts is of the half {half}"
            raise InputError(f"nothing in {data} can be used: {told}")
        self.digest = hashlib.sha256(json.dumps([_said(item) for item in self.items]).encode()).hexdigest()

    @property
    def options(self) -> Mapping[str, Label]:
        """What the results depend on besides the data; of a prompt pack, its digest."""
        found: dict[str, Label] = {} if self.half == "all" else {"half": self.half}
        return found if self.prompts is None else {**found, "prompts": Prompts(PACKAGE, self.prompts).digest}

    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        """A metric for each dimension that an item has, by its name, as in `multi-spatial-accuracy`.

        protocol: `judge-only` is the ablation of section 4.3, one question for a level whatever the dimension.
        """
        if protocol not in (None, "judge-only"):
            raise InputError(f"i2ibench has no protocol {protocol!r}: expected judge-only, or none")
        options: dict[str, Any] = {"judge_only": True} if protocol else {}
        options |= {} if self.prompts is None else {"prompts": self.prompts}
        there = {name for item in self.items for name in item.sample.dimensions or ()}
        return {name: {"use": f"i2i-{name}", **options} for name in TABLE if name in there}

    def judges(self, metric: str, item: Item) -> bool:
        return metric in (item.sample.dimensions or ())

    def tables(self, results: Results) -> list[Table]:
        """Overall, tables 1 and 2, success, category by dimension, single against multi."""

        def applies(row: Row, metric: str) -> bool:
            item = self.by_id.get(row.id)
            return metric in row.scores if item is None else self.judges(metric, item)

        return tables(results, applies)

    def _items(self, wanted: Sequence[Prompt]) -> list[Item]:
        pictures = opened(path for prompt in wanted for path in prompt.sources)
        found = []
        for prompt in wanted:
            sources = [pictures[path] for path in prompt.sources]
            if wrong := next((one for one in sources if isinstance(one, ImageError)), None):
                self.problems.append(Problem(prompt.where, str(wrong)))
                continue
            sample = unedited(
                prompt.instruction,
                *sources,
                id=prompt.id,
                text=prompt.text,
                hint=prompt.hint,
                dimensions=prompt.dimensions,
            )
            labels = {"category": prompt.category.name, "half": "multi" if prompt.category.multi else "single"}
            found.append(Item(prompt.id, prompt.scene, prompt.id, sample, labels=labels))
        return found


def _said(item: Item) -> list[Any]:
    sample = item.sample
    sources = [source.digest for source in sample.sources]
    labels = dict(item.labels)
    return [item.id, item.case, labels, sample.instruction, sample.text, sample.hint, sample.dimensions, sources]
