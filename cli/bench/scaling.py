"""`editcritic bench scaling`: direct, sequential and best-of-N editing compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...benchmarks.common.defaults import BOOTSTRAP_SAMPLES
from ...benchmarks.common.terminal import exit_code_command
from ..options import BootstrapSamples, Json, Seed


@exit_code_command
def scaling(
    direct: Annotated[
        Path | None, typer.Option("--direct", help="Results of direct editing (compound instruction in one step).")
    ] = None,
    sequential: Annotated[
        Path | None, typer.Option("--sequential", help="Results of sequential editing (one operation per step).")
    ] = None,
    direct_best_of_n: Annotated[
        Path | None, typer.Option("--direct-best-of-n", help="Results of direct editing with best-of-N.")
    ] = None,
    sequential_best_of_n: Annotated[
        Path | None,
        typer.Option("--sequential-best-of-n", help="Results of sequential editing with best-of-N per step."),
    ] = None,
    multi_turn: Annotated[
        list[Path] | None,
        typer.Option("--multi-turn", help="EdiVal results in multi-turn mode, one folder per editor. Repeatable."),
    ] = None,
    single_pass: Annotated[
        list[Path] | None,
        typer.Option("--single-pass", help="EdiVal results in single-pass mode, same editors. Repeatable."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", help="Only this score; parts after a /. With --multi-turn: default if."),
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Plot the curves to this file (PNG, SVG or PDF).")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Output folder for the tables.")] = None,
    bootstrap_samples: BootstrapSamples = BOOTSTRAP_SAMPLES,
    seed: Seed = 0,
    as_json: Json = False,
) -> int:
    """Compare direct, sequential and best-of-N editing, or multi-turn and single-pass editing."""
    from ...benchmarks.common.errors import InputError
    from ...benchmarks.human_eval.scaling_tables import multi_turn_table, scaling_tables
    from ...benchmarks.human_eval.table_output import compute_tables, report_tables
    from ...benchmarks.suites.results import load_results

    folders = {
        "direct": direct,
        "sequential": sequential,
        "direct best": direct_best_of_n,
        "sequential best": sequential_best_of_n,
    }
    strategies = {name: load_results(folder) for name, folder in folders.items() if folder is not None}
    if bool(strategies) == bool(multi_turn or single_pass):
        option_names = "--direct, --sequential, --direct-best-of-n, --sequential-best-of-n"
        raise InputError(f"give two or more of {option_names}; or --multi-turn and --single-pass")
    if strategies:
        tables = scaling_tables(strategies, [tuple(name.split("/")) for name in metric or ()])
    else:
        multi, single = ([load_results(folder) for folder in side or ()] for side in (multi_turn, single_pass))
        single_by_editor = {results.editor: results for results in single}
        if {results.editor for results in multi} != set(single_by_editor) and not len(multi) == len(single) == 1:
            raise InputError("--multi-turn and --single-pass need the same editors, one folder each")
        tables = [
            multi_turn_table(results, single_by_editor.get(results.editor, single[0]), *(metric or ())[:1])
            for results in multi
        ]
    computed = compute_tables(tables, bootstrap_samples, seed)
    if plot is not None:
        from ...benchmarks.human_eval.scaling_plot import draw

        draw(plot, computed if strategies else [], list(strategies))
    report_tables(computed, {}, out, as_json, plot=None if plot is None else str(plot))
    return 0
