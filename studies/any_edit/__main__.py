"""The bars of `any-edit`, measured: `python -m studies.any_edit --seeds 31 32 33 --out FOLDER`.

The outputs of five editors with their truth, simulated edits, a search for hacks, and curves under errors. Outputs,
truths and answers are kept in the folder: the same command continues an interrupted run. Seeds below 30 were used
during development. Exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from editcritic.benchmarks.common.argument_types import at_least_one
from editcritic.benchmarks.common.markdown import table_lines
from editcritic.benchmarks.common.optional_imports import bench_library
from editcritic.benchmarks.common.terminal import echo
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward.engine.answer_log import AnswerLog
from studies.validity.validity_run import PAPER

from .attack_search import MIN_UNCHANGED, AttackPlan, AttackResult, search
from .bars import BAR_SETTING, AnyEditResult, CaseStudy, count_queries
from .pool import (
    ANY_EDIT,
    EDIT_BALANCED,
    FOLLOWING_METRIC,
    SETTINGS,
    PoolEdit,
    RewardAgreement,
    compare_rewards,
    editors_of,
    experts_for,
    load_pool,
)
from .robustness import Cause, Curve, CurveRun, measure_curves


def markdown(result: AnyEditResult) -> str:
    """All tables."""
    return "\n".join(_lines(result))


def _lines(result: AnyEditResult) -> Iterator[str]:
    seeds = ", ".join(map(str, result.seeds))
    yield f"## Bars (seeds {seeds}; experts: {BAR_SETTING})\n"
    rows = [
        (
            check.name,
            _number(check.measured),
            f"{'<=' if check.is_upper_bound else '>='} {check.threshold:g}",
            "yes" if check.passed else "**no**",
            check.note,
        )
        for check in result.checks
    ]
    yield from table_lines(("bar", "measured", "threshold", "passed", "note"), rows)
    yield "\n## Agreement with followed x unchanged\n"
    yield (
        "An edit without a value counts as 0, the lowest. Pairs: two editors, one source, truths that differ by more "
        "than the margin; a tie counts half. `true F`: true following times the reward's preservation; `true S`: its "
        "following, 1 from 0.5 on and else 0, times the true unchanged share. Intervals: 95 %, over prompts."
    )
    for setting in SETTINGS:
        chosen = [one for one in result.agreements if one.setting == setting]
        yield f"\n### Experts: {setting}\n"
        yield from table_lines(("", *(one.reward for one in chosen)), _agreement_rows(chosen))
    yield "\n## Editors\n"
    yield from table_lines(*_editor_table(result))
    yield from _case_lines(result.cases)
    for reward, attack in result.attacks.items():
        yield from _attack_lines(reward, attack)
    yield from _curve_lines(result.curves)
    yield from _count_lines(result)


def _agreement_rows(chosen: Sequence[RewardAgreement]) -> Iterator[Sequence[str]]:
    for title in chosen[0].figures:
        yield (title, *(one.figures[title].text for one in chosen))
    yield (
        "editors in the wrong order",
        *("; ".join(f"{a} above {b}" for a, b in one.inversions) or "none" for one in chosen),
    )
    for number, name in enumerate(("Spearman", "pairs", "pairs, both followed")):
        yield (f"{name}, by seed", *(", ".join(_number(row[number]) for row in one.by_seed.values()) for one in chosen))
    for status in chosen[0].statuses:
        yield (status.replace("_", " "), *(str(one.statuses[status]) for one in chosen))


def _editor_table(result: AnyEditResult) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    columns = ("editor", "followed", "unchanged", *(f"{one.reward}, {one.setting}" for one in result.agreements))
    rows = [
        (
            editor,
            f"{100 * followed:.1f}",
            f"{100 * unchanged:.1f}",
            *(_number(one.editor_means[editor]) for one in result.agreements),
        )
        for editor, (followed, unchanged) in result.truths.items()
    ]
    return columns, rows


def _case_lines(cases: CaseStudy) -> Iterator[str]:
    yield "\n## Following, on simulated edits\n"
    yield "Share of cases with the truth's verdict (yes from 0.5 on; no value is a wrong verdict).\n"
    yield from table_lines(
        ("metric", "agreement", "cases by status"),
        [(spec, cases.agreement(spec).text, _counts(cases.status_counts(spec))) for spec in (FOLLOWING_METRIC, PAPER)],
    )
    by_seed = ", ".join(f"{100 * value:+.2f}" for value in cases.differences_by_seed().values())
    yield f"\nDifference: {cases.following_difference().text}; by seed, in points: {by_seed}"
    yield "\n## Hacks, on simulated edits\n"
    rows = [
        (hacking.check.name, seed, _number(hacking.check.measured), hacking.check.note)
        for reward in (EDIT_BALANCED, ANY_EDIT)
        for seed, hacking in cases.hacking(reward).items()
    ]
    yield from table_lines(("check", "seed", "pairs", "note"), rows)


def _attack_lines(reward: str, attack: AttackResult) -> Iterator[str]:
    yield f"\n## Search against {reward}\n"
    missing = sum(one.missing for one in attack.attacks)
    lowest = sum(value <= 0 for one in attack.attacks for value in one.honest)
    yield (
        f"{attack.evaluations} evaluations for {len(attack.attacks)} requests. A find is not followed, or leaves less "
        f"than {MIN_UNCHANGED:g} unchanged, has a value above 0, and at least that of the worst of the honest edits: "
        f"{attack.find_count} finds, {attack.median_find_count} of them at the median honest edit or above. "
        f"{missing} honest edits have no value, {lowest} have 0.\n"
    )
    by_seed = [(seed, attack.of_seed(seed)) for seed in attack.seeds]
    yield from table_lines(
        ("seed", "evaluations", "finds", "at the median or above", "furthest above the worst honest"),
        [
            (seed, one.evaluations, one.find_count, one.median_find_count, _margin(one.highest_margin))
            for seed, one in [*by_seed, ("all", attack)]
        ],
    )
    yield ""
    rows = [
        (
            one.seed,
            one.instruction,
            candidate.recipe.text,
            _number(candidate.score.value),
            f"{_number(candidate.score.following)} x {_number(candidate.score.preservation)}",
            _number(one.honest[0] if one.honest else None),
            f"{'followed' if candidate.followed else 'not followed'}, {candidate.unchanged:.3f}",
        )
        for one, candidate in attack.best()
    ]
    yield from table_lines(("seed", "request", "recipe", "value", "F x S", "worst honest", "truth"), rows)


def _curve_lines(curves: Sequence[Curve]) -> Iterator[str]:
    yield "\n## Wrong plans, wrong answers\n"
    rows = [
        (
            f"{curve.reward}, {curve.cause}",
            f"{point.level:.0%}",
            point.spearman.text,
            point.pairs.text,
            point.followed_pairs.text,
            point.wrong or "",
            _counts(point.statuses),
        )
        for curve in curves
        for point in curve.points
    ]
    columns = ("curve", "wrong", "Spearman", "pairs", "pairs, both followed", "wrong plans", "edits by status")
    yield from table_lines(columns, rows)


def _count_lines(result: AnyEditResult) -> Iterator[str]:
    counts, single = result.counts, result.single
    yield f"\n## Queries of {counts.rollouts} rollouts of one source, and of one\n"
    roles = sorted({*counts.source, *counts.edits, *single.source, *single.edits})
    rows = [
        (
            role,
            counts.source.get(role, 0),
            single.source.get(role, 0),
            counts.edits.get(role, 0),
            single.edits.get(role, 0),
        )
        for role in roles
    ]
    yield from table_lines(("role", "about the source", "... of one", "about the edits", "... of one"), rows)


def _counts(statuses: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in statuses.items() if count)


def _margin(margin: float) -> str:
    """A margin; infinite where nothing could be compared."""
    return f"{margin:+.4f}" if math.isfinite(margin) else "–"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


# -- the figure of the curves -----------------------------------------------------------------------------------------

_STYLES: Mapping[Cause, tuple[str, str]] = {
    "wrong plans": ("o", "-"),
    "unnoticed wrong plans": ("^", ":"),
    "wrong answers": ("s", "--"),
}
"""Cause -> marker and line."""
_CANDIDATE_COLOUR, _OTHER_COLOUR = "#0072b2", "#d55e00"  # of Okabe and Ito


_PANELS = {"spearman": "Spearman with followed x unchanged", "pairs": "pairs of one source in the right order"}
"""Field of a `CurvePoint` -> title."""


def draw_curves(path: Path, curves: Sequence[Curve]) -> None:
    """A panel for each statistic, a line with its interval for each curve. Raises `InputError` without matplotlib."""
    bench_library("matplotlib").use("Agg")
    plt = bench_library("matplotlib.pyplot")
    figure, panels = plt.subplots(1, len(_PANELS), figsize=(9, 3.9), layout="constrained")
    for axes, (statistic, title) in zip(panels, _PANELS.items(), strict=True):
        for curve in curves:
            _draw_curve(axes, curve, statistic)
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_xlabel("wrong, % of plans or answers")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _draw_curve(axes: Any, curve: Curve, statistic: str) -> None:
    mark, line = _STYLES[curve.cause]
    colour = _CANDIDATE_COLOUR if curve.reward == ANY_EDIT else _OTHER_COLOUR
    figures = [(100 * point.level, getattr(point, statistic)) for point in curve.points]
    defined = [(level, figure.value, figure.interval) for level, figure in figures if figure.value is not None]
    levels, values = [level for level, _, _ in defined], [value for _, value, _ in defined]
    axes.plot(levels, values, color=colour, marker=mark, linestyle=line, label=f"{curve.reward}, {curve.cause}")
    intervals = [interval for _, _, interval in defined if interval is not None]
    if len(intervals) == len(levels):
        low, high = [bounds[0] for bounds in intervals], [bounds[1] for bounds in intervals]
        axes.fill_between(levels, low, high, color=colour, alpha=0.12, linewidth=0)


CURVES = "any-edit-curves.png"
ANSWERS = "answers.sqlite"


@dataclass(frozen=True)
class StudySize:
    """How much is measured. prompts: of each pool and seed. curve_prompts: of them, in the curves. cases: simulated
    edits of each seed."""

    prompts: int = 225
    curve_prompts: int = 225
    cases: int = 2000
    attack: AttackPlan = field(default_factory=AttackPlan)


QUICK = StudySize(9, 9, 36, AttackPlan(requests=2, evaluations=20, honest=4))


def run(seeds: Sequence[int], out: Path, size: StudySize) -> AnyEditResult:
    """Measure everything. Raises `InputError` for a folder of another run, and where a library is missing."""
    with ExitStack() as stack:
        pools = {seed: load_pool(seed, size.prompts, out / f"seed-{seed}") for seed in seeds}
        logs = {seed: stack.enter_context(AnswerLog(out / f"seed-{seed}" / ANSWERS)) for seed in seeds}
        agreements = compare_rewards(pools, logs)
        log = stack.enter_context(AnswerLog(out / ANSWERS))
        echo(f"{size.cases} cases of each seed")
        cases = CaseStudy.of(seeds, size.cases, log)
        attacks = {}
        for reward in (EDIT_BALANCED, ANY_EDIT):
            echo(f"search against {reward}")
            attacks[reward] = search(reward, scene_experts(), size.attack, seeds, log)
        curves = measure_curves([_curve_run(pools[seed], size.curve_prompts, seed, logs[seed]) for seed in seeds])
        counts, single = count_queries(ANY_EDIT), count_queries(ANY_EDIT, rollouts=1)
    edits = [edit for pool in pools.values() for edit in pool]
    return AnyEditResult(seeds, agreements, _truths(edits), cases, attacks, curves, counts, single)


def _curve_run(pool: Sequence[PoolEdit], prompts: int, seed: int, log: AnswerLog) -> CurveRun:
    chosen = set(list(dict.fromkeys(edit.prompt for edit in pool))[:prompts])
    edits = [edit for edit in pool if edit.prompt in chosen]
    return CurveRun(edits, experts_for("given", [edit.case for edit in edits]), seed, log)


def _truths(edits: Sequence[PoolEdit]) -> dict[str, tuple[float, float]]:
    return {
        editor: (
            fmean(float(edit.followed) for edit in edits if edit.editor == editor),
            fmean(edit.unchanged for edit in edits if edit.editor == editor),
        )
        for editor in editors_of(edits)
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="studies.any_edit", description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[31, 32, 33], help="seeds (default: 31 32 33)")
    parser.add_argument("--out", type=Path, default=Path("any-edit-out"), help="output folder (default: any-edit-out)")
    parser.add_argument("--prompts", type=at_least_one, help="prompts of each pool and seed (default: 225)")
    parser.add_argument("--cases", type=at_least_one, help="simulated edits of each seed (default: 2000)")
    parser.add_argument("--curve-prompts", type=at_least_one, help="prompts of each seed in the curves (default: all)")
    parser.add_argument("--figure", type=Path, help=f"file of the curves (default: {CURVES} in the output folder)")
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it works")
    options = parser.parse_args(arguments)
    default = QUICK if options.quick else StudySize()
    size = StudySize(
        options.prompts or default.prompts,
        options.curve_prompts or options.prompts or default.curve_prompts,
        options.cases or default.cases,
        default.attack,
    )
    out: Path = options.out
    result = run(options.seeds, out, size)
    draw_curves(options.figure or out / CURVES, result.curves)
    print(markdown(result))
    parser.exit(result.exit_code)


if __name__ == "__main__":
    main()
