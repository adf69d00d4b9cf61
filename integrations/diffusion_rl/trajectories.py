"""What a policy gradient needs of a pipeline's call: the states it went through, and the denoiser once more at them.

The pipeline runs as it is. A hook on its denoiser keeps what goes in, and the scheduler's `step` is stood in for: it
draws the next state from a `transitions.Moves`. Afterwards the denoiser alone is called again with what it was given,
for some rows and with gradients; encoders and decoders have no part in that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import MappingProxyType, TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from .stepping import standing_in
from .transitions import Move, Moves, Noising, drawn, log_likelihood

_SHARED = ("img_ids", "txt_ids")  # of two dimensions: places in the picture, the same for all rows
_NEAR = 1e-2  # of the largest number: further from what the pipeline made of it, a prediction is another one


@dataclass(slots=True)
class Step:
    """A transition of all rows of a call. number, move: which step of the sampler it is. given: to the denoiser. state,
    following: (N, …). likelihood: (N,), of `following`, by the weights that drew it; as `log_likelihood` gives it.
    """

    number: int
    move: Move
    noising: Noising
    given: tuple[tuple[Any, ...], dict[str, Any]]
    state: Tensor
    following: Tensor
    likelihood: Tensor


@dataclass(slots=True)
class Trajectory:
    """Of one call of the pipeline, with as many rows as pictures. guidance: InstructPix2Pix's, by the words and by the
    source. steps: those that were left to chance, or were to be kept. start, final: (N, …), the state before the first
    step, which is noise, and after the last one.
    """

    pipeline: Any
    rows: int
    guidance: tuple[float, float]
    steps: list[Step] = field(default_factory=list)
    start: Tensor = field(default_factory=lambda: torch.empty(0))
    final: Tensor = field(default_factory=lambda: torch.empty(0))

    def mean(self, step: Step, rows: Sequence[int]) -> tuple[Tensor, float]:
        """Where the denoiser, as it is now, would move these rows; and the standard deviation around that."""
        return step.move(self.prediction(step, rows), step.state[list(rows)])

    def prediction(self, step: Step, rows: Sequence[int], state: Tensor | None = None) -> Tensor:
        """What the denoiser, as it is now, predicts of these rows. state: theirs, in the place of the one they had."""
        chosen = torch.tensor(list(rows), device=step.state.device)
        was = step.state[chosen]

        def given(value: Any, name: str = "") -> Any:
            found = _of(chosen, value, self.rows, name)
            return found if state is None else _with_state(found, was, state)

        args, named = step.given
        args, named = tuple(given(one) for one in args), {name: given(one, name) for name, one in named.items()}
        return predicted(denoiser(self.pipeline)(*args, **named), was, self.guidance)


class Recorded:
    """A context in which the pipeline is called once, with randomness from `moves` at the `chance` steps.

    with Recorded(pipeline, moves, generators, chance, settings) as trajectory:
        pictures = pipeline(…, generator=generators, **settings).images

    generators: one a row, which also the noise of the steps is drawn from. chance: numbers of steps, all without it;
    the others are the solver's own, without noise. keep: numbers of steps that are kept in any case. settings: of that
    call, where guidance is among them.

    Raises ValueError for a call of other rows, with guidance that calls the denoiser twice, or that is not known here.
    """

    def __init__(
        self,
        pipeline: Any,
        moves: Moves,
        generators: Sequence[torch.Generator],
        chance: Collection[int] | None = None,
        settings: Mapping[str, Any] = MappingProxyType({}),
        *,
        keep: Collection[int] = (),
    ) -> None:
        self._trajectory = Trajectory(pipeline, len(generators), _guidance(pipeline, settings))
        self._moves = moves
        self._generators = generators
        self._chance = chance
        self._keep = keep
        self._calm = replace(moves, level=0.0)
        self._calls: list[tuple[tuple[Any, ...], dict[str, Any], Any]] = []
        self._number = 0

    def __enter__(self) -> Trajectory:
        pipeline = self._trajectory.pipeline
        with ExitStack() as stack:
            stack.enter_context(standing_in(pipeline.scheduler, "step", self._step))
            handle = denoiser(pipeline).register_forward_hook(self._called, with_kwargs=True)
            stack.callback(handle.remove)
            self._stack = stack.pop_all()
        return self._trajectory

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _called(self, module: nn.Module, args: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        self._calls.append((args, named, output))

    def _step(
        self, original: Callable[..., Any], output: Tensor, timestep: Any, state: Tensor, *given: Any, **named: Any
    ) -> Any:
        found, number, calls = self._trajectory, self._number, self._calls
        self._calls, self._number = [], number + 1
        if state.shape[0] != found.rows:
            raise ValueError(f"a call of {state.shape[0]} rows takes so many generators, got {found.rows}")
        move = (self._moves if self._chance is None or number in self._chance else self._calm).at(number)
        mean, std = move(output, state)
        following = drawn(mean, std, self._generators).to(state.dtype)
        if not number:
            found.start = state
        found.final = following
        if std or number in self._keep:
            if len(calls) != 1:
                raise ValueError(
                    f"{type(found.pipeline).__name__} called its denoiser {len(calls)} times for one step: train it "
                    "without the guidance that does so (true_cfg_scale=1, or guidance_scale=1 for FLUX.2 Klein)"
                )
            ((args, kept, raw),) = calls
            if not found.steps:
                _check(found, raw, output, state)
            likelihood = log_likelihood(following, mean, std) if std else torch.zeros(found.rows)
            noising = self._moves.noising(number)
            found.steps.append(Step(number, move, noising, (args, kept), state, following, likelihood))
        return _Moved(following) if named.get("return_dict", True) else (following,)


@dataclass
class _Moved:
    prev_sample: Tensor


def denoiser(pipeline: Any) -> nn.Module:
    """The part of a pipeline that is trained: its transformer or its UNet."""
    for name in ("transformer", "unet"):
        if isinstance(found := getattr(pipeline, name, None), nn.Module):
            return found
    raise ValueError(f"{type(pipeline).__name__} has neither a transformer nor a unet to train")


def predicted(output: Any, state: Tensor, guidance: tuple[float, float]) -> Tensor:
    """What a pipeline hands to its solver, from what its denoiser gives back.

    The patches of the picture come before those of the sources, as in Kontext, Qwen-Image-Edit and FLUX.2. Three times
    as many rows are InstructPix2Pix with both of its guidances: by the words, and by the source.
    """
    found = output[0] if isinstance(output, tuple) else output.sample
    if found.shape[0] == 3 * state.shape[0]:
        words, source, neither = found.chunk(3)
        return neither + guidance[0] * (words - source) + guidance[1] * (source - neither)
    return found[:, : state.shape[1]]


def _of(rows: Tensor, value: Any, count: int, name: str = "") -> Any:
    """The part of a denoiser's argument that belongs to some rows; of one that holds all rows several times over
    (guidance), of each time.
    """
    if isinstance(value, Mapping):
        return {key: _of(rows, one, count, key) for key, one in value.items()}
    if isinstance(value, list) and len(value) == count:
        return [value[row] for row in rows.tolist()]
    if not isinstance(value, Tensor) or not value.ndim or (name in _SHARED and value.ndim == 2):
        return value
    times, rest = divmod(value.shape[0], count)
    if rest or not times:
        return value
    return value[torch.cat([rows + count * again for again in range(times)])]


def _with_state(value: Any, was: Tensor, state: Tensor) -> Any:
    """What was made of a state (once, or several times over), made of another."""
    if not isinstance(value, Tensor) or value.ndim != was.ndim or value.shape[2:] != was.shape[2:]:
        return value
    rows, across = was.shape[:2]
    if value.shape[1] < across or value.shape[0] % rows or not torch.equal(value[:rows, :across], was.to(value.dtype)):
        return value
    times = value.shape[0] // rows
    return torch.cat([state.to(value.dtype).repeat(times, *[1] * (was.ndim - 1)), value[:, across:]], dim=1)


def _guidance(pipeline: Any, settings: Mapping[str, Any]) -> tuple[float, float]:
    """Of a call with these settings. From these, since not every pipeline says, and none after its next call."""
    known = inspect.signature(type(pipeline).__call__).parameters
    words, source = (
        settings.get(name, known[name].default if name in known else 1.0)
        for name in ("guidance_scale", "image_guidance_scale")
    )
    return words, source


def _check(found: Trajectory, raw: Any, output: Tensor, state: Tensor) -> None:
    apart = (predicted(raw, state, found.guidance).float() - output.float()).abs().max()
    if not apart <= _NEAR * output.float().abs().max():
        raise ValueError(
            f"{type(found.pipeline).__name__} makes something else of what its denoiser predicts than is known here "
            "(by guidance with rescaling, perhaps): train it without"
        )
