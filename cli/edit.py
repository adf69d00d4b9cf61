"""`editcritic edit`: best-of-N editing of one image."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..benchmarks.common.errors import InputError
from ..benchmarks.common.interruption import tell_interrupted
from ..benchmarks.common.terminal import echo, exit_code_command, print_json, progress_bar, render
from .options import (
    DEFAULT_REWARD,
    BatchSize,
    Device,
    Download,
    Dtype,
    Experts,
    Json,
    PipelineArgs,
    Protocol,
    RewardSpec,
    Trust,
)

if TYPE_CHECKING:
    from ..benchmarks.common.inputs import SampleEntry
    from ..reward.image import FileIndex


@exit_code_command
def edit(
    sources: list[Path] = typer.Argument(
        metavar="SOURCE", help="The image to edit; several images for one edit with several sources."
    ),
    instruction: list[str] = typer.Option(
        ..., help="The edit instruction. Repeat for the operations of a compound instruction."
    ),
    pipeline: str = typer.Option(
        ...,
        help="A diffusers pipeline (folder or hub id); module:name of a pipeline, an editor, a function "
        "f(image, instruction, seed), or a factory without arguments that returns one of these; or "
        "`sceneedit`, the built-in tiny editor.",
    ),
    out: Path = typer.Option(..., "-o", "--out", help="Output folder; also holds the journal for resuming."),
    reward: RewardSpec = DEFAULT_REWARD,
    experts: Experts = None,
    protocol: Protocol = None,
    selector: str = typer.Option(
        "best-of?n=16",
        help="How candidates are generated and selected: adaptive, beam, best-of, chain, halving, knock-out, "
        "particles, paths, retry, round-robin, sequential or zero-order, with options as in `best-of?n=8`; "
        "module:Name; or a TOML file.",
    ),
    budget: str | None = typer.Option(
        None, help="Limits, comma-separated: nfe (denoiser evaluations), judge_calls, seconds; e.g. nfe=128."
    ),
    tie_breaker: str | None = typer.Option(None, help="Reward that decides between candidates with equal scores."),
    seed: int = typer.Option(0, help="Seed of the first candidate; further candidates increment it."),
    boxes: str | None = typer.Option(
        None, help='Boxes of source objects in pixels: {"cup": [[x0, y0, x1, y1]]}, or a file with that JSON.'
    ),
    pipeline_args: PipelineArgs = None,
    batch_size: BatchSize = 8,
    dtype: Dtype = None,
    device: Device = None,
    download: Download = False,
    overwrite: bool = typer.Option(
        False, "--overwrite", help="Overwrite the results of another run in the output folder."
    ),
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Edit an image: generate candidates, score them and keep the best. Running the same command again resumes.

    Example: editcritic edit cup.png --instruction "Remove cup" --pipeline sceneedit -o edited
    """
    from ..benchmarks.common.inputs import (
        load_reward,
        load_selector,
        parse_budget,
        parse_pipeline_args,
        read_edit_sample,
        spec_argument,
    )
    from ..benchmarks.run.scoring_run import forward_warnings
    from ..verifiers.selection import JournalError, SelectionStopped
    from .edit_output import (
        IMAGE,
        REPORT,
        SHEET,
        EditOutputFolder,
        EditRunConfig,
        NotifyingJournal,
        count_failures,
        render_candidates,
        summary_lines,
    )
    from .editor_spec import EditorSpec

    config = EditRunConfig(
        read_edit_sample(sources, instruction, boxes),
        load_reward(spec_argument(reward), protocol, bindings=experts),
        load_selector(spec_argument(selector)),
        parse_budget(budget),
        None if tie_breaker is None else load_reward(spec_argument(tie_breaker)),
        seed,
    )
    config.check()
    folder = EditOutputFolder(out, overwrite)
    folder.check(config.to_json(), sources)
    editor_spec = EditorSpec(pipeline, parse_pipeline_args(pipeline_args or ()), batch_size, dtype, device, download)
    editor_spec.check(config.sample)
    with ExitStack() as stack, progress_bar(None, "candidates") as (step, tell), forward_warnings(tell):
        try:
            journal = stack.enter_context(NotifyingJournal(folder.journal, step))
            tell(f"editcritic: loading {pipeline}")
            editor = editor_spec.load()
            folder.check(config.to_json(editor.id), sources)
            selections = config.run(editor, journal)
        except JournalError as error:
            raise InputError(str(error)) from None
        except SelectionStopped as error:
            problem = f"{error} ({folder.journal}); run the same command again to resume"
            echo(f"editcritic: {problem}")
            if as_json:
                print_json({"error": problem})
            return 1
        except KeyboardInterrupt:
            stack.pop_all()  # the engine's thread may use the log until the process ends
            tell_interrupted(
                f"editcritic: interrupted; the candidates are in {folder.journal}: run the same command again to resume"
            )
            return 130
        report = folder.write(config, editor, selections)
    code = int(selections[0].winner is None or count_failures(selections[0]) > 0)
    if as_json:
        print_json({**report, "out": str(out), "exit_code": code})
        return code
    render(render_candidates(selections[0]))
    for line in summary_lines(selections):
        echo(line, stderr=False)
    written = [out / name for name in (IMAGE, SHEET, REPORT) if (out / name).exists()]
    echo(", ".join(map(str, written)), stderr=False)
    if failed := count_failures(selections[0]):
        echo(f"editcritic: {failed} failed; run the same command again to retry them")
    return code


