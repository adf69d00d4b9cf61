"""The study's command: agreement with labels, destroyed places, a search for the best fills, edits made by hand; and
the fit of the rating of places.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from editcritic.benchmarks.common.argument_types import at_least_one, new_image_file
from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.common.terminal import echo
from editcritic.reward import Reward, Score
from editcritic.reward.queries.kinds import RegionChange
from editcritic.reward.regular_files import read_text

from .agreement import scored
from .clones import Clones, WrongFile
from .destroyed import destroyed
from .fill_search import QUERIES, search_fills
from .fills import KINDS, FillKind
from .folder_edits import folder_edits
from .hand_report import hand_scores
from .real_edit import HALVES, OPERATIONS, RealEdit
from .region_fit import SAMPLES, Fit, fitted, table
from .reports import draw_fills, report_agreement, report_fills, report_hand, report_policy, report_search
from .repository_edits import repository_rows
from .tilted_policy import course, draw, pools, score_pools

_NO_EDITS = "no good edit has a place that could be destroyed"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the commands; figures on standard output, all numbers and sheets in the output folder.

    Raises `InputError` for edits, clones or fills that cannot be read.
    """
    parser = argparse.ArgumentParser(
        prog="python -m studies.real_edits", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    agreement = commands.add_parser("agreement", help="good edits against bad ones, beside baselines")
    fills = commands.add_parser("fills", help="what destroyed places are worth beside the honest edits")
    search = commands.add_parser("search", help="the fills that pay most, with so many queries for each edit")
    hand = commands.add_parser("hand", help="forty edits made by hand: how many have a score, and a right one")
    fit = commands.add_parser("fit", help="the limits and weights of the rating of places, on composed photographs")
    fit.add_argument("--clones", type=Path, required=True, help="a folder with a clone of BIDS/BSDS500")
    fit.add_argument("--samples", type=at_least_one, default=SAMPLES, help=f"of each change; default: {SAMPLES}")
    fit.add_argument("--change", nargs="+", choices=get_args(RegionChange), default=get_args(RegionChange))
    policy = commands.add_parser("policy", help="where a policy goes that can draw edits and destroyed places")
    policy.add_argument("--rewards", nargs="+", default=["any-edit", "any-edit?region=false"], help="one course each")
    policy.add_argument("--heldout", default="guards", help="of the monitor; default: guards")
    policy.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="of what the monitor sees")
    policy.add_argument("--plot", type=new_image_file, help="file for a plot")
    policy.add_argument("--experts", default="cpu")
    policy.add_argument("--out", type=Path, default=Path("out/real_edits"), help="folder for the numbers")
    for command in (agreement, fills, search, policy):
        _add_edits(command)
    for command in (agreement, fills, search):
        command.add_argument("--sheet", type=at_least_one, default=20, help="edits on the contact sheet; default: 20")
    for command in (agreement, fills, search, hand):
        _add_reward(command)
    for command in (fills, search, policy):
        _add_kinds(command)
    fills.add_argument("--draw-only", action="store_true", help="draw all fills for a reader, and score nothing")
    search.add_argument("--queries", type=at_least_one, default=QUERIES, help=f"for each edit; default: {QUERIES}")
    for command in (search, fit):
        command.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    if options.command != "fit":
        options.out.mkdir(parents=True, exist_ok=True)
    run = {"agreement": _agreement, "fills": _fills, "search": _search, "hand": _hand, "fit": _fit, "policy": _policy}[
        options.command
    ]
    run(options)


