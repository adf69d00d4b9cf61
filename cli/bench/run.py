"""`editcritic bench run`: an editor's outputs of a suite, scored."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ...benchmarks.common.errors import InputError
from ...benchmarks.common.interruption import tell_interrupted
from ...benchmarks.common.terminal import (
    echo,
    echo_first,
    exit_code_command,
    print_json,
    render,
    rows_table,
    user_error_text,
    user_errors,
)
from ..options import Data, Experts, Json, Metric, SuiteProtocol, Trust

if TYPE_CHECKING:
    from ...benchmarks.run.run_config import RunConfig
    from ...benchmarks.run.run_journal import ProcessRank
    from ...benchmarks.run.run_settings import RunSettings
    from ...benchmarks.run.runner import RunResult, SharedSpending
    from ...benchmarks.run.suite_loading import SuiteFolders
    from ...benchmarks.suites.suite import Suite
    from ...reward import Expert


_PROBLEMS = 10  # problems with the data that are printed; `run.json` has all


@exit_code_command
def run(
    suite: str | None = typer.Argument(
        None,
        metavar="SUITE",
        help="A suite, with options as in `edival?mode=singlepass`; `all` for every suite whose data and outputs "
        "are there; or use --lock.",
    ),
    outputs: Path | None = typer.Option(
        None, help="Folder of the editor's outputs; with `all`, of a folder for each suite."
    ),
    suites: list[str] | None = typer.Option(
        None,
        "--suite",
        help="With `all`: only this suite, with its options, or NAME=SUITE for other names of its folders. Repeatable.",
    ),
    out: Path | None = typer.Option(None, "-o", "--out", help="Output folder for results."),
    config: Path | None = typer.Option(
        None,
        help="TOML file with settings, e.g. the run.toml of an earlier run; docs/suites.md lists its keys. "
        "Options override it.",
    ),
    data: Data = None,
    experts: Experts = None,
    protocol: SuiteProtocol = None,
    metric: Metric = None,
    reproducible: bool | None = typer.Option(
        None,
        "--reproducible/--no-reproducible",
        help="Query local models one at a time: slower, bitwise reproducible. Default: no.",
    ),
    lock: Path | None = typer.Option(
        None,
        help="Run under this protocol lock (TOML). It decides suite, experts, protocol, metrics, --reproducible, "
        "bootstrap samples and seed.",
    ),
    write_lock: Path | None = typer.Option(
        None,
        help="Write a protocol lock (TOML) with suite, digest of the data, metrics, prompts and experts, for "
        "others to run with --lock. Without --outputs and -o, nothing is scored.",
    ),
    budget: str | None = typer.Option(
        None,
        help="Limits, e.g. judge_calls=5000,seconds=3600,cost=20. Calls and cost count over all runs of "
        "the journal, seconds over this run. A stopped run can be resumed.",
    ),
    journal: Path | None = typer.Option(None, help="Folder of rows and answers. Default: OUT/journal."),
    editor_name: str | None = typer.Option(None, help="Editor name in tables. Default: name of the outputs folder."),
    allow_partial: bool | None = typer.Option(
        None,
        "--allow-partial/--no-allow-partial",
        help="Write results even if the run ends early; they are marked as partial. Default: no.",
    ),
    estimate: int = typer.Option(
        0,
        min=0,
        help="Score so many cases only, spread over the suite, and print what the others would take: queries, "
        "tokens, cost, hours. The run then asks nothing about them again.",
    ),
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Score an editor's outputs of a suite: rows, tables with intervals, and their provenance.

    `bench run all` reads DATA/SUITE and OUTPUTS/SUITE and writes OUT/SUITE, for every installed suite that is there;
    DATA is `data` by default. A query that several suites have is asked once, and the budget is one for all.

    Running the same command again resumes: answers are cached, and failed queries are retried. The settings as used
    are written to OUT/run.toml. Under `torchrun` or `accelerate launch` the processes of one machine share the work
    and write byte-identical results. Exit code 1 if scores failed, outputs are missing, the run ended early,
    or no metric has a value.

    To repeat a run: --config OUT/run.toml. For equal bits with local models: --reproducible. To check a result: `bench
    verify`.

    Example: editcritic bench run sceneedit --outputs made/tiny -o results/tiny
    """
    from ...benchmarks.run.protocol_lock import check_protocol, read_protocol, write_protocol
    from ...benchmarks.run.run_budget import BudgetLimits
    from ...benchmarks.run.run_config import RunConfig
    from ...benchmarks.run.run_journal import ProcessRank
    from ...benchmarks.run.run_settings import SETTINGS_FILE, RunSettings, read_run_settings, write_run_settings
    from ...benchmarks.run.runner import check_folders
    from ...benchmarks.run.suite_loading import ALL_SUITES, default_data

    options = {
        "suite": suite,
        "data": data,
        "outputs": outputs,
        "out": out,
        "lock": lock,
        "experts": tuple(experts) if experts else None,
        "protocol": protocol,
        "metrics": tuple(metric) if metric else None,
        "reproducible": reproducible,
        "budget": None if budget is None else asdict(BudgetLimits.parse(budget)),
        "journal": journal,
        "editor_name": editor_name,
        "allow_partial": allow_partial,
    }
    typed = {name: value for name, value in options.items() if value is not None}
    settings = (RunSettings() if config is None else read_run_settings(config, typed)).overridden(typed)
    single = None if settings.lock is not None or settings.suite == ALL_SUITES else settings.suite
    if settings.data is None and single is not None and (folder := default_data(single)):
        settings = settings.overridden({"data": folder})  # recorded: `bench report` may run in another folder
    process = ProcessRank.from_environment(os.environ)
    process.assign_gpu(os.environ)
    if suites and settings.suite != ALL_SUITES:
        raise InputError("--suite chooses among all suites: give it with `bench run all`")
    if write_lock is not None and settings.suite == ALL_SUITES:
        raise InputError("a lock is of one suite: give --write-lock with a suite instead of `all`")
    only_lock = write_lock is not None and settings.outputs is None and settings.out is None
    if not only_lock and (settings.outputs is None or settings.out is None):
        lacking = [f"--{name}" for name in ("outputs", "out") if getattr(settings, name) is None]
        raise InputError(
            f"{' and '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} missing: give the folder of the editor's "
            "images to --outputs and that of the results to --out, as options or in the --config file"
        )
    if estimate and (settings.suite == ALL_SUITES or settings.ray is not None or process.world_size > 1 or only_lock):
        raise InputError("--estimate is for one suite in one process, without Ray, and needs --outputs and --out")
    if settings.suite == ALL_SUITES:
        return run_all(settings, suites or (), process, as_json=as_json)
    if settings.lock is not None:
        locked, settings = read_protocol(settings.lock, settings)
        built = RunConfig.build(settings)
        for difference in check_protocol(locked, built, str(settings.lock)):
            echo(f"editcritic: differs from the lock: {difference}")
    elif settings.suite is None:
        raise InputError("give a SUITE, as in edival, a locked protocol with --lock, or a --config file that names one")
    else:
        built = RunConfig.build(settings)
    if write_lock is not None and not process.rank:
        if settings.lock is not None:
            raise InputError(f"give --write-lock or --lock: a run under {settings.lock} has that lock already")
        metrics = list(built.metric_set.metrics)
        write_protocol(write_lock, built)
        if only_lock and as_json:
            skipped = dict(built.metric_set.skipped)
            print_json({"file": str(write_lock), "metrics": metrics, "skipped_metrics": skipped})
        else:
            if only_lock:
                print_skipped(built)
            echo(f"editcritic: {', '.join(metrics)} of {built.suite.name} are locked in {write_lock}")
    if settings.out is None:
        return 0
    if not process.rank:
        print_built(built)
        check_folders(built)
        if not (settings.out / SETTINGS_FILE).exists():  # now, in case that the run is killed
            write_run_settings(settings, settings.out)
    if estimate:
        return _estimate(built, estimate, as_json=as_json)
    result, interrupted = execute_with_progress(built, process)
    written_by_user = config is not None and config.resolve() == (settings.out / SETTINGS_FILE).resolve()
    if not process.rank and (typed or not written_by_user):
        write_run_settings(settings, settings.out)
    if interrupted:
        return 130
    return 0 if result is None else print_run(result, built, as_json=as_json)


