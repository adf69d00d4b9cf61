"""Preference pairs from scored candidates: for TRL's `DPOTrainer` and `RewardTrainer`, and for diffusion-DPO.

    pairs = make_preference_pairs(select(BestOfN(8), samples, editor=editor, reward=reward), margin=0.1)
    rows = Dataset.from_list(pairs.to_comparison_rows())  # or .to_image_rows(), or .to_text_rows()

Neither TRL nor datasets is imported."""

from __future__ import annotations

import math
import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ...reward import EditSample
from ...reward.queries.prompts import Prompts
from ...verifiers import Selection
from .reward_function import Rollout

_TOLERANCE = 1e-9  # so that 0.9 - 0.8 counts as a margin of 0.1


@dataclass(frozen=True, slots=True)
class PreferenceCandidate:
    """A scored candidate. position: within its group. text: what the policy wrote. guarded: a guard rejected it."""

    sample: EditSample
    value: float
    position: int
    text: str = ""
    prompt: Any = ""
    guarded: bool = False


@dataclass(frozen=True, slots=True)
class PreferencePair:
    """Two candidates for the same edit. The values are those of one reward, so that `margin` is in its unit."""

    chosen: PreferenceCandidate
    rejected: PreferenceCandidate

    @property
    def margin(self) -> float:
        """Value of the chosen minus value of the rejected candidate, above 0."""
        return self.chosen.value - self.rejected.value


@dataclass(frozen=True, slots=True)
class PreferencePairs:
    """The pairs, and how many candidates and pairs were dropped, by reason.

    Args:
        dropped: `unscored` counts candidates without a value; `same`, `near ties` and `unbalanced` (also: above
            `max_per_group`) count pairs.
    """

    pairs: tuple[PreferencePair, ...]
    dropped: dict[str, int]

    def __len__(self) -> int:
        return len(self.pairs)

    def to_text_rows(self) -> list[dict[str, Any]]:
        """Rows for a policy that writes instructions: `prompt`, `chosen`, `rejected` (texts, or messages where prompts
        are messages), `margin` and `id`. `DPOTrainer` and `RewardTrainer` take them; only the latter uses the margin.

        Raises:
            ValueError: If candidates differ only by their images.
        """
        rows = []
        for pair in self.pairs:
            if not pair.chosen.text and not pair.rejected.text:
                raise ValueError(
                    f"{pair.chosen.sample.id} has no text: use to_image_rows() or to_comparison_rows() for these pairs"
                )
            prompt = pair.chosen.prompt or pair.chosen.sample.instruction
            to_completion: Callable[[str], Any] = str if isinstance(prompt, str) else _assistant_message
            chosen, rejected = to_completion(pair.chosen.text), to_completion(pair.rejected.text)
            rows.append(_row(pair, prompt=prompt, chosen=chosen, rejected=rejected))
        return rows

    def to_comparison_rows(self, prompts: str | None = None) -> list[dict[str, Any]]:
        """Rows for training a vision-language model to compare edits, with the prompt of `PairwiseJudge`.

        `images` (PIL): the sources, the edit shown first, the edit shown second. `prompt`, `chosen`, `rejected`:
        messages; the answers are "first" and "second". `margin` and `id`. The chosen edit is shown first in every
        second row.

        Args:
            prompts: A folder whose `pairwise.txt` replaces the built-in prompt.
        """
        prompt_files = Prompts("editcritic.reward.metrics.baselines", prompts)
        rows = []
        for number, pair in enumerate(self.pairs):
            sample = pair.chosen.sample
            shown, answers = [pair.chosen.sample.edited, pair.rejected.sample.edited], ["first", "second"]
            if number % 2:
                shown.reverse()
                answers.reverse()
            prompt = [{"role": "user", "content": prompt_files.render("pairwise", instruction=sample.instruction)}]
            images = [image.pil() for image in (*sample.sources, *shown)]
            chosen, rejected = map(_assistant_message, answers)
            rows.append(_row(pair, images=images, prompt=prompt, chosen=chosen, rejected=rejected))
        return rows

    def to_image_rows(self) -> list[dict[str, Any]]:
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


