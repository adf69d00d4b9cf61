"""A reward model for Flow-Factory.

    rewards:
      - name: edits
        reward_model: editcritic.integrations.flow_factory.EditReward
        reward: http://127.0.0.1:8321   # or the path of a TOML file, or a spec such as edit-balanced
        batch_size: 16

The settings beside Flow-Factory's own are texts: `reward` (see `rollouts.scorer_of`), and `missing`. Its loader takes
equal settings for one model, and keys that are tables cannot be compared.

The signature is that of `PointwiseRewardModel`, github.com/X-GenGroup/Flow-Factory, `src/flow_factory/rewards/abc.py`
(5f6cda1) and `guidance/rewards.md`; how it is called is in `reward_processor.py` (0e8437e), how it is found and made in
`registry.py` (0c8ebfc) and `loader.py` (c4c078c): `cls(config=RewardArguments, accelerator=Accelerator)`. Pointwise
models are those of its own class, so that is the base where flow_factory is installed; else any object is.

Groups are Flow-Factory's own (`source_id`, `unique_id`). Edits without a score: its advantages are means and deviations
by numpy, of groups or (with `global_std`, the default) of all; one NaN among them makes them all NaN, and a None is no
tensor. So `missing: raise`, the default, which ends the run and names them; `missing: nan` is for an `aggregation_func`
of one's own that leaves NaN out.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .rollouts import edits_of, missing_of, numbers_of, pictures_in, scored, scorer_of, table_of

if TYPE_CHECKING:
    from torch import Tensor


class _Base:
    """What Flow-Factory's base class keeps, where it is not installed."""

    def __init__(self, config: Any, accelerator: Any) -> None:
        self.config = config
        self.accelerator = accelerator
        self.device = getattr(accelerator, "device", "cpu")


@dataclass
class RewardModelOutput:
    """Fields of Flow-Factory's, where it is not installed. rewards: float32, a number an edit."""

    rewards: Tensor
    extra_info: dict[str, Any] | None = None


def _theirs() -> tuple[Any, Any]:
    """Flow-Factory's base class and output, or what stands for them."""
    if find_spec("flow_factory") is None:
        return _Base, RewardModelOutput
    rewards = importlib.import_module("flow_factory.rewards")
    return rewards.PointwiseRewardModel, rewards.RewardModelOutput


_Model: Any
_Output: Any
_Model, _Output = _theirs()


class EditReward(_Model):
    """See the module. config: with `reward` and `missing` among its `extra_kwargs`."""

    required_fields = ("prompt", "image", "condition_images")
    use_tensor_inputs = False

    def __init__(self, config: Any, accelerator: Any) -> None:
        super().__init__(config, accelerator)
        given = getattr(config, "extra_kwargs", {})
        self.scorer = scorer_of(given.get("reward", ""))
        self.missing = missing_of(given.get("missing", "raise"))

    def __call__(
        self,
        prompt: Sequence[str],
        image: Sequence[Any] | None = None,
        video: Any = None,
        audio: Any = None,
        condition_images: Sequence[Sequence[Any]] | None = None,
        condition_videos: Any = None,
        metadata: Sequence[Any] | None = None,
    ) -> Any:
        """`RewardModelOutput` with a float32 number an edit. image: PIL; condition_images: of each, those it was made
        of. metadata: JSON a row. Raises ValueError without pictures, `Unscored`, and what the reward raises.

        It takes no other keywords: Flow-Factory passes what the signature names, and would convert all the rest.
        """
        import torch

        if image is None or condition_images is None:
            raise ValueError("an edit is judged with its picture and its sources: this sample has no condition_images")
        rows = None if metadata is None else [table_of(one) for one in metadata]
        sources = [pictures_in(found) for found in condition_images]
        samples = edits_of(list(prompt), pictures_in(image), sources, rows)
        values = numbers_of(samples, scored(self.scorer, samples), self.missing)
        return _Output(rewards=torch.tensor(values, dtype=torch.float32, device=self.device))
