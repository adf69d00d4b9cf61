"""Tournaments: the winner is chosen by pairwise comparisons, for judges that compare two images more reliably than they
rate one. The run's reward scores all candidates first, and those that cannot be chosen do not play: a judge of pairs
never sees what a guard rejected. An undecided match is decided by the reward, then the tiebreak reward, then the lowest
seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...reward import EditSample
from ...reward.metrics.pairwise import PairwiseMetric
from ..selection.candidate import Candidate, Cost, Selection, TournamentMatch, sum_costs
from ..selection.selection_run import SelectionRun

CandidatePair = tuple[str, str]
"""Ids of two candidates, the lower seed first."""


@dataclass(frozen=True)
class KnockoutTournament:
    """Single elimination among `n` candidates: n - 1 matches in ceil(log2(n)) rounds.

    Pairs follow the order of the seeds. If the number of candidates is not a power of two, those with the lowest seeds
    get a bye in the first round.

    Args:
        comparison: Of two candidates; by default their scores are compared.
    """

    n: int = 8
    comparison: PairwiseMetric | None = None

    def __post_init__(self) -> None:
        _check("a knockout tournament", self.n, self.comparison)

    def __call__(self, run: SelectionRun, samples: Sequence[EditSample]) -> list[Selection]:
        brackets = _new_brackets(run, samples, self.n, self.comparison)
        while any(len(bracket.remaining) > 1 for bracket in brackets):
            rounds = [_pair_round(bracket.remaining) for bracket in brackets]
            results = _play_matches(run, brackets, [pairs for _, pairs in rounds], self.comparison)
            for bracket, (byes, pairs), matches in zip(brackets, rounds, results, strict=True):
                winners = [bracket.resolve(run, pair, match) for pair, match in zip(pairs, matches, strict=True)]
                bracket.remaining = [*byes, *winners]
        return [bracket.selection(run, self.n, self.n - 1) for bracket in brackets]


@dataclass(frozen=True)
class RoundRobinTournament:
    """All pairs of `n` candidates: n (n - 1) / 2 matches. The highest mean share wins.

    Means are over decided matches. Ties are broken by the mean over the matches between the tied, then by the reward,
    the tiebreak reward and the lowest seed.

    Args:
        comparison: As in `KnockoutTournament`.
    """

    n: int = 6
    comparison: PairwiseMetric | None = None

    def __post_init__(self) -> None:
        _check("a round-robin tournament", self.n, self.comparison)

    def __call__(self, run: SelectionRun, samples: Sequence[EditSample]) -> list[Selection]:
        brackets = _new_brackets(run, samples, self.n, self.comparison)
        pairs = [_round_robin_pairs(bracket.remaining) for bracket in brackets]
        results = _play_matches(run, brackets, pairs, self.comparison)
        for bracket, matches in zip(brackets, results, strict=True):
            if len(bracket.remaining) > 1:
                bracket.remaining = [bracket.leader(run, [match for match in matches if match is not None])]
        return [bracket.selection(run, self.n, self.n * (self.n - 1) // 2) for bracket in brackets]


# -- one sample's tournament ------------------------------------------------------------------------------------------


@dataclass
class _Bracket:
    """players: by id, in seed order. remaining: ids that can still win. decided_by: id -> what decided its matches."""

    sample: EditSample
    players: dict[str, Candidate]
    remaining: list[str]
    matches: list[TournamentMatch] = field(default_factory=list)
    decided_by: dict[str, list[str]] = field(default_factory=dict)

    def resolve(self, run: SelectionRun, pair: CandidatePair, match: TournamentMatch | None) -> str:
        """The winner of a match; None is a match without budget."""
        share = None if match is None else match.score.value
        if share is None or share == 0.5:
            winner = self.by_reward(run, pair)
            cause = "no budget for a match" if match is None else "no answer" if share is None else "a draw"
            decision = f"by the reward ({cause})"
        else:
            winner = pair[0] if share > 0.5 else pair[1]
            decision = f"by {max(share, 1 - share):.4g}"
        loser = pair[1] if winner == pair[0] else pair[0]
        self.decided_by.setdefault(winner, []).append(f"over {loser} {decision}")
        return winner

    def leader(self, run: SelectionRun, matches: Sequence[TournamentMatch]) -> str:
        means = _mean_shares(self.remaining, matches)
        if not means:
            winner = self.by_reward(run, self.remaining)
            self.decided_by[winner] = ["by the reward: no match has an answer"]
            return winner
        top = max(means.values())
        tied = [candidate_id for candidate_id, mean in means.items() if mean == top]
        lower = sorted(((mean, candidate_id) for candidate_id, mean in means.items() if mean < top), reverse=True)
        reason = f"by a mean share of {top:.4g} among {len(means)}"
        reason += f"; the next, {lower[0][1]}, has {lower[0][0]:.4g}" if lower else ""
        if len(tied) > 1:
            reason += f"; {', '.join(tied)} have the highest"
            mutual_means = _mean_shares(tied, matches)
            leaders = [name for name, mean in mutual_means.items() if mean == max(mutual_means.values())]
            if 0 < len(leaders) < len(tied):
                tied = leaders
                reason += f", {', '.join(tied)} in the matches between them"
        winner = self.by_reward(run, tied)
        self.decided_by[winner] = [reason + ("; the reward decides" if len(tied) > 1 else "")]
        return winner

    def by_reward(self, run: SelectionRun, candidate_ids: Sequence[str]) -> str:
        updated, chosen, _ = run.choose([self.players[candidate_id] for candidate_id in candidate_ids])
        self.players |= {candidate.id: candidate for candidate in updated}
        assert chosen is not None  # all players have a score
        return chosen.id

    def selection(self, run: SelectionRun, n: int, num_matches: int) -> Selection:
        """The selection of the winner. num_matches: of a tournament in which all `n` candidates play."""
        candidates = tuple(self.players.values())
        winner = self.players[self.remaining[0]] if self.remaining else None
        undecided = [match for match in self.matches if match.score.value is None]
        return Selection(
            self.sample,
            winner,
            self._why(run, winner),
            candidates,
            run.full_cost(candidates, n) + _extrapolated_cost([match.cost for match in self.matches], num_matches),
            matches=tuple(self.matches),
            stop_reason=run.stop_reason,
            notes=tuple(
                f"{match.first} against {match.second} {match.score.status}: {match.score.reason}"
                for match in undecided
            ),
        )

    def _why(self, run: SelectionRun, winner: Candidate | None) -> str:
        players = list(self.players.values())
        if winner is None or winner.score.rejected:
            return run.choose(players)[2]
        decisions = self.decided_by.get(winner.id)
        if decisions is None:
            guarded = " that no guard rejected" if any(player.score.rejected for player in players) else ""
            return f"the only one of {len(players)} with a score{guarded}"
        return "won " + ", ".join(decisions)


def _new_brackets(
    run: SelectionRun, samples: Sequence[EditSample], n: int, comparison: PairwiseMetric | None
) -> list[_Bracket]:
    run.compare((), comparison)  # refuses a comparison without an expert before generation
    rows = run.generate_interleaved([[run.request(sample, number) for number in range(n)] for sample in samples])
    brackets = []
    for sample, candidates in zip(samples, rows, strict=True):
        contenders = [candidate.id for candidate in run.contenders(candidates)[0]]
        bracket = _Bracket(sample, {candidate.id: candidate for candidate in candidates}, contenders)
        if any(bracket.players[candidate_id].score.rejected for candidate_id in contenders):  # then all of them were
            bracket.remaining = [bracket.by_reward(run, contenders)]
        brackets.append(bracket)
    return brackets


# -- matches ----------------------------------------------------------------------------------------------------------


def _pair_round(remaining: Sequence[str]) -> tuple[list[str], list[CandidatePair]]:
    """The candidates with a bye, so that a power of two remains, and the pairs of the round."""
    num_byes = len(remaining) if len(remaining) < 2 else (1 << (len(remaining) - 1).bit_length()) - len(remaining)
    playing = remaining[num_byes:]
    return list(remaining[:num_byes]), list(zip(playing[::2], playing[1::2], strict=True))


def _round_robin_pairs(remaining: Sequence[str]) -> list[CandidatePair]:
    """All pairs, in rounds in which each plays once, so that all have about as many matches if the budget runs out."""
    ring: list[str | None] = [*remaining, *([None] if len(remaining) % 2 else [])]
    order = {name: position for position, name in enumerate(remaining)}
    pairs = []
    for _ in range(len(ring) - 1):
        for first, second in zip(ring[: len(ring) // 2], reversed(ring), strict=False):
            if first is not None and second is not None:
                pairs.append((first, second) if order[first] < order[second] else (second, first))
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return pairs


def _play_matches(
    run: SelectionRun,
    brackets: Sequence[_Bracket],
    pairs: Sequence[Sequence[CandidatePair]],
    comparison: PairwiseMetric | None,
) -> list[list[TournamentMatch | None]]:
    """One per pair, samples round-robin; None without budget. A failed one is repeated once; all are recorded."""
    results: list[list[TournamentMatch | None]] = [[None] * len(row) for row in pairs]

    def play(positions: Sequence[tuple[int, int]]) -> None:
        opponents = [tuple(brackets[row].players[name] for name in pairs[row][position]) for position, row in positions]
        for (position, row), match in zip(
            positions, run.compare([(a, b) for a, b in opponents], comparison), strict=False
        ):
            results[row][position] = match
            brackets[row].matches.append(match)

    play(sorted((position, row) for row, row_pairs in enumerate(pairs) for position in range(len(row_pairs))))
    played = [(position, row, match) for row, matches in enumerate(results) for position, match in enumerate(matches)]
    play(sorted((position, row) for position, row, match in played if match and match.score.status == "failed"))
    return results


def _mean_shares(candidate_ids: Sequence[str], matches: Sequence[TournamentMatch]) -> dict[str, float]:
    """id -> mean share over the decided matches between these candidates; candidates without one are left out."""
    shares: dict[str, list[float]] = {}
    for match in matches:
        if match.score.value is not None and match.first in candidate_ids and match.second in candidate_ids:
            shares.setdefault(match.first, []).append(match.score.value)
            shares.setdefault(match.second, []).append(1.0 - match.score.value)
    return {name: round(math.fsum(shares[name]) / len(shares[name]), 9) for name in candidate_ids if name in shares}


def _extrapolated_cost(costs: Sequence[Cost], count: int) -> Cost:
    total, factor = sum_costs(costs), count / max(len(costs), 1)
    return Cost(0, round(total.judge_calls * factor), total.seconds * factor)


def _check(name: str, n: int, comparison: object) -> None:
    if n < 1:
        raise ValueError(f"{name} needs at least one candidate, got {n}")
    if not (comparison is None or (callable(comparison) and hasattr(comparison, "card"))):
        raise ValueError(f"{name} needs a comparison such as PairwiseJudge(), or None, got {comparison!r}")
