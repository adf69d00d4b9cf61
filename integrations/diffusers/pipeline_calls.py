"""Calls of a pipeline: arguments, batching, one call at a time, and NFE per image."""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from ...reward import Image
from ...verifiers.selection.editor import DenoisingState
from .partial_denoising import not_resumable_reason, patched
from .pipeline_families import PipelineFamily

T = TypeVar("T")

_RESERVED_ARGUMENTS = (
    *("image", "prompt", "generator", "latents", "num_images_per_prompt", "output_type", "return_dict"),
    *("callback_on_step_end", "callback_on_step_end_tensor_inputs"),
)
"""Arguments that the editor passes to a pipeline itself."""

_STRETCHED = 0.08
"""Share by which an edit has another aspect ratio than its source when the editor warns: sizes of a model's own grid
are up to 7 % off, but for panoramas."""

_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
_locks_guard = threading.Lock()


class PipelineCaller:
    """A pipeline and its call convention: `map_batches` splits states into batches that `generate` runs in one call.
    nfe: per image. single_pass_reason: why the pipeline cannot pause; empty if it can."""

    def __init__(self, pipeline: Any, family: PipelineFamily, batch: int, settings: Mapping[str, Any]) -> None:
        parameters = inspect.signature(type(pipeline).__call__).parameters
        open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        for name in settings:
            if name in _RESERVED_ARGUMENTS:
                raise ValueError(f"{name} is set by the editor itself for {type(pipeline).__name__}: leave it out")
            if name not in parameters and not open_ended:
                supported = ", ".join(one for one in parameters if one not in ("self", *_RESERVED_ARGUMENTS))
                raise ValueError(f"{type(pipeline).__name__} takes no {name}; it takes {supported}")
        self.pipeline = pipeline
        self.batch = batch
        self._family = family
        self._settings = dict(settings)
        self._call = pipeline if family.call_fn is None else functools.partial(family.call_fn, pipeline)
        self._has_warned = False
        self._scheduler = pipeline.scheduler
        self.nfe = (family.nfe or _nfe)(pipeline, settings)
        self.single_pass_reason = family.single_pass_reason or not_resumable_reason(pipeline)

    def map_batches(
        self, states: Sequence[DenoisingState], run_batch: Callable[[list[DenoisingState]], Sequence[T]]
    ) -> list[T]:
        """The results of `run_batch` for batches of the size of a call, in the order of the states."""
        from diffusers.utils.logging import EmptyTqdm

        with _locks_guard:
            lock = _locks.setdefault(self.pipeline, threading.RLock())
        results: dict[int, T] = {}
        with lock, patched(self.pipeline, "progress_bar", lambda _, iterable=(), total=None: EmptyTqdm(iterable)):
            if self.pipeline.scheduler is not self._scheduler:
                raise TypeError(
                    f"the scheduler of this {type(self.pipeline).__name__} was replaced by a "
                    f"{type(self.pipeline.scheduler).__name__} after the editor was created: create a new editor"
                )
            for rows in self._batches(states):
                results |= dict(zip(rows, run_batch([states[row] for row in rows]), strict=True))
        return [results[row] for row in range(len(states))]

    def generate(self, states: Sequence[DenoisingState], generators: list[torch.Generator]) -> list[Image | str]:
        """One call of the pipeline for these states: an image for each, or the reason why it is none."""
        rows = states if self._family.batched_rows else states[:1]
        arguments = self._family.arguments(
            self.pipeline, [self._input_images(row) for row in rows], [row.instruction for row in rows], self._settings
        )
        if len(states) > len(rows):
            arguments["num_images_per_prompt"] = len(states)
        # Not in inference mode: weights moved in it, as by offloading, could not be trained any more.
        with torch.no_grad(), finite_images(self.pipeline) as images_or_reasons:
            images = self._call(**arguments, generator=generators, output_type="pil").images
        if len(images) != len(states):
            raise ValueError(f"{type(self.pipeline).__name__} returned {len(images)} images for {len(states)} rows")
        edits = images_or_reasons(images)
        for state, edit in zip(states, edits, strict=True):
            if isinstance(edit, Image):
                self._warn_of_another_aspect(state.images[0], edit)
        return edits

    def _warn_of_another_aspect(self, source: Image, edit: Image) -> None:
        """Once: a reward counts against an edit that it is squeezed."""
        ratio = (edit.width * source.height) / (edit.height * source.width)
        stretched = max(ratio, 1 / ratio) - 1
        if stretched <= _STRETCHED or self._has_warned:
            return
        self._has_warned = True
        if not self._settings.keys().isdisjoint({"height", "width"}):
            advice = "Leave out height and width, and each source keeps its proportions"
        else:
            advice = "Crop the source to a size of the model, or set height and width"
        warnings.warn(
            f"{type(self.pipeline).__name__} made {edit.width} x {edit.height} pixels of a source of {source.width} x "
            f"{source.height}: the picture is squeezed by {stretched:.0%}, which rewards count against it. {advice}",
            stacklevel=2,
        )

    def check_nfe(self, nfe: int) -> None:
        if self._family.nfe is None and nfe != self.nfe:
            raise ValueError(
                f"an image took {nfe} evaluations, expected {self.nfe}: pass num_inference_steps as "
                f"{type(self.pipeline).__name__} interprets it"
            )

    def _input_images(self, state: DenoisingState) -> tuple[Image, ...]:
        if len(state.images) != 1 and not self._family.multi_source:
            raise ValueError(f"{type(self.pipeline).__name__} edits one image, got {len(state.images)} sources")
        if not self._family.in_context:
            return state.images
        earlier = [image for turn in state.history for image in (*turn.sources, turn.edited)]
        return tuple(dict.fromkeys((*state.images, *earlier)))

    def _batches(self, states: Sequence[DenoisingState]) -> list[list[int]]:
        groups: dict[Any, list[int]] = {}
        for row, state in enumerate(states):
            sources = self._input_images(state)
            if self._family.batched_rows:
                key: Any = tuple(image.size for image in sources)
            else:
                key = (sources, state.instruction)
            groups.setdefault(key, []).append(row)
        max_rows = self.batch if self._family.batched_rows or self._family.num_images_per_prompt else 1
        return [rows[start : start + max_rows] for rows in groups.values() for start in range(0, len(rows), max_rows)]


