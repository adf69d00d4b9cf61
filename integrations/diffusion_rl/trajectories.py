"""Trajectories for policy gradients: the states of a pipeline call, and the denoiser re-evaluated at them with
gradients. A hook on the denoiser records its inputs, and the scheduler's `step` samples from `transitions.Transitions`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ...reward import EditSample, Score
from ...reward.training.audit_probe import HackGains
from ..diffusers.partial_denoising import patched
from ..diffusers.pipeline_calls import finite_rows
from .transitions import ForwardProcess, TransitionFn, Transitions, log_likelihood, sample_normal

T = TypeVar("T")

_ROW_INDEPENDENT = ("img_ids", "txt_ids")  # two-dimensional: positions in the image, the same for all rows
_TOLERANCE = 1e-2  # of the largest value: above it, our guided prediction differs from the pipeline's


@dataclass(slots=True)
class DenoisingStep:
    """One step of all rows of a call. denoiser_inputs: args and kwargs. state, next_state: (N, …). log_likelihood:
    (N,), of `next_state` under the weights that sampled it. dt: see `Transitions`.
    """

    index: int
    transition: TransitionFn
    dt: float
    forward_process: ForwardProcess
    denoiser_inputs: tuple[tuple[Any, ...], dict[str, Any]]
    state: Tensor
    next_state: Tensor
    log_likelihood: Tensor


@dataclass(slots=True)
class Trajectory:
    """The trajectory of one pipeline call, one row per image. guidance: text and image scales of InstructPix2Pix.
    steps: those sampled with noise, and `kept_steps`. start, final: (N, …), before the first step and after the last
    one. nonfinite: the rows that are NaN or infinite, and from which step on.
    """

    pipeline: Any
    rows: int
    guidance: tuple[float, float]
    steps: list[DenoisingStep] = field(default_factory=list)
    start: Tensor = field(default_factory=lambda: torch.empty(0))
    final: Tensor = field(default_factory=lambda: torch.empty(0))
    nonfinite: dict[int, str] = field(default_factory=dict)

    def mean(self, step: DenoisingStep, rows: Sequence[int]) -> tuple[Tensor, float]:
        """Mean and standard deviation of the next state of these rows, from the current denoiser."""
        return step.transition(self.prediction(step, rows), step.state[list(rows)])

    def prediction(self, step: DenoisingStep, rows: Sequence[int], state: Tensor | None = None) -> Tensor:
        """The current denoiser's prediction for these rows. state: replaces the recorded state of these rows."""
        selected = torch.tensor(list(rows), device=step.state.device)
        original_state = step.state[selected]

        def select(value: Any, name: str = "") -> Any:
            selected_value = _select_rows(selected, value, self.rows, name)
            return selected_value if state is None else _replace_state(selected_value, original_state, state)

        args, kwargs = step.denoiser_inputs
        output = denoiser(self.pipeline)(
            *(select(value) for value in args), **{name: select(value, name) for name, value in kwargs.items()}
        )
        return guided_prediction(output, original_state, self.guidance)


