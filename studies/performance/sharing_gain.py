"""Gain from sharing queries: one query per call as in the released code of papers, and the same scores in the engine.

    python -m studies.performance.sharing_gain [--chains 64] [--rollouts 1]
        [--shapes half|tiny] [--json]
    python -m studies.performance.sharing_gain --detector owlv2
    python -m studies.performance.sharing_gain --reward any-edit --rollouts 16 --size 512
        --shapes standard --roles judge detector --device auto

EdiVal on chains of edits by default; with `--reward`, that reward on as many edits of one source as `--rollouts` says.
Both send the same queries to the same models (random weights; see `random_models`) in one process. *Released pattern*:
one sample after the other, one query per call, nothing cached. *Ours*: the engine, which deduplicates queries and fills
batches, and experts that cache features of an image. SceneEdit's own experts recorded the answers that steer the
metrics beforehand, so that a model with random weights only costs its time; roles without a model, and text that a
judge would write, which random weights never end, cost nothing in either pattern. Chains are SceneEdit's, of three
turns; with several rollouts per source, that many editors carry out each of them.

The batch size is the cheapest one per query here, which is measured first. *Ideal*: for every expert, its distinct
queries in such batches, nothing else running, summed. Seconds are of one run on one machine: only their ratios are
meaningful, and ratios on tiny shapes show the overhead of our code, not the gain. Memory is the peak of the process
during the work, less what it held before.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from editcritic.benchmarks.common.terminal import print_json
from editcritic.benchmarks.sceneedit.cases import case_of, seeded_rng
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig, random_scene
from editcritic.benchmarks.sceneedit.scene_requests import random_request
from editcritic.benchmarks.sceneedit.simulated_edits import SimulatedEdit, honest_edit, rerendered
from editcritic.reward import EditSample, Engine, Expert, Program, Reward, Score
from editcritic.reward.engine.program import Ask, RunOnce, Unanswered
from editcritic.reward.experts.loading.cpu_cores import run_in_turn
from editcritic.reward.experts.loading.local_expert import LocalExpert
from editcritic.reward.metrics.edival.consistency import BackgroundConsistency, ObjectConsistency
from editcritic.reward.metrics.edival.following import InstructionFollowing
from editcritic.reward.queries import Failure, Judge
from editcritic.reward.queries.answers import Outcome
from editcritic.reward.queries.expert import expert_of_role
from editcritic.reward.queries.kinds import Query
from editcritic.reward.queries.outcomes import Abstention
from editcritic.reward.sample import TASK_TYPES
from studies.any_edit.bars import group

from . import random_models
from .command import parser_of, show
from .judge_calls import has_options
from .random_models import BUNDLES, bundle_models

_TURNS = 3
_NUM_WARM_UP = 4  # queries: an accelerator compiles and chooses kernels at the first
_MAX_BATCH_TRIALS = 32  # queries per trial of a batch size
EDIVAL = (InstructionFollowing("official"), ObjectConsistency("official"), BackgroundConsistency("official"))

Answers = dict[str, Outcome]
Programs = Sequence[Callable[[EditSample], Program[Score]]]
"""The metrics of a sample."""


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

    def rewrite_query(self, query: Query[Any], sample: EditSample | None) -> Any:
        return self._expert.rewrite_query(query, sample)

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
        self._like = like
        self._answers = answers

    def rewrite_query(self, query: Query[Any], sample: EditSample | None) -> Any:
        return self._like.rewrite_query(query, sample)

    def __call__(self, queries: Sequence[Query[Any]]) -> list[Outcome]:
        self.calls += 1
        self.queries += len(queries)
        costing = [query for query in queries if not isinstance(query, Judge) or has_options(query)]
        if self.model is not None and costing:
            # Timed within the turn: waiting for it is another model's time.
            for outcome in run_in_turn(partial(self._run_model, self.model, costing)):
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


def run_one_by_one(
    samples: Sequence[EditSample], experts: Mapping[str, _SimulatedCostExpert], metrics: Programs
) -> list[Score]:
    """One query per call, one sample after the other, nothing cached."""
    return [_run_program(metric(sample), sample, experts) for sample in samples for metric in metrics]


def _run_program(program: Program[Score], sample: EditSample, experts: Mapping[str, _SimulatedCostExpert]) -> Score:
    try:
        score: Score = _value_of(program, sample, experts)
    except Unanswered as unanswered:
        return Score.abstained(unanswered.reason)
    return score


def _value_of(program: Program[Any], sample: EditSample, experts: Mapping[str, _SimulatedCostExpert]) -> Any:
    """What a program returns, with what programs could share run anew for each. Raises `Unanswered`."""
    value: Any = None
    while True:
        try:
            request = program.send(value)
        except StopIteration as stop:
            return stop.value
        if isinstance(request, Ask):
            outcomes: list[Outcome] = []
            for query in request.queries:
                expert = expert_of_role(experts, request.role or query.role)
                assert isinstance(expert, _SimulatedCostExpert)
                expert.forget()
                rewritten = expert.rewrite_query(query, sample)
                outcomes += [rewritten] if isinstance(rewritten, Abstention) else expert([rewritten])
            value = tuple(outcomes)
        elif isinstance(request, RunOnce):
            try:
                value = (_value_of(request.program(), sample, experts),)
            except Unanswered as unanswered:
                value = (unanswered,)
        else:
            value = tuple(_run_program(part, sample, experts) for part in request.programs)


def run_in_engine(samples: Sequence[EditSample], experts: Mapping[str, Expert], metrics: Programs) -> list[Score]:
    """All programs in one engine."""
    with Engine() as engine:
        return list(engine.run(((metric(sample), sample) for sample in samples for metric in metrics), experts))


def _measured(
    function: Callable[[Sequence[EditSample], Any, Programs], list[Score]],
    samples: Sequence[EditSample],
    experts: Mapping[str, _SimulatedCostExpert],
    metrics: Programs,
) -> tuple[CallStats, list[Score]]:
    for expert in experts.values():
        expert.calls = expert.queries = 0
        expert.seconds = 0.0
        expert.forget()
    passes = {role: _passes(expert) for role, expert in experts.items()}
    memory_before = _new_peak()
    start = time.perf_counter()
    scores = function(samples, experts, metrics)
    seconds = time.perf_counter() - start
    stats = CallStats(
        seconds,
        _status("VmHWM") - memory_before,
        {role: expert.calls for role, expert in experts.items()},
        {role: expert.queries for role, expert in experts.items()},
        {role: _passes(expert) - passes[role] for role, expert in experts.items()},
        {role: expert.seconds for role, expert in experts.items()},
    )
    return stats, scores


def _passes(expert: _SimulatedCostExpert) -> float:
    return 0.0 if expert.model is None else expert.model.usage().get("image_passes", 0.0)


def cheapest(expert: _SimulatedCostExpert, queries: Sequence[Query[Any]], sizes: Sequence[int]) -> int:
    """The batch size with the least time per query."""
    if len(sizes) == 1:
        return sizes[0]
    trial_queries = list(queries[:: max(1, len(queries) // _MAX_BATCH_TRIALS)])
    return min(sizes, key=lambda size: _in_batches(expert, trial_queries, size))


def _in_batches(expert: _SimulatedCostExpert, queries: Sequence[Query[Any]], size: int) -> float:
    expert.forget()
    start = time.perf_counter()
    for first in range(0, len(queries), size):
        expert(queries[first : first + size])
    return time.perf_counter() - start


# -- the report -------------------------------------------------------------------------------------------------------


def measure(
    samples: Sequence[EditSample], bound: Mapping[str, LocalExpert[Any]], batches: Sequence[int], metrics: Programs
) -> dict[str, Any]:
    """Both patterns on the same samples. bound: role -> model. batches: candidate batch sizes.

    Raises `RuntimeError` if their scores differ.
    """
    answers: Answers = {}
    pixel_experts = scene_experts()
    recorders = {role: _AnswerRecorder(role, expert, answers) for role, expert in pixel_experts.items()}
    run_in_engine(samples, recorders, metrics)
    experts = {
        role: _SimulatedCostExpert(role, expert, bound.get(role), answers) for role, expert in pixel_experts.items()
    }
    for role, model in bound.items():
        model.load()
        _in_batches(experts[role], recorders[role].queries[:_NUM_WARM_UP], _NUM_WARM_UP)
        experts[role].batch = cheapest(experts[role], recorders[role].queries, batches)
    one_by_one, released_scores = _measured(run_one_by_one, samples, experts, metrics)
    shared, scores = _measured(run_in_engine, samples, experts, metrics)
    if [score.value for score in scores] != [score.value for score in released_scores]:
        raise RuntimeError("the two patterns do not score alike: what they took cannot be compared")
    ideal = {role: _in_batches(experts[role], recorders[role].queries, experts[role].batch) for role in bound}
    return {
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


def _rows(figures: Mapping[str, Any], bound: Mapping[str, LocalExpert[Any]]) -> list[dict[str, Any]]:
    one_by_one, shared = figures["released"], figures["ours"]
    total_seconds = sum(one_by_one["seconds_by_role"].values())
    return [
        {
            "role": role,
            "queries": one_by_one["queries"][role],
            "distinct": f"{figures['distinct'][role]} (sent {shared['queries'][role]})",
            "calls": f"{one_by_one['calls'][role]} > {shared['calls'][role]}",
            "image passes": f"{one_by_one['image_passes'][role]:.0f} > {shared['image_passes'][role]:.0f} of "
            f"{figures['images'][role]}",
            "share of time": one_by_one["seconds_by_role"][role] / total_seconds,
            "ratio": one_by_one["seconds_by_role"][role] / shared["seconds_by_role"][role],
            "over the ideal": shared["seconds_by_role"][role] / figures["ideal"][role]["seconds"],
            "batch": figures["ideal"][role]["batch"],
        }
        for role in bound
    ]


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--reward", help="a reward in place of EdiVal, on edits of one source in place of chains")
    parser.add_argument("--chains", type=int, default=64)
    parser.add_argument("--rollouts", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--size", type=int, default=64, help="side of the images, in pixels; models get them enlarged")
    parser.add_argument("--shapes", choices=(*BUNDLES, *random_models.SHAPES), default="half")
    parser.add_argument("--shrunk", action="store_true", help="few and narrow layers in place of a bundle's")
    parser.add_argument("--detector", choices=random_models.DETECTORS, default="grounding-dino")
    parser.add_argument("--roles", nargs="+", choices=random_models.ROLES, default=["detector", "features"])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8, 16], help="sizes to choose from")
    parser.add_argument("--device", default="cpu", help="of models that are not a bundle's, which choose it")
    options = parser.parse_args()
    metrics: Programs = [Reward.of(options.reward, scene_experts()).metric] if options.reward else EDIVAL
    made = (
        bundle_models(options.shapes, options.roles, shrunk=options.shrunk)
        if options.shapes in BUNDLES
        else random_models.random_models(
            options.shapes, options.roles, detector=options.detector, device=options.device
        )
    )
    with made as bound:
        reports = []
        for rollouts in options.rollouts:
            if options.reward:
                samples = group(rollouts, 0, options.size)
                title = f"{options.reward}, {rollouts} edits of one source"
            else:
                samples = chains(options.chains, rollouts, options.size)
                title = f"{options.chains} chains of {_TURNS} turns, {rollouts} rollout(s) a source"
            figures = measure(samples, bound, options.batches, metrics)
            figures = {"title": title, "shapes": options.shapes, "rollouts": rollouts, **figures}
            reports.append(figures)
            if not options.json:
                show(
                    f"{title}: released {figures['released']['seconds']:.1f} s, ours {figures['ours']['seconds']:.1f} "
                    f"s: ratio {figures['ratio']:.2f}; {figures['over the ideal']:+.1%} over the ideal; "
                    f"peak {figures['released']['peak_mib']:.0f} > {figures['ours']['peak_mib']:.0f} MiB",
                    _rows(figures, bound),
                )
        if options.json:
            print_json(reports)


# -- memory -----------------------------------------------------------------------------------------------------------


def _new_peak() -> float:
    """Reset the kernel's peak counter, where possible. Returns the MiB held now."""
    path = Path("/proc/self/clear_refs")
    if path.exists():
        path.write_text("5")
    return _status("VmRSS")


def _status(name: str) -> float:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines())
    return int(lines[name].split()[0]) / 1024


if __name__ == "__main__":
    main()
