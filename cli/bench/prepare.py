"""`editcritic bench prepare`: the data of a suite, downloaded, checked, opened and counted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ...benchmarks.common.errors import InputError
from ...benchmarks.common.terminal import echo, echo_first, exit_code_command, print_json, progress_bar, render
from ..options import Json

if TYPE_CHECKING:
    from rich.table import Table

    from ...benchmarks.human_eval.suite_statistics import CountTable


@exit_code_command
def prepare(
    suite: str = typer.Argument(
        metavar="SUITE",
        help="edival, complex-edit, dlebench or gedit; with --stats any suite, as in `edival?mode=singlepass`.",
    ),
    out: Path | None = typer.Option(None, "-o", "--data", help="Data folder. Default: data/SUITE."),
    download: bool = typer.Option(False, "--download", help="Download missing files."),
    sources: Path | None = typer.Option(
        None, help="TOML file with alternative download locations (tables `file` with path and url)."
    ),
    check_csv: Path | None = typer.Option(
        None, help="EdiVal only: compare the counts of this instruction file with the published ones."
    ),
    stats: bool = typer.Option(
        False,
        "--stats",
        help="Print statistics of the data that is there: operations and their order, target areas, types, "
        "sources, luminance.",
    ),
    tables: Path | None = typer.Option(None, help="With --stats: write the tables into this folder (CSV)."),
    experts: list[str] | None = typer.Option(
        None,
        help="With --stats: a judge that names each instruction's target and a detector that finds it, for target "
        "areas of suites without boxes, as in `--experts small` or `--experts 'judge=SPEC detector=SPEC'`.",
    ),
    as_json: Json = False,
) -> int:
    """Describe and locate the data of a suite; download it on request; check and open it.

    Nothing is downloaded without --download. Exit code 1 if data is missing, if the suite finds problems in it, or if a
    count of --check-csv differs from that of the published file.

    Example: editcritic bench prepare edival -o data/edival --download
    """
    if not stats and (tables is not None or experts):
        option = "--experts" if tables is None else "--tables"
        raise InputError(f"{option} is for the statistics of a suite: give --stats")
    if check_csv is not None:
        if suite != "edival" or download or stats or out is not None or sources is not None:
            raise InputError("--check-csv compares an instruction file of edival: give no other option")
        return _check_instruction_file(check_csv, as_json)
    if stats:
        if download or sources is not None:
            raise InputError("--stats counts the data that is there: download it first, without --stats")
        return _print_statistics(suite, out, tables, experts or [], as_json)
    return _prepare(suite, out or Path("data") / suite, sources, download, as_json)


def _prepare(suite: str, data: Path, sources: Path | None, download: bool, as_json: bool) -> int:
    from ...benchmarks.run.data_preparation import download_lines, prepare_dataset
    from ...benchmarks.suites.construction.download import find_source
    from ...benchmarks.suites.suite import protocol_text

    dataset = prepare_dataset(find_source(suite, sources), data, download=download, tell=echo)
    problems = [f"{one.suite_spec}: {problem}" for one in dataset.opened_suites for problem in one.problems]
    code = int(not dataset.is_complete or bool(problems))
    if as_json:
        print_json({**dataset.to_json(), "exit_code": code})
        return code
    if not dataset.is_complete:
        for line in download_lines(dataset):
            echo(line, stderr=False)
    for one in dataset.opened_suites:
        echo(f"{one.suite_spec}: {one.items} items in {data}", stderr=False)
    for one in dataset.opened_suites[:1]:
        if text := protocol_text(suite, one.protocols):
            echo(text, stderr=False)
    echo_first(problems, 10, "more", sum(one.num_problems for one in dataset.opened_suites))
    return code


def _check_instruction_file(csv: Path, as_json: bool) -> int:
    from ...benchmarks.suites.edival.published_counts import check_counts

    checks = check_counts(csv)
    mismatches = [check for check in checks if not check.agrees]
    if as_json:
        rows = [check.to_json() for check in checks]
        print_json({"suite": "edival", "csv": str(csv), "checks": rows, "exit_code": int(bool(mismatches))})
        return int(bool(mismatches))
    for check in checks:
        counted = f"{check.counted}" if check.agrees else f"{check.counted}, expected {check.expected}"
        echo(f"  {'agrees ' if check.agrees else 'DIFFERS'}  {check.name}: {counted}", stderr=False)
    num_equal = len(checks) - len(mismatches)
    echo(f"{num_equal} of {len(checks)} counts of {csv} equal those of the published file", stderr=False)
    return int(bool(mismatches))


def _print_statistics(suite: str, data: Path | None, folder: Path | None, experts: list[str], as_json: bool) -> int:
    from ...benchmarks.human_eval.suite_statistics import suite_statistics, target_area_table, target_areas
    from ...benchmarks.run.suite_loading import default_data, load_suite
    from ...reward import default_experts, load_experts

    bound = load_experts(experts, default_experts())
    loaded = load_suite(suite, data or default_data(suite))
    with progress_bar(None, "counting"):
        count_tables = suite_statistics(loaded)
    if experts:
        with progress_bar(len(loaded.items), "finding targets") as (step, _):
            areas, problems = target_areas(loaded, bound, step=step)
        for name, problem in list(problems.items())[:10]:
            echo(f"editcritic: {name}: {problem}")
        count_tables.append(target_area_table(list(areas.values()), len(problems)))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for count_table in count_tables:
            (folder / f"{count_table.name}.csv").write_text(count_table.csv(), encoding="utf-8")
    if as_json:
        print_json({"suite": loaded.name, "data": loaded.digest, "tables": [table.to_json() for table in count_tables]})
        return 0
    for count_table in count_tables:
        if count_table.rows:
            render(_rendered(count_table))
        for note in count_table.notes:
            echo(f"  {note}", stderr=False)
    return 0


def _rendered(count_table: CountTable) -> Table:
    from rich.table import Table

    table = Table("", title=count_table.title, title_justify="left")
    square = list(count_table.columns) == list(count_table.rows)  # columns too many to be named twice
    for number, name in enumerate(count_table.columns, start=1):
        table.add_column(str(number) if square else name, justify="right")
    for number, (name, row) in enumerate(count_table.rows.items(), start=1):
        table.add_row(f"{number} {name}" if square else name, *(_shown(count) for count in row))
    return table


def _shown(number: float | int | None) -> str:
    return "" if number is None else str(number) if isinstance(number, int) else f"{number:.4g}"
