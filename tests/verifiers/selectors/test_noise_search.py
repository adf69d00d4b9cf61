"""Search over noise: neighbours of a pivot, and paths that branch."""

from editcritic.reward.queries import Abstention
from editcritic.verifiers import BestOfN, Budget, Journal
from editcritic.verifiers.selectors.noise_search import SearchOverPaths, ZeroOrderSearch

from ..numpy_editor import Painter, gated, graded, judge, pick, read, won, worth


def seeds(result):
    return [one.noise.seed for one in result.candidates]


def test_each_round_makes_neighbours_of_the_best_so_far():
    (result,) = pick(ZeroOrderSearch(3, 4, radius=0.4), seed=7)
    by_id = {one.id: one for one in result.candidates}
    assert list(by_id) == ["0", *(f"{turn}.{number}" for turn in range(1, 5) for number in range(3))]
    pivot = by_id["0"]
    for turn in range(1, 5):
        around = [by_id[f"{turn}.{number}"] for number in range(3)]
        assert all(one.noise.parent == pivot.noise and one.noise.radius == 0.4 for one in around)
        assert all(one.parent == pivot.id for one in around)
        pivot = max([pivot, *around], key=worth)
    assert result.winner == pivot
    assert len(set(seeds(result))) == len(seeds(result))


def test_what_a_guard_rejected_is_no_pivot():
    reward = gated(lambda picture: read(picture) >= 0.1, judge(rule=lambda query: Abstention("too dark to tell")))
    for one in pick(ZeroOrderSearch(3, 2, num_starts=4), 3, reward=reward):
        assert {candidate.parent for candidate in one.candidates} == {"", "0"}  # as where nothing has a value


def test_zero_order_is_never_worse_than_its_first_candidate_and_more_rounds_never_lower_it():
    journal = Journal()
    for column in zip(*(pick(ZeroOrderSearch(3, rounds), 12, journal=journal) for rounds in (1, 2, 3, 4)), strict=True):
        values = [worth(column[0].candidates[0]), *map(worth, column)]
        assert values == sorted(values)


def test_on_a_smooth_landscape_zero_order_finds_more_than_best_of_n_for_as_much():
    searched = pick(ZeroOrderSearch(2, 4, num_starts=8), 30)
    whole = pick(BestOfN(16), 30)
    assert searched.spent.nfe == whole.spent.nfe == 30 * 16 * 8
    assert sum(map(worth, searched)) > sum(map(worth, whole))


def test_the_best_of_several_starts_is_the_first_pivot():
    (result,) = pick(ZeroOrderSearch(2, 1, num_starts=5), seed=2)
    starts = result.candidates[:5]
    assert [one.id for one in starts] == ["0", "1", "2", "3", "4"]
    best = max(starts, key=worth)
    assert best.id != "0"
    assert [one.parent for one in result.candidates[5:]] == [best.id] * 2


def test_a_pivot_that_fails_stays_the_pivot_until_a_neighbour_has_a_value():
    (result,) = pick(ZeroOrderSearch(2, 2), editor=Painter(bad_seeds={0}))
    assert result.candidates[0].status == "failed"
    assert [one.parent for one in result.candidates[1:3]] == ["0", "0"]
    assert {one.parent for one in result.candidates[3:]} < {"1.0", "1.1"}
    assert won(result).id != "0"


def test_a_budget_ends_zero_order_and_is_shared_by_all():
    result = pick(ZeroOrderSearch(4, 3), 2, budget=Budget(nfe=100))
    assert result.spent.nfe == 96
    assert [len(one.candidates) for one in result] == [6, 6]
    assert all(one.stop_reason and one.winner is not None for one in result)


def test_evaluations_and_scores_of_paths_are_as_planned():
    painter, expert = Painter(), judge()
    paths = SearchOverPaths(4, 2, (2, 4), 1)
    result = pick(paths, 3, editor=painter, reward=graded(expert))
    assert paths.nfe_cost(8) == 4 * 2 + 8 * (4 - 1) + 8 * (8 - 3)
    assert painter.evaluated == result.spent.nfe == 3 * 72
    assert result.spent.judge_calls == 3 * (4 + 8 + 8)


def test_the_best_previews_branch_and_the_best_picture_wins():
    (result,) = pick(SearchOverPaths(3, 2, (2, 4), 1), seed=3)
    by_id = {one.id: one for one in result.candidates}
    first, second, last = ([one for one in by_id.values() if one.id.count(".") == dots] for dots in range(3))
    assert [len(first), len(second), len(last)] == [3, 6, 6]
    for one in (*second, *last):
        parent = by_id[one.parent]
        assert (one.noise.parent, one.noise.preview_step) == (parent.noise, parent.previews[-1].step)
        assert one.noise.restart_step == one.noise.preview_step - 1
    kept = sorted(second, key=lambda one: -(one.previews[-1].score.value or 0))[:3]
    assert {one.parent for one in last} == {one.id for one in kept}
    assert {one.status for one in (*first, *second)} == {"stopped"}
    assert result.winner == max(last, key=worth)
    assert len(set(seeds(result))) == len(seeds(result)) == 15


def test_a_small_budget_begins_fewer_paths_or_one_plain_candidate():
    result = pick(SearchOverPaths(), 2, budget=Budget(nfe=80))
    assert result.spent.nfe == 2 * 2 * 18
    assert all("2 of 4" in one.notes[0] and one.winner is not None for one in result)
    result = pick(SearchOverPaths(), 2, budget=Budget(nfe=20))
    assert [[one.id for one in selection.candidates] for selection in result] == [["0"], ["0"]]
    assert result.spent.nfe == 16
    assert all(one.winner is not None for one in result)


def test_a_branch_that_fails_never_wins():
    (whole,) = pick(SearchOverPaths())
    (result,) = pick(SearchOverPaths(), editor=Painter(bad_seeds={won(whole).noise.seed}))
    assert [one.noise.seed for one in result.candidates if one.status == "failed"] == [won(whole).noise.seed]
    assert worth(result) <= worth(whole)
