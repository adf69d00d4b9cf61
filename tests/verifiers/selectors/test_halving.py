"""Successive halving: what is made, what survives, what wins, and what it costs."""

from dataclasses import dataclass

import pytest

from editcritic.reward import Abstention, Failure, Image, Measured, Score
from editcritic.verifiers import (
    BestOf,
    Budget,
    Candidate,
    Draft,
    Journal,
    Look,
    Noise,
    Run,
    RunStopped,
    Selection,
    Staged,
    Want,
    select,
)
from editcritic.verifiers.halving import Halving, in_turn, ranked
from editcritic.verifiers.noise_search import Paths, ZeroOrder
from editcritic.verifiers.particles import Particles

from ..reward.fakes import picture
from .editors import Painter, Plain, Vector, graded, judge, read, scenes

SEARCHES = [Halving(8, (1, 3)), ZeroOrder(2, 3, starts=2), Paths(3, 2, (2, 4)), Particles(8)]


def winner(found: Selection) -> Candidate:
    assert found.winner is not None
    return found.winner


def worth(one: Candidate | Selection) -> float:
    assert one.value is not None
    return one.value


class Clear(Painter):
    """Every preview is worth what its picture is."""

    def _expected(self, draft: Draft) -> Vector:
        return draft.arrays["latents"]


class Blind(Painter):
    """No preview says anything of its picture."""

    def _expected(self, draft: Draft) -> Vector:
        other = Noise(draft.noise.seed + 77_777)
        blind = super().begin([draft.images], [draft.instruction], [other])[0]
        return (draft if draft.step == self.evaluations else blind).arrays["latents"]


@dataclass
class Marked(Painter):
    """Its pictures tell in a corner how many steps they are from."""

    def _painted(self, draft: Draft) -> Image:
        pixels = super()._painted(draft).pixels.copy()
        pixels[-1, -1] = draft.step
        return Image.of(pixels)


def test_evaluations_and_scores_are_as_planned():
    painter, expert = Painter(), judge()
    halving = Halving(16, (1, 2), (8, 4))
    found = select(halving, scenes(3), editor=painter, reward=graded(expert))
    assert halving.cost(8) == 16 + 8 + 4 * 6
    assert painter.evaluated == found.spent.evaluations == 3 * 48
    assert found.spent.judge_calls == expert.seen.total() == 3 * (16 + 8 + 4)
    for one in found:
        fates = [candidate.fate for candidate in one.candidates]
        assert (fates.count("made"), fates.count("stopped")) == (4, 12)
        assert sorted(len(candidate.looks) for candidate in one.candidates) == [1] * 8 + [2] * 4 + [3] * 4
        assert (one.unpruned.evaluations, one.unpruned.judge_calls) == (128, 16)  # each scored once


@pytest.mark.parametrize(
    ("halving", "counts"),
    [
        (Halving(16), (8, 4)),
        (Halving(16, (1, 2, 5), (0.75, 0.3, 0.01)), (12, 4, 1)),
        (Halving(10, (1,), (0.7,)), (7,)),
        (Halving(16, (1, 2), (8, 4)), (8, 4)),
        (Halving(1, (1, 2)), (1, 1)),
        (Halving(4, ()), ()),
    ],
)
def test_shares_and_counts_say_how_many_survive(halving, counts):
    assert halving.counts(halving.n) == counts


def test_without_checkpoints_it_is_best_of_n():
    halved = select(Halving(8, ()), scenes(2), editor=Painter(), reward=graded())
    whole = select(BestOf(8), scenes(2), editor=Painter(), reward=graded())
    assert [winner(one).id for one in halved] == [winner(one).id for one in whole]
    assert halved.spent.evaluations == whole.spent.evaluations


@pytest.mark.parametrize("halving", [Halving(16), Halving(16, (1,), (1,)), Halving(9, (2, 5), (0.5, 0.2))])
def test_with_perfect_previews_the_winner_is_that_of_best_of_n(halving):
    halved = select(halving, scenes(12), editor=Clear(), reward=graded())
    whole = select(BestOf(halving.n), scenes(12), editor=Clear(), reward=graded())
    assert [winner(one).id for one in halved] == [winner(one).id for one in whole]
    assert [one.value for one in halved] == [one.value for one in whole]


