"""Editors from diffusers pipelines and from functions. Pipelines are called unmodified, one call at a time, and keep
their progress bar, their methods and torch's global RNG state."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import PIL.Image
import torch

from ...reward import Image, ImageError
from ...verifiers.selection.editor import DenoisingState, Editor, Histories, NoiseSpec, Sources
from .partial_denoising import PartialDenoising, initial_state, renoised, seeded_scheduler
from .pipeline_calls import PipelineCaller
from .pipeline_families import FAMILIES, PipelineFamily, family_of


def make_editor(
    pipeline_or_function: Any,
    *,
    batch_size: int = 8,
    id: str = "",  # noqa: A002  (the field's name)
    family: PipelineFamily | None = None,
    batched: bool = False,
    **settings: Any,
) -> Editor:
    """An editor from a diffusers pipeline or from a function.

    A pipeline: `settings` are passed to each call (`num_inference_steps`, `guidance_scale`, …). An edit has the
    proportions of its (first) source, in a size of the model's own, unless `height` and `width` are fixed here; where
    they distort one by more than 8 %, a warning says so once. Pixels are handed over in sRGB.

    A function: `f(image, instruction, seed) -> image`, or with `batched` the same with three lists, returning a list of
    at most `batch_size` images. Its argument is a PIL image, or a list of them for a sample with several sources; it
    returns anything `Image.of` takes. Earlier turns are not passed.

    Args:
        id: Identifies the editor in journals; default: everything its images depend on, for a function its module and
            name.
        family: The call convention of a pipeline that is not in `pipeline_families.FAMILIES`. If its solver can pause
            (`partial_denoising.RESUMABLE_SCHEDULERS`) the result is a `StepwiseEditor`, else a `SinglePassEditor`. Call
            this after adapters and scheduler are set.

    Raises:
        ValueError: For an unsupported object.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    class_names = [cls.__name__ for cls in type(pipeline_or_function).__mro__]
    family = family or family_of(pipeline_or_function)
    if family is not None:
        if batched:
            raise ValueError("the batch size of a pipeline depends on its family: `batched` is for functions")
        calls = PipelineCaller(pipeline_or_function, family, batch_size, settings)
        name = id or pipeline_id(pipeline_or_function, settings)
        return SinglePassEditor(name, calls) if calls.single_pass_reason else DiffusersEditor(name, calls)
    if "DiffusionPipeline" in class_names:
        raise ValueError(_unknown_pipeline_message(pipeline_or_function))
    if not callable(pipeline_or_function):
        raise ValueError(f"expected a diffusers pipeline or a function, got {type(pipeline_or_function).__name__}")
    if settings:
        raise ValueError(f"a function takes no settings, got {', '.join(settings)}: bind them with functools.partial")
    return FunctionEditor(pipeline_or_function, name=id, batch_size=batch_size, batched=batched)


class _PipelineEditor:
    def __init__(self, name: str, calls: PipelineCaller) -> None:
        self.id = name
        self.nfe = calls.nfe
        self.batch_size = calls.batch
        self.single_pass_reason = calls.single_pass_reason
        self._calls = calls


class DiffusersEditor(_PipelineEditor):
    """A pipeline that can pause after any step: a `StepwiseEditor`. Created by `make_editor`.

    A candidate's noise is sampled on the CPU from its own seed, so that it depends neither on its batch nor on the
    device."""

    def edit(
        self, images: Sources, instructions: Sequence[str], seeds: Sequence[int], *, history: Histories = None
    ) -> list[Image]:
        """See `Editor.edit`."""
        states = self.begin(images, instructions, [NoiseSpec(seed) for seed in seeds], history=history)
        return [image for _, image in self.advance(states, self.nfe)]

    def begin(
        self,
        images: Sources,
        instructions: Sequence[str],
        noise_specs: Sequence[NoiseSpec],
        *,
        history: Histories = None,
    ) -> list[DenoisingState]:
        """See `StepwiseEditor.begin`."""
        return _initial_states(images, instructions, noise_specs, history)

    def advance(self, drafts: Sequence[DenoisingState], until_step: int) -> list[tuple[DenoisingState, Image]]:
        """See `StepwiseEditor.advance`."""
        if until_step > self.nfe:
            raise ValueError(f"an image takes {self.nfe} evaluations, and cannot advance to step {until_step}")

        def run_batch(batch: Sequence[DenoisingState]) -> list[tuple[DenoisingState, Image]]:
            with PartialDenoising(self._calls.pipeline, batch, until_step) as run:
                images = _require_images(self._calls.generate(batch, run.generators))
            self._calls.check_nfe(run.nfe)
            return list(zip(run.states, images, strict=True))

        return self._calls.map_batches(drafts, run_batch)

    def renoise(self, drafts: Sequence[DenoisingState], to: int, seeds: Sequence[int]) -> list[DenoisingState]:
        """See `StepwiseEditor.renoise`."""
        return [renoised(state, to, seed) for state, seed in zip(drafts, seeds, strict=True)]


