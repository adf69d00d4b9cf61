"""`bench build i2ibench`: a suite of prompts for a user's images, with any judge. The paper's is not published.

Of each scene of one image or several, the judge writes a prompt of each of the half's five categories with its
dimensions (sections 3.1 and 3.2). Dimensions that the paper scores on all prompts of a half apply to all; the others if
the judge names them, to at most the paper's share of prompts (appendix D, tables 4 and 5).
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

from ....reward import Expert, Image, Program
from ....reward.atomic_files import atomic_replacement
from ....reward.metrics.i2ibench.dimensions import DIMENSIONS, Dimension, labelled_images
from ....reward.queries.parsing import shorten
from ....reward.queries.prompts import Prompts
from ...common.errors import InputError
from ..construction.reply_rules import TEXT, parse_fields, parse_sentence
from ..construction.workspace import (
    ConstructionFolder,
    ConstructionRejected,
    ConstructionReport,
    NumberedImage,
    RejectionLog,
    ask_until_valid,
    list_numbered_images,
    load_prompts,
    open_image,
)
from .reader import CATEGORIES, PROMPTS_FILE, Category

MULTI_SOURCES = (2, 3)
"""Numbers of images of scenes of several."""
PAPER_SCENES = 100
"""Default scenes per half, as in the paper, if there are enough images."""


@dataclass(frozen=True, slots=True)
class SourceSet:
    """A scene of five prompts. sources: its images, one or several, in order."""

    name: str
    sources: tuple[NumberedImage, ...]

    @property
    def categories(self) -> list[Category]:
        """The categories of its half."""
        return [category for category in CATEGORIES.values() if category.multi == (len(self.sources) > 1)]


def sample_scenes(
    images: Sequence[NumberedImage], single: int | None, multi: int | None, sources: Sequence[int], seed: int
) -> list[SourceSet]:
    """Sample scenes of one image (`single`) and of several (`multi`); None for up to `PAPER_SCENES`. sources: numbers
    of images of multi-image scenes, in turn. No two scenes have the same images. Raises `InputError` if there are too
    few images."""
    names = [image.name for image in images]
    if len(set(names)) < len(names):
        raise InputError("two images have the same name: rename one")
    if not sources or min(sources) < 2:
        raise InputError(f"a multi-image scene has at least 2 images, got {list(sources)}")
    sizes = sorted({size for size in sources if size <= len(images)})
    max_sets = sum(comb(len(images), size) for size in sizes)
    num_single = _scene_count("single", single, len(images), len(images))
    num_multi = _scene_count("multi", multi, max_sets, len(images))
    if not num_single + num_multi:
        raise InputError("there is nothing to construct: give single or multi")
    rng = random.Random(f"i2ibench {seed}")
    single_images = rng.sample(list(images), num_single)
    scenes = [SourceSet(f"s{number:04}", (image,)) for number, image in enumerate(single_images)]
    return scenes + [
        SourceSet(f"m{number:04}", image_set)
        for number, image_set in enumerate(_sample_sets(rng, images, sizes, num_multi))
    ]


def _scene_count(half: str, requested: int | None, maximum: int, num_images: int) -> int:
    if requested is not None and not 0 <= requested <= maximum:
        raise InputError(f"{half} is 0 to {maximum} scenes with {num_images} images, got {requested}")
    return min(PAPER_SCENES, maximum) if requested is None else requested


def _sample_sets(
    rng: random.Random, images: Sequence[NumberedImage], sizes: Sequence[int], count: int
) -> Iterator[tuple[NumberedImage, ...]]:
    """Distinct sets of images, sizes in turn; if random sampling repeats sets, from the unused ones."""
    used: set[frozenset[str]] = set()
    all_sets: list[tuple[NumberedImage, ...]] | None = None
    for number in range(count):
        size = sizes[number % len(sizes)]
        for _ in range(50):
            image_set = tuple(rng.sample(list(images), size))
            if frozenset(image.name for image in image_set) not in used:
                break
        else:
            if all_sets is None:
                all_sets = [image_set for size in sizes for image_set in combinations(images, size)]
            unused = [image_set for image_set in all_sets if frozenset(image.name for image in image_set) not in used]
            image_set = rng.choice(unused)
        used.add(frozenset(image.name for image in image_set))
        yield image_set


PAPER_PROMPTS = 500
"""Prompts of a half in the paper: the base of its quotas."""
IMAGES_SLOT = "images"

_OPTIONAL_TEXT = {"anyOf": [TEXT, {"type": "null"}]}
_PROPERTIES = {"instruction": TEXT, "target_text": _OPTIONAL_TEXT, "hint": _OPTIONAL_TEXT}
_SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {**_PROPERTIES, "dimensions": {"type": "array", "items": TEXT}},
        "required": ["instruction", "dimensions"],
    }
)
_CATEGORY_DIMENSIONS: Mapping[str, Sequence[str]] = {
    "object-manipulation": ("object-manipulation",),
    "hybrid-editing": ("object-manipulation",),
    "text-rendering": ("text-content-style",),
    "world-knowledge": ("world-knowledge",),
    "combination-text-rendering": ("multi-text-content-style",),
    "combination-editing-text": ("multi-text-content-style",),
    "combination-reasoning": ("multi-world-knowledge",),
}
"""Fixed dimensions of a category's prompts, besides the common ones."""


