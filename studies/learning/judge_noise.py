"""What a judge's noise does to advantages, and what correcting for it changes: `python -m
studies.learning.judge_noise --plot noise.png`.

Groups of drawn edits with known truth, as a step of training has them, are scored by `edit-score` with a judge whose
faults are of known size: noise in each draw, zeros in some draws or on some edits, questions without an answer. Its
noise is measured on other edits (`measure_judge_variance`), and the advantages are compared with the truth.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from editcritic.benchmarks.common import optional_imports
from editcritic.benchmarks.common.argument_types import at_least_one, new_image_file
from editcritic.benchmarks.common.markdown import table_lines
from editcritic.benchmarks.sceneedit.cases import Case, case_of, random_scene_request, seeded_rng
from editcritic.benchmarks.sceneedit.experts.judge import SceneJudge
from editcritic.benchmarks.sceneedit.failure_modes import FAILURE_MODES
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig
from editcritic.benchmarks.sceneedit.simulated_edits import honest_edit
from editcritic.reward import Expert, Reward
from editcritic.reward.bootstrap_intervals import bootstrap_interval, row_means
from editcritic.reward.metrics.baselines.reward_models import MAX_SCORE, EditScore
from editcritic.reward.queries import Failure, Judge, Reply
from editcritic.reward.queries.answers import Outcome
from editcritic.reward.sample import TASK_TYPES
from editcritic.reward.training.advantages import advantages
from editcritic.reward.training.judge_variance import measure_judge_variance

SEEDS = tuple(range(4001, 4011))
"""Fixed before any of them was run."""

GROUP_SIZE = 12
"""Images of an instruction, as in the recipes of OmniGen2-RL."""

SUCCESS_RATES = (0.0, 0.1, 0.5, 0.9, 1.0)
"""Of the editor, group by group in turn: most groups of a training are nearly all bad, or nearly all good."""

NO_SIGNAL = 0.05
"""Of the scale: a group whose truths lie within it has nothing to learn from."""

_MEASURED_EDITS = 48


@dataclass(frozen=True)
class Faults:
    """noise: standard deviation added to each grade of each draw, as a share of the scale. zeros: probability that
    following has the grade 0 in a draw. steady_zeros: the same of an edit, in all its draws. lost: probability that a
    question has no answer, for reasons of infrastructure.
    """

    noise: float = 0.0
    zeros: float = 0.0
    steady_zeros: float = 0.0
    lost: float = 0.01


JUDGES: Mapping[str, Faults] = {
    "its own noise": Faults(),
    "noise 0.1": Faults(0.1),
    "noise 0.2": Faults(0.2),
    "noise 0.1, zeros in 20 % of draws": Faults(0.1, zeros=0.2),
    "noise 0.1, zeros for 20 % of edits": Faults(0.1, steady_zeros=0.2),
}


class SampledJudge(Expert):
    """SceneJudge's grades for `edit-score`, which it draws, with `Faults`. They depend on the seed and the query."""

    kinds = (Judge,)

    def __init__(self, faults: Faults, seed: int) -> None:
        self._judge, self._faults, self._seed = SceneJudge(), faults, seed
        self.id = f"{self._judge.id} sampled {asdict(faults)} seed={seed}"

    def __call__(self, queries: Sequence[Judge]) -> list[Outcome]:
        return [
            self._faulty(query, reply) if isinstance(reply, Reply) else reply
            for query, reply in zip(queries, self._judge(queries), strict=True)
        ]

    def _faulty(self, query: Judge, reply: Reply) -> Outcome:
        faults, rng = self._faults, random.Random(f"{self._seed} {query.digest}")
        if rng.random() < faults.lost:
            return Failure("the judge did not answer", infrastructure=True)
        answer, highest = json.loads(reply.text), int(dict(query.slots)["highest"])
        grades = [min(max(round(rng.gauss(g, faults.noise * highest)), 0), highest) for g in answer["score"]]
        if query.topic.endswith("/edit_score"):
            edit = random.Random(f"{self._seed} {replace(query, draw=0).digest}")
            if rng.random() < faults.zeros or edit.random() < faults.steady_zeros:
                grades[0] = 0
        return Reply(json.dumps({**answer, "score": grades}))


def drawn_groups(count: int, seed: int, group_size: int = GROUP_SIZE) -> list[list[Case]]:
    """Groups of edits of one request by an editor that succeeds at a rate of its own and fails in one way, to different
    degrees. Task types in turn.
    """
    return [_drawn_group(seed, number, group_size) for number in range(count)]


