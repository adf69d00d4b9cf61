"""The preference sets by name: where they come from, what reads them, and the rule by which rewards are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from ..rows import DataProblem
from . import imagenhub, pair_sets
from .comparison import Comparison

Rule = Literal["calibrated ties", "groups", "order", "order by task", "equal ties", "ratings"]
"""How agreement is counted.

calibrated ties: pairs with ties, with a threshold chosen on the pairs; and without ties. groups: all pairs of a group
must be right. order: the preferred edit has the higher value. order by task: the same, averaged over tasks. equal ties:
the same, and a tie is right if the values are equal. ratings: rank correlation with ratings, by model.
"""


@dataclass(frozen=True)
class PreferenceSet:
    """A set. source: paper and layout. hub: its data set on the Hugging Face hub, empty if edits are elsewhere.

    patterns: the files of it that are needed. group_by: labels that tables have rows for.
    """

    name: str
    title: str
    read: Callable[[Path], Iterator[Comparison | DataProblem]]
    rule: Rule
    source: str
    licence: str
    size: str
    hub: str = ""
    patterns: tuple[str, ...] = ("*.parquet",)
    group_by: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        names = ("name", "title", "rule", "source", "licence", "size", "hub")
        return {name: getattr(self, name) for name in names}


_SETS = (
    PreferenceSet(
        "edit-reward-bench",
        "EditReward-Bench (TIGER-Lab)",
        pair_sets.read_edit_reward_bench,
        "groups",
        "K. Wu et al.: EditReward. arXiv:2509.26346; evaluation code of github.com/TIGER-AI-Lab/EditReward",
        "code MIT; that of the data is on its page",
        "groups of 2, 3 and 4 edits; their number is not in the repository",
        hub="TIGER-Lab/EditReward-Bench",
        group_by=("size",),
    ),
    PreferenceSet(
        "edit-score-bench",
        "EditReward-Bench (EditScore, VectorSpaceLab)",
        pair_sets.read_edit_score_bench,
        "order by task",
        "X. Luo et al.: EditScore. arXiv:2509.23909; evaluation code of github.com/VectorSpaceLab/EditScore",
        "code Apache-2.0; that of the data is on its page",
        "pairs of 13 tasks in 3 dimensions",
        hub="EditScore/EditReward-Bench",
        group_by=("dimension",),
    ),
    PreferenceSet(
        "genai-bench",
        "GenAI-Bench, image editing",
        pair_sets.read_genai_bench,
        "calibrated ties",
        "D. Jiang et al.: GenAI Arena. arXiv:2406.04485; ties as in the evaluation of EditReward (arXiv:2509.26346)",
        "code MIT; that of the data is on its page",
        "919 votes (503 without ties)",
        hub="TIGER-Lab/GenAI-Bench",
        patterns=("image_edition/*",),
    ),
    PreferenceSet(
        "imagenhub",
        "ImagenHub, ratings of edits",
        imagenhub.read,
        "ratings",
        "M. Ku et al.: ImagenHub. arXiv:2310.01596; correlations as in VIEScore (arXiv:2312.14867)",
        "code and ratings MIT; the edits are on the pages of the Imagen Museum",
        "text-guided: 179 sources, 9 models, 3 raters; mask-guided: 179, 4, 3",
    ),
    PreferenceSet(
        "vc-reward-bench",
        "VCReward-Bench (GEditBench v2)",
        pair_sets.read_vc_reward_bench,
        "order",
        "Z. Jiang et al.: GEditBench v2. arXiv:2603.28547; code of github.com/ZhangqiJiang07/GEditBench_v2",
        "that of the data is on its page",
        "3,506 pairs of 21 tasks, for visual consistency",
        hub="GEditBench-v2/VCReward-Bench",
        group_by=("task",),
    ),
    PreferenceSet(
        "edit-reward-compass",
        "EditReward-Compass",
        pair_sets.read_edit_reward_compass,
        "equal ties",
        "X. Bai et al.: Edit-Compass and EditReward-Compass. arXiv:2605.13062; the repository's evaluation code",
        "that of the data is on its page",
        "2,251 pairs",
        hub="DogNeverSleep/EditReward-Compass",
        patterns=("*",),
        group_by=("dimension",),
    ),
)

PREFERENCE_SETS: Mapping[str, PreferenceSet] = MappingProxyType({one.name: one for one in _SETS})
"""By name."""
