"""A picture that a policy edits step by step, for `GRPOTrainer(environment_factory=...)`.

    world = EditingEnvironments("edit-balanced", experts, editor=editor)
    trainer = GRPOTrainer(policy, environment_factory=world, reward_funcs=[world.reward], train_dataset=rows)

The policy is a language model, or a vision-language model, that calls tools: it plans an edit, splits it or says it in
other words, and what comes of it is judged by what the row asks for. The calling convention is that of TRL 1.16, which
is not imported; its `AsyncGRPOTrainer` hands environments to no reward function, so that this is not for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

import numpy as np

from ..reward import AnyReward, EditSample, Expert, Image
from ..reward.spec import Spec
from ..verifiers import Editor, EditorFailed
from .columns import Row, sample_of
from .edits import Edits, asking, editor_from
from .trl import Rollout, columns_of, judged, metrics, reward_from
from .untouched import untouched

_VISIBLE = 16  # of 255: what the decoders of editors change everywhere is less


def described(sample: EditSample) -> str:
    """What `look` says of a picture by default: its size, and how much of it differs from the source, and where.

    Told of pixels alone: nothing that a reward's experts know is in it.
    """
    before, after = sample.source.pixels.astype(int), sample.edited.pixels.astype(int)
    (height, width), (old_height, old_width) = after.shape[:2], before.shape[:2]
    if before.shape != after.shape:
        return f"It is {width} x {height} pixels, the original {old_width} x {old_height}."
    rows, columns = np.nonzero((np.abs(after - before) > _VISIBLE).any(axis=2))
    if not len(rows):
        return f"It is {width} x {height} pixels and looks like the original."
    (left, right), (top, bottom) = (
        np.percentile(100 * (found + 0.5) / side, [5, 95]) for found, side in ((columns, width), (rows, height))
    )
    return (
        f"It is {width} x {height} pixels, and {len(rows) / (width * height):.0%} of them differ from the original, "
        f"most of these at {left:.0f}-{right:.0f} % of the width from the left and {top:.0f}-{bottom:.0f} % of the "
        "height from the top."
    )


class EditingEnvironments:
    """Makes an environment for each rollout, all with one editor and one reward. Pickles as `RewardFunction` does.

    reward, experts, to_sample, offload, name: as for `RewardFunction`. editor: an `Editor`, or a spec of one. most: how
    many edits a rollout may ask for; the policy is told. Those that failed or were undone count.

    shows_pictures: `look` shows the picture itself, for vision-language policies; else there are words only. describe:
    makes the words for `look` of a sample that holds the instruction, the sources and the picture, and none of the
    other fields, so that what a reward goes by is not given away. It is asked at each look; see `described`.

    All edits of a round, from the resets to the reward, are made from one seed, `seed` plus the trainer's step: only
    the words make a difference within a group, and the same words on the same picture are one edit, made once in a
    process. TRL runs tools one after the other, so that the editor makes one picture at a time.
    """

    def __init__(
        self,
        reward: AnyReward | Spec,
        experts: Mapping[str, Expert | Spec] | None = None,
        *,
        editor: Editor | Spec,
        to_sample: Callable[[Row], EditSample] = sample_of,
        most: int = 4,
        shows_pictures: bool = False,
        describe: Callable[[EditSample], str] = described,
        seed: int = 0,
        offload: bool = False,
        name: str = "",
    ) -> None:
        if most < 1:
            raise ValueError(f"a rollout may ask for one edit at least, got most={most}")
        self.to_sample = to_sample
        self.most = most
        self.shows_pictures = shows_pictures
        self.describe = describe
        self.seed = seed
        self.reward = EnvironmentReward(self, reward_from(reward, experts), offload, name)
        self._editor = editor
        self._edits: Edits | None = None
        self._broken: EditorFailed | None = None
        self._step = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_edits": None, "_broken": None}

    def __call__(self) -> EditingEnvironment:
        """What TRL calls, once for each rollout that it has under way at a time."""
        return EditingEnvironment(self)

    def made(self, asked: EditSample) -> Image | str:
        """What the editor makes of it in this round, or its problem."""
        if self._edits is None:
            self._edits = Edits(editor_from(self._editor), self.seed + self._step)
        try:
            return self._edits.of([asked])[0]
        except EditorFailed as error:  # raised to TRL it would be one more thing that a policy is told
            self._broken = error
            return str(error)

    def end(self, step: int | None) -> None:
        """A round is over: forget its pictures. Raises `EditorFailed` where no picture at all could be made in it."""
        if self._edits is not None:
            self._edits.close()
        broken, self._edits, self._broken = self._broken, None, None
        self._step = 1 + (self._step if step is None else step)
        if broken is not None:
            raise broken


class EditingEnvironment:
    """One rollout, with the tools `edit`, `undo` and `look`. TRL takes every public method for a tool but `reset`.

    world: the factory that made it. sample: what the row asks for; its `edited` is the picture as it is now. written:
    the instructions that made it. problem: why there is nothing to judge: the last edit was one that the editor could
    not make. counts: of edits that were asked for, undone, and failed.
    """

    def __init__(self, world: EditingEnvironments) -> None:
        self.world = world
        self._now: _Course | None = None

    @property
    def sample(self) -> EditSample:
        now = self._course
        return replace(now.sample, edited=now.picture)

    @property
    def written(self) -> tuple[str, ...]:
        return tuple(words for words, _ in self._course.made)

    @property
    def problem(self) -> str:
        return self._course.problem

    @property
    def counts(self) -> dict[str, int]:
        now = self._course
        return {"edits": now.asked, "edits/undone": now.undone, "edits/failed": now.failed}

    @property
    def _course(self) -> _Course:
        if self._now is None:
            raise RuntimeError("there is no picture yet: call reset with a row first")
        return self._now

    def reset(self, **row: Any) -> str:
        """Begin with the picture of a row. Returns what the policy is to know besides its prompt.

        A row without a prompt gets one from its instruction. Raises ValueError for a prompt that is a text, since
        tools need messages, and as `to_sample` does.
        """
        if isinstance(row.get("prompt"), str):
            raise ValueError("tools need prompts that are lists of messages, and this one is a text")
        with untouched():
            self._now = _Course(self.world.to_sample(row))
        task = "\n\n" if row.get("prompt") else f"Edit the picture: {self._now.sample.instruction}\n\n"
        return f"{task}You can ask for {_edits(self.world.most)}. The picture as you leave it is what counts."

    def edit(self, instruction: str) -> str:
        """Edit the picture as it is now.

        Args:
            instruction: What to change, in words.

        Returns:
            What became of it.
        """
        now, world = self._course, self.world
        given: Any = instruction  # policies hand over whatever JSON has
        words = given.strip() if isinstance(given, str) else ""
        if not words:
            return "Nothing was edited: an instruction is a text that says what to change."
        if now.asked >= world.most:
            return f"Nothing was edited: you have asked for {_edits(world.most)}, which is all there are."
        with untouched():
            picture = world.made(asking(now.sample, now.picture, words))
        if isinstance(picture, str):
            now.failed += 1
            now.problem = picture
            said = f"The picture stays as it was: {picture}."
        else:
            now.made.append((words, picture))
            now.problem = ""
            said = "The picture was edited."
        return f"{said} You can ask for {_edits(world.most - now.asked, more=True)}."

    def undo(self) -> str:
        """Take back the last edit.

        Returns:
            What became of it.
        """
        now = self._course
        if not now.made:
            return "Nothing was undone: this is the original picture."
        words, _ = now.made.pop()
        now.undone += 1
        return f'Undone: "{words}". {_told(self.written)}'

    def look(self) -> str | list[dict[str, Any]]:
        """Look at the picture as it is now.

        Returns:
            What there is to see.
        """
        now, world = self._course, self.world
        bare = EditSample("picture", now.sample.instruction, now.sample.sources, now.picture)
        with untouched():
            said = f"{_told(self.written)} {world.describe(bare)}"
        if not world.shows_pictures:
            return said
        return [{"type": "image", "image": now.picture.pil()}, {"type": "text", "text": said}]


class EnvironmentReward:
    """The reward function of `EditingEnvironments`: all rollouts of a batch in one call of the reward.

    What it says, logs, and leaves alone is what `RewardFunction` does; `<name>/edits`, `<name>/edits/undone` and
    `<name>/edits/failed` are logged besides: how many a rollout had. Unscored is also a rollout whose last edit the
    editor failed to make. Of rollouts in environments of another factory it knows nothing, and says None.
    """

    def __init__(self, world: EditingEnvironments, reward: AnyReward, offload: bool, name: str) -> None:
        self.world = world
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
        """What TRL calls once the rollouts are over. Raises `EditorFailed` where the editor has made no picture at
        all, and `TooManyFailures` as the reward's `on_failures` says.
        """
        step = getattr(trainer_state, "global_step", None)
        self.world.end(step)
        ours = [
            number
            for number, one in enumerate(environments)
            if isinstance(one, EditingEnvironment) and one.world is self.world
        ]
        found = self.rollouts([prompts[number] for number in ours], [environments[number] for number in ours])
        if ours and log_metric is not None:
            counts = [environments[number].counts for number in ours]
            means = {name: fmean(one[name] for one in counts) for name in counts[0]}
            for name, value in (metrics(found) | means).items():
                log_metric(f"{self.__name__}/{name}", value)
        if ours and log_extra is not None:
            for name, texts in columns_of(found, written=True).items():
                at = dict(zip(ours, texts, strict=True))
                log_extra(f"{self.__name__}/{name}", [at.get(number, "") for number in range(len(environments))])
        values = {number: one.score.value for number, one in zip(ours, found, strict=True)}
        return [values.get(number) for number in range(len(environments))]

    def rollouts(self, prompts: Sequence[Any], environments: Sequence[EditingEnvironment]) -> list[Rollout]:
        """The same, with all that is known of each: what `preferences.pairs` takes."""
        samples = [replace(one.sample, id=f"{one.sample.id}/{number}") for number, one in enumerate(environments)]
        made = [one.problem or sample.edited for one, sample in zip(environments, samples, strict=True)]
        written = [one.written for one in environments]
        with untouched():
            return judged(self.reward, samples, made, written, prompts, offload=self.offload)


@dataclass
class _Course:
    """How a rollout has gone so far. made: the edits that are in the picture, and what they made."""

    sample: EditSample
    made: list[tuple[str, Image]] = field(default_factory=list)
    undone: int = 0
    failed: int = 0
    problem: str = ""

    @property
    def picture(self) -> Image:
        return self.made[-1][1] if self.made else self.sample.source

    @property
    def asked(self) -> int:
        return len(self.made) + self.undone + self.failed


def _edits(count: int, *, more: bool = False) -> str:
    return f"{count or 'no'}{' more' if more else ''} edit{'s' if count != 1 else ''}"


def _told(written: Sequence[str]) -> str:
    if not written:
        return "This is the original picture."
    return f"This is the picture after {'; '.join(f'{n}. {words}' for n, words in enumerate(written, 1))}."
