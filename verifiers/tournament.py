"""Tournaments: candidates are compared two by two, and who wins its matches is chosen.

For judges that tell which of two pictures is better more surely than how good each one is (`PairwiseJudge`, whose match
is two questions). All candidates are scored by the run's reward first: one without a score does not play.

Where a match says nothing (a draw, a judge that abstains, or fails a second time, a budget that has ended), the reward
decides between the two, then `ties`, then the lowest seed; `why` and `notes` say so. Without a comparison the matches
are between the scores, and the winner is that of best-of-n. With one, more candidates can lower the winner's reward.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..reward import EditSample
from ..reward.pairwise import Comparison
from .budget import Cost, total
from .candidate import Candidate, Match, Selection
from .run import Run

Pair = tuple[str, str]
"""Ids of two candidates, the lower seed first."""


@dataclass(frozen=True)
class KnockOut:
    """`n` candidates, of which the losers of each round are out: n - 1 matches in ceil(log2(n)) rounds.

    Pairs are made in the order of the seeds. Where the candidates are no power of two, those with the lowest seeds go
    on to the second round without a match. comparison: what a match is; by default the scores are compared.
    """

    n: int = 8
    comparison: Comparison | None = None

    def __post_init__(self) -> None:
        _check("a knock-out", self.n, self.comparison)

    def __call__(self, run: Run, samples: Sequence[EditSample]) -> list[Selection]:
        tables = _tables(run, samples, self.n, self.comparison)
        while any(len(one.standing) > 1 for one in tables):
            rounds = [_round(one.standing) for one in tables]
            results = _play(run, tables, [pairs for _, pairs in rounds], self.comparison)
            for one, (waiting, pairs), matches in zip(tables, rounds, results, strict=True):
                winners = [one.goes_on(run, pair, match) for pair, match in zip(pairs, matches, strict=True)]
                one.standing = [*waiting, *winners]
        return [one.selection(run, self.n, self.n - 1) for one in tables]


@dataclass(frozen=True)
class RoundRobin:
    """`n` candidates, each against each: n (n - 1) / 2 matches. The highest sum of shares wins.

    Among equal sums: that over the matches between these, then the reward, `ties`, and the lowest seed. As some matches
    may say nothing, sums are compared as means over those that do. comparison: as in `KnockOut`.
    """

    n: int = 6
    comparison: Comparison | None = None

    def __post_init__(self) -> None:
        _check("a round robin", self.n, self.comparison)

    def __call__(self, run: Run, samples: Sequence[EditSample]) -> list[Selection]:
        tables = _tables(run, samples, self.n, self.comparison)
        results = _play(run, tables, [_each_against_each(one.standing) for one in tables], self.comparison)
        for one, matches in zip(tables, results, strict=True):
            if len(one.standing) > 1:
                one.standing = [one.leader(run, [match for match in matches if match is not None])]
        return [one.selection(run, self.n, self.n * (self.n - 1) // 2) for one in tables]


# -- one sample's tournament ------------------------------------------------------------------------------------------


@dataclass
class _Table:
    """players: all candidates by id, in the order of their seeds. standing: ids of those that can still win. said: by
    id, what decided for it.
    """

    sample: EditSample
    players: dict[str, Candidate]
    standing: list[str]
    matches: list[Match] = field(default_factory=list)
    said: dict[str, list[str]] = field(default_factory=dict)

    def goes_on(self, run: Run, pair: Pair, match: Match | None) -> str:
        """Who wins a match; None is one that there was no budget for."""
        share = None if match is None else match.score.value
        if share is None or share == 0.5:
            winner = self.by_reward(run, pair)
            why = "no budget for a match" if match is None else "no answer" if share is None else "a draw"
            how = f"by the reward ({why})"
        else:
            winner = pair[0] if share > 0.5 else pair[1]
            how = f"by {max(share, 1 - share):.4g}"
        loser = pair[1] if winner == pair[0] else pair[0]
        self.said.setdefault(winner, []).append(f"over {loser} {how}")
        return winner

    def leader(self, run: Run, played: Sequence[Match]) -> str:
        """Who wins where each meets each."""
        means = _means(self.standing, played)
        if not means:
            winner = self.by_reward(run, self.standing)
            self.said[winner] = ["by the reward: no match has an answer"]
            return winner
        top = max(means.values())
        equal = [name for name, mean in means.items() if mean == top]
        others = sorted(((mean, name) for name, mean in means.items() if mean < top), reverse=True)
        why = f"by a mean share of {top:.4g} among {len(means)}"
        why += f"; the next, {others[0][1]}, has {others[0][0]:.4g}" if others else ""
        if len(equal) > 1:
            why += f"; {', '.join(equal)} have the highest"
            among = _means(equal, played)
            if among and len(first := [name for name in among if among[name] == max(among.values())]) < len(equal):
                equal = first
                why += f", {', '.join(equal)} in the matches between them"
        winner = self.by_reward(run, equal)
        self.said[winner] = [why + ("; the reward decides" if len(equal) > 1 else "")]
        return winner

    def by_reward(self, run: Run, names: Sequence[str]) -> str:
        """Which of these the reward chooses."""
        found, chosen, _ = run.best([self.players[name] for name in names])
        self.players |= {one.id: one for one in found}
        assert chosen is not None  # only those with a score play
        return chosen.id

    def selection(self, run: Run, n: int, matches: int) -> Selection:
        """Of the one that stands. matches: how many the tournament has when all `n` candidates play."""
        candidates = tuple(self.players.values())
        winner = self.players[self.standing[0]] if self.standing else None
        silent = [one for one in self.matches if one.score.value is None]
        return Selection(
            self.sample,
            winner,
            self._why(run, winner),
            candidates,
            run.unpruned(candidates, n) + _scaled([one.cost for one in self.matches], matches),
            matches=tuple(self.matches),
            ended=run.ended,
            notes=tuple(f"{one.first} against {one.second} {one.score.status}: {one.score.reason}" for one in silent),
        )

    def _why(self, run: Run, winner: Candidate | None) -> str:
        if winner is None:
            return run.best(list(self.players.values()))[2]
        said = self.said.get(winner.id)
        if said is None:
            return f"the only one of {len(self.players)} with a score"
        return "won " + ", ".join(said)


def _tables(run: Run, samples: Sequence[EditSample], n: int, comparison: Comparison | None) -> list[_Table]:
    run.matches((), comparison)  # one that nobody can answer is refused before anything is made
    made = run.rounds([[run.want(sample, number) for number in range(n)] for sample in samples])
    return [
        _Table(sample, {one.id: one for one in found}, [one.id for one in found if one.value is not None])
        for sample, found in zip(samples, made, strict=True)
    ]


# -- matches ----------------------------------------------------------------------------------------------------------


def _round(standing: Sequence[str]) -> tuple[list[str], list[Pair]]:
    """Those that go on without a match, so that a power of two is left after it; and who meets whom."""
    waiting = len(standing) if len(standing) < 2 else (1 << (len(standing) - 1).bit_length()) - len(standing)
    playing = standing[waiting:]
    return list(standing[:waiting]), list(zip(playing[::2], playing[1::2], strict=True))


def _each_against_each(standing: Sequence[str]) -> list[Pair]:
    """In rounds in which everybody plays once, so that a budget that ends has let all play about as often."""
    ring: list[str | None] = [*standing, *([None] if len(standing) % 2 else [])]
    order = {name: place for place, name in enumerate(standing)}
    found = []
    for _ in range(len(ring) - 1):
        for one, other in zip(ring[: len(ring) // 2], reversed(ring), strict=False):
            if one is not None and other is not None:
                found.append((one, other) if order[one] < order[other] else (other, one))
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return found


def _play(
    run: Run, tables: Sequence[_Table], pairs: Sequence[Sequence[Pair]], comparison: Comparison | None
) -> list[list[Match | None]]:
    """The match of each pair, a pair of each sample in turn; None where there was no budget. What fails is played once
    more. All matches go on the tables.
    """
    found: list[list[Match | None]] = [[None] * len(row) for row in pairs]

    def play(places: Sequence[tuple[int, int]]) -> None:
        meeting = [tuple(tables[row].players[name] for name in pairs[row][place]) for place, row in places]
        for (place, row), match in zip(places, run.matches([(a, b) for a, b in meeting], comparison), strict=False):
            found[row][place] = match
            tables[row].matches.append(match)

    play(sorted((place, row) for row, listed in enumerate(pairs) for place in range(len(listed))))
    played = [(place, row, match) for row, matches in enumerate(found) for place, match in enumerate(matches)]
    play(sorted((place, row) for place, row, match in played if match and match.score.status == "failed"))
    return found


def _means(names: Sequence[str], played: Sequence[Match]) -> dict[str, float]:
    """By id, the mean share over the matches between these that have an answer; nothing for those without one."""
    shares: dict[str, list[float]] = {}
    for match in played:
        if match.score.value is not None and match.first in names and match.second in names:
            shares.setdefault(match.first, []).append(match.score.value)
            shares.setdefault(match.second, []).append(1.0 - match.score.value)
    return {name: round(math.fsum(shares[name]) / len(shares[name]), 9) for name in names if name in shares}


def _scaled(costs: Sequence[Cost], count: int) -> Cost:
    """What `count` matches would cost, by what these took on average."""
    whole, share = total(costs), count / max(len(costs), 1)
    return Cost(0, round(whole.judge_calls * share), whole.seconds * share)


def _check(name: str, n: int, comparison: object) -> None:
    if n < 1:
        raise ValueError(f"{name} takes one candidate or more, got {n}")
    if not (comparison is None or (callable(comparison) and hasattr(comparison, "card"))):
        raise ValueError(f"{name} takes a comparison such as PairwiseJudge(), or None, got {comparison!r}")
