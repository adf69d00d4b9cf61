"""`bench make edival`: instruction chains for pictures, in the layout of the published EdiVal-Bench."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...reward import Engine, Expert, Image
from ...reward.stats import Stats
from .asking import Made, make_all
from .edival_chain import Agent, Chain
from .edival_objects import grounding_file
from .given import Folder, Picture, digests, opened, write_whole, written
from .outcome import Outcome

CSV = "oai_instruction_generation_output.csv"
PICTURES = "input_images_resize_512"
GROUNDING = "grounding_all_objects"
SIDE = 512
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


def make(
    given: Iterable[Picture],
    out: Path,
    agent: Agent,
    *,
    judge: Expert,
    detector: Expert,
    step: Callable[[], None] = lambda: None,
    window: int = 64,
) -> Outcome:
    """Make chains of pictures.

    Writes the CSV of the published columns, the pictures (`{index}_input_raw.jpg`, 512 x 512), a JSON file a picture
    with the grounded objects, as the authors' tools keep them, and `rejects.jsonl`. Raises `InputError`.
    """
    sources = [(picture, opened(picture.path)) for picture in given]
    folder = Folder(out, {**_asked(agent, judge, detector), "pictures": digests(sources)})
    images = {picture.index: _kept(out, picture, image) for picture, image in sources}
    with folder.log() as log, Engine(log=log, window=window) as engine:
        programs = ((str(index), agent.program(image)) for index, image in images.items())
        found: list[Made[Chain]] = []
        for one in make_all(programs, engine, {"judge": judge, "detector": detector}):
            found.append(one)
            step()
        stats = engine.stats().since(Stats())
    folder.rejects(reject for one in found for reject in one.rejects)
    chains = {int(one.id): one.value for one in found if one.value is not None}
    for index, chain in chains.items():
        text = json.dumps(grounding_file(index, chain.things, chain.listed), indent=2, ensure_ascii=False)
        write_whole(out / GROUNDING / f"{index}_input_raw.json", text + "\n")
    path = write_whole(out / CSV, table(chains))
    failed = {one.id: one.failed for one in found if one.failed}
    files = (path, out / PICTURES, out / GROUNDING)
    return Outcome(len(chains), len(found) - len(chains) - len(failed), failed, files, stats)


def _asked(agent: Agent, judge: Expert, detector: Expert) -> dict[str, Any]:
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


def _kept(out: Path, picture: Picture, image: Image) -> Image:
    """The picture as the file has it: what is asked about is what readers will see."""
    place = out / PICTURES / f"{picture.index}_input_raw.jpg"
    if not place.is_file():
        small = image.resized(SIDE, SIDE).pil()
        written(place, lambda half: small.save(half, "JPEG", quality=95, subsampling=0))
    return opened(place)


def table(chains: Mapping[int, Chain]) -> str:
    """The CSV: a row a turn; lists hold what there is up to that turn."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_rows(chains))
    return out.getvalue()


def _rows(chains: Mapping[int, Chain]) -> Iterator[list[object]]:
    for index, chain in sorted(chains.items()):
        for number, turn in enumerate(chain.turns, start=1):
            until = chain.turns[:number]
            pools = turn.pools
            yield [
                index,
                number,
                [one.task.type for one in until],
                [one.instruction for one in until],
                [one.format for one in until],
                pools.background,
                list(pools.unchanged),
                list(pools.available),
                list(pools.all),
            ]
