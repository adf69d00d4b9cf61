"""`editcritic bench prompts`: one suite under two prompt packs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import typer

from ...benchmarks.common.defaults import BOOTSTRAP_SAMPLES
from ...benchmarks.common.errors import InputError
from ...benchmarks.common.terminal import echo, exit_code_command, print_json, progress_bar, render
from ..options import BootstrapSamples, By, Data, Experts, Json, Metric, SuiteProtocol, Trust

if TYPE_CHECKING:
    from ...benchmarks.run.run_config import RunConfig
    from ...reward.queries.specs import Spec

_OURS = "-"


@exit_code_command
def prompts(
    suite: str = typer.Argument(metavar="SUITE", help="A suite, with options as in `edival?vq=true`."),
    packs: list[str] = typer.Option(
        ..., "--prompts", help="Twice: the folders of two prompt packs, A and B; `-` for our own prompts."
    ),
    outputs: Path = typer.Option(..., help="Folder of the editor's outputs."),
    out: Path = typer.Option(..., "-o", "--out", help="Output folder: results in OUT/a and OUT/b."),
    config: Path | None = typer.Option(None, help="TOML file with further settings, as of `bench run`."),
    data: Data = None,
    experts: Experts = None,
    protocol: SuiteProtocol = None,
    metric: Metric = None,
    by: By = None,
    max_items: int = typer.Option(10, min=0, help="Maximum number of changed items listed per metric."),
    threshold: float = typer.Option(0.5, help="Decision threshold for metrics in [0, 1]."),
    bootstrap_samples: BootstrapSamples = BOOTSTRAP_SAMPLES,
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Score the same outputs under two prompt packs, and compare them metric by metric, B minus A.

    What the paraphrase of a paper's prompts changes is such a difference: give the paper's as one pack, and `-` for
    ours. Queries that no prompt changes, of detectors and the like, are asked once. The same command resumes.

    Example: editcritic bench prompts gedit --outputs made/mine --prompts - --prompts packs/theirs -o results/prompts
    """
    from ...benchmarks.report.comparison import compare_results, render_comparison
    from ...benchmarks.run.run_config import RunConfig
    from ...benchmarks.run.run_settings import RunSettings, read_run_settings, write_run_settings
    from ...benchmarks.run.runner import SharedSpending, check_folders
    from ...benchmarks.run.suite_loading import default_data
    from ...reward import default_experts, load_experts
    from .run import execute_with_progress, print_built

    if len(packs) != 2:
        raise InputError(f"--prompts: give two packs, A and B, as in `--prompts - --prompts FOLDER`; got {len(packs)}")
    typed: dict[str, Any] = {
        "outputs": outputs,
        "data": data,
        "experts": tuple(experts) if experts else None,
        "protocol": protocol,
        "metrics": tuple(metric) if metric else None,
    }
    given = {name: value for name, value in typed.items() if value is not None}
    settings = RunSettings() if config is None else read_run_settings(config, (*given, "suite", "out"))
    settings = settings.overridden(given)
    if settings.data is None and (folder := default_data(suite)):
        settings = settings.overridden({"data": folder})
    if of_one := [name for name in ("lock", "journal", "ray") if getattr(settings, name)]:
        raise InputError(f"{', '.join(of_one)}: these belong to one run, and here are two: leave them out")
    loaded = load_experts(settings.experts, default_experts())
    runs = [
        settings.overridden({"suite": _with_pack(suite, pack), "out": out / name})
        for name, pack in zip("ab", packs, strict=True)
    ]
    built = [RunConfig.build(one, loaded) for one in runs]
    unchanged = _same_signatures(*built)
    if len(unchanged) == len(built[0].metric_set.metrics):
        raise InputError(f"--prompts: A and B are the same prompts for {', '.join(unchanged)}: nothing would differ")
    labels = dict.fromkeys(name for item in built[0].suite.items for name in item.labels)
    if missing := [label for label in by or () if label not in labels]:
        raise InputError(f"--by: no item has the label {missing[0]!r:.80}: they have {', '.join(labels) or 'none'}")
    print_built(built[0])
    out.mkdir(parents=True, exist_ok=True)
    shared = SharedSpending(out)
    results = []
    for one, pack in zip(built, packs, strict=True):
        check_folders(one)
        assert one.settings.out is not None
        write_run_settings(one.settings, one.settings.out)
        result, interrupted = execute_with_progress(one, name=f"with {pack}", shared=shared)
        if interrupted:
            return 130
        assert result is not None
        if result.stop_reason:
            echo(f"editcritic: {result.stop_reason}")
        results.append(result)
    with progress_bar(None, "bootstrap"):
        before, after = (result.results for result in results)
        comparison = compare_results(
            before, after, suite=built[0].suite, threshold=threshold, count=bootstrap_samples, by=by or ()
        )
    if as_json:
        print_json({**comparison.to_json(max_items), "prompts": packs, "unchanged_metrics": unchanged})
    else:
        echo(f"prompts of A: {_named(packs[0])}; of B: {_named(packs[1])}", stderr=False)
        if unchanged:
            echo(f"the same prompts, or none, in both: {', '.join(unchanged)}", stderr=False)
        render(render_comparison(comparison, max_items))
    return max(result.exit_code for result in results)


def _with_pack(suite: str, pack: str) -> Spec:
    from ...reward.config import spec_table

    if "prompts" in spec_table(suite, "editcritic.suites"):
        raise InputError(f"{suite} has prompts: give both packs by --prompts")
    return suite if pack == _OURS else f"{suite}{'&' if '?' in suite else '?'}{urlencode({'prompts': pack})}"


def _same_signatures(first: RunConfig, second: RunConfig) -> list[str]:
    """The metrics that the packs leave as they are."""
    from ...benchmarks.run.run_config import metric_signature

    after = second.metric_set.metrics
    return [
        name
        for name, metric in first.metric_set.metrics.items()
        if metric_signature(after[name]) == metric_signature(metric)
    ]


def _named(pack: str) -> str:
    return "ours" if pack == _OURS else pack
