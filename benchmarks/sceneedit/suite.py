"""SceneEdit as a suite, built in: held-out edits of small scenes, where the truth about every picture is known.

The prompts are those of the tiny editor's card, and the truth beside the metrics is `learned.verdict`: what a picture
shows is found in its pixels, with the scene graph that the item carries. Everybody who can be asked about these
pictures is made by `editcritic.benchmarks.sceneedit.critics:experts`, which `bench run --experts` takes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from ...reward import Asks, Card, EditSample, Image, Score
from ...reward.sample import TASK_TYPES, Task
from ...reward.spec import Spec
from ..inputs import InputError
from ..sceneedit.cases import asked, chance_of
from ..sceneedit.learned.card import Prompt, prompts
from ..sceneedit.learned.lessons import SIZE
from ..sceneedit.learned.verdict import Verdict, verdict
from ..sceneedit.requests import Request
from ..sceneedit.scene import Backdrop, Scene, Thing
from ..sceneedit.scenes import World
from ..selection.trials import wanted
from .figures import Figure
from .results import Results, Row
from .suite import About, Item, Label, Suite
from .tables import Table

KEY = "sceneedit"
"""Of a sample's metadata: the scene and the request, as JSON."""

FOLLOWED, UNCHANGED = "truth-followed", "truth-unchanged"

_METRICS: Mapping[str, Spec] = MappingProxyType(
    {
        "following": "judge-yes-no",
        "edival-if": "edival-if",
        "edival-cc": "edival-cc",
        "edit-balanced": "edit-balanced?reader=false",
    }
)
_OFFICIAL: Mapping[str, Spec] = MappingProxyType(
    {
        "following": "judge-yes-no",
        "edival-if": "edival-if?protocol=official",
        "edival-cc": "edival-cc?protocol=official",
        "edit-balanced": "edit-balanced?protocol=official&reader=false",
    }
)
_PROTOCOLS: Mapping[str, Mapping[str, Spec]] = MappingProxyType({"paper": _METRICS, "official": _OFFICIAL})
_SAY_WHETHER = ("following", "edival-if")
"""Metrics that say whether the instruction was followed: yes from 0.5 on."""

_NOTES = (f"{FOLLOWED} and {UNCHANGED} are the truth, found in the pixels with the scene graph",)


class SceneEdit(Suite):
    """Edits of one instruction each, EdiVal's nine task types in turn.

    prompts: how many. seed: which of them; the tiny editor has learned from none. size: pixels a side; 32 is what the
    tiny editor makes. Raises `InputError` for any `data`: there is none to read.
    """

    name: ClassVar[str] = "sceneedit"
    about: ClassVar[About] = About(
        "SceneEdit",
        "The editcritic authors: SceneEdit, a world whose truth is known (docs/sceneedit.md)",
        "Apache-2.0: the pictures are drawn by this package",
        "",
    )

    def __init__(self, data: Path | None = None, *, prompts: int = 225, seed: int = 7, size: int = SIZE) -> None:
        if data is not None:
            raise InputError(f"sceneedit is built in and reads no data, got {data}: give its options only")
        if prompts < 1 or size < SIZE:
            raise InputError(f"sceneedit has 1 prompt and {SIZE} pixels a side at least, got {prompts} and {size}")
        self.prompts, self.seed, self.size = prompts, seed, size
        self.items: Sequence[Item] = [_item(number, one) for number, one in enumerate(_prompts(prompts, seed, size))]
        said = [[item.id, item.sample.instruction, item.sample.source.digest] for item in self.items]
        self.digest = hashlib.sha256(json.dumps(said).encode()).hexdigest()

    @property
    def options(self) -> Mapping[str, Label]:
        return {"prompts": self.prompts, "seed": self.seed, "size": self.size}

    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        """protocol: of EdiVal's metrics, `paper` (default; consistency is `fixed`) or `official`."""
        found = _PROTOCOLS.get(protocol or "paper")
        if found is None:
            raise InputError(f"sceneedit has no protocol {protocol!r}: expected one of {', '.join(_PROTOCOLS)}")
        return {**found, FOLLOWED: f"{__name__}:TruthFollowed", UNCHANGED: f"{__name__}:TruthUnchanged"}

    def tables(self, results: Results) -> list[Table]:
        """Means of the truth and of each metric, over all items and by task type, and how well the two agree."""
        columns = (FOLLOWED, UNCHANGED, *_METRICS)
        types: dict[str, Sequence[Row]] = {kind: rows for kind in TASK_TYPES if (rows := results.where(type=kind))}

        def table(name: str, title: str, of: Mapping[str, Sequence[Row]]) -> Table:
            means = {
                row: {column: results.mean(rows, _value(column)) for column in columns} for row, rows in of.items()
            }
            return Table(name, title, columns, means, 100.0, "percent", 1, _NOTES, headline=FOLLOWED)

        return [
            table("leaderboard", "SceneEdit", {"all": results.rows}),
            table("types", "SceneEdit by task type", types),
            agreement(results),
        ]


