"""A reward model for Flow-Factory: docs/trainers/flow_factory.md has the settings. Beside Flow-Factory's own options:
`reward`, and those of `TrainerReward` and `trainer_reward.resolve_scorer`; `logged_parts` may be names with commas.

Read at github.com/X-GenGroup/Flow-Factory a0b2bc5 (2026-05-02) and 5f6cda1 (later in 2026), on 2026-11-23. Pointwise
models must inherit from its own class, so that is the base class if flow_factory is installed. Pictures are taken as
tensors: as PIL images they come after a guess at their range.

It has no place for an edit without a value: one NaN makes every advantage NaN (a0b2bc5) or ends the run (5f6cda1), and
what a model returns beside its rewards is dropped. `install` therefore wraps three methods, in the classes themselves:

- `RewardProcessor._compute_pointwise_batch` keeps the columns of each sample as an attribute, which is not gathered.
- `AdvantageProcessor.compute_advantages` is run on the rows without NaN (of `collect_group_rewards`; `_to_local` puts 0
  for the others). In the newer commit a reward that does not apply to a data set is NaN, too; such a row stays.
- `AdvantageProcessor.pop_advantage_metrics` logs the means of the columns over all processes."""

from __future__ import annotations

import copy
import functools
import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from ..dataset_rows import METADATA_KEY, build_samples, images_from_batch, parse_metadata
from .trainer_reward import TrainerCode, TrainerReward, TrainerScores, UnknownTrainerError

if TYPE_CHECKING:
    from torch import Tensor


_COLUMNS: Final = "_editcritic_columns"
"""Of a sample: name of the reward -> name of the column -> value."""

_METRICS: Final = "_editcritic_metrics"
"""Of an `AdvantageProcessor`: what its next `pop_advantage_metrics` adds."""

_HOOKS: Final = "_editcritic_hooks"
"""Of the class `AdvantageProcessor`: its `_Hooks`."""

_CODE: Final = TrainerCode("Flow-Factory", "a0b2bc5 and 5f6cda1")

_WRAPPED: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "RewardProcessor": {"_compute_pointwise_batch": ("name", "model", "batch_samples")},
    "AdvantageProcessor": {
        "compute_advantages": ("samples", "rewards", "store_to_samples", "aggregation_func"),
        "pop_advantage_metrics": (),
        "collect_group_rewards": ("samples", "rewards"),
        "_to_local": ("values",),
    },
}
"""Methods that are wrapped or relied on, with their first parameters."""


class RecordedReward:
    """A reward model whose calls `install` records. recorded: in the copy that makes one call, what it has scored."""

    recorded: list[TrainerScores] | None = None

    def recording(self) -> RecordedReward:
        """For one call: it appends to `recorded` and returns no NaN, which would be refused; it is put back after."""
        copied = copy.copy(self)
        copied.recorded = []
        return copied


@dataclass
class _Hooks:
    """columns: names to log. leave_out: whether rows with a NaN are left out, rather than Flow-Factory's own doing."""

    columns: list[str] = field(default_factory=list)
    leave_out: bool = False


def install(columns: Sequence[str], *, leave_out: bool) -> None:
    """Wrap the installed Flow-Factory, once. columns: added to others'. leave_out: once asked for, it stays.
    Raises `UnknownTrainerError`."""
    processors = {
        "RewardProcessor": _CODE.attribute("flow_factory.rewards", "RewardProcessor"),
        "AdvantageProcessor": _CODE.attribute("flow_factory.advantage", "AdvantageProcessor"),
    }
    advantages = processors["AdvantageProcessor"]
    hooks: _Hooks | None = vars(advantages).get(_HOOKS)
    if hooks is None:
        for name, methods in _WRAPPED.items():
            for method, parameters in methods.items():
                _CODE.check(processors[name], method, parameters)
        hooks = _Hooks()
        setattr(advantages, _HOOKS, hooks)
        _wrap(processors["RewardProcessor"], "_compute_pointwise_batch", _recorded)
        pop = _wrap(advantages, "pop_advantage_metrics", _with_columns)
        _wrap(advantages, "compute_advantages", functools.partial(_advantages, hooks, pop))
    hooks.columns += [name for name in columns if name not in hooks.columns]
    hooks.leave_out |= leave_out


