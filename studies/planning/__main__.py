"""Does a planner read what people write? `python -m studies.planning --set reported`.

Each set has sentences in up to three registers, labelled without sight of the grammar, and sentences that ask for
no edit. A planner answers or abstains; what it answers is right or wrong in type and target.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from editcritic.benchmarks.common.markdown import table_lines
from editcritic.benchmarks.common.terminal import echo
from editcritic.reward.bootstrap_intervals import wilson_interval
from editcritic.reward.edit_plan import EditPlan, PlannedOperation, Target, plan_to_json
from editcritic.reward.planners.rule_planner import RulePlanner

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


Row = tuple[Phrasing, EditPlan | None]
"""A sentence, and the plan of the rules; None where they abstain."""


def is_wrong(phrasing: Phrasing, plan: EditPlan | None) -> bool:
    """Whether there is a plan, and should be none, or one that is right in type and target."""
    if plan is None:
        return False
    right = is_right_in_type(plan, phrasing) and is_right_in_target(plan, phrasing)
    return bool(phrasing.kind) or not phrasing.clear or not right


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study: tables as Markdown on standard output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=SETS, default="development", help="a set of ours")
    parser.add_argument("--wrong", action="store_true", help="list the answers that are wrong, with their plans")
    options = parser.parse_args(arguments)
    planner = RulePlanner()
    sets = {
        name: [(phrasing, planner.plan(phrasing.text)) for phrasing in phrasings]
        for name, phrasings in phrasings_of(options.set).items()
    }
    echo("\n".join(_tables(sets)), stderr=False)
    wrong = [(name, *row) for name, rows in sets.items() for row in rows if options.wrong and is_wrong(*row)]
    for name, phrasing, plan in wrong:
        operations = [
            {key: value for key, value in operation.items() if key not in ("words", "questions")}
            for operation in (plan_to_json(plan)["operations"] if plan else ())
        ]
        echo(f"\n{name}: {phrasing.text}\n  {json.dumps(operations, ensure_ascii=False)}", stderr=False)


def _tables(sets: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    columns = (
        *("set", "sentences", "clear", "answered", "of the clear ones", "of all", "though unclear"),
        *("right in type", "right in target", "right in both"),
    )
    requests = {name: asked for name, rows in sets.items() if (asked := [row for row in rows if not row[0].kind])}
    if len(requests) > 1:
        requests["all"] = [row for rows in requests.values() for row in rows]
    yield from table_lines(columns, [_cells(name, rows) for name, rows in requests.items()])
    answered: dict[str, list[bool]] = {}
    for phrasing, plan in (row for rows in sets.values() for row in rows if row[0].kind):
        answered.setdefault(phrasing.kind, []).append(plan is not None)
    if answered:
        lines = [(kind, str(len(flags)), str(sum(flags))) for kind, flags in sorted(answered.items())]
        flags = [flag for some in answered.values() for flag in some]
        yield ""
        lines.append(("all", str(len(flags)), _share(sum(flags), len(flags))))
        yield from table_lines(("no edit to plan", "sentences", "answered"), lines)


def _cells(name: str, rows: Sequence[Row]) -> list[str]:
    clear = [(phrasing, plan) for phrasing, plan in rows if phrasing.clear]
    answers = [(phrasing, plan) for phrasing, plan in clear if plan is not None]
    unclear = sum(plan is not None and not phrasing.clear for phrasing, plan in rows)
    hits = (
        sum(is_right_in_type(plan, phrasing) for phrasing, plan in answers),
        sum(is_right_in_target(plan, phrasing) for phrasing, plan in answers),
        sum(not is_wrong(phrasing, plan) for phrasing, plan in answers),
    )
    return [
        *(name, str(len(rows)), str(len(clear)), str(len(answers)), _share(len(answers), len(clear))),
        *(_share(len(answers) + unclear, len(rows)), str(unclear), *(_share(count, len(answers)) for count in hits)),
    ]


def _share(hits: int, count: int) -> str:
    if not count:
        return "-"
    low, high = wilson_interval(hits, count)
    return f"{hits / count:.1%} ({low:.1%} to {high:.1%}; {hits} of {count})"


if __name__ == "__main__":
    main()
