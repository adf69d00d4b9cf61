"""Is damage told from what is harmless? `python -m studies.preservation`.

Photographs are damaged in one place, or changed harmlessly; as is, through an autoencoder, and with zoom and shift. The
constants of `preservation` were set on the development photographs; the bars are for the held-out ones. `ladders`: is
rising damage worth less, rung by rung, as people order it?
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from editcritic.benchmarks.common.argument_types import at_least_one
from editcritic.benchmarks.common.markdown import table_lines
from editcritic.benchmarks.common.terminal import echo
from editcritic.reward import Image
from editcritic.reward.experts.matching.alignment import align
from editcritic.reward.experts.matching.patch_descriptors import describe, to_lab
from editcritic.reward.experts.pixel_changes import PixelChanges
from editcritic.reward.metrics.any_edit.preservation import preservation
from editcritic.reward.queries import ChangeMap, MapChanges
from studies.preservation.photographs import STEPS, RoundTrip, psnr, round_trip, train

from .damages import Pair, Pixels, drift_table, pairs
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


def separation(measured: Sequence[Measured], name: str, threshold: float) -> list[str]:
    """Of one measure, cells with 95 % bootstrap intervals over photographs: AUC; the share of damage above all harmless
    pairs, and above 99 % of them; the shares of damage and of harmless pairs above a fixed threshold. threshold: of
    preservation's value; other measures have none."""
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
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    rows = zip(_columns(list(parts.values()), limit), low, high, strict=True)
    return ["" if np.isnan(row[0]) else "{:.3f} [{:.3f}, {:.3f}]".format(*row) for row in rows]


def _columns(parts: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]], limit: float) -> list[float]:
    damaged, harmless = (np.concatenate([part[index] for part in parts]) for index in (0, 1))
    ranks = np.searchsorted(np.sort(harmless), damaged, "left"), np.searchsorted(np.sort(harmless), damaged, "right")
    return [
        float((ranks[0] + ranks[1]).mean() / 2 / len(harmless)),
        float((damaged > harmless.max()).mean()),
        float((damaged > np.quantile(harmless, 0.99)).mean()),
        *(float("nan") if np.isnan(limit) else float((values > limit).mean()) for values in (damaged, harmless)),
    ]


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
            measured = [measure(pair) for pair in pairs(names, through, seed=options.seed)]
            echo("\n".join(_tables(half, names, through, measured)), stderr=False)


def _images(folder: Path) -> list[str]:
    return sorted(str(path.resolve()) for path in folder.iterdir() if path.is_file())


def _tables(half: str, names: Sequence[str], through: RoundTrip, measured: Sequence[Measured]) -> Iterator[str]:
    """Separation by measure; what is caught by passage, kind of damage and damaged share; drift."""
    damaged = [one for one in measured if one.pair.share]
    harmless = [one for one in measured if not one.pair.share]
    yield f"\n## {half}: {len(names)} photographs, {len(damaged)} damaged, {len(harmless)} harmless\n"
    columns = ("measure", "AUC", "caught at no false alarm", "at 1 %", "fixed threshold: caught", "false alarms")
    yield from table_lines(columns, [(name, *separation(measured, name, THRESHOLD)) for name in measured[0].values])
    keys: dict[str, Callable[[Measured], str]] = {
        "passage": lambda one: one.pair.passage,
        "damage": lambda one: one.pair.change,
        "share": lambda one: f"{one.pair.share:.1%}",
    }
    yield "\nCaught at the fixed threshold:"
    for title, key in keys.items():
        groups: dict[str, list[bool]] = {}
        for one in sorted(damaged, key=key):
            groups.setdefault(key(one), []).append(one.values["preservation"] > 1 - THRESHOLD)
        yield f"{title}: " + ", ".join(f"{name} {sum(rows)} of {len(rows)}" for name, rows in groups.items())
    lowest = sorted(harmless, key=lambda one: -one.values["preservation"])[:5]
    cells = [f"{one.pair.photo} {one.pair.change} {1 - one.values['preservation']:.3f}" for one in lowest]
    yield f"Lowest harmless: {', '.join(cells)}"
    fidelity = [f"{name} {psnr(photograph(name), through(photograph(name))):.1f}" for name in names]
    yield f"PSNR of the round trip: {', '.join(fidelity)}\n"
    rows = [
        (name, ", ".join(f"{key}: {value:.2f}" for key, value in values.items()))
        for name, values in drift_table(names, through).items()
    ]
    yield from table_lines(("drift", "preservation by strength, mean over photographs"), rows)


if __name__ == "__main__":
    main()
