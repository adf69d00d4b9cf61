"""A multi-turn editing environment for `GRPOTrainer(environment_factory=...)`.

    environments = EditingEnvironments("any-edit", experts, editor=editor)
    trainer = GRPOTrainer(policy, environment_factory=environments, reward_funcs=[environments.reward], …)

The policy calls tools: it plans an edit, splits it or rephrases it, and the result is judged by the row's instruction.
The calling convention is that of TRL 1.16, which is not imported; `AsyncGRPOTrainer` passes no environments to rewards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np

from ...reward import BaseReward, EditSample, Expert, Image
from ...reward.queries.specs import Spec
from ...reward.training.advantages import AbstainedPolicy
from ...verifiers import Editor
from ...verifiers.selection.editor import is_editor_down
from ..dataset_rows import DatasetRow, sample_from_row, sample_or_reason
from ..rng_state import preserve_rng_state
from ..trainers.trainer_reward import OUTAGE_TIMEOUT_S
from .reward_function import (
    AppliedEdits,
    FailedEdit,
    Rollout,
    RolloutEditor,
    follow_up_request,
    log_columns,
    resolve_editor,
    resolve_reward,
    rollout_metrics,
    rollout_values,
    score_rollouts,
)

_NO_PICTURE = "There is no picture to edit."

_PIXEL_TOLERANCE = 16  # of 255: differences that image decoders cause everywhere are smaller


def describe_changes(sample: EditSample) -> str:
    """The default for `look`: the size, and how much differs from the source and where, from pixels only."""
    before, after = sample.source.pixels.astype(int), sample.edited.pixels.astype(int)
    (height, width), (old_height, old_width) = after.shape[:2], before.shape[:2]
    if before.shape != after.shape:
        return f"It is {width} x {height} pixels, the original {old_width} x {old_height}."
    rows, columns = np.nonzero((np.abs(after - before) > _PIXEL_TOLERANCE).any(axis=2))
    if not len(rows):
        return f"It is {width} x {height} pixels and looks like the original."
    (left, right), (top, bottom) = (
        np.percentile(100 * (indices + 0.5) / side, [5, 95]) for indices, side in ((columns, width), (rows, height))
    )
    return (
        f"It is {width} x {height} pixels, and {len(rows) / (width * height):.0%} of them differ from the original, "
        f"most of these at {left:.0f}-{right:.0f} % of the width from the left and {top:.0f}-{bottom:.0f} % of the "
        "height from the top."
    )


class EditingEnvironments:
    """Creates one environment per rollout, all with one editor and one reward. Picklable like `RewardFunction`.

    All edits of a round, from the resets to the reward, use one seed, `seed` plus the trainer's step: within a group
    only the instructions differ, and equal instructions on equal images are one edit, generated once per process. TRL
    runs tools sequentially, so the editor generates one image at a time.

    Args:
        reward: As for `RewardFunction`.
        experts: As for `RewardFunction`.
        editor: An `Editor`, or a spec of one.
        to_sample: As for `RewardFunction`.
        max_edits: Edits that a rollout may request; the policy is told the number. Failed and undone edits count.
        image_observations: `look` returns the image, for vision-language policies; otherwise text only.
        describe: Returns the text of `look` for a sample with instruction, sources and image, without the other fields,
            so that nothing the reward is computed from leaks. Called at each look; see `describe_changes`.
        offload: As for `RewardFunction`.
        abstained: As for `RewardFunction`.
        outage_timeout_s: As for `RewardFunction`.
        name: As for `RewardFunction`.
        options: As for `RewardFunction`.
    """

    def __init__(
        self,
        reward: BaseReward | Spec,
        experts: Mapping[str, Expert | Spec] | None = None,
        *,
        editor: Editor | Spec,
        to_sample: Callable[[DatasetRow], EditSample] = sample_from_row,
        max_edits: int = 4,
        image_observations: bool = False,
        describe: Callable[[EditSample], str] = describe_changes,
        seed: int = 0,
        offload: bool = False,
        abstained: AbstainedPolicy = "lowest",
        outage_timeout_s: float = OUTAGE_TIMEOUT_S,
        name: str = "",
        **options: Any,
    ) -> None:
        if max_edits < 1:
            raise ValueError(f"max_edits must be at least 1, got {max_edits}")
        self.to_sample = to_sample
        self.max_edits = max_edits
        self.image_observations = image_observations
        self.describe = describe
        self.seed = seed
        self.abstained = abstained
        scorer, self.outage_timeout_s = resolve_reward(reward, experts, outage_timeout_s, **options)
        self.reward = EnvironmentReward(self, scorer, offload, name)
        self._editor = editor
        self._edits: RolloutEditor | None = None
        self._broken: Exception | None = None
        self._step = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_edits": None, "_broken": None}

    def __call__(self) -> EditingEnvironment:
        """Called by TRL once per concurrent rollout."""
        return EditingEnvironment(self)

    def apply_edit(self, request: EditSample) -> Image | FailedEdit:
        """The edited image in this round, or why there is none."""
        try:
            if self._edits is None:
                self._edits = RolloutEditor(resolve_editor(self._editor), self.seed + self._step)
            edited = self._edits.edit([request])[0]
        except Exception as error:  # noqa: BLE001  (TRL would tell the policy only; `end_round` raises it)
            self._broken = error
            return FailedEdit(str(error), is_editor_down(error))
        if isinstance(edited, Image):
            self._broken = None
        return edited

    def end_round(self, step: int | None) -> None:
        """End a round and drop its images.

        Raises:
            EditorError: If no image at all could be generated in it, and what building the editor raised.
        """
        if self._edits is not None:
            self._edits.close()
        broken, self._edits, self._broken = self._broken, None, None
        self._step = 1 + (self._step if step is None else step)
        if broken is not None:
            raise broken


class EditingEnvironment:
    """One rollout, with the tools `edit`, `undo` and `look`. TRL uses every public method except `reset` as a tool.

    What counts is the current image: after a failed edit the one before it, without any edit the source. A policy that
    makes no edit therefore has a score, as one that returns a copy. editor_error: why the last edit failed, if the
    editor is down: then the policy is not the reason, and there is nothing to score. unusable: why the row is no edit
    by its own content (see `RewardFunction`): the tools say that there is no picture, and the rollout has no score.

    Args:
        factory: The factory that created it.

    Attributes:
        sample: The requested edit; its `edited` is the current image.
        instructions: Those that produced the current image.
        counts: Of edits requested, undone, and failed. edit_errors: the editor's, for the failed ones.
    """

    def __init__(self, factory: EditingEnvironments) -> None:
        self.factory = factory
        self._begin(None)

    def _begin(self, request: EditSample | None, unusable: str = "") -> None:
        self._request, self.unusable = request, unusable
        self._edits: list[tuple[str, Image]] = []
        """Instruction and image of each edit in the current image."""
        self.edit_errors: tuple[str, ...] = ()
        self._undone = 0
        self.editor_error = ""

    @property
    def sample(self) -> EditSample:
        """The sample with the image as edited so far."""
        if self._request is None:
            raise RuntimeError("this environment has no image: call reset with a row first")
        return replace(self._request, edited=self._edits[-1][1] if self._edits else self._request.source)

    @property
    def instructions(self) -> tuple[str, ...]:
        """The edits that led to the image, oldest first; none of an unusable row."""
        return tuple(instruction for instruction, _ in self._edits)

    @property
    def counts(self) -> dict[str, int]:
        """Edits that were requested, undone and failed."""
        failed = len(self.edit_errors)
        return {"edits": len(self._edits) + self._undone + failed, "edits/undone": self._undone, "edits/failed": failed}

    def reset(self, **row: Any) -> str:
        """Start with the source image of a row.

        A row without a prompt gets one from its instruction. A row that is no edit by its own content ends no training:
        see `unusable`.

        Returns:
            What is appended to the policy's prompt.

        Raises:
            ValueError: For a prompt that is a string, since tools need messages, and what else `to_sample` raises.
        """
        if isinstance(row.get("prompt"), str):
            raise ValueError("tools need prompts that are lists of messages, and this one is a text")
        with preserve_rng_state():
            sample = sample_or_reason(self.factory.to_sample, row)
        if isinstance(sample, str):
            self._begin(None, unusable=sample)
            return _NO_PICTURE
        self._begin(sample)
        task = "\n\n" if row.get("prompt") else f"Edit the picture: {sample.instruction}\n\n"
        return (
            f"{task}You can ask for {_edit_count(self.factory.max_edits)}. The picture as you leave it is what counts."
        )

    def edit(self, instruction: str) -> str:
        """Edit the picture as it is now.

        Args:
            instruction: What to change, in words.

        Returns:
            What became of it.
        """
        if self.unusable:
            return _NO_PICTURE
        sample, factory = self.sample, self.factory
        value: Any = instruction  # policies pass any JSON value
        text = value.strip() if isinstance(value, str) else ""
        if not text:
            return "Nothing was edited: an instruction is a text that says what to change."
        if self.counts["edits"] >= factory.max_edits:
            return f"Nothing was edited: you have asked for {_edit_count(factory.max_edits)}, which is all there are."
        request = follow_up_request(sample, sample.edited, text)
        with preserve_rng_state():
            edited = request if isinstance(request, FailedEdit) else factory.apply_edit(request)
        if isinstance(edited, FailedEdit):
            self.edit_errors += (edited.reason,)
            self.editor_error = edited.reason if edited.editor_down else ""
            message = f"The picture stays as it was: {edited.reason}."
        else:
            self._edits.append((text, edited))
            self.editor_error = ""
            message = "The picture was edited."
        return f"{message} You can ask for {_edit_count(factory.max_edits - self.counts['edits'], more=True)}."

    def undo(self) -> str:
        """Take back the last edit.

        Returns:
            What became of it.
        """
        if self.unusable:
            return _NO_PICTURE
        if not self._edits:
            return "Nothing was undone: this is the original picture."
        instruction, _ = self._edits.pop()
        self._undone += 1
        self.editor_error = ""
        return f'Undone: "{instruction}". {_history_text(self.instructions)}'

    def look(self) -> str | list[dict[str, Any]]:
        """Look at the picture as it is now.

        Returns:
            What there is to see.
        """
        if self.unusable:
            return _NO_PICTURE
        sample, factory = self.sample, self.factory
        observation = EditSample("picture", sample.instruction, sample.sources, sample.edited)
        with preserve_rng_state():
            text = f"{_history_text(self.instructions)} {factory.describe(observation)}"
        if not factory.image_observations:
            return text
        return [{"type": "image", "image": sample.edited.pil()}, {"type": "text", "text": text}]


class EnvironmentReward:
    """The reward function of `EditingEnvironments`: scores all rollouts of a batch, by their current images, in one
    call.

    Logged as by `RewardFunction`, with `<name>/edits`, `<name>/edits/undone` and `<name>/edits/failed`, means per
    rollout. A rollout whose last edit failed because the editor is down is unscored; those of another factory get None.
    """

    def __init__(self, factory: EditingEnvironments, reward: BaseReward, offload: bool, name: str) -> None:
        self.factory = factory
        self.reward = reward
        self.offload = offload
        self.__name__ = name or reward.__name__

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]] | None = None,
        *,
        environments: Sequence[Any],
        trainer_state: Any = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Called by TRL. Raises `EditorError` if the editor generated no image at all, and `TooManyFailures`."""
        step = getattr(trainer_state, "global_step", None)
        self.factory.end_round(step)
        own = {
            index: one
            for index, one in enumerate(environments)
            if isinstance(one, EditingEnvironment) and one.factory is self.factory
        }
        rollouts, seconds = self._scored([prompts[index] for index in own], list(own.values()))
        values = rollout_values(rollouts, self.reward, self.factory.abstained)
        if own and log_metric is not None:
            counts = [one.counts for one in own.values()]
            means = {name: fmean(count[name] for count in counts) for name in counts[0]}
            for name, value in (rollout_metrics(rollouts, values, seconds) | means).items():
                log_metric(f"{self.__name__}/{name}", value)
        if own and log_extra is not None:
            for name, column in log_columns(rollouts, with_instructions=True).items():
                texts = dict(zip(own, column, strict=True))
                log_extra(f"{self.__name__}/{name}", [texts.get(index, "") for index in range(len(environments))])
        by_index = dict(zip(own, values, strict=True))
        return [by_index.get(index) for index in range(len(environments))]

    def rollouts(self, prompts: Sequence[Any], environments: Sequence[EditingEnvironment]) -> list[Rollout]:
        """The same as full `Rollout`s, e.g. for `make_preference_pairs`."""
        return self._scored(prompts, environments)[0]

    def _scored(
        self, prompts: Sequence[Any], environments: Sequence[EditingEnvironment]
    ) -> tuple[list[Rollout], float]:
        requests = [
            one.unusable or replace(one.sample, id=f"{one.sample.id}/{number}")
            for number, one in enumerate(environments)
        ]
        edits = [
            AppliedEdits(
                FailedEdit(one.editor_error, editor_down=True) if one.editor_error else one.sample.edited,
                one.instructions,
                one.edit_errors,
            )
            for one in environments
            if not one.unusable
        ]
        timeout_s = self.factory.outage_timeout_s
        with preserve_rng_state():
            return score_rollouts(
                self.reward, requests, edits, prompts, offload=self.offload, outage_timeout_s=timeout_s
            )


def _edit_count(count: int, *, more: bool = False) -> str:
    return f"{count or 'no'}{' more' if more else ''} edit{'s' if count != 1 else ''}"


def _history_text(instructions: Sequence[str]) -> str:
    if not instructions:
        return "This is the original picture."
    return f"This is the picture after {'; '.join(f'{n}. {text}' for n, text in enumerate(instructions, 1))}."
