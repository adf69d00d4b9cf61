"""What the command prints and writes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

from editcritic.benchmarks.common.terminal import echo

from .agreement import Scored, Separation, agreement, part_quartiles, reader_agreement, surprises
from .destroyed import Destroyed, Payment, payments
from .fill_search import SearchedFill, best_finds
from .fills import FillKind
from .hand_report import HandScore, hand_figures
from .place import Place
from .real_edit import RealEdit
from .sheet import Strip, edit_strip, fill_strip, write_sheet
from .tilted_policy import Course, Pool


def report_agreement(out: Path, rows: Sequence[Scored], count: int) -> None:
    """Print separations and parts; write `agreement.jsonl` and `worst_edits.png`."""
    for title, boxed in (("without boxes", False), ("with boxes", True)):
        some = [row for row in rows if bool(row.edit.boxes) == boxed]
        _say(f"{title}: {sum(row.score.value is not None for row in some)} of {len(some)} have a value")
    for title, one in agreement(rows).items():
        _say(f"{title:46s} {_separation_text(one)}")
    for part in part_quartiles(rows):
        quartiles = " ".join(f"{number:.2f}" for number in part.quartiles)
        _say(f"{part.name:46s} n={part.count:3d} quartiles {quartiles}; below: {part.low}")
    for both in reader_agreement([row.edit for row in rows]):
        kappa = "" if both.kappa is None else f"; weighted kappa {both.kappa:.2f}"
        _say(f"two readers, {both.label:33s} equal {both.equal} of {both.count}{kappa}")
    for title, honest in (
        ("honest edits", [row for row in rows if row.edit.is_good]),
        ("the same with boxes, place aside,", [row for row in rows if row.edit.is_kept and row.edit.boxes]),
    ):
        known = [row.score.value for row in honest if row.score.value is not None]
        low = sum(value < 0.5 for value in known)
        missing = len(honest) - len(known)
        _say(f"{title} below 0.5: {low} of {len(known)}, and {missing} without a value")
    _write_lines(out / "agreement.jsonl", (row.to_json() for row in rows))
    write_sheet(out / "worst_edits.png", [edit_strip(row.edit, row.score) for row in surprises(rows, count)])


def report_fills(out: Path, rows: Sequence[Destroyed], count: int) -> None:
    """Print payments; write `fills.jsonl` and `worst_fills.png`."""
    for title, lines in payments(rows).items():
        _say(f"\n{title:44s} worth the honest edit   no value   median    95 %")
        for line in lines:
            _say(_payment_text(line))
    _say_honest(rows)
    _write_lines(out / "fills.jsonl", (row.to_json() for row in rows))
    worst = sorted(rows, key=lambda row: (not row.pays, -row.value))[:count]
    write_sheet(out / "worst_fills.png", [fill_strip(row) for row in worst])


def report_search(out: Path, tried: Sequence[SearchedFill], count: int) -> None:
    """Print the best finds; write `search.jsonl` and `best_finds.png`."""
    best = best_finds(tried)
    for one in best:
        fill = one.fill
        honest = "none" if fill.honest.value is None else f"{fill.honest.value:.3f}"
        mark = "pays" if fill.pays else "    "
        _say(f"{mark} {fill.value:.3f}, honest {honest}, query {one.query:3d}: {fill.edit.id}: {one.recipe}")
    everything = Payment.of("all that was tried", [one.fill for one in tried])
    _say(_payment_text(everything))
    _say(_payment_text(Payment.of("the best of each edit", [one.fill for one in best])))
    _say_honest([one.fill for one in best])
    _write_lines(out / "search.jsonl", (one.to_json() for one in tried))
    write_sheet(out / "best_finds.png", [fill_strip(one.fill, str(one.recipe)) for one in best[:count]])


def report_policy(out: Path, pool: Sequence[Pool], courses: Sequence[Course]) -> None:
    """Print where each course begins and ends; write `policy.jsonl`."""
    images, fills = sum(len(one.samples) for one in pool), sum(int(one.is_fill.sum()) for one in pool)
    _say(f"{len(pool)} pools: {images} images, {fills} of them fills")
    for one in courses:
        good, filled = (f"{100 * of[0]:.0f} % to {100 * of[-1]:.0f} %" for of in (one.good, one.fills))
        _say(f"{one.reward}: good {good}, fills {filled}, reward {one.paid[0]:.3f} to {one.paid[-1]:.3f}")
        for name, steps in one.first_alarms().items():
            _say(f"  first alarm {name} at step {', '.join(map(str, steps))}")
    _write_lines(out / "policy.jsonl", (one.to_json() for one in courses))


def report_hand(out: Path, reward: str, rows: Sequence[HandScore]) -> None:
    """Print each edit and the counts; write `hand.json`. reward: its identity."""
    for row in rows:
        mark = {None: "none ", True: "right", False: "WRONG"}[row.is_right]
        value = "     " if row.score.value is None else f"{row.score.value:.3f}"
        boxes = "boxes" if row.boxed else "     "
        _say(f"{mark} {value} {boxes} {row.edit.id:18s} {row.edit.fault or 'honest'}: {row.score.reason}"[:240])
    figures = hand_figures(rows)
    for title, counts in figures.items():
        _say(
            f"{title}: {counts['scored']} of {counts['edits']} have a score, {counts['right']} of {counts['scored']} a "
            f"right one ({counts['honest right']} of {counts['honest scored']} honest ones)"
        )
    report = {"reward": reward, "figures": figures, "edits": [row.to_json() for row in rows]}
    (out / "hand.json").write_text(json.dumps(report, ensure_ascii=False, indent=1), encoding="utf-8")


def draw_fills(out: Path, edits: Sequence[RealEdit], kinds: Sequence[FillKind]) -> None:
    """A sheet an edit with all fills for its operation, for a reader who has seen no scores."""
    for number, edit in enumerate(edits):
        place = Place.of(edit) if edit.is_good else None
        if place is None:
            continue
        shots = [("source", edit.source.pil()), ("honest", edit.edited.pil())]
        shots += [
            (kind.name, kind.fill(place, seed=crc32(edit.id.encode())).pil())
            for kind in kinds
            if edit.operation in kind.operations
        ]
        text = f"{edit.id}: {edit.instruction}"
        strips = [Strip(shots[start : start + 6], text) for start in range(0, len(shots), 6)]
        write_sheet(out / f"fills_{number:03d}.png", strips, columns=1)


def _separation_text(one: Separation) -> str:
    if one.auc is None:
        return f"{one.good} good, {one.bad} bad"
    interval = "" if one.low is None or one.high is None else f" ({one.low:.2f} to {one.high:.2f})"
    counts = f"{one.good} good, {one.bad} bad, {one.bases} photographs"
    return f"AUC {one.auc:.3f}{interval}; {counts}; pairs {one.right:g} of {one.pairs}"


def _payment_text(line: Payment) -> str:
    shares = f"{line.pays:5d} of {line.count:5d}        {line.missing:5d}      {line.median:.3f}   {line.high:.3f}"
    return f"  {line.name:42s} {shares}"


def _say_honest(rows: Sequence[Destroyed]) -> None:
    honest = {row.edit.id: row.honest.value for row in rows}
    low = sum((value or 0.0) < 0.5 for value in honest.values())
    _say(f"\nhonest edits below 0.5 or without a value: {low} of {len(honest)}")


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def _say(text: str) -> None:
    echo(text, stderr=False)