def _add_edits(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--clones", type=Path, help="clones (`owner+name` or `owner/name`) for the project's own edits")
    where.add_argument("--folder", type=Path, help="edits.jsonl and its pictures")
    parser.add_argument("--rows", type=Path, help="with --clones: another edits.jsonl than the project's own")
    parser.add_argument("--half", choices=HALVES, help="edits of this half only")
    parser.add_argument("--operations", nargs="+", choices=OPERATIONS, help="edits of these only")
    parser.add_argument("--boxed", action="store_true", help="edits with boxes only")
    parser.add_argument("--limit", type=at_least_one, help="edits at most")


def _add_reward(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reward", default="any-edit")
    parser.add_argument("--experts", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("out/real_edits"), help="folder for numbers and sheets")


def _add_kinds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kinds", nargs="+", help="names of fills; default: all")
    parser.add_argument("--kinds-from", type=Path, help="a Python file with KINDS, which are tried instead")
    parser.add_argument("--without", type=Path, help="a file with an `id/kind` a line: fills that a reader finds right")


def _edits(options: argparse.Namespace) -> list[RealEdit]:
    def is_chosen(operation: str, boxed: bool) -> bool:
        return operation in (options.operations or OPERATIONS) and (boxed or not options.boxed)

    if options.folder is not None:
        edits = [edit for edit in folder_edits(options.folder) if is_chosen(edit.operation, bool(edit.boxes))]
        return [edit for edit in edits if options.half in (None, edit.half)][: options.limit]
    rows = [row for row in repository_rows(options.rows) if is_chosen(row.operation, bool(row.boxes))]
    rows = [row for row in rows if options.half in (None, row.half)][: options.limit]
    clones = Clones(options.clones)
    try:
        return [row.read(clones) for row in rows]
    except WrongFile as error:
        raise InputError(str(error)) from None


def _kinds(options: argparse.Namespace) -> list[FillKind]:
    known: Sequence[FillKind] = KINDS if options.kinds_from is None else _kinds_in(options.kinds_from)
    names = options.kinds or [kind.name for kind in known]
    if unknown := set(names) - {kind.name for kind in known}:
        raise InputError(f"no fill is named {', '.join(sorted(unknown))}: {', '.join(kind.name for kind in known)}")
    return [kind for kind in known if kind.name in names]


def _kinds_in(path: Path) -> list[FillKind]:
    """The kinds of a Python file of the user's, which is run."""
    spec = importlib.util.spec_from_file_location("more_fills", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kinds = getattr(module, "KINDS", None)
    if not isinstance(kinds, Sequence) or not all(isinstance(kind, FillKind) for kind in kinds):
        raise InputError(f"{path} has no KINDS, a sequence of FillKind")
    return list(kinds)


def _without(options: argparse.Namespace) -> set[str]:
    try:
        return set() if options.without is None else set(read_text(options.without).splitlines())
    except OSError as error:
        raise InputError(f"{options.without}: {error.strerror}") from None


def _reward(options: argparse.Namespace) -> Reward:
    return Reward.of(options.reward, options.experts, on_failures="none")


def _agreement(options: argparse.Namespace) -> None:
    edits = _edits(options)
    if not edits:
        raise InputError("there are no such edits")
    report_agreement(options.out, scored(_reward(options), edits, step=echo), options.sheet)


def _fills(options: argparse.Namespace) -> None:
    edits, kinds = _edits(options), _kinds(options)
    if options.draw_only:
        draw_fills(options.out, edits, kinds)
        return
    rows = destroyed(_reward(options), edits, kinds, without=_without(options), step=echo)
    if not rows:
        raise InputError(_NO_EDITS)
    report_fills(options.out, rows, options.sheet)


def _search(options: argparse.Namespace) -> None:
    edits, kinds = _edits(options), _kinds(options)
    tried = search_fills(
        _reward(options), edits, kinds, queries=options.queries, seed=options.seed, without=_without(options), step=echo
    )
    if not tried:
        raise InputError(_NO_EDITS)
    report_search(options.out, tried, options.sheet)


def _policy(options: argparse.Namespace) -> None:
    pool = pools(_edits(options), _kinds(options))
    if not pool:
        raise InputError(_NO_EDITS)

    def scores(spec: str) -> list[Sequence[Score]]:
        return score_pools(Reward.of(spec, options.experts, on_failures="none"), pool, echo)

    heldout = scores(options.heldout)
    courses = [course(spec, pool, scores(spec), heldout, options.seeds, step=echo) for spec in options.rewards]
    report_policy(options.out, pool, courses)
    if options.plot is not None:
        draw(courses, options.plot)


def _hand(options: argparse.Namespace) -> None:
    reward = _reward(options)
    report_hand(options.out, reward.identity, hand_scores(reward, step=echo))


def _fit(options: argparse.Namespace) -> None:
    fits: list[Fit] = []
    for fit, unseen in fitted(Clones(options.clones), options.change, options.samples, options.seed):
        for line in fit.report(unseen):
            echo(line, stderr=False)
        fits.append(fit)
    echo(f"\n{table(fits)}", stderr=False)
