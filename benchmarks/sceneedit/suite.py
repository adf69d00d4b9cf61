"""SceneEdit as a built-in suite: held-out edits of small scenes whose ground truth is known.

The prompts are those of `editor_evaluation`. The truth beside the metrics is `recovered_truth`: the content of an image
is recovered from its pixels, with the scene graph of the item. Experts for these images:
`bench run --experts editcritic.benchmarks.sceneedit.scene_experts:scene_experts`.
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

from ...reward import Card, EditSample, Image, Program, Score
from ...reward.queries.specs import Spec
from ...reward.sample import TASK_TYPES, Task
from ..common.errors import InputError
from ..suites.bootstrap import Statistic
from ..suites.results import ResultRow, Results
from ..suites.suite import LabelValue, Suite, SuiteInfo, SuiteItem
from ..suites.tables import Table
from .cases import random_scene_request, seeded_rng
from .scene_generation import SceneConfig
from .scene_graph import Backdrop, Scene, SceneObject
from .scene_requests import SceneRequest
from .tiny_editor.editor_evaluation import (
    RecoveredTruth,
    ScenePrompt,
    held_out_prompts,
    recovered_truth,
    request_sample,
)
from .tiny_editor.training_examples import SIZE

PROMPT_METADATA_KEY = "sceneedit"
"""Key of a sample's metadata: the scene and the request, as JSON."""

FOLLOWED, UNCHANGED = "truth-followed", "truth-unchanged"

_METRICS: Mapping[str, Spec] = MappingProxyType(
    {
        "following": "judge-yes-no",
        "edival-if": "edival-if",
        "edival-cc": "edival-cc",
        "edit-balanced": "edit-balanced?prompt_injection_guard=false",
        "any-edit": "any-edit?text_guard=false",
    }
)
_OFFICIAL: Mapping[str, Spec] = MappingProxyType(
    {
        "following": "judge-yes-no",
        "edival-if": "edival-if?protocol=official",
        "edival-cc": "edival-cc?protocol=official",
        "edit-balanced": "edit-balanced?protocol=official&prompt_injection_guard=false",
        "any-edit": "any-edit?text_guard=false",
    }
)
_PROTOCOLS: Mapping[str, Mapping[str, Spec]] = MappingProxyType({"paper": _METRICS, "official": _OFFICIAL})
_BINARY_METRICS = ("following", "edival-if")  # metrics of whether the instruction was followed: yes from 0.5 on

_NOTES = (f"{FOLLOWED} and {UNCHANGED} are recovered from the pixels with the scene graph, which may err",)


_MAX_PIXELS = 2**25  # of all sources; a minute or less. The options may be a stranger's