class TrajectoryRecorder:
    """A context for one pipeline call, with noise from `transitions` at the steps `sde_steps` (default: all).

        with TrajectoryRecorder(pipeline, transitions, generators, sde_steps, settings) as trajectory:
            images = pipeline(…, generator=generators, **settings).images

    generators: one per row. kept_steps: recorded in any case. Rows that become NaN are noted. Raises ValueError for
    another number of rows, or guidance that calls the denoiser twice or is unknown.
    """

    def __init__(
        self,
        pipeline: Any,
        transitions: Transitions,
        generators: Sequence[torch.Generator],
        sde_steps: Collection[int] | None = None,
        settings: Mapping[str, Any] = MappingProxyType({}),
        *,
        kept_steps: Collection[int] = (),
    ) -> None:
        self._trajectory = Trajectory(pipeline, len(generators), _guidance(pipeline, settings))
        self._transitions = transitions
        self._generators = generators
        self._sde_steps = sde_steps
        self._kept_steps = kept_steps
        self._deterministic = replace(transitions, noise_level=0.0)
        self._calls: list[tuple[tuple[Any, ...], dict[str, Any], Any]] = []
        self._index = 0

    def __enter__(self) -> Trajectory:
        pipeline = self._trajectory.pipeline
        with ExitStack() as stack:
            stack.enter_context(patched(pipeline.scheduler, "step", self._step))
            handle = denoiser(pipeline).register_forward_hook(
                lambda _, args, kwargs, output: self._calls.append((args, kwargs, output)), with_kwargs=True
            )
            stack.callback(handle.remove)
            self._stack = stack.pop_all()
        return self._trajectory

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _step(
        self, original: Callable[..., Any], output: Tensor, timestep: Any, state: Tensor, *args_rest: Any, **kwargs: Any
    ) -> Any:
        trajectory, index, calls = self._trajectory, self._index, self._calls
        self._calls, self._index = [], index + 1
        if state.shape[0] != trajectory.rows:
            raise ValueError(f"the call has {state.shape[0]} rows, but {trajectory.rows} generators: pass one per row")
        transition = (
            self._transitions if self._sde_steps is None or index in self._sde_steps else self._deterministic
        ).at(index)
        mean, std = transition(output, state)
        next_state = sample_normal(mean, std, self._generators).to(state.dtype)
        if not index:
            trajectory.start = state
        trajectory.final = next_state
        self._note_nonfinite(index, next_state)
        if std or index in self._kept_steps:
            if len(calls) != 1:
                raise ValueError(
                    f"{type(trajectory.pipeline).__name__} called its denoiser {len(calls)} times for one step: train "
                    "it without the guidance that does so (true_cfg_scale=1, or guidance_scale=1 for FLUX.2 Klein)"
                )
            ((args, call_kwargs, raw_output),) = calls
            if not trajectory.steps:
                _check(trajectory, index, raw_output, output, state)
            likelihood = log_likelihood(next_state, mean, std) if std else torch.zeros(trajectory.rows)
            self._note_nonfinite(index, likelihood[:, None])
            process, dt = ForwardProcess.of(self._transitions.scheduler, index), self._transitions.dt(index)
            inputs = (args, call_kwargs)
            trajectory.steps.append(
                DenoisingStep(index, transition, dt, process, inputs, state, next_state, likelihood)
            )
        return _StepOutput(next_state) if kwargs.get("return_dict", True) else (next_state,)

    def _note_nonfinite(self, index: int, values: Tensor) -> None:
        for row, is_finite in enumerate(finite_rows(values)):
            if not is_finite:
                self._trajectory.nonfinite.setdefault(
                    row,
                    f"its latents are NaN or infinite from sampler step {index} on: the denoiser has failed (half "
                    "precision often overflows: use bfloat16 or float32)",
                )


@dataclass
class _StepOutput:
    prev_sample: Tensor


def denoiser(pipeline: Any) -> nn.Module:
    """The trained component of a pipeline: its transformer or its UNet, compiled if it is."""
    for name in ("transformer", "unet"):
        if isinstance(module := getattr(pipeline, name, None), nn.Module):
            return module
    raise ValueError(f"{type(pipeline).__name__} has neither a transformer nor a unet to train")


def guided_prediction(output: Any, state: Tensor, guidance: tuple[float, float]) -> Tensor:
    """What a pipeline passes to its solver: without tokens of the sources, with InstructPix2Pix's two guidances."""
    prediction = output[0] if isinstance(output, tuple) else output.sample
    if prediction.shape[0] == 3 * state.shape[0]:
        text_guided, image_guided, unguided = prediction.chunk(3)
        return unguided + guidance[0] * (text_guided - image_guided) + guidance[1] * (image_guided - unguided)
    return prediction[:, : state.shape[1]]


