"""What the study of the writer says: a table, figures as JSON, and curves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from ..extras import bench
from .writer_study import LOOPS, Look, Outcome

_DRAWS = 2_000  # of the bootstrap

Values = Callable[[Look], Sequence[float | None]]
"""Of a look, a value a held-out compound."""


def rewards(look: Look) -> Sequence[float | None]:
    """By the preset."""
    return look.rewards


def truths(look: Look) -> Sequence[float | None]:
    """Shares of steps truly followed."""
    return look.truths


def mean(values: Sequence[float | None]) -> float:
    """Of those there are. Raises StatisticsError for none."""
    return fmean(value for value in values if value is not None)


def lift(outcomes: Sequence[Outcome], loop: str, of: Values = rewards) -> tuple[float, float, float]:
    """From the warm start to the end of a loop: mean and 95 % interval, bootstrapped over seeds and their compounds.

    Paired: of each compound that has a value at both ends.
    """
    found = [_risen(outcome.looks[loop], of) for outcome in outcomes]
    chance = np.random.default_rng(0)

    def drawn() -> float:
        seeds = chance.integers(0, len(found), len(found))
        return float(np.mean([chance.choice(found[seed], len(found[seed])).mean() for seed in seeds]))

    low, high = np.quantile([drawn() for _ in range(_DRAWS)], (0.025, 0.975))
    return float(np.mean([one.mean() for one in found])), float(low), float(high)


def _risen(looks: Sequence[Look], of: Values) -> NDArray[np.float64]:
    pairs = zip(of(looks[0]), of(looks[-1]), strict=True)
    return np.array([last - first for first, last in pairs if first is not None and last is not None])


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Lines of Markdown: a row a seed and loop, and one for all seeds. See `lift` for intervals."""
    yield "| seed | trained on | reward at warm start | at the end | lift (95 %) | truly followed | lift (95 %) |"
    yield "|---|---|---|---|---|---|---|"
    for loop in LOOPS:
        for some in (*([one] for one in outcomes), outcomes):
            name = some[0].seed if len(some) == 1 else "all"
            (first, last), (true, truly) = ([_at(some, loop, of, end) for end in (0, -1)] for of in (rewards, truths))
            yield (
                f"| {name} | {loop} | {first:.3f} | {last:.3f} | {_signed(lift(some, loop))} "
                f"| {true:.3f} to {truly:.3f} | {_signed(lift(some, loop, truths))} |"
            )
    yield ""
    looks = [look for outcome in outcomes for loop in LOOPS for look in outcome.looks[loop]]
    unscored = fmean(value is None for look in looks for value in look.rewards)
    minutes = [sum(outcome.seconds.values()) / 60 for outcome in outcomes]
    yield (
        f"{len(looks[0].rewards)} held-out compounds a seed, one sample each. Unscored: {100 * unscored:.1f} %. "
        f"Minutes of one core for each seed: {', '.join(f'{one:.1f}' for one in minutes)}, of which the loop with the "
        f"reward took {', '.join(f'{one.seconds[LOOPS[0]] / 60:.1f}' for one in outcomes)}."
    )


def _at(outcomes: Sequence[Outcome], loop: str, of: Values, end: int) -> float:
    return mean([value for outcome in outcomes for value in of(outcome.looks[loop][end])])


def _signed(found: tuple[float, float, float]) -> str:
    return "{:+.3f} ({:+.3f} to {:+.3f})".format(*found)


def figures(outcomes: Sequence[Outcome]) -> dict[str, object]:
    """All that the table says, the curves, and what every held-out compound was worth at every look."""
    return {
        "lift": {loop: lift(outcomes, loop) for loop in LOOPS},
        "lift in truth": {loop: lift(outcomes, loop, truths) for loop in LOOPS},
        "seeds": [
            {
                "seed": one.seed,
                "seconds": one.seconds,
                "lift": {loop: lift([one], loop) for loop in LOOPS},
                "lift in truth": {loop: lift([one], loop, truths) for loop in LOOPS},
                "curves": {
                    loop: {
                        "step": [look.step for look in looks],
                        "reward": [mean(look.rewards) for look in looks],
                        "truth": [mean(look.truths) for look in looks],
                        "length": [mean(look.lengths) for look in looks],
                        "format": [mean(look.formats) for look in looks],
                    }
                    for loop, looks in one.looks.items()
                },
                "looks": {loop: [asdict(look) for look in looks] for loop, looks in one.looks.items()},
            }
            for one in outcomes
        ],
    }


def plot(outcomes: Sequence[Outcome], path: Path) -> None:
    """Held-out reward and truth: a colour a loop, a thin line a seed, a thick one their mean."""
    pyplot = bench("matplotlib.pyplot")
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
    for axis, (label, of) in zip(axes, (("held-out reward", rewards), ("steps truly followed", truths)), strict=True):
        for number, loop in enumerate(LOOPS):
            curves = [[mean(of(look)) for look in outcome.looks[loop]] for outcome in outcomes]
            steps = [look.step for look in outcomes[0].looks[loop]]
            for curve in curves:
                axis.plot(steps, curve, color=f"C{number}", linewidth=0.8, alpha=0.5)
            axis.plot(steps, np.mean(curves, axis=0), color=f"C{number}", linewidth=2.2, label=f"trained on {loop}")
        axis.set(xlabel="GRPO step", title=label, ylim=(0, 1))
        axis.grid(visible=True, alpha=0.3)
    axes[0].legend(fontsize=9)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
