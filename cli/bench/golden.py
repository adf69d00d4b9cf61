"""`editcritic bench golden`: a judge's answers stored as a golden set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...benchmarks.common.terminal import echo, exit_code_command, print_json
from ..options import Json, ResultFolders, Seed


@exit_code_command
def golden(
    results: ResultFolders,
    out: Annotated[Path, typer.Option("-o", "--out", help="Golden set (JSONL).")],
    repeat_results: Annotated[
        list[Path] | None,
        typer.Option(
            "--repeat-results",
            help="Results of the same outputs scored again; measures the judge's own variance. Repeatable.",
        ),
    ] = None,
    num_images: Annotated[
        int | None, typer.Option("--num-images", min=1, help="Number of randomly chosen images to keep. Default: all.")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> int:
    """Store a judge's answers as a golden set; `bench agreement RESULTS --golden FILE` measures drift against it."""
    from ...benchmarks.common.errors import InputError
    from ...benchmarks.common.inputs import require_distinct_files
    from ...benchmarks.human_eval.judge_drift import build_golden_set, write_golden_set
    from ...benchmarks.suites.results import load_results

    require_distinct_files(results=results[0], out=out)
    first = [load_results(folder) for folder in results]
    repeats = [load_results(folder) for folder in repeat_results or ()]
    if len(repeats) % len(first):
        raise InputError(f"--repeat-results takes {len(first)} folders per run, one per editor; got {len(repeats)}")
    runs = [first, *(repeats[start : start + len(first)] for start in range(0, len(repeats), len(first)))]
    records = build_golden_set(runs, count=num_images, seed=seed)
    write_golden_set(out, records)
    if as_json:
        print_json({"golden": str(out), "images": len(records), "runs": len(runs)})
    else:
        echo(f"{len(records)} images, {len(runs)} run{'s' * (len(runs) > 1)}: {out}", stderr=False)
    return 0