class SinglePassEditor(_PipelineEditor):
    """A pipeline that cannot pause, for `single_pass_reason`. An `Editor`, created by `make_editor`."""

    def edit(
        self, images: Sources, instructions: Sequence[str], seeds: Sequence[int], *, history: Histories = None
    ) -> list[Image]:
        """See `Editor.edit`."""

        def run_batch(batch: Sequence[DenoisingState]) -> list[Image]:
            generators = [torch.Generator().manual_seed(state.noise.seed) for state in batch]
            with seeded_scheduler(self._calls.pipeline, generators):
                batch_images = _require_images(self._calls.generate(batch, generators))
            self._calls.check_nfe(len(self._calls.pipeline.scheduler.timesteps))
            return batch_images

        states = _initial_states(images, instructions, [NoiseSpec(seed) for seed in seeds], history)
        return self._calls.map_batches(states, run_batch)

    def __getattr__(self, name: str) -> Any:
        # The methods must be absent, since protocols are checked by attribute.
        if name in ("begin", "advance", "renoise"):
            raise AttributeError(f"{self.id} cannot pause: {self.single_pass_reason}")
        raise AttributeError(f"{type(self).__name__} has no {name!r}")


class FunctionEditor:
    """A function as an `Editor`. Created by `make_editor`."""

    def __init__(self, function: Callable[..., Any], *, name: str, batch_size: int, batched: bool) -> None:
        self.id = name or f"{function.__module__}:{getattr(function, '__qualname__', type(function).__qualname__)}"
        if "<lambda>" in self.id or "<locals>" in self.id:
            raise ValueError(f"{self.id} has no name that identifies it in a journal: pass id=")
        self.nfe = 0
        self.batch_size = batch_size
        self._function = function
        self._batched = batched

    def edit(
        self, images: Sources, instructions: Sequence[str], seeds: Sequence[int], *, history: Histories = None
    ) -> list[Image]:
        """See `Editor.edit`."""
        inputs = [row[0].pil() if len(row) == 1 else [image.pil() for image in row] for row in images]
        outputs: list[Any] = []
        if not self._batched:
            outputs = [self._function(*item) for item in zip(inputs, instructions, seeds, strict=True)]
        else:
            for start in range(0, len(inputs), self.batch_size):
                batch = slice(start, start + self.batch_size)
                outputs += self._function(inputs[batch], list(instructions[batch]), list(seeds[batch]))
        return [Image.of(output) for output in outputs]


def _require_images(images: Sequence[Image | str]) -> list[Image]:
    """Raise ImageError where an image is none; a batch that raises is tried again in halves."""
    for image in images:
        if isinstance(image, str):
            raise ImageError(image)
    return [image for image in images if isinstance(image, Image)]


def _initial_states(
    images: Sources, instructions: Sequence[str], noise_specs: Sequence[NoiseSpec], history: Histories
) -> list[DenoisingState]:
    return [
        initial_state(tuple(sources), instruction, noise_spec, turns)
        for sources, instruction, noise_spec, turns in zip(
            images, instructions, noise_specs, history or [()] * len(noise_specs), strict=True
        )
    ]


def _unknown_pipeline_message(pipeline: Any) -> str:
    name = type(pipeline).__name__
    supported = ", ".join(pipeline_name for family in FAMILIES for pipeline_name in family.pipelines)
    parameters = inspect.signature(type(pipeline).__call__).parameters
    missing = [parameter for parameter in ("image", "prompt") if parameter not in parameters]
    if missing:
        return f"{name} is no instruction editor: its call has no {' and no '.join(missing)}. Supported: {supported}"
    return f"{name} is not a known editor: pass family= with its call convention. Supported: {supported}"


def pipeline_id(pipeline: Any, settings: Mapping[str, Any]) -> str:
    """Class, origin, settings, weights, solver and library, but not the scale of adapters that are not fused. Raises
    ValueError for settings without an id."""
    scheduler = pipeline.scheduler
    settings_json = json.dumps(dict(settings), sort_keys=True, default=_setting_id)
    # Without diffusers' own notes, whose order differs between processes.
    config = {name: value for name, value in scheduler.config.items() if not name.startswith("_")}
    solver = _digest(json.dumps(config, sort_keys=True, default=_config_id).encode())
    weights = _weights_digest(pipeline)
    return (
        f"{type(pipeline).__name__} {getattr(pipeline, 'name_or_path', '')} {settings_json} weights {weights} "
        f"{type(scheduler).__name__} {solver} diffusers {version('diffusers')}"
    )


def _weights_digest(pipeline: Any) -> str:
    """Distinguishes weights by the first numbers of each tensor; tensors on no device (offloaded) are left out."""
    digest = hashlib.sha256()
    for name, module in sorted(pipeline.components.items()):
        if isinstance(module, torch.nn.Module):
            for key, tensor in sorted(module.state_dict().items()):
                if not isinstance(tensor, torch.Tensor):
                    continue
                digest.update(f"{name}.{key} {tuple(tensor.shape)} {tensor.dtype}".encode())
                if not tensor.is_meta:
                    digest.update(tensor.detach().flatten()[:4].cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def _config_id(value: Any) -> Any:
    """An entry of a solver's configuration: arrays by all their numbers, other objects by their name."""
    try:
        return _setting_id(value)
    except ValueError:
        return str(value)


def _setting_id(value: Any) -> Any:
    if isinstance(value, Image):
        return value.digest
    if isinstance(value, torch.Tensor):
        value = value.detach().float().cpu().numpy()
    if isinstance(value, np.ndarray | PIL.Image.Image):
        numbers = np.asarray(value)
        return _digest(f"{numbers.shape} {numbers.dtype}".encode() + numbers.tobytes())
    raise ValueError(f"a setting of type {type(value).__name__} has no stable id: pass id=")


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
