"""Does a reward agree with people on real edits, and what does it pay for destroyed places?

python -m studies.real_edits agreement --clones FOLDER --half held-back
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from editcritic.benchmarks.common.argument_types import at_least_one, new_image_file
from editcritic.benchmarks.common.errors import InputError
from editcritic.reward import Reward, Score
from studies.real_edits.agreement import hand_figures, hand_scores
from studies.real_edits.repository_edits import Clones

from .agreement import Separation, agreement, part_quartiles, reader_agreement, scored, surprises
from .destroyed import Destroyed, Payment, destroyed, payments
from .fills import KINDS, FillKind
from .later_fills import LATER_KINDS
from .real_edit import HALVES, OPERATIONS, RealEdit
from .repository_edits import read_edit, repository_rows
from .sheet import edit_strip, fill_strip, write_sheet
from .tilted_policy import course, draw, pools, score_pools


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the commands; figures on standard output, all numbers and sheets in the output folder.

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
        command.add_argument("--out", type=Path, default=Path("out/real_edits"), help="folder for numbers and sheets")
    for command in (agree, fills, hand):
        command.add_argument("--reward", default="any-edit")
        command.add_argument("--sheet", type=at_least_one, default=20, help="edits on the contact sheet; default: 20")
    for command in (fills, policy):
        command.add_argument("--kinds", nargs="+", help="names of fills; default: all")
        command.add_argument("--later", action="store_true", help="the kinds that nobody had seen, instead")
        command.add_argument("--without", type=Path, help="a file with an `id/kind` a line: fills that look right")
    policy.add_argument("--rewards", nargs="+", default=["any-edit", "any-edit?region=false"], help="one course each")
    policy.add_argument("--heldout", default="guards", help="of the monitor; default: guards")
    policy.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="of what the monitor sees")
    policy.add_argument("--plot", type=new_image_file, help="file for a plot")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    runs = {"agreement": _agreement, "fills": _fills, "hand": _hand, "policy": _policy}
    runs[options.command](options)


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


def _without(options: argparse.Namespace) -> set[str]:
    return set() if options.without is None else set(options.without.read_text(encoding="utf-8").splitlines())


def _reward(options: argparse.Namespace) -> Reward:
    return Reward.of(options.reward, options.experts, on_failures="none")


# -- commands ---------------------------------------------------------------------------------------------------------


def _agreement(options: argparse.Namespace) -> None:
    rows = scored(_reward(options), _edits(options))
    for title, boxed in (("without boxes", False), ("with boxes", True)):
        some = [row for row in rows if bool(row.edit.boxes) == boxed]
        print(f"{title}: {sum(row.score.value is not None for row in some)} of {len(some)} have a value")
    for title, one in agreement(rows).items():
        print(f"{title:46s} {_separation_text(one)}")
    for part in part_quartiles(rows):
        quartiles = " ".join(f"{number:.2f}" for number in part.quartiles)
        print(f"{part.name:46s} n={part.count:3d} quartiles {quartiles}; below: {part.low}")
    for both in reader_agreement([row.edit for row in rows]):
        kappa = "" if both.kappa is None else f"; weighted kappa {both.kappa:.2f}"
        print(f"two readers, {both.label:33s} equal {both.equal} of {both.count}{kappa}")
    for title, honest in (
        ("honest edits", [row for row in rows if row.edit.is_good]),
        ("the same with boxes, place aside,", [row for row in rows if row.edit.is_kept and row.edit.boxes]),
    ):
        known = [row.score.value for row in honest if row.score.value is not None]
        low = sum(value < 0.5 for value in known)
        print(f"{title} below 0.5: {low} of {len(known)}, and {len(honest) - len(known)} without a value")
    _write_lines(options.out / "agreement.jsonl", (row.to_json() for row in rows))
    worst = surprises(rows, options.sheet)
    write_sheet(options.out / "worst_edits.png", [edit_strip(row.edit, row.score) for row in worst])


def _fills(options: argparse.Namespace) -> None:
    edits, kinds = _edits(options), _kinds(options)
    rows = destroyed(_reward(options), edits, kinds, _without(options))
    _check_any(rows)
    for title, lines in payments(rows).items():
        print(f"\n{title:44s} worth the honest edit   no value   median    95 %")
        for line in lines:
            print(_payment_text(line))
    _print_honest(rows)
    _write_lines(options.out / "fills.jsonl", (row.to_json() for row in rows))
    worst = sorted(rows, key=lambda row: (not row.pays, -row.value))[: options.sheet]
    write_sheet(options.out / "worst_fills.png", [fill_strip(row) for row in worst])


def _policy(options: argparse.Namespace) -> None:
    pool = pools(_edits(options), _kinds(options))
    _check_any(pool)

    def scores(spec: str) -> list[Sequence[Score]]:
        return score_pools(Reward.of(spec, options.experts, on_failures="none"), pool)

    heldout = scores(options.heldout)
    courses = [course(spec, pool, scores(spec), heldout, options.seeds) for spec in options.rewards]
    images, fills = sum(len(one.samples) for one in pool), sum(int(one.is_fill.sum()) for one in pool)
    print(f"{len(pool)} pools: {images} images, {fills} of them fills")
    for one in courses:
        good, filled = (f"{100 * of[0]:.0f} % to {100 * of[-1]:.0f} %" for of in (one.good, one.fills))
        print(f"{one.reward}: good {good}, fills {filled}, reward {one.paid[0]:.3f} to {one.paid[-1]:.3f}")
        for name, steps in one.first_alarms().items():
            print(f"  first alarm {name} at step {', '.join(map(str, steps))}")
    _write_lines(options.out / "policy.jsonl", map(asdict, courses))
    if options.plot is not None:
        draw(courses, options.plot)


def _hand(options: argparse.Namespace) -> None:
    reward = _reward(options)
    rows = hand_scores(reward)
    for row in rows:
        mark = {None: "none ", True: "right", False: "WRONG"}[row.is_right]
        value = "     " if row.score.value is None else f"{row.score.value:.3f}"
        boxes = "boxes" if row.boxed else "     "
        print(f"{mark} {value} {boxes} {row.edit.id:18s} {row.edit.fault or 'honest'}: {row.score.reason}"[:240])
    figures = hand_figures(rows)
    for title, counts in figures.items():
        print(
            f"{title}: {counts['scored']} of {counts['edits']} have a score, {counts['right']} of {counts['scored']} a "
            f"right one ({counts['honest right']} of {counts['honest scored']} honest ones)"
        )
    report = {"reward": reward.identity, "figures": figures, "edits": [row.to_json() for row in rows]}
    (options.out / "hand.json").write_text(json.dumps(report, ensure_ascii=False, indent=1), encoding="utf-8")


# -- what they print --------------------------------------------------------------------------------------------------


def _check_any(rows: Sequence[Any]) -> None:
    if not rows:
        raise InputError("no good edit has a place that could be destroyed")


def _separation_text(one: Separation) -> str:
    if one.auc is None:
        return f"{one.good} good, {one.bad} bad"
    interval = "" if one.low is None or one.high is None else f" ({one.low:.2f} to {one.high:.2f})"
    counts = f"{one.good} good, {one.bad} bad, {one.bases} photographs"
    return f"AUC {one.auc:.3f}{interval}; {counts}; pairs {one.right:g} of {one.pairs}"


def _payment_text(line: Payment) -> str:
    shares = f"{line.pays:5d} of {line.count:5d}        {line.missing:5d}      {line.median:.3f}   {line.high:.3f}"
    return f"  {line.name:42s} {shares}"


def _print_honest(rows: Sequence[Destroyed]) -> None:
    honest = {row.edit.id: row.honest.value for row in rows}
    low = sum((value or 0.0) < 0.5 for value in honest.values())
    print(f"\nhonest edits below 0.5 or without a value: {low} of {len(honest)}")


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