def _nfe(pipeline: Any, settings: Mapping[str, Any]) -> int:
    """NFE per image, from the settings or else from the signature of the call."""
    schedule = settings.get("sigmas") if settings.get("sigmas") is not None else settings.get("timesteps")
    count = settings.get("num_inference_steps") if schedule is None else len(schedule)
    if count is None:
        default = inspect.signature(type(pipeline).__call__).parameters.get("num_inference_steps")
        count = None if default is None else default.default
    if not isinstance(count, int) or count < 1:
        raise ValueError(
            f"the call of {type(pipeline).__name__} does not define the number of evaluations per image: pass "
            f"num_inference_steps as an integer, got {count!r}"
        )
    scheduler = pipeline.scheduler
    if schedule is not None or scheduler.config.get("use_dynamic_shifting"):  # these take exactly the given steps
        order = int(getattr(scheduler, "order", 1))
        return order * count - (order - 1)  # second-order solvers evaluate twice, except at the last step
    # PNDM takes one step more than given, others two per step: try it on a copy.
    trial = type(scheduler).from_config(scheduler.config)
    trial.set_timesteps(count)
    return len(trial.timesteps)


@contextmanager
def finite_images(owner: Any) -> Iterator[Callable[[Sequence[Any]], list[Image | str]]]:
    """A context for one call; yields a function of its PIL images: one image per row, or the reason why it is none.
    owner: has the `image_processor`; without one, images are taken as they are."""
    finite: list[bool] = []

    def postprocess(original: Callable[..., Any], image: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(image, torch.Tensor):
            finite[:] = finite_rows(image)
        return original(image, *args, **kwargs)

    def images_or_reasons(images: Sequence[Any]) -> list[Image | str]:
        known = finite if len(finite) == len(images) else [True] * len(images)
        return [Image.of(image) if is_finite else NOT_FINITE for image, is_finite in zip(images, known, strict=True)]

    processor = getattr(owner, "image_processor", None)
    if not hasattr(processor, "postprocess"):
        yield images_or_reasons
        return
    with patched(processor, "postprocess", postprocess):
        yield images_or_reasons


def finite_rows(pixels: torch.Tensor) -> list[bool]:
    """For each row of a batch whether it has no NaN and no infinity."""
    rows: list[bool] = torch.isfinite(pixels).flatten(1).all(1).tolist()
    return rows


NOT_FINITE = (
    "the pixels are NaN or infinite, which the pipeline returns as black: the denoiser or the autoencoder has failed "
    "(half precision often overflows in an autoencoder: use bfloat16 or float32 for it)"
)