def make_preference_pairs(
    results: Iterable[Selection | Rollout],
    *,
    margin: float = 0.0,
    score_std: float = 0.0,
    max_per_group: int = 4,
    balanced: bool = True,
    text_length: Callable[[str], int] = len,
    seed: int = 0,
) -> PreferencePairs:
    """Pairs of candidates for the same edit: the same sources and the same instruction.

    Raises ValueError.

    Args:
        results: Selections, whose candidates differ by their images; or rollouts (`RewardFunction.rollouts`, or
            `Rollout(sample, score)`), which differ by their text, if they have one. Candidates that failed or have no
            value are in no pair, and one that a guard rejected is never chosen over another.
        margin: Minimum difference of the values; smaller differences are ties.
        score_std: The standard deviation of a score when the same edit is scored again; differences below 2 sqrt(2) of
            it are ties as well, since two scores of one edit differ by less in 19 of 20 cases.
        max_per_group: Maximum pairs per group.
        balanced: The sign of the length difference (by `text_length`), the order of the two candidates, and their
            combination are distributed equally over chosen and rejected: each kept pair has an opposite among the kept
            pairs. If one side is always longer, no pair is kept. The same seed gives the same pairs in the same order.
    """
    if not (margin >= 0 and score_std >= 0):  # NaN would keep every pair
        raise ValueError(f"margin and score_std must be 0 or more, got {margin=}, {score_std=}")
    if max_per_group < 1:
        raise ValueError(f"max_per_group must be at least 1, got {max_per_group}")
    min_margin = max(margin, 2 * math.sqrt(2) * score_std) - _TOLERANCE
    rng = random.Random(seed)
    dropped = Counter(dict.fromkeys(("unscored", "same", "near ties", "unbalanced"), 0))
    shuffled: list[tuple[int, float, int, PreferencePair]] = []
    for group_index, group in enumerate(_groups(results, dropped)):
        group_pairs = []
        for first, second in combinations(group, 2):
            rejected, chosen = sorted((first, second), key=lambda candidate: (not candidate.guarded, candidate.value))
            pair = PreferencePair(chosen, rejected)
            if _same(first, second):
                dropped["same"] += 1
            elif pair.margin <= 0 or pair.margin < min_margin:
                dropped["near ties"] += 1
            else:
                group_pairs.append(pair)
        rng.shuffle(group_pairs)
        shuffled += [(round_index, rng.random(), group_index, pair) for round_index, pair in enumerate(group_pairs)]
    shuffled.sort(key=lambda item: item[:2])  # the first pair of every group before any second pair
    ordered = [(group_index, pair) for _, _, group_index, pair in shuffled]
    kept = _balanced_pairs(ordered, max_per_group, text_length, rng) if balanced else _first(ordered, max_per_group)
    dropped["unbalanced"] = len(ordered) - len(kept)
    return PreferencePairs(tuple(kept), dict(dropped))


def _groups(results: Iterable[Selection | Rollout], dropped: Counter[str]) -> list[list[PreferenceCandidate]]:
    groups: dict[object, list[PreferenceCandidate]] = {}
    positions: Counter[object] = Counter()
    for index, result in enumerate(results):
        if isinstance(result, Selection):
            members = [(index, one.sample, one.value, one.score.rejected, "", "") for one in result.candidates]
        else:
            text, score = "\n".join(result.instructions), result.score
            members = [(-1, result.sample, score.value, score.rejected, text, result.prompt)]
        for origin, sample, value, guarded, text, prompt in members:
            if sample is None or value is None:
                dropped["unscored"] += 1
            if sample is None:
                continue
            history = tuple(turn.edited.digest for turn in sample.history)
            key = (origin, sample.group, sample.instruction, tuple(image.digest for image in sample.sources), history)
            if value is not None:
                candidate = PreferenceCandidate(sample, value, positions[key], text, prompt, guarded)
                groups.setdefault(key, []).append(candidate)
            positions[key] += 1
    return list(groups.values())


def _same(first: PreferenceCandidate, second: PreferenceCandidate) -> bool:
    if first.text or second.text:
        return first.text == second.text
    return first.sample.edited.digest == second.sample.edited.digest


def _first(ordered: Sequence[tuple[int, PreferencePair]], per_group: int) -> list[PreferencePair]:
    counts: Counter[int] = Counter()
    kept = []
    for group_index, pair in ordered:
        if counts[group_index] < per_group:
            counts[group_index] += 1
            kept.append(pair)
    return kept


def _balanced_pairs(
    ordered: Sequence[tuple[int, PreferencePair]], per_group: int, length: Callable[[str], int], rng: random.Random
) -> list[PreferencePair]:
    sides: dict[tuple[int, int], deque[tuple[int, PreferencePair]]] = {}
    for group_index, pair in ordered:
        longer = _sign(length(pair.chosen.text) - length(pair.rejected.text))
        later = _sign(pair.chosen.position - pair.rejected.position)
        sides.setdefault((longer, later), deque()).append((group_index, pair))
    kinds = [(a, b) for a, b in ((1, 1), (1, -1), (0, 1)) if {(a, b), (-a, -b)} <= set(sides)]
    used: Counter[int] = Counter()
    kept: list[PreferencePair] = []
    while kinds:
        for longer, later in list(kinds):
            couple = _next_opposites(sides[longer, later], sides[-longer, -later], used, per_group)
            if couple is None:
                kinds.remove((longer, later))
            else:
                kept += rng.sample(couple, 2)  # else every second one would have the earlier candidate chosen
    return kept


def _next_opposites(
    side: deque[tuple[int, PreferencePair]],
    opposite_side: deque[tuple[int, PreferencePair]],
    used: Counter[int],
    per_group: int,
) -> tuple[PreferencePair, PreferencePair] | None:
    """Remove and return the first two opposites whose groups still have room."""
    for queue in (side, opposite_side):
        while queue and used[queue[0][0]] >= per_group:
            queue.popleft()
    for index, (group, pair) in enumerate(side):
        if used[group] >= per_group:
            continue
        for opposite_index, (opposite_group, opposite_pair) in enumerate(opposite_side):
            if used[opposite_group] + 1 + (opposite_group == group) <= per_group:
                del side[index], opposite_side[opposite_index]
                used.update((group, opposite_group))
                return pair, opposite_pair
    return None


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _assistant_message(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def _row(pair: PreferencePair, **columns: Any) -> dict[str, Any]:
    name = f"{pair.chosen.sample.id} over {pair.rejected.sample.id}"
    return {"id": name, **columns, "margin": pair.margin}
