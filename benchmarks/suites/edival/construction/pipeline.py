"""`bench build edival`: instruction chains for images, in the layout of the published EdiVal-Bench."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import PIL.Image
import PIL.ImageOps

from .....reward import Engine, Expert, Image
from .....reward.atomic_files import atomic_replacement, write_atomically
from .....reward.engine.engine_stats import Stats
from ....common.csv_text import csv_text
from ...construction.construction_report import ConstructionReport
from ...construction.validated_replies import ProgramResult, run_programs
from ...construction.workspace import (
    ConstructionFolder,
    NumberedImage,
    image_digests,
    open_image,
)
from .chains import EdiValAgent, InstructionChain
from .objects import grounding_file

CSV = "oai_instruction_generation_output.csv"
PICTURES = "input_images_resize_512"
GROUNDING = "grounding_all_objects"
IMAGE_SIDE = 512
COLUMNS = (
    "image_index",
    "turns",
    "task_type",
    "instructions",
    "format_instructions",
    "bg_consistency",
    "unchanged_objects",
    "available_objects",
    "all_objects",
)


def construct(
    numbered_images: Iterable[NumberedImage],
    out: Path,
    agent: EdiValAgent,
    *,
    judge: Expert,
    detector: Expert,
    step: Callable[[], None] = lambda: None,
    window: int = 64,
) -> ConstructionReport:
    """Construct chains for images.

    Writes the CSV with the published columns, the images (`{index}_input_raw.jpg`, 512 x 512), a JSON file per image
    with the grounded objects in the authors' format, and `rejections.jsonl`. Raises `InputError`.
    """
    sources = [(numbered_image, open_image(numbered_image.path)) for numbered_image in numbered_images]
    folder = ConstructionFolder(
        out, {**_construction_settings(agent, judge, detector), "images": image_digests(sources)}
    )
    images = {numbered_image.index: _save_image(out, numbered_image, image) for numbered_image, image in sources}
    with folder.answer_log() as log, Engine(log=log, window=window) as engine:
        programs = ((str(index), agent.program(image)) for index, image in images.items())
        results: list[ProgramResult[InstructionChain]] = []
        for result in run_programs(programs, engine, {"judge": judge, "detector": detector}):
            results.append(result)
            step()
        stats = engine.stats().since(Stats())
    folder.write_rejections(reject for result in results for reject in result.rejects)
    chains = {int(result.id): result.value for result in results if result.value is not None}
    for index, chain in chains.items():
        text = json.dumps(
            grounding_file(index, chain.grounded_objects, chain.listed_objects), indent=2, ensure_ascii=False
        )
        (out / GROUNDING).mkdir(exist_ok=True)
        write_atomically(out / GROUNDING / f"{index}_input_raw.json", text + "\n")
    path = write_atomically(out / CSV, instruction_csv(chains))
    failed = {result.id: result.failed for result in results if result.failed}
    files = (path, out / PICTURES, out / GROUNDING)
    return ConstructionReport(len(chains), len(results) - len(chains) - len(failed), failed, files, stats)


def _construction_settings(agent: EdiValAgent, judge: Expert, detector: Expert) -> dict[str, Any]:
    grounding = agent.grounding
    return {
        "suite": "edival",
        "seed": agent.seed,
        "turns": agent.turns,
        "counts": list(agent.counts),
        "types": list(agent.types),
        "grounding": [grounding.threshold, grounding.side, grounding.area, grounding.oversized],
        "prompts": agent.prompts.digest,
        "experts": {"judge": judge.id, "detector": detector.id},
    }


def _save_image(out: Path, numbered_image: NumberedImage, image: Image) -> Image:
    """The image as saved to the file: the judge sees what readers will see.

    One that is not square has black bars along two sides, as the paper's have (appendix P).
    """
    path = out / PICTURES / f"{numbered_image.index}_input_raw.jpg"
    if not path.is_file():
        path.parent.mkdir(exist_ok=True)
        with atomic_replacement(path) as temporary:
            padded = PIL.ImageOps.pad(
                image.pil(), (IMAGE_SIDE, IMAGE_SIDE), PIL.Image.Resampling.LANCZOS, color="black"
            )
            padded.save(temporary, "JPEG", quality=95, subsampling=0)
    return open_image(path)


def instruction_csv(chains: Mapping[int, InstructionChain]) -> str:
    """The CSV: one row per turn; lists are cumulative up to that turn."""
    return csv_text([COLUMNS, *_rows(chains)])


def _rows(chains: Mapping[int, InstructionChain]) -> Iterator[list[object]]:
    for index, chain in sorted(chains.items()):
        for number, turn in enumerate(chain.turns, start=1):
            turns_so_far = chain.turns[:number]
            pools = turn.pools
            yield [
                index,
                number,
                [earlier.task.type for earlier in turns_so_far],
                [earlier.instruction for earlier in turns_so_far],
                [earlier.format for earlier in turns_so_far],
                pools.background,
                list(pools.unchanged),
                list(pools.available),
                list(pools.all),
            ]
