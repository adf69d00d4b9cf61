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
from pathlib import Path
from typing import Any

import numpy as np

from editcritic.benchmarks.common.terminal import echo
from editcritic.reward.bootstrap_intervals import wilson_interval
from editcritic.reward.config import load_experts
from editcritic.reward.edit_plan import EditPlan, PlannedOperation, Target, plan_to_json
from editcritic.reward.image import Image
from editcritic.reward.queries.expert import Expert
from editcritic.reward.queries.kinds import Plan
from editcritic.reward.queries.outcomes import Failure

REGISTERS = ("imgedit", "short", "conversational", "abstain")


@dataclass(frozen=True, slots=True)
class Labelled:
    """What is acceptable for one operation. target, new: phrases; None where there is none to compare."""

    types: tuple[str, ...]
    target: tuple[str, ...] | None = None
    new: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Phrasing:
    """A sentence. kind: why nothing may be planned; empty for a request. clear: whether people would agree on it."""

    text: str
    clear: bool = True
    operations: tuple[Labelled, ...] = ()
    kind: str = ""


def phrasings_of(name: str) -> dict[str, list[Phrasing]]:
    """The phrasings of a set, by register; those that are missing are left out."""
    found = {}
    for register in REGISTERS:
        file = Path(__file__).parent / "phrasings" / f"{name}_{register}.jsonl"
        if file.is_file():
            found[register] = [_phrasing(json.loads(line)) for line in file.read_text("utf-8").splitlines()]
    return found


def _phrasing(data: Mapping[str, Any]) -> Phrasing:
    if "kind" in data:
        return Phrasing(data["text"], kind=data["kind"])
    operations = tuple(
        Labelled(_words(one["type"]) or (), _words(one.get("target")), _words(one.get("new")))
        for one in data["operations"]
    )
    return Phrasing(data["text"], data.get("clear", True), operations)


def _words(value: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """A word or a list of words; None for null and for an empty list."""
    return ((value,) if isinstance(value, str) else tuple(value or ())) or None


WHOLE_PICTURE = frozenset(
    (
        *("image", "picture", "photo", "photograph", "scene", "whole image", "entire image", "whole picture"),
        *("entire picture", "whole scene", "entire scene", "whole photo", "entire photo"),
    )
)
BACKGROUND = frozenset(("background", "backdrop", "setting", "environment", "surroundings", "scenery"))
"""What a change of background is about whether or not it is named."""


def is_right_in_type(plan: EditPlan, phrasing: Phrasing) -> bool:
    """Whether the plan has as many operations, and each has an acceptable type, in order."""
    return len(plan.operations) == len(phrasing.operations) and all(
        operation.type in labelled.types
        for operation, labelled in zip(plan.operations, phrasing.operations, strict=True)
    )


def is_right_in_target(plan: EditPlan, phrasing: Phrasing) -> bool:
    """Whether the plan has as many operations, and each is about an acceptable object, in order.

    A noun, or attributes and noun, must equal an acceptable phrase; of an added object the new one, of a replaced one
    both.
    """
    return len(plan.operations) == len(phrasing.operations) and all(
        _is_about(operation, labelled) for operation, labelled in zip(plan.operations, phrasing.operations, strict=True)
    )


def _is_about(operation: PlannedOperation, labelled: Labelled) -> bool:
    if operation.type == "subject_add":
        return labelled.new is None or _equals(operation.new, labelled.new)
    if operation.type == "subject_replace" and labelled.new is not None and not _equals(operation.new, labelled.new):
        return False
    whole = WHOLE_PICTURE | BACKGROUND if operation.type == "background_change" else WHOLE_PICTURE
    is_whole = operation.target is None or bool(_phrases(operation.target) & whole)
    if labelled.target is None:
        return is_whole
    if operation.target is None:
        return any(_plain(phrase) in whole for phrase in labelled.target)
    return _equals(operation.target, labelled.target)


def _equals(target: Target | None, acceptable: Sequence[str]) -> bool:
    return target is not None and bool(_phrases(target) & {_plain(phrase) for phrase in acceptable})


def _phrases(target: Target) -> set[str]:
    return {_plain(target.noun), _plain(target.phrase)}


def _plain(phrase: str) -> str:
    """In lower case, without articles and possessive endings."""
    words = phrase.casefold().replace("’", "'").split()
    plain = [word.removesuffix("'s").removesuffix("'") for word in words if word not in ("a", "an", "the")]
    return " ".join(plain)


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
