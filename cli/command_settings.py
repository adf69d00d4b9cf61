"""The keys of `--config` files of commands that have no others: those of `bench run` and `serve` stand elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ..benchmarks.common.settings_files import Settings
from ..benchmarks.run.ray_cluster import RayCluster
from ..reward.reward import OnFailures

_Share = Annotated[float, Field(ge=0, le=1)]
_Width = Annotated[float, Field(ge=0)]


class ScoringLimits(Settings):
    """Of `score`, and of `judge agreement --set`."""

    max_in_flight: int = Field(default=256, gt=0, description="Samples in flight; bounds memory.")
    max_failure_rate: _Share = Field(default=0.5, description="Maximum tolerated fraction of failed scores.")
    on_failures: OnFailures = Field(
        default="raise", description="Above that rate: raise (stop), none (continue) or wait."
    )


class ScoreSettings(ScoringLimits):
    """Of `score`."""

    ray: RayCluster | None = Field(default=None, description="Score a table on a Ray cluster, as --ray does.")
    keep: tuple[str, ...] = Field(default=(), description="With Ray: columns handed on to the scores.")
    block_rows: int = Field(default=1000, gt=0, description="With Ray: rows of a block, at most; bounds memory.")


class ConstructionSettings(Settings):
    """Of `bench build edival`; the defaults are the paper's."""

    turns: int = Field(default=3, gt=0, description="Turns of a chain.")
    seed: int = Field(default=0, description="Random seed.")
    target_counts: tuple[int, ...] = Field(default=(3, 4, 5), description="Target counts of count changes.")
    threshold: _Share = Field(default=0.35, description="Score above which a detection confirms an object.")
    max_side: _Share = Field(default=0.9, description="Longest side of a box, as a share of the image's.")
    max_area: _Share = Field(default=0.4, description="Largest area of a box, as a share of the image's.")
    oversized: Literal["either", "both"] = Field(
        default="either", description="Reject objects beyond either limit (paper), or only both (released code)."
    )


class AgreementSettings(ScoringLimits):
    """Of `judge agreement`. Tables are by dimension of the labels."""

    max_in_flight: int = Field(default=64, gt=0, description="With --set: edits in flight; bounds memory.")
    metrics: dict[str, str] = Field(default={}, description="Table of what --metric says.")
    ranges: dict[str, tuple[float, float]] = Field(
        default={}, description="Table of [low, high]: values of a metric, by default [0, 1]."
    )
    thresholds: dict[str, _Share] = Field(
        default={}, description="Table: scores from this share of the range on count as yes, by default 0.5."
    )
    tie_margins: dict[str, _Width] = Field(
        default={}, description="Table: score differences up to this width count as ties, by default 0."
    )
    pool: Literal["each", "item"] = Field(
        default="each", description="each: one value per judgement; item: the mean or majority per item."
    )
    min_raters: int = Field(default=1, gt=0, description="Skip items with fewer annotators.")
    average_metrics: tuple[str, ...] = Field(
        default=(), description="Average these metrics, and compare the mean with the labels of `overall`."
    )


class StudySettings(Settings):
    """Of `judge label`: the design that all annotators of a study share."""

    questions: tuple[str, ...] = Field(default=(), description="As --question.")
    num_items: int | None = Field(default=None, gt=0, description="As --num-items.")
    seed: int = Field(default=0, description="Of the choice of items and of the order of questions.")
    editors_per_dimension: int | None = Field(
        default=None,
        ge=2,
        description="Pairs of edits of one source compare another set of so many editors for each dimension; by "
        "default all.",
    )
    practice_questions: int = Field(default=30, ge=0, description="Practice questions, of those with known answers.")
    gold_labels: Path | None = Field(default=None, description="As --gold-labels.")
    recheck_share: _Share = Field(
        default=0.2, description="Fraction of questions repeated to measure consistency, and of labels for --check."
    )
    definitions: dict[str, str] = Field(default={}, description="Table of texts shown to annotators, by dimension.")
