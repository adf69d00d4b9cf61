"""EdiVal's published layout, written small: SceneEdit pictures in its zip, their chains in its instruction file."""

import csv
import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.suites.edival.construction_tasks import format_of
from editcritic.benchmarks.suites.edival.reader import COLUMNS, CSV
from editcritic.reward import EditSample, Image
from editcritic.reward.metrics.edival.task_parser import pools_of, task_of
from editcritic.reward.sample import Task

ZIP = "input_images_resize_512.zip"


def chains(count: int) -> list[tuple[EditSample, ...]]:
    """Chains of three turns with what SceneEdit's editors made of them; numbers go 0, 1, 3, 4, ... with a gap."""
    return [case.sample.turns for case in cases(count, seed=11, turns=3, small_share=0.0)]


def index_of(number: int) -> int:
    return number if number < 2 else number + 1


def write_data(folder: Path, chained: Sequence[tuple[EditSample, ...]], *, nested: str = "input_images/512/") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / CSV).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for number, turns in enumerate(chained):
            for turn in range(1, 4):
                writer.writerow(row_of(index_of(number), turns[:turn]))
    with zipfile.ZipFile(folder / ZIP, "w") as archive:
        for number, turns in enumerate(chained):
            archive.writestr(f"{nested}{index_of(number)}_input_raw.png", png(turns[0].source))
            archive.writestr(f"__MACOSX/{nested}._{index_of(number)}_input_raw.png", b"resource fork")
    return folder


def row_of(index: int, turns: Sequence[EditSample]) -> list[object]:
    pools = pools_of(turns[-1])
    assert pools is not None
    tasks = [task_of(turn) for turn in turns]
    instructions = [quoted(turn.instruction, task) for turn, task in zip(turns, tasks, strict=True)]
    types = [task.type for task in tasks if task]
    formats = [quoted(format_of(task), task) for task in tasks if task]
    lists = [list(pool) for pool in (pools.unchanged, pools.available, pools.all)]
    return [index, len(turns), types, instructions, formats, pools.background, *lists]


def quoted(sentence: str, task: Task | None) -> str:
    """Many counting instructions are published with literal double quotes around them."""
    return f'"{sentence}"' if task is not None and task.type == "count_change" else sentence


def write_outputs(folder: Path, chained: Sequence[tuple[EditSample, ...]], mode: str = "multipass") -> Path:
    """What an editor made, in the published layout: the base as JPEG, the turns as PNG."""
    (folder / mode).mkdir(parents=True, exist_ok=True)
    for number, turns in enumerate(chained):
        stem = folder / mode / f"{index_of(number)}_input_raw"
        turns[0].source.pil().save(f"{stem}.jpg")
        for turn, sample in enumerate(turns, start=1):
            sample.edited.pil().save(f"{stem}_turn_{turn}.png")
    return folder


def png(image: Image) -> bytes:
    held = io.BytesIO()
    image.pil().save(held, "PNG")
    return held.getvalue()
