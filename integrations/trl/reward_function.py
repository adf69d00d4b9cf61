"""Rewards as TRL calls them: for `GRPOTrainer(reward_funcs=[...])` and whatever else asks for rewards in its way.

    reward = RewardFunction("edit-balanced", experts, editor=editor)
    trainer = GRPOTrainer(model, reward_funcs=[reward], train_dataset=rows, args=config)

The calling convention is that of TRL 1.16: `GRPOTrainer._calculate_rewards`. TRL itself is not imported.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from ..reward import AnyReward, EditSample, Expert, Image, Reward, Score
from ..reward.spec import Spec
from ..verifiers import Editor
from .columns import Row, lines_of, picture_of, sample_of, text_of
from .edits import Edits, asking, editor_from
from .untouched import untouched


@dataclass(frozen=True, slots=True)
class Rollout:
    """A completion, as it was judged. written: the instructions it gave to the editor; empty without an editor.

    sample: without a picture of its own (`edited` is the source) where none was made; the score says why. prompt: what
    the policy was told, a text or messages.
    """

    sample: EditSample
    score: Score
    written: tuple[str, ...] = ()
    prompt: Any = ""


class RewardFunction:
    """A reward function for TRL: a number a completion, None where the reward has no value.

    Hand over ONE of these, made of a composition, and not one for each part of it. TRL adds up what several functions
    say and takes a None among them for 0, where a composition becomes None; a completion that has None alone leaves the
    policy as it is.

    reward: a `Reward`, a `RemoteReward`, or a spec, with `experts` as `Reward.of` takes them. to_sample: makes of a row
    the edit that it asks for; see `sample_of`. name: in TRL's logs; the reward's own by default. The edited picture is
    made in one of three ways:

    - `editor`, for a policy that writes instructions: the editor (or a spec of one) edits the row's source by what the
      completion says, several instructions one after the other, and the result is judged by what the *row* asks for.
      split: makes instructions of a text. most: how many are carried out; what goes beyond is not. None at all leaves
      the source as it is, and is judged like that. In one call all pictures are made from one seed, `seed` plus the
      trainer's step, so that within a group only the words make a difference, and the same words share a picture.
    - `decode(completion, completion_ids, row)`, for a policy whose completions are pictures: anything `Image.of` takes,
      or None where the tokens are no picture, which is then unscored.
    - else `to_sample` gives the sample with its picture, as `sample_of` does with a column `edited`.

    offload: after each call the experts give the accelerator's memory back (`Reward.offload`), for the policy that is
    trained next; the next call brings them back, which takes the time of a copy. Without it they stay where they are,
    and `RewardFunction.reward.offload()` does it whenever a trainer likes, as in a callback of its own.

    A call leaves the trainer's random numbers as they were (see `untouched`), and no gradient flows. It pickles if what
    it is given does: functions of modules, and rewards and editors that are specs or know theirs.

    Logged with `log_metric`: `<name>/<part>` and `<name>/credit/<credit>`, and one level further in, each the mean of
    those that have a value; `<name>/unscored`, the share without one; `<name>/degenerate`, of the groups (the same
    sources and instruction) with several completions in this call, the share in which no two values differ: a process
    sees its own slice of a group only. With `log_extra`, columns of texts: `<name>/reason`, `<name>/evidence` (JSON)
    and, with an editor, `<name>/written`.
    """

    def __init__(
        self,
        reward: AnyReward | Spec,
        experts: Mapping[str, Expert | Spec] | None = None,
        *,
        to_sample: Callable[[Row], EditSample] = sample_of,
        editor: Editor | Spec | None = None,
        decode: Callable[[Any, Sequence[int], Row], Any] | None = None,
        split: Callable[[str], Sequence[str]] = lines_of,
        most: int = 4,
        seed: int = 0,
        offload: bool = False,
        name: str = "",
    ) -> None:
        if editor is not None and decode is not None:
            raise ValueError("a completion is an instruction (editor=) or a picture (decode=), not both: pass one")
        if most < 1:
            raise ValueError(f"at least one instruction is carried out, got most={most}")
        self.reward = reward_from(reward, experts)
        self.to_sample = to_sample
        self.decode = decode
        self.split = split
        self.most = most
        self.seed = seed
        self.offload = offload
        self.__name__ = name or self.reward.__name__
        self._editor = editor
        self._built: Editor | None = None
        if editor is not None and not isinstance(editor, str | Mapping | Editor):
            raise ValueError(f"an editor is an `editcritic.verifiers.Editor` or a spec, got {type(editor).__name__}")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_built": None}

    @property
    def editor(self) -> Editor | None:
        """Of a spec, built where it is first used."""
        if self._built is None and self._editor is not None:
            self._built = editor_from(self._editor)
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
        """What TRL calls. Raises ValueError where rows lack what an edit or the reward needs, `EditorFailed` where no
        picture can be made, and `TooManyFailures` as the reward's `on_failures` says.
        """
        found = self.rollouts(prompts, completions, completion_ids, trainer_state=trainer_state, **columns)
        if log_metric is not None:
            for name, value in metrics(found).items():
                log_metric(f"{self.__name__}/{name}", value)
        if log_extra is not None:
            for name, texts in columns_of(found, written=self._editor is not None).items():
                log_extra(f"{self.__name__}/{name}", texts)
        return [one.score.value for one in found]

    def rollouts(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]] | None = None,
        *,
        trainer_state: Any = None,
        **columns: Any,
    ) -> list[Rollout]:
        """The same, with all that is known of each completion: what `preferences.pairs` takes."""
        count = len(completions)
        given = {"prompt": prompts, "completion": completions, "completion_ids": completion_ids or [()] * count}
        given |= {name: column for name, column in columns.items() if isinstance(column, list | tuple)}
        if wrong := {name: len(column) for name, column in given.items() if len(column) != count}:
            raise ValueError(f"{count} completions need as many items in each column, got {wrong}")
        rows = [{name: column[number] for name, column in given.items()} for number in range(count)]
        with untouched():
            samples = [self.to_sample(row) for row in rows]
            samples = [replace(sample, id=f"{sample.id}/{number}") for number, sample in enumerate(samples)]
            made, written = self._pictures(rows, samples, int(getattr(trainer_state, "global_step", 0) or 0))
            return judged(self.reward, samples, made, written, prompts, offload=self.offload)

    def _pictures(
        self, rows: Sequence[Row], samples: Sequence[EditSample], step: int
    ) -> tuple[list[Image | str], list[tuple[str, ...]]]:
        """A picture each, or why there is none; and what the editor was told."""
        if self.decode is not None:
            decoded = [self.decode(row["completion"], row["completion_ids"], row) for row in rows]
            made = ["the completion is no picture" if one is None else picture_of(one) for one in decoded]
            return made, [()] * len(rows)
        if self.editor is None:
            return [sample.edited for sample in samples], [()] * len(rows)
        written = [tuple(self.split(text_of(row["completion"])))[: self.most] for row in rows]
        return _carried_out(self.editor, samples, written, self.seed + step), written


class AsyncRewardFunction:
    """The same for a trainer's event loop: beside other `async def` rewards, `GRPOTrainer` waits for all at once.

    The work is done in a thread; the event loop goes on.
    """

    def __init__(self, function: RewardFunction) -> None:
        self.function = function
        self.__name__ = function.__name__

    async def __call__(self, *given: Any, **columns: Any) -> list[float | None]:
        """See `RewardFunction.__call__`."""
        return await asyncio.to_thread(self.function, *given, **columns)


def reward_from(reward: AnyReward | Spec, experts: Mapping[str, Expert | Spec] | None) -> AnyReward:
    """The reward, or the one that spec and experts make."""
    if isinstance(reward, AnyReward) and experts is not None:
        raise ValueError("this reward has its experts already: pass experts= with a spec only")
    return reward if isinstance(reward, AnyReward) else Reward.of(reward, experts)


def judged(
    reward: AnyReward,
    samples: Sequence[EditSample],
    made: Sequence[Image | str],
    written: Sequence[tuple[str, ...]],
    prompts: Sequence[Any],
    *,
    offload: bool,
) -> list[Rollout]:
    """All of them in one call of the reward. made: their pictures, or why there is none. See `RewardFunction`."""
    wanted = [
        replace(sample, edited=picture)
        for sample, picture in zip(samples, made, strict=True)
        if isinstance(picture, Image)
    ]
    try:
        scores = iter(reward(wanted) if wanted else ())
    finally:
        if offload:
            reward.offload()
    edited = iter(wanted)
    return [
        Rollout(next(edited), next(scores), words, prompt)
        if isinstance(picture, Image)
        else Rollout(sample, Score.failed(picture), words, prompt)
        for sample, picture, words, prompt in zip(samples, made, written, prompts, strict=True)
    ]


def columns_of(rollouts: Sequence[Rollout], *, written: bool) -> dict[str, list[str]]:
    """The columns of texts that are logged of a batch; see `RewardFunction`."""
    found = {
        "reason": [one.score.reason for one in rollouts],
        "evidence": [json.dumps(list(_evidence(one.score))) for one in rollouts],
    }
    return found | {"written": ["\n".join(one.written) for one in rollouts]} if written else found


def metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """What is logged of a batch; see `RewardFunction`."""
    named: dict[str, list[float]] = {}
    groups: dict[str, list[float | None]] = {}
    for one in rollouts:
        groups.setdefault(one.sample.group, []).append(one.score.value)
        for name, value in _inner(one.score):
            named.setdefault(name, []).append(value)
    found = {name: fmean(values) for name, values in named.items()}
    if rollouts:
        found["unscored"] = fmean(one.score.value is None for one in rollouts)
    several = [values for values in groups.values() if len(values) > 1]
    if several:
        found["degenerate"] = fmean(len(set(values) - {None}) < 2 for values in several)
    return found


def _carried_out(
    editor: Editor, samples: Sequence[EditSample], written: Sequence[Sequence[str]], seed: int
) -> list[Image | str]:
    """The source of each after its instructions, one after the other; each different edit is made once."""
    found: list[Image | str] = [sample.source for sample in samples]
    with Edits(editor, seed) as edits:
        for turn in range(max(map(len, written), default=0)):
            asked = {
                number: asking(sample, picture, words[turn])
                for number, (sample, words, picture) in enumerate(zip(samples, written, found, strict=True))
                if turn < len(words) and isinstance(picture, Image)
            }
            for number, made in zip(asked, edits.of(list(asked.values())), strict=True):
                found[number] = made
    return found


def _inner(score: Score, path: str = "", deep: int = 2) -> Iterator[tuple[str, float]]:
    """The values of parts and credits, and of those within them: what is further in is named for objects of one row."""
    for name, inner in [*score.parts.items(), *((f"credit/{name}", one) for name, one in score.credits.items())]:
        where = f"{path}/{name}" if path else name
        if inner.value is not None:
            yield where, inner.value
        if deep > 1:
            yield from _inner(inner, where, deep - 1)


def _evidence(score: Score, path: str = "") -> Iterator[dict[str, Any]]:
    for item in score.evidence:
        yield ({"part": path} if path else {}) | item.to_json()
    for name, inner in score.parts.items():
        yield from _evidence(inner, f"{path}/{name}" if path else name)
