"""A reward backend for UniRL.

    reward:
      _target_: unirl.reward.service.RewardService
      backend:
        _target_: editcritic.integrations.unirl.EditBackend
        reward: http://127.0.0.1:8321   # or a spec, or the path of a TOML file

The interface is that of `RewardBackend`, github.com/Tencent-Hunyuan/UniRL, `unirl/reward/base.py` (104aad6), called by
`RewardService.score_and_attach` in `unirl/reward/service.py` (0e713d6) with the `RewardRequest` of
`unirl/types/reward.py` (17863c4). Nothing of UniRL is imported but its `RewardResponse`, where it is installed.
Without this file, UniRL's own `RemoteRewardBackend` speaks to a judge server that has the shim `unirl`: as JPEG, and
with one source a picture; here pictures arrive as they were made, all sources with them.

Groups are UniRL's own, of its prompt tree.

Edits without a score are flagged in `successes`, with the reason in `errors` and NaN for a number: `RewardService`
raises on the first flag and names the samples, so that no step is made with them. There is nothing to choose.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

from ..reward import Image
from ..reward.spec import Spec
from .rollouts import Scorer, edits_of, name_of, pictures_in, scored, scorer_of

PromptSource = Literal["generation", "original"]


@dataclass
class RewardResponse:
    """Fields of UniRL's, where it is not installed. compute_time: seconds."""

    rewards: list[float] = field(default_factory=list)
    component_rewards: dict[str, list[float]] = field(default_factory=dict)
    successes: list[bool] = field(default_factory=list)
    errors: list[str | None] = field(default_factory=list)
    compute_time: float = 0.0


class EditBackend:
    """See the module. reward: see `rollouts.scorer_of`.

    prompt_source: what an edit is judged by: the prompt that it was made with (`generation`, UniRL's default), or what
    the user had said before a model rewrote it (`original`).
    """

    input_kind = "image"

    def __init__(
        self, reward: Scorer | Spec, *, prompt_source: PromptSource = "generation", base_device: str = "cpu"
    ) -> None:
        if prompt_source not in ("generation", "original"):
            raise ValueError(f"prompt_source is 'generation' or 'original', got {prompt_source!r}")
        self.scorer = scorer_of(reward)
        self.prompt_source = prompt_source
        self.preferred_input_kind = "image"

    def get_model_name(self) -> str:
        return name_of(self.scorer)

    def compute_rewards(self, request: Any) -> Any:
        """`RewardResponse`. Raises ValueError where the request has no pictures or no sources."""
        began = time.perf_counter()
        made = request.generated.get("image")
        if made is None:
            raise ValueError(
                f"there is no picture to judge: this rollout made {', '.join(request.generated) or 'none'}"
            )
        edited = [one for (one,) in _rows(made)]
        samples = edits_of(self._prompts(request), edited, _sources(request), request.metadata)
        scores = scored(self.scorer, samples)
        rewards = [math.nan if score.value is None else score.value for score in scores]
        return _response()(
            rewards=rewards,
            component_rewards={self.get_model_name(): list(rewards)},
            successes=[score.value is not None for score in scores],
            errors=[None if score.value is not None else f"{score.status}: {score.reason}" for score in scores],
            compute_time=time.perf_counter() - began,
        )

    def is_available(self) -> bool:
        return True

    def offload(self) -> None:
        """Gives the accelerator's memory back, where the reward has any here."""
        give_back = getattr(self.scorer, "offload", None)
        if callable(give_back):
            give_back()

    def onload(self) -> None:
        """Nothing: the next question brings weights back."""

    def dispose(self) -> None:
        self.offload()

    def _prompts(self, request: Any) -> list[str]:
        texts = getattr(request, f"{self.prompt_source}_prompt", None)
        return list(request.prompts if texts is None else texts.texts)


def _sources(request: Any) -> list[list[Image]]:
    """Of each row the pictures of all of the user's turns, or the one that the request has."""
    given = list(getattr(request, "image_references", None) or ())
    found = given or [one for one in (request.primitives.get("image"),) if one is not None]
    if not found:
        raise ValueError("an edit is judged against its source: this request has no pictures but those that were made")
    turns = [_rows(one) for one in found]
    return [[one for turn in row for one in turn] for row in zip(*turns, strict=True)]


def _rows(images: Any) -> list[Sequence[Image]]:
    """Pictures by row, of UniRL's `Images` (one a row) or `ImageSets`; their pixels are C x H x W in [0, 1]."""
    rows = getattr(images, "rows", None)
    if rows is None:
        return [_pictures([one]) for one in images.to_list()]
    return [_pictures(row.to_list()) for row in rows]


def _pictures(images: Sequence[Any]) -> list[Image]:
    return [picture for one in images for picture in pictures_in(one.pixels[None])]


def _response() -> Any:
    if find_spec("unirl") is None:
        return RewardResponse
    return importlib.import_module("unirl.types.reward").RewardResponse
