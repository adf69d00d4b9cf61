"""`editcritic plan`: what a run would take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..benchmarks.common.interruption import interrupted_code, tell_interrupted
from ..benchmarks.common.terminal import echo, exit_code_command, print_json, progress_bar, render
from .edit_samples import DEMO, demo_rollouts, file_entries
from .options import DEFAULT_REWARD, Experts, Json, Protocol, Trust

if TYPE_CHECKING:
    from ..benchmarks.run.cost_estimate import Calibration
    from ..reward import EditSample, Reward


@exit_code_command
def plan(
    edits: Annotated[
        str,
        typer.Argument(
            metavar="[EDITS]",
            help="Edits to measure on: a file or folder of samples, as in `score`, with several edits of each source, "
            "like those of the run; or `demo`, six edits of each of the demo's photographs.",
        ),
    ] = DEMO,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Edits that the run will score.")] = 100_000,
    rollouts: Annotated[
        int, typer.Option("--rollouts", min=1, help="Edits of each source and instruction, of these samples.")
    ] = 1,
    replicas: Annotated[
        int, typer.Option("--replicas", min=1, help="Processes or machines like this one that share the work.")
    ] = 1,
    reward: Annotated[
        str | None,
        typer.Option("--reward", help=f"Reward spec, as in `score`. Default: {DEFAULT_REWARD}."),
    ] = None,
    experts: Experts = None,
    protocol: Protocol = None,
    limit: Annotated[
        int,
        typer.Option(
            "--limit",
            min=2,
            help="Edits to measure on, at most 8 of a source. More make intervals narrower, and fill larger batches.",
        ),
    ] = 64,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Write the measurement (JSON), for --calibration.")
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option("--calibration", help="A measurement of an earlier run, of this machine or another: ask nothing."),
    ] = None,
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Estimate what a run would take: queries, tokens, cost, hours and GPU hours, each with where it comes from.

    A few edits are scored with the reward and its experts on this machine, and what they took is extrapolated. Edits of
    one source share questions about it, so say how many --rollouts there are. Experts that charge are asked for these
    edits, too. Exit code 1 if an edit that was measured has no score because an expert failed.

    Example: editcritic plan --samples 1000000 --reward any-edit --rollouts 16
    """
    from ..benchmarks.common.errors import InputError
    from ..benchmarks.common.inputs import load_reward, require_distinct_files, spec_argument
    from ..benchmarks.run.calibration import calibrate
    from ..benchmarks.run.cost_estimate import estimate
    from ..benchmarks.run.estimate_table import estimate_json, estimate_table, unknown_cost
    from ..benchmarks.run.scoring_run import forward_warnings
    from ..reward.atomic_files import write_atomically

    if calibration is not None:
        if reward is not None or experts or protocol is not None or edits != DEMO:
            raise InputError(
                "a calibration has its reward, its experts and its edits: give --calibration without --reward, "
                "--experts, --protocol and EDITS"
            )
        measured = _read_calibration(calibration)
    else:
        require_distinct_files(samples=None if edits == DEMO else Path(edits), out=out)
        bound = load_reward(spec_argument(reward or DEFAULT_REWARD), protocol, bindings=experts, on_failures="none")
        chosen, described = _chosen(edits, bound, rollouts, limit)
        with progress_bar(len(chosen), "measuring") as (step, tell), forward_warnings(tell):
            try:
                measured = calibrate(bound, chosen, described, lambda _: step())
            except KeyboardInterrupt:
                tell_interrupted()
                return interrupted_code()
    try:
        figures = estimate(measured, samples, rollouts, replicas)
    except ValueError as error:
        raise InputError(str(error)) from None
    if out is not None:
        write_atomically(out, json_text(measured))
    if as_json:
        print_json(estimate_json(measured, figures, samples, rollouts, replicas))
    else:
        grouped = f" of {samples / rollouts:,.0f} sources, {rollouts:,} of each" if rollouts > 1 else ""
        render(estimate_table(f"{samples:,} edits{grouped}, with {measured.reward}", measured, figures))
        for name in measured.unpriced:
            echo(f"editcritic: {unknown_cost(name)}")
    return int(bool(measured.statuses.get("failed")))


def json_text(calibration: Calibration) -> str:
    """The file of a calibration."""
    import json

    return json.dumps(calibration.to_json(), indent=1, allow_nan=False) + "\n"


def _read_calibration(path: Path) -> Calibration:
    from ..benchmarks.common.errors import InputError
    from ..benchmarks.run.cost_estimate import Calibration
    from ..reward.regular_files import read_text
    from ..reward.strict_json import parse_json

    try:
        return Calibration.from_json(parse_json(read_text(path, _MAX_CALIBRATION_BYTES)))
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None


def _chosen(edits: str, reward: Reward, rollouts: int, limit: int) -> tuple[Sequence[EditSample], str]:
    """The edits to measure on, and where they come from. Raises `InputError` if there are none that tell anything."""
    from itertools import islice

    from ..benchmarks.audit.chosen_edits import READ_AHEAD, valid_samples
    from ..benchmarks.common.errors import InputError
    from ..benchmarks.run.calibration import edit_groups

    entries = demo_rollouts() if edits == DEMO else file_entries(Path(edits), {})
    read = islice(valid_samples(entries, reward, lambda problem: echo(f"editcritic: {problem}")), limit * READ_AHEAD)
    groups = edit_groups(read)
    least = min(rollouts, 2)
    usable = [group[:_MAX_GROUP] for group in groups if len(group) >= least]
    if not usable:
        raise InputError(
            f"{edits} has no source with two edits, from which the cost of {rollouts} could be told: give several "
            "edits of each source and instruction, or --rollouts 1"
            if groups
            else f"{edits} has no edit that can be scored"
        )
    chosen: list[EditSample] = []
    for group in usable:
        if limit - len(chosen) >= least:
            chosen += group[: limit - len(chosen)]
    return chosen, "the demo's photographs" if edits == DEMO else Path(edits).name


_MAX_GROUP = 8
"""Edits of a source that are measured: further ones cost the same."""
_MAX_CALIBRATION_BYTES = 4 * 2**20
