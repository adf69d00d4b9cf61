"""`editcritic estimate`: what a run would take."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..benchmarks.common.errors import InputError
from ..benchmarks.common.interruption import interrupted_code, tell_interrupted
from ..benchmarks.common.terminal import echo, exit_code_command, print_json, progress_bar, render
from .audit import require_writable
from .edit import DEMO, demo_rollouts, file_entries
from .options import DEFAULT_REWARD, Experts, Json, Protocol, Trust

if TYPE_CHECKING:
    from ..benchmarks.run.cost_estimate import MeasuredCosts
    from ..reward import EditSample, Reward


@exit_code_command
def estimate(
    edits: str = typer.Argument(
        DEMO,
        metavar="[EDITS]",
        help="Edits to measure on: a file or folder of samples, as in `score`, with several edits of each source, "
        "like those of the run; or `demo`, six edits of each of the demo's photographs.",
    ),
    samples: int = typer.Option(100_000, min=1, max=10**12, help="Edits that the run will score."),
    rollouts: int = typer.Option(1, min=1, max=10**6, help="Edits of each source and instruction, of these samples."),
    replicas: int = typer.Option(1, min=1, max=10**6, help="Processes or machines like this one that share the work."),
    reward: str | None = typer.Option(None, help=f"Reward spec, as in `score`. Default: {DEFAULT_REWARD}."),
    experts: Experts = None,
    protocol: Protocol = None,
    instruction: str | None = typer.Option(None, help="Instruction of all pairs in a folder that have no <id>.txt."),
    limit: int | None = typer.Option(
        None,
        min=2,
        help="Edits to measure on: one of each source, or with --rollouts some of each. More make intervals "
        "narrower, and fill larger batches. Default: 64.",
    ),
    out: Path | None = typer.Option(None, "-o", "--out", help="Write the measurement (JSON), for --measured."),
    measured: Path | None = typer.Option(
        None, help="A measurement of an earlier run, of this machine or another: ask nothing."
    ),
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Estimate what a run would take: queries, tokens, cost, hours and GPU hours, each with where it comes from.

    A few edits are scored with the reward and its experts on this machine, and what they took is extrapolated. Edits of
    one source share questions about it, so say how many --rollouts there are. Experts that charge are asked for these
    edits, too. Exit code 1 if an edit that was measured has no score because an expert failed.

    Example: editcritic estimate --samples 1000000 --reward any-edit --rollouts 16
    """
    from ..benchmarks.common.inputs import load_reward, require_distinct_files, spec_argument
    from ..benchmarks.run.case_estimate import measure_costs
    from ..benchmarks.run.cost_estimate import estimate_json, estimate_table, extrapolate, unknown_cost
    from ..benchmarks.run.scoring_run import forward_warnings
    from ..reward.atomic_files import write_atomically

    if measured is not None:
        if reward is not None or experts or edits != DEMO or (protocol, instruction, limit) != (None, None, None):
            raise InputError(
                "a measurement has its reward, its experts and its edits: give --measured without --reward, "
                "--experts, --protocol, --instruction, --limit and EDITS"
            )
        costs = _read_measurement(measured)
    else:
        require_distinct_files(samples=None if edits == DEMO else Path(edits), out=out)
        bound = load_reward(spec_argument(reward or DEFAULT_REWARD), protocol, bindings=experts, on_failures="none")
        if out is not None:
            require_writable(out)
        chosen, described = _chosen(edits, bound, rollouts, limit or _LIMIT, instruction)
        with progress_bar(len(chosen), "measuring") as (step, tell), forward_warnings(tell):
            try:
                costs = measure_costs(bound, chosen, described, lambda _: step())
            except KeyboardInterrupt:
                tell_interrupted()
                return interrupted_code()
    try:
        figures = extrapolate(costs, samples, rollouts, replicas)
    except ValueError as error:
        raise InputError(str(error)) from None
    if as_json:
        print_json(estimate_json(costs, figures, samples, rollouts, replicas))
    else:
        grouped = f" of {math.ceil(samples / rollouts):,} sources, {rollouts:,} of each" if rollouts > 1 else ""
        render(estimate_table(f"{samples:,} edits{grouped}, with {costs.reward}", costs, figures))
        for name in costs.unpriced:
            echo(f"editcritic: {unknown_cost(name)}")
    if out is not None:
        write_atomically(out, json.dumps(costs.to_json(), indent=1, allow_nan=False) + "\n")
    return int(bool(costs.statuses.get("failed")))


def _read_measurement(path: Path) -> MeasuredCosts:
    from ..benchmarks.run.cost_estimate import MeasuredCosts
    from ..reward.regular_files import read_text
    from ..reward.strict_json import parse_json

    try:
        return MeasuredCosts.from_json(parse_json(read_text(path, _MAX_MEASUREMENT_BYTES)))
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def _chosen(
    edits: str, reward: Reward, rollouts: int, limit: int, instruction: str | None
) -> tuple[Sequence[EditSample], str]:
    """The edits to measure on, and where they come from. Raises `InputError` if there are none that tell anything. One
    of each source without rollouts. With them `_MAX_GROUP`, so that many sources are measured, and more where the
    sources are few."""
    from ..benchmarks.audit.chosen_edits import READ_AHEAD, valid_samples

    entries = demo_rollouts() if edits == DEMO else file_entries(Path(edits), {}, instruction=instruction)
    least, wanted = min(rollouts, 2), min(rollouts, _MAX_GROUP)
    groups: dict[str, list[EditSample]] = {}
    full = 0
    for count, sample in enumerate(valid_samples(entries, reward, lambda problem: echo(f"editcritic: {problem}")), 1):
        group = groups.setdefault(sample.group, [])
        group.append(sample)
        full += len(group) == wanted
        if full * wanted >= limit or count >= limit * READ_AHEAD:
            break
    usable = [group[:rollouts] for group in groups.values() if len(group) >= least]
    if not usable:
        raise InputError(
            f"{edits} has no source with two edits, from which the cost of {rollouts} could be told: give several "
            "edits of each source and instruction, or --rollouts 1"
            if groups
            else f"{edits} has no edit that can be scored"
        )
    size = max(wanted, limit // len(usable))
    chosen: list[EditSample] = []
    for group in usable:
        if limit - len(chosen) >= least:
            chosen += group[: min(size, limit - len(chosen))]
    return chosen, "the demo's photographs" if edits == DEMO else Path(edits).name


_LIMIT = 64
_MAX_GROUP = 4  # edits of a source that are measured: further ones cost the same
_MAX_MEASUREMENT_BYTES = 4 * 2**20
