"""`editcritic judge variance`: the variance of a judge's score."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...benchmarks.common.terminal import echo, exit_code_command, print_json, progress_bar, render
from ..options import AnswerCache, Data, Experts, Json, Seed, SuiteName, SuiteProtocol, Trust

if TYPE_CHECKING:
    from ...benchmarks.human_eval.measurement_variance import RepeatedMeasurements
    from ...benchmarks.suites.suite import Suite, SuiteItem
    from ...reward import EditSample


@exit_code_command
def variance(
    suite: SuiteName,
    outputs: Annotated[Path, typer.Option("--outputs", help="Folder of an editor's outputs.")],
    metric: Annotated[
        str,
        typer.Option(
            "--metric",
            help="A metric of the suite, or a reward as in `score`; its part: METRIC/PART or METRIC/PART?n=1.",
        ),
    ],
    data: Data = None,
    averages: Annotated[
        str, typer.Option("-k", "--num-averaged", help="Numbers of measurements to average, comma-separated.")
    ] = "1,2,4,8,20",
    num_samples: Annotated[
        int, typer.Option("--num-samples", min=1, help="Number of randomly chosen items to measure.")
    ] = 32,
    target_variation: Annotated[
        float | None,
        typer.Option(
            "--target-variation",
            help="Report how many measurements to average for this variation, in units of the score.",
        ),
    ] = None,
    experts: Experts = None,
    protocol: SuiteProtocol = None,
    cache: AnswerCache = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Write all measurements as JSON.")] = None,
    seed: Seed = 0,
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Measure the noise of a judge: its standard deviation, and the variation of means of k measurements.

    Each item is measured 4 k times, for the largest k; its variation is half the range of four means of k
    (Complex-Edit, section 4.2).

    Example: editcritic judge variance sceneedit --outputs made/tiny --metric judge-quality
    """
    from ...benchmarks.common.errors import InputError
    from ...benchmarks.human_eval.measurement_variance import measure_repeatedly, sample_items
    from ...benchmarks.run.editor_outputs import MissingOutput, Outputs
    from ...benchmarks.run.suite_loading import load_suite
    from ...reward import AnswerLog, Reward, default_experts, load_experts
    from ...reward.metrics.complexedit.measurement_variation import SUBSAMPLE_MEANS

    counts = _counts(averages)
    if target_variation is not None and not target_variation > 0:
        raise InputError(f"--target-variation is above 0, got {target_variation:g}")
    loaded = load_suite(suite, data).under(protocol)
    editor_outputs = Outputs(loaded, outputs)
    spec, path = _single_measurement_spec(loaded, metric, protocol)
    measurable: list[tuple[SuiteItem, EditSample]] = []
    missing = 0
    for item in sample_items(loaded.items, len(loaded.items), seed):
        if len(measurable) == num_samples:
            break
        try:
            measurable.append((item, editor_outputs.sample(item)))
        except MissingOutput:
            missing += 1
    if not measurable:
        raise InputError(f"{outputs} has no image of any item")
    count = SUBSAMPLE_MEANS * max(counts)
    with ExitStack() as stack, progress_bar(count, "measuring") as (step, tell):
        log = None if cache is None else stack.enter_context(AnswerLog(cache))
        reward = Reward.of(spec, load_experts(experts or (), default_experts()), log=log, on_failures="none")
        if missing:
            tell(f"editcritic: {missing} items without an image are left out")
        items = [item for item, _ in measurable]
        complete = [(item, sample) for item, sample in measurable if not reward.missing_fields(sample)]
        if not complete:
            lacking = ", ".join(reward.missing_fields(measurable[0][1]))
            raise InputError(f"{reward.card.name} needs {lacking}, and {items[0].id} has none")
        measurements = measure_repeatedly(
            reward, [item for item, _ in complete], [sample for _, sample in complete], path, count, step
        )
    document = measurements.to_json(counts, target_variation)
    if out is not None:
        out.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    if as_json:
        print_json(document)
    else:
        _print_variance(measurements, counts, target_variation)
    return int(bool(measurements.failed))


def _counts(text: str) -> list[int]:
    from ...benchmarks.common.errors import InputError

    try:
        counts = sorted({int(number) for number in text.split(",")})
    except ValueError:
        counts = []
    if not counts or counts[0] < 1:
        raise InputError(f"-k takes positive integers, as in 1,2,4,8,20; got {text!r}")
    return counts


def _single_measurement_spec(suite: Suite, metric: str, protocol: str | None) -> tuple[Any, tuple[str, ...]]:
    """A spec that measures once per call, and the path of the selected part."""
    from ...benchmarks.common.inputs import spec_argument
    from ...reward import build, spec_of

    specs = suite.metrics(protocol)
    name, mark, options = metric.partition("?")  # options may hold paths
    path: list[str] = []
    if mark or not metric.endswith(".toml"):
        name, *path = name.split("/")
    spec = specs.get(name + mark + options) or spec_argument(name + mark + options)
    built = build(spec)
    if getattr(built, "n", 1) != 1 and getattr(built, "mode", "numeric") == "numeric":
        built = build({**spec_of(built), "n": 1})
    return spec_of(built), tuple(path)


def _print_variance(measurements: RepeatedMeasurements, counts: Sequence[int], target_variation: float | None) -> None:
    from rich.table import Table

    from ...benchmarks.human_eval.measurement_variance import first_stable_count

    table = Table(
        "K", title=f"{measurements.metric}: (max - min) / 2 of four means of K measurements", title_justify="left"
    )
    for name in ("mean over samples", "95 % interval", "largest", "expected from one measurement's std"):
        table.add_column(name, justify="right")
    rows = [measurements.variation_at(k) for k in counts]
    for row in rows:
        interval = "" if row.low is None else f"{row.low:.4f} to {row.high:.4f}"
        table.add_row(str(row.num_averaged), f"{row.mean:.4f}", interval, f"{row.largest:.4f}", f"{row.expected:.4f}")
    render(table)
    noise = measurements.noise
    unit = f", {measurements.unit}" if measurements.unit else ""
    echo(f"{len(measurements.ids)} samples{unit}; standard deviation of one measurement: {noise}", stderr=False)
    stable = first_stable_count(rows)
    if stable is not None:
        echo(
            f"from K = {stable} on, each step removes less than a tenth of the variation at K = {rows[0].num_averaged}",
            stderr=False,
        )
    if target_variation is not None:
        required = measurements.required_count(target_variation)
        echo(
            f"for a mean variation of {target_variation:g}: K = {required if required is not None else 'unknown'}",
            stderr=False,
        )
    for name, reason in list(measurements.failed.items())[:5]:
        echo(f"{name} could not be measured: {reason}")
    if len(measurements.failed) > 5:
        echo(f"and {len(measurements.failed) - 5} others")
