"""Editors that are diffusers pipelines, and editors that are functions.

`editor_of(pipeline)` makes one of either. Pipelines are called as they are, one call at a time, and keep what they had:
their progress bar, their methods, torch's global random numbers.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, TypeVar

import numpy as np
import PIL.Image
import torch

from ...reward import EditSample, Image
from ...verifiers.editor import Draft, Editor, Noise
from .families import FAMILIES, Family, family_of
from .stepping import Piece, can_stop, gone_back, seeded, standing_in, started

T = TypeVar("T")

_OURS = (
    *("image", "prompt", "generator", "latents", "num_images_per_prompt", "output_type", "return_dict"),
    *("callback_on_step_end", "callback_on_step_end_tensor_inputs"),
)
"""What the editor passes to a pipeline itself."""

_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
_locking = threading.Lock()


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
        calls = _Calls(made_of, family, batch, settings)
        name = id or calls.id()
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

    def __init__(self, name: str, calls: _Calls) -> None:
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

    def __init__(self, name: str, calls: _Calls, whole: str) -> None:
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


class _Calls:
    """A pipeline, and how it is called."""

    def __init__(self, pipeline: Any, family: Family, batch: int, settings: Mapping[str, Any]) -> None:
        known = inspect.signature(type(pipeline).__call__).parameters
        open_ended = any(one.kind is one.VAR_KEYWORD for one in known.values())
        for name in settings:
            if name in _OURS:
                raise ValueError(f"{name} is what the editor itself passes to {type(pipeline).__name__}: leave it out")
            if name not in known and not open_ended:
                raise ValueError(
                    f"{type(pipeline).__name__} takes no {name}; it takes {', '.join(known.keys() - {'self', *_OURS})}"
                )
        self.pipeline = pipeline
        self.batch = batch
        self._family = family
        self._settings = dict(settings)
        self._call = pipeline if family.call is None else functools.partial(family.call, pipeline)
        self._scheduler = pipeline.scheduler
        self.evaluations = (family.evaluations or _evaluations)(pipeline, settings)
        self.whole = family.whole or can_stop(pipeline)

    def id(self) -> str:
        """All that a picture depends on, besides what is asked for."""
        pipeline = self.pipeline
        settings = json.dumps(self._settings, sort_keys=True, default=_said)
        scheduler = _digest(json.dumps(dict(pipeline.scheduler.config), sort_keys=True, default=str).encode())
        return (
            f"{type(pipeline).__name__} {getattr(pipeline, 'name_or_path', '')} {settings} weights {_weights(pipeline)}"
            f" {type(pipeline.scheduler).__name__} {scheduler} diffusers {version('diffusers')}"
        )

    def each(self, drafts: Sequence[Draft], make: Callable[[list[Draft]], Sequence[T]]) -> list[T]:
        """What `make` makes of as many drafts at a time as a call holds, in the order of all of them."""
        with _locking:
            lock = _locks.setdefault(self.pipeline, threading.RLock())
        found: dict[int, T] = {}
        with lock, standing_in(self.pipeline, "progress_bar", _NoBar):
            if self.pipeline.scheduler is not self._scheduler:
                raise TypeError(
                    f"the scheduler of this {type(self.pipeline).__name__} was replaced by a "
                    f"{type(self.pipeline.scheduler).__name__} after the editor was made: make another editor"
                )
            for rows in self._parts(drafts):
                found |= dict(zip(rows, make([drafts[row] for row in rows]), strict=True))
        return [found[row] for row in range(len(drafts))]

    def pictures(self, drafts: Sequence[Draft], generators: list[torch.Generator]) -> list[Image]:
        """One call of the pipeline, which holds these drafts."""
        asked = drafts if self._family.mixed else drafts[:1]
        said = self._family.arguments(
            self.pipeline, [self._shown(draft) for draft in asked], [one.instruction for one in asked], self._settings
        )
        if len(drafts) > len(asked):
            said["num_images_per_prompt"] = len(drafts)
        # Not in inference mode: weights that are moved meanwhile, as offloading does, could not be trained any more.
        with torch.no_grad():
            made = self._call(**said, generator=generators, output_type="pil").images
        if len(made) != len(drafts):
            raise ValueError(f"{type(self.pipeline).__name__} was asked for {len(drafts)} pictures, made {len(made)}")
        return [Image.of(picture) for picture in made]

    def check(self, evaluations: int) -> None:
        """Raise ValueError where a picture takes something else than was foreseen."""
        if self._family.evaluations is None and evaluations != self.evaluations:
            raise ValueError(
                f"a picture took {evaluations} evaluations, and {self.evaluations} were foreseen: pass "
                f"num_inference_steps as {type(self.pipeline).__name__} understands it"
            )

    def _shown(self, draft: Draft) -> tuple[Image, ...]:
        if len(draft.images) != 1 and not self._family.several:
            raise ValueError(f"{type(self.pipeline).__name__} edits one picture, got {len(draft.images)} sources")
        if not self._family.in_context:
            return draft.images
        earlier = [image for turn in draft.history for image in (*turn.sources, turn.edited)]
        return tuple(dict.fromkeys((*draft.images, *earlier)))

    def _parts(self, drafts: Sequence[Draft]) -> list[list[int]]:
        """The numbers of those that go into one call."""
        together: dict[Any, list[int]] = {}
        for row, draft in enumerate(drafts):
            shown = self._shown(draft)
            if self._family.mixed:
                key: Any = tuple(image.size for image in shown)
            else:
                key = (shown, draft.instruction)
            together.setdefault(key, []).append(row)
        most = self.batch if self._family.mixed or self._family.repeats else 1
        return [rows[at : at + most] for rows in together.values() for at in range(0, len(rows), most)]


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


def _evaluations(pipeline: Any, settings: Mapping[str, Any]) -> int:
    """Of a picture, from the settings or else from the signature of the call."""
    given = settings.get("sigmas") if settings.get("sigmas") is not None else settings.get("timesteps")
    count = settings.get("num_inference_steps") if given is None else len(given)
    if count is None:
        default = inspect.signature(type(pipeline).__call__).parameters.get("num_inference_steps")
        count = None if default is None else default.default
    if not isinstance(count, int) or count < 1:
        raise ValueError(
            f"the call of {type(pipeline).__name__} does not say how many evaluations a picture takes: pass "
            f"num_inference_steps as a whole number, got {count!r}"
        )
    scheduler = pipeline.scheduler
    if given is not None or scheduler.config.get("use_dynamic_shifting"):  # they take what they are told to
        order = int(getattr(scheduler, "order", 1))
        return order * count - (order - 1)  # solvers of second order evaluate twice, but for the last step
    # PNDM takes one step more than it is told to, others two for one: a copy knows.
    copy = type(scheduler).from_config(scheduler.config)
    copy.set_timesteps(count)
    return len(copy.timesteps)


def _unknown(pipeline: Any) -> str:
    """Why this pipeline has no family."""
    name = type(pipeline).__name__
    known = ", ".join(one for family in FAMILIES for one in family.pipelines)
    parameters = inspect.signature(type(pipeline).__call__).parameters
    lacking = [one for one in ("image", "prompt") if one not in parameters]
    if lacking:
        return f"{name} edits no picture by words: its call takes no {' and no '.join(lacking)}. Known are {known}"
    return f"{name} is not known as an editor: pass family= to say how it is called. Known are {known}"


def _weights(pipeline: Any) -> str:
    """What tells two sets of weights apart: the first numbers of each tensor. Not of those on no device (offloaded)."""
    found = hashlib.sha256()
    for name, part in sorted(pipeline.components.items()):
        if isinstance(part, torch.nn.Module):
            for key, tensor in sorted(part.state_dict().items()):
                found.update(f"{name}.{key} {tuple(tensor.shape)} {tensor.dtype}".encode())
                if isinstance(tensor, torch.Tensor) and not tensor.is_meta:
                    found.update(tensor.detach().flatten()[:4].cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:16]


def _said(value: Any) -> Any:
    """A setting, for the name of an editor."""
    if isinstance(value, Image):
        return value.digest
    if isinstance(value, torch.Tensor):
        value = value.detach().float().cpu().numpy()
    if isinstance(value, np.ndarray | PIL.Image.Image):
        numbers = np.asarray(value)
        return _digest(f"{numbers.shape} {numbers.dtype}".encode() + numbers.tobytes())
    raise ValueError(f"a setting of type {type(value).__name__} has no name that lasts: pass id=")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


class _NoBar:
    """Stands in for a progress bar."""

    def __init__(self, original: Any, iterable: Any = (), total: int | None = None) -> None:
        self._iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        return iter(self._iterable)

    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, count: int = 1) -> None:
        pass