def agreement(results: Results) -> Table:
    """How well each metric agrees with the truth, over the items where both have a value.

    accuracy, false yes, false no: of metrics that say whether the instruction was followed, yes from 0.5 on; false yes
    is a share of what was truly not followed, false no of what was. r: Pearson's.
    """
    rows: dict[str, dict[str, Figure]] = {}
    for name in _METRICS:
        found = {}
        if name in _SAY_WHETHER:
            found["accuracy"] = results.mean(results.rows, _wrong(name, right=True))
            for column, truth in (("false yes", 0.0), ("false no", 1.0)):
                found[column] = results.mean(
                    [row for row in results.rows if row.value(FOLLOWED) == truth], _wrong(name)
                )
        for column, truth_name in (("r, followed", FOLLOWED), ("r, unchanged", UNCHANGED)):
            found[column] = results.correlation(results.rows, _value(name), _value(truth_name))
        rows[name] = found
    columns = ("accuracy", "false yes", "false no", "r, followed", "r, unchanged")
    return Table("agreement", "Agreement with the truth", columns, rows, digits=3, notes=_NOTES)


def _value(name: str) -> Callable[[Row], float | None]:
    return lambda row: row.value(name)


def _truly(results: Results, followed: float) -> list[Row]:
    return [row for row in results.rows if row.value(FOLLOWED) == followed]


def _wrong(name: str, *, right: bool = False) -> Callable[[Row], float | None]:
    def wrong(row: Row) -> float | None:
        said, truth = row.value(name), row.value(FOLLOWED)
        return None if said is None or truth is None else float(((said >= 0.5) == (truth == 1.0)) is right)

    return wrong


# -- items ------------------------------------------------------------------------------------------------------------


def _prompts(count: int, seed: int, size: int) -> Sequence[Prompt]:
    if size == SIZE:
        return prompts(count, seed)
    found = []
    for number in range(count):
        chance = chance_of("test", seed, f"suite {size}", number)
        before, request = asked(chance, World.of(size), TASK_TYPES[number % len(TASK_TYPES)])
        found.append(Prompt(request, before))
    return found


def _item(number: int, prompt: Prompt) -> Item:
    name = f"{number:04}"
    sample = wanted(name, prompt.request, prompt.before)
    sample = replace(sample, metadata={KEY: prompt_to_json(prompt)})
    return Item(name, name, name, sample, labels={"type": prompt.request.task.type})


def prompt_to_json(prompt: Prompt) -> dict[str, Any]:
    """The scene and the request, plain JSON."""
    plain: dict[str, Any] = json.loads(
        json.dumps({"scene": prompt.before.to_json(), "request": asdict(prompt.request)})
    )
    return plain


def prompt_from_json(data: Mapping[str, Any]) -> Prompt:
    """Raises LookupError, TypeError or ValueError for what is no prompt."""
    said = dict(data["request"])
    task = {**said["task"], "keep": tuple(said["task"]["keep"])}
    return Prompt(
        Request(
            Task(**task),
            said["instruction"],
            tuple(said["targets"]),
            said["reference"],
            tuple(said["gone"]),
            tuple(Thing(**thing) for thing in said["put"]),
            None if said["backdrop"] is None else Backdrop(**said["backdrop"]),
        ),
        Scene.from_json(data["scene"]),
    )


def prompt_of(sample: EditSample) -> Prompt | None:
    """What a sample of this suite is about; None for any other sample."""
    said = sample.metadata.get(KEY)
    return None if said is None else prompt_from_json(said)


# -- the truth --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TruthFollowed:
    """Whether the picture shows what was asked for, 1 or 0: a metric that asks nobody."""

    card: ClassVar[Card] = Card(
        FOLLOWED,
        1,
        "the instruction was truly followed, as the scene graph tells",
        requires=("metadata",),
        source="docs/sceneedit.md",
        gaming="It is the truth of SceneEdit only, as far as the pixels can be read.",
        about="following",
    )

    def __call__(self, sample: EditSample) -> Asks[Score]:
        return _true(sample, lambda found: float(found.followed))


@dataclass(frozen=True)
class TruthUnchanged:
    """The share of pixels outside of the target that are as in the source (`learned.verdict`)."""

    card: ClassVar[Card] = Card(
        UNCHANGED,
        1,
        "outside of the target every pixel is within 16 grey levels of the source",
        requires=("metadata",),
        source="docs/sceneedit.md",
        gaming="It is the truth of SceneEdit only: an editor that returns the source has 1.",
        about="consistency",
    )

    def __call__(self, sample: EditSample) -> Asks[Score]:
        return _true(sample, lambda found: found.unchanged)


def _true(sample: EditSample, value: Callable[[Verdict], float]) -> Asks[Score]:
    yield from ()  # a program that has no question
    prompt = prompt_of(sample)
    if prompt is None:
        return Score.not_applicable("nobody knows the scene graph of this picture: it is none of SceneEdit's")
    if sample.edited.size != sample.source.size:
        made, drawn = (f"{image.width} x {image.height}" for image in (sample.edited, sample.source))
        return Score.abstained(f"the picture is {made} and its scene {drawn}: the truth is known at that size only")
    return Score.of(value(_seen(json.dumps(sample.metadata[KEY]), sample.edited)))


@lru_cache(maxsize=1024)  # both truths of a picture are of one look at it
def _seen(said: str, picture: Image) -> Verdict:
    prompt = prompt_from_json(json.loads(said))
    return verdict(prompt.request, prompt.before, picture)