@dataclass(frozen=True, slots=True)
class GeneratedPrompt:
    """A prompt written by the judge. dimensions: fixed ones of the category and named ones, without the common ones."""

    scene: SourceSet
    category: Category
    instruction: str
    target_text: str
    hint: str
    dimensions: tuple[str, ...]

    @property
    def id(self) -> str:
        return f"{self.scene.name}-{self.category.name}"

    def row(self) -> dict[str, Any]:
        """A line of `prompts.jsonl`."""
        names = [*_common(multi=self.category.multi), *self.dimensions]
        return {
            "id": self.id,
            "category": self.category.name,
            "scene": self.scene.name,
            "sources": [f"{IMAGES_SLOT}/{picture.name}" for picture in self.scene.sources],
            "instruction": self.instruction,
            **({"target_text": self.target_text} if self.target_text else {}),
            **({"hint": self.hint} if self.hint else {}),
            "dimensions": [name.removeprefix("multi-") for name in DIMENSIONS if name in names],
        }


def parse_prompt_reply(
    reply: str, scene: SourceSet, category: Category, used_instructions: Sequence[str] = ()
) -> GeneratedPrompt:
    """Parse a prompt from a judge's reply. Raises ValueError with the reason if it is invalid."""
    row = parse_fields(_SCHEMA, reply)
    instruction = parse_sentence(row["instruction"])
    if instruction.casefold() in used_instructions:
        raise ValueError(f"it repeats another prompt of this scene: {shorten(instruction)}")
    if category.multi:
        missing = [
            number for number in range(1, len(scene.sources) + 1) if f"picture {number}" not in instruction.lower()
        ]
        if missing:
            raise ValueError(f"it does not mention picture {missing[0]}: {shorten(instruction)}")
    text, hint = ((row.get(name) or "").strip() for name in ("target_text", "hint"))
    if category.text and not text:
        raise ValueError("it has no text to render")
    if category.text and text.casefold() not in instruction.casefold():
        raise ValueError(f"its instruction does not quote {shorten(text)}")
    if category.hint and not hint:
        raise ValueError("it has no hint for grading")
    named_dimensions = []
    for name in row["dimensions"]:
        dimension = next((choice for choice in dimension_choices(category) if choice.is_called(name)), None)
        if dimension is None:
            raise ValueError(f"{shorten(name)} is none of the dimensions to choose from")
        named_dimensions.append(dimension.name)
    category_dimensions = _CATEGORY_DIMENSIONS.get(category.name, ())
    if category.name == "local-editing" and not {"local-attribute", "action-state-change"} & set(named_dimensions):
        raise ValueError("it names neither a changed attribute nor a changed action or state")
    names = tuple(name for name in DIMENSIONS if name in (*category_dimensions, *named_dimensions))
    return GeneratedPrompt(
        scene, category, instruction, text if category.text else "", hint if category.hint else "", names
    )