def execute_with_progress(
    built: RunConfig, process: ProcessRank | None = None, name: str = "", shared: SharedSpending | None = None
) -> tuple[RunResult | None, bool]:
    """The result, which only the first process has, and whether the user interrupted the run. name: of the suite, where
    several are scored."""
    from ...benchmarks.run.ray_runner import execute_with_ray
    from ...benchmarks.run.run_budget import progress_reporter
    from ...benchmarks.run.run_journal import SINGLE_PROCESS
    from ...benchmarks.run.runner import execute
    from ...benchmarks.run.scoring_run import forward_warnings

    settings, process = built.settings, process or SINGLE_PROCESS
    label = f"scoring {name}".rstrip()
    with forward_warnings(echo), progress_reporter(label, shown=not process.rank) as watch:
        try:
            if settings.ray is not None:
                return execute_with_ray(settings, watch), False
            return execute(built, process=process, shared=shared, on_progress=watch), False
        except KeyboardInterrupt:
            tell_interrupted(
                f"editcritic: interrupted; finished rows are in {settings.journal_folder}: run the same command again "
                "to resume"
            )
            return None, True


def _estimate(built: RunConfig, cases: int, *, as_json: bool) -> int:
    """Score some cases, and print what the others would take. Returns the exit code."""
    from ...benchmarks.run.case_estimate import estimate_cases
    from ...benchmarks.run.cost_estimate import SCHEMA, estimate_json, estimate_table, unknown_cost
    from ...benchmarks.run.run_budget import progress_reporter
    from ...benchmarks.run.scoring_run import forward_warnings

    journal = built.settings.journal_folder
    assert journal is not None
    with forward_warnings(echo), progress_reporter("measuring") as watch:
        try:
            found = estimate_cases(built, journal, cases, watch)
        except KeyboardInterrupt:
            tell_interrupted(f"editcritic: interrupted; finished rows are in {journal}")
            return 130
    if found is None or not found.remaining:
        if as_json:
            print_json({"schema": SCHEMA, "edits": 0, "figures": []})
        echo("editcritic: every case is scored: nothing is left to estimate")
        return 0
    exceeded = found.exceeded(built.settings.limits)
    if as_json:
        document = estimate_json(found.costs, found.figures, found.remaining)
        spent, stop_reason = found.spent.to_json(), found.stop_reason
        print_json({**document, "spent": spent, "exceeded": exceeded, "stop_reason": stop_reason})
    else:
        render(estimate_table(f"the other {found.remaining:,} cases", found.costs, found.figures))
        for name in found.costs.unpriced:
            echo(f"editcritic: {unknown_cost(name)}")
        for message in exceeded:
            echo(f"editcritic: the budget ends this run early: {message}")
        if found.stop_reason:
            echo(f"editcritic: measuring ended early: {found.stop_reason}")
        echo("editcritic: the same command without --estimate scores them")
    return int(bool(exceeded or found.stop_reason or found.failed))


