"""`editcritic bench compare`: two results of one suite, or strategies of editing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ...benchmarks.common.defaults import BOOTSTRAP_SAMPLES
from ...benchmarks.common.errors import InputError
from ...benchmarks.common.terminal import echo, exit_code_command, print_json, progress_bar, render
from ..options import BootstrapSamples, By, Data, Json, SuiteSpec, Trust

if TYPE_CHECKING:
    from ...benchmarks.suites.results import Results
    from ...benchmarks.suites.suite import Suite
    from ...benchmarks.suites.tables import Table

_BY_LEVEL = {
    "direct": "direct",
    "sequential": "sequential",
    "direct-best": "direct best",
    "sequential-best": "sequential best",
}
"""Names on the command line -> names in the tables."""
_BY_TURN = ("multi-turn", "single-pass")


@exit_code_command
def compare(
    results: list[Path] | None = typer.Argument(
        None, metavar="A B", help="Two result folders of one suite; or use --strategy."
    ),
    strategy: list[str] | None = typer.Option(
        None,
        help="STRATEGY=RESULTS, instead of A and B. Repeatable. Two or more of direct, sequential, direct-best "
        "and sequential-best (best-of-N, per step) are compared by level of complexity; or multi-turn and "
        "single-pass by turn (EdiVal, one folder per editor each).",
    ),
    metric: list[str] | None = typer.Option(
        None,
        help="With --strategy: only this score, or a part of it as SCORE/PART. Default: all; by turn `if` "
        "(instruction following).",
    ),
    plot: Path | None = typer.Option(None, help="With --strategy, by level: plot the curves (PNG, SVG or PDF)."),
    out: Path | None = typer.Option(
        None, "-o", "--out", help="With --strategy: output folder for the tables (Markdown, CSV and LaTeX)."
    ),
    max_items: int = typer.Option(10, min=0, help="Maximum number of items of A and B listed per metric."),
    threshold: float = typer.Option(0.5, help="Decision threshold of A and B for metrics in [0, 1]."),
    by: By = None,
    settings: bool = typer.Option(
        False, "--settings", help="List all differing settings of A and B, also those that follow from others."
    ),
    bootstrap_samples: BootstrapSamples = BOOTSTRAP_SAMPLES,
    data: Data = None,
    suite: SuiteSpec = None,
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Compare two results of a suite, of two editors or of two runs of one editor.

    Prints differing settings, changed items, and for each metric the mean difference with its 95 % bootstrap interval.
    For more than two editors: `bench report`. With --strategy, compare strategies of editing: direct, sequential and
    best-of-N, or multi-turn and single-pass.

    Example: editcritic bench compare results/tiny results/other
    """
    from ...benchmarks.report.comparison import compare_results, render_comparison, render_settings
    from ...benchmarks.suites.setting_differences import differing_settings

    if strategy:
        if results or data is not None or suite is not None or settings or by:
            raise InputError("give either A and B, or --strategy; --data, --suite, --settings and --by are for A and B")
        return _compare_strategies(strategy, metric or (), plot, out, bootstrap_samples, as_json)
    if metric or plot is not None or out is not None:
        raise InputError("--metric, --plot and -o are for --strategy: A and B are compared in all metrics")
    if results is None or len(results) != 2:
        raise InputError(f"give two result folders A and B, or --strategy; got {len(results or ())} folders")
    first, second, known = _load_pair(results, data, suite)
    if settings and not as_json and not {row.id for row in first.rows} & {row.id for row in second.rows}:
        render(render_settings(differing_settings(first.provenance, second.provenance, known)))
    with progress_bar(None, "bootstrap"):
        comparison = compare_results(
            first, second, suite=known, threshold=threshold, count=bootstrap_samples, by=by or ()
        )
    if as_json:
        print_json(comparison.to_json(max_items))
    else:
        render(render_comparison(comparison, max_items, all_settings=settings))
    return 0


def _load_pair(paths: Sequence[Path], data: Path | None, suite: str | None) -> tuple[Results, Results, Suite | None]:
    """Two results, and their suite if it can be loaded."""
    from ...benchmarks.report.results_loading import load_result_folders, load_suite_of
    from ...reward import SpecError

    folders = load_result_folders(paths)
    if len(folders) != 2:
        inside = " and ".join(map(str, paths))
        raise InputError(f"expected two folders of results, got {len(folders)} inside of {inside}")
    first, second = (each.results for each in folders)
    try:
        return first, second, load_suite_of(folders, data, suite)
    except (InputError, SpecError) as error:
        if data is not None or suite is not None:
            raise
        echo(f"editcritic: compared without the suite's tables: {error}")
        return first, second, None


def _compare_strategies(
    texts: Sequence[str], metrics: Sequence[str], plot: Path | None, out: Path | None, samples: int, as_json: bool
) -> int:
    from ...benchmarks.human_eval.agreement_tables import compute_tables, report_tables
    from ...benchmarks.human_eval.scaling_tables import scaling_tables
    from ...benchmarks.suites.results import load_results

    folders = _folders_by_strategy(texts)
    by_level = not folders.keys() & set(_BY_TURN)
    tables: list[Table]
    if by_level:
        if twice := [name for name, each in folders.items() if len(each) > 1]:
            raise InputError(f"--strategy names {twice[0]} twice: give one folder for it")
        strategies = {_BY_LEVEL[name]: load_results(each[0]) for name, each in folders.items()}
        tables = scaling_tables(strategies, [tuple(name.split("/")) for name in metrics])
    else:
        tables = _turn_tables(folders, metrics)
    with progress_bar(None, "bootstrap"):
        computed = compute_tables(tables, samples)
    if plot is not None:
        from ...benchmarks.human_eval.scaling_tables import draw

        draw(plot, computed if by_level else [], [_BY_LEVEL[name] for name in folders if by_level])
    report_tables(computed, {}, out, as_json, plot=None if plot is None else str(plot))
    return 0


def _folders_by_strategy(texts: Sequence[str]) -> dict[str, list[Path]]:
    known = (*_BY_LEVEL, *_BY_TURN)
    folders: dict[str, list[Path]] = {}
    for text in texts:
        name, _, folder = text.partition("=")
        if name not in known or not folder:
            raise InputError(f"--strategy is STRATEGY=RESULTS with one of {', '.join(known)}, got {text!r}")
        folders.setdefault(name, []).append(Path(folder))
    levels, turns = folders.keys() & set(_BY_LEVEL), folders.keys() & set(_BY_TURN)
    if turns and (levels or len(turns) == 1):
        raise InputError(
            f"--strategy: give multi-turn and single-pass, and no other strategy; got {', '.join(folders)}"
        )
    return {name: folders[name] for name in known if name in folders}


def _turn_tables(folders: Mapping[str, Sequence[Path]], metrics: Sequence[str]) -> list[Table]:
    from ...benchmarks.human_eval.scaling_tables import multi_turn_table
    from ...benchmarks.suites.results import load_results

    multi, single = ([load_results(folder) for folder in folders[side]] for side in _BY_TURN)
    single_by_editor = {results.editor: results for results in single}
    if {results.editor for results in multi} != set(single_by_editor) and not len(multi) == len(single) == 1:
        raise InputError("multi-turn and single-pass need the same editors, one folder each")
    return [
        multi_turn_table(results, single_by_editor.get(results.editor, single[0]), *metrics[:1]) for results in multi
    ]