def _common(*, multi: bool) -> list[str]:
    """Common dimensions of a half: those that the paper scores on all 500 prompts."""
    return [
        name for name, dimension in DIMENSIONS.items() if dimension.multi == multi and dimension.quota == PAPER_PROMPTS
    ]


def dimension_choices(category: Category) -> list[Dimension]:
    """Dimensions for the judge to choose from: those of some prompts only, not fixed by the category."""
    decided = {name for names in _CATEGORY_DIMENSIONS.values() for name in names if DIMENSIONS[name].required_field}
    category_dimensions = _CATEGORY_DIMENSIONS.get(category.name, ())
    return [
        dimension
        for name, dimension in DIMENSIONS.items()
        if dimension.multi == category.multi
        and dimension.in_overall
        and dimension.quota != PAPER_PROMPTS
        and name not in (*decided, *category_dimensions)
    ]


# -- quotas -----------------------------------------------------------------------------------------------------------


def apply_quotas(prompts: Sequence[GeneratedPrompt], seed: int) -> list[GeneratedPrompt]:
    """Remove dimensions from randomly chosen prompts, where a larger share of a half has one than in the paper. Fixed
    dimensions of a category are kept."""
    selected = list(prompts)
    for name, dimension in DIMENSIONS.items():
        half = [number for number, prompt in enumerate(selected) if prompt.category.multi == dimension.multi]
        with_dimension = [number for number in half if name in selected[number].dimensions]
        quota = round((dimension.quota or 0) * len(half) / PAPER_PROMPTS)
        removable = [number for number in with_dimension if name not in _fixed_dimensions(selected[number])]
        random.Random(f"i2ibench quota {seed} {name}").shuffle(removable)
        for number in removable[: max(0, len(with_dimension) - quota)]:
            remaining = tuple(other_name for other_name in selected[number].dimensions if other_name != name)
            selected[number] = replace(selected[number], dimensions=remaining)
    return selected


def _fixed_dimensions(prompt: GeneratedPrompt) -> set[str]:
    """Dimensions that a prompt keeps: its category's own, and of local editing the last one about its edit."""
    fixed = set(_CATEGORY_DIMENSIONS.get(prompt.category.name, ()))
    if prompt.category.name == "local-editing":
        edits = [name for name in ("local-attribute", "action-state-change") if name in prompt.dimensions]
        fixed |= set(edits if len(edits) == 1 else ())
    return fixed


def dimension_counts(generated: Iterable[GeneratedPrompt]) -> dict[str, dict[str, int]]:
    """By dimension: number of prompts with it, and the number by the paper's quota."""
    prompts = list(generated)
    counts = {}
    for name, dimension in DIMENSIONS.items():
        half = [prompt for prompt in prompts if prompt.category.multi == dimension.multi]
        if half and dimension.quota is not None:
            is_common = dimension.quota == PAPER_PROMPTS
            num_prompts = len(half) if is_common else sum(name in prompt.dimensions for prompt in half)
            counts[name] = {"prompts": num_prompts, "quota": round(dimension.quota * len(half) / PAPER_PROMPTS)}
    return counts


TEMPERATURE = 0.9
"""Of the judge: high enough for different prompts of similar images. Our choice; not specified in the paper."""


