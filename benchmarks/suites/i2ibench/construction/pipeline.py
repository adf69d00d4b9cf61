"""`bench prepare i2ibench`: a suite of prompts for one's own pictures, with any judge. The paper's is not published.

Scenes of one picture and of several; for each scene a prompt of each of the half's five categories, written by the
judge together with what a result can be graded by (sections 3.1 and 3.2).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ....reward import AnswerLog, Asks, Engine, Expert, Image
from ....reward.i2ibench.dimension import shown
from ....reward.prompts import Prompts
from ....reward.stats import Stats
from ...making.asking import Made, Notes, Rejected, insist, make_all
from ...making.given import Folder, Picture, opened, pack_of, pictures, written
from ...making.outcome import Outcome
from .categories import Category
from .drafts import IMAGES, Written, choices, counted, read, within_quotas
from .reading import PROMPTS
from .scenes import Scene, drawn_scenes

TEMPERATURE = 0.9
"""Of the judge: high enough that scenes of like pictures get unlike prompts. Ours; the paper says nothing of it."""


def prepare(
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
) -> Outcome:
    """Make a suite of a folder of pictures.

    single, multi: scenes of each half, five prompts each; by default 100, or as many as the pictures allow. sources:
    how many pictures a scene of several may have. seed: of which pictures, and of what the judge draws. quotas: a
    dimension that more prompts have than in the paper is taken from some of them. prompts: a prompt pack. log: where
    answers are kept, a file in `out` by default. step: after each scene.

    Writes `prompts.jsonl` and `images/`, which `I2IBench` reads, and `rejects.jsonl`: each answer that could not be
    used and each prompt given up, with the reason. The same call again goes on where the last one ended, and asks
    nothing twice. Raises `InputError`.
    """
    words = pack_of(prompts)
    scenes = drawn_scenes(pictures(images), single, multi, sources, seed)
    seen = {picture.name: opened(picture.path) for scene in scenes for picture in scene.sources}
    asked = {
        "suite": "i2ibench",
        "seed": seed,
        "scenes": {scene.name: [picture.name for picture in scene.sources] for scene in scenes},
        "quotas": quotas,
        "prompts": words.digest,
        "experts": {"judge": judge.id},
        "pictures": {name: image.digest for name, image in seen.items()},
    }
    folder = Folder(out, asked)
    with folder.log() if log is None else nullcontext(log) as answers, Engine(log=answers, window=window) as engine:
        programs = ((scene.name, _program(scene, seen, words, seed)) for scene in scenes)
        found: list[Made[tuple[Written, ...]]] = []
        for one in make_all(programs, engine, {"judge": judge}):
            found.append(one)
            step()
        stats: dict[str, Any] = engine.stats().since(Stats())
    folder.rejects(reject for one in found for reject in one.rejects)
    made = [prompt for one in found for prompt in one.value or ()]
    kept = within_quotas(made, seed) if quotas else made
    for picture in {picture.name: picture for scene in scenes for picture in scene.sources}.values():
        _copied(picture, out)
    path = folder.lines(PROMPTS, (prompt.row() for prompt in kept))
    failed = {one.id: one.failed for one in found if one.failed}
    given_up = sum(len(scene.categories) for scene in scenes if scene.name not in failed) - len(made)
    return Outcome(len(kept), given_up, failed, (path, out / IMAGES), {**stats, "dimensions": counted(kept)})


# -- prompts ----------------------------------------------------------------------------------------------------------


def _program(
    scene: Scene, seen: Mapping[str, Image], words: Prompts, seed: int
) -> Callable[[Notes], Asks[tuple[Written, ...]]]:
    """A prompt of each category, one after the other, so that none repeats another. What is given up is noted."""
    images = [seen[picture.name] for picture in scene.sources]

    def make(notes: Notes) -> Asks[tuple[Written, ...]]:
        found: list[Written] = []
        for category in scene.categories:
            try:
                found.append((yield from _asked(notes, scene, category, images, found, words, seed)))
            except Rejected as error:
                notes.note("given up", f"{category.name}: {error}")
        return tuple(found)

    return make


def _asked(
    notes: Notes,
    scene: Scene,
    category: Category,
    images: Sequence[Image],
    before: Sequence[Written],
    words: Prompts,
    seed: int,
) -> Asks[Written]:
    said = words.render(
        "i2ibench_multi" if category.multi else "i2ibench_single",
        count=str(len(images)),
        task=words.render(f"i2ibench_{category.name.replace('-', '_')}"),
        taken="\n".join(f"  {one.instruction}" for one in before) or "  (none so far)",
        dimensions="\n".join(f"- {one.title}: {one.meaning}" for one in choices(category)),
    )
    taken = [one.instruction.casefold() for one in before]
    stage = f"i2ibench/{category.name}"
    return (
        yield from insist(
            notes,
            stage,
            said,
            shown(images),
            lambda text: read(text, scene, category, taken),
            temperature=TEMPERATURE,
            max_tokens=1024,
            slots={"scene": scene.name, "category": category.name},
            seed=seed,
        )
    )


def _copied(picture: Picture, out: Path) -> None:
    """The file as it is: what readers will see is what the judge saw."""
    place = out / IMAGES / picture.name
    if not place.is_file():
        written(place, lambda half: shutil.copyfile(picture.path, half))
