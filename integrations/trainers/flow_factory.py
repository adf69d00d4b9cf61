"""A reward model for Flow-Factory.

    rewards:
      - name: edits
        reward_model: editcritic.integrations.trainers.flow_factory.FlowFactoryReward
        reward: http://127.0.0.1:8321   # or the path of a TOML file, or a spec such as any-edit
        batch_size: 16

The options beside Flow-Factory's own are strings: `reward` (see `trainer_reward.resolve_scorer`) and `missing`. Its
loader shares one model between equal configurations, and cannot compare tables.

The signature is that of `PointwiseRewardModel`, github.com/X-GenGroup/Flow-Factory, `src/flow_factory/rewards/abc.py`
(5f6cda1) and `guidance/rewards.md`; calls are in `reward_processor.py` (0e8437e), lookup and construction in
`registry.py` (0c8ebfc) and `loader.py` (c4c078c): `cls(config=RewardArguments, accelerator=Accelerator)`. Pointwise
models must inherit from its own class, so that is the base class if flow_factory is installed; else a stub is.

Groups are Flow-Factory's own (`source_id`, `unique_id`). Edits without a score: its advantages are numpy means and
standard deviations over groups, or (with `global_std`, the default) over all; one NaN makes them all NaN, and None is
no tensor. So the default is `missing: raise`, which ends the run and names the edits; `missing: nan` is for a custom
`aggregation_func` that ignores NaN.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .trainer_batches import build_samples, images_from_batch, parse_metadata
from .trainer_reward import TrainerReward

if TYPE_CHECKING:
    from torch import Tensor


class _PointwiseRewardModelStub:
    """A stand-in for Flow-Factory's base class if it is not installed."""

    def __init__(self, config: Any, accelerator: Any) -> None:
        self.config = config
        self.accelerator = accelerator
        self.device = getattr(accelerator, "device", "cpu")


@dataclass
class RewardModelOutput:
    """The fields of Flow-Factory's class, if it is not installed. rewards: float32, one per edit."""

    rewards: Tensor
    extra_info: dict[str, Any] | None = None


def _flow_factory_classes() -> tuple[Any, Any]:
    """Flow-Factory's base class and output class, or ours."""
    if find_spec("flow_factory") is None:
        return _PointwiseRewardModelStub, RewardModelOutput
    rewards = importlib.import_module("flow_factory.rewards")
    return rewards.PointwiseRewardModel, rewards.RewardModelOutput


_Model: Any
_Output: Any
_Model, _Output = _flow_factory_classes()


class FlowFactoryReward(_Model):
    """See the module. config: `reward` and `missing` are in its `extra_kwargs`."""

    required_fields = ("prompt", "image", "condition_images")
    use_tensor_inputs = False

    def __init__(self, config: Any, accelerator: Any) -> None:
        super().__init__(config, accelerator)
        options = getattr(config, "extra_kwargs", {})
        self.reward = TrainerReward(options.get("reward", ""), missing=options.get("missing", "raise"))

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
        """`RewardModelOutput` with one float32 per edit. image: PIL; condition_images: the sources of each edit.
        metadata: JSON, one per row. Raises ValueError without images, `UnscoredError`, and what the reward raises.

        No **kwargs: Flow-Factory passes the keywords of the signature, and would convert all others.
        """
        import torch

        if image is None or condition_images is None:
            raise ValueError("an edit needs its image and its sources: this sample has no condition_images")
        rows = None if metadata is None else [parse_metadata(row) for row in metadata]
        sources = [images_from_batch(images) for images in condition_images]
        samples = build_samples(list(prompt), images_from_batch(image), sources, rows)
        return _Output(rewards=torch.tensor(self.reward(samples).values, dtype=torch.float32, device=self.device))
