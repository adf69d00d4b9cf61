"""What the rungs of ladders are worth: is the order kept, do values pile up, are they the same twice?"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from editcritic.benchmarks.common.terminal import echo
from editcritic.reward import Image, Reward
from editcritic.reward.bootstrap_intervals import bootstrap_interval

from ..real_edits.sheet import Strip, write_sheet
from .ladders import KINDS, LADDERS, Ladder, ladders
from .photographs import photograph

BIN = 0.05
"""Width of the bins in which values between `BIN` and 1 - `BIN` are counted."""

_AGAIN = 4
"""Ladders that are made and scored twice."""

Climbed = tuple[Ladder, Mapping[str, float]]
"""A ladder, and the value of each rung by its kind."""


def climb(half: str, seed: int, photos: int | None, out: Path, sheet: Path | None = None) -> None:
    """Score the ladders of a half and print tables; all numbers in `out/ladders-HALF.json`. sheet: where the rungs are
    drawn instead, and nothing is scored.
    """
    made = list(ladders(half, seed=seed, photos=photos))
    if sheet is not None:
        write_sheet(sheet, [_strip(ladder) for ladder in made], 1)
        return
    climbed = [(ladder, values_of(ladder)) for ladder in made]
    again = [values_of(ladder) for ladder in islice(ladders(half, seed=seed, photos=photos), _AGAIN)]
    report = {"seed": seed, **summary(climbed), "equal twice": again == [values for _, values in climbed[:_AGAIN]]}
    out.mkdir(parents=True, exist_ok=True)
    (out / f"ladders-{half}.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    _print(half, report)


def values_of(ladder: Ladder) -> dict[str, float]:
    """The preservation part of `any-edit` of each rung. Raises ValueError for a rung without one."""
    scores = Reward.of("any-edit-preservation", "cpu")(ladder.samples())
    for name, score in zip(scores.ids, scores, strict=True):
        if score.value is None:
            raise ValueError(f"{name} has no value: {score.reason}")
    return {rung.kind: value for rung, value in zip(ladder.rungs, scores.values, strict=True) if value is not None}


def summary(climbed: Sequence[Climbed]) -> dict[str, Any]:
    """Neighbouring pairs in order, of all and by kind, with 95 % intervals over photographs; medians by rung; the
    fullest bin; and the pairs that are out of order.
    """
    rows = [
        (ladder.scene.photo, f"{lower.kind} > {upper.kind}", values[lower.kind] > values[upper.kind])
        for ladder, values in climbed
        for lower, upper in ladder.pairs
    ]
    kinds = sorted({kind for _, kind, _ in rows}, key=lambda kind: [KINDS.index(part) for part in kind.split(" > ")])
    values = [value for _, rungs in climbed for value in rungs.values()]
    inside = Counter(int(value / BIN) for value in values if BIN <= value < 1 - BIN)
    fullest = max(inside, key=lambda number: inside[number], default=0)
    return {
        "ladders": len(climbed),
        "photographs": len({ladder.scene.photo for ladder, _ in climbed}),
        "in order": _share(rows),
        "by pair": {kind: _share([row for row in rows if row[1] == kind]) for kind in kinds},
        "median": {
            kind: round(median(rungs[kind] for _, rungs in climbed if kind in rungs), 4)
            for kind in KINDS
            if any(kind in rungs for _, rungs in climbed)
        },
        "fullest bin": {
            "from": round(fullest * BIN, 2),
            "share": round(inside[fullest] / max(1, inside.total()), 4),
            "values": inside.total(),
        },
        "out of order": [
            [ladder.name, lower.kind, upper.kind, round(values[lower.kind], 4), round(values[upper.kind], 4)]
            for ladder, values in climbed
            for lower, upper in ladder.pairs
            if values[lower.kind] <= values[upper.kind]
        ],
    }


def _share(rows: Sequence[tuple[str, str, bool]]) -> dict[str, Any]:
    """Share of pairs in order, its interval over photographs, and their number."""
    photos = sorted({photo for photo, _, _ in rows})
    kept = [sum(right for name, _, right in rows if name == photo) for photo in photos]
    pairs = [sum(name == photo for name, _, _ in rows) for photo in photos]
    interval = bootstrap_interval(lambda right, all_: right.sum(-1) / all_.sum(-1), kept, pairs)
    return {
        "share": round(float(np.mean([right for _, _, right in rows])), 4),
        "interval": None if interval is None else [round(end, 4) for end in interval],
        "pairs": len(rows),
    }


def _strip(ladder: Ladder) -> Strip:
    clear = {upper.kind for _, upper in ladder.pairs}
    pictures = [("source", Image.of(photograph(ladder.scene.photo)).pil())]
    for rung in ladder.rungs:
        title = f"{rung.kind} {rung.area:.1%}" + ("" if rung.kind in clear or rung.kind == KINDS[0] else " (unclear)")
        pictures.append((title, Image.of(rung.pixels).pil()))
    return Strip(pictures, f"{ladder.name}: {ladder.noun} becomes {ladder.colour}; {ladder.passage}")


def _print(half: str, report: Mapping[str, Any]) -> None:
    lines = [
        f"\n## {half}: {report['ladders']} ladders of {report['photographs']} photographs, {LADDERS} each\n",
        "| neighbouring pairs | in order | pairs |",
        "|---|---|---|",
    ]
    for kind, row in {"all": report["in order"], **report["by pair"]}.items():
        interval = "" if row["interval"] is None else " ({:.1%} to {:.1%})".format(*row["interval"])
        lines.append(f"| {kind} | {row['share']:.1%}{interval} | {row['pairs']} |")
    fullest = report["fullest bin"]
    lines += [
        "\nMedian by rung: " + json.dumps(report["median"]),
        f"Fullest bin of {BIN}: {fullest['share']:.1%} of {fullest['values']} values, from {fullest['from']}",
        f"Equal in a second run: {report['equal twice']}",
        "Out of order:",
        *(" ".join(map(str, row)) for row in report["out of order"]),
    ]
    echo("\n".join(lines), stderr=False)