def _wrap(owner: Any, method: str, hook: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method be `hook(its original, self, ...)`. Returns the original."""
    original: Callable[..., Any] = getattr(owner, method)

    @functools.wraps(original)
    def wrapped(self: Any, *args: Any, **keywords: Any) -> Any:
        return hook(original, self, *args, **keywords)

    setattr(owner, method, wrapped)
    return original


# -- one call of a reward model ----------------------------------------------------------------------------------------


def _recorded(
    original: Callable[..., Tensor], self: Any, name: str, model: Any, batch_samples: Sequence[Any]
) -> Tensor:
    """The rewards of a batch, float32, NaN for a sample without a value and where the reward does not apply."""
    if not isinstance(model, RecordedReward):
        return original(self, name, model, batch_samples)
    recorder = model.recording()
    rewards = original(self, name, recorder, batch_samples)
    if not recorder.recorded:  # it applies to no sample of the batch
        return rewards
    (scored,) = recorder.recorded
    rows = (~rewards.isnan()).nonzero().flatten()
    if len(rows) != len(scored.values):
        raise _CODE.unknown(
            f"has {len(rows)} rewards for a batch of {len(batch_samples)} in which {len(scored.values)} were scored"
        )
    rewards = rewards.clone()
    rewards[rows] = rewards.new_tensor(scored.values)
    for position, row in enumerate(rows.tolist()):
        columns = vars(batch_samples[row]).setdefault(_COLUMNS, {})  # no field: `stack` and `to_dict` do not see it
        columns[name] = {column: values[position] for column, values in scored.columns.items()}
    return rewards


# -- one step ----------------------------------------------------------------------------------------------------------


def _advantages(
    hooks: _Hooks,
    pop: Callable[..., dict[str, Any]],
    original: Callable[..., Tensor],
    self: Any,
    samples: Sequence[Any],
    rewards: Mapping[str, Any],
    store_to_samples: bool = True,
    aggregation_func: Any = None,
) -> Tensor:
    """Advantages of this process's samples. A callable `aggregation_func` is given the rewards as they are."""
    missing = [
        any(np.isnan(float(values[row])) and _applies(sample, name) for name, values in rewards.items())
        for row, sample in enumerate(samples)
    ]
    metrics, num_missing = _reduced(self, hooks.columns, samples, missing)
    arguments = (samples, rewards, store_to_samples, aggregation_func)
    if not hooks.leave_out or not num_missing or callable(aggregation_func):
        advantages = original(self, *arguments)
    elif metrics["train/editcritic/no_advantage"] == 1.0:
        advantages = _zeros(self, samples, store_to_samples)
    else:
        scored = _ScoredRows(self)
        advantages = original(scored.view, *arguments)
        metrics |= pop(scored.view)
    vars(self)[_METRICS] = metrics
    return advantages


def _with_columns(original: Callable[..., dict[str, Any]], self: Any) -> dict[str, Any]:
    return {**original(self), **vars(self).pop(_METRICS, {})}


def _applies(sample: Any, name: str) -> bool:
    """Whether a reward applies to a sample: always in the older commit, by its data set in the newer one."""
    applicable = getattr(sample, "applicable_rewards", None)
    if not applicable and getattr(sample, "source", None) is None and getattr(sample, "source_id", None) is None:
        return True
    return applicable is None or name in applicable


def _reduced(
    processor: Any, columns: Sequence[str], samples: Sequence[Any], missing: Sequence[bool]
) -> tuple[dict[str, float], int]:
    """Means of the columns and the number of missing samples, of all processes, in one reduction of equal size."""
    import torch

    names = sorted(processor.reward_weights)
    sums = torch.zeros(len(names), len(columns), 2, dtype=torch.float64)  # sum, count
    for sample in samples:
        for name, values in vars(sample).get(_COLUMNS, {}).items():
            if name in names:
                row = torch.tensor([values.get(column, np.nan) for column in columns], dtype=torch.float64)
                known = ~row.isnan()
                sums[names.index(name)] += torch.stack((row.nan_to_num(0.0), known.double()), dim=1)
    totals = torch.tensor([float(sum(missing)), float(len(samples))], dtype=torch.float64)
    packed = torch.cat((totals, sums.flatten())).to(processor.accelerator.device)
    packed = processor.accelerator.reduce(packed, reduction="sum").cpu()
    num_missing, num_samples = int(packed[0]), int(packed[1])
    metrics = {"train/editcritic/no_advantage": num_missing / max(1, num_samples)}
    means = packed[2:].view(len(names), len(columns), 2).tolist()
    for name, row_means in zip(names, means, strict=True):
        for column, (total, count) in zip(columns, row_means, strict=True):
            if count:
                metrics[f"train/editcritic/{name}/{column}"] = total / count
    return metrics, num_missing


def _zeros(processor: Any, samples: Sequence[Any], store_to_samples: bool) -> Tensor:
    import torch

    advantages = torch.zeros(len(samples), dtype=torch.float64, device=processor.accelerator.device)
    if store_to_samples:
        for sample, advantage in zip(samples, advantages, strict=True):
            sample.extra_kwargs["advantage"] = advantage
    return advantages


class _ScoredRows:
    """A view of an `AdvantageProcessor` that sees the rows only that have a value. view: a shallow copy of it."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor
        self._kept: NDArray[np.bool_] = np.ones(0, bool)
        self._indices: tuple[NDArray[Any], ...] = ()
        self.view = copy.copy(processor)
        self.view.group_size = _AtMost(processor.group_size)
        self.view.collect_group_rewards = self._collect
        self.view._to_local = self._to_local
        if hasattr(processor, "build_source_aware_matrices"):
            self.view.build_source_aware_matrices = self._matrices

    def _collect(self, samples: Any, rewards: Any, **options: Any) -> tuple[Any, ...]:
        """The older commit returns rewards by name and group indices, the newer one source ids too, each with one item
        per row of this process or of all."""
        collected, *indices = self._processor.collect_group_rewards(samples, rewards, **options)
        self._indices = tuple(indices)
        missing = np.stack([np.isnan(np.asarray(values, np.float64)) for values in collected.values()])
        if any(len(part) != missing.shape[1] for part in indices):
            raise _CODE.unknown("collects rewards and groups of different lengths")
        if hasattr(self._processor, "build_source_aware_matrices"):
            missing &= self._processor.build_source_aware_matrices(samples, list(collected), self._indices[1])[0]
        self._kept = np.logical_not(missing.any(axis=0))
        groups, *others = (part[self._kept] for part in indices)
        return {name: values[self._kept] for name, values in collected.items()}, groups.view(_GroupIndices), *others

    def _matrices(self, samples: Any, reward_keys: Any, _: Any) -> tuple[Any, ...]:
        """(rewards, rows): whether a reward applies, and its weight."""
        matrices = self._processor.build_source_aware_matrices(samples, reward_keys, self._indices[1])
        return tuple(matrix[:, self._kept] for matrix in matrices)

    def _to_local(self, values: NDArray[Any]) -> Any:
        full = np.zeros(len(self._kept), values.dtype)
        full[self._kept] = values
        return self._processor._to_local(full)


class _GroupIndices(np.ndarray[Any, Any]):
    """Group indices, of which there may be none in one process: its maximum is then -1, the number of groups 0."""

    def max(self, *args: Any, **keywords: Any) -> Any:
        return super().max(*args, **keywords) if self.size else -1


class _AtMost(int):
    """The size of a group, which a group with fewer rows has too: `compute_weighted_sum` compares them."""

    __hash__: ClassVar[Callable[..., int]] = int.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and 0 < other <= int(self)

    def __ne__(self, other: object) -> bool:
        return not self == other


# -- the reward model --------------------------------------------------------------------------------------------------


class _PointwiseRewardModelStub:
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
    if find_spec("flow_factory") is None:
        return _PointwiseRewardModelStub, RewardModelOutput
    rewards = importlib.import_module("flow_factory.rewards")
    return rewards.PointwiseRewardModel, rewards.RewardModelOutput


_Model: Any
_Output: Any
_Model, _Output = _flow_factory_classes()


class FlowFactoryReward(_Model, RecordedReward):
    """See the module.

    Args:
        config: The options beside Flow-Factory's own are in its `extra_kwargs`.

    Raises:
        ValueError: For unknown options and values.
        UnknownTrainerError: If `missing: nan` cannot be made harmless in the Flow-Factory that is installed; with
            `missing: raise` that is a warning, and no columns are logged.
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
        """`RewardModelOutput` with one float32 per edit.

        Raises ValueError without images and for pixels of another range, `UnscoredError`, and what the reward raises.

        No **kwargs: Flow-Factory passes the keywords of the signature, and would convert all others.

        Args:
            image: 3 x H x W tensors in [0, 1], or anything `Image.of` takes.
            condition_images: The sources of each edit.
            metadata: JSON, one per row.
            editcritic: What `editcritic` is in the metadata, as commits between the two that were read pass it.
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
