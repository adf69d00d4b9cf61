"""Is damage told from what is harmless? `python -m studies.preservation --out out/preservation`.

Photographs are damaged in one place, or changed harmlessly; as is, through an autoencoder, and with zoom and shift. The
constants of `preservation` were set on the development photographs; the bars are for the held-out ones. `ladders`: is
rising damage worth less, rung by rung, as people order it?
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from editcritic.benchmarks.common.argument_types import at_least_one
from editcritic.benchmarks.common.terminal import echo
from studies.preservation.ladders import climb
from studies.preservation.separation import Measured, measure

from .autoencoder import STEPS, load_or_train, psnr
from .drift import drift_table
from .pairs import pairs
from .photographs import DEVELOPMENT, HELD_OUT, TRAINING, photograph
from .scenes import SCENES
from .separation import Separation, separation

THRESHOLD = 0.93
"""Value below which an edit counts as damaged: what the worst harmless changes leave, and a little less."""

HALVES: Mapping[str, Sequence[str]] = {"development": DEVELOPMENT, "held-out": HELD_OUT}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study; tables as Markdown on standard output, all numbers in `out/preservation.json`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="?", choices=("separation", "ladders"), default="separation")
    parser.add_argument("--out", type=Path, default=Path("out/preservation"), help="folder for weights and numbers")
    parser.add_argument("--seed", type=int, default=1, help="of places and strengths of damage; default: 1")
    parser.add_argument("--photos", choices=("development", "held-out", "both"), default="both")
    parser.add_argument("--images", type=Path, help="a folder of photographs of your own, measured instead")
    parser.add_argument("--limit", type=at_least_one, help="photographs of each half; default: all")
    parser.add_argument("--steps", type=at_least_one, default=STEPS, help="of training the autoencoder")
    parser.add_argument("--sheet", type=Path, help="of ladders: a PNG of all rungs instead of any score")
    options = parser.parse_args(arguments)
    if options.study == "ladders":
        for half in SCENES if options.photos == "both" else (options.photos,):
            climb(half, options.seed, options.limit, options.out, options.sheet)
        return
    through = load_or_train(
        options.out / f"autoencoder-{options.steps}.safetensors",
        [photograph(name) for name in TRAINING],
        steps=options.steps,
    )
    report: dict[str, Any] = {"seed": options.seed, "threshold": THRESHOLD}
    halves = HALVES if options.images is None else {"own": _images(options.images)}
    for half, names in halves.items():
        if options.photos in (half, "both"):
            names = names[: options.limit]
            fidelity = {name: round(psnr(photograph(name), through(photograph(name))), 1) for name in names}
            measured = [measure(pair) for pair in pairs(names, through, seed=options.seed)]
            drift = drift_table(names, through)
            report[half] = {"psnr": fidelity, **_summary(measured), "drift": drift}
            _print(half, report[half])
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "preservation.json").write_text(json.dumps(report, indent=1), encoding="utf-8")


def _images(folder: Path) -> list[str]:
    """The files of a folder, by path."""
    return sorted(str(path.resolve()) for path in folder.iterdir() if path.is_file())


def _summary(measured: Sequence[Measured]) -> dict[str, Any]:
    """Separation by measure, over all pairs and by passage, kind of damage and damaged share."""
    harmless = [one for one in measured if not one.pair.share]
    groups: dict[str, Callable[[Measured], str]] = {
        "passage": lambda one: one.pair.passage,
        "damage": lambda one: one.pair.change,
        "share": lambda one: f"{one.pair.share:.1%}",
    }
    rows = {name: separation(measured, name, THRESHOLD) for name in measured[0].values}
    by: dict[str, Any] = {}
    for group, key in groups.items():
        for value in sorted({key(one) for one in measured if one.pair.share}):
            some = [one for one in measured if one.pair.share and key(one) == value]
            caught = sum(one.values["preservation"] > 1 - THRESHOLD for one in some) / len(some)
            by.setdefault(group, {})[value] = {"pairs": len(some), "caught": round(caught, 4)}
    lowest = sorted(harmless, key=lambda one: -one.values["preservation"])[:5]
    return {
        "pairs": {"damaged": len(measured) - len(harmless), "harmless": len(harmless)},
        "measures": {name: row.to_json() for name, row in rows.items()},
        "caught by": by,
        "lowest harmless": [
            [one.pair.photo, one.pair.change, one.pair.passage, round(1 - one.values["preservation"], 3)]
            for one in lowest
        ],
    }


def _print(half: str, report: Mapping[str, Any]) -> None:
    damaged, harmless = report["pairs"].values()
    lines = [
        f"\n## {half}: {len(report['psnr'])} photographs, {damaged} damaged, {harmless} harmless\n",
        "| measure | AUC | caught at no false alarm | at 1 % | fixed threshold: caught | false alarms |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in report["measures"].items():
        lines.append(f"| {name} | " + " | ".join(Separation.text(row, column) for column in Separation.COLUMNS) + " |")
    lines += [
        "\nCaught at the fixed threshold: " + json.dumps(report["caught by"]),
        "Lowest harmless: " + json.dumps(report["lowest harmless"]),
        "PSNR of the round trip: " + json.dumps(report["psnr"]),
        "\n| drift | preservation by strength, mean over photographs |",
        "|---|---|",
    ]
    for name, values in report["drift"].items():
        lines.append(f"| {name} | " + ", ".join(f"{key}: {value:.2f}" for key, value in values.items()) + " |")
    echo("\n".join(lines), stderr=False)


if __name__ == "__main__":
    main()
