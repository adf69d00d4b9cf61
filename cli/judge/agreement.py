"""`editcritic judge agreement`: metrics compared with people, or with results of other experts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ...benchmarks.common.defaults import BOOTSTRAP_SAMPLES
from ...benchmarks.common.errors import InputError
from ...benchmarks.common.terminal import echo, echo_first, exit_code_command, print_json, progress_bar
from ..options import DEFAULT_REWARD, AnswerCache, BootstrapSamples, Download, Experts, Json, Trust

if TYPE_CHECKING:
    from ...benchmarks.human_eval.label_matching import LabelMetric
    from ...benchmarks.suites.human_preferences.catalogue import PreferenceSet
    from ...benchmarks.suites.human_preferences.comparison import Comparison
    from ...benchmarks.suites.results import Results
    from ...benchmarks.suites.rows import DataProblem
    from ..command_settings import AgreementSettings


@exit_code_command
def agreement(
    results: list[Path] | None = typer.Argument(
        None, metavar="[RESULTS...]", help="Result folders of one suite, or folders that contain them. None with --set."
    ),
    labels: list[Path] | None = typer.Option(
        None, help="File of human labels (JSONL, written by `judge label`). Repeatable."
    ),
    gold_labels: Path | None = typer.Option(
        None,
        help="Labels with known answers, as of `judge label --check`: a dimension of which more than a tenth of an "
        "annotator's labels differ is void.",
    ),
    swap_results: list[Path] | None = typer.Option(
        None, help="Results of the same outputs scored with other experts, one folder per editor. Repeatable."
    ),
    sets: list[str] | None = typer.Option(
        None,
        "--set",
        help="NAME=FOLDER: a public set of human preferences (edit-reward-bench, edit-score-bench, genai-bench, "
        "imagenhub, vc-reward-bench, edit-reward-compass); NAME alone: from the hub's cache, or with --download "
        "from the hub. Repeatable.",
    ),
    reward: list[str] | None = typer.Option(
        None,
        help="With --set: a reward as in `score`, or pairwise-judge, which sees both edits. Repeatable: they are "
        "compared side by side. Default: any-edit.",
    ),
    experts: Experts = None,
    cache: AnswerCache = None,
    download: Download = False,
    num_items: int | None = typer.Option(None, min=1, help="With --set: only this many rows of it. Default: all."),
    metric: list[str] | None = typer.Option(
        None,
        help="DIMENSION=METRIC: the metric compared with a dimension of the labels, or a part of one, as "
        "in following=complex-edit-o/following. Default: the metric of the same name. With "
        "--swap-results: the metric.",
    ),
    group_by: list[str] | None = typer.Option(
        None,
        help="Item label to group by, or `editor`. Repeatable. Default: type (with --swap-results: turn, "
        "else type; with --set: those of the set, such as task or dimension).",
    ),
    out: Path | None = typer.Option(
        None,
        "-o",
        "--out",
        help="Output folder for the tables (Markdown, CSV and LaTeX); with --set also for all values.",
    ),
    config: Path | None = typer.Option(
        None,
        help="TOML file with metrics, ranges, thresholds, tie_margins, pool, min_raters, average_metrics, and limits: "
        "docs/labels.md. Options come first.",
    ),
    bootstrap_samples: BootstrapSamples = BOOTSTRAP_SAMPLES,
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Measure the agreement of metrics with human labels or results of other experts, or of rewards with public sets.

    With --set, every missing value counts as wrong. Exit code 1 if scores failed, as those of missing pictures; 2 if
    rows of a set are invalid. With --cache, an interrupted run asks nothing again.

    Example: editcritic judge agreement results/tiny --labels labels.jsonl

    Example: editcritic judge agreement --set genai-bench=data/genai --reward any-edit --reward clip-directional
    """
    from ...benchmarks.common.settings_files import read_settings
    from ...benchmarks.human_eval import agreement_tables, expert_swap
    from ...benchmarks.human_eval.agreement_tables import compute_tables, report_tables
    from ...benchmarks.human_eval.annotation_schedule import check_annotators, known_answers, without_void
    from ...benchmarks.human_eval.label_matching import ScoreLookup
    from ...benchmarks.suites.human_labels import read_labels
    from ...benchmarks.suites.results import load_results
    from ..command_settings import AgreementSettings

    settings = read_settings(AgreementSettings, config, {})
    if sets:
        _refuse(
            {
                "RESULTS": results,
                "--labels": labels,
                "--swap-results": swap_results,
                "--gold-labels": gold_labels,
                "--metric": metric,
                **settings.model_dump(include={"metrics", "ranges", "thresholds", "tie_margins", "average_metrics"}),
            },
            "and --set do not go together: --set reads what people say itself",
        )
        return compare_on_sets(
            [_locate(text, download) for text in sets],
            reward or [DEFAULT_REWARD],
            experts,
            cache=cache,
            num_items=num_items,
            group_by=group_by,
            settings=settings,
            out=out,
            bootstrap_samples=bootstrap_samples,
            as_json=as_json,
        )
    _refuse(
        {"--reward": reward, "--experts": experts, "--cache": cache, "--download": download, "--num-items": num_items},
        "is for --set: scores of results are computed by `bench run`",
    )
    if not results:
        raise InputError("give result folders with --labels or --swap-results, or --set for a public set")
    if bool(labels) == bool(swap_results):
        raise InputError("give either --labels (human labels) or --swap-results (results of other experts)")
    loaded = [load_results(folder) for folder in results]
    more: dict[str, object] = {}
    if swap_results:
        swap_measure = _swap_metric(metric, loaded, settings)
        tables = expert_swap.swap_tables(
            loaded,
            [load_results(folder) for folder in swap_results],
            swap_measure,
            group_by or _default_grouping(loaded),
        )
        descriptions = expert_swap.STATISTIC_DESCRIPTIONS
    else:
        lookup = ScoreLookup(loaded)
        label_list = read_labels(labels or ())
        gold = [label for label in label_list if label.phase == "answer"]
        checks = check_annotators(label_list, known_answers(read_labels([gold_labels]) if gold_labels else gold))
        more = {"checks": [check.to_json() for check in checks if check.error_rate is not None]}
        for check in checks:
            if check.needs_repeat or check.is_void:
                echo(f"editcritic: {check}")
        tables = agreement_tables.agreement_tables(
            without_void(label_list, checks),
            lookup,
            metrics=_label_metrics({**settings.metrics, **_parse_assignments(metric)}, settings),
            group_by=("type",) if group_by is None else group_by,
            pool=settings.pool,
            min_raters=settings.min_raters,
            average_metrics=[tuple(name.split("/")) for name in settings.average_metrics],
        )
        descriptions = agreement_tables.STATISTIC_DESCRIPTIONS
    with progress_bar(None, "bootstrap"):
        computed = compute_tables(tables, bootstrap_samples)
    report_tables(computed, descriptions, out, as_json, editors=[run.editor for run in loaded], **more)
    return 0


