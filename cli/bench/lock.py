"""`editcritic bench lock`: the locked protocol of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...benchmarks.common.defaults import BOOTSTRAP_SAMPLES
from ...benchmarks.common.terminal import echo, exit_code_command, print_json
from ..options import Data, Experts, Json, Metric, OptionalBootstrapSamples, Reproducible, SuiteName, SuiteProtocol


@exit_code_command
def lock(
    suite: SuiteName,
    out: Annotated[Path, typer.Option("-o", "--out", help="Protocol file, e.g. protocol.toml.")],
    data: Data = None,
    experts: Experts = None,
    protocol: SuiteProtocol = None,
    metric: Metric = None,
    reproducible: Reproducible = False,
    bootstrap_samples: OptionalBootstrapSamples = BOOTSTRAP_SAMPLES,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the bootstrap.")] = 0,
    as_json: Json = False,
) -> int:
    """Write everything that determines the numbers of a run to a file, for `bench run --lock`."""
    from ...benchmarks.run.protocol_lock import write_protocol
    from ...benchmarks.run.run_spec import RunSpec

    expert_specs, metric_names = tuple(experts or ()), tuple(metric or ())
    spec = RunSpec(suite, data, Path(), "", expert_specs, protocol, metric_names, reproducible, bootstrap_samples, seed)
    built = spec.build()
    write_protocol(out, spec, built)
    if as_json:
        print_json(
            {
                "file": str(out),
                "metrics": list(built.metric_set.metrics),
                "skipped_metrics": dict(built.metric_set.skipped),
            }
        )
    else:
        for skipped_metric, reason in built.metric_set.skipped.items():
            echo(f"editcritic: {skipped_metric} is left out: {reason}")
        echo(
            f"editcritic: {', '.join(built.metric_set.metrics)} of {built.suite.name} are locked in {out}", stderr=False
        )
    return 0
