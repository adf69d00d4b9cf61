"""The study's command: agreement with labels, destroyed places, a search for the best fills, edits made by hand."""

from __future__ import annotations

import argparse
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

from ....reward import Reward
from ...common.argument_types import at_least_one
from ...common.errors import InputError
from ...common.terminal import echo
from .destroyed import Payment, destroyed, payments
from .fills import KINDS, FillKind
from .folder_edits import folder_edits
from .hand_report import hand_figures, hand_scores
from .place import Place
from .real_edit import HALVES, OPERATIONS, RealEdit
from .sheet import Strip, fill_strip, write_sheet


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one of the commands; figures on standard output, all numbers and sheets in the output folder."""
    parser = argparse.ArgumentParser(
        prog="python -m editcritic.benchmarks.studies.real_edits",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    fills = commands.add_parser("fills", help="what destroyed places are worth beside the honest edits")
    _add_edits(fills)
    _add_reward(fills)
    _add_kinds(fills)
    fills.add_argument("--sheet", type=at_least_one, default=20, help="fills on the sheet of the worst; default: 20")
    fills.add_argument("--draw-only", action="store_true", help="draw all fills for a reader, and score nothing")
    hand = commands.add_parser("hand", help="forty edits made by hand: how many have a score, and a right one")
    _add_reward(hand)
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    {"fills": _fills, "hand": _hand}[options.command](options)


def _add_edits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path, required=True, help="edits.jsonl and its pictures")
    parser.add_argument("--half", choices=HALVES, help="edits of this half only")
    parser.add_argument("--operations", nargs="+", choices=OPERATIONS, help="edits of these only")
    parser.add_argument("--limit", type=at_least_one, help="edits at most")


def _add_reward(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reward", default="any-edit")
    parser.add_argument("--experts", default="cpu")
    parser.add_argument("--out", type=Path, default=Path("out/real_edits"), help="folder for numbers and sheets")


def _add_kinds(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kinds", nargs="+", help="names of fills; default: all")
    parser.add_argument("--kinds-from", type=Path, help="a Python file with KINDS, tried instead of the known ones")
    parser.add_argument("--without", type=Path, help="a file with an `id/kind` a line: fills that a reader finds right")


def _edits(options: argparse.Namespace) -> list[RealEdit]:
    edits = folder_edits(options.folder)
    chosen = [
        edit
        for edit in edits
        if options.half in (None, edit.half) and edit.operation in (options.operations or OPERATIONS)
    ]
    return chosen[: options.limit]


def _kinds(options: argparse.Namespace) -> list[FillKind]:
    known: Sequence[FillKind] = KINDS if options.kinds_from is None else _kinds_in(options.kinds_from)
    names = options.kinds or [kind.name for kind in known]
    if unknown := set(names) - {kind.name for kind in known}:
        raise InputError(f"no fill is named {', '.join(sorted(unknown))}: {', '.join(kind.name for kind in known)}")
    return [kind for kind in known if kind.name in names]


def _kinds_in(path: Path) -> list[FillKind]:
    """The kinds of a Python file, which is run."""
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
    return set() if options.without is None else set(options.without.read_text(encoding="utf-8").splitlines())


def _fills(options: argparse.Namespace) -> None:
    edits, kinds = _edits(options), _kinds(options)
    if options.draw_only:
        _draw(options.out, edits, kinds)
        return
    reward = Reward.of(options.reward, options.experts, on_failures="none")
    rows = destroyed(reward, edits, kinds, without=_without(options), step=echo)
    if not rows:
        raise InputError("no honest edit has a place that could be destroyed")
    for title, lines in payments(rows).items():
        echo(f"\n{title:44s} worth the honest edit   median   95 %", stderr=False)
        for line in lines:
            echo(_payment_line(line), stderr=False)
    honest = {row.edit.id: row.honest.value for row in rows}
    low = sum((value or 0.0) < 0.5 for value in honest.values())
    echo(f"\nhonest edits below 0.5 or without a value: {low} of {len(honest)}", stderr=False)
    lines_out = "".join(json.dumps(row.to_json(), ensure_ascii=False) + "\n" for row in rows)
    (options.out / "fills.jsonl").write_text(lines_out, encoding="utf-8")
    worst = sorted(rows, key=lambda row: (not row.pays, -row.value))[: options.sheet]
    write_sheet(options.out / "worst_fills.png", [fill_strip(row) for row in worst])


def _payment_line(line: Payment) -> str:
    return f"  {line.name:42s} {line.pays:5d} of {line.count:5d}        {line.median:.3f}    {line.high:.3f}"


def _hand(options: argparse.Namespace) -> None:
    reward = Reward.of(options.reward, options.experts, on_failures="none")
    rows = hand_scores(reward, step=echo)
    figures = hand_figures(rows)
    for row in rows:
        mark = {None: "none ", True: "right", False: "WRONG"}[row.is_right]
        value = "     " if row.score.value is None else f"{row.score.value:.3f}"
        boxes = "boxes" if row.boxed else "     "
        fault = row.edit.fault or "honest"
        echo(f"{mark} {value} {boxes} {row.edit.id:18s} {fault}: {row.score.reason}"[:240], stderr=False)
    for title, counts in figures.items():
        echo(
            f"{title}: {counts['scored']} of {counts['edits']} have a score, {counts['right']} of {counts['scored']} a "
            f"right one ({counts['honest right']} of {counts['honest scored']} honest ones)",
            stderr=False,
        )
    report = {"reward": reward.identity, "figures": figures, "edits": [row.to_json() for row in rows]}
    (options.out / "hand.json").write_text(json.dumps(report, ensure_ascii=False, indent=1), encoding="utf-8")


def _draw(out: Path, edits: Sequence[RealEdit], kinds: Sequence[FillKind]) -> None:
    """A sheet an edit with all fills for its operation, for a reader who has seen no scores."""
    for edit in edits:
        place = Place.of(edit) if edit.is_good else None
        if place is None:
            continue
        shots = [("source", edit.source.pil()), ("honest", edit.edited.pil())]
        shots += [
            (kind.name, kind.fill(place, seed=crc32(edit.id.encode())).pil())
            for kind in kinds
            if edit.operation in kind.operations
        ]
        strips = [Strip(shots[start : start + 6], edit.instruction) for start in range(0, len(shots), 6)]
        write_sheet(out / f"{edit.id}.png", strips, columns=1)
