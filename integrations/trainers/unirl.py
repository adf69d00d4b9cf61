"""A reward backend for UniRL: docs/trainers/unirl.md has the lines of a recipe. Read in
github.com/Tencent-Hunyuan/UniRL, main, on 2026-11-23: `unirl/reward/base.py` (104aad6), `unirl/reward/service.py`
(0e713d6), `unirl/types/reward.py` before and after pull request 477 (17863c4), `unirl/types/sample.py` (09bbaa7),
`unirl/utils/wandb_metrics.py` (735e098).

Groups are UniRL's own. An edit without a value is flagged in `successes`, on which `RewardService` raises;
`missing="nan"` reports it as a success with NaN, which `Part.compute_advantages` leaves out since pull request 335
(August 2026).
"""

from __future__ import annotations

import importlib
import logging
import math
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

from ...reward import Image
from ...reward.queries.specs import Spec
from ..dataset_rows import build_samples, images_from_batch
from .trainer_reward import ScoreFn, TrainerReward, checked_missing, checked_word, describe_unscored

PromptSource = Literal["generation", "original"]

log = logging.getLogger("editcritic.trainers")


@dataclass
class RewardResponse:
    """The fields of UniRL's class, if it is not installed. compute_time: seconds."""

    rewards: list[float] = field(default_factory=list)
    component_rewards: dict[str, list[float]] = field(default_factory=dict)
    successes: list[bool] = field(default_factory=list)
    errors: list[str | None] = field(default_factory=list)
    compute_time: float = 0.0


class UniRLRewardBackend:
    """See the module.

    Args:
        reward: See `TrainerReward`; numbers may be strings, as from `${oc.env:...}`.
        prompt_source: The prompt an edit is judged by: the one it was generated with (`generation`, UniRL's default),
            or the user's before a model rewrote it (`original`).
        missing: `raise` or `nan`, see the module.
        base_device: As every backend of UniRL takes it; not used.
        options: See `TrainerReward`; numbers may be strings, as from `${oc.env:...}`.

    Raises:
        ValueError: For unknown options, and for `nan` beside a UniRL that does not leave NaN out.
    """

    input_kind = "image"

    def __init__(
        self,
        reward: ScoreFn | Spec,
        *,
        prompt_source: PromptSource = "generation",
        missing: str | float = "raise",
        base_device: str = "cpu",
        **options: Any,
    ) -> None:
        self.missing = checked_missing(missing)
        if self.missing == "nan":
            _check_advantages_leave_nan_out()
        self.prompt_source = checked_word("prompt_source", prompt_source, PromptSource)
        self.reward = TrainerReward(reward, missing="nan", **options)
        self.preferred_input_kind = "image"

    def get_model_name(self) -> str:
        """The reward's name, under which UniRL logs it."""
        return self.reward.__name__

    def compute_rewards(self, request: Any) -> Any:
        """`RewardResponse`.

        Raises:
            ValueError: If the request has no images or no sources.
        """
        start = time.perf_counter()
        generated = request.generated.get("image")
        if generated is None:
            raise ValueError(f"there is no image to score: this rollout has {', '.join(request.generated) or 'none'}")
        edited = [image for (image,) in _images_by_row(generated)]
        samples = build_samples(self._prompts(request), edited, _sources(request), request.metadata)
        batch = self.reward(samples)
        lacking = [math.isnan(value) for value in batch.values]
        if any(lacking):
            log.warning("%s", describe_unscored(samples, batch.scores, lacking))
        installed = find_spec("unirl") is not None
        response = importlib.import_module("unirl.types.reward").RewardResponse if installed else RewardResponse
        return response(
            rewards=batch.values,
            component_rewards=batch.columns,
            successes=[self.missing == "nan" or not lacks for lacks in lacking],
            errors=[
                f"{score.status}: {score.reason}" if lacks else None
                for lacks, score in zip(lacking, batch.scores, strict=True)
            ],
            compute_time=time.perf_counter() - start,
        )

    def is_available(self) -> bool:
        """Always True: the reward was built before."""
        return True

    def offload(self) -> None:
        """Offload the reward's expert weights to the CPU, if it has any in this process."""
        offload = getattr(self.reward.scorer, "offload", None)
        if callable(offload):
            offload()

    def onload(self) -> None:
        """Nothing: the next request loads the weights again."""

    def dispose(self) -> None:
        """Offload, as `offload` does."""
        self.offload()

    def _prompts(self, request: Any) -> list[str]:
        """Of requests before pull request 477 the only prompt there is."""
        name = f"{self.prompt_source}_prompt"
        texts = getattr(request, name) if hasattr(request, name) else request.primitives.get("text")
        if texts is None:
            raise ValueError(f"there is no {self.prompt_source} prompt: an edit is judged by its instruction")
        return list(texts.texts)


def _sources(request: Any) -> list[list[Image | str]]:
    """For each row the images of all user turns, or the one image, or images, of the request."""
    turns = list(getattr(request, "image_references", None) or ())
    if not turns:
        conditioning = request.conditioning if hasattr(request, "conditioning") else request.primitives
        turns = [images for images in (conditioning.get("image"),) if images is not None]
    if not turns:
        raise ValueError("an edit is scored against its source: this request has generated images only")
    by_turn = [_images_by_row(images) for images in turns]
    return [[image for images in row for image in images] for row in zip(*by_turn, strict=True)]


def _images_by_row(images: Any) -> list[list[Image | str]]:
    """Images by row, from UniRL's `Images` (one per row) or `ImageSets`; their pixels are C x H x W in [0, 1]."""
    rows = getattr(images, "rows", None)
    by_row = [[image] for image in images.to_list()] if rows is None else [row.to_list() for row in rows]
    return [images_from_batch([image.pixels for image in row]) for row in by_row]


def _check_advantages_leave_nan_out() -> None:
    """Raises ValueError where the installed UniRL is older than pull request 335: a NaN would reach every advantage."""
    if find_spec("unirl") is None:
        return
    try:
        advantages: Any = importlib.import_module("unirl.types.advantages")
    except ModuleNotFoundError:
        advantages = None
    if not hasattr(advantages, "finite_mean_std"):
        raise ValueError(
            "missing='nan' needs a UniRL whose Part.compute_advantages leaves NaN out (pull request 335, August 2026), "
            "and the installed one does not: update it, or leave missing at 'raise'"
        )
