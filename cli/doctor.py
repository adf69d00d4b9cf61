"""`editcritic doctor`: what is installed, and which experts can run on this machine."""

from __future__ import annotations

from pathlib import Path

import typer

from ..benchmarks.common.errors import InputError
from ..benchmarks.common.terminal import echo, exit_code_command, print_json, progress_bar, render
from .options import Json, Trust


@exit_code_command
def doctor(
    experts: list[str] | None = typer.Option(
        None,
        help="Show what the models of these experts need (source, licence, gate, precision, download, memory) "
        "without loading them: a bundle such as small, `role=spec ...`, a TOML file, or `module:function`. Repeatable.",
    ),
    query_servers: bool = typer.Option(
        False, "--query-servers", help="With --experts: query each server for the name of its model."
    ),
    reference: str | None = typer.Option(
        None,
        "--check-model",
        help="Compare a local model with published scores: the name of a reference (`list` prints them), "
        "or a TOML file. --experts selects the expert to compare.",
    ),
    images: Path | None = typer.Option(None, help="With --check-model: folder of the reference images."),
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Report what is installed, which experts can run on this machine, how fast, and what to install for the others.

    Example: editcritic doctor --experts small
    """
    from ..benchmarks.inspection import checkpoint_check, model_requirements
    from ..benchmarks.inspection.doctor import render_report, run_diagnostics

    if (images is not None and reference is None) or (query_servers and (reference is not None or not experts)):
        raise InputError("--images needs --check-model; --query-servers needs --experts and no --check-model")
    if reference == "list":
        reference_names = list(checkpoint_check.references())
        print_json(reference_names) if as_json else echo("\n".join(reference_names), stderr=False)
        return 0
    if reference is not None:
        with progress_bar(None, "querying the model"):
            comparison = checkpoint_check.check_model(reference, images or Path(), experts or [])
        print_json(comparison.to_json()) if as_json else render(checkpoint_check.table(comparison))
        return comparison.exit_code
    if experts:
        plan = model_requirements.model_requirements(experts, query_servers=query_servers)
        print_json(plan.to_json()) if as_json else render(model_requirements.render_requirements(plan))
        return plan.exit_code
    with progress_bar(None, "checking"):
        report = run_diagnostics()
    print_json(report.to_json()) if as_json else render(render_report(report))
    return report.exit_code
