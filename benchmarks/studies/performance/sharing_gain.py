"""What sharing saves: EdiVal of chains of edits, one question a call as in the released code, and by the engine.

    python -m editcritic.benchmarks.perf.shared_work [--chains 64] [--rollouts 1] [--shapes half|tiny] [--json]
    python -m editcritic.benchmarks.perf.shared_work --detector owlv2

Both put the same questions to the same models (random weights; see `models`) in one process. *Released pattern*: a
sample after the other, every question a call of its own, nothing kept. *Ours*: the engine, which drops what is asked
twice and fills batches, and experts that keep what they computed of a picture. The answers that steer the metrics were
given by SceneEdit's own experts beforehand, so that a model with random weights costs its time and leads nowhere else.
Chains are SceneEdit's, of three turns; with several rollouts a source, so many editors do each of them.

Batches are of the size that is cheapest a question here, which is measured first. *Ideal*: for every expert, its
distinct questions in such batches, nothing else running, added up. Seconds are of one run on one machine: only their
ratios mean something, and ratios on tiny shapes tell the overhead of our code, not what sharing saves. Memory is the
most the process holds while it works, less what it held before.
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

from ...reward import Asks, EditSample, Engine, Expert, Failure, Score
from ...reward.asking import Ask, Unanswered
from ...reward.edival.consistency import BackgroundConsistency, ObjectConsistency
from ...reward.edival.following import InstructionFollowing
from ...reward.models.cores import in_turn
from ...reward.query import Outcome, Query
from ...reward.sample import TASK_TYPES
from ..sceneedit.cases import case_of, chance_of
from ..sceneedit.critics import experts as scene_experts
from ..sceneedit.editors import Edit, by_hand, honest
from ..sceneedit.requests import random_request
from ..sceneedit.scenes import World, random_scene
from . import models

_TURNS = 3
_TRIED = 32  # questions a batch size is tried on
_METRICS = (InstructionFollowing("official"), ObjectConsistency("official"), BackgroundConsistency("official"))

Answers = dict[str, Outcome]


@dataclass(slots=True)
class Work:
    """What one way of asking took. seconds: in all. calls, questions, image_passes, spent: by role.

    spent: seconds in the model, without those in which its calls waited for another one's.
    """

    seconds: float
    peak_mib: float
    calls: dict[str, int]
    questions: dict[str, int]
    image_passes: dict[str, float]
    spent: dict[str, float]


# -- what is asked ----------------------------------------------------------------------------------------------------


def chains(count: int, rollouts: int, size: int, seed: int = 0) -> list[EditSample]:
    """Samples of all turns of so many chains; every `rollouts` of them are of one source and its instructions."""
    found: list[EditSample] = []
    for number in range(-(-count // rollouts)):
        chance = chance_of("test", seed, "chain", number)
        turns = _chain(chance, World.of(size))
        for rollout in range(min(rollouts, count - number * rollouts)):
            mine = [replace(turn, after=by_hand(chance, turn.after)) for turn in turns]
            last = case_of(mine, f"{number}-{rollout}").sample
            found += [*last.earlier, last]
    return found


def _chain(chance: random.Random, world: World) -> list[Edit]:
    while True:
        scene, turns = random_scene(chance, world), list[Edit]()
        for kind in chance.sample(TASK_TYPES, _TURNS):
            request = random_request(chance, scene, world, kind)
            if request is None:
                break
            turns.append(honest(chance, request, scene, world))
            scene = turns[-1].after
        else:
            return turns


class _Noting(Expert):
    """An expert whose answers are written down."""

    def __init__(self, role: str, expert: Expert, answers: Answers) -> None:
        self.kinds = expert.kinds  # type: ignore[misc]
        self.id = f"{role} {expert.id}"
        self.asked: list[Query[Any]] = []
        self._expert = expert
        self._answers = answers

    def __call__(self, queries: Sequence[Query[Any]]) -> Sequence[Outcome]:
        self.asked += queries
        outcomes = self._expert(queries)
        self._answers |= {query.digest: outcome for query, outcome in zip(queries, outcomes, strict=True)}
        return outcomes


class _Priced(Expert):
    """Costs what a model costs, and answers what was answered beforehand. Without a model it costs nothing."""

    def __init__(self, role: str, like: Expert, model: Expert | None, answers: Answers) -> None:
        self.role = role
        self.kinds = like.kinds  # type: ignore[misc]
        self.id = f"{role} {like.id if model is None else model.id}"
        self.batch = 64 if model is None else model.batch
        self.model = model
        self.calls = self.questions = 0
        self.spent = 0.0
        self._answers = answers

    def __call__(self, queries: Sequence[Query[Any]]) -> list[Outcome]:
        self.calls += 1
        self.questions += len(queries)
        if self.model is not None:
            # Within the turn: time spent waiting for it is time that another model takes.
            for outcome in in_turn(partial(self._asked, self.model, queries)):
                if isinstance(outcome, Failure):
                    raise RuntimeError(f"{self.model.id}: {outcome.reason}")
        return [self._answers[query.digest] for query in queries]

    def _asked(self, model: Expert, queries: Sequence[Query[Any]]) -> Sequence[Outcome]:
        start = time.perf_counter()
        outcomes = model(queries)
        self.spent += time.perf_counter() - start
        return outcomes

    def forget(self) -> None:
        if self.model is not None:
            self.model.remembered.clear()  # type: ignore[attr-defined]


# -- two ways of asking -----------------------------------------------------------------------------------------------


def released(samples: Sequence[EditSample], experts: Mapping[str, _Priced]) -> None:
    """One question a call, one sample after the other, nothing kept."""
    for sample in samples:
        for metric in _METRICS:
            _alone(metric(sample), experts)


def _alone(program: Asks[Score], experts: Mapping[str, _Priced]) -> Score:
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
            value = tuple(_alone(part, experts) for part in request.programs)


def ours(samples: Sequence[EditSample], experts: Mapping[str, Expert]) -> None:
    """All of them through one engine."""
    with Engine() as engine:
        programs = ((metric(sample), sample) for sample in samples for metric in _METRICS)
        for _ in engine.run(programs, experts):
            pass


def _measured(work: Any, samples: Sequence[EditSample], experts: Mapping[str, _Priced]) -> Work:
    for expert in experts.values():
        expert.calls = expert.questions = 0
        expert.spent = 0.0
        expert.forget()
    passes = {role: _passes(expert) for role, expert in experts.items()}
    held = _new_peak()
    start = time.perf_counter()
    work(samples, experts)
    seconds = time.perf_counter() - start
    return Work(
        seconds,
        _peak_mib() - held,
        {role: expert.calls for role, expert in experts.items()},
        {role: expert.questions for role, expert in experts.items()},
        {role: _passes(expert) - passes[role] for role, expert in experts.items()},
        {role: expert.spent for role, expert in experts.items()},
    )


def _passes(expert: _Priced) -> float:
    return 0.0 if expert.model is None else expert.model.meter().get("image_passes", 0.0)


def cheapest(expert: _Priced, questions: Sequence[Query[Any]], sizes: Sequence[int]) -> int:
    """The batch size at which a question costs least."""
    if len(sizes) == 1:
        return sizes[0]
    tried = list(questions[:: max(1, len(questions) // _TRIED)])
    _in_batches(expert, tried[:1], 1)  # loads what is loaded late
    return min(sizes, key=lambda size: _in_batches(expert, tried, size))


def _in_batches(expert: _Priced, questions: Sequence[Query[Any]], size: int) -> float:
    expert.forget()
    start = time.perf_counter()
    for first in range(0, len(questions), size):
        expert(questions[first : first + size])
    return time.perf_counter() - start


# -- the report -------------------------------------------------------------------------------------------------------


def measure(
    count: int, rollouts: int, size: int, bound: Mapping[str, Expert], batches: Sequence[int]
) -> dict[str, Any]:
    """Both ways, on so many chains. bound: role -> model. batches: sizes to choose from."""
    samples = chains(count, rollouts, size)
    answers: Answers = {}
    critics = scene_experts()
    noting = {role: _Noting(role, expert, answers) for role, expert in critics.items()}
    ours(samples, noting)
    experts = {role: _Priced(role, expert, bound.get(role), answers) for role, expert in critics.items()}
    for role in bound:
        experts[role].batch = cheapest(experts[role], noting[role].asked, batches)
    one_by_one = _measured(released, samples, experts)
    shared = _measured(ours, samples, experts)
    ideal = {role: _in_batches(experts[role], noting[role].asked, experts[role].batch) for role in bound}
    return {
        "chains": count,
        "rollouts": rollouts,
        "samples": len(samples),
        "released": asdict(one_by_one),
        "ours": asdict(shared),
        "distinct": {role: len(noting[role].asked) for role in bound},
        "pictures": {role: _pictures(noting[role].asked) for role in bound},
        "ideal": {role: {"seconds": seconds, "batch": experts[role].batch} for role, seconds in ideal.items()},
        "ratio": one_by_one.seconds / shared.seconds,
        "ratio of the models alone": sum(one_by_one.spent.values()) / sum(shared.spent.values()),
        "over the ideal": shared.seconds / sum(ideal.values()) - 1.0,
    }


def _pictures(questions: Sequence[Query[Any]]) -> int:
    return len({image.digest for question in questions for image in question.images})


def _table(found: Mapping[str, Any], bound: Mapping[str, Expert]) -> Table:
    one_by_one, shared = found["released"], found["ours"]
    title = f"{found['chains']} chains of {_TURNS} turns, {found['rollouts']} rollout(s) a source"
    grid = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in ("role", "questions", "distinct", "calls", "image passes", "share of time", "ratio", "ideal (batch)"):
        grid.add_column(column, justify="left" if column == "role" else "right")
    spent = sum(one_by_one["spent"].values())
    for role in bound:
        ratio = one_by_one["spent"][role] / shared["spent"][role]
        best = found["ideal"][role]
        grid.add_row(
            role,
            str(one_by_one["questions"][role]),
            f"{found['distinct'][role]} (asked {shared['questions'][role]})",
            f"{one_by_one['calls'][role]} > {shared['calls'][role]}",
            f"{one_by_one['image_passes'][role]:.0f} > {shared['image_passes'][role]:.0f} of {found['pictures'][role]}",
            f"{one_by_one['spent'][role] / spent:.0%}",
            f"{ratio:.2f}",
            f"{shared['spent'][role] / best['seconds']:.2f} ({best['batch']})",
        )
    return grid


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=64)
    parser.add_argument("--rollouts", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument(
        "--size", type=int, default=64, help="side of the pictures, in pixels; models see them enlarged"
    )
    parser.add_argument("--shapes", choices=models.SHAPES, default="half")
    parser.add_argument("--detector", choices=models.DETECTORS, default="grounding-dino")
    parser.add_argument("--roles", nargs="+", choices=models.ROLES, default=["detector", "features"])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8, 16], help="sizes to choose from")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    console = Console()
    with models.random_models(options.shapes, options.roles, detector=options.detector, device="cpu") as bound:
        reports = []
        for rollouts in options.rollouts:
            found = measure(options.chains, rollouts, options.size, bound, options.batches)
            reports.append({"shapes": options.shapes, "detector": options.detector, **found})
            if not options.json:
                console.print(_table(found, bound))
                console.print(
                    f"released {found['released']['seconds']:.1f} s, ours {found['ours']['seconds']:.1f} s: "
                    f"ratio {found['ratio']:.2f}; {found['over the ideal']:+.1%} over the ideal; "
                    f"peak {found['released']['peak_mib']:.0f} > {found['ours']['peak_mib']:.0f} MiB\n"
                )
        if options.json:
            console.print_json(json.dumps(reports))


# -- memory -----------------------------------------------------------------------------------------------------------


def _new_peak() -> float:
    """Let the kernel count the peak anew, where it can. MiB held now."""
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
