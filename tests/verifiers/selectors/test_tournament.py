"""Tournaments: who meets whom, what a match costs, what happens where it says nothing."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from editcritic.reward import Card, EditSample, Image, Program, Score, build, spec_of
from editcritic.reward.metrics.pairwise import PairwiseJudge
from editcritic.reward.queries import Abstention, Failure, Measurement, Rate, Reply
from editcritic.verifiers import BestOfN, Budget, Journal, Selection, select
from editcritic.verifiers.selection import SelectionStopped
from editcritic.verifiers.selectors.tournament import KnockoutTournament, RoundRobinTournament

from ...reward.fakes import Fake
from ..numpy_editor import Painter, gated, graded, pick, read, scenes, shown, won, worth

JUDGE = PairwiseJudge()


def referee(says: Callable[[Any], Any]) -> Fake:
    """Grades as `judge` does, and compares two images by a rule: query -> answer."""
    return Fake(lambda query: Measurement(read(query.image, query.prompt)) if isinstance(query, Rate) else says(query))


def share(query: Any) -> float:
    """How far the image that is shown first is better in `second`, the quality that this judge looks at."""
    first, second = (read(picture, "second") for picture in query.images[-2:])
    return 0.5 + (first - second) / 2


def honest(query: Any) -> Reply:
    return Reply("first" if share(query) > 0.5 else "second")


def leaning(much: float) -> Callable[[Any], Reply]:
    """Finds what it is shown first better by so much, whatever it is."""

    def says(query: Any) -> Reply:
        first = (share(query) + 1) / 3 + much
        return Reply("first", {"first": first, "second": 1 - first, "same": 0.0})

    return says


@dataclass(frozen=True)
class Scripted:
    """Matches by the numbers of the two candidates, the lower one first; 0.5 for those not listed, None fails."""

    shares: Mapping[str, float | None]

    @property
    def card(self) -> Card:
        return Card("scripted", 1, "as it was told")

    def __call__(self, first: EditSample, second: EditSample) -> Program[Score]:
        yield from ()
        pair = f"{first.id.rpartition('/')[2]}-{second.id.rpartition('/')[2]}"
        share = self.shares.get(pair, 0.5)
        return Score.failed("lost") if share is None else Score.of(share)


def played(result: Iterable[Selection]) -> list[tuple[str, str]]:
    return [(match.first, match.second) for one in result for match in one.matches]


@pytest.mark.parametrize("selector", [KnockoutTournament, RoundRobinTournament])
@pytest.mark.parametrize("levels", [65536, 3])
@pytest.mark.parametrize("ties", [None, graded(None, "second")])
def test_matches_between_scores_choose_as_best_of_n_does(selector, levels, ties):
    for n in (1, 2, 3, 5, 6, 8):
        options: dict[str, Any] = {"editor": Painter(levels=levels), "seed": 7 * n, "tiebreak_reward": ties}
        result, best = (pick(one, 3, **options) for one in (selector(n), BestOfN(n)))
        assert [(won(one).id, one.value) for one in result] == [(won(one).id, one.value) for one in best]


@pytest.mark.parametrize("selector", [KnockoutTournament(8, JUDGE), RoundRobinTournament(8, JUDGE)])
def test_the_one_that_the_judge_finds_better_than_all_others_wins(selector):
    for one in pick(selector, 3, reward=graded(referee(honest))):
        assert one.winner is not None
        assert won(one).id == max(one.candidates, key=lambda result: read(shown(result), "second")).id


@pytest.mark.parametrize("selector", [KnockoutTournament(7, JUDGE), RoundRobinTournament(5, JUDGE)])
def test_a_judge_that_leans_to_what_it_is_shown_first_changes_nothing(selector):
    fair, biased = (pick(selector, 3, reward=graded(referee(leaning(much)))) for much in (0.0, 0.3))
    assert [won(one).id for one in biased] == [won(one).id for one in fair]
    for before, after in zip(fair, biased, strict=True):
        for match, leant in zip(before.matches, after.matches, strict=True):
            assert leant.score.value == pytest.approx(match.score.value)
            assert leant.score.evidence[-1].numbers["apart"] == pytest.approx(0.6)


@pytest.mark.parametrize("selector", [KnockoutTournament, RoundRobinTournament])
@pytest.mark.parametrize("fails", [True, False])
def test_where_matches_decide_nothing_the_reward_does_and_the_selection_says_so(selector, fails):
    says = Stumbles(math.inf) if fails else lambda _: Reply("first")
    reward = graded(referee(says), on_failures="none")
    for one, other in zip(pick(selector(4, JUDGE), 2, reward=reward), pick(BestOfN(4), 2, reward=reward), strict=True):
        assert won(one).id == won(other).id
        assert "by the reward" in one.reason or "the reward decides" in one.reason
        assert ("no answer" in one.reason or "no match has an answer" in one.reason) == fails
        assert all("failed: lost (fake)" in note for note in one.notes)
        assert all((match.score.value is None) == fails for match in one.matches)


def test_pairs_are_made_by_seed_and_the_lowest_seeds_miss_the_first_round():
    result = pick(KnockoutTournament(6, JUDGE), reward=graded(referee(honest)))
    first, second = played(result)[:2], played(result)[2:4]
    assert first == [("2", "3"), ("4", "5")]
    assert second[0] == ("0", "1")
    assert {*second[1]} <= {"2", "3", "4", "5"}
    assert result[0].reason == f"won over {result[0].reason.removeprefix('won over ')}"
    assert result[0].reason.count("over ") == sum(won(result[0]).id in pair for pair in played(result))


@pytest.mark.parametrize("n", range(1, 10))
def test_every_match_is_two_questions(n):
    for selector, matches in (
        (KnockoutTournament(n, JUDGE), n - 1),
        (RoundRobinTournament(n, JUDGE), n * (n - 1) // 2),
    ):
        expert = referee(honest)
        (one,) = pick(selector, reward=graded(expert))
        assert len(one.matches) == matches
        assert all(match.cost.judge_calls == 2 for match in one.matches)
        assert one.spent.judge_calls == n + 2 * matches == sum(expert.calls)
        assert (one.full_cost.judge_calls, one.full_cost.nfe) == (one.spent.judge_calls, 8 * n)


def test_a_knock_out_asks_a_round_of_all_samples_together():
    expert = referee(honest)
    pick(KnockoutTournament(8, JUDGE), 4, editor=Painter(batch_size=32), reward=graded(expert))
    assert sum(expert.calls) == 32 + 2 * 28
    assert len(expert.calls) <= 1 + 4  # rounds of 16, 8 and 4 matches, of which the first may be asked in two batches


def test_equal_sums_are_decided_by_the_matches_between_them():
    # 0 and 1 have the highest sum, 1 has beaten 0.
    table = Scripted({"0-1": 0.4, "0-2": 0.9, "0-3": 0.8, "1-2": 0.8, "1-3": 0.7, "2-3": 0.5})
    (one,) = pick(RoundRobinTournament(4, table))
    assert won(one).id == "1"
    assert "0, 1 have the highest, 1 in the matches between them" in one.reason


def test_a_circle_is_decided_by_the_reward_then_the_second_one_then_the_seed():
    circle = RoundRobinTournament(3, Scripted({"0-1": 1.0, "1-2": 1.0, "0-2": 0.0}))
    (one,) = pick(circle)
    assert won(one).id == max(one.candidates, key=worth).id
    (one,) = pick(circle, editor=Painter(levels=1), tiebreak_reward=graded(None, "second"))
    assert won(one).id == max(one.candidates, key=lambda result: read(shown(result), "second")).id
    (one,) = pick(circle, editor=Painter(levels=1))
    assert won(one).id == "0"
    assert "the reward decides" in one.reason


class Stumbles:
    """Compares honestly, but fails so many times at each question."""

    def __init__(self, times: float, only: Callable[[Any], bool] = lambda _: True) -> None:
        self.times, self.only = times, only
        self.counts: Counter[str] = Counter()

    def __call__(self, query: Any) -> Any:
        self.counts[query.digest] += 1
        return Failure("lost") if self.only(query) and self.counts[query.digest] <= self.times else honest(query)


@pytest.mark.parametrize("selector", [KnockoutTournament(4, JUDGE), RoundRobinTournament(4, JUDGE)])
def test_a_match_that_fails_is_played_once_more(selector):
    (fair,) = pick(selector, reward=graded(referee(honest)))
    (one,) = pick(selector, reward=graded(referee(Stumbles(1)), on_failures="none"))
    assert won(one).id == won(fair).id
    assert len(one.matches) == 2 * len(fair.matches)
    failures = [match.score.status for match in one.matches].count("failed")
    assert failures == len(one.notes) == len(fair.matches)
    assert one.spent.judge_calls == 4 + 2 * len(one.matches)


def test_a_match_without_an_answer_counts_for_nobody():
    table = Scripted({"0-1": None, "0-2": 0.9, "1-2": 0.6})
    (one,) = pick(RoundRobinTournament(3, table), reward=graded(on_failures="none"))
    assert won(one).id == "0"
    assert one.reason == "won by a mean share of 0.9 among 3; the next, 1, has 0.6"
    assert [(match.first, match.second) for match in one.matches].count(("0", "1")) == 2
    assert one.notes == ("0 against 1 failed: lost",) * 2


def test_a_judge_that_is_down_stops_the_run_and_nothing_is_lost():
    journal = Journal()
    down = graded(referee(Stumbles(math.inf)))
    with pytest.raises(SelectionStopped, match="of the last scores failed"):
        pick(RoundRobinTournament(8, JUDGE), reward=down, journal=journal)
    painter, expert = Painter(), referee(honest)
    (one,) = pick(RoundRobinTournament(8, JUDGE), editor=painter, reward=graded(expert), journal=journal)
    assert (painter.calls, sum(expert.calls)) == ([], 56)
    assert one.winner is not None


def test_a_judge_that_abstains_is_not_asked_again():
    expert = referee(lambda _: Abstention("who knows"))
    (one,) = pick(KnockoutTournament(4, JUDGE), reward=graded(expert))
    assert len(one.matches) == 3
    assert won(one).id == max(one.candidates, key=worth).id
    assert one.notes[0].endswith("abstained: who knows")


@pytest.mark.parametrize("selector", [KnockoutTournament(6, JUDGE), RoundRobinTournament(6, JUDGE)])
def test_those_without_a_picture_or_a_score_do_not_play(selector):
    clean = pick(selector, reward=graded(referee(honest)))
    unsure = clean[0].candidates[4].picture
    expert = referee(honest)
    grade = expert.rule
    expert.rule = lambda query: Failure("lost") if isinstance(query, Rate) and query.image == unsure else grade(query)
    reward = graded(expert, on_failures="none")
    result = pick(selector, editor=Painter(bad_seeds={0, 3}), reward=reward)
    assert {name for pair in played(result) for name in pair} == {"1", "2", "5"}
    assert won(result[0]).id in {"1", "2", "5"}


def dull(picture: Image) -> bool:
    return read(picture, "second") > 0.4


def bribed(query: Any) -> Reply:
    """Prefers what the guard rejects, as a judge does that reads orders painted into an image."""
    first, second = (dull(picture) for picture in query.images[-2:])
    return Reply("first" if first > second else "second" if second > first else "same")


@pytest.mark.parametrize("selector", [KnockoutTournament, RoundRobinTournament])
def test_what_a_guard_rejected_does_not_play_however_much_the_judge_likes_it(selector):
    for one in pick(selector(6, JUDGE), 3, reward=gated(dull, referee(bribed))):
        rejected = {candidate.id for candidate in one.candidates if candidate.score.rejected}
        assert 0 < len(rejected) < 6
        assert not rejected & {won(one).id, *(name for pair in played([one]) for name in pair)}
    every: dict[str, Any] = {
        "reward": gated(lambda picture: True, referee(bribed)), "tiebreak_reward": graded(None, "consistency")
    }  # fmt: skip
    (one,), (best,) = pick(selector(4, JUDGE), **every), pick(BestOfN(4), **every)
    assert one.matches == ()
    assert (won(one).id, one.reason) == (won(best).id, best.reason)


@pytest.mark.parametrize("comparison", [None, JUDGE])
@pytest.mark.parametrize("selector", [KnockoutTournament, RoundRobinTournament])
def test_what_was_rejected_does_not_win_beside_what_could_not_be_judged(selector, comparison):
    reward = gated(dull, Fake(lambda _: Abstention("too dark to tell")))
    options: dict[str, Any] = {"editor": Painter(), "reward": reward}
    (one,) = select(selector(6, comparison), scenes(1), **options)
    (best,) = select(BestOfN(6), scenes(1), **options)
    assert best.winner is None
    assert (one.winner, one.matches, one.reason) == (None, (), best.reason)
    assert "the others could not be judged: too dark to tell" in one.reason


def test_one_that_is_left_wins_without_a_match_and_none_is_said_to_be_none():
    reward = graded(referee(honest))
    (one,) = pick(KnockoutTournament(3, JUDGE), editor=Painter(bad_seeds={0, 2}), reward=reward)
    assert (won(one).id, one.reason, one.matches) == ("1", "the only one of 3 with a score", ())
    (one,) = pick(KnockoutTournament(2, JUDGE), editor=Painter(bad_seeds={0, 1}), reward=reward)
    assert one.winner is None
    assert one.reason.startswith("none of 2 candidates has a score: the editor failed")


@pytest.mark.parametrize("selector", [KnockoutTournament(8, JUDGE), RoundRobinTournament(8, JUDGE)])
def test_a_budget_of_judge_calls_that_ends_leaves_the_rest_to_the_reward(selector):
    (one,) = pick(selector, reward=graded(referee(honest)), budget=Budget(judge_calls=8 + 2 * 3 + 1))
    assert (len(one.matches), one.spent.judge_calls) == (3, 14)
    assert one.stop_reason == "14 of 15 judge calls are spent"
    assert one.winner is not None


@pytest.mark.parametrize("selector", [KnockoutTournament(2, JUDGE), RoundRobinTournament(2, JUDGE)])
def test_a_comparison_that_nobody_can_answer_is_refused_before_anything_is_made(selector):
    painter = Painter()
    with pytest.raises(ValueError, match=r"pairwise-judge needs experts for judge\.pairwise"):
        pick(selector, editor=painter, reward=graded(role="preference"))
    assert painter.calls == []


@pytest.mark.parametrize("selector", [KnockoutTournament, RoundRobinTournament])
def test_a_tournament_is_built_from_a_table(selector):
    table = {"use": f"{selector.__module__}:{selector.__name__}", "comparison": spec_of(JUDGE)}
    assert build(table) == selector(comparison=JUDGE)
