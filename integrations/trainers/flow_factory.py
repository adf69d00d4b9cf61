"""A reward model for Flow-Factory.

    rewards:
      - name: edits
        reward_model: editcritic.integrations.trainers.flow_factory.FlowFactoryReward
        reward: http://127.0.0.1:8321   # or the path of a TOML file, or a spec such as any-edit
        missing: nan
        batch_size: 64

Beside Flow-Factory's own options: `reward`, and those of `TrainerReward` and `trainer_reward.resolve_scorer`, such as
`missing`, `outage_timeout_s`, `on_failures`, `max_failure_rate`, `max_concurrency` and `chunk_size`. `logged_parts` is
a list, or names with commas.

Read at github.com/X-GenGroup/Flow-Factory a0b2bc5 (2026-05-02) and 5f6cda1 (later in 2026), on 2026-11-23, in
`src/flow_factory`:
`rewards/abc.py`, `rewards/reward_processor.py`, `rewards/loader.py`, `hparams/reward_args.py`, `samples/samples.py`,
`advantage/advantage_processor.py`, `data_utils/dataset.py`, `trainers/abc.py`. A model is constructed as
`cls(config=RewardArguments, accelerator=Accelerator)`, and called with those fields of samples that its signature
names, in batches of `batch_size`. Pointwise models must inherit from its own class, so that is the base class if
flow_factory is installed; else a stub is.

Groups are Flow-Factory's own (`unique_id`; `source_id` too in the newer commit). An edit without a value: with
`missing: raise`, the default, the run ends and names it. With `missing: nan` it has the advantage 0, and the others'
are as if it were not there; see `flow_factory_hooks`, which also adds the columns of the reward to the log.

Pictures are taken as tensors: as PIL images they come after a guess at their range, which takes [-1, 1] for another
picture in [0, 1], and 0..255 too.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .flow_factory_hooks import RecordedReward, install
from .trainer_batches import METADATA_KEY, build_samples, images_from_batch, parse_metadata
from .trainer_code import UnknownTrainerError
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


class FlowFactoryReward(_Model, RecordedReward):
    """See the module. config: the options beside Flow-Factory's own are in its `extra_kwargs`.

    Raises ValueError for unknown options and values, and `UnknownTrainerError` if `missing: nan` cannot be made
    harmless in the Flow-Factory that is installed; with `missing: raise` that is a warning, and no columns are logged.
    """

    required_fields = ("prompt", "image", "condition_images")
    use_tensor_inputs = True

    def __init__(self, config: Any, accelerator: Any) -> None:
        super().__init__(config, accelerator)
        options = dict(getattr(config, "extra_kwargs", {}))
        if isinstance(parts := options.get("logged_parts"), str):
            options["logged_parts"] = [name.strip() for name in parts.split(",")]
        self.reward = TrainerReward(options.pop("reward", ""), **options)
        if _Model is not _PointwiseRewardModelStub:
            self._install_hooks()

    def _install_hooks(self) -> None:
        columns = [*self.reward.logged_parts, "unscored", "abstained", "judge_seconds"]
        columns += ["alarms"] if self.reward.monitor is not None else []
        try:
            install(columns, leave_out=self.reward.missing == "nan")
        except UnknownTrainerError as error:
            if self.reward.missing == "nan":
                raise UnknownTrainerError(
                    f"missing: nan would make advantages NaN: {error}. Install one of them, or set missing: raise"
                ) from None
            warnings.warn(f"no parts of the reward are logged: {error}", stacklevel=3)

    def __call__(
        self,
        prompt: Sequence[str],
        image: Sequence[Any] | None = None,
        video: Any = None,
        audio: Any = None,
        condition_images: Sequence[Sequence[Any]] | None = None,
        condition_videos: Any = None,
        metadata: Sequence[Any] | None = None,
        editcritic: Sequence[Any] | None = None,
    ) -> Any:
        """`RewardModelOutput` with one float32 per edit. image: 3 x H x W tensors in [0, 1], or anything `Image.of`
        takes; condition_images: the sources of each edit. metadata: JSON, one per row. editcritic: what `editcritic` is
        in the metadata, as commits between the two that were read pass it.

        Raises ValueError without images and for pixels of another range, `UnscoredError`, and what the reward raises.

        No **kwargs: Flow-Factory passes the keywords of the signature, and would convert all others.
        """
        import torch

        if image is None or condition_images is None:
            raise ValueError("an edit needs its image and its sources: this sample has no condition_images")
        rows = None if metadata is None else [parse_metadata(row) for row in metadata]
        if rows is None and editcritic is not None:
            rows = [{METADATA_KEY: row} for row in editcritic]
        sources = [images_from_batch(images) for images in condition_images]
        scored = self.reward(build_samples(list(prompt), images_from_batch(image), sources, rows))
        rewards = torch.tensor(scored.values, dtype=torch.float32)
        if self.recorded is not None:
            self.recorded.append(scored)
            rewards = rewards.nan_to_num(nan=0.0)  # until `_recorded` puts NaN back
        return _Output(rewards=rewards)