def test_with_useless_previews_the_best_survives_by_chance():
    asked = scenes(80)
    journal = Journal()
    whole = select(BestOf(8), asked, editor=Blind(), reward=graded(), journal=journal)
    halved = select(Halving(8, (1,), (2,)), asked, editor=Blind(), reward=graded(), journal=journal)
    kept = sum(one.value == other.value for one, other in zip(halved, whole, strict=True))
    assert 8 <= kept <= 32  # 80 * 2 / 8, and three standard deviations


def test_previews_are_ranked_by_value_then_seed_and_those_without_a_value_come_last():
    (scene,) = scenes(1)
    scores = [
        Score.of(0.0), Score.of(0.9), Score.abstained("blurred"), Score.of(0.9), Score.of(-1), Score.failed("down")
    ]  # fmt: skip
    wants = [Want(f"{seed}", scene, scene, Noise(seed)) for seed in range(8)]
    staged = [
        Staged(want, 2, looks=(Look(2, picture(), score),)) for want, score in zip(wants[:6], scores, strict=True)
    ]
    staged += [Staged(wants[6], 2, problem="no paint"), Staged(wants[7], 1, looks=staged[1].looks)]
    assert [one.want.id for one in ranked(staged[::-1], 2)] == ["1", "3", "0", "4", "2", "5"]


def test_previews_that_nobody_can_read_go_on_where_there_is_room():
    blurred = judge(
        rule=lambda query: Abstention("blurred") if query.image.pixels[-1, -1, 0] < 8 else Measured(read(query.image))
    )
    (found,) = select(Halving(8, (1, 2), (4, 2)), scenes(1), editor=Marked(), reward=graded(blurred))
    assert [one.id for one in found.candidates if one.fate == "made"] == ["0", "1"]
    assert winner(found).id in ("0", "1")


def test_a_candidate_that_fails_never_wins_and_leaves_its_place():
    best = [winner(one).noise.seed for one in select(BestOf(8), scenes(4), editor=Clear(), reward=graded())]
    painter = Clear(bad_seeds=set(best))
    found = select(Halving(8, (1, 2), (4, 2)), scenes(4), editor=painter, reward=graded())
    for one in found:
        failed = [candidate.noise.seed for candidate in one.candidates if candidate.fate == "failed"]
        assert set(failed) == set(best)
        assert winner(one).noise.seed not in best
        assert sum(candidate.fate == "made" for candidate in one.candidates) == min(2, 8 - len(set(best)))
        assert one.spent.evaluations == 8 + min(4, 8 - len(set(best))) + 2 * 6


def test_a_small_budget_shrinks_the_plan_for_all_alike_before_anything_is_made():
    painter = Painter()
    halving = Halving(16, (1, 2), (8, 4))
    found = select(halving, scenes(2), editor=painter, reward=graded(), budget=Budget(evaluations=60))
    assert halving.work(11, 8)[0] == 28 <= 30 < halving.work(12, 8)[0]
    assert [len(one.candidates) for one in found] == [11, 11]
    assert painter.evaluated == found.spent.evaluations == 56
    assert all(one.winner is not None and not one.ended for one in found)
    assert all("11 of 16" in one.notes[0] for one in found)


def test_a_small_budget_of_judge_calls_leaves_enough_for_the_finished_ones():
    found = select(Halving(16), scenes(2), editor=Painter(), reward=graded(), budget=Budget(judge_calls=40))
    assert [len(one.candidates) for one in found] == [11, 11]
    assert found.spent.judge_calls == 2 * (11 + 5 + 2)
    assert all(one.winner is not None for one in found)


def test_what_a_run_has_spent_before_is_no_longer_in_its_budget():
    run = Run(Painter(), graded(), budget=Budget(evaluations=60))
    first, second = scenes(2)
    run.candidates([run.want(first, number) for number in range(2)])
    (found,) = Halving(16)(run, [second])
    assert len(found.candidates) == 15  # 15 + 7 + 3 * 6 = 40, and 16 would take 48
    assert (run.spent.evaluations, run.ended) == (56, "")


def test_a_budget_that_is_just_enough_changes_nothing():
    halving = Halving(16)
    budget = Budget(evaluations=2 * halving.cost(8))
    (one, other) = (
        select(halving, scenes(2), editor=Painter(), reward=graded(), budget=given) for given in (None, budget)
    )
    assert [found.to_json()["winner"] for found in one] == [found.to_json()["winner"] for found in other]
    assert not other[0].notes


