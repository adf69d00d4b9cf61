"""Does a reward agree with people on real edits, and what does it pay for destroyed places?

python -m studies.real_edits agreement --clones FOLDER --half held-back
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from editcritic.benchmarks.common.argument_types import at_least_one, new_image_file
from editcritic.benchmarks.common.errors import InputError
from editcritic.reward import Reward, Score

from .agreement import agreement, hand_lines, hand_scores, part_quartiles, reader_agreement, scored
from .destroyed import course, destroyed, draw, payments, pools, score_pools
from .fills import KINDS, LATER_KINDS, FillKind
from .real_edit import HALVES, OPERATIONS, Clones, RealEdit, read_edit, repository_rows


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the commands; figures on standard output.

    Raises `InputError` for clones that cannot be read, and where no edit is as asked.
    """
    parser = argparse.ArgumentParser(prog="python -m studies.real_edits", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    agree = commands.add_parser("agreement", help="good edits against bad ones, beside baselines")
    fills = commands.add_parser("fills", help="what destroyed places are worth beside the honest edits")
    policy = commands.add_parser("policy", help="where a policy goes that can draw edits and destroyed places")
    hand = commands.add_parser("hand", help="forty edits made by hand: how many have a score, and a right one")
    for command in (agree, fills, policy):
        command.add_argument("--clones", type=Path, required=True, help="clones: `owner+name` or `owner/name`")
        command.add_argument("--half", choices=HALVES, help="edits of this half only")
        command.add_argument("--operations", nargs="+", choices=OPERATIONS, help="edits of these only")
        command.add_argument("--boxed", action="store_true", help="edits with boxes only")
        command.add_argument("--limit", type=at_least_one, help="edits at most")
    for command in (agree, fills, policy, hand):
        command.add_argument("--experts", default="cpu")
    for command in (agree, fills, hand):
        command.add_argument("--reward", default="any-edit")
    for command in (fills, policy):
        command.add_argument("--kinds", nargs="+", help="names of fills; default: all")
        command.add_argument("--later", action="store_true", help="the kinds that nobody had seen, instead")
    policy.add_argument("--rewards", nargs="+", default=["any-edit", "any-edit?region=false"], help="one course each")
    policy.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="of what the monitor sees")
    policy.add_argument("--plot", type=new_image_file, help="file for a plot")
    options = parser.parse_args(arguments)
    runs = {"agreement": _agreement, "fills": _fills, "hand": _hand, "policy": _policy}
    for line in runs[options.command](options):
        print(line)


def _edits(options: argparse.Namespace) -> list[RealEdit]:
    rows = [
        row
        for row in repository_rows()
        if row["operation"] in (options.operations or OPERATIONS)
        and (row["labels"]["boxes"] or not options.boxed)
        and options.half in (None, row["half"])
    ]
    clones = Clones(options.clones)
    return [read_edit(row, clones) for row in rows[: options.limit]]


def _kinds(options: argparse.Namespace) -> list[FillKind]:
    known = LATER_KINDS if options.later else KINDS
    names = options.kinds or [kind.name for kind in known]
    if unknown := set(names) - {kind.name for kind in known}:
        raise InputError(f"no fill is named {', '.join(sorted(unknown))}: {', '.join(kind.name for kind in known)}")
    return [kind for kind in known if kind.name in names]


def _check_any(rows: Sequence[Any]) -> None:
    if not rows:
        raise InputError("no good edit has a place that could be destroyed")


def _agreement(options: argparse.Namespace) -> Iterator[str]:
    rows = scored(Reward.of(options.reward, options.experts, on_failures="none"), _edits(options))
    for title, boxed in (("without boxes", False), ("with boxes", True)):
        some = [row for row in rows if bool(row.edit.boxes) == boxed]
        yield f"{title}: {sum(row.score.value is not None for row in some)} of {len(some)} have a value"
    for title, one in agreement(rows).items():
        yield f"{title:46s} {one}"
    yield from part_quartiles(rows)
    for label, (equal, count) in reader_agreement([row.edit for row in rows]).items():
        yield f"two readers, {label:33s} equal {equal} of {count}"
    for title, honest in (
        ("honest edits", [row for row in rows if row.edit.is_good]),
        ("the same with boxes, place aside,", [row for row in rows if row.edit.is_kept and row.edit.boxes]),
    ):
        known = [row.score.value for row in honest if row.score.value is not None]
        low = sum(value < 0.5 for value in known)
        yield f"{title} below 0.5: {low} of {len(known)}, and {len(honest) - len(known)} without a value"


def _fills(options: argparse.Namespace) -> Iterator[str]:
    reward = Reward.of(options.reward, options.experts, on_failures="none")
    rows = destroyed(reward, _edits(options), _kinds(options))
    _check_any(rows)
    for title, lines in payments(rows).items():
        yield f"\n{title:44s} worth the honest edit   no value   median    95 %"
        for line in lines:
            shares = f"{line.pays:5d} of {line.count:5d}        {line.missing:5d}      {line.median:.3f}"
            yield f"  {line.name:42s} {shares}   {line.high:.3f}"
    honest = {row.edit.id: row.honest.value for row in rows}
    low = sum((value or 0.0) < 0.5 for value in honest.values())
    yield f"\nhonest edits below 0.5 or without a value: {low} of {len(honest)}"


def _policy(options: argparse.Namespace) -> Iterator[str]:
    pool = pools(_edits(options), _kinds(options))
    _check_any(pool)

    def scores(spec: str) -> list[Sequence[Score]]:
        return score_pools(Reward.of(spec, options.experts, on_failures="none"), pool)

    heldout = scores("guards")
    courses = [course(spec, pool, scores(spec), heldout, options.seeds) for spec in options.rewards]
    images, fills = sum(len(one.samples) for one in pool), sum(int(one.is_fill.sum()) for one in pool)
    yield f"{len(pool)} pools: {images} images, {fills} of them fills"
    for one in courses:
        good, filled = (f"{100 * of[0]:.0f} % to {100 * of[-1]:.0f} %" for of in (one.good, one.fills))
        yield f"{one.reward}: good {good}, fills {filled}, reward {one.paid[0]:.3f} to {one.paid[-1]:.3f}"
        for name, steps in one.first_alarms().items():
            yield f"  first alarm {name} at step {', '.join(map(str, steps))}"
    if options.plot is not None:
        draw(courses, options.plot)


def _hand(options: argparse.Namespace) -> Iterator[str]:
    yield from hand_lines(hand_scores(Reward.of(options.reward, options.experts, on_failures="none")))


if __name__ == "__main__":
    main()
