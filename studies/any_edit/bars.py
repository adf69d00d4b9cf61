"""Everything that the study measured, and the bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..validity.release_checks import HackingCheck, ReleaseCheck
from .agreement import MARGINS, Figure
from .attack_search import AttackResult
from .case_study import MAX_FOLLOWING_LOSS, CaseStudy
from .comparison import RewardAgreement
from .query_counts import QueryCounts
from .robustness import Curve
from .scoring import ANY_EDIT, Setting

MIN_SPEARMAN, MIN_PAIRS, MIN_FOLLOWED_PAIRS = 0.85, 0.95, 0.88
BAR_SETTING: Setting = "given"


@dataclass(frozen=True)
class AnyEditResult:
    """Everything that the study measured. attacks: by reward."""

    seeds: Sequence[int]
    agreements: Sequence[RewardAgreement]
    truths: Mapping[str, tuple[float, float]]
    cases: CaseStudy
    attacks: Mapping[str, AttackResult]
    curves: Sequence[Curve]
    counts: QueryCounts
    single: QueryCounts
    seconds: Mapping[str, float]

    @property
    def checks(self) -> list[ReleaseCheck]:
        """The bars."""
        (main,) = [one for one in self.agreements if (one.reward, one.setting) == (ANY_EDIT, BAR_SETTING)]
        difference = self.cases.following_difference()
        hacks = self.cases.hacking(ANY_EDIT)
        attack = self.attacks[ANY_EDIT]
        interval = "95 % interval {}; at {} seeds from {:.3f} to {:.3f}"
        spreads = [[row[index] or 0.0 for row in main.by_seed.values()] for index in range(3)]
        bars = (
            ("Spearman with followed x unchanged", main.spearman["lowest"], MIN_SPEARMAN),
            ("pairs of one source in the right order", main.pairs[MARGINS[0]], MIN_PAIRS),
            ("... among followed edits", main.followed_pairs[MARGINS[0]], MIN_FOLLOWED_PAIRS),
        )
        checks = [
            ReleaseCheck(name, figure.value, bar, False, _interval_note(interval, figure, spread))
            for (name, figure, bar), spread in zip(bars, spreads, strict=True)
        ]
        checks.append(
            ReleaseCheck(
                "agreement of following minus that of edival-if",
                difference.value,
                -MAX_FOLLOWING_LOSS,
                False,
                f"{difference.text} over {difference.count} cases",
            )
        )
        checks.append(_hack_check(hacks))
        checks.append(
            ReleaseCheck(
                f"finds in a search of {attack.evaluations} evaluations",
                float(attack.find_count),
                0.0,
                True,
                f"{attack.median_find_count} of them reach the median honest edit; {_finds_by_seed(attack)}",
            )
        )
        checks.append(
            ReleaseCheck(f"plans asked for by {self.counts.rollouts} rollouts", float(self.counts.plan), 1.0, True)
        )
        checks.append(
            ReleaseCheck("queries that reach an expert twice", float(self.counts.repeated), 0.0, True, "of any role")
        )
        return checks

    @property
    def exit_code(self) -> int:
        return int(not all(check.passed for check in self.checks))


def _interval_note(text: str, figure: Figure, spread: Sequence[float]) -> str:
    bounds = "{:.3f} to {:.3f}".format(*figure.interval) if figure.interval else "undefined"
    return text.format(bounds, len(spread), min(spread), max(spread))


def _finds_by_seed(attack: AttackResult) -> str:
    return "; ".join(f"seed {seed}: {attack.of_seed(seed).find_count}" for seed in attack.seeds)


def _hack_check(hacks: Mapping[int, HackingCheck]) -> ReleaseCheck:
    """The seeds' checks as one: a pair in the wrong order in any of them fails."""
    checks = [check for hacking in hacks.values() for check in hacking.checks()]
    measured = [check.measured for check in checks]
    worst = None if None in measured or not measured else max(number for number in measured if number is not None)
    note = "; ".join(f"seed {seed}: {check.note}" for seed, check in zip(hacks, checks, strict=True))
    return ReleaseCheck(f"pairs in which a hack pays under {ANY_EDIT}, most of any seed", worst, 0.0, True, note)