def _drawn_group(seed: int, number: int, group_size: int) -> list[Case]:
    rng, config = seeded_rng("test", seed, "judge-noise", number), SceneConfig.for_size(64)
    task_type, rate = TASK_TYPES[number % len(TASK_TYPES)], SUCCESS_RATES[number % len(SUCCESS_RATES)]
    modes = [mode for mode in FAILURE_MODES if not mode.task_types or task_type in mode.task_types]
    while True:
        scene, request = random_scene_request(rng, config, task_type)
        mode = rng.choice(modes)
        edits = [
            honest_edit(rng, request, scene, config) if rng.random() < rate else mode.edit(rng, request, scene, config)
            for _ in range(group_size)
        ]
        possible = [edit for edit in edits if edit is not None]
        if len(possible) == group_size:
            return [case_of([edit], f"{seed}-{number}-{index}") for index, edit in enumerate(possible)]


# -- what advantages are worth ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Worth:
    """Advantages against the truth; shares of groups.

    against: of groups with signal, those whose advantages point away from the truth: the sum of their products with it
    is below 0. lost: of groups with signal, those without any advantage. idle: of groups without signal, those with an
    advantage all the same; idle_weight: of the sum of all squared advantages, that of groups without signal.
    correlation: of all edits, of the advantage with the truth above the mean of its group. Both 0 without advantages.
    """

    against: float
    lost: float
    idle: float
    idle_weight: float
    correlation: float


def worth(values: NDArray[np.float64], truth: NDArray[np.float64]) -> Worth:
    """values: advantages; truth: in [0, 1]; (groups, edits) each. An edit without an advantage has 0."""
    signal = np.ptp(truth, axis=1) > NO_SIGNAL
    deviations = truth - truth.mean(axis=1, keepdims=True)
    has_advantage = (values != 0).any(axis=1)
    power, is_silent = (values**2).sum(axis=1), not has_advantage.any()
    return Worth(
        against=float(((values * deviations).sum(axis=1) < 0)[signal].mean()),
        lost=float((~has_advantage)[signal].mean()),
        idle=float(has_advantage[~signal].mean()),
        idle_weight=0.0 if is_silent else float(power[~signal].sum() / power.sum()),
        correlation=0.0 if is_silent else float(np.corrcoef(values.ravel(), deviations.ravel())[0, 1]),
    )


@dataclass(frozen=True)
class Measurement:
    """One seed, judge and number of draws. std: measured, as a share of the scale. unscored: share of edits. worth: by
    treatment of the noise.
    """

    seed: int
    judge: str
    draws: int
    std: float
    unscored: float
    worth: Mapping[str, Worth]


TREATMENTS: Mapping[str, Mapping[str, Any]] = {
    "none": {},
    "shrink": {"judge_std": 1.0},
    "shrink, half": {"judge_std": 0.5},
    "shrink, double": {"judge_std": 2.0},
    "floor": {"judge_std": 1.0, "noise_correction": "floor"},
    "none, by batch": {"scale_rewards": "batch"},
    "shrink, by batch": {"judge_std": 1.0, "scale_rewards": "batch"},
}
"""Options of `advantages`; judge_std in units of the measured one."""

FAILED_IS_ZERO = "none, failed is 0"
"""No correction, and a missing score as a number."""


def measure(seed: int, judge: str, draws: int, groups: Sequence[Sequence[Case]], others: Sequence[Case]) -> Measurement:
    """Score the groups and compare. others: edits to measure the noise on."""
    reward = Reward(EditScore(draws=draws), {"judge": SampledJudge(JUDGES[judge], seed)}, on_failures="none")
    std = measure_judge_variance(reward, [case.sample for case in others]).std
    edits = [case for group in groups for case in group]
    values = [score.value for score in reward([case.sample for case in edits])]
    names = [case.sample.group for case in edits]
    truth = np.array([case.truth.overall for case in edits]).reshape(len(groups), -1)

    def of(scores: Sequence[float | None], judge_std: float = 0.0, **options: Any) -> Worth:
        result = advantages(scores, names, judge_std=judge_std * std, **options)
        return worth(result.values.reshape(truth.shape), truth)

    return Measurement(
        seed,
        judge,
        draws,
        std / MAX_SCORE,
        fmean(value is None for value in values),
        {FAILED_IS_ZERO: of([0.0 if value is None else value for value in values])}
        | {name: of(values, **options) for name, options in TREATMENTS.items()},
    )


# -- the report -------------------------------------------------------------------------------------------------------


