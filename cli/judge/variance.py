"""`editcritic judge variance`: the variance of a judge's score."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ...benchmarks.common.errors import InputError
from ...benchmarks.common.terminal import echo, echo_first, exit_code_command, print_json, progress_bar, render
from ..edit import file_entries
from ..options import AnswerCache, Data, Experts, Json, Seed, SuiteProtocol, Trust

if TYPE_CHECKING:
    from ...benchmarks.common.inputs import SampleEntry
    from ...benchmarks.human_eval.measurement_variance import MeasuredEdit, RepeatedMeasurements
    from ...benchmarks.run.editor_outputs import Outputs
    from ...benchmarks.suites.suite import Suite
    from ...reward import Reward


@exit_code_command
def variance(
    suite: str = typer.Argument(
        metavar="SAMPLES", help="A file or folder of samples, as in `score`; or, with --outputs, a suite."
    ),
    metric: str = typer.Option(
        ..., help="A reward as in `score`, or a metric of the suite; its part: METRIC/PART or METRIC/PART?n=1."
    ),
    outputs: Path | None = typer.Option(None, help="Folder of an editor's outputs; SAMPLES names their suite then."),
    data: Data = None,
    averages: str = typer.Option(
        "1,2,4,8,20", "-k", "--num-averaged", help="Numbers of measurements to average, comma-separated."
    ),
    num_samples: int = typer.Option(
        32,
        min=1,
        help="Number of randomly chosen edits to measure, of as many sources as possible; of a file, among its "
        "first 16 times as many.",
    ),
    target_variation: float | None = typer.Option(
        None, help="Report how many measurements to average for this variation, in units of the score."
    ),
    experts: Experts = None,
    protocol: SuiteProtocol = None,
    cache: AnswerCache = None,
    out: Path | None = typer.Option(None, "-o", "--out", help="Write all measurements as JSON."),
    seed: Seed = 0,
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Measure the noise of a judge: its standard deviation, and the variation of means of k measurements.

    Each edit is measured 4 k times, for the largest k; its variation is half the range of four means of k
    (Complex-Edit, section 4.2). Edits are those of a file or folder, or an editor's outputs for a suite.

    Example: editcritic judge variance samples.jsonl --metric judge-quality --experts judge=qwen3-vl-8b

    Example: editcritic judge variance sceneedit --outputs made/tiny --metric judge-quality
    """
    from ...benchmarks.common.inputs import require_distinct_files, require_no_picture
    from ...benchmarks.human_eval.measurement_variance import SUBSAMPLE_MEANS, measure_repeatedly
    from ...benchmarks.run.editor_outputs import Outputs
    from ...benchmarks.run.suite_loading import default_data, load_suite
    from ...reward import AnswerLog, Reward, default_experts, load_experts

    counts = _counts(averages)
    if target_variation is not None and not target_variation > 0:
        raise InputError(f"--target-variation is above 0, got {target_variation:g}")
    editor_outputs: Outputs | None = None
    if outputs is not None:
        editor_outputs = Outputs(load_suite(suite, data or default_data(suite)).under(protocol), outputs)
    elif data is not None or protocol is not None:
        raise InputError(
            "--data and --protocol are of a suite: give --outputs, and the suite's name as SAMPLES; a protocol of a "
            "reward is an option of it, as in --metric 'viescore-o?protocol=official'"
        )
    elif not Path(suite).exists():
        raise InputError(f"{suite} does not exist: give a file or folder of samples, or a suite with --outputs")
    else:
        require_no_picture(out, "measurements")
        require_distinct_files(samples=Path(suite), out=out, cache=cache)
    spec, path = _single_measurement_spec(metric, None if editor_outputs is None else editor_outputs.suite, protocol)
    count = SUBSAMPLE_MEANS * max(counts)
    with ExitStack() as stack:
        log = None if cache is None else stack.enter_context(AnswerLog(cache))
        reward = Reward.of(spec, load_experts(experts or (), default_experts()), log=log, on_failures="none")
        if editor_outputs is None:
            entries = file_entries(Path(suite), {} if log is None else log.files)
            edits = _file_edits(entries, reward, num_samples, seed)
        else:
            edits = _suite_edits(editor_outputs, reward, num_samples, seed)
        with progress_bar(count, "measuring") as (step, _):
            measurements = measure_repeatedly(reward, edits, path, count, step)
    document = measurements.to_json(counts, target_variation)
    if out is not None:
        out.write_text(json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    if as_json:
        print_json(document)
    else:
        _print_variance(measurements, counts, target_variation)
    return int(bool(measurements.failed))


def _file_edits(entries: Iterable[SampleEntry], reward: Reward, count: int, seed: int) -> list[MeasuredEdit]:
    """`count` samples that the reward can score, of as many sources as possible; the others are said. Raises
    `InputError` if there are none."""
    from ...benchmarks.audit.chosen_edits import of_many_sources, valid_samples
    from ...benchmarks.human_eval.measurement_variance import MeasuredEdit

    problems: list[str] = []
    chosen = of_many_sources(valid_samples(entries, reward, problems.append), count, seed)
    if not chosen:
        raise InputError(f"no sample can be measured, of {len(problems)}; the first: {problems[0]}")
    echo_first(problems, 5, "other samples are left out")
    return [MeasuredEdit.of(sample) for sample in chosen]


def _suite_edits(outputs: Outputs, reward: Reward, count: int, seed: int) -> list[MeasuredEdit]:
    """`count` outputs, less those that the reward cannot score. Raises `InputError` if none are left."""
    from ...benchmarks.human_eval.measurement_variance import MeasuredEdit, sample_items
    from ...benchmarks.run.editor_outputs import MissingOutput, UnnamedOutputs, layout_text

    edits: list[MeasuredEdit] = []
    missing = 0
    items = outputs.suite.items
    for item in sample_items(items, len(items), seed):
        if len(edits) == count:
            break
        try:
            edits.append(MeasuredEdit(item.id, item.case, outputs.sample(item)))
        except MissingOutput:
            missing += 1
    if not edits:
        raise InputError(f"{outputs.folder} has no image of any item: {layout_text(outputs.suite, outputs.folder)}")
    if missing:
        unnamed = str(UnnamedOutputs.of(outputs.suite, outputs.folder))
        echo(f"editcritic: {missing} items without an image are left out{unnamed and '; '}{unnamed}")
    complete = [edit for edit in edits if not reward.missing_fields(edit.sample)]
    if not complete:
        lacking = ", ".join(reward.missing_fields(edits[0].sample))
        raise InputError(f"{reward.card.name} needs {lacking}, and {edits[0].id} has none")
    return complete


def _counts(text: str) -> list[int]:
    try:
        counts = sorted({int(number) for number in text.split(",")})
    except ValueError:
        counts = []
    if not counts or counts[0] < 1:
        raise InputError(f"-k takes positive integers, as in 1,2,4,8,20; got {text!r}")
    return counts


def _single_measurement_spec(metric: str, suite: Suite | None, protocol: str | None) -> tuple[Any, tuple[str, ...]]:
    """A spec that measures once per call, and the path of the selected part. suite: whose metrics are meant first."""
    from ...benchmarks.common.inputs import spec_argument
    from ...benchmarks.run.suite_loading import metric_spec
    from ...reward import build, spec_of

    name, mark, options = metric.partition("?")  # options may hold paths
    path: list[str] = []
    if mark or not metric.endswith(".toml"):
        name, *path = name.split("/")
    text = name + mark + options
    of_suite = suite is not None and name in suite.metrics(protocol)
    spec = metric_spec(suite, protocol, text)[1] if suite is not None and of_suite else spec_argument(text)
    built = build(spec)
    if getattr(built, "n", 1) != 1 and getattr(built, "mode", "numeric") == "numeric":
        built = build({**spec_of(built), "n": 1})
    return spec_of(built), tuple(path)


def _print_variance(measurements: RepeatedMeasurements, counts: Sequence[int], target_variation: float | None) -> None:
    from rich.table import Table

    from ...benchmarks.human_eval.measurement_variance import first_stable_count

    title = f"{measurements.metric}: (max - min) / 2 of four means of K measurements"
    table = Table("K", title=title, title_justify="left")
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
        tenth = f"less than a tenth of the variation at K = {rows[0].num_averaged}"
        echo(f"from K = {stable} on, each step removes {tenth}", stderr=False)
    if target_variation is not None:
        required = measurements.required_count(target_variation) or "unknown"
        echo(f"for a mean variation of {target_variation:g}: K = {required}", stderr=False)
    for name, reason in list(measurements.failed.items())[:5]:
        echo(f"{name} could not be measured: {reason}")
    if len(measurements.failed) > 5:
        echo(f"and {len(measurements.failed) - 5} others")
