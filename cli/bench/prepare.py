"""`editcritic bench prepare`: the data of a suite, downloaded, checked and opened."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...benchmarks.common.terminal import echo, exit_code_command, print_json
from ..options import Json, Seed
from .construct import render_report


@exit_code_command
def prepare(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="edival, complex-edit, dlebench or i2ibench.")],
    images: Annotated[
        Path | None, typer.Argument(metavar="IMAGES", help="I2I-Bench only: the images to construct a suite from.")
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Data folder. Default: data/SUITE.")] = None,
    download: Annotated[bool, typer.Option("--download", help="Download missing files.")] = False,
    sources: Annotated[
        Path | None,
        typer.Option("--sources", help="TOML file with alternative download locations ([[file]] with path and url)."),
    ] = None,
    check_csv: Annotated[
        Path | None,
        typer.Option(
            "--check-csv", help="EdiVal only: compare the counts of this instruction file with the published ones."
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option("--judge", help="I2I-Bench only: the judge that writes the prompts, as in `construct`."),
    ] = None,
    single_scenes: Annotated[
        int | None,
        typer.Option(
            "--single-scenes",
            min=0,
            help="I2I-Bench only: number of single-image scenes, five prompts each. Default: up to 100.",
        ),
    ] = None,
    multi_scenes: Annotated[
        int | None,
        typer.Option(
            "--multi-scenes",
            min=0,
            help="I2I-Bench only: number of multi-image scenes, five prompts each. Default: up to 100.",
        ),
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> int:
    """Describe and locate the data of a suite; download it on request; check and open it.

    Nothing is downloaded without --download. Exit code 1 if data is missing, if the suite finds problems in it, or if a
    count of --check-csv differs from that of the published file.
    """
    from ...benchmarks.common.errors import InputError
    from ...benchmarks.run.data_preparation import download_plan
    from ...benchmarks.run.data_preparation import prepare_dataset as prepared
    from ...benchmarks.suites.construction.dataset_sources import find_source

    if check_csv is not None:
        other_options = (images, out, sources, judge, single_scenes, multi_scenes)
        if suite != "edival" or download or any(one is not None for one in other_options):
            raise InputError("--check-csv compares an instruction file of edival: give no other option")
        return _check_instruction_file(check_csv, as_json)
    data = out or Path("data") / suite
    if images is not None or judge is not None:
        if suite != "i2ibench" or images is None or judge is None:
            raise InputError("IMAGES and --judge are for i2ibench, which is built of pictures: give both, or neither")
        return _build(images, data, judge, single_scenes, multi_scenes, seed, as_json)
    source = find_source(suite, sources)
    dataset = prepared(source, data, download=download, tell=echo)
    problems = [f"{one.suite_spec}: {problem}" for one in dataset.opened_suites for problem in one.problems]
    code = int(not dataset.is_complete or bool(problems))
    if as_json:
        print_json({**dataset.to_json(), "exit_code": code})
        return code
    if not dataset.is_complete:
        for line in download_plan(dataset):
            echo(line, stderr=False)
    for one in dataset.opened_suites:
        echo(f"{one.suite_spec}: {one.items} items in {data}", stderr=False)
    for problem in problems[:10]:
        echo(f"editcritic: {problem}")
    if len(problems) > 10:
        echo(f"editcritic: and {len(problems) - 10} more")
    return code


def _check_instruction_file(csv: Path, as_json: bool) -> int:
    """Compare the counts of EdiVal's instruction file with those of the published one."""
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


def _build(
    images: Path, data: Path, judge: str, single: int | None, multi: int | None, seed: int, as_json: bool
) -> int:
    """Construct a suite for I2I-Bench, whose own data is not published."""
    from ...benchmarks.suites.construction.workspace import load_expert
    from ...benchmarks.suites.i2ibench.construction.pipeline import construct_suite as build
    from ...reward.queries import Judge

    judge_expert = load_expert(judge, "judge", Judge)
    return render_report(
        build(images, data, judge=judge_expert, single=single, multi=multi, seed=seed), "prompts", as_json
    )
