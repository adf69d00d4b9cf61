"""The bars of `any-edit`, measured: `python -m studies.any_edit --seeds 31 32 33 --out FOLDER`.

The outputs of five editors with their truth, simulated edits, a search for hacks, and curves under errors. Outputs,
truths and answers are kept in the folder: the same command continues an interrupted run. Seeds below 30 were used
during development. Exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from editcritic.benchmarks.common.argument_types import at_least_one
from editcritic.benchmarks.common.terminal import echo
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward.engine.answer_log import AnswerLog

from .any_edit_report import draw_curves, markdown
from .attack_search import AttackPlan, search
from .bars import AnyEditResult, CaseStudy, count_queries
from .comparison import compare_rewards
from .pool import ANY_EDIT, EDIT_BALANCED, PoolEdit, editors_of, experts_for, load_pool
from .robustness import CurveRun, measure_curves

CURVES = "any-edit-curves.png"
ANSWERS = "answers.sqlite"


@dataclass(frozen=True)
class StudySize:
    """How much is measured. prompts: of each pool and seed. curve_prompts: of them, in the curves. cases: simulated
    edits of each seed.
    """

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
    """Editor -> mean of followed and of unchanged."""
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
