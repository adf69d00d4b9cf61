"""`bench build edival`: EdiVal-Agent's instruction chains for images, in the layout of the published EdiVal-Bench.

Each instruction of a chain is based on the state that the previous one leaves (section 2.3, Alg. 2).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import PIL.Image
import PIL.ImageOps

from ....reward import Expert, Image, Pools, Program, Task
from ....reward.atomic_files import atomic_replacement, write_atomically
from ....reward.metrics.edival.task_parser import renamed_object, update_pools
from ....reward.queries.prompts import Prompts
from ....reward.sample import TASK_TYPES, TaskType
from ...common.csv_text import csv_text
from ..construction.workspace import (
    PROMPTS,
    ConstructionFolder,
    ConstructionRejected,
    ConstructionReport,
    NumberedImage,
    RejectionLog,
    image_digests,
    open_image,
)
from .construction_tasks import (
    Grounding,
    ListedObject,
    TaskGenerator,
    format_of,
    ground_objects,
    grounding_file,
    instruction_of,
    list_objects,
)
from .reader import COLUMNS, CSV

MAX_COUNT = 10


@dataclass(frozen=True, slots=True)
class ChainTurn:
    """One edit of a chain. pools: after it."""

    task: Task
    pools: Pools


@dataclass(frozen=True, slots=True)
class InstructionChain:
    """The chain of one image. listed_objects: by the judge. grounded_objects: those confirmed by the detector."""

    listed_objects: tuple[ListedObject, ...]
    grounded_objects: tuple[ListedObject, ...]
    turns: tuple[ChainTurn, ...]


@dataclass(frozen=True)
class EdiValAgent:
    """turns: of a chain. counts: allowed target counts of count changes. types: allowed task types. Raises ValueError
    for invalid numbers."""

    turns: int = 3
    seed: int = 0
    counts: tuple[int, ...] = (3, 4, 5)
    types: tuple[TaskType, ...] = TASK_TYPES
    grounding: Grounding = field(default_factory=Grounding)
    prompts: Prompts = PROMPTS

    def __post_init__(self) -> None:
        if self.turns < 1:
            raise ValueError(f"a chain has at least one turn, got {self.turns}")
        if not self.counts or not all(1 <= count <= MAX_COUNT for count in self.counts):
            raise ValueError(f"counts lie between 1 and {MAX_COUNT}, got {list(self.counts)}")
        if not self.types or (unknown := set(self.types) - set(TASK_TYPES)):
            raise ValueError(f"types are some of {', '.join(TASK_TYPES)}, got {sorted(unknown) or 'none'}")

    def program(self, image: Image) -> Callable[[RejectionLog], Program[InstructionChain]]:
        """The program that constructs a chain for an image; deterministic for image, seed and replies."""

        def run(notes: RejectionLog) -> Program[InstructionChain]:
            listed = yield from list_objects(notes, image, self.prompts)
            grounded = yield from ground_objects(notes, image, listed, self.grounding)
            turns = yield from self._turns(notes, image, grounded)
            return InstructionChain(listed, grounded, turns)

        return run

    def _turns(
        self, notes: RejectionLog, image: Image, objects: Sequence[ListedObject]
    ) -> Program[tuple[ChainTurn, ...]]:
        rng = Random(f"{self.seed} {image.digest}")  # depends on this image only
        names = tuple(obj.name for obj in objects)
        state = ChainState(Pools(names, names, names), {obj.name: obj for obj in objects})
        used: set[TaskType] = set()
        turns: list[ChainTurn] = []
        for number in range(1, self.turns + 1):
            generator = TaskGenerator(notes, image, self.prompts, rng, self.counts)
            task_type = self._type(rng, used, state)
            used.add(task_type)
            try:
                task = yield from generator.generate(task_type, state.available, state.pools.all)
            except ConstructionRejected as error:
                raise ConstructionRejected(f"turn {number}, {task_type}: {error}") from None
            state = state.apply(task)
            turns.append(ChainTurn(task, state.pools))
        return tuple(turns)

    def _type(self, rng: Random, used: set[TaskType], state: ChainState) -> TaskType:
        """`subject_add` without editable objects (section 2.3); else a sampled type that is new in the chain (any, once
        all are used), or `subject_add`, used or not, if that is infeasible (algorithm 2, line 6).

        The published file has 23 turns with no editable object before them: 19 add one, 4 change the background.
        """
        if not state.available:
            return "subject_add"
        if used.issuperset(self.types):
            used.clear()
        sampled = rng.choice([task_type for task_type in self.types if task_type not in used])
        return sampled if is_feasible(sampled, state.available, self.counts) else "subject_add"


@dataclass(frozen=True, slots=True)
class ChainState:
    """The state of a chain. objects: attributes of each editable object."""

    pools: Pools
    objects: Mapping[str, ListedObject]

    @property
    def available(self) -> tuple[ListedObject, ...]:
        return tuple(self.objects[name] for name in self.pools.available)

    def apply(self, task: Task) -> ChainState:
        """The state after an edit: pools by the rules of the published file, and updated attributes of the object."""
        pools = update_pools(self.pools, task)
        objects = dict(self.objects)
        target = objects.get(task.object or "")
        match task.type:
            case "subject_add" if task.new is not None:
                objects[task.new] = ListedObject(task.new, task.new)
            case "subject_replace" if task.new is not None and target is not None:
                objects[task.new] = ListedObject(task.new, task.new, foreground=target.foreground, count=target.count)
            case "color_alter" if target is not None:
                objects[renamed_object(task)] = replace(target, name=renamed_object(task), color=task.value)
            case "material_alter" if target is not None:
                objects[renamed_object(task)] = replace(target, name=renamed_object(task), material=task.value)
            case "count_change" if target is not None and task.count is not None:
                objects[target.name] = replace(target, count=task.count)
            case "text_change" if target is not None:
                objects[target.name] = replace(target, text=task.text)
        return ChainState(pools, objects)


def is_feasible(task_type: TaskType, available: Sequence[ListedObject], counts: Sequence[int]) -> bool:
    """Whether an edit of that type is possible with these objects."""
    match task_type:
        case "subject_add" | "background_change" | "text_change":
            return True
        case "position_change":
            return len(available) >= 2
        case "count_change":
            return any(count != obj.count for obj in available for count in counts)
        case _:
            return bool(available)


PICTURES = "input_images_resize_512"
GROUNDING = "grounding_all_objects"
IMAGE_SIDE = 512


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
    """Construct chains for images. Writes the CSV with the published columns, the images (`{index}_input_raw.jpg`, 512
    x 512), a JSON file per image with the grounded objects in the authors' format, and `rejections.jsonl`. Raises
    `InputError`."""
    sources = [(numbered_image, open_image(numbered_image.path)) for numbered_image in numbered_images]
    folder = ConstructionFolder(
        out, {**_construction_settings(agent, judge, detector), "images": image_digests(sources)}
    )
    images = {numbered_image.index: _save_image(out, numbered_image, image) for numbered_image, image in sources}
    programs = ((str(index), agent.program(image)) for index, image in images.items())
    constructed = folder.run(programs, {"judge": judge, "detector": detector}, window=window, step=step)
    chains = {int(name): chain for name, chain in constructed.values.items()}
    for index, chain in chains.items():
        text = json.dumps(
            grounding_file(index, chain.grounded_objects, chain.listed_objects), indent=2, ensure_ascii=False
        )
        (out / GROUNDING).mkdir(exist_ok=True)
        write_atomically(out / GROUNDING / f"{index}_input_raw.json", text + "\n")
    path = write_atomically(out / CSV, instruction_csv(chains))
    return constructed.report(path, out / PICTURES, out / GROUNDING)


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
    """The image as saved to the file: the judge sees what readers will see. One that is not square has black bars along
    two sides, as the paper's have (appendix P)."""
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
            tasks, pools = [earlier.task for earlier in chain.turns[:number]], turn.pools
            formats = [format_of(task) for task in tasks]
            yield [
                index,
                number,
                [task.type for task in tasks],
                [instruction_of(task, form) for task, form in zip(tasks, formats, strict=True)],
                formats,
                pools.background,
                list(pools.unchanged),
                list(pools.available),
                list(pools.all),
            ]