def _refuse(others: Mapping[str, object], reason: str) -> None:
    if given := [name for name, value in others.items() if value]:
        raise InputError(f"{', '.join(given)} {reason}")


def _parse_assignments(metric: Sequence[str] | None) -> dict[str, str]:
    assignments = {}
    for text in metric or ():
        dimension, equals, name = text.partition("=")
        if not (dimension and equals and name):
            raise InputError(f"--metric is DIMENSION=METRIC, got {text!r}")
        if dimension in assignments:
            raise InputError(f"--metric names {dimension} twice: a run compares it with one metric")
        assignments[dimension] = name
    return assignments


def _label_metrics(names: Mapping[str, str], settings: AgreementSettings) -> dict[str, LabelMetric]:
    from ...benchmarks.human_eval.label_matching import LabelMetric

    return {
        dimension: LabelMetric(
            tuple(names.get(dimension, dimension).split("/")),
            *settings.ranges.get(dimension, (0.0, 1.0)),
            settings.thresholds.get(dimension, 0.5),
            settings.tie_margins.get(dimension, 0.0),
        )
        for dimension in {**names, **settings.ranges, **settings.thresholds, **settings.tie_margins}
    }


def _swap_metric(metric: Sequence[str] | None, loaded: Sequence[Results], settings: AgreementSettings) -> LabelMetric:
    from ...benchmarks.human_eval.label_matching import ScoreLookup

    metric_names = ScoreLookup(loaded).metrics
    if metric is None and len(metric_names) == 1:
        metric = list(metric_names)
    if metric is None or len(metric) != 1:
        raise InputError(f"--swap-results takes one --metric: the results have {', '.join(metric_names) or 'none'}")
    (name,) = metric
    return _label_metrics({name: name}, settings)[name]


def _default_grouping(loaded: Sequence[Results]) -> list[str]:
    labelled = {label for results in loaded for row in results.rows for label in row.labels}
    return ["turn"] if "turn" in labelled else ["type"] if "type" in labelled else []


def compare_on_sets(
    sets: Sequence[tuple[PreferenceSet, Path]],
    texts: Sequence[str],
    experts: Sequence[str] | None,
    *,
    cache: Path | None,
    num_items: int | None,
    group_by: Sequence[str] | None,
    settings: AgreementSettings,
    out: Path | None,
    bootstrap_samples: int,
    as_json: bool,
) -> int:
    """Score every set with every reward, and print the tables. 0 done, 1 scores failed, 2 rows were invalid."""
    from ...benchmarks.human_eval.agreement_tables import compute_tables
    from ...benchmarks.human_eval.preference_scoring import load_rewards, score_comparisons
    from ...benchmarks.human_eval.preference_tables import SetReport, preference_tables, write_reports
    from ...benchmarks.run.scoring_run import forward_warnings
    from ...reward import AnswerLog, Engine, TooManyFailures

    if out is not None:
        out.mkdir(parents=True, exist_ok=True)  # fail before scoring, not after it
    reports: list[SetReport] = []
    stop_reason = ""
    with ExitStack() as stack:
        log = None if cache is None else stack.enter_context(AnswerLog(cache))
        engine = stack.enter_context(Engine(window=settings.max_in_flight, log=log))
        limits = settings.model_dump(include={"max_failure_rate", "on_failures"})
        rewards = load_rewards(texts, experts, engine, **limits)
        names = [reward.name for reward in rewards]
        signatures = {reward.name: reward.reward.known_signature for reward in rewards}
        for preference_set, folder in sets:
            with progress_bar(None, preference_set.name) as (step, tell), forward_warnings(tell):
                rows: Iterator[Comparison | DataProblem] = preference_set.read(folder)
                try:
                    scored = score_comparisons(
                        rows if num_items is None else islice(rows, num_items),
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
            echo_first(scored.problems, 5, "other rows", scored.problems.total, f"{preference_set.name}: ")
            tables = compute_tables(preference_tables(preference_set, scored, names, group_by), bootstrap_samples)
            reports.append(SetReport(preference_set, folder, scored, tables))
    code = 1 if stop_reason or any(report.failed for report in reports) else 0
    if any(report.scored.problems for report in reports):
        code = 2
    if out is not None and reports:
        write_reports(reports, signatures, out)
    if as_json:
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
    if out is not None and reports:
        echo(f"written to {out}", stderr=False)
    if stop_reason:
        echo(f"editcritic: stopped: {stop_reason}; with --cache, the same command asks nothing again")
    return code


def _locate(text: str, download: bool) -> tuple[PreferenceSet, Path]:
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
