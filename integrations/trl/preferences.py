"""Preference pairs of candidates that were scored: for TRL's `DPOTrainer` and `RewardTrainer`, and diffusion-DPO.

    found = pairs(select(BestOf(8), samples, editor=editor, reward=reward), margin=0.1)
    rows = Dataset.from_list(found.verdicts())  # or .pictures(), or .texts() of a policy that writes instructions

Neither TRL nor datasets is imported.
"""

from __future__ import annotations

import math
import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ..reward import EditSample
from ..reward.prompts import Prompts
from ..verifiers import Selection
from .trl import Rollout

_SLACK = 1e-9  # 0.9 - 0.8 is a margin of 0.1


@dataclass(frozen=True, slots=True)
class Contender:
    """One that may be chosen. position: among the candidates of its group, from 0. text: what the policy wrote."""

    sample: EditSample
    value: float
    position: int
    text: str = ""
    prompt: Any = ""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two candidates for the same edit. The values are those of one reward, so that `margin` is in its unit."""

    chosen: Contender
    rejected: Contender

    @property
    def margin(self) -> float:
        return self.chosen.value - self.rejected.value


@dataclass(frozen=True, slots=True)
class Pairs:
    """What came of candidates: pairs, and how many were left out for what.

    dropped: `unscored` counts candidates without a value; `same`, `near ties`, `unbalanced` (also: more of one group
    than were allowed) count pairs.
    """

    pairs: tuple[Pair, ...]
    dropped: dict[str, int]

    def __len__(self) -> int:
        return len(self.pairs)

    def texts(self) -> list[dict[str, Any]]:
        """Rows for a policy that writes instructions: `prompt`, `chosen`, `rejected` (texts, or messages where prompts
        are messages), `margin` and `id`. `DPOTrainer` and `RewardTrainer` take them; only the latter uses the margin.

        Raises ValueError where candidates are told apart by their pictures alone.
        """
        rows = []
        for pair in self.pairs:
            if not pair.chosen.text and not pair.rejected.text:
                raise ValueError(f"nobody wrote {pair.chosen.sample.id}: take pictures() or verdicts() of these pairs")
            prompt = pair.chosen.prompt or pair.chosen.sample.instruction
            say: Callable[[str], Any] = str if isinstance(prompt, str) else _says
            rows.append(_row(pair, prompt=prompt, chosen=say(pair.chosen.text), rejected=say(pair.rejected.text)))
        return rows

    def verdicts(self, prompts: str | None = None) -> list[dict[str, Any]]:
        """Rows that teach a vision-language model to compare edits, as `PairwiseJudge` asks for it.

        `images` (PIL): the sources, the edit shown first, the one shown second. `prompt`, `chosen`, `rejected`:
        messages, the answers being "first" and "second". `margin` and `id`. The chosen edit is shown first in every
        other row. prompts: a folder whose `pairwise.txt` replaces our prompt.
        """
        words = Prompts("editcritic.reward.baselines", prompts)
        rows = []
        for number, pair in enumerate(self.pairs):
            sample = pair.chosen.sample
            shown, answers = [pair.chosen.sample.edited, pair.rejected.sample.edited], ["first", "second"]
            if number % 2:
                shown.reverse()
                answers.reverse()
            asked = words.render("pairwise", instruction=sample.instruction)
            rows.append(
                _row(
                    pair,
                    images=[image.pil() for image in (*sample.sources, *shown)],
                    prompt=[{"role": "user", "content": asked}],
                    chosen=_says(answers[0]),
                    rejected=_says(answers[1]),
                )
            )
        return rows

    def pictures(self) -> list[dict[str, Any]]:
        """Rows for diffusion trainers: `instruction`, `margin`, `id`, and `sources`, `chosen`, `rejected` (PIL)."""
        return [
            _row(
                pair,
                instruction=pair.chosen.sample.instruction,
                sources=[image.pil() for image in pair.chosen.sample.sources],
                chosen=pair.chosen.sample.edited.pil(),
                rejected=pair.rejected.sample.edited.pil(),
            )
            for pair in self.pairs
        ]


def pairs(
    found: Iterable[Selection | Rollout],
    *,
    margin: float = 0.0,
    noise: float = 0.0,
    per_group: int = 4,
    balanced: bool = True,
    length: Callable[[str], int] = len,
    seed: int = 0,
) -> Pairs:
    """Pairs of candidates for the same edit: the same sources and the same instruction.

    found: selections, whose candidates are told apart by their pictures; or rollouts (`RewardFunction.rollouts`, or
    `Rollout(sample, score)`), told apart by what they wrote, where they wrote something. A candidate that failed or has
    no value is in no pair.

    margin: values that differ by less are a tie, and no pair. noise: the standard deviation of a score when the same
    edit is judged again; what is nearer than 2 sqrt(2) of them is a tie as well, as two scores of one and the same edit
    are in 19 of 20 cases. per_group: pairs at most of one group.

    balanced: whatever can be said of a pair by which text is longer (by `length`) and which candidate came first is as
    often true of the chosen one as of the rejected one, both taken together as well: pairs are taken two by two, and
    each two are opposites. Where one side is always longer there are none. The same seed gives the same pairs, in the
    same order. Raises ValueError.
    """
    if margin < 0 or noise < 0:
        raise ValueError(f"margins and noise are not negative, got margin={margin}, noise={noise}")
    if per_group < 1:
        raise ValueError(f"a group may give one pair or more, got per_group={per_group}")
    least = max(margin, 2 * math.sqrt(2) * noise) - _SLACK
    chance = random.Random(seed)
    dropped = Counter(dict.fromkeys(("unscored", "same", "near ties", "unbalanced"), 0))
    drawn: list[tuple[int, float, int, Pair]] = []
    for number, group in enumerate(_groups(found, dropped)):
        here = []
        for one, other in combinations(group, 2):
            chosen, rejected = (one, other) if one.value > other.value else (other, one)
            pair = Pair(chosen, rejected)
            if _same(one, other):
                dropped["same"] += 1
            elif pair.margin <= 0 or pair.margin < least:
                dropped["near ties"] += 1
            else:
                here.append(pair)
        chance.shuffle(here)
        drawn += [(turn, chance.random(), number, pair) for turn, pair in enumerate(here)]
    drawn.sort(key=lambda item: item[:2])  # every group has its first turn before one has its second
    waiting = [(number, pair) for _, _, number, pair in drawn]
    taken = _opposites(waiting, per_group, length, chance) if balanced else _first(waiting, per_group)
    dropped["unbalanced"] = len(waiting) - len(taken)
    return Pairs(tuple(taken), dict(dropped))


def _groups(found: Iterable[Selection | Rollout], dropped: Counter[str]) -> list[list[Contender]]:
    """Those that may be compared, in the order in which they came."""
    groups: dict[object, list[Contender]] = {}
    places: Counter[object] = Counter()
    for number, one in enumerate(found):
        if isinstance(one, Selection):
            here = [(number, made.sample, made.value, "", "") for made in one.candidates]
        else:
            here = [(-1, one.sample, one.score.value, "\n".join(one.written), one.prompt)]
        for origin, sample, value, text, prompt in here:
            if sample is None or value is None:
                dropped["unscored"] += 1
            if sample is None:
                continue
            earlier = tuple(turn.edited.digest for turn in sample.earlier)
            key = (origin, sample.group, sample.instruction, tuple(one.digest for one in sample.sources), earlier)
            if value is not None:
                groups.setdefault(key, []).append(Contender(sample, value, places[key], text, prompt))
            places[key] += 1
    return list(groups.values())


def _same(one: Contender, other: Contender) -> bool:
    if one.text or other.text:
        return one.text == other.text
    return one.sample.edited.digest == other.sample.edited.digest


def _first(waiting: Sequence[tuple[int, Pair]], per_group: int) -> list[Pair]:
    room: Counter[int] = Counter()
    taken = []
    for number, pair in waiting:
        if room[number] < per_group:
            room[number] += 1
            taken.append(pair)
    return taken


def _opposites(
    waiting: Sequence[tuple[int, Pair]], per_group: int, length: Callable[[str], int], chance: random.Random
) -> list[Pair]:
    """As many as there is an opposite for, each beside its opposite."""
    sides: dict[tuple[int, int], deque[tuple[int, Pair]]] = {}
    for number, pair in waiting:
        longer = _sign(length(pair.chosen.text) - length(pair.rejected.text))
        later = _sign(pair.chosen.position - pair.rejected.position)
        sides.setdefault((longer, later), deque()).append((number, pair))
    kinds = [(one, other) for one, other in ((1, 1), (1, -1), (0, 1)) if {(one, other), (-one, -other)} <= set(sides)]
    used: Counter[int] = Counter()
    taken: list[Pair] = []
    while kinds:
        for one, other in list(kinds):
            couple = _couple(sides[one, other], sides[-one, -other], used, per_group)
            if couple is None:
                kinds.remove((one, other))
            else:
                taken += chance.sample(couple, 2)  # else every other row would be the later candidate's
    return taken


def _couple(
    ones: deque[tuple[int, Pair]], others: deque[tuple[int, Pair]], used: Counter[int], per_group: int
) -> tuple[Pair, Pair] | None:
    """The first of each side that their groups have room for, taken away."""
    for side in (ones, others):
        while side and used[side[0][0]] >= per_group:
            side.popleft()
    for here, (group, pair) in enumerate(ones):
        if used[group] >= per_group:
            continue
        for there, (opposite, opposed) in enumerate(others):
            if used[opposite] + 1 + (opposite == group) <= per_group:
                del ones[here], others[there]
                used.update((group, opposite))
                return pair, opposed
    return None


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _says(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def _row(pair: Pair, **columns: Any) -> dict[str, Any]:
    name = f"{pair.chosen.sample.id} over {pair.rejected.sample.id}"
    return {"id": name, **columns, "margin": pair.margin}