class SceneEdit(Suite):
    """Edits of one instruction each, EdiVal's nine task types in turn.

    Args:
        prompts: How many.
        seed: Which of them; the tiny editor was trained on none.
        size: Pixels a side; the tiny editor makes 32.

    Raises:
        InputError: For any `data`: the suite reads none.
    """

    name: ClassVar[str] = "sceneedit"
    info: ClassVar[SuiteInfo] = SuiteInfo(
        "SceneEdit",
        "The editcritic authors: SceneEdit, drawn images whose truth is known (docs/sceneedit.md)",
        "Apache-2.0: the images are drawn by this package",
        "",
        outputs="{number}.png",
        metrics=(*map(str, _METRICS.values()), "truth-followed", "truth-unchanged"),
    )

    def __init__(self, data: Path | None = None, *, prompts: int = 225, seed: int = 7, size: int = SIZE) -> None:
        if data is not None:
            raise InputError(f"sceneedit is built in and reads no data, got {data}: pass its options only")
        if prompts < 1 or size < SIZE:
            raise InputError(f"sceneedit needs at least 1 prompt and {SIZE} pixels a side, got {prompts} and {size}")
        if prompts * size**2 > _MAX_PIXELS:
            raise InputError(
                f"sceneedit draws at most {_MAX_PIXELS:,} pixels, got {prompts:,} prompts of {size:,} x {size:,}"
            )
        self.prompts, self.seed, self.size = prompts, seed, size
        self.items: Sequence[SuiteItem] = [
            _item(number, prompt) for number, prompt in enumerate(_prompts(prompts, seed, size))
        ]
        identity = [[item.id, item.sample.instruction, item.sample.source.digest] for item in self.items]
        self.digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()

    @property
    def options(self) -> Mapping[str, LabelValue]:
        return {"prompts": self.prompts, "seed": self.seed, "size": self.size}

    @property
    def protocols(self) -> Mapping[str, str]:
        return {
            "paper": "EdiVal's IF as in its paper, CC with the released code's errors mended",
            "official": "both as EdiVal's released code computes them",
        }

    def metrics(self, protocol: str | None = None) -> Mapping[str, Spec]:
        """protocol: of EdiVal's metrics, `paper` (default; consistency is `fixed`) or `official`."""
        metrics = _PROTOCOLS.get(protocol or "paper")
        if metrics is None:
            raise InputError(f"sceneedit has no protocol {protocol!r}: expected one of {', '.join(_PROTOCOLS)}")
        return {**metrics, FOLLOWED: "truth-followed", UNCHANGED: "truth-unchanged"}

    def tables(self, results: Results) -> list[Table]:
        """Means of the truth and of each metric, over all items and by task type, and their agreement."""
        columns = (FOLLOWED, UNCHANGED, *_METRICS)
        types: dict[str, Sequence[ResultRow]] = {
            kind: rows for kind in TASK_TYPES if (rows := results.filter(type=kind))
        }

        def table(name: str, title: str, of: Mapping[str, Sequence[ResultRow]]) -> Table:
            means = {
                row: {column: results.mean(rows, _value(column)) for column in columns} for row, rows in of.items()
            }
            return Table(name, title, columns, means, 100.0, "percent", 1, _NOTES, ranking_column=FOLLOWED)

        return [
            table("leaderboard", "SceneEdit", {"all": results.rows}),
            table("types", "SceneEdit by task type", types),
            truth_agreement(results),
        ]


def truth_agreement(results: Results) -> Table:
    """How well each metric agrees with the truth, over the items where both have a value.

    accuracy, false yes, false no: of metrics of whether the instruction was followed, yes from 0.5 on; false yes is a
    share of the edits that do not follow it, false no of those that do. r: Pearson's.
    """
    rows: dict[str, dict[str, Statistic]] = {}
    for name in _METRICS:
        statistics = {}
        if name in _BINARY_METRICS:
            statistics["accuracy"] = results.mean(results.rows, _error_rate(name, right=True))
            for column, truth in (("false yes", 0.0), ("false no", 1.0)):
                statistics[column] = results.mean(
                    [row for row in results.rows if row.value(FOLLOWED) == truth], _error_rate(name)
                )
        for column, truth_name in (("r, followed", FOLLOWED), ("r, unchanged", UNCHANGED)):
            statistics[column] = results.correlation(results.rows, _value(name), _value(truth_name))
        rows[name] = statistics
    columns = ("accuracy", "false yes", "false no", "r, followed", "r, unchanged")
    return Table("agreement", "Agreement with the truth", columns, rows, digits=3, notes=_NOTES)


def _value(name: str) -> Callable[[ResultRow], float | None]:
    return lambda row: row.value(name)


def _error_rate(name: str, *, right: bool = False) -> Callable[[ResultRow], float | None]:
    def wrong(row: ResultRow) -> float | None:
        value, truth = row.value(name), row.value(FOLLOWED)
        return None if value is None or truth is None else float(((value >= 0.5) == (truth == 1.0)) is right)

    return wrong


# -- items ------------------------------------------------------------------------------------------------------------


