"""Reward functions for `GRPOTrainer(reward_funcs=[...])` and other trainers with TRL's calling convention, which is
that of TRL 1.16 (`GRPOTrainer._calculate_rewards`, read on 2026-11-23). TRL itself is not imported.

    reward = RewardFunction("any-edit", experts, editor=editor)
    trainer = GRPOTrainer(model, reward_funcs=[reward], train_dataset=rows, args=config)
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from statistics import fmean
from time import perf_counter
from typing import Any

from ...reward import BaseReward, EditSample, Expert, Image, Score, build
from ...reward.queries.specs import Spec
from ...reward.sample import SampleTooLarge
from ...reward.training.advantages import AbstainedPolicy, training_values, without_score
from ...verifiers import Editor, Journal
from ...verifiers.selection import CandidateRequest, NoiseSpec
from ...verifiers.selection.generation import CandidateGenerator
from ..dataset_rows import (
    DatasetRow,
    completion_text,
    image_or_reason,
    is_absent,
    sample_from_row,
    sample_or_reason,
    split_instructions,
)
from ..rng_state import preserve_rng_state
from ..trainers.trainer_reward import OUTAGE_TIMEOUT_S, score_with_retries, waiting_scorer


@dataclass(frozen=True, slots=True)
class FailedEdit:
    """An edit that was not made. editor_down: not because of what the policy wrote; see `is_editor_down`."""

    reason: str
    editor_down: bool = False


@dataclass(frozen=True, slots=True)
class AppliedEdits:
    """What the edits of a completion led to: the image, or why there is none, and the errors of edits not made."""

    image: Image | FailedEdit
    instructions: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


class RolloutEditor:
    """The edits of one step, all from one seed: equal instructions on equal images are one, also if it failed."""

    def __init__(self, editor: Editor, seed: int) -> None:
        self.editor = editor
        self._seed = seed
        self._journal = Journal()
        self._generator = CandidateGenerator(editor, self._journal, lambda cost, cached: None)
        self._edited: dict[object, Image | FailedEdit] = {}

    def edit(self, requests: Sequence[EditSample]) -> list[Image | FailedEdit]:
        """An image for each request, or why there is none. Raises `EditorError` if a few attempts generated nothing."""
        keys = [_key(request) for request in requests]
        new_requests = {key: request for key, request in zip(keys, requests, strict=True) if key not in self._edited}
        for start in range(0, len(new_requests), self.editor.batch_size):
            batch = dict(list(new_requests.items())[start : start + self.editor.batch_size])
            noise = NoiseSpec(self._seed)
            wanted = [CandidateRequest(str(number), one, one, noise) for number, one in enumerate(batch.values())]
            candidates = self._generator.generate(wanted)
            for key, candidate in zip(batch, candidates, strict=True):
                self._edited[key] = candidate.picture or FailedEdit(candidate.error, candidate.editor_down)
        return [self._edited[key] for key in keys]

    def close(self) -> None:
        self._journal.close()
        self._edited.clear()


def apply_instructions(
    editor: Editor, samples: Sequence[EditSample], instructions: Sequence[tuple[str, ...]], seed: int
) -> list[AppliedEdits]:
    """Apply each sample's instructions to its source, one after the other; each distinct edit is generated once."""
    edits = [AppliedEdits(sample.source, lines) for sample, lines in zip(samples, instructions, strict=True)]
    with closing(RolloutEditor(editor, seed)) as rollout_editor:
        for turn in range(max(map(len, instructions), default=0)):
            requests: dict[int, EditSample] = {}
            for number, (sample, edit) in enumerate(zip(samples, edits, strict=True)):
                if turn < len(edit.instructions) and isinstance(edit.image, Image):
                    request = follow_up_request(sample, edit.image, edit.instructions[turn])
                    if isinstance(request, FailedEdit):
                        edits[number] = _after(edit, request)
                    else:
                        requests[number] = request
            for number, edited in zip(requests, rollout_editor.edit(list(requests.values())), strict=True):
                edits[number] = _after(edits[number], edited)
    return edits