def test_a_budget_that_ends_is_fair():
    run = Run(Painter(batch=3), graded(), budget=Budget(evaluations=12))
    rows = [[Staged(run.want(scene, number)) for number in range(4)] for scene in scenes(3)]
    moved = in_turn(run, rows, 2)
    assert [[one.step for one in row] for row in moved] == [[2, 2, 0, 0]] * 3
    assert [[one.want.id for one in row] for row in moved] == [[one.want.id for one in row] for row in rows]


def test_judge_calls_are_foreseen_by_the_first_that_can_be_made():
    painter = Painter(bad_seeds={0, 1})
    (found,) = select(Halving(16), scenes(1), editor=painter, reward=graded(), budget=Budget(judge_calls=20))
    assert [one.fate for one in found.candidates[:2]] == ["failed", "failed"]
    assert len(found.candidates) == 11
    assert found.winner is not None


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
def test_with_few_judge_calls_whole_pictures_are_made_without_previews(search):
    found = select(search, scenes(2), editor=Painter(), reward=graded(), budget=Budget(judge_calls=3))
    assert all(one.winner is not None for one in found)
    assert found.spent.judge_calls == 3


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
@pytest.mark.parametrize("limits", [{"evaluations": 16}, {"evaluations": 77}, {"judge_calls": 23}, {"seconds": 1e9}])
def test_what_is_spent_is_what_was_made_and_never_more_than_the_budget(search, limits):
    painter, expert = Painter(batch=3), judge()
    found = select(search, scenes(2), editor=painter, reward=graded(expert), budget=Budget(**limits))
    assert found.spent.evaluations == painter.evaluated
    assert found.spent.judge_calls == expert.seen.total()
    assert all(getattr(found.spent, name) <= limit for name, limit in limits.items())
    for one in found:
        made = [candidate for candidate in one.candidates if candidate.value is not None]
        assert worth(one) == max(map(worth, made))
        assert len({candidate.id for candidate in one.candidates}) == len(one.candidates)


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
def test_what_fails_in_the_middle_loses_nothing_that_was_made(search):
    painter, expert, journal = Painter(batch=1), judge(), Journal()
    whole = select(search, scenes(2), editor=Painter(), reward=graded())
    down = judge(rule=lambda query: Failure("down"))
    with pytest.raises(RunStopped, match="down"):
        select(search, scenes(2), editor=painter, reward=graded(down, max_failed=0.1), journal=journal)
    found = select(search, scenes(2), editor=painter, reward=graded(expert), journal=journal)
    assert [winner(one).id for one in found] == [winner(one).id for one in whole]
    assert found.known.evaluations > 0


def test_it_does_not_matter_how_many_are_made_at_once():
    found = [
        select(Halving(8), scenes(3), editor=Painter(batch=batch), reward=graded(), seed=5) for batch in (1, 4, 100)
    ]
    for other in found[1:]:
        assert [winner(one).to_json()["picture"] for one in other] == [
            winner(one).to_json()["picture"] for one in found[0]
        ]


def test_running_again_makes_and_asks_nothing():
    painter, expert, journal = Painter(), judge(), Journal()
    first = select(Halving(8), scenes(2), editor=painter, reward=graded(expert), journal=journal)
    calls, seen = len(painter.calls), expert.seen.total()
    again = select(Halving(8), scenes(2), editor=painter, reward=graded(expert), journal=journal)
    assert again.selections == first.selections
    assert (len(painter.calls), expert.seen.total()) == (calls, seen)
    assert again.known == again.spent == first.spent


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n": 0}, "one candidate or more"),
        ({"checkpoints": (2, 2)}, "increase"),
        ({"checkpoints": (0, 2)}, "from 1"),
        ({"keep": (8,)}, "each of 2 checkpoints"),
        ({"keep": (8, 0.25)}, "not both"),
        ({"keep": (4, 8)}, "decreases"),
        ({"keep": (4, 4)}, "decreases"),
        ({"keep": (17, 8)}, "from 16"),
        ({"keep": (1.5, 0.5)}, "from 1"),
        ({"keep": (4, 0)}, "above 0"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(given, said):
    with pytest.raises(ValueError, match=said):
        Halving(**given)


def test_an_editor_that_has_not_so_many_steps_is_refused_before_anything_is_made():
    painter = Painter(evaluations=4)
    with pytest.raises(ValueError, match="takes 4"):
        select(Halving(8, (2, 4)), scenes(1), editor=painter, reward=graded())
    assert painter.evaluated == 0


def test_an_editor_that_cannot_stop_is_refused():
    with pytest.raises(TypeError, match="cannot stop"):
        select(Halving(8), scenes(1), editor=Plain(Painter()), reward=graded())
