"""Ranking of candidate edits of one source: order, margins and deciding parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from ...reward import EditSample, Score
from ...reward.missing_inputs import for_command
from ...reward.score import upper_bound
from ...verifiers.selection.candidate import contenders
from ..common.terminal import plain_table

SCHEMA = 3  # version of the JSON form of rankings


@dataclass(frozen=True, slots=True)
class RankedCandidate:
    """A candidate with its rank, 1 is the best; None without a score, and in a ranking without a best candidate.
    margin: value minus that of the next candidate; None for the last one with a rank. deciding_parts: where it is
    furthest behind the best candidate (for the best: ahead of the second), as path of the part -> (own value, other
    value)."""

    rank: int | None
    sample: EditSample
    score: Score
    margin: float | None
    deciding_parts: Mapping[str, tuple[float, float]]

    @property
    def reason(self) -> str:
        """The reason of the score and the deciding parts, as text."""
        names = {path: path.rpartition("/")[2] for path in self.deciding_parts}
        parts = (f"{names[path]} ({own:.3g} to {other:.3g})" for path, (own, other) in self.deciding_parts.items())
        deciding = f"{'ahead' if self.rank == 1 else 'behind'} in {', '.join(parts)}" if self.deciding_parts else ""
        return "; ".join(filter(None, (self.score.reason, deciding)))

    def to_json(self) -> dict[str, Any]:
        """As plain data, with the score."""
        return {
            "rank": self.rank,
            "id": self.sample.id,
            "margin": self.margin,
            "explanation": self.reason,
            "deciding_parts": {
                name: {"own": own, "other": other} for name, (own, other) in self.deciding_parts.items()
            },
            **self.score.to_json(),
        }


@dataclass(frozen=True, slots=True)
class CandidateRanking:
    """The candidates of one group, in the order of `rank_group`. no_best: why no candidate has a rank although some
    have a score; see `contenders`."""

    group: str
    candidates: tuple[RankedCandidate, ...]
    no_best: str = ""

    @property
    def reference_sample(self) -> EditSample:
        """The first candidate's sample; all have the same source and instruction."""
        return self.candidates[0].sample

    def to_json(self) -> dict[str, Any]:
        """As plain data, best candidate first."""
        return {
            "group": self.group,
            "instruction": self.reference_sample.instruction,
            "source": self.reference_sample.source.digest,
            "no_best": self.no_best,
            "candidates": [candidate.to_json() for candidate in self.candidates],
        }


def rank_candidates(
    samples: Sequence[EditSample], scores: Iterable[Score], lowest: float | None
) -> list[CandidateRanking]:
    """Groups in order of first appearance, each ranked by value and equal values by id, with those that a guard
    rejected after all other values. lowest: the lower bound of the reward's range."""
    groups: dict[str, list[tuple[EditSample, Score]]] = {}
    for sample, score in zip(samples, scores, strict=True):
        groups.setdefault(sample.group, []).append((sample, score))
    rankings = []
    for group, members in groups.items():
        _, no_best = contenders([score for _, score in members], lowest)
        rankings.append(CandidateRanking(group, tuple(rank_group(members, has_best=not no_best)), no_best))
    return rankings


def rank_group(members: Sequence[tuple[EditSample, Score]], has_best: bool) -> Iterator[RankedCandidate]:
    """The candidates of one group in the order of `rank_candidates`; they get ranks if one of them is the best.

    Otherwise those with a value, all rejected or with the lowest one, come last, and the others by what they can reach
    at most.
    """
    ordered = sorted(members, key=_order if has_best else _worst_last)
    ranked = [score for _, score in ordered if score.value is not None] if has_best else []
    for index, (sample, score) in enumerate(ordered):
        if index >= len(ranked):
            yield RankedCandidate(None, sample, score, None, {})
            continue
        following = ranked[index + 1].value if index + 1 < len(ranked) else None
        margin = None if score.value is None or following is None else score.value - following
        compared = ranked[0 if index else 1] if len(ranked) > 1 else None
        deciding_parts = {} if compared is None else _deciding(score, compared, 1 if index == 0 else -1)
        yield RankedCandidate(index + 1, sample, score, margin, deciding_parts)


