"""Counts of queries: 16 edits of one source must ask for the plan, and about the source, once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from editcritic.benchmarks.sceneedit.cases import random_scene_request, seeded_rng
from editcritic.benchmarks.sceneedit.failure_modes import FAILURE_MODES
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig
from editcritic.benchmarks.sceneedit.simulated_edits import honest_edit
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import request_sample
from editcritic.reward import EditSample, Engine, Expert, Image, Reward
from editcritic.reward.queries.kinds import Outcome, Query
from editcritic.reward.queries.specs import Spec

PLANNER = "planner"
ROLLOUTS = 16


class CountingExpert(Expert):
    """Another expert with a list of the queries that reach it."""

    def __init__(self, expert: Expert) -> None:
        self.expert = expert
        self.id = expert.id
        self.kinds = expert.kinds  # type: ignore[misc]  # depends on the wrapped expert
        self.batch, self.concurrency, self.deadline_s = expert.batch, expert.concurrency, expert.deadline_s
        self.queries: list[Query[Any]] = []

    def rewrite_query(self, query: Query[Any], sample: EditSample | None) -> Any:
        return self.expert.rewrite_query(query, sample)

    def __call__(self, queries: Sequence[Query[Any]]) -> list[Outcome]:
        self.queries += queries
        return list(self.expert(queries))


@dataclass(frozen=True)
class QueryCounts:
    """Queries by role that reached the experts. source: about the source alone, the plan among them. edits: others.

    repeated: queries, of any role, that reached an expert although an equal one had.
    """

    rollouts: int
    source: Mapping[str, int]
    edits: Mapping[str, int]
    repeated: int

    @property
    def plan(self) -> int:
        return self.source.get(PLANNER, 0)


def count_queries(spec: Spec, rollouts: int = ROLLOUTS, seed: int = 0) -> QueryCounts:
    """Queries of a reward for this many edits of one source and instruction, which has to be planned."""
    experts = {role: CountingExpert(expert) for role, expert in scene_experts().items()}
    samples = group(rollouts, seed)
    with Engine() as engine:
        Reward.of(spec, experts, engine=engine, on_failures="none")(samples)
    source = samples[0].source
    repeated = 0
    about: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for role, expert in experts.items():
        repeated += len(expert.queries) - len({query.digest for query in expert.queries})
        for query in expert.queries:
            about[all(_shows(image, source) for image in query.images)][role] += 1
    return QueryCounts(len(samples), dict(about[True]), dict(about[False]), repeated)


def group(rollouts: int, seed: int, size: int = 64) -> list[EditSample]:
    """Different edits of one request, honest ones and failures in turn, without a plan and without a task.

    size: side of the images, in pixels.
    """
    rng = seeded_rng("test", seed, "any-edit group", 0)
    config = SceneConfig.for_size(size)
    before, request = random_scene_request(rng, config, "color_alter")
    sample = replace(request_sample("", request, before), task=None)
    pictures: dict[str, Image] = {}
    while len(pictures) < rollouts:
        mode = rng.choice(FAILURE_MODES) if len(pictures) % 2 else None
        draw = random.Random(rng.random())
        edit = mode.edit(draw, request, before, config) if mode else honest_edit(draw, request, before, config)
        if edit is not None:
            pictures[edit.picture.digest] = edit.picture
    return [replace(sample, id=str(number), edited=picture) for number, picture in enumerate(pictures.values())]


def _shows(image: Image, source: Image) -> bool:
    """Whether an image is the source, or a crop or resize of it."""
    while image != source:
        if image.origin is None:
            return False
        image, _ = image.origin
    return True
