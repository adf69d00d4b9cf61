"""Gain from sharing queries: EdiVal on chains of edits, one query per call as in the released code, and in the engine.

    python -m editcritic.benchmarks.studies.performance.sharing_gain [--chains 64] [--rollouts 1]
        [--shapes half|tiny] [--json]
    python -m editcritic.benchmarks.studies.performance.sharing_gain --detector owlv2

Both send the same queries to the same models (random weights; see `random_models`) in one process. *Released pattern*:
one sample after the other, one query per call, nothing cached. *Ours*: the engine, which deduplicates queries and fills
batches, and experts that cache features of an image. SceneEdit's own experts recorded the answers that steer the
metrics beforehand, so that a model with random weights only costs its time. Chains are SceneEdit's, of three turns;
with several rollouts per source, that many editors carry out each of them.

The batch size is the cheapest one per query here, which is measured first. *Ideal*: for every expert, its distinct
queries in such batches, nothing else running, summed. Seconds are of one run on one machine: only their ratios are
meaningful, and ratios on tiny shapes show the overhead of our code, not the gain. Memory is the peak of the process
during the work, less what it held before.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ....reward import EditSample, Engine, Expert, Program, Score
from ....reward.engine.program import Ask, Gather, Unanswered
from ....reward.experts.loading.cpu_cores import run_in_turn
from ....reward.experts.loading.local_expert import LocalExpert
from ....reward.metrics.edival.consistency import BackgroundConsistency, ObjectConsistency
from ....reward.metrics.edival.following import InstructionFollowing
from ....reward.queries import Failure
from ....reward.queries.kinds import Outcome, Query
from ....reward.sample import TASK_TYPES
from ...common.argument_types import add_json_option
from ...common.terminal import plain_table
from ...sceneedit.cases import case_of, seeded_rng
from ...sceneedit.scene_experts import scene_experts
from ...sceneedit.scene_generation import SceneConfig, random_scene
from ...sceneedit.scene_requests import random_request
from ...sceneedit.simulated_edits import SimulatedEdit, honest_edit, rerendered
from . import random_models

_TURNS = 3
_MAX_BATCH_TRIALS = 32  # queries per trial of a batch size
_METRICS = (InstructionFollowing("official"), ObjectConsistency("official"), BackgroundConsistency("official"))

Answers = dict[str, Outcome]


@dataclass(slots=True)
class CallStats:
    """Cost of one pattern. seconds: in total. calls, queries, image_passes, seconds_by_role: by role.

    seconds_by_role: seconds in the model, without waiting for another model's calls.
    """

    seconds: float
    peak_mib: float
    calls: dict[str, int]
    queries: dict[str, int]
    image_passes: dict[str, float]
    seconds_by_role: dict[str, float]


# -- samples and experts ----------------------------------------------------------------------------------------------


def chains(count: int, rollouts: int, size: int, seed: int = 0) -> list[EditSample]:
    """Samples of all turns of `count` chains; every `rollouts` of them share a source and its instructions."""
    samples: list[EditSample] = []
    for number in range(-(-count // rollouts)):
        rng = seeded_rng("test", seed, "chain", number)
        turns = _chain(rng, SceneConfig.for_size(size))
        for rollout in range(min(rollouts, count - number * rollouts)):
            rerendered_turns = [replace(turn, after=rerendered(rng, turn.after)) for turn in turns]
            last = case_of(rerendered_turns, f"{number}-{rollout}").sample
            samples += [*last.history, last]
    return samples


def _chain(rng: random.Random, config: SceneConfig) -> list[SimulatedEdit]:
    while True:
        scene, turns = random_scene(rng, config), list[SimulatedEdit]()
        for kind in rng.sample(TASK_TYPES, _TURNS):
            request = random_request(rng, scene, config, kind)
            if request is None:
                break
            turns.append(honest_edit(rng, request, scene, config))
            scene = turns[-1].after
        else:
            return turns


class _AnswerRecorder(Expert):
    """An expert whose queries and answers are recorded."""

    def __init__(self, role: str, expert: Expert, answers: Answers) -> None:
        self.kinds = expert.kinds  # type: ignore[misc]
        self.id = f"{role} {expert.id}"
        self.queries: list[Query[Any]] = []
        self._expert = expert
        self._answers = answers

    def __call__(self, queries: Sequence[Query[Any]]) -> Sequence[Outcome]:
        self.queries += queries
        outcomes = self._expert(queries)
        self._answers |= {query.digest: outcome for query, outcome in zip(queries, outcomes, strict=True)}
        return outcomes


class _SimulatedCostExpert(Expert):
    """Runs a model for its cost, and returns recorded answers. Without a model it costs nothing."""

    def __init__(self, role: str, like: Expert, model: LocalExpert[Any] | None, answers: Answers) -> None:
        self.role = role
        self.kinds = like.kinds  # type: ignore[misc]
        self.id = f"{role} {like.id if model is None else model.id}"
        self.batch = 64 if model is None else model.batch
        self.model = model
        self.calls = self.queries = 0
        self.seconds = 0.0
        self._answers = answers

    def __call__(self, queries: Sequence[Query[Any]]) -> list[Outcome]:
        self.calls += 1
        self.queries += len(queries)
        if self.model is not None:
            # Timed within the turn: waiting for it is another model's time.
            for outcome in run_in_turn(partial(self._run_model, self.model, queries)):
                if isinstance(outcome, Failure):
                    raise RuntimeError(f"{self.model.id}: {outcome.reason}")
        return [self._answers[query.digest] for query in queries]

    def _run_model(self, model: Expert, queries: Sequence[Query[Any]]) -> Sequence[Outcome]:
        start = time.perf_counter()
        outcomes = model(queries)
        self.seconds += time.perf_counter() - start
        return outcomes

    def forget(self) -> None:
        if self.model is not None:
            self.model.feature_cache.clear()


# -- two patterns -----------------------------------------------------------------------------------------------------


def run_one_by_one(samples: Sequence[EditSample], experts: Mapping[str, _SimulatedCostExpert]) -> None:
    """One query per call, one sample after the other, nothing cached."""
    for sample in samples:
        for metric in _METRICS:
            _run_program(metric(sample), experts)


def _run_program(program: Program[Score], experts: Mapping[str, _SimulatedCostExpert]) -> Score:
    value: Any = None
    while True:
        try:
            request = program.send(value)
        except StopIteration as stop:
            score: Score = stop.value
            return score
        except Unanswered as unanswered:
            return Score.abstained(unanswered.reason)
        if isinstance(request, Ask):
            outcomes = []
            for query in request.queries:
                expert = experts[request.role or query.role]
                expert.forget()
                outcomes += expert([query])
            value = tuple(outcomes)
        else:
            assert isinstance(request, Gather), "none of these metrics shares a program"
            value = tuple(_run_program(part, experts) for part in request.programs)


def run_in_engine(samples: Sequence[EditSample], experts: Mapping[str, Expert]) -> None:
    """All programs in one engine."""
    with Engine() as engine:
        programs = ((metric(sample), sample) for sample in samples for metric in _METRICS)
        for _ in engine.run(programs, experts):
            pass


def _measured(function: Any, samples: Sequence[EditSample], experts: Mapping[str, _SimulatedCostExpert]) -> CallStats:
    for expert in experts.values():
        expert.calls = expert.queries = 0
        expert.seconds = 0.0
        expert.forget()
    passes = {role: _passes(expert) for role, expert in experts.items()}
    memory_before = _new_peak()
    start = time.perf_counter()
    function(samples, experts)
    seconds = time.perf_counter() - start
    return CallStats(
        seconds,
        _peak_mib() - memory_before,
        {role: expert.calls for role, expert in experts.items()},
        {role: expert.queries for role, expert in experts.items()},
        {role: _passes(expert) - passes[role] for role, expert in experts.items()},
        {role: expert.seconds for role, expert in experts.items()},
    )


def _passes(expert: _SimulatedCostExpert) -> float:
    return 0.0 if expert.model is None else expert.model.usage().get("image_passes", 0.0)


def cheapest(expert: _SimulatedCostExpert, queries: Sequence[Query[Any]], sizes: Sequence[int]) -> int:
    """The batch size with the least time per query."""
    if len(sizes) == 1:
        return sizes[0]
    trial_queries = list(queries[:: max(1, len(queries) // _MAX_BATCH_TRIALS)])
    _in_batches(expert, trial_queries[:1], 1)  # triggers lazy loading
    return min(sizes, key=lambda size: _in_batches(expert, trial_queries, size))


def _in_batches(expert: _SimulatedCostExpert, queries: Sequence[Query[Any]], size: int) -> float:
    expert.forget()
    start = time.perf_counter()
    for first in range(0, len(queries), size):
        expert(queries[first : first + size])
    return time.perf_counter() - start


# -- the report -------------------------------------------------------------------------------------------------------


def measure(
    count: int, rollouts: int, size: int, bound: Mapping[str, LocalExpert[Any]], batches: Sequence[int]
) -> dict[str, Any]:
    """Both patterns, on `count` chains. bound: role -> model. batches: candidate batch sizes."""
    samples = chains(count, rollouts, size)
    answers: Answers = {}
    pixel_experts = scene_experts()
    recorders = {role: _AnswerRecorder(role, expert, answers) for role, expert in pixel_experts.items()}
    run_in_engine(samples, recorders)
    experts = {
        role: _SimulatedCostExpert(role, expert, bound.get(role), answers) for role, expert in pixel_experts.items()
    }
    for role in bound:
        experts[role].batch = cheapest(experts[role], recorders[role].queries, batches)
    one_by_one = _measured(run_one_by_one, samples, experts)
    shared = _measured(run_in_engine, samples, experts)
    ideal = {role: _in_batches(experts[role], recorders[role].queries, experts[role].batch) for role in bound}
    return {
        "chains": count,
        "rollouts": rollouts,
        "samples": len(samples),
        "released": asdict(one_by_one),
        "ours": asdict(shared),
        "distinct": {role: len(recorders[role].queries) for role in bound},
        "images": {role: _num_images(recorders[role].queries) for role in bound},
        "ideal": {role: {"seconds": seconds, "batch": experts[role].batch} for role, seconds in ideal.items()},
        "ratio": one_by_one.seconds / shared.seconds,
        "ratio of the models alone": sum(one_by_one.seconds_by_role.values()) / sum(shared.seconds_by_role.values()),
        "over the ideal": shared.seconds / sum(ideal.values()) - 1.0,
    }


def _num_images(queries: Sequence[Query[Any]]) -> int:
    return len({image.digest for question in queries for image in question.images})


def _table(figures: Mapping[str, Any], bound: Mapping[str, LocalExpert[Any]]) -> Table:
    one_by_one, shared = figures["released"], figures["ours"]
    title = f"{figures['chains']} chains of {_TURNS} turns, {figures['rollouts']} rollout(s) a source"
    numbers = ("queries", "distinct", "calls", "image passes", "share of time", "ratio", "ideal (batch)")
    grid = plain_table(title, "role", *numbers, right=numbers)
    total_seconds = sum(one_by_one["seconds_by_role"].values())
    for role in bound:
        ratio = one_by_one["seconds_by_role"][role] / shared["seconds_by_role"][role]
        ideal = figures["ideal"][role]
        grid.add_row(
            role,
            str(one_by_one["queries"][role]),
            f"{figures['distinct'][role]} (sent {shared['queries'][role]})",
            f"{one_by_one['calls'][role]} > {shared['calls'][role]}",
            f"{one_by_one['image_passes'][role]:.0f} > {shared['image_passes'][role]:.0f} of {figures['images'][role]}",
            f"{one_by_one['seconds_by_role'][role] / total_seconds:.0%}",
            f"{ratio:.2f}",
            f"{shared['seconds_by_role'][role] / ideal['seconds']:.2f} ({ideal['batch']})",
        )
    return grid


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=64)
    parser.add_argument("--rollouts", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--size", type=int, default=64, help="side of the images, in pixels; models get them enlarged")
    parser.add_argument("--shapes", choices=random_models.SHAPES, default="half")
    parser.add_argument("--detector", choices=random_models.DETECTORS, default="grounding-dino")
    parser.add_argument("--roles", nargs="+", choices=random_models.ROLES, default=["detector", "features"])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8, 16], help="sizes to choose from")
    add_json_option(parser)
    options = parser.parse_args()
    console = Console()
    with random_models.random_models(options.shapes, options.roles, detector=options.detector, device="cpu") as bound:
        reports = []
        for rollouts in options.rollouts:
            figures = measure(options.chains, rollouts, options.size, bound, options.batches)
            reports.append({"shapes": options.shapes, "detector": options.detector, **figures})
            if not options.json:
                console.print(_table(figures, bound))
                console.print(
                    f"released {figures['released']['seconds']:.1f} s, ours {figures['ours']['seconds']:.1f} s: "
                    f"ratio {figures['ratio']:.2f}; {figures['over the ideal']:+.1%} over the ideal; "
                    f"peak {figures['released']['peak_mib']:.0f} > {figures['ours']['peak_mib']:.0f} MiB\n"
                )
        if options.json:
            console.print_json(json.dumps(reports))


# -- memory -----------------------------------------------------------------------------------------------------------


def _new_peak() -> float:
    """Reset the kernel's peak counter, where possible. Returns the MiB held now."""
    path = Path("/proc/self/clear_refs")
    if path.exists():
        path.write_text("5")
    return _status("VmRSS")


def _peak_mib() -> float:
    return _status("VmHWM")


def _status(name: str) -> float:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines())
    return int(lines[name].split()[0]) / 1024


if __name__ == "__main__":
    main()