def print_built(built: RunConfig) -> None:
    """Print what a user should know of a run before it starts."""
    from ...benchmarks.suites.suite import protocol_text

    print_problems(built.suite)
    print_skipped(built)
    text = protocol_text(built.suite.name, built.suite.protocols)
    if built.settings.protocol is None and text:
        echo(f"editcritic: {text}")


def print_problems(suite: Suite) -> None:
    """Print the first problems with the data of a suite."""
    from ...benchmarks.common.problems import num_problems

    echo_first(suite.problems, _PROBLEMS, "other problems with the data", num_problems(suite.problems))


def print_skipped(built: RunConfig) -> None:
    """Print the metrics that the run leaves out."""
    for metric, reason in built.metric_set.skipped.items():
        echo(f"editcritic: {metric} is left out: {reason}")


def print_run(result: RunResult, built: RunConfig, *, as_json: bool) -> int:
    """Print the tables of a run and what is missing. Returns the exit code."""
    from ...benchmarks.run.editor_outputs import UnnamedOutputs, layout_text
    from ...benchmarks.run.result_files import status_counts

    counts = status_counts(result.results)
    unnamed = UnnamedOutputs.of(built.suite, built.outputs) if result.missing else UnnamedOutputs(0, ())
    if as_json:
        summary: dict[str, Any] = {
            "exit_code": result.exit_code,
            "out": str(built.settings.out),
            "stop_reason": result.stop_reason,
            "counts": counts,
            "without_value": dict(result.without_value),
            "unnamed_outputs": {"count": unnamed.count, "first": list(unnamed.first)},
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
        some = f"{result.missing} of {counts['items']} items have no score"
        echo(f"editcritic: {some}, e.g. {first.id}: {first.missing_reason}")
        if result.missing == counts["items"]:
            echo(f"editcritic: {layout_text(built.suite, built.outputs)}")
        elif unnamed.count:
            echo(f"editcritic: {unnamed}")
    for metric, reason in result.without_value.items():
        echo(f"editcritic: {metric} has no value, it abstained from every edit: {reason}")
    if result.failed:
        scores = ((row.id, score) for row in result.results.rows for score in row.scores.values())
        name, failed = next((name, score) for name, score in scores if score.status == "failed")
        echo(f"editcritic: {result.failed} items have failed scores, e.g. {name}: {failed.reason:.400}")
        echo("editcritic: run the same command again to retry them")
    if result.tables:
        echo(f"editcritic: the results are in {built.settings.out}", stderr=False)
    return result.exit_code


_MAX_REASON = 160

_OF_ONE_SUITE = ("lock", "metrics", "journal", "ray")  # settings that a run of all suites has no use for


def run_all(settings: RunSettings, texts: Sequence[str], process: ProcessRank, *, as_json: bool) -> int:
    """Score the suites one after another; what is wrong with one does not stop the others. Returns the exit code."""
    from ...benchmarks.run.runner import SharedSpending
    from ...benchmarks.run.suite_loading import find_suites
    from ...reward import default_experts, load_experts

    if given := [name for name in _OF_ONE_SUITE if getattr(settings, name)]:
        raise InputError(f"{', '.join(given)}: `bench run all` takes what holds for every suite; run a suite by itself")
    if process.world_size > 1:
        raise InputError("`bench run all` is one process: use several for `bench run SUITE`")
    outputs, out = settings.outputs, settings.out
    assert outputs is not None
    assert out is not None
    suites = find_suites(texts, settings.data or Path("data"), outputs, out)
    settings = settings.overridden({"editor_name": settings.editor})
    experts = load_experts(settings.experts, default_experts())
    out.mkdir(parents=True, exist_ok=True)
    shared = SharedSpending(out)
    outcomes: list[dict[str, Any]] = []
    for suite in suites:
        outcome = _scored(suite, settings, experts, shared, shown=not as_json)
        if outcome is None:
            return 130
        outcomes.append(outcome)
    was_run = [one for one in outcomes if one["items"] is not None]
    code = max(one["exit_code"] for one in outcomes) if was_run else 2
    if as_json:
        print_json({"exit_code": code, "out": str(out), "suites": outcomes})
        return code
    numbers = ("items", "failed", "missing")
    fixed, rows = ("suite", "state", *numbers), []
    for one in outcomes:
        reason = one["reason"]  # the whole one of a run that ended early stands above, with its tables
        reason = reason if len(reason) <= _MAX_REASON else f"{reason[: _MAX_REASON - 1]}…"
        counts = ("" if one[name] is None else str(one[name]) for name in numbers)
        rows.append((one["name"], one["state"], *counts, reason))
    render(rows_table("", (*fixed, "reason"), rows, right=numbers, fixed=fixed))
    echo(f"editcritic: {len(was_run)} of {len(outcomes)} suites were run; their results are in {out}", stderr=False)
    return code


def _scored(
    suite: SuiteFolders, settings: RunSettings, experts: Mapping[str, Expert], shared: SharedSpending, *, shown: bool
) -> dict[str, Any] | None:
    """The outcome of a suite, as JSON; None if the user interrupted it. What was asked for by name is no success if it
    is left out."""
    from ...benchmarks.run.suite_loading import LeftOut

    try:
        result = _run_suite(suite, settings, experts, shared, shown=shown)
        if result is None:
            return None
        state = "incomplete" if result.exit_code else "complete"
        counts = (len(result.results.rows), result.failed, result.missing)
        return _outcome(suite, state, result.stop_reason, result.exit_code, counts)
    except LeftOut as error:  # its data or its outputs are not there
        return _outcome(suite, "left out", str(error), 2 if suite.named else 0)
    except BrokenPipeError:  # the reader of our output has closed it
        raise
    except user_errors() as error:
        reason = user_error_text(error)
    except Exception as error:  # noqa: BLE001  # an error of a suite, which may be anybody's: the others are scored
        echo("".join(traceback.format_exception(error)))
        reason = f"{type(error).__name__}: {error}"
    echo(f"editcritic: {suite.name}: {reason}")
    return _outcome(suite, "not run", reason, 2)


def _outcome(
    suite: SuiteFolders, state: str, reason: str, code: int, counts: Sequence[int | None] = (None, None, None)
) -> dict[str, Any]:
    """exit_code: as of `bench run`. items, failed, missing: null if it was not scored."""
    paths = {"data": suite.data, "outputs": suite.outputs, "out": suite.out}
    return {
        "name": suite.name,
        "suite": suite.spec,
        **{name: None if path is None else str(path) for name, path in paths.items()},
        "state": state,
        "reason": reason,
        "exit_code": code,
        **dict(zip(("items", "failed", "missing"), counts, strict=True)),
    }


def _run_suite(
    suite: SuiteFolders, settings: RunSettings, experts: Mapping[str, Expert], shared: SharedSpending, *, shown: bool
) -> RunResult | None:
    """Raises `LeftOut` for a suite that is not there, and what `bench run` raises."""
    from ...benchmarks.run.run_config import RunConfig
    from ...benchmarks.run.run_settings import write_run_settings
    from ...benchmarks.run.runner import check_folders
    from ...benchmarks.run.suite_loading import LeftOut
    from ...reward.regular_files import require_no_link

    loaded = suite.load()
    if settings.protocol is not None:
        try:
            loaded.metrics(settings.protocol)
        except InputError as error:
            raise LeftOut(str(error)) from None
    own = settings.overridden({"suite": suite.spec, "data": suite.data, "outputs": suite.outputs, "out": suite.out})
    built = RunConfig.build(own, experts, loaded)
    echo(f"editcritic: {suite.name}: {len(built.suite.items)} items, outputs in {suite.outputs}")
    print_built(built)
    require_no_link(suite.out)  # named by the suite, and not by the user
    check_folders(built)
    write_run_settings(own, suite.out)
    result, interrupted = execute_with_progress(built, name=suite.name, shared=shared)
    if interrupted:
        return None
    assert result is not None  # this process is the only one
    if shown:
        print_run(result, built, as_json=False)
    return result