def construct_suite(
    images: Path,
    out: Path,
    *,
    judge: Expert,
    single: int | None = None,
    multi: int | None = None,
    seed: int = 0,
    prompts: str | None = None,
    window: int = 64,
    step: Callable[[], None] = lambda: None,
) -> ConstructionReport:
    """Construct a suite from a folder of images: `prompts.jsonl`, `images/`, and `rejections.jsonl`.

    single, multi: scenes of each half, five prompts each; by default 100, or as many as the images allow. seed: of the
    drawn scenes, and of the judge's samples. step: called after each scene. The same call resumes, without repeating
    queries. Raises `InputError`.
    """
    prompt_templates = load_prompts(prompts)
    scenes = sample_scenes(list_numbered_images(images), single, multi, MULTI_SOURCES, seed)
    images_by_name = {source.name: open_image(source.path) for scene in scenes for source in scene.sources}
    settings = {
        "suite": "i2ibench",
        "seed": seed,
        "scenes": {scene.name: [source.name for source in scene.sources] for scene in scenes},
        "quotas": True,
        "prompts": prompt_templates.digest,
        "experts": {"judge": judge.id},
        "images": {name: image.digest for name, image in images_by_name.items()},
    }
    folder = ConstructionFolder(out, settings)
    programs = ((scene.name, _scene_program(scene, images_by_name, prompt_templates, seed)) for scene in scenes)
    constructed = folder.run(programs, {"judge": judge}, window=window, step=step)
    generated = [prompt for scene_prompts in constructed.values.values() for prompt in scene_prompts]
    selected = apply_quotas(generated, seed)
    (out / IMAGES_SLOT).mkdir(exist_ok=True)
    for source in {source.name: source for scene in scenes for source in scene.sources}.values():
        if not (path := out / IMAGES_SLOT / source.name).is_file():
            with atomic_replacement(path) as temporary:
                shutil.copyfile(source.path, temporary)  # unchanged: readers see what the judge saw
    path = folder.write_jsonl(PROMPTS_FILE, (prompt.row() for prompt in selected))
    failed = constructed.failures
    num_rejected = sum(len(scene.categories) for scene in scenes if scene.name not in failed) - len(generated)
    stats = {**constructed.stats, "dimensions": dimension_counts(selected)}
    return ConstructionReport(len(selected), num_rejected, failed, (path, out / IMAGES_SLOT), stats)


# -- prompts ----------------------------------------------------------------------------------------------------------


def _scene_program(
    scene: SourceSet, images_by_name: Mapping[str, Image], prompt_templates: Prompts, seed: int
) -> Callable[[RejectionLog], Program[tuple[GeneratedPrompt, ...]]]:
    """A prompt of each category, sequentially, so that none repeats another. Rejections are recorded."""
    images = labelled_images([images_by_name[source.name] for source in scene.sources])

    def ask_for(category: Category, notes: RejectionLog, previous: Sequence[str]) -> Program[GeneratedPrompt]:
        choices = dimension_choices(category)
        prompt = prompt_templates.render(
            "i2ibench_multi" if category.multi else "i2ibench_single",
            count=str(len(scene.sources)),
            task=prompt_templates.render(f"i2ibench_{category.name.replace('-', '_')}"),
            taken="\n".join(f"  {instruction}" for instruction in previous) or "  (none so far)",
            dimensions="\n".join(f"- {dimension.title}: {dimension.meaning}" for dimension in choices),
        )
        used = [instruction.casefold() for instruction in previous]
        parse = partial(parse_prompt_reply, scene=scene, category=category, used_instructions=used)
        slots = {"scene": scene.name, "category": category.name}
        options: dict[str, Any] = {"temperature": TEMPERATURE, "max_tokens": 1024, "slots": slots, "seed": seed}
        return (yield from ask_until_valid(notes, f"i2ibench/{category.name}", prompt, images, parse, **options))

    def run(notes: RejectionLog) -> Program[tuple[GeneratedPrompt, ...]]:
        generated: list[GeneratedPrompt] = []
        for category in scene.categories:
            try:
                instructions = [earlier.instruction for earlier in generated]
                generated.append((yield from ask_for(category, notes, instructions)))
            except ConstructionRejected as error:
                notes.add("rejected", f"{category.name}: {error}")
        return tuple(generated)

    return run