DEMO = "demo"  # in place of a file: the demo's photographs with their good edits


def file_entries(path: Path, index: FileIndex, *, instruction: str | None = None) -> Iterator[SampleEntry]:
    """Those of `SampleSource`. Raises `InputError`."""
    from ..benchmarks.common.inputs import SampleSource

    return SampleSource.open(path, instruction=instruction).read(index)


def entries_of(
    samples: str,
    outputs: Path | None,
    data: Path | None,
    seed: int,
    index: FileIndex,
    *,
    instruction: str | None = None,
) -> Iterator[SampleEntry]:
    """Those of a suite with --outputs, else of a file or folder. Raises `InputError`."""
    if outputs is not None:
        return suite_entries(samples, outputs, data, seed, index)
    if data is not None:
        raise InputError("--data is the data of a suite: give --outputs, and the suite's name as SAMPLES")
    return file_entries(Path(samples), index, instruction=instruction)


def suite_entries(name: str, outputs: Path, data: Path | None, seed: int, index: FileIndex) -> Iterator[SampleEntry]:
    """An editor's outputs in random order; a missing one is a problem. Raises `InputError`."""
    from ..benchmarks.common.inputs import SampleEntry
    from ..benchmarks.human_eval.measurement_variance import sample_items
    from ..benchmarks.run.editor_outputs import MissingOutput, Outputs, UnnamedOutputs
    from ..benchmarks.run.suite_loading import default_data, load_suite

    suite = load_suite(name, data or default_data(name))
    editor_outputs, is_missing = Outputs(suite, outputs, index), False
    for item in sample_items(suite.items, len(suite.items), seed):
        try:
            yield SampleEntry(item.id, editor_outputs.sample(item))
        except MissingOutput as reason:
            is_missing = True
            yield SampleEntry(item.id, problem=str(reason))
    if is_missing and (unnamed := str(UnnamedOutputs.of(suite, outputs))):
        yield SampleEntry(str(outputs), problem=unnamed)


def demo_entries() -> Iterator[SampleEntry]:
    """The demo's good edits. Raises `InputError`."""
    from ..benchmarks.common.inputs import SampleEntry
    from ..benchmarks.demo.candidate_edits import good_edits

    return (SampleEntry(sample.id, sample) for sample in good_edits())


def demo_rollouts() -> Iterator[SampleEntry]:
    """Several edits of each of the demo's photographs. Raises `InputError`."""
    from ..benchmarks.common.inputs import SampleEntry
    from ..benchmarks.demo.candidate_edits import rollouts

    return (SampleEntry(sample.id, sample) for sample in rollouts())
