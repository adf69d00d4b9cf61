"""Running a diffusers pipeline in pieces: from any step to any other, with a preview decoded by the pipeline itself.

Two public methods are stood in for while a pipeline is called, and no private name is touched. `prepare_latents` hands
the loop the latents that a draft has come to, instead of fresh noise, in whatever layout the loop works in. The
scheduler's `set_timesteps` leaves the loop only the steps of this piece, and its `step` keeps the true state for
later, while the loop is given what it is expected to become, so that what the pipeline decodes and returns as its
result is the preview. At the last step that is the result.

Only for solvers that carry nothing from step to step but the latents: see `SCHEDULERS`.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...verifiers.editor import Draft, Noise

SCHEDULERS = (
    "FlowMatchEulerDiscreteScheduler",
    "EulerDiscreteScheduler",
    "EulerAncestralDiscreteScheduler",
    "DDIMScheduler",
    "DDPMScheduler",
)
"""Solvers whose state is the latents alone, so that a run can be broken off after any step."""

_LATENTS, _CLEAN, _SIGNAL, _NOISE, _RANDOM = "latents", "clean", "signal", "noise", "random"


def can_stop(pipeline: Any) -> str:
    """Why this pipeline cannot be run in pieces, in words; empty where it can."""
    scheduler = type(getattr(pipeline, "scheduler", None)).__name__
    if scheduler not in SCHEDULERS:
        return f"{scheduler} keeps more than the latents from step to step: use one of {', '.join(SCHEDULERS)}"
    if not callable(getattr(pipeline, "prepare_latents", None)):
        return f"{type(pipeline).__name__} has no prepare_latents"
    return ""


class Piece:
    """The steps from the drafts' own to `until`, as a context in which the pipeline is called once.

        with Piece(pipeline, drafts, until) as piece:
            pictures = pipeline(…, generator=piece.generators).images
        drafts = piece.drafts

    The call must have as many rows as there are drafts, in their order. A draft without arrays starts from its noise.
    """

    def __init__(self, pipeline: Any, drafts: Sequence[Draft], until: int) -> None:
        if problem := can_stop(pipeline):
            raise TypeError(problem)
        steps = {draft.step for draft in drafts}
        if len(steps) != 1:
            raise ValueError(f"drafts of one piece stand at one step, got {sorted(steps)}")
        (self._start,) = steps
        if not self._start < until:
            raise ValueError(f"drafts at step {self._start} cannot go to step {until}")
        self._until = until
        self._pipeline = pipeline
        self._scheduler = pipeline.scheduler
        self._given = list(drafts)
        self.generators = [_generator(draft) for draft in drafts]
        self.evaluations = 0
        """Of a whole picture, which the scheduler decides; known once the pipeline was called."""
        self._state: torch.Tensor | None = None
        self._clean: torch.Tensor | None = None

    def __enter__(self) -> Piece:
        scheduler = self._scheduler
        with ExitStack() as stack:
            stack.enter_context(standing_in(self._pipeline, "prepare_latents", self._prepare))
            stack.enter_context(standing_in(scheduler, "set_timesteps", self._set_timesteps))
            stack.enter_context(standing_in(scheduler, "step", self._step))
            if hasattr(scheduler, "set_begin_index"):
                begun = standing_in(scheduler, "set_begin_index", lambda original, *_: original(self._start))
                stack.enter_context(begun)
            self._standing_in = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._standing_in.close()

    @property
    def drafts(self) -> list[Draft]:
        """Where they stand now."""
        if self._state is None or self._clean is None:
            raise RuntimeError(f"{type(self._pipeline).__name__} did not run the piece to step {self._until}")
        signal, noise = levels(self._scheduler, self.evaluations)
        found = []
        for row, draft in enumerate(self._given):
            arrays: dict[str, NDArray[Any]] = {
                _LATENTS: _kept(self._state[row]),
                _CLEAN: _kept(self._clean[row]),
                _SIGNAL: signal,
                _NOISE: noise,
                _RANDOM: self.generators[row].get_state().numpy().copy(),
            }
            found.append(Draft(draft.images, draft.instruction, draft.noise, self._until, arrays, draft.history))
        return found

    # -- what stands in -----------------------------------------------------------------------------------------------

    def _prepare(self, original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """The pipeline's own latents (and what comes with them), with each draft's in their place."""
        call = inspect.signature(original).bind(*given, **named)

        def drawn(generators: list[torch.Generator]) -> Any:
            call.arguments["generator"] = generators
            call.arguments["latents"] = None
            return original(*call.args, **call.kwargs)

        # A draft that goes on from its own latents draws nothing: its random numbers stay where it left them.
        prepared = drawn(
            [
                torch.Generator() if _LATENTS in draft.arrays else generator
                for draft, generator in zip(self._given, self.generators, strict=True)
            ]
        )
        latents = prepared[0] if isinstance(prepared, tuple) else prepared
        if latents.shape[0] != len(self._given):
            raise ValueError(f"{len(self._given)} drafts were to be continued, the call has {latents.shape[0]} rows")
        scale = float(getattr(self._scheduler, "init_noise_sigma", 1.0))

        def noise_of(noise: Noise) -> torch.Tensor:
            weights = _recipe(noise)
            seeds, count = list(weights), len(self._given)
            # The sources are with the latents already: they need not be encoded for each noise again.
            call.arguments.update({name: None for name in ("image", "images") if name in call.arguments})
            found = torch.zeros_like(latents[:1], dtype=torch.float32)
            for start in range(0, len(seeds), count):  # as many at a time as the call has rows
                part = seeds[start : start + count]
                every = drawn([torch.Generator().manual_seed(seed) for seed in (part + part[:1] * count)[:count]])
                fresh = every[0] if isinstance(every, tuple) else every
                found += sum(weights[seed] * row.float() for seed, row in zip(part, fresh, strict=False))
            return found

        rows = []
        for row, draft in enumerate(self._given):
            if _LATENTS in draft.arrays:
                rows.append(_back(draft.arrays[_LATENTS], latents)[None])
            elif _CLEAN in draft.arrays:  # what was to be seen, under fresh noise
                signal, noise = draft.arrays[_SIGNAL][draft.step], draft.arrays[_NOISE][draft.step]
                fresh = latents[row : row + 1] / scale
                rows.append(float(signal) * _back(draft.arrays[_CLEAN], latents)[None] + float(noise) * fresh)
            elif draft.noise.radius:
                rows.append(noise_of(draft.noise))
            else:
                rows.append(latents[row : row + 1])
        found = torch.cat([row.to(latents) for row in rows])
        return (found, *prepared[1:]) if isinstance(prepared, tuple) else found

    def _set_timesteps(self, original: Callable[..., Any], *given: Any, **named: Any) -> None:
        original(*given, **named)
        scheduler = self._scheduler
        self.evaluations = len(scheduler.timesteps)
        if self._until > self.evaluations:
            raise ValueError(f"the pipeline takes {self.evaluations} steps, and was to go to step {self._until}")
        self._whole = scheduler.timesteps
        scheduler.timesteps = self._whole[self._start : self._until]
        if hasattr(scheduler, "set_begin_index"):
            scheduler.set_begin_index(self._start)
        self._left = self._until - self._start

    def _step(
        self, original: Callable[..., Any], output: Any, timestep: Any, sample: Any, *given: Any, **named: Any
    ) -> Any:
        self._scheduler.timesteps = self._whole  # the loop has its own by now, and DDPM looks the next one up here
        as_tuple = not named.pop("return_dict", True)
        if "generator" in inspect.signature(original).parameters:  # else a stochastic solver draws from the global one
            named.setdefault("generator", self.generators)
        index = self._until - self._left
        moved = original(output, timestep, sample, *given, return_dict=True, **named)
        self._left -= 1
        state = moved.prev_sample
        if self._left == 0:
            clean = getattr(moved, "pred_original_sample", None)
            if clean is None:
                sigmas = self._scheduler.sigmas  # they end at 1 where they are inverted, as OmniGen's are
                clean = sample.float() + (sigmas[-1] - sigmas[index]).to(sample.device) * output.float()
            self._state = state
            self._clean = state if self._until == self.evaluations else clean.to(state.dtype)
            moved.prev_sample = self._clean
        return (moved.prev_sample,) if as_tuple else moved


def levels(scheduler: Any, evaluations: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Of each step, how much of the picture and how much noise there is in the latents before it."""
    if hasattr(scheduler, "sigmas"):
        sigmas = scheduler.sigmas.cpu().numpy().astype(np.float32)
        if type(scheduler).__name__.startswith("FlowMatch"):
            noise = abs(sigmas[:evaluations] - sigmas[-1])
            return 1 - noise, noise
        return np.ones_like(sigmas[:evaluations]), sigmas[:evaluations]
    left = scheduler.alphas_cumprod[scheduler.timesteps.cpu().long()].cpu().numpy().astype(np.float32)
    return np.sqrt(left), np.sqrt(1 - left)


