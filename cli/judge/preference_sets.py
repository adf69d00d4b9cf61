"""`editcritic judge agreement --set`: rewards compared with people on public preference sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ...benchmarks.common.terminal import echo, print_json, progress_bar

if TYPE_CHECKING:
    from ...benchmarks.suites.human_preferences.catalogue import PreferenceSet
    from ...benchmarks.suites.human_preferences.comparison import Comparison
from ...benchmarks.suites.rows import DataProblem

_PROBLEMS_SHOWN = 5


@dataclass(frozen=True)
class PreferenceSettings:
    """The options of `judge agreement --set`, as they were given."""

    sets: Sequence[str]
    rewards: Sequence[str]
    experts: Sequence[str] | None
    cache: Path | None
    download: bool
    num_items: int | None
    group_by: Sequence[str] | None
    max_in_flight: int
    max_failure_rate: float
    on_failures: str
    out: Path | None
    bootstrap_samples: int
    as_json: bool


def compare_on_sets(settings: PreferenceSettings) -> int:
    """Score every set with every reward, and print the tables. 0 done, 1 scores failed, 2 rows were invalid."""
    from ...benchmarks.human_eval.preference_scoring import load_rewards, score_comparisons
    from ...benchmarks.human_eval.preference_tables import SetReport, preference_tables, write_reports
    from ...benchmarks.human_eval.table_output import compute_tables
    from ...benchmarks.run.scoring_run import forward_warnings
    from ...reward import AnswerLog, Engine, TooManyFailures

    chosen = [_locate(text, settings.download) for text in settings.sets]
    if settings.out is not None:
        settings.out.mkdir(parents=True, exist_ok=True)  # fail before scoring, not after it
    reports: list[SetReport] = []
    stop_reason = ""
    with ExitStack() as stack:
        log = None if settings.cache is None else stack.enter_context(AnswerLog(settings.cache))
        engine = stack.enter_context(Engine(window=settings.max_in_flight, log=log))
        rewards = load_rewards(
            settings.rewards,
            settings.experts,
            engine,
            max_failure_rate=settings.max_failure_rate,
            on_failures=settings.on_failures,
        )
        names = [reward.name for reward in rewards]
        signatures = {reward.name: reward.reward.known_signature for reward in rewards}
        for preference_set, folder in chosen:
            with progress_bar(None, preference_set.name) as (step, tell), forward_warnings(tell):
                rows: Iterator[Comparison | DataProblem] = preference_set.read(folder)
                try:
                    scored = score_comparisons(
                        rows if settings.num_items is None else islice(rows, settings.num_items),
                        rewards,
                        index=None if log is None else log.files,
                        on_comparison=step,
                    )
                except TooManyFailures as error:
                    stop_reason = f"{preference_set.name}: {error}"
                    break
                except KeyboardInterrupt:
                    stack.pop_all()  # the engine's thread may use the log until the process ends
                    raise
            for problem in scored.problems[:_PROBLEMS_SHOWN]:
                echo(f"editcritic: {preference_set.name}: {problem}")
            if (total := scored.problems.total) > _PROBLEMS_SHOWN:
                echo(f"editcritic: {preference_set.name}: and {total - _PROBLEMS_SHOWN} other rows")
            tables = compute_tables(
                preference_tables(preference_set, scored, names, settings.group_by), settings.bootstrap_samples
            )
            reports.append(SetReport(preference_set, folder, scored, tables))
    code = 1 if stop_reason or any(report.failed for report in reports) else 0
    if any(report.scored.problems for report in reports):
        code = 2
    if settings.out is not None and reports:
        write_reports(reports, signatures, settings.out)
    if settings.as_json:
        print_json(
            {
                "schema": 1,
                "exit_code": code,
                "stop_reason": stop_reason,
                "rewards": [
                    {"name": one.name, "signature": signatures[one.name], "reward": one.reward.spec} for one in rewards
                ],
                "sets": [report.to_json() for report in reports],
            }
        )
        return code
    for report in reports:
        echo(report.markdown(), stderr=False)
    if settings.out is not None and reports:
        echo(f"written to {settings.out}", stderr=False)
    if stop_reason:
        echo(f"editcritic: stopped: {stop_reason}; with --cache, the same command asks nothing again")
    return code


def _locate(text: str, download: bool) -> tuple[PreferenceSet, Path]:
    """A set and its folder, from NAME=FOLDER or NAME. Raises `InputError`."""
    from ...benchmarks.common.errors import InputError
    from ...benchmarks.suites.construction.download import cached_snapshot
    from ...benchmarks.suites.human_preferences.catalogue import PREFERENCE_SETS

    name, equals, folder = text.partition("=")
    if name not in PREFERENCE_SETS:
        raise InputError(f"--set is NAME=FOLDER or NAME, with a name of {', '.join(PREFERENCE_SETS)}; got {text!r}")
    preference_set = PREFERENCE_SETS[name]
    if equals:
        if not folder or not Path(folder).exists():
            raise InputError(
                f"--set {name}: {folder or 'no folder'} does not exist: give the folder of {preference_set.title}"
            )
        return preference_set, Path(folder)
    if not preference_set.hub:
        raise InputError(f"--set {name}: its edits are not on the hub: give the folder, as in {name}=data/{name}")
    return preference_set, cached_snapshot(preference_set.hub, preference_set.patterns, download=download)