def _after(edit: AppliedEdits, edited: Image | FailedEdit) -> AppliedEdits:
    if isinstance(edited, Image):
        return replace(edit, image=edited)
    return replace(edit, image=edited if edited.editor_down else edit.image, errors=(*edit.errors, edited.reason))


def follow_up_request(sample: EditSample, image: Image, instruction: str) -> EditSample | FailedEdit:
    """The policy's next instruction on the current image; no edit for one that is too long."""
    try:
        return replace(sample, instruction=instruction, sources=(image, *sample.sources[1:]))
    except SampleTooLarge as error:
        return FailedEdit(str(error))


def resolve_editor(editor: Editor | Spec) -> Editor:
    """An editor, built if a spec is given. Raises ValueError for anything else."""
    resolved: Any = build(editor) if isinstance(editor, str | Mapping) else editor
    if not isinstance(resolved, Editor):
        raise ValueError(f"{editor!r} is no editor, but {type(resolved).__name__}")
    return resolved


def _key(request: EditSample) -> object:
    history = tuple((turn.instruction, turn.edited.digest) for turn in request.history)
    return tuple(image.digest for image in request.sources), request.instruction, history


@dataclass(frozen=True, slots=True)
class Rollout:
    """A scored completion.

    Args:
        sample: `edited` is the source if no image was generated, and None stands for a row that is no edit; the score
            gives the reason.
        instructions: Those given to the editor; empty without an editor.
        prompt: Text or messages.
        edit_errors: Why edits were not made.
    """

    sample: EditSample | None
    score: Score
    instructions: tuple[str, ...] = ()
    prompt: Any = ""
    edit_errors: tuple[str, ...] = ()


