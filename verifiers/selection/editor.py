"""The editor protocols: an image from source images, an instruction and a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from ...reward import EditSample, Image
from ...reward.timeout_compat import TIMEOUTS

Sources = Sequence[tuple[Image, ...]]
"""The source images of each item."""
Histories = Sequence[tuple[EditSample, ...]] | None
"""The earlier turns of each item, oldest first."""


class EditorError(RuntimeError):
    """The editor raised for every requested image."""


def is_editor_down(error: BaseException) -> bool:
    """Whether an exception, or one that led to it, is a lost connection, a time-out or a lack of memory."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, (ConnectionError, MemoryError, *TIMEOUTS)) or type(seen).__name__ == "OutOfMemoryError":
            return True  # the last is torch's, which this module does not need
        seen = seen.__cause__ or seen.__context__
    return False


@runtime_checkable
class Editor(Protocol):
    """Generates edited images in batches.

    `id` identifies the model and all settings that the images depend on, for the journal. `nfe` is the number of
    denoiser evaluations per image (0 if it does not apply). `batch_size` is the maximum number of images per call.
    """

    @property
    def id(self) -> str:
        """Identifies the model and all settings that images depend on."""

    @property
    def nfe(self) -> int:
        """Denoiser evaluations per image; 0 if it does not apply."""

    @property
    def batch_size(self) -> int:
        """Maximum number of images per call."""

    def edit(
        self, images: Sources, instructions: Sequence[str], seeds: Sequence[int], *, history: Histories = None
    ) -> Sequence[Image]:
        """One image per item: `images` holds the sources of each item, `history` its earlier turns, oldest first.

        An image depends on its own item only and is deterministic. May raise anything; the candidates of the call then
        fail with that reason. Errors of the editor itself are told from those of a request by `is_editor_down`.
        """
        ...


@dataclass(frozen=True, slots=True)
class NoiseSpec:
    """The initial noise of a candidate, as a recipe.

    Without a `parent`: the normal noise that the editor samples from `seed`. With a `radius` in (0, 1]: the parent's
    noise times sqrt(1 - radius^2) plus fresh noise times radius, which is normal noise again. With `preview_step` and
    `restart_step`: the parent's preview at step `preview_step`, with fresh noise at the level of step `restart_step`.
    """

    seed: int
    parent: NoiseSpec | None = None
    radius: float = 0.0
    preview_step: int = 0
    restart_step: int = 0

    def __post_init__(self) -> None:
        if self.parent is not None and not (0 < self.radius <= 1 or 0 <= self.restart_step <= self.preview_step > 0):
            raise ValueError(
                f"noise with a parent needs a radius in (0, 1], or 0 <= restart_step <= preview_step > 0, got {self!r}"
            )

    def perturbed(self, seed: int, radius: float) -> NoiseSpec:
        """A neighbour at distance `radius`, in a direction sampled from `seed`."""
        return NoiseSpec(seed, self, radius=radius)

    def renoised(self, seed: int, *, preview_step: int, restart_step: int) -> NoiseSpec:
        """The preview at `preview_step`, re-noised to the level of `restart_step`."""
        return NoiseSpec(seed, self, preview_step=preview_step, restart_step=restart_step)

    @property
    def start_step(self) -> int:
        """The step that denoising starts at; the cost before it belongs to the parent."""
        return self.restart_step

    def describe(self) -> list[Any]:
        """As JSON, equal for equal recipes. The journal hashes it."""
        if self.parent is None:
            return [self.seed]
        return [self.seed, self.parent.describe(), self.radius, self.preview_step, self.restart_step]


@dataclass(frozen=True, slots=True, eq=False)
class DenoisingState:
    """An image in the middle of denoising: the request and the state after `step` evaluations.

    Args:
        arrays: Private to the editor (latents, state of a random generator), as numpy arrays that a journal can store.
    """

    images: tuple[Image, ...]
    instruction: str
    noise: NoiseSpec
    step: int
    arrays: Mapping[str, NDArray[Any]]
    history: tuple[EditSample, ...] = ()


@runtime_checkable
class StepwiseEditor(Editor, Protocol):
    """An editor that can pause, preview the final image and resume.

    Going from step 0 to `nfe`, in any number of stages, gives the image that `edit` gives for the seed of the noise.
    """

    def begin(
        self,
        images: Sources,
        instructions: Sequence[str],
        noise_specs: Sequence[NoiseSpec],
        *,
        history: Histories = None,
    ) -> Sequence[DenoisingState]:
        """States at step 0, without an evaluation. `noise_specs` are seeds or neighbours."""
        ...

    def advance(self, states: Sequence[DenoisingState], until_step: int) -> Sequence[tuple[DenoisingState, Image]]:
        """The states at `until_step`, each with the predicted final image; at the last step, the image itself.

        Takes `until_step` minus the states' step evaluations. All states are at the same step, before `until_step`.
        """
        ...

    def renoise(self, states: Sequence[DenoisingState], step: int, seeds: Sequence[int]) -> Sequence[DenoisingState]:
        """States at `step`: the predicted final images of `states` with fresh noise at the level of that step."""
        ...
