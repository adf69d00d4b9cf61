"""The study's tables in Markdown, and its JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from editcritic.benchmarks.common.markdown import table_lines

from ..validity.disagreements import PAPER
from .agreement import MARGINS
from .attack_search import MIN_UNCHANGED, AttackResult
from .bars import BAR_SETTING, AnyEditResult
from .case_study import CaseStudy
from .comparison import RewardAgreement
from .robustness import Curve
from .scoring import ANY_EDIT, EDIT_BALANCED, FOLLOWING_METRIC, SETTINGS

# -- Markdown ---------------------------------------------------------------------------------------------------------


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
        "An edit without a value counts as 0, the lowest; in the rows `left out` it is in no pair. Pairs: two editors, "
        "one source, truths that differ by more than the margin; a tie counts half. `true F`: true following times the "
        "reward's preservation; `true S`: its following times the true unchanged share; `F a verdict`: 1 from 0.5 on, "
        "else 0. Intervals: 95 %, over prompts."
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
    yield "\n" + ", ".join(f"{name} {seconds:.0f} s" for name, seconds in result.seconds.items())


def _agreement_rows(chosen: Sequence[RewardAgreement]) -> Iterator[Sequence[str]]:
    yield ("Spearman", *(one.spearman["lowest"].text for one in chosen))
    yield ("Spearman, left out", *(one.spearman["left out"].text for one in chosen))
    for margin in MARGINS:
        yield (f"pairs, margin {margin:g}", *(one.pairs[margin].text for one in chosen))
        yield (f"pairs, both followed, margin {margin:g}", *(one.followed_pairs[margin].text for one in chosen))
    yield ("pairs, left out", *(one.left_out_pairs[0].text for one in chosen))
    yield ("pairs, both followed, left out", *(one.left_out_pairs[1].text for one in chosen))
    yield ("Spearman with true F", *(one.true_following.text for one in chosen))
    yield ("Spearman with true S", *(one.true_preservation.text for one in chosen))
    yield ("Spearman with true S, F a verdict", *(one.true_preservation_verdict.text for one in chosen))
    yield ("Spearman, F a verdict", *(one.verdicts.text for one in chosen))
    yield ("Kendall's tau of the editors", *(one.tau.text for one in chosen))
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
        (check.name, seed, _number(check.measured), check.note)
        for reward in (EDIT_BALANCED, ANY_EDIT)
        for seed, hacking in cases.hacking(reward).items()
        for check in hacking.checks()
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


# -- JSON -------------------------------------------------------------------------------------------------------------


def to_json(result: AnyEditResult, command: str) -> dict[str, Any]:
    """All numbers, plain JSON."""
    cases = result.cases
    return {
        "command": command,
        "seeds": list(result.seeds),
        "checks": [{**asdict(check), "passed": check.passed} for check in result.checks],
        "agreements": [asdict(one) for one in result.agreements],
        "editors": {name: {"followed": f, "unchanged": u} for name, (f, u) in result.truths.items()},
        "following": {
            **{spec: asdict(cases.agreement(spec)) for spec in (FOLLOWING_METRIC, PAPER)},
            "difference": asdict(cases.following_difference()),
            "differences_by_seed": cases.differences_by_seed(),
        },
        "hacks": {
            reward: {
                seed: [asdict(check) for check in hacking.checks()] for seed, hacking in cases.hacking(reward).items()
            }
            for reward in (EDIT_BALANCED, ANY_EDIT)
        },
        "search": {reward: _attack_json(attack) for reward, attack in result.attacks.items()},
        "curves": [asdict(curve) for curve in result.curves],
        "queries": {"rollouts": asdict(result.counts), "one": asdict(result.single)},
        "seconds": dict(result.seconds),
        "exit_code": result.exit_code,
    }


def _attack_json(attack: AttackResult) -> dict[str, Any]:
    return {
        **_attack_counts(attack),
        "by_seed": {seed: _attack_counts(attack.of_seed(seed)) for seed in attack.seeds},
        "requests": [
            {
                "seed": one.seed,
                "instruction": one.instruction,
                "honest": list(one.honest),
                "honest_without_value": one.missing,
                "bad": len(one.bad),
                "finds": len(one.finds),
                "mean_value": fmean(candidate.score.value or 0.0 for candidate in one.candidates),
            }
            for one in attack.attacks
        ],
        "best": [
            {
                "seed": one.seed,
                "instruction": one.instruction,
                "recipe": asdict(candidate.recipe),
                "score": asdict(candidate.score),
                "worst_honest": one.honest[0] if one.honest else None,
                "followed": candidate.followed,
                "unchanged": candidate.unchanged,
            }
            for one, candidate in attack.best()
        ],
    }


def _attack_counts(attack: AttackResult) -> dict[str, Any]:
    margin = attack.highest_margin
    return {
        "evaluations": attack.evaluations,
        "finds": attack.find_count,
        "finds_above_median": attack.median_find_count,
        "highest_margin": margin if math.isfinite(margin) else None,
    }