def _select_rows(rows: Tensor, value: Any, count: int, name: str = "") -> Any:
    """The slice of a denoiser input for some rows. Inputs that repeat all rows (guidance) are sliced in each repeat."""
    if isinstance(value, Mapping):
        return {key: _select_rows(rows, inner, count, key) for key, inner in value.items()}
    if isinstance(value, list) and len(value) == count:
        return [value[row] for row in rows.tolist()]
    if not isinstance(value, Tensor) or not value.ndim or (name in _ROW_INDEPENDENT and value.ndim == 2):
        return value
    times, remainder = divmod(value.shape[0], count)
    if remainder or not times:
        return value
    return value[torch.cat([rows + count * repeat for repeat in range(times)])]


def _replace_state(value: Any, original: Tensor, state: Tensor) -> Any:
    """Replace the original state in a denoiser input, also where it is repeated; other inputs stay."""
    if not isinstance(value, Tensor) or value.ndim != original.ndim or value.shape[2:] != original.shape[2:]:
        return value
    rows, tokens = original.shape[:2]
    if (
        value.shape[1] < tokens
        or value.shape[0] % rows
        or not torch.equal(value[:rows, :tokens], original.to(value.dtype))
    ):
        return value
    times = value.shape[0] // rows
    return torch.cat([state.to(value.dtype).repeat(times, *[1] * (original.ndim - 1)), value[:, tokens:]], dim=1)


def _guidance(pipeline: Any, settings: Mapping[str, Any]) -> tuple[float, float]:
    """Text and image guidance scale of a call, from its settings: not every pipeline stores them."""
    parameters = inspect.signature(type(pipeline).__call__).parameters
    text_scale, image_scale = (
        settings.get(name, parameters[name].default if name in parameters else 1.0)
        for name in ("guidance_scale", "image_guidance_scale")
    )
    return text_scale, image_scale


def _check(trajectory: Trajectory, index: int, raw_output: Any, output: Tensor, state: Tensor) -> None:
    """Compare our guided prediction with the pipeline's in the rows that are finite."""
    if not (rows := [row for row in range(trajectory.rows) if row not in trajectory.nonfinite]):
        return
    name, expected = type(trajectory.pipeline).__name__, output[rows].float()
    prediction = guided_prediction(raw_output, state, trajectory.guidance)[rows].float()
    if hidden := [row for row, is_finite in zip(rows, finite_rows(prediction), strict=True) if not is_finite]:
        raise ValueError(
            f"the denoiser's output is NaN or infinite in the rows {hidden} of a call, at sampler step {index}, and "
            f"{name} replaces it by other numbers, which cannot be trained"
        )
    if not (prediction - expected).abs().max() <= _TOLERANCE * expected.abs().max():
        raise ValueError(
            f"{name} computes its guided prediction in an unknown way (perhaps guidance with rescaling): train it "
            "without"
        )


@dataclass(slots=True)
class RolloutBatch:
    """calls: with the rows in `samples`. failures: row -> why there is no image; its `edited` is the source."""

    step: int
    samples: list[EditSample]
    calls: list[tuple[Trajectory, list[int]]]
    seconds: float
    failures: dict[int, str] = field(default_factory=dict)

    @property
    def rows(self) -> list[EditSample | str]:
        """What is scored: the samples, or the reason why there is no image."""
        return [self.failures.get(row, sample) for row, sample in enumerate(self.samples)]

    @property
    def nonfinite(self) -> dict[int, str]:
        """Of `failures`, those whose latents are: they take no part. Of mere pixels, the editor can learn."""
        return {rows[index]: reason for call, rows in self.calls for index, reason in call.nonfinite.items()}

    def made(self, values: Sequence[T]) -> list[T]:
        return [value for row, value in enumerate(values) if row not in self.failures]


@dataclass(slots=True)
class BatchScores:
    """The scores of a batch, and what hacks would gain over its images, in steps that are probed."""

    scores: Sequence[Score]
    heldout: Sequence[Score] | None
    gains: HackGains | None
    seconds: float
