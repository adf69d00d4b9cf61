"""`editcritic bench build`: benchmark data built from images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...benchmarks.common.errors import InputError
from ...benchmarks.common.terminal import echo, exit_code_command, print_json, progress_bar
from ..options import BatchSize, Device, Download, Dtype, Json, PipelineArgs, Seed, Trust, command_group

if TYPE_CHECKING:
    from ...benchmarks.suites.construction.workspace import ConstructionReport


ImageFolder = Annotated[Path, typer.Argument(metavar="IMAGES", help="Image folder.")]

Out = Annotated[Path, typer.Option("-o", "--out", help="Output folder. Running the same command again resumes.")]

JudgeSpec = Annotated[
    str,
    typer.Option(
        "--judge",
        help="Judge expert: a spec such as 'served?model=…&url=…', module:Name, or a TOML file (its own table or "
        "`experts.judge`, as in `score`).",
    ),
]

Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Use only the first N images.")]

PromptPack = Annotated[
    str | None, typer.Option("--prompts", help="Folder of prompt files (<name>.txt) that override the built-in ones.")
]

Window = Annotated[int, typer.Option("--max-in-flight", min=1, help="Images processed concurrently.")]


@exit_code_command
def build_edival(
    images: ImageFolder,
    out: Out,
    judge: JudgeSpec,
    detector: str = typer.Option(
        "grounding-dino", help="Detector that verifies the objects listed by the judge; same format as --judge."
    ),
    config: Path | None = typer.Option(
        None,
        help="TOML file with turns, seed, target_counts, threshold, max_side, max_area, oversized: docs/suites.md. "
        "Options come first. Default: the paper's.",
    ),
    turns: int | None = typer.Option(None, min=1, help="Number of turns per chain. Default: 3."),
    seed: int | None = typer.Option(None, help="Random seed. Default: 0."),
    limit: Limit = None,
    prompts: PromptPack = None,
    window: Window = 64,
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """EdiVal-Agent: objects listed by a judge and verified by a detector, and chains of instructions about them.

    Example: editcritic bench build edival photos -o data/mine --judge qwen2.5-vl-7b
    """
    from ...benchmarks.common.settings_files import read_settings
    from ...benchmarks.suites.construction.workspace import list_numbered_images, load_expert, load_prompts
    from ...benchmarks.suites.edival.construction import EdiValAgent, construct
    from ...benchmarks.suites.edival.construction_tasks import Grounding
    from ...reward.queries import Detect, Judge
    from ..command_settings import ConstructionSettings

    own = read_settings(ConstructionSettings, config, {"turns": turns, "seed": seed})
    grounding = Grounding(own.threshold, own.max_side, own.max_area, own.oversized)
    prompt_pack = load_prompts(prompts)
    try:
        agent = EdiValAgent(own.turns, own.seed, own.target_counts, grounding=grounding, prompts=prompt_pack)
    except ValueError as error:
        raise InputError(f"{config or 'options'}: {error}") from None
    numbered_images = list_numbered_images(images, limit)
    judge_expert = load_expert(judge, "judge", Judge)
    detector_expert = load_expert(detector, "detector", Detect)
    with progress_bar(len(numbered_images), "building") as (step, _):
        report = construct(
            numbered_images, out, agent, judge=judge_expert, detector=detector_expert, step=step, window=window
        )
    return render_report(report, "chains", as_json)


@exit_code_command
def build_complex_edit(
    images: ImageFolder,
    out: Out,
    judge: JudgeSpec,
    num_operations: int = typer.Option(8, min=1, help="Atomic instructions per image (complexity levels C1 to CN)."),
    split: str = typer.Option("test_real", help="test_real (photographs) or test_syn (synthetic images)."),
    seed: Seed = 0,
    limit: Limit = None,
    prompts: PromptPack = None,
    window: Window = 64,
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """Complex-Edit: a sequence of atomic instructions per image, simplified, and combined step by step.

    Example: editcritic bench build complex-edit photos -o data/mine --judge qwen2.5-vl-7b
    """
    from ...benchmarks.common.optional_imports import bench_library
    from ...benchmarks.suites.complexedit import construction
    from ...benchmarks.suites.construction.workspace import list_numbered_images, load_expert, load_prompts
    from ...reward.queries import Judge

    if split not in construction.SPLITS:
        raise InputError(f"--split is {' or '.join(construction.SPLITS)}, got {split!r}")
    bench_library("pyarrow")  # fail before the work, not after it
    builder = construction.ComplexEditBuilder(num_operations, seed, load_prompts(prompts))
    numbered_images = list_numbered_images(images, limit)
    judge_expert = load_expert(judge, "judge", Judge)
    with progress_bar(len(numbered_images), "building") as (step, _):
        report = construction.construct(
            numbered_images, out, builder, judge=judge_expert, split=split, step=step, window=window
        )
    return render_report(report, "images with instructions", as_json)


@exit_code_command
def build_dlebench(
    questions: Annotated[
        Path,
        typer.Argument(
            metavar="QUESTIONS",
            help="A JSONL file of visual questions (image, question, options, answer, boxes), a folder with a "
            "questions.jsonl, a folder of V*-Bench, or MME-RealWorld's JSON; image paths relative to it.",
        ),
    ],
    out: Out,
    judge: JudgeSpec,
    pipeline: str = typer.Option(..., help="Editor of the crops, as in `editcritic edit`."),
    labels: list[Path] | None = typer.Option(
        None, help="Human labels of references or boxes from `judge label`. Repeatable."
    ),
    seed: Seed = 0,
    limit: int | None = typer.Option(None, min=1, help="Use only the first N questions."),
    prompts: PromptPack = None,
    window: Window = 64,
    pipeline_args: PipelineArgs = None,
    batch_size: BatchSize = 8,
    dtype: Dtype = None,
    device: Device = None,
    download: Download = False,
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """DLEBench: an edit that makes a wrong answer to a question true, and a reference image of it.

    References wait for review in review.jsonl: fill in `accept`, `regenerate` (up to three times) or `discard`, correct
    what is wrong in the line's other fields, and run the command again.

    Example: editcritic bench build dlebench questions.jsonl -o data/mine --judge qwen2.5-vl-7b --pipeline my:editor
    """
    from ...benchmarks.common.inputs import parse_pipeline_args
    from ...benchmarks.suites.construction.workspace import load_expert, load_prompts
    from ...benchmarks.suites.dlebench.construction import DleBenchBuilder
    from ...benchmarks.suites.dlebench.counterfactual import labelled_boxes, read_questions
    from ...reward.queries import Judge
    from ..editor_spec import EditorSpec

    question_list = list(read_questions(questions, labelled_boxes(labels or ())))[:limit]
    judge_expert = load_expert(judge, "judge", Judge)
    prompt_pack = load_prompts(prompts)
    editor = EditorSpec(pipeline, parse_pipeline_args(pipeline_args or ()), batch_size, dtype, device, download).load()
    with progress_bar(len(question_list), "building") as (step, _):
        builder = DleBenchBuilder(judge_expert, editor, seed, prompt_pack, tuple(labels or ()), window)
        report = builder.make(question_list, out, step=step)
    return render_report(report, "samples", as_json)


@exit_code_command
def build_i2ibench(
    images: ImageFolder,
    out: Out,
    judge: JudgeSpec,
    single_scenes: int | None = typer.Option(
        None, min=0, help="Number of single-image scenes, five prompts each. Default: up to 100."
    ),
    multi_scenes: int | None = typer.Option(
        None, min=0, help="Number of multi-image scenes, five prompts each. Default: up to 100."
    ),
    seed: Seed = 0,
    prompts: PromptPack = None,
    window: Window = 64,
    trust: Trust = None,
    as_json: Json = False,
) -> int:
    """I2I-Bench: prompts of its ten categories for scenes of one and of several images; its own are not published.

    Example: editcritic bench build i2ibench photos -o data/mine --judge qwen2.5-vl-7b
    """
    from ...benchmarks.suites.construction.workspace import load_expert
    from ...benchmarks.suites.i2ibench.construction import construct_suite
    from ...reward.queries import Judge

    judge_expert = load_expert(judge, "judge", Judge)
    with progress_bar(None, "building") as (step, _):
        report = construct_suite(
            images,
            out,
            judge=judge_expert,
            single=single_scenes,
            multi=multi_scenes,
            seed=seed,
            prompts=prompts,
            window=window,
            step=step,
        )
    return render_report(report, "prompts", as_json)


def render_report(report: ConstructionReport, noun: str, as_json: bool) -> int:
    """Print what was constructed. Returns the exit code."""
    if as_json:
        print_json({**report.to_json(), "exit_code": report.exit_code})
        return report.exit_code
    rejected = f"{report.num_rejected} rejected (see rejections.jsonl)"
    echo(f"{report.num_constructed} {noun} constructed, {rejected}", stderr=False)
    for path in report.files:
        echo(f"  {path}", stderr=False)
    if report.failures:
        name, reason = next(iter(report.failures.items()))
        echo(
            f"editcritic: {len(report.failures)} failed, the first {name}: {reason}; run the same command again to "
            "retry only these"
        )
    return report.exit_code


app = command_group(
    "build",
    "Build benchmark data from your own images, in the published formats, with any judge.",
    {
        "edival": build_edival,
        "complex-edit": build_complex_edit,
        "dlebench": build_dlebench,
        "i2ibench": build_i2ibench,
    },
)
