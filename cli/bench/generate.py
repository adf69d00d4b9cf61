"""`editcritic bench generate`: an editor's outputs for a suite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ...benchmarks.common.errors import InputError
from ...benchmarks.common.terminal import echo, exit_code_command, print_json, progress_bar
from ..options import DEFAULT_REWARD, Data, Device, Download, Dtype, Experts, Json, PipelineArgs, SuiteName, Trust
from .run import print_problems

if TYPE_CHECKING:
    from ...verifiers import Editor


@exit_code_command
def generate(
    suite: SuiteName,
    out: Path = typer.Option(..., "-o", "--out", help="Output folder for images, in the suite's layout."),
    data: Data = None,
    pipeline: str | None = typer.Option(
        None, help="The editor, as in `edit`: a diffusers pipeline, module:name, or `sceneedit`."
    ),
    editor_url: str | None = typer.Option(
        None, help="An editor behind HTTP: JSON with instruction, images and seed is posted to this URL."
    ),
    editor_name: str = typer.Option("", help="Name of the model behind --editor-url. Default: the URL."),
    editor_key_env: str = typer.Option("", help="Environment variable with the key of --editor-url."),
    timeout: float = typer.Option(600.0, min=0.001, help="Timeout of a request in seconds."),
    selector: str | None = typer.Option(None, help="Generate candidates and select among them, e.g. `best-of?n=8`."),
    reward: str = typer.Option(DEFAULT_REWARD, help="Reward of --selector, as in `score`."),
    experts: Experts = None,
    budget: str | None = typer.Option(
        None, help="With --selector, limits per item: nfe (denoiser evaluations), judge_calls, seconds."
    ),
    sequential: bool = typer.Option(
        False, "--sequential", help="Apply the operations of a compound instruction one per step."
    ),
    seed: int = typer.Option(0, help="Base seed; each item's seed is derived from it and the item id."),
    pipeline_args: PipelineArgs = None,
    batch_size: int = typer.Option(8, min=1, help="Images per pipeline call, or concurrent requests."),
    dtype: Dtype = None,
    device: Device = None,
    download: Download = False,
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Generate an editor's outputs for a suite. Running the same command again resumes: existing outputs are kept.

    `generated.jsonl` in the output folder records editor, seed and seconds of each output. Exit code 1 if an output
    could not be generated.

    Example: editcritic bench generate sceneedit --pipeline sceneedit -o made/tiny
    """
    from ...benchmarks.common.inputs import load_reward, load_selector, parse_budget, parse_pipeline_args, spec_argument
    from ...benchmarks.run.http_editor import HttpEditor
    from ...benchmarks.run.output_generation import SelectionConfig, generate_outputs
    from ...benchmarks.run.suite_loading import default_data, load_suite
    from ..editor_spec import EditorSpec

    loaded = load_suite(suite, data or default_data(suite))
    print_problems(loaded)
    if (pipeline is None) == (editor_url is None):
        raise InputError("give an editor: either --pipeline or --editor-url")
    if selector is not None and sequential:
        raise InputError("--sequential is the selector sequential?n=1: give one of the two")
    selection = SelectionConfig.sequential_operations() if sequential else None
    if selector is not None:
        selection = SelectionConfig(
            load_selector(spec_argument(selector)),
            load_reward(spec_argument(reward), bindings=experts),
            parse_budget(budget),
        )
    if editor_url is not None:
        editor: Editor = HttpEditor(
            editor_url, name=editor_name, key_env=editor_key_env, batch_size=batch_size, timeout_s=timeout
        )
    else:
        editor_spec = EditorSpec(
            str(pipeline), parse_pipeline_args(pipeline_args or ()), batch_size, dtype, device, download
        )
        samples_by_size = {tuple(image.size for image in item.sample.sources): item.sample for item in loaded.items}
        for sample in samples_by_size.values():
            editor_spec.check(sample)
        editor = editor_spec.load()
    with progress_bar(len(loaded.items), "generating") as (step, _):
        report = generate_outputs(loaded, out, editor, selection=selection, seed=seed, step=step)
    if as_json:
        print_json(
            {
                "exit_code": report.exit_code,
                "out": str(out),
                "editor": editor.id,
                "existing": len(report.existing),
                "generated": len(report.generated),
                "failed": {row.item: row.error for row in report.failed},
                "stop_reason": report.stop_reason,
            }
        )
        return report.exit_code
    for row in report.failed:
        echo(f"editcritic: {row.item}: {row.error}")
    if report.stop_reason:
        echo(f"editcritic: stopped: {report.stop_reason}; run the same command again to resume")
    made = f"{len(report.generated)} generated, {len(report.existing)} kept, {len(report.failed)} failed"
    echo(f"editcritic: {made}: {out}", stderr=False)
    return report.exit_code
