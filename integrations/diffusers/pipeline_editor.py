"""Editors that are diffusers pipelines, and editors that are functions.

`editor_of(pipeline)` makes one of either. Pipelines are called as they are, one call at a time, and keep what they had:
their progress bar, their methods, torch's global random numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...reward import EditSample, Image
from ...verifiers.editor import Draft, Editor, Noise
from .calls import Calls
from .families import FAMILIES, Family, family_of
from .naming import name_of
from .stepping import Piece, gone_back, seeded, started


def editor_of(
    made_of: Any,
    *,
    batch: int = 8,
    id: str = "",  # noqa: A002  (the field's name)
    family: Family | None = None,
    batched: bool = False,
    **settings: Any,
) -> Editor:
    """An editor of a diffusers pipeline or of a function.

    A pipeline: `settings` go into each of its calls (`num_inference_steps`, `guidance_scale`, …). `family`: how to call
    one that is not among `families.FAMILIES`. Where its solver can stop half-way (`stepping.SCHEDULERS`) the result is
    a `StepwiseEditor`, else an editor of whole pictures. Make it once the pipeline has its adapters and its scheduler.

    A function: `f(image, instruction, seed) -> picture`, or with `batched` the same with three lists, giving a list of
    at most `batch` pictures. An image is a PIL image, or a list of them where a sample has several sources; a picture
    is anything `Image.of` takes. Earlier turns are not handed over.

    id: names the editor in journals; made of all that its pictures depend on where it is not given, a function by its
    module and name. Raises ValueError for what cannot be called as an editor.
    """
    if batch < 1:
        raise ValueError(f"a batch is one picture or more, got {batch}")
    kinds = [kind.__name__ for kind in type(made_of).__mro__]
    family = family or family_of(made_of)
    if family is not None:
        if batched:
            raise ValueError("a pipeline's family says what a call holds: `batched` is for functions")
        calls = Calls(made_of, family, batch, settings)
        name = id or name_of(made_of, settings)
        return WholeEditor(name, calls, calls.whole) if calls.whole else DiffusersEditor(name, calls)
    if "DiffusionPipeline" in kinds:
        raise ValueError(_unknown(made_of))
    if not callable(made_of):
        raise ValueError(f"an editor is made of a diffusers pipeline or of a function, got {type(made_of).__name__}")
    if settings:
        raise ValueError(f"a function takes no settings, got {', '.join(settings)}: bind them to it beforehand")
    return FunctionEditor(made_of, name=id, batch=batch, batched=batched)


class DiffusersEditor:
    """A pipeline that can stop after any step: a `StepwiseEditor`. Made by `editor_of`.

    A candidate's noise is drawn on the CPU from its own seed, so that neither its batch companions nor the device
    decide on it.
    """

    def __init__(self, name: str, calls: Calls) -> None:
        self.id = name
        self.evaluations = calls.evaluations
        self.batch = calls.batch
        self._calls = calls

    def edit(
        self,
        images: Sequence[tuple[Image, ...]],
        instructions: Sequence[str],
        seeds: Sequence[int],
        *,
        history: Sequence[tuple[EditSample, ...]] | None = None,
    ) -> list[Image]:
        """See `Editor.edit`."""
        drafts = self.begin(images, instructions, [Noise(seed) for seed in seeds], history=history)
        return [picture for _, picture in self.advance(drafts, self.evaluations)]

    def begin(
        self,
        images: Sequence[tuple[Image, ...]],
        instructions: Sequence[str],
        noises: Sequence[Noise],
        *,
        history: Sequence[tuple[EditSample, ...]] | None = None,
    ) -> list[Draft]:
        """See `StepwiseEditor.begin`."""
        return _begun(images, instructions, noises, history)

    def advance(self, drafts: Sequence[Draft], until: int) -> list[tuple[Draft, Image]]:
        """See `StepwiseEditor.advance`."""
        if until > self.evaluations:
            raise ValueError(f"a picture takes {self.evaluations} evaluations, and was to go to step {until}")

        def piece(part: Sequence[Draft]) -> list[tuple[Draft, Image]]:
            with Piece(self._calls.pipeline, part, until) as running:
                pictures = self._calls.pictures(part, running.generators)
            self._calls.check(running.evaluations)
            return list(zip(running.drafts, pictures, strict=True))

        return self._calls.each(drafts, piece)

    def back(self, drafts: Sequence[Draft], to: int, seeds: Sequence[int]) -> list[Draft]:
        """See `StepwiseEditor.back`."""
        return [gone_back(draft, to, seed) for draft, seed in zip(drafts, seeds, strict=True)]


class WholeEditor:
    """A pipeline whose pictures are only made in one go; `whole` says why. An `Editor`, made by `editor_of`."""

    def __init__(self, name: str, calls: Calls, whole: str) -> None:
        self.id = name
        self.evaluations = calls.evaluations
        self.batch = calls.batch
        self.whole = whole
        self._calls = calls

    def edit(
        self,
        images: Sequence[tuple[Image, ...]],
        instructions: Sequence[str],
        seeds: Sequence[int],
        *,
        history: Sequence[tuple[EditSample, ...]] | None = None,
    ) -> list[Image]:
        """See `Editor.edit`."""

        def whole(part: Sequence[Draft]) -> list[Image]:
            generators = [torch.Generator().manual_seed(draft.noise.seed) for draft in part]
            with seeded(self._calls.pipeline, generators):
                pictures = self._calls.pictures(part, generators)
            self._calls.check(len(self._calls.pipeline.scheduler.timesteps))
            return pictures

        drafts = _begun(images, instructions, [Noise(seed) for seed in seeds], history)
        return self._calls.each(drafts, whole)

    def __getattr__(self, name: str) -> Any:
        # Not methods that raise: whoever looks for them is to see that they are not there.
        if name in ("begin", "advance", "back"):
            raise AttributeError(f"{self.id} makes whole pictures only: {self.whole}")
        raise AttributeError(f"{type(self).__name__} has no {name!r}")


class FunctionEditor:
    """A function as an `Editor`. Made by `editor_of`."""

    def __init__(self, function: Callable[..., Any], *, name: str, batch: int, batched: bool) -> None:
        self.id = name or f"{function.__module__}:{getattr(function, '__qualname__', type(function).__qualname__)}"
        if "<lambda>" in self.id or "<locals>" in self.id:
            raise ValueError(f"{self.id} names no function that a journal could know again: pass id=")
        self.evaluations = 0
        self.batch = batch
        self._function = function
        self._batched = batched

    def edit(
        self,
        images: Sequence[tuple[Image, ...]],
        instructions: Sequence[str],
        seeds: Sequence[int],
        *,
        history: Sequence[tuple[EditSample, ...]] | None = None,
    ) -> list[Image]:
        """See `Editor.edit`."""
        shown = [row[0].pil() if len(row) == 1 else [image.pil() for image in row] for row in images]
        made: list[Any] = []
        if not self._batched:
            made = [self._function(*item) for item in zip(shown, instructions, seeds, strict=True)]
        else:
            for start in range(0, len(shown), self.batch):
                part = slice(start, start + self.batch)
                made += self._function(shown[part], list(instructions[part]), list(seeds[part]))
        return [Image.of(picture) for picture in made]


def _begun(
    images: Sequence[tuple[Image, ...]],
    instructions: Sequence[str],
    noises: Sequence[Noise],
    history: Sequence[tuple[EditSample, ...]] | None,
) -> list[Draft]:
    return [
        started(tuple(sources), instruction, noise, earlier)
        for sources, instruction, noise, earlier in zip(
            images, instructions, noises, history or [()] * len(noises), strict=True
        )
    ]


def _unknown(pipeline: Any) -> str:
    """Why this pipeline has no family."""
    name = type(pipeline).__name__
    known = ", ".join(one for family in FAMILIES for one in family.pipelines)
    parameters = inspect.signature(type(pipeline).__call__).parameters
    lacking = [one for one in ("image", "prompt") if one not in parameters]
    if lacking:
        return f"{name} edits no picture by words: its call takes no {' and no '.join(lacking)}. Known are {known}"
    return f"{name} is not known as an editor: pass family= to say how it is called. Known are {known}"