def table(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Markdown, line by line: means over seeds with 95 % intervals, and the change by the correction, seed by seed."""
    columns = ("judge", "draws", "noise measured", "no score", "correction", *(title for title, _ in _COLUMNS))
    rows = []
    for judge, draws in dict.fromkeys((one.judge, one.draws) for one in measurements):
        selected = [one for one in measurements if (one.judge, one.draws) == (judge, draws)]
        means = (f"{fmean(one.std for one in selected):.3f}", f"{fmean(one.unscored for one in selected):.1%}")
        for treatment in selected[0].worth:
            cells = [_cell(selected, treatment, field) for _, field in _COLUMNS]
            rows.append((judge, draws, *means, treatment, *cells))
        rows.append((judge, draws, *means, "shrink - none", *(_cell(selected, "", field) for _, field in _COLUMNS)))
    yield from table_lines(columns, rows)


_COLUMNS = (
    ("groups against the truth", "against"),
    ("groups that lost their signal", "lost"),
    ("groups without signal that have advantages", "idle"),
    ("their share of squared advantages", "idle_weight"),
    ("correlation with the truth", "correlation"),
)
_SCALE = {field: 1 if field == "correlation" else 100 for _, field in _COLUMNS}


def _cell(selected: Sequence[Measurement], treatment: str, field: str) -> str:
    def value(one: Measurement, name: str) -> float:
        return float(getattr(one.worth[name], field))

    values = [value(one, treatment) if treatment else value(one, "shrink") - value(one, "none") for one in selected]
    scale, form = _SCALE[field], ".3f" if field == "correlation" else ".1f"
    sign = "" if treatment else "+"
    mean, interval = scale * fmean(values), bootstrap_interval(row_means, values)
    bounds = "" if interval is None else " ({:{f}} to {:{f}})".format(*(scale * x for x in interval), f=sign + form)
    return f"{mean:{sign}{form}}{bounds}"


def plot(measurements: Sequence[Measurement], path: Path) -> None:
    """Three figures by judge, number of draws and treatment, with intervals."""
    pyplot = optional_imports.bench_library("matplotlib.pyplot")
    panels = (
        ("idle_weight", "squared advantages in groups\nwithout signal (%)"),
        ("against", "groups against the truth (%)"),
        ("correlation", "correlation of advantage and truth"),
    )
    treatments = {
        "none": "by group, as they are",
        "shrink": "by group, corrected",
        "none, by batch": "by batch, as they are",
    }
    judges = list(dict.fromkeys(one.judge for one in measurements))
    kinds = [(draws, name) for draws in dict.fromkeys(one.draws for one in measurements) for name in treatments]
    figure, axes = pyplot.subplots(1, len(panels), figsize=(12, 4.8), layout="constrained")
    for axis, (field, label) in zip(axes, panels, strict=True):
        for number, (draws, treatment) in enumerate(kinds):
            points = []
            for judge in judges:
                selected = [one for one in measurements if (one.judge, one.draws) == (judge, draws)]
                values = [_SCALE[field] * getattr(one.worth[treatment], field) for one in selected]
                points.append((fmean(values), *(bootstrap_interval(row_means, values) or (np.nan, np.nan))))
            mean, low, high = np.array(points).T
            axis.errorbar(
                np.arange(len(judges)) + 0.12 * (number - (len(kinds) - 1) / 2),
                mean,
                [mean - low, high - mean],
                fmt="o" if draws == 1 else "s",
                color=f"C{list(treatments).index(treatment)}",
                markerfacecolor="white" if draws == 1 else None,
                markersize=5,
                label=f"{draws} draw{'s' * (draws > 1)}, {treatments[treatment]}",
            )
        axis.set_xticks(range(len(judges)), [name.replace(", ", ",\n") for name in judges], rotation=35, fontsize=8)
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
        axis.grid(visible=True, axis="y", alpha=0.3)
    handles, _ = axes[0].get_legend_handles_labels()
    columns = sorted(handles, key=lambda handle: handles.index(handle) % len(treatments))  # a treatment each
    figure.legend(handles=columns, loc="outside upper center", ncols=len(treatments), fontsize=8)
    figure.savefig(path, dpi=90)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="studies.learning.judge_noise", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS, help="of edits and noise")
    parser.add_argument("--groups", type=at_least_one, default=30, help=f"of {GROUP_SIZE} edits each (default: 30)")
    parser.add_argument("--draws", type=at_least_one, nargs="+", default=(1, 4), help="averaged (default: 1 4)")
    parser.add_argument("--plot", type=new_image_file, help="file for a plot")
    options = parser.parse_args(arguments)
    if options.plot is not None:
        optional_imports.bench_library("matplotlib")
    measurements: list[Measurement] = []
    for seed in dict.fromkeys(options.seeds):
        groups = drawn_groups(options.groups, seed)
        others = [group[0] for group in drawn_groups(_MEASURED_EDITS, -1 - seed, group_size=1)]
        measurements += [
            measure(seed, judge, draws, groups, others) for judge in JUDGES for draws in dict.fromkeys(options.draws)
        ]
    print("\n".join(table(measurements)), flush=True)
    if options.plot is not None:
        plot(measurements, options.plot)


if __name__ == "__main__":
    main()