def started(images: Any, instruction: str, noise: Noise, history: Any = ()) -> Draft:
    """A draft before its first step."""
    return Draft(images, instruction, noise, 0, {}, history)


def gone_back(draft: Draft, to: int, seed: int) -> Draft:
    """What the draft was expected to become, to be put under fresh noise as there is at step `to`."""
    if not 0 <= to < len(draft.arrays[_SIGNAL]):
        raise ValueError(f"a draft can go back to a step from 0 to {len(draft.arrays[_SIGNAL]) - 1}, got {to}")
    kept: Mapping[str, NDArray[Any]] = {name: draft.arrays[name] for name in (_CLEAN, _SIGNAL, _NOISE)}
    noise = draft.noise.again(seed, seen=draft.step, back=to)
    return Draft(draft.images, draft.instruction, noise, to, kept, draft.history)


@contextmanager
def standing_in(owner: Any, name: str, replacement: Callable[..., Any]) -> Iterator[None]:
    """`_stand_in` for a while: afterwards the object has what it had."""
    own = vars(owner).get(name)
    _stand_in(owner, name, replacement)
    try:
        yield
    finally:
        delattr(owner, name)
        if own is not None:
            setattr(owner, name, own)


@contextmanager
def seeded(pipeline: Any, generators: list[torch.Generator]) -> Iterator[None]:
    """Have a solver that adds noise draw it from these, where the pipeline hands it nothing to draw from."""

    def step(original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        if "generator" in inspect.signature(original).parameters:
            named.setdefault("generator", generators)
        return original(*given, **named)

    with standing_in(pipeline.scheduler, "step", step):
        yield


def _recipe(noise: Noise) -> dict[int, float]:
    """Seed -> how much of the noise drawn from it there is in this one. The squares add up to 1."""
    if noise.parent is None or not noise.radius:
        return {noise.seed: 1.0}
    kept = math.sqrt(1 - noise.radius**2)
    found = {seed: kept * weight for seed, weight in _recipe(noise.parent).items()}
    found[noise.seed] = found.get(noise.seed, 0.0) + noise.radius
    return found


def _generator(draft: Draft) -> torch.Generator:
    """The draft's own random numbers, where it left them. On the CPU: pictures do not depend on the device then."""
    made = torch.Generator().manual_seed(draft.noise.seed)
    if _RANDOM in draft.arrays:
        made.set_state(torch.from_numpy(np.array(draft.arrays[_RANDOM])))
    return made


def _kept(row: torch.Tensor) -> NDArray[np.float32]:
    return row.detach().float().cpu().numpy()


def _back(array: NDArray[Any], like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.array(array)).to(like)


def _stand_in(owner: Any, name: str, replacement: Callable[..., Any]) -> None:
    """Put `replacement` in the place of a method of this one object; it is given the original first.

    Pipelines look at the signatures of what they call, so the signature stays.
    """
    original = getattr(owner, name)

    @functools.wraps(original)
    def standing_in(*given: Any, **named: Any) -> Any:
        return replacement(original, *given, **named)

    setattr(owner, name, standing_in)
