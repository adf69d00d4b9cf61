"""`editcritic bench run`: an editor's outputs of a suite, scored."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...benchmarks.common.defaults import BOOTSTRAP_SAMPLES
from ...benchmarks.common.terminal import echo, exit_code_command, print_json
from ..options import (
    Data,
    Experts,
    Json,
    MaxFailureRate,
    Metric,
    OnFailures,
    OptionalBootstrapSamples,
    Reproducible,
    SuiteProtocol,
)

if TYPE_CHECKING:
    from ...benchmarks.run.runner import RunResult
    from ...benchmarks.suites.suite import Suite


_PROBLEMS = 10
"""Problems with the data that are printed; `run.json` has all."""


@exit_code_command
def run(
    suite: Annotated[
        str | None,
        typer.Argument(metavar="[SUITE]", help="A suite, with options as in `edival?mode=singlepass`; or use --lock."),
    ] = None,
    *,
    outputs: Annotated[Path, typer.Option("--outputs", help="Folder of the editor's outputs.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Output folder for results.")],
    data: Data = None,
    lock_file: Annotated[
        Path | None,
        typer.Option(
            "--lock",
            help="Run under this locked protocol instead of SUITE, --experts, --protocol, --metric and --reproducible.",
        ),
    ] = None,
    editor_name: Annotated[
        str | None, typer.Option("--editor-name", help="Editor name in tables. Default: name of the outputs folder.")
    ] = None,
    experts: Experts = None,
    protocol: SuiteProtocol = None,
    metric: Metric = None,
    reproducible: Reproducible = False,
    journal: Annotated[
        Path | None, typer.Option("--journal", help="Folder of rows and answers. Default: OUT/journal.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            help="Limits, e.g. judge_calls=5000,seconds=3600,cost=20. Calls and cost count over all runs of "
            "the journal, seconds over this run. A stopped run can be resumed.",
        ),
    ] = None,
    price: Annotated[
        list[str] | None, typer.Option("--price", help="ROLE=PRICE of one call, e.g. judge=0.002. Repeatable.")
    ] = None,
    window: Annotated[int, typer.Option("--max-in-flight", min=1, help="Items in flight; bounds memory.")] = 256,
    max_failure_rate: MaxFailureRate = 0.5,
    on_failures: OnFailures = "raise",
    bootstrap_samples: OptionalBootstrapSamples = BOOTSTRAP_SAMPLES,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the bootstrap.")] = 0,
    allow_partial: Annotated[
        bool,
        typer.Option("--allow-partial", help="Write results even if the run ends early; they are marked as partial."),
    ] = False,
    ray: Annotated[bool, typer.Option("--ray", help="Score on a Ray cluster with Ray Data.")] = False,
    ray_address: Annotated[
        str | None,
        typer.Option("--ray-address", help="Address of the cluster. Default: the one of this machine, or a new one."),
    ] = None,
    ray_workers: Annotated[int, typer.Option("--ray-workers", min=1, help="Number of scoring actors.")] = 2,
    ray_cpus: Annotated[float, typer.Option("--ray-cpus", min=0.0, help="CPUs per actor.")] = 1.0,
    ray_gpus: Annotated[float, typer.Option("--ray-gpus", min=0.0, help="GPUs per actor.")] = 0.0,
    as_json: Json = False,
) -> int:
    """Score an editor's outputs of a suite: rows, tables with intervals, and their provenance.

    Running the same command again resumes: answers are cached, and failed queries are retried. Under `torchrun` or
    `accelerate launch` the processes of one machine share the work and write byte-identical results. Exit code 1 if
    scores failed, outputs are missing, or the run ended early.
    """
    from ...benchmarks.common.errors import InputError
    from ...benchmarks.run.protocol_lock import check_protocol, read_protocol, run_spec_from_protocol
    from ...benchmarks.run.ray_runner import RayCluster, execute_with_ray
    from ...benchmarks.run.rendezvous import ProcessRank
    from ...benchmarks.run.run_budget import BudgetLimits, parse_prices
    from ...benchmarks.run.run_config import ExecutionOptions
    from ...benchmarks.run.run_progress import progress_reporter
    from ...benchmarks.run.run_spec import RunSpec
    from ...benchmarks.run.runner import JOURNAL_FOLDER, execute
    from ...benchmarks.run.scoring_run import forward_warnings

    process = ProcessRank.from_environment(os.environ)
    process.assign_gpu(os.environ)
    limits, prices = BudgetLimits.parse(budget), parse_prices(price or ())
    editor = editor_name or outputs.resolve().name
    expert_specs, metric_names = tuple(experts or ()), tuple(metric or ())
    if lock_file is not None:
        if suite or expert_specs or protocol or metric_names or reproducible:
            raise InputError(
                "--lock replaces SUITE, --experts, --protocol, --metric and --reproducible: give none of them"
            )
        protocol_lock = read_protocol(lock_file)
        spec = run_spec_from_protocol(protocol_lock, data, outputs, editor)
        built = spec.build()
        for difference in check_protocol(protocol_lock, built, str(lock_file)):
            echo(f"editcritic: differs from the lock: {difference}")
    elif suite is None:
        raise InputError("give a SUITE, as in edival, or a locked protocol with --lock")
    else:
        spec = RunSpec(
            suite, data, outputs, editor, expert_specs, protocol, metric_names, reproducible, bootstrap_samples, seed
        )
        built = spec.build()
    if not process.rank:
        print_problems(built.suite)
        for skipped_metric, reason in built.metric_set.skipped.items():
            echo(f"editcritic: {skipped_metric} is left out: {reason}")
    with forward_warnings(echo), progress_reporter("scoring", shown=not process.rank) as watch:
        options = ExecutionOptions(
            prices,
            limits,
            window,
            max_failure_rate,
            on_failures,  # type: ignore[arg-type]  # ExecutionOptions validates it
            allow_partial=allow_partial,
            on_progress=watch,
            invocation=spec.to_json(out),
        )
        try:
            if ray or ray_address:
                cluster = RayCluster(ray_address, ray_workers, ray_cpus, ray_gpus)
                result: RunResult | None = execute_with_ray(spec, options, cluster, out=out, journal=journal)
            else:
                result = execute(built, options, out=out, journal=journal, process=process)
        except KeyboardInterrupt:
            journal_folder = journal or out / JOURNAL_FOLDER
            echo(
                f"editcritic: interrupted; finished rows are in {journal_folder}: run the same command again to resume"
            )
            return 130
    return 0 if result is None else _print_run(result, out, as_json)


def print_problems(suite: Suite) -> None:
    """Print the first problems with the data of a suite."""
    for problem in suite.problems[:_PROBLEMS]:
        echo(f"editcritic: {problem}")
    if len(suite.problems) > _PROBLEMS:
        echo(f"editcritic: and {len(suite.problems) - _PROBLEMS} other problems with the data")


def _print_run(result: RunResult, out: Path, as_json: bool) -> int:
    from ...benchmarks.run.result_files import status_counts

    counts = status_counts(result.results)
    if as_json:
        summary: dict[str, Any] = {
            "exit_code": result.exit_code,
            "out": str(out),
            "stop_reason": result.stop_reason,
            "counts": counts,
            "tables": [computed.to_json() for computed in result.tables],
        }
        print_json(summary)
        return result.exit_code
    for computed in result.tables:
        echo(computed.markdown(), stderr=False)
    if result.stop_reason:
        echo(f"editcritic: {result.stop_reason}")
    if result.missing:
        first = next(row for row in result.results.rows if row.missing_reason)
        echo(
            f"editcritic: {result.missing} of {counts['items']} items have no score, e.g. {first.id}: "
            f"{first.missing_reason}"
        )
    if result.failed:
        echo(f"editcritic: {result.failed} items have failed scores: run the same command again to retry them")
    if result.tables:
        echo(f"editcritic: the results are in {out}", stderr=False)
    return result.exit_code
