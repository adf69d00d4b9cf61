"""`editcritic bench compare`: two results of one suite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...benchmarks.common.defaults import BOOTSTRAP_SAMPLES
from ...benchmarks.common.terminal import echo, exit_code_command, print_json, render
from ..options import BootstrapSamples, Data, Json, SuiteSpec

if TYPE_CHECKING:
    from ...benchmarks.suites.suite import Suite


@exit_code_command
def compare(
    folder_a: Annotated[Path, typer.Argument(metavar="A", help="A result folder.")],
    folder_b: Annotated[Path, typer.Argument(metavar="B", help="A result folder of the same suite.")],
    max_items: Annotated[
        int, typer.Option("--max-items", min=0, help="Maximum number of items listed per metric.")
    ] = 10,
    threshold: Annotated[float, typer.Option("--threshold", help="Decision threshold for metrics in [0, 1].")] = 0.5,
    bootstrap_samples: BootstrapSamples = BOOTSTRAP_SAMPLES,
    data: Data = None,
    suite: SuiteSpec = None,
    as_json: Json = False,
) -> int:
    """Compare two results of a suite: differences in provenance, changed items, and significance."""
    from ...benchmarks.common.errors import InputError
    from ...benchmarks.report.comparison import compare_results, render_comparison
    from ...benchmarks.report.results_loading import load_result_folders, load_suite_of
    from ...reward import SpecError

    folders = load_result_folders([folder_a, folder_b])
    if len(folders) != 2:
        raise InputError(f"expected two folders of results, got {len(folders)} inside of {folder_a} and {folder_b}")
    known_suite: Suite | None
    try:
        known_suite = load_suite_of(folders, data, suite)
    except (InputError, SpecError) as error:
        if data is not None or suite is not None:
            raise
        known_suite = None
        echo(f"editcritic: compared without the suite's tables: {error}")
    comparison = compare_results(
        *(each.results for each in folders), suite=known_suite, threshold=threshold, count=bootstrap_samples
    )
    if as_json:
        print_json(comparison.to_json(max_items))
    else:
        render(render_comparison(comparison, max_items))
    return 0