class RewardFunction:
    """A reward function for TRL: one number per completion, None if the reward has no value.

    Pass ONE reward function, made of a composition, instead of one per part. Of several reward functions TRL counts a
    None as 0, where a composition becomes None. A completion for which all are None is left out by TRL: it gets no
    advantage and does not count in its group.

    The edited image is obtained in one of three ways:

    - `editor`, for a policy that writes instructions: the editor (or a spec of one) applies the instructions of a
      completion one after the other to the row's source; the result is judged by the *row's* instruction.
      split_completion: splits a completion into instructions. max_instructions: how many are applied; the rest is
      ignored. A completion without instructions leaves the source unchanged, and is scored as such; an instruction for
      which the editor raises leaves the image before it. Only if the editor is down (see `is_editor_down`) the
      completion is unscored: a policy must not be able to choose to have no score. All images of a call use one seed,
      `seed` plus the trainer's step: within a group only the instructions differ, and equal instructions share an
      image.
    - `decode_image(completion, completion_ids, row)`, for a policy whose completions are images: returns anything
      `Image.of` takes, or None if the tokens are no image; that completion, and one with a NaN in it, counts as one
      that no expert could judge.
    - else `to_sample` returns the sample with its edited image, as `sample_from_row` does with a column `edited`.

    A row that is no edit by its own content, such as an instruction that is empty or of more than 4,000 characters, or
    a source that cannot be read, is unscored, and the others are scored. A `to_sample` says so by `UnusableRow`,
    `SampleTooLarge` or `ImageError`; other errors end the call.

    A call preserves the trainer's RNG state (see `preserve_rng_state`), and no gradient flows. Picklable if its
    arguments are: module-level functions, and rewards and editors that are specs or have one.

    Logged with `log_metric`: `<name>/<part>` and `<name>/credit/<credit>`, down to two levels, each the mean over the
    completions with a value; `<name>/unscored` and `<name>/abstained`, fractions of all completions (see
    `reward.training.advantages.without_score`); `<name>/judge_seconds`, of scoring with retries;
    `<name>/frac_reward_zero_std`, the fraction of groups (same sources and instruction, several completions in this
    call) whose rewards are all equal: a process sees only its own slice of a group. Logged with `log_extra`, as
    text columns: `<name>/reason` (with the editor's errors), `<name>/evidence` (JSON) and, with an editor,
    `<name>/instructions`.

    Args:
        reward: A `Reward`, a `RemoteReward`, a spec, with `experts` as in `Reward.of`, or the URL of a judge server;
            `options` are those of `resolve_scorer`, as on_failures="raise".
        to_sample: Converts a row to the requested edit; see `sample_from_row`.
        offload: After each call, offload expert weights to the CPU (`Reward.offload`) so that the policy can use the
            accelerator; the next call copies them back. Without it, call `RewardFunction.reward.offload()` when needed,
            e.g. in a trainer callback.
        abstained: By default, only completions that failed for reasons of infrastructure are None. One that no expert
            could judge, or that a judge refused, gets the lower bound of the reward's range, or without one the lowest
            value of its group in this call: a policy must not gain by making edits unrecognisable. `exclude`: it is
            None, too.
        outage_timeout_s: Seconds that a call waits during an outage of what scores; see `TrainerReward`.
        name: Prefix of the logged metrics; default: the reward's name.
    """

    def __init__(
        self,
        reward: BaseReward | Spec,
        experts: Mapping[str, Expert | Spec] | None = None,
        *,
        to_sample: Callable[[DatasetRow], EditSample] = sample_from_row,
        editor: Editor | Spec | None = None,
        decode_image: Callable[[Any, Sequence[int], DatasetRow], Any] | None = None,
        split_completion: Callable[[str], Sequence[str]] = split_instructions,
        max_instructions: int = 4,
        seed: int = 0,
        offload: bool = False,
        abstained: AbstainedPolicy = "lowest",
        outage_timeout_s: float = OUTAGE_TIMEOUT_S,
        name: str = "",
        **options: Any,
    ) -> None:
        if editor is not None and decode_image is not None:
            raise ValueError("pass either editor= (completions are instructions) or decode_image= (images), not both")
        if max_instructions < 1:
            raise ValueError(f"max_instructions must be at least 1, got {max_instructions}")
        self.reward, self.outage_timeout_s = resolve_reward(reward, experts, outage_timeout_s, **options)
        self.to_sample = to_sample
        self.decode_image = decode_image
        self.split_completion = split_completion
        self.max_instructions = max_instructions
        self.seed = seed
        self.offload = offload
        self.abstained = abstained
        self.__name__ = name or self.reward.__name__
        self._editor = editor
        self._built: Editor | None = None
        if editor is not None and not isinstance(editor, str | Mapping | Editor):
            raise ValueError(f"an editor is an `editcritic.verifiers.Editor` or a spec, got {type(editor).__name__}")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_built": None}

    @property
    def editor(self) -> Editor | None:
        """The editor; built from its spec at first use."""
        if self._built is None and self._editor is not None:
            self._built = resolve_editor(self._editor)
        return self._built

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]] | None = None,
        *,
        trainer_state: Any = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """Called by TRL.

        Raises:
            ValueError: If rows lack what an edit or the reward needs.
            PixelFormatError: For pixels of another scale.
            EditorError: If no image can be generated.
            TooManyFailures: As the reward's `on_failures` says.
        """
        rollouts, seconds = self._scored(prompts, completions, completion_ids, trainer_state, columns)
        values = rollout_values(rollouts, self.reward, self.abstained)
        if log_metric is not None:
            for name, value in rollout_metrics(rollouts, values, seconds).items():
                log_metric(f"{self.__name__}/{name}", value)
        if log_extra is not None:
            for name, column in log_columns(rollouts, with_instructions=self._editor is not None).items():
                log_extra(f"{self.__name__}/{name}", column)
        return values

    def rollouts(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]] | None = None,
        *,
        trainer_state: Any = None,
        **columns: Any,
    ) -> list[Rollout]:
        """The same as full `Rollout`s, e.g. for `make_preference_pairs`."""
        return self._scored(prompts, completions, completion_ids, trainer_state, columns)[0]

    def _scored(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]] | None,
        trainer_state: Any,
        columns: Mapping[str, Any],
    ) -> tuple[list[Rollout], float]:
        count = len(completions)
        table = {"prompt": prompts, "completion": completions, "completion_ids": completion_ids or [()] * count}
        table |= {name: column for name, column in columns.items() if isinstance(column, list | tuple)}
        if lengths := {name: len(column) for name, column in table.items() if len(column) != count}:
            raise ValueError(f"{count} completions need as many items in each column, got {lengths}")
        rows = [{name: column[number] for name, column in table.items()} for number in range(count)]
        with preserve_rng_state():
            requests = [self._request(row, number) for number, row in enumerate(rows)]
            samples = {number: request for number, request in enumerate(requests) if isinstance(request, EditSample)}
            step = int(getattr(trainer_state, "global_step", 0) or 0)
            edits = self._edits([rows[number] for number in samples], list(samples.values()), step)
            return score_rollouts(
                self.reward, requests, edits, prompts, offload=self.offload, outage_timeout_s=self.outage_timeout_s
            )

    def _request(self, row: DatasetRow, number: int) -> EditSample | str:
        if self._editor is None and self.decode_image is None:
            if self.to_sample is sample_from_row and "edited" not in row:  # its edit would be the source: always 0
                raise ValueError(
                    "there is no edited image: pass editor= (completions are instructions) or decode_image= (they are "
                    "images), or add a column `edited`"
                )
            if is_absent(row.get("edited", "")):
                return "the row has nothing in `edited`, which is the edited image"
        sample = sample_or_reason(self.to_sample, row)
        return sample if isinstance(sample, str) else replace(sample, id=f"{sample.id}/{number}")

    def _edits(self, rows: Sequence[DatasetRow], samples: Sequence[EditSample], step: int) -> list[AppliedEdits]:
        if self.decode_image is not None:
            decoded = [self.decode_image(row["completion"], row["completion_ids"], row) for row in rows]
            images = ["the completion is no image" if image is None else image_or_reason(image) for image in decoded]
            return [AppliedEdits(FailedEdit(image) if isinstance(image, str) else image) for image in images]
        if self.editor is None:
            return [AppliedEdits(sample.edited) for sample in samples]
        instructions = [
            tuple(self.split_completion(completion_text(row["completion"])))[: self.max_instructions] for row in rows
        ]
        return apply_instructions(self.editor, samples, instructions, self.seed + step)