def _order(member: tuple[EditSample, Score]) -> tuple[bool, bool, float, str]:
    sample, score = member
    return score.value is None, score.rejected, -(score.value or 0.0), sample.id


def _worst_last(member: tuple[EditSample, Score]) -> tuple[bool, float, str]:
    sample, score = member
    bound = upper_bound(score)
    return score.value is not None, -1.0 if bound is None else -bound, sample.id


def _deciding(score: Score, other: Score, sign: int) -> dict[str, tuple[float, float]]:
    """The two parts furthest ahead (sign 1) or behind (-1) at the first branch, each followed down to a leaf."""
    path: tuple[str, ...] = ()
    while len(gaps := _gaps(score, other, sign)) == 1:
        path = (*path, gaps[0])
        score, other = child_scores(score)[gaps[0]], child_scores(other)[gaps[0]]
    if not gaps:
        return dict([_innermost(score, other, sign, path)]) if path else {}
    return dict(
        _innermost(child_scores(score)[part], child_scores(other)[part], sign, (*path, part)) for part in gaps[:2]
    )


def _innermost(score: Score, other: Score, sign: int, path: tuple[str, ...]) -> tuple[str, tuple[float, float]]:
    while gaps := _gaps(score, other, sign):
        path = (*path, gaps[0])
        score, other = child_scores(score)[gaps[0]], child_scores(other)[gaps[0]]
    assert score.value is not None  # a gap needs two values
    assert other.value is not None
    return "/".join(path), (score.value, other.value)


def _gaps(score: Score, other: Score, sign: int) -> list[str]:
    """Names of common parts in which the score leads (sign 1) or lags (-1), the largest difference first."""
    values = {name: part.value for name, part in child_scores(other).items()}
    gaps: dict[str, float] = {}
    for name, part in child_scores(score).items():
        if part.value is not None and (value := values.get(name)) is not None:
            gaps[name] = sign * (part.value - value)
    return sorted((name for name, gap in gaps.items() if gap > 0), key=lambda name: -gaps[name])


def child_scores(score: Score) -> dict[str, Score]:
    """What a score is made of: its parts, and its credits unless they are those of a part."""
    repeated = any(part.credits == score.credits for part in score.parts.values())
    return {**score.parts, **({} if repeated else score.credits)}


def render_ranking(ranking: CandidateRanking, spelled: Callable[[str], str] = for_command) -> Table:
    """A ranking for the terminal; a reason that stands above is not repeated. spelled: how a reason says what to type,
    see `missing_inputs`."""
    numbers = ("score", "margin")
    columns = ("", "candidate", *numbers, "reason")
    table = plain_table(Text(ranking.reference_sample.instruction), *columns, right=("", *numbers), fixed=numbers)
    above = ""
    for candidate in ranking.candidates:
        value = (
            candidate.score.status.replace("_", " ")
            if candidate.score.value is None
            else f"{candidate.score.value:.4f}"
        )
        margin = "" if candidate.margin is None else f"{candidate.margin:.4f}"
        reason = "as above" if candidate.reason and candidate.reason == above else spelled(candidate.reason)
        above = candidate.reason
        if candidate.score.value is None and (bound := upper_bound(candidate.score)) is not None:
            reason = f"cannot exceed {bound:.2f}: {reason}"
        table.add_row(*map(Text, (str(candidate.rank or "-"), candidate.sample.id, value, margin, reason)))
    if ranking.no_best:
        caption = Text(f"no candidate is the best: {spelled(ranking.no_best)}")
        table.caption, table.caption_justify = caption, "left"
    return table
