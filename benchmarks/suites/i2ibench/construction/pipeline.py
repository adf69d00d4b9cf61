"""`bench build i2ibench`: a suite of prompts for a user's images, with any judge. The paper's is not published.

Scenes of one image and of several; for each scene a prompt of each of the half's five categories, written by the judge
together with its dimensions (sections 3.1 and 3.2).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from .....reward import AnswerLog, Engine, Expert, Image, Program
from .....reward.atomic_files import atomic_replacement
from .....reward.engine.engine_stats import Stats
from .....reward.metrics.i2ibench.dimension import labelled_images
from .....reward.queries.prompts import Prompts
from ...construction.construction_report import ConstructionReport
from ...construction.validated_replies import (
    ConstructionRejected,
    ProgramResult,
    RejectionLog,
    ask_until_valid,
    run_programs,
)
from ...construction.workspace import (
    ConstructionFolder,
    NumberedImage,
    list_numbered_images,
    load_prompts,
    open_image,
)
from ..categories import Category
from ..reader import PROMPTS_FILE
from .prompt_generation import (
    IMAGES_SLOT,
    GeneratedPrompt,
    apply_quotas,
    dimension_choices,
    dimension_counts,
    parse_prompt_reply,
)
from .source_sampling import SourceSet, sample_scenes

TEMPERATURE = 0.9
"""Of the judge: high enough for different prompts of similar images. Our choice; not specified in the paper."""


def construct_suite(
    images: Path,
    out: Path,
    *,
    judge: Expert,
    single: int | None = None,
    multi: int | None = None,
    sources: Sequence[int] = (2, 3),
    seed: int = 0,
    quotas: bool = True,
    prompts: str | None = None,
    log: AnswerLog | None = None,
    window: int = 64,
    step: Callable[[], None] = lambda: None,
) -> ConstructionReport:
    """Construct a suite from a folder of images.

    single, multi: scenes of each half, five prompts each; by default 100, or as many as the images allow. sources:
    numbers of images of multi-image scenes. seed: of the selection of images, and of the judge's samples. quotas:
    remove dimensions from prompts so that their shares are at most those of the paper. prompts: a prompt pack. log:
    answer log, by default a file in `out`. step: called after each scene.

    Writes `prompts.jsonl` and `images/`, which `I2IBench` reads, and `rejections.jsonl`: invalid replies and rejected
    prompts, with reasons. The same call resumes, without repeating queries. Raises `InputError`.
    """
    prompt_templates = load_prompts(prompts)
    scenes = sample_scenes(list_numbered_images(images), single, multi, sources, seed)
    images_by_name = {source.name: open_image(source.path) for scene in scenes for source in scene.sources}
    settings = {
        "suite": "i2ibench",
        "seed": seed,
        "scenes": {scene.name: [source.name for source in scene.sources] for scene in scenes},
        "quotas": quotas,
        "prompts": prompt_templates.digest,
        "experts": {"judge": judge.id},
        "images": {name: image.digest for name, image in images_by_name.items()},
    }
    folder = ConstructionFolder(out, settings)
    with (
        folder.answer_log() if log is None else nullcontext(log) as answers,
        Engine(log=answers, window=window) as engine,
    ):
        programs = ((scene.name, _scene_program(scene, images_by_name, prompt_templates, seed)) for scene in scenes)
        results: list[ProgramResult[tuple[GeneratedPrompt, ...]]] = []
        for result in run_programs(programs, engine, {"judge": judge}):
            results.append(result)
            step()
        stats: dict[str, Any] = engine.stats().since(Stats())
    folder.write_rejections(reject for result in results for reject in result.rejects)
    generated = [prompt for result in results for prompt in result.value or ()]
    selected = apply_quotas(generated, seed) if quotas else generated
    for source in {source.name: source for scene in scenes for source in scene.sources}.values():
        _copy_source(source, out)
    path = folder.write_jsonl(PROMPTS_FILE, (prompt.row() for prompt in selected))
    failed = {result.id: result.failed for result in results if result.failed}
    num_rejected = sum(len(scene.categories) for scene in scenes if scene.name not in failed) - len(generated)
    return ConstructionReport(
        len(selected),
        num_rejected,
        failed,
        (path, out / IMAGES_SLOT),
        {**stats, "dimensions": dimension_counts(selected)},
    )


# -- prompts ----------------------------------------------------------------------------------------------------------


def _scene_program(
    scene: SourceSet, images_by_name: Mapping[str, Image], prompt_templates: Prompts, seed: int
) -> Callable[[RejectionLog], Program[tuple[GeneratedPrompt, ...]]]:
    """A prompt of each category, sequentially, so that none repeats another. Rejections are recorded."""
    images = [images_by_name[source.name] for source in scene.sources]

    def run(notes: RejectionLog) -> Program[tuple[GeneratedPrompt, ...]]:
        generated: list[GeneratedPrompt] = []
        for category in scene.categories:
            try:
                generated.append(
                    (yield from _ask_for_prompt(notes, scene, category, images, generated, prompt_templates, seed))
                )
            except ConstructionRejected as error:
                notes.add("rejected", f"{category.name}: {error}")
        return tuple(generated)

    return run


def _ask_for_prompt(
    notes: RejectionLog,
    scene: SourceSet,
    category: Category,
    images: Sequence[Image],
    previous: Sequence[GeneratedPrompt],
    prompt_templates: Prompts,
    seed: int,
) -> Program[GeneratedPrompt]:
    prompt = prompt_templates.render(
        "i2ibench_multi" if category.multi else "i2ibench_single",
        count=str(len(images)),
        task=prompt_templates.render(f"i2ibench_{category.name.replace('-', '_')}"),
        taken="\n".join(f"  {earlier.instruction}" for earlier in previous) or "  (none so far)",
        dimensions="\n".join(f"- {dimension.title}: {dimension.meaning}" for dimension in dimension_choices(category)),
    )
    used_instructions = [earlier.instruction.casefold() for earlier in previous]
    stage = f"i2ibench/{category.name}"
    return (
        yield from ask_until_valid(
            notes,
            stage,
            prompt,
            labelled_images(images),
            lambda text: parse_prompt_reply(text, scene, category, used_instructions),
            temperature=TEMPERATURE,
            max_tokens=1024,
            slots={"scene": scene.name, "category": category.name},
            seed=seed,
        )
    )


def _copy_source(source: NumberedImage, out: Path) -> None:
    """Copy the file unchanged: readers see the same image as the judge."""
    path = out / IMAGES_SLOT / source.name
    if not path.is_file():
        path.parent.mkdir(exist_ok=True)
        with atomic_replacement(path) as temporary:
            shutil.copyfile(source.path, temporary)