class AsyncRewardFunction:
    """A `RewardFunction` for asyncio: `GRPOTrainer` awaits all `async def` rewards concurrently.

    Scoring runs in a thread; the event loop stays responsive.
    """

    def __init__(self, function: RewardFunction) -> None:
        self.function = function
        self.__name__ = function.__name__

    async def __call__(self, *args: Any, **columns: Any) -> list[float | None]:
        """See `RewardFunction.__call__`."""
        return await asyncio.to_thread(self.function, *args, **columns)


def resolve_reward(
    reward: BaseReward | Spec, experts: Mapping[str, Expert | Spec] | None, outage_timeout_s: float, **options: Any
) -> tuple[BaseReward, float]:
    """The reward, built from spec, experts and options if needed, and how long it waits; see `waiting_scorer`."""
    scorer, seconds = waiting_scorer(reward, outage_timeout_s, experts, **options)
    if not isinstance(scorer, BaseReward):
        raise TypeError(f"a reward is a `Reward`, a `RemoteReward`, a spec or a URL, got {type(scorer).__name__}")
    return scorer, seconds


def score_rollouts(
    reward: BaseReward,
    requests: Sequence[EditSample | str],
    edits: Sequence[AppliedEdits],
    prompts: Sequence[Any],
    *,
    offload: bool,
    outage_timeout_s: float,
) -> tuple[list[Rollout], float]:
    """The scored rollouts, and the reward's seconds. requests: or why a row is none. edits: of those that are one."""
    of_requests = iter(edits)
    applied = [AppliedEdits(FailedEdit(one)) if isinstance(one, str) else next(of_requests) for one in requests]
    edited = [_edited(request, edit) for request, edit in zip(requests, applied, strict=True)]
    start = perf_counter()
    try:
        scores = score_with_retries(reward, edited, outage_timeout_s)
    finally:
        seconds = perf_counter() - start
        if offload:
            reward.offload()
    rollouts = []
    for request, row, edit, score, prompt in zip(requests, edited, applied, scores, prompts, strict=True):
        if isinstance(edit.image, FailedEdit) and edit.image.editor_down:
            score = replace(score, cause="infrastructure")
        sample = None if isinstance(request, str) else request if isinstance(row, str) else row
        rollouts.append(Rollout(sample, score, edit.instructions, prompt, edit.errors))
    return rollouts, seconds


