"""`editcritic bench run all`: every suite of an editor whose data and outputs are there."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...benchmarks.common.terminal import echo, plain_table, print_json, render, user_error_text, user_errors

if TYPE_CHECKING:
    from ...benchmarks.run.all_suites import SuiteFolders, SuiteOutcome
    from ...benchmarks.run.run_journal import ProcessRank
    from ...benchmarks.run.run_settings import RunSettings
    from ...benchmarks.run.runner import SharedSpending
    from ...reward import Expert

_MAX_REASON = 160

_OF_ONE_SUITE = ("lock", "metrics", "journal", "ray")
"""Settings that a run of all suites has no use for."""


def run_all(settings: RunSettings, texts: Sequence[str], process: ProcessRank, *, as_json: bool) -> int:
    """Score the suites one after another; what is wrong with one does not stop the others. Returns the exit code."""
    from ...benchmarks.common.errors import InputError
    from ...benchmarks.run.all_suites import find_suites, joint_exit_code
    from ...benchmarks.run.runner import SharedSpending
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
    outcomes: list[SuiteOutcome] = []
    for suite in suites:
        outcome = _scored(suite, settings, experts, shared, shown=not as_json)
        if outcome is None:
            return 130
        outcomes.append(outcome)
    code = joint_exit_code(outcomes)
    if as_json:
        print_json({"exit_code": code, "out": str(out), "suites": [_to_json(one) for one in outcomes]})
        return code
    _print_summary(outcomes, out)
    return code


def _scored(
    suite: SuiteFolders,
    settings: RunSettings,
    experts: Mapping[str, Expert],
    shared: SharedSpending,
    *,
    shown: bool,
) -> SuiteOutcome | None:
    """The outcome of a suite; None if the user interrupted it."""
    from ...benchmarks.run.all_suites import LeftOut, not_scored

    try:
        return _run_suite(suite, settings, experts, shared, shown=shown)
    except LeftOut as error:
        return not_scored(suite, str(error), left_out=True)
    except BrokenPipeError:  # the reader of our output has closed it
        raise
    except user_errors() as error:
        outcome = not_scored(suite, user_error_text(error))
    except Exception as error:  # noqa: BLE001  # an error of a suite, which may be anybody's: the others are scored
        echo("".join(traceback.format_exception(error)))
        outcome = not_scored(suite, f"{type(error).__name__}: {error}")
    echo(f"editcritic: {suite.name}: {outcome.reason}")
    return outcome


def _run_suite(
    suite: SuiteFolders,
    settings: RunSettings,
    experts: Mapping[str, Expert],
    shared: SharedSpending,
    *,
    shown: bool,
) -> SuiteOutcome | None:
    """Raises `LeftOut` for a suite that is not there, and what `bench run` raises."""
    from ...benchmarks.common.errors import InputError
    from ...benchmarks.run.all_suites import LeftOut, SuiteOutcome
    from ...benchmarks.run.run_config import RunConfig
    from ...benchmarks.run.run_settings import write_run_settings
    from ...benchmarks.run.runner import check_folders
    from ...reward.regular_files import require_no_link
    from .run import execute_with_progress, print_built, print_run

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
    return SuiteOutcome(
        suite,
        "incomplete" if result.exit_code else "complete",
        result.stop_reason,
        result.exit_code,
        len(result.results.rows),
        result.failed,
        result.missing,
    )


def _to_json(outcome: SuiteOutcome) -> dict[str, Any]:
    folders = outcome.folders
    return {
        "name": folders.name,
        "suite": folders.spec,
        "data": None if folders.data is None else str(folders.data),
        "outputs": str(folders.outputs),
        "out": str(folders.out),
        "state": outcome.state,
        "reason": outcome.reason,
        "exit_code": outcome.exit_code,
        "items": outcome.items,
        "failed": outcome.failed,
        "missing": outcome.missing,
    }


def _print_summary(outcomes: Sequence[SuiteOutcome], out: Path) -> None:
    numbers = ("items", "failed", "missing")
    table = plain_table("", "suite", "state", *numbers, "reason", right=numbers, fixed=("suite", "state", *numbers))
    for outcome in outcomes:
        counts = (outcome.items, outcome.failed, outcome.missing)
        texts = ("" if count is None else str(count) for count in counts)
        table.add_row(outcome.folders.name, outcome.state, *texts, _shortened(outcome.reason))
    render(table)
    num_run = sum(outcome.items is not None for outcome in outcomes)
    echo(f"editcritic: {num_run} of {len(outcomes)} suites were run; their results are in {out}", stderr=False)


def _shortened(reason: str) -> str:
    """The whole reason of a run that ended early stands above, with its tables."""
    return reason if len(reason) <= _MAX_REASON else f"{reason[: _MAX_REASON - 1]}…"
