"""Is damage told from what is harmless? `python -m studies.preservation`.

Photographs are damaged in one place, or changed harmlessly; as is, through an autoencoder, and with zoom and shift. The
constants of `preservation` were set on the development photographs; the bars are for the held-out ones. `ladders`: is
rising damage worth less, rung by rung, as people order it?
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import cv2
import numpy as np
from numpy.typing import NDArray

from editcritic.benchmarks.common.argument_types import at_least_one
from editcritic.benchmarks.common.terminal import echo
from editcritic.reward import Image
from editcritic.reward.experts.matching.alignment import align
from editcritic.reward.experts.matching.patch_descriptors import describe, to_lab
from editcritic.reward.experts.pixel_changes import PixelChanges
from editcritic.reward.metrics.any_edit.preservation import preservation
from editcritic.reward.queries import ChangeMap, MapChanges
from studies.preservation.damages import Pair, drift_table, pairs

from .autoencoder import STEPS, psnr, round_trip, train
from .damages import Pixels
from .ladders import climb
from .photographs import DEVELOPMENT, HELD_OUT, TRAINING, photograph
from .scenes import SCENES

_PATCH = 16  # pixels

EXPERT = PixelChanges()


@dataclass(frozen=True, slots=True)
class Measured:
    """values: by measure. excess: statistic of the worst patches; preservation: 1 - value."""

    pair: Pair
    values: Mapping[str, float]


def measure(pair: Pair) -> Measured:
    """All measures of a pair."""
    query = MapChanges(Image.of(pair.before), Image.of(pair.after))
    result = preservation(_answer(query))
    features = np.sort(_plain_features(pair.before, pair.after).ravel())
    worst = features[-max(1, round(0.05 * features.size)) :]
    values = {
        "preservation": 1 - result.value,
        "excess": result.excess,
        "worst 5 % of features, aligned": float(worst.mean()),
        "mean feature, aligned": float(features.mean()),
        "mean L1": float(np.abs(pair.before.astype(np.float64) - pair.after).mean()),
    }
    return Measured(pair, values)


def _answer(query: MapChanges) -> ChangeMap:
    (answer,) = EXPERT([query])
    if not isinstance(answer, ChangeMap):
        raise TypeError(f"expected a change map, got {answer!r}")
    return answer


def _plain_features(before: Pixels, after: Pixels) -> NDArray[np.float32]:
    """Distance of the features of each patch after alignment, without an envelope."""
    source, edited = before.astype(np.float32), after.astype(np.float32)
    alignment = align(*(np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.float32) for image in (source, edited)))
    if alignment is not None:
        edited, outside = alignment.apply(edited)
        edited[outside] = source[outside]
    grid = (before.shape[0] // _PATCH, before.shape[1] // _PATCH)
    patches = [describe(to_lab(image), grid) for image in (source, edited)]
    return np.asarray(patches[0].feature_distances(patches[1]).max(axis=2), np.float32)


_DRAWS = 500


@dataclass(frozen=True, slots=True)
class Separation:
    """values, low, high: by column, with 95 % bootstrap intervals; photographs are drawn.

    auc. caught: share of damage above all harmless pairs; caught_1: above 99 % of them. fixed, false: share of damaged
    and of harmless pairs above the fixed threshold; NaN for measures without one.
    """

    values: Mapping[str, float]
    low: Mapping[str, float]
    high: Mapping[str, float]
    COLUMNS: ClassVar[tuple[str, ...]] = ("auc", "caught", "caught_1", "fixed", "false")

    def to_json(self) -> dict[str, list[float] | None]:
        """Value, low and high by column; None where there is no value."""
        return {
            column: None
            if np.isnan(self.values[column])
            else [round(part[column], 4) for part in (self.values, self.low, self.high)]
            for column in self.COLUMNS
        }

    @staticmethod
    def text(row: Mapping[str, Any], column: str) -> str:
        """A cell of a table."""
        return "" if row[column] is None else "{:.3f} [{:.3f}, {:.3f}]".format(*row[column])


def separation(measured: Sequence[Measured], name: str, threshold: float) -> Separation:
    """Of one measure. threshold: of preservation's value; other measures have none."""
    photos = sorted({one.pair.photo for one in measured})
    parts = {
        photo: (
            np.array([one.values[name] for one in measured if one.pair.photo == photo and one.pair.share]),
            np.array([one.values[name] for one in measured if one.pair.photo == photo and not one.pair.share]),
        )
        for photo in photos
    }
    limit = 1 - threshold if name == "preservation" else np.nan
    generator = np.random.default_rng(0)
    draws = [_columns([parts[photo] for photo in generator.choice(photos, len(photos))], limit) for _ in range(_DRAWS)]
    low, high = (
        {column: float(np.quantile([draw[column] for draw in draws], q)) for column in Separation.COLUMNS}
        for q in (0.025, 0.975)
    )
    return Separation(_columns(list(parts.values()), limit), low, high)


def _columns(parts: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]], limit: float) -> dict[str, float]:
    damaged, harmless = (np.concatenate([part[index] for part in parts]) for index in (0, 1))
    ranks = np.searchsorted(np.sort(harmless), damaged, "left"), np.searchsorted(np.sort(harmless), damaged, "right")
    values = {
        "auc": float((ranks[0] + ranks[1]).mean() / 2 / len(harmless)),
        "caught": float((damaged > harmless.max()).mean()),
        "caught_1": float((damaged > np.quantile(harmless, 0.99)).mean()),
    }
    fixed = {"fixed": damaged, "false": harmless}
    return values | {key: float("nan") if np.isnan(limit) else float((v > limit).mean()) for key, v in fixed.items()}


THRESHOLD = 0.93
"""Value below which an edit counts as damaged: what the worst harmless changes leave, and a little less."""

HALVES: Mapping[str, Sequence[str]] = {"development": DEVELOPMENT, "held-out": HELD_OUT}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study; tables as Markdown on standard output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", nargs="?", choices=("separation", "ladders"), default="separation")
    parser.add_argument("--seed", type=int, default=1, help="of places and strengths of damage; default: 1")
    parser.add_argument("--photos", choices=("development", "held-out", "both"), default="both")
    parser.add_argument("--images", type=Path, help="a folder of photographs of your own, measured instead")
    parser.add_argument("--limit", type=at_least_one, help="photographs of each half; default: all")
    parser.add_argument("--steps", type=at_least_one, default=STEPS, help="of training the autoencoder")
    options = parser.parse_args(arguments)
    if options.study == "ladders":
        for half in SCENES if options.photos == "both" else (options.photos,):
            climb(half, options.seed, options.limit)
        return
    through = round_trip(train([photograph(name) for name in TRAINING], steps=options.steps))
    halves = HALVES if options.images is None else {"own": _images(options.images)}
    for half, names in halves.items():
        if options.photos in (half, "both"):
            names = names[: options.limit]
            fidelity = {name: round(psnr(photograph(name), through(photograph(name))), 1) for name in names}
            measured = [measure(pair) for pair in pairs(names, through, seed=options.seed)]
            drift = drift_table(names, through)
            _print(half, {"psnr": fidelity, **_summary(measured), "drift": drift})


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
