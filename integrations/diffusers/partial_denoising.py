"""Run a diffusers pipeline in parts: from any step to any other, with a preview decoded by the pipeline itself.

During a call, public methods are patched. `prepare_latents` gives the loop the latents of a paused state in place of
noise; `set_timesteps` restricts it to the steps of this part; `step` stores the true state and passes the predicted
final latents on, so that the pipeline decodes the preview. Only for `RESUMABLE_SCHEDULERS`."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...verifiers.selection.editor import DenoisingState, NoiseSpec

RESUMABLE_SCHEDULERS = (
    "FlowMatchEulerDiscreteScheduler",
    "EulerDiscreteScheduler",
    "EulerAncestralDiscreteScheduler",
    "DDIMScheduler",
    "DDPMScheduler",
)
"""Solvers whose only state is the latents, so that a run can be paused after any step."""

_LATENTS, _CLEAN, _SIGNAL, _NOISE, _RANDOM = "latents", "clean", "signal", "noise", "random"


def not_resumable_reason(pipeline: Any) -> str:
    """Why this pipeline cannot run in parts; empty if it can."""
    scheduler = type(getattr(pipeline, "scheduler", None)).__name__
    if scheduler not in RESUMABLE_SCHEDULERS:
        return (
            f"{scheduler} keeps more than the latents from step to step: use one of {', '.join(RESUMABLE_SCHEDULERS)}"
        )
    if not callable(getattr(pipeline, "prepare_latents", None)):
        return f"{type(pipeline).__name__} has no prepare_latents"
    return ""


class PartialDenoising:
    """A context for one pipeline call that runs the steps from the states' own to `until_step`, one row per state
    in their order; a state without arrays starts from its noise.

        with PartialDenoising(pipeline, states, until_step) as run:
            images = pipeline(…, generator=run.generators).images
        states = run.states"""

    def __init__(self, pipeline: Any, states: Sequence[DenoisingState], until_step: int) -> None:
        if reason := not_resumable_reason(pipeline):
            raise TypeError(reason)
        steps = {state.step for state in states}
        if len(steps) != 1:
            raise ValueError(f"all states must be at the same step, got {sorted(steps)}")
        (self._start,) = steps
        if not self._start < until_step:
            raise ValueError(f"states at step {self._start} cannot advance to step {until_step}")
        self._until = until_step
        self._pipeline = pipeline
        self._scheduler = pipeline.scheduler
        self._states = list(states)
        self.generators = [_generator(state) for state in states]
        self.nfe = 0
        """Of a full run, from the scheduler; known after the pipeline call."""
        self._state: torch.Tensor | None = None
        self._clean: torch.Tensor | None = None

    def __enter__(self) -> PartialDenoising:
        scheduler = self._scheduler
        with ExitStack() as stack:
            stack.enter_context(patched(self._pipeline, "prepare_latents", self._prepare))
            stack.enter_context(patched(scheduler, "set_timesteps", self._set_timesteps))
            stack.enter_context(patched(scheduler, "step", self._step))
            if hasattr(scheduler, "set_begin_index"):
                begin_index = patched(scheduler, "set_begin_index", lambda original, *_: original(self._start))
                stack.enter_context(begin_index)
            self._patches = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()

    @property
    def states(self) -> list[DenoisingState]:
        if self._state is None or self._clean is None:
            raise RuntimeError(f"{type(self._pipeline).__name__} did not run to step {self._until}")
        signal, noise = (levels.astype(np.float32) for levels in signal_and_noise_levels(self._scheduler))
        states = []
        for row, state in enumerate(self._states):
            arrays: dict[str, NDArray[Any]] = {
                _LATENTS: _to_numpy(self._state[row]),
                _CLEAN: _to_numpy(self._clean[row]),
                _SIGNAL: signal,
                _NOISE: noise,
                _RANDOM: self.generators[row].get_state().numpy().copy(),
            }
            states.append(
                DenoisingState(state.images, state.instruction, state.noise, self._until, arrays, state.history)
            )
        return states

    # -- patched methods -----------------------------------------------------------------------------------------------

    def _prepare(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The pipeline's own latents (and what it returns with them), replaced by those of each state."""
        bound = inspect.signature(original).bind(*args, **kwargs)

        def prepare_with(generators: list[torch.Generator]) -> Any:
            bound.arguments["generator"] = generators
            bound.arguments["latents"] = None
            return original(*bound.args, **bound.kwargs)

        # A state with latents samples nothing: its generator stays as it is.
        drawn_states = zip(self._states, self.generators, strict=True)
        prepared = prepare_with(
            [torch.Generator() if _LATENTS in state.arrays else drawn for state, drawn in drawn_states]
        )
        latents = prepared[0] if isinstance(prepared, tuple) else prepared
        if latents.shape[0] != len(self._states):
            raise ValueError(f"there are {len(self._states)} states, but the call has {latents.shape[0]} rows")
        scale = float(getattr(self._scheduler, "init_noise_sigma", 1.0))

        def noise_of(noise: NoiseSpec) -> torch.Tensor:
            weights = _noise_weights(noise)
            seeds, count = list(weights), len(self._states)
            # The first call has encoded the sources: skip that for each noise.
            bound.arguments.update({name: None for name in ("image", "images") if name in bound.arguments})
            total = torch.zeros_like(latents[:1], dtype=torch.float32)
            for start in range(0, len(seeds), count):  # in batches of the call's size
                batch = seeds[start : start + count]
                prepared_batch = prepare_with(
                    [torch.Generator().manual_seed(seed) for seed in (batch + batch[:1] * count)[:count]]
                )
                noise_rows = prepared_batch[0] if isinstance(prepared_batch, tuple) else prepared_batch
                total += sum(weights[seed] * row.float() for seed, row in zip(batch, noise_rows, strict=False))
            return total

        rows: list[torch.Tensor] = []
        for row, state in enumerate(self._states):
            if _LATENTS in state.arrays:
                rows.append(_to_tensor(state.arrays[_LATENTS], latents)[None])
            elif _CLEAN in state.arrays:  # the previewed result, with fresh noise
                signal, noise = state.arrays[_SIGNAL][state.step], state.arrays[_NOISE][state.step]
                unit_noise = latents[row : row + 1] / scale
                rows.append(float(signal) * _to_tensor(state.arrays[_CLEAN], latents)[None] + float(noise) * unit_noise)
            elif state.noise.radius:
                rows.append(noise_of(state.noise))
            else:
                rows.append(latents[row : row + 1])
        latents_out = torch.cat([row.to(latents) for row in rows])
        return (latents_out, *prepared[1:]) if isinstance(prepared, tuple) else latents_out

    def _set_timesteps(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        scheduler = self._scheduler
        self.nfe = len(scheduler.timesteps)
        if self._until > self.nfe:
            raise ValueError(f"the pipeline has {self.nfe} steps, and cannot run to step {self._until}")
        self._all_timesteps = scheduler.timesteps
        scheduler.timesteps = self._all_timesteps[self._start : self._until]
        if hasattr(scheduler, "set_begin_index"):
            scheduler.set_begin_index(self._start)
        self._remaining = self._until - self._start

    def _step(
        self, original: Callable[..., Any], output: Any, timestep: Any, sample: Any, *args: Any, **kwargs: Any
    ) -> Any:
        self._scheduler.timesteps = self._all_timesteps  # the loop has its own copy; DDPM looks up the next one here
        as_tuple = not kwargs.pop("return_dict", True)
        if "generator" in inspect.signature(original).parameters:  # else a stochastic solver uses the global RNG
            kwargs.setdefault("generator", self.generators)
        index = self._until - self._remaining
        result = original(output, timestep, sample, *args, return_dict=True, **kwargs)
        self._remaining -= 1
        state = result.prev_sample
        if self._remaining == 0:
            clean = getattr(result, "pred_original_sample", None)
            if clean is None:
                sigmas = self._scheduler.sigmas  # inverted ones end at 1, as OmniGen's
                clean = sample.float() + (sigmas[-1] - sigmas[index]).to(sample.device) * output.float()
            self._state = state
            self._clean = state if self._until == self.nfe else clean.to(state.dtype)
            result.prev_sample = self._clean
        return (result.prev_sample,) if as_tuple else result


def signal_and_noise_levels(scheduler: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The weights of image and noise in the latents before each step, (steps,) each, in the current schedule."""
    if hasattr(scheduler, "sigmas"):
        sigmas = scheduler.sigmas.double().cpu().numpy()
        if type(scheduler).__name__.startswith("FlowMatch"):
            noise = abs(sigmas[:-1] - sigmas[-1])  # inverted ones end at 1
            return 1 - noise, noise
        return np.ones(len(sigmas) - 1), sigmas[:-1]
    signal_power = scheduler.alphas_cumprod.cpu()[scheduler.timesteps.cpu().long()].double().numpy()
    return np.sqrt(signal_power), np.sqrt(1 - signal_power)


def initial_state(images: Any, instruction: str, noise: NoiseSpec, history: Any = ()) -> DenoisingState:
    """A state before its first step."""
    return DenoisingState(images, instruction, noise, 0, {}, history)


def renoised(state: DenoisingState, step: int, seed: int) -> DenoisingState:
    """The previewed result of a state with fresh noise, at step `step`."""
    if not 0 <= step < len(state.arrays[_SIGNAL]):
        raise ValueError(f"step must be from 0 to {len(state.arrays[_SIGNAL]) - 1}, got {step}")
    arrays: Mapping[str, NDArray[Any]] = {name: state.arrays[name] for name in (_CLEAN, _SIGNAL, _NOISE)}
    noise = state.noise.renoised(seed, preview_step=state.step, restart_step=step)
    return DenoisingState(state.images, state.instruction, noise, step, arrays, state.history)


@contextmanager
def patched(owner: Any, name: str, replacement: Callable[..., Any]) -> Iterator[None]:
    """Within the context, a method of this object is one that gets the original first; pipelines inspect its
    signature.
    """
    own, original = vars(owner).get(name), getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(functools.partial(replacement, original)))
    try:
        yield
    finally:
        delattr(owner, name)
        if own is not None:
            setattr(owner, name, own)


@contextmanager
def seeded_scheduler(pipeline: Any, generators: list[torch.Generator]) -> Iterator[None]:
    """Let a solver that adds noise sample it from these generators, if the pipeline passes it none."""

    def step(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if "generator" in inspect.signature(original).parameters:
            kwargs.setdefault("generator", generators)
        return original(*args, **kwargs)

    with patched(pipeline.scheduler, "step", step):
        yield


def _noise_weights(noise: NoiseSpec) -> dict[int, float]:
    """Seed -> weight of its noise in this one. The squares sum to 1."""
    if noise.parent is None or not noise.radius:
        return {noise.seed: 1.0}
    parent_share = math.sqrt(1 - noise.radius**2)
    weights = {seed: parent_share * weight for seed, weight in _noise_weights(noise.parent).items()}
    weights[noise.seed] = weights.get(noise.seed, 0.0) + noise.radius
    return weights


def _generator(state: DenoisingState) -> torch.Generator:
    """The state's generator, where it stopped. On the CPU, so that images do not depend on the device."""
    generator = torch.Generator().manual_seed(state.noise.seed)
    if _RANDOM in state.arrays:
        generator.set_state(torch.from_numpy(np.array(state.arrays[_RANDOM])))
    return generator


def _to_numpy(row: torch.Tensor) -> NDArray[np.float32]:
    return row.detach().float().cpu().numpy()


def _to_tensor(array: NDArray[Any], like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.array(array)).to(like)
