"""Does a planner read what people write? `python -m studies.planning --set reported`.

Each set has sentences in up to three registers, labelled without sight of the grammar, and sentences that ask for
no edit. A planner answers or abstains; what it answers is right or wrong in type and target.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from editcritic.benchmarks.common.terminal import echo
from editcritic.reward.bootstrap_intervals import wilson_interval
from editcritic.reward.config import load_experts
from editcritic.reward.edit_plan import EditPlan, plan_to_json
from editcritic.reward.image import Image
from editcritic.reward.queries.expert import Expert
from editcritic.reward.queries.kinds import Plan
from editcritic.reward.queries.outcomes import Failure
from studies.planning.labelled_phrasings import is_right_in_target, is_right_in_type

from .labelled_phrasings import Phrasing, phrasings_of

SETS = ("development", "reported", "second")
"""What the rules were written on; what was held back and looked at once; what was held back after that."""


@dataclass
class Outcomes:
    """What a planner made of a set. wrong: sentence and plan of each answer that is not right in both."""

    sentences: int = 0
    clear: int = 0
    answered: int = 0
    unclear_answered: int = 0
    right_type: int = 0
    right_target: int = 0
    right: int = 0
    answered_none: Counter[str] = field(default_factory=Counter)
    none: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, EditPlan]] = field(default_factory=list)

    def add(self, phrasing: Phrasing, plan: EditPlan | None) -> None:
        """Count one sentence."""
        if phrasing.kind:
            self.none[phrasing.kind] += 1
            if plan is not None:
                self.answered_none[phrasing.kind] += 1
                self.wrong.append((phrasing.text, plan))
            return
        self.sentences += 1
        self.clear += phrasing.clear
        if plan is None:
            return
        if not phrasing.clear:
            self.unclear_answered += 1
            self.wrong.append((phrasing.text, plan))
            return
        kind, target = is_right_in_type(plan, phrasing), is_right_in_target(plan, phrasing)
        self.answered += 1
        self.right_type += kind
        self.right_target += target
        self.right += kind and target
        if not (kind and target):
            self.wrong.append((phrasing.text, plan))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study: tables as Markdown on standard output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=SETS, default="development", help="a set of ours")
    parser.add_argument("--planner", default="rules", help="spec of the planner; default: rules")
    parser.add_argument("--wrong", action="store_true", help="list the answers that are wrong, with their plans")
    options = parser.parse_args(arguments)
    planner = load_experts({"planner": options.planner})["planner"]
    outcomes = {name: _outcomes(planner, phrasings) for name, phrasings in phrasings_of(options.set).items()}
    _print(outcomes)
    if options.wrong:
        _print_wrong(outcomes)


def _outcomes(planner: Expert, phrasings: Sequence[Phrasing]) -> Outcomes:
    blank = Image.of(np.full((64, 64, 3), 128, np.uint8))
    outcomes = Outcomes()
    for start in range(0, len(phrasings), planner.batch):
        some = phrasings[start : start + planner.batch]
        answers = planner([Plan((blank,), phrasing.text) for phrasing in some])
        for phrasing, answer in zip(some, answers, strict=True):
            if isinstance(answer, Failure):  # to fail is not to abstain
                raise RuntimeError(f"the planner failed on {phrasing.text!r:.80}: {answer.reason}")
            outcomes.add(phrasing, answer if isinstance(answer, EditPlan) else None)
    return outcomes


def _print(sets: Mapping[str, Outcomes]) -> None:
    columns = (
        *("set", "sentences", "clear", "answered", "of the clear ones", "of all", "though unclear"),
        *("right in type", "right in target", "right in both"),
    )
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    requests = {name: one for name, one in sets.items() if one.sentences}
    if len(requests) > 1:
        requests["all"] = _sum(list(requests.values()))
    for name, one in requests.items():
        cells = [
            *(name, str(one.sentences), str(one.clear), str(one.answered)),
            _share(one.answered, one.clear),
            _share(one.answered + one.unclear_answered, one.sentences),
            str(one.unclear_answered),
            *(_share(hits, one.answered) for hits in (one.right_type, one.right_target, one.right)),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    kinds = sum((one.none for one in sets.values()), Counter[str]())
    answered = sum((one.answered_none for one in sets.values()), Counter[str]())
    if kinds:
        lines += ["", "| no edit to plan | sentences | answered |", "|---|---|---|"]
        lines += [f"| {kind} | {count} | {answered[kind]} |" for kind, count in sorted(kinds.items())]
        lines.append(f"| all | {kinds.total()} | {_share(answered.total(), kinds.total())} |")
    echo("\n".join(lines), stderr=False)


def _sum(outcomes: Sequence[Outcomes]) -> Outcomes:
    names = ("sentences", "clear", "answered", "unclear_answered", "right_type", "right_target", "right")
    return Outcomes(**{name: sum(getattr(one, name) for one in outcomes) for name in names})


def _share(hits: int, count: int) -> str:
    """A proportion with its interval, and the numbers."""
    if not count:
        return "-"
    low, high = wilson_interval(hits, count)
    return f"{hits / count:.1%} ({low:.1%} to {high:.1%}; {hits} of {count})"


def _print_wrong(sets: Mapping[str, Outcomes]) -> None:
    for name, one in sets.items():
        for text, plan in one.wrong:
            operations = [
                {key: value for key, value in operation.items() if key not in ("words", "questions")}
                for operation in plan_to_json(plan)["operations"]
            ]
            echo(f"\n{name}: {text}\n  {json.dumps(operations, ensure_ascii=False)}", stderr=False)


if __name__ == "__main__":
    main()
