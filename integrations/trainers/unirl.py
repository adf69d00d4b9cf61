"""A reward backend for UniRL.

    reward:
      _target_: unirl.reward.service.RewardService
      backend:
        _target_: editcritic.integrations.trainers.unirl.UniRLRewardBackend
        reward: http://127.0.0.1:8321   # or a spec, or the path of a TOML file

The interface is that of `RewardBackend`, github.com/Tencent-Hunyuan/UniRL, `unirl/reward/base.py` (104aad6), called by
`RewardService.score_and_attach` in `unirl/reward/service.py` (0e713d6) with the `RewardRequest` of
`unirl/types/reward.py` (17863c4). Nothing of UniRL is imported but its `RewardResponse`, where it is installed.
Without this backend, UniRL's own `RemoteRewardBackend` can call a judge server with the trainer protocol `unirl`: it
sends JPEG and one source per image; here images arrive losslessly, with all their sources.

Groups are UniRL's own, of its prompt tree.

Edits without a score are flagged in `successes`, with the reason in `errors` and NaN as reward: `RewardService` raises
on the first flag and names the samples, so that no update uses them. There is no option.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

from ...reward import Image
from ...reward.queries.specs import Spec
from .trainer_batches import build_samples, images_from_batch
from .trainer_reward import ScoreFn, TrainerReward

PromptSource = Literal["generation", "original"]


@dataclass
class RewardResponse:
    """The fields of UniRL's class, if it is not installed. compute_time: seconds."""

    rewards: list[float] = field(default_factory=list)
    component_rewards: dict[str, list[float]] = field(default_factory=dict)
    successes: list[bool] = field(default_factory=list)
    errors: list[str | None] = field(default_factory=list)
    compute_time: float = 0.0


class UniRLRewardBackend:
    """See the module. reward: see `trainer_reward.resolve_scorer`.

    prompt_source: the prompt an edit is judged by: the one it was generated with (`generation`, UniRL's default), or
    the user's before a model rewrote it (`original`).
    """

    input_kind = "image"

    def __init__(
        self,
        reward: ScoreFn | Spec,
        *,
        prompt_source: PromptSource = "generation",
        base_device: str = "cpu",
        **options: Any,
    ) -> None:
        if prompt_source not in ("generation", "original"):
            raise ValueError(f"prompt_source must be 'generation' or 'original', got {prompt_source!r}")
        self.reward = TrainerReward(reward, missing="nan", **options)
        self.prompt_source = prompt_source
        self.preferred_input_kind = "image"

    def get_model_name(self) -> str:
        return self.reward.__name__

    def compute_rewards(self, request: Any) -> Any:
        """`RewardResponse`. Raises ValueError if the request has no images or no sources."""
        start = time.perf_counter()
        generated = request.generated.get("image")
        if generated is None:
            raise ValueError(f"there is no image to score: this rollout has {', '.join(request.generated) or 'none'}")
        edited = [image for (image,) in _images_by_row(generated)]
        samples = build_samples(self._prompts(request), edited, _sources(request), request.metadata)
        batch = self.reward(samples)
        rewards, scores = batch.values, batch.scores
        return _response_class()(
            rewards=rewards,
            component_rewards={self.get_model_name(): list(rewards)},
            successes=[not math.isnan(value) for value in rewards],
            errors=[
                f"{score.status}: {score.reason}" if math.isnan(value) else None
                for value, score in zip(rewards, scores, strict=True)
            ],
            compute_time=time.perf_counter() - start,
        )

    def is_available(self) -> bool:
        return True

    def offload(self) -> None:
        """Offload the reward's expert weights to the CPU, if it has any in this process."""
        offload = getattr(self.reward.scorer, "offload", None)
        if callable(offload):
            offload()

    def onload(self) -> None:
        """Nothing: the next request loads the weights again."""

    def dispose(self) -> None:
        self.offload()

    def _prompts(self, request: Any) -> list[str]:
        texts = getattr(request, f"{self.prompt_source}_prompt", None)
        return list(request.prompts if texts is None else texts.texts)


def _sources(request: Any) -> list[list[Image | str]]:
    """For each row the images of all user turns, or the one image of the request."""
    references = list(getattr(request, "image_references", None) or ())
    image_sets = references or [image_set for image_set in (request.primitives.get("image"),) if image_set is not None]
    if not image_sets:
        raise ValueError("an edit is scored against its source: this request has generated images only")
    turns = [_images_by_row(image_set) for image_set in image_sets]
    return [[image for turn in row for image in turn] for row in zip(*turns, strict=True)]


def _images_by_row(images: Any) -> list[Sequence[Image | str]]:
    """Images by row, from UniRL's `Images` (one per row) or `ImageSets`; their pixels are C x H x W in [0, 1]."""
    rows = getattr(images, "rows", None)
    if rows is None:
        return [_images([image]) for image in images.to_list()]
    return [_images(row.to_list()) for row in rows]


def _images(images: Sequence[Any]) -> list[Image | str]:
    return [decoded for image in images for decoded in images_from_batch(image.pixels[None])]


def _response_class() -> Any:
    if find_spec("unirl") is None:
        return RewardResponse
    return importlib.import_module("unirl.types.reward").RewardResponse