def _edited(request: EditSample | str, edit: AppliedEdits) -> EditSample | str:
    if isinstance(edit.image, FailedEdit):
        return edit.image.reason
    return request if isinstance(request, str) else replace(request, edited=edit.image)


def rollout_values(rollouts: Sequence[Rollout], reward: BaseReward, abstained: AbstainedPolicy) -> list[float | None]:
    """The values for the trainer; see `training_values`. A row that is no edit is the data's fault, and has none."""
    scores = _scores_of_edits(rollouts)
    groups = ["" if rollout.sample is None else rollout.sample.group for rollout in rollouts]
    return training_values(scores, groups, abstained=abstained, lowest=reward.card.range[0])


def _scores_of_edits(rollouts: Sequence[Rollout]) -> list[Score | None]:
    return [None if rollout.sample is None else rollout.score for rollout in rollouts]


def log_columns(rollouts: Sequence[Rollout], *, with_instructions: bool) -> dict[str, list[str]]:
    """The text columns to log for a batch; see `RewardFunction`."""
    columns = {
        "reason": ["; ".join(filter(None, dict.fromkeys((one.score.reason, *one.edit_errors)))) for one in rollouts],
        "evidence": [json.dumps(list(_evidence(rollout.score))) for rollout in rollouts],
    }
    instructions = ["\n".join(rollout.instructions) for rollout in rollouts]
    return columns | ({"instructions": instructions} if with_instructions else {})


def rollout_metrics(
    rollouts: Sequence[Rollout], values: Sequence[float | None], judge_seconds: float
) -> dict[str, float]:
    """The metrics to log for a batch; see `RewardFunction`. values: of `rollout_values`."""
    metrics = part_means([rollout.score for rollout in rollouts])
    if rollouts:
        metrics |= {name: fmean(rows) for name, rows in without_score(_scores_of_edits(rollouts)).items()}
    group_values: dict[str, list[float | None]] = {}
    for rollout, value in zip(rollouts, values, strict=True):
        if rollout.sample is not None:
            group_values.setdefault(rollout.sample.group, []).append(value)
    compared_groups = [values for values in group_values.values() if len(values) > 1]
    if compared_groups:
        metrics["frac_reward_zero_std"] = fmean(len(set(values) - {None}) < 2 for values in compared_groups)
    return metrics | {"judge_seconds": judge_seconds}


def part_means(scores: Sequence[Score]) -> dict[str, float]:
    """The mean of each part and credit over the scores that have it, by name; see `RewardFunction`."""
    part_values: dict[str, list[float]] = {}
    for score in scores:
        for name, value in _nested_values(score):
            part_values.setdefault(name, []).append(value)
    return {name: fmean(values) for name, values in part_values.items()}


def _nested_values(score: Score, path: str = "", depth: int = 2) -> Iterator[tuple[str, float]]:
    """The values of parts and credits, down to two levels: deeper ones are named after the objects of one row."""
    for name, inner in [*score.parts.items(), *((f"credit/{name}", credit) for name, credit in score.credits.items())]:
        inner_path = f"{path}/{name}" if path else name
        if inner.value is not None:
            yield inner_path, inner.value
        if depth > 1:
            yield from _nested_values(inner, inner_path, depth - 1)


def _evidence(score: Score, path: str = "") -> Iterator[dict[str, Any]]:
    for item in score.evidence:
        yield ({"part": path} if path else {}) | item.to_json()
    for name, inner in score.parts.items():
        yield from _evidence(inner, f"{path}/{name}" if path else name)
