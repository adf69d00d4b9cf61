"""Calls of a pipeline: what goes into one, one at a time, and what a picture takes."""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import torch

from ...reward import Image
from ...verifiers.editor import Draft
from .families import Family
from .stepping import can_stop, standing_in

T = TypeVar("T")

_OURS = (
    *("image", "prompt", "generator", "latents", "num_images_per_prompt", "output_type", "return_dict"),
    *("callback_on_step_end", "callback_on_step_end_tensor_inputs"),
)
"""What the editor passes to a pipeline itself."""

_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
_locking = threading.Lock()


class Calls:
    """A pipeline, and how it is called: `each` in portions that `pictures` makes with one call.

    evaluations: of a picture, known beforehand. whole: why pictures are only made in one go; empty where they are not.
    """

    def __init__(self, pipeline: Any, family: Family, batch: int, settings: Mapping[str, Any]) -> None:
        known = inspect.signature(type(pipeline).__call__).parameters
        open_ended = any(one.kind is one.VAR_KEYWORD for one in known.values())
        for name in settings:
            if name in _OURS:
                raise ValueError(f"{name} is what the editor itself passes to {type(pipeline).__name__}: leave it out")
            if name not in known and not open_ended:
                takes = ", ".join(one for one in known if one not in ("self", *_OURS))
                raise ValueError(f"{type(pipeline).__name__} takes no {name}; it takes {takes}")
        self.pipeline = pipeline
        self.batch = batch
        self._family = family
        self._settings = dict(settings)
        self._call = pipeline if family.call is None else functools.partial(family.call, pipeline)
        self._scheduler = pipeline.scheduler
        self.evaluations = (family.evaluations or _evaluations)(pipeline, settings)
        self.whole = family.whole or can_stop(pipeline)

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