def _prompts(count: int, seed: int, size: int) -> Sequence[ScenePrompt]:
    if size == SIZE:
        return held_out_prompts(count, seed)
    prompts = []
    for number in range(count):
        rng = seeded_rng("test", seed, f"suite {size}", number)
        before, request = random_scene_request(rng, SceneConfig.for_size(size), TASK_TYPES[number % len(TASK_TYPES)])
        prompts.append(ScenePrompt(request, before))
    return prompts


def _item(number: int, prompt: ScenePrompt) -> SuiteItem:
    name = f"{number:04}"
    sample = request_sample(name, prompt.request, prompt.before)
    sample = replace(sample, metadata={PROMPT_METADATA_KEY: prompt_to_json(prompt)})
    return SuiteItem(name, name, name, sample, labels={"type": prompt.request.task.type})


def prompt_to_json(prompt: ScenePrompt) -> dict[str, Any]:
    """The scene and the request, plain JSON."""
    plain: dict[str, Any] = json.loads(
        json.dumps({"scene": prompt.before.to_json(), "request": asdict(prompt.request)})
    )
    return plain


def prompt_from_json(data: Mapping[str, Any]) -> ScenePrompt:
    """The prompt that `prompt_to_json` wrote. Raises LookupError, TypeError or ValueError for other data."""
    request = dict(data["request"])
    task = {**request["task"], "keep": tuple(request["task"]["keep"])}
    return ScenePrompt(
        SceneRequest(
            Task(**task),
            request["instruction"],
            tuple(request["target_ids"]),
            request["reference_id"],
            tuple(request["removed"]),
            tuple(SceneObject(**obj) for obj in request["placed"]),
            None if request["backdrop"] is None else Backdrop(**request["backdrop"]),
        ),
        Scene.from_json(data["scene"]),
    )


def prompt_of(sample: EditSample) -> ScenePrompt | None:
    """The prompt of a sample of this suite; None for any other sample."""
    encoded = sample.metadata.get(PROMPT_METADATA_KEY)
    return None if encoded is None else prompt_from_json(encoded)


# -- the truth --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TruthFollowed:
    """Whether the image shows what was requested, 1 or 0: a metric without queries."""

    card: ClassVar[Card] = Card(
        FOLLOWED,
        1,
        "the instruction was truly followed, by the scene graph",
        requires=("metadata",),
        source="docs/sceneedit.md",
        failure_modes="It is the truth of SceneEdit only, as far as it can be recovered from the pixels.",
        aspect="following",
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        return _truth_score(sample, lambda truth: float(truth.followed))


@dataclass(frozen=True)
class TruthUnchanged:
    """The share of pixels outside the target that are as in the source (`recovered_truth`)."""

    card: ClassVar[Card] = Card(
        UNCHANGED,
        1,
        "outside the target every pixel is within 16 grey levels of the source",
        requires=("metadata",),
        source="docs/sceneedit.md",
        failure_modes="It is the truth of SceneEdit only: an editor that returns the source has 1.",
        aspect="consistency",
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        return _truth_score(sample, lambda truth: truth.unchanged)


def _truth_score(sample: EditSample, value: Callable[[RecoveredTruth], float]) -> Program[Score]:
    yield from ()  # a program without queries
    prompt = prompt_of(sample)
    if prompt is None:
        return Score.not_applicable("the sample has no scene graph: it is not one of SceneEdit's")
    if sample.edited.size != sample.source.size:
        edited_size, scene_size = (f"{image.width} x {image.height}" for image in (sample.edited, sample.source))
        return Score.abstained(
            f"the image is {edited_size} and its scene {scene_size}: the truth is known at that size only", cause="edit"
        )
    return Score.of(value(_truth_evidence(json.dumps(sample.metadata[PROMPT_METADATA_KEY]), sample.edited)))


@lru_cache(maxsize=1024)  # both truths of an image need one recovery
def _truth_evidence(encoded: str, picture: Image) -> RecoveredTruth:
    prompt = prompt_from_json(json.loads(encoded))
    return recovered_truth(prompt.request, prompt.before, picture)
