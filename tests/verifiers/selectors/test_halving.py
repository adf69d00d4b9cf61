"""Successive halving: what is made, what survives, what wins, and what it costs."""

from dataclasses import dataclass

import pytest

from editcritic.reward import Image, Score
from editcritic.reward.queries import Abstention, Failure, Measurement
from editcritic.verifiers import BestOfN, Budget, Candidate, Journal, Selection, select
from editcritic.verifiers.selection import (
    CandidateRequest,
    DenoisingState,
    NoiseSpec,
    PartialCandidate,
    Preview,
    SelectionRun,
    SelectionStopped,
)
from editcritic.verifiers.selectors.fk_steering import FKSteering
from editcritic.verifiers.selectors.halving import SuccessiveHalving, advance_interleaved, rank_by_preview
from editcritic.verifiers.selectors.noise_search import SearchOverPaths, ZeroOrderSearch

from ...reward.fakes import picture
from ..numpy_editor import Painter, Plain, Vector, graded, judge, read, rejection, same_cost, scenes

SEARCHES = [
    SuccessiveHalving(8, (1, 3)),
    ZeroOrderSearch(2, 3, num_starts=2),
    SearchOverPaths(3, 2, (2, 4)),
    FKSteering(8),
]


def winner(result: Selection) -> Candidate:
    assert result.winner is not None
    return result.winner


def worth(one: Candidate | Selection) -> float:
    assert one.value is not None
    return one.value


class Clear(Painter):
    """Every preview is worth what its image is."""

    def _expected(self, draft: DenoisingState) -> Vector:
        return draft.arrays["latents"]


class Blind(Painter):
    """No preview says anything of its image."""

    def _expected(self, draft: DenoisingState) -> Vector:
        other = NoiseSpec(draft.noise.seed + 77_777)
        blind = super().begin([draft.images], [draft.instruction], [other])[0]
        return (draft if draft.step == self.nfe else blind).arrays["latents"]


@dataclass
class Marked(Painter):
    """Its images tell in a corner how many steps they are from."""

    def _painted(self, draft: DenoisingState) -> Image:
        pixels = super()._painted(draft).pixels.copy()
        pixels[-1, -1] = draft.step
        return Image.of(pixels)


def test_evaluations_and_scores_are_as_planned():
    painter, expert = Painter(), judge()
    halving = SuccessiveHalving(16, (1, 2), (8, 4))
    result = select(halving, scenes(3), editor=painter, reward=graded(expert))
    assert halving.nfe_cost(8) == 16 + 8 + 4 * 6
    assert painter.evaluated == result.spent.nfe == 3 * 48
    assert result.spent.judge_calls == expert.seen.total() == 3 * (16 + 8 + 4)
    for one in result:
        fates = [candidate.status for candidate in one.candidates]
        assert (fates.count("made"), fates.count("stopped")) == (4, 12)
        assert sorted(len(candidate.previews) for candidate in one.candidates) == [1] * 8 + [2] * 4 + [3] * 4
        assert (one.full_cost.nfe, one.full_cost.judge_calls) == (128, 16)  # each scored once


@pytest.mark.parametrize(
    ("halving", "counts"),
    [
        (SuccessiveHalving(16), (8, 4)),
        (SuccessiveHalving(16, (1, 2, 5), (0.75, 0.3, 0.01)), (12, 4, 1)),
        (SuccessiveHalving(10, (1,), (0.7,)), (7,)),
        (SuccessiveHalving(16, (1, 2), (8, 4)), (8, 4)),
        (SuccessiveHalving(1, (1, 2)), (1, 1)),
        (SuccessiveHalving(4, ()), ()),
    ],
)
def test_shares_and_counts_say_how_many_survive(halving, counts):
    assert halving.survivors(halving.n) == counts


def test_without_checkpoints_it_is_best_of_n():
    halved = select(SuccessiveHalving(8, ()), scenes(2), editor=Painter(), reward=graded())
    whole = select(BestOfN(8), scenes(2), editor=Painter(), reward=graded())
    assert [winner(one).id for one in halved] == [winner(one).id for one in whole]
    assert halved.spent.nfe == whole.spent.nfe


@pytest.mark.parametrize(
    "halving", [SuccessiveHalving(16), SuccessiveHalving(16, (1,), (1,)), SuccessiveHalving(9, (2, 5), (0.5, 0.2))]
)
def test_with_perfect_previews_the_winner_is_that_of_best_of_n(halving):
    halved = select(halving, scenes(12), editor=Clear(), reward=graded())
    whole = select(BestOfN(halving.n), scenes(12), editor=Clear(), reward=graded())
    assert [winner(one).id for one in halved] == [winner(one).id for one in whole]
    assert [one.value for one in halved] == [one.value for one in whole]


def test_with_useless_previews_the_best_survives_by_chance():
    samples = scenes(80)
    journal = Journal()
    whole = select(BestOfN(8), samples, editor=Blind(), reward=graded(), journal=journal)
    halved = select(SuccessiveHalving(8, (1,), (2,)), samples, editor=Blind(), reward=graded(), journal=journal)
    kept = sum(one.value == other.value for one, other in zip(halved, whole, strict=True))
    assert 8 <= kept <= 32  # 80 * 2 / 8, and three standard deviations


def test_previews_are_ranked_by_value_then_seed_and_those_without_a_value_come_last():
    (scene,) = scenes(1)
    scores = [
        Score.of(0.0), Score.of(0.9), Score.abstained("blurred"), Score.of(0.9), Score.of(-1), Score.failed("down")
    ]  # fmt: skip
    wants = [CandidateRequest(f"{seed}", scene, scene, NoiseSpec(seed)) for seed in range(8)]
    staged = [
        PartialCandidate(want, 2, previews=(Preview(2, picture(), score),))
        for want, score in zip(wants[:6], scores, strict=True)
    ]
    staged += [
        PartialCandidate(wants[6], 2, error="no paint"),
        PartialCandidate(wants[7], 1, previews=staged[1].previews),
    ]
    assert [one.request.id for one in rank_by_preview(staged[::-1], 2)] == ["1", "3", "0", "4", "2", "5"]


def test_previews_that_nobody_can_read_go_on_where_there_is_room():
    blurred = judge(
        rule=lambda query: (
            Abstention("blurred") if query.image.pixels[-1, -1, 0] < 8 else Measurement(read(query.image))
        )
    )
    (result,) = select(SuccessiveHalving(8, (1, 2), (4, 2)), scenes(1), editor=Marked(), reward=graded(blurred))
    assert [one.id for one in result.candidates if one.status == "made"] == ["0", "1"]
    assert winner(result).id in ("0", "1")


def test_a_candidate_that_fails_never_wins_and_leaves_its_place():
    best = [winner(one).noise.seed for one in select(BestOfN(8), scenes(4), editor=Clear(), reward=graded())]
    painter = Clear(bad_seeds=set(best))
    result = select(SuccessiveHalving(8, (1, 2), (4, 2)), scenes(4), editor=painter, reward=graded())
    for one in result:
        failed = [candidate.noise.seed for candidate in one.candidates if candidate.status == "failed"]
        assert set(failed) == set(best)
        assert winner(one).noise.seed not in best
        assert sum(candidate.status == "made" for candidate in one.candidates) == min(2, 8 - len(set(best)))
        assert one.spent.nfe == 8 + min(4, 8 - len(set(best))) + 2 * 6


def test_a_small_budget_shrinks_the_plan_for_all_alike_before_anything_is_made():
    painter = Painter()
    halving = SuccessiveHalving(16, (1, 2), (8, 4))
    result = select(halving, scenes(2), editor=painter, reward=graded(), budget=Budget(nfe=60))
    assert halving.nfe_and_scores(11, 8)[0] == 28 <= 30 < halving.nfe_and_scores(12, 8)[0]
    assert [len(one.candidates) for one in result] == [11, 11]
    assert painter.evaluated == result.spent.nfe == 56
    assert all(one.winner is not None and not one.stop_reason for one in result)
    assert all("11 of 16" in one.notes[0] for one in result)


def test_a_small_budget_of_judge_calls_leaves_enough_for_the_finished_ones():
    result = select(SuccessiveHalving(16), scenes(2), editor=Painter(), reward=graded(), budget=Budget(judge_calls=40))
    assert [len(one.candidates) for one in result] == [11, 11]
    assert result.spent.judge_calls == 2 * (11 + 5 + 2)
    assert all(one.winner is not None for one in result)


def test_what_a_run_has_spent_before_is_no_longer_in_its_budget():
    run = SelectionRun(Painter(), graded(), budget=Budget(nfe=60))
    first, second = scenes(2)
    run.generate([run.request(first, number) for number in range(2)])
    (result,) = SuccessiveHalving(16)(run, [second])
    assert len(result.candidates) == 15  # 15 + 7 + 3 * 6 = 40, and 16 would take 48
    assert (run.spent.nfe, run.stop_reason) == (56, "")


def test_a_budget_that_is_just_enough_changes_nothing():
    halving = SuccessiveHalving(16)
    budget = Budget(nfe=2 * halving.nfe_cost(8))
    (one, other) = (
        select(halving, scenes(2), editor=Painter(), reward=graded(), budget=options) for options in (None, budget)
    )
    assert [result.to_json()["winner"] for result in one] == [result.to_json()["winner"] for result in other]
    assert not other[0].notes


def test_a_budget_that_ends_is_fair():
    run = SelectionRun(Painter(batch_size=3), graded(), budget=Budget(nfe=12))
    rows = [[PartialCandidate(run.request(scene, number)) for number in range(4)] for scene in scenes(3)]
    moved = advance_interleaved(run, rows, 2)
    assert [[one.step for one in row] for row in moved] == [[2, 2, 0, 0]] * 3
    assert [[one.request.id for one in row] for row in moved] == [[one.request.id for one in row] for row in rows]


def test_judge_calls_are_foreseen_by_the_first_that_can_be_made():
    painter = Painter(bad_seeds={0, 1})
    (result,) = select(SuccessiveHalving(16), scenes(1), editor=painter, reward=graded(), budget=Budget(judge_calls=20))
    assert [one.status for one in result.candidates[:2]] == ["failed", "failed"]
    assert len(result.candidates) == 11
    assert result.winner is not None


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
def test_with_few_judge_calls_whole_pictures_are_made_without_previews(search):
    result = select(search, scenes(2), editor=Painter(), reward=graded(), budget=Budget(judge_calls=3))
    assert all(one.winner is not None for one in result)
    assert result.spent.judge_calls == 3


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
@pytest.mark.parametrize("limits", [{"nfe": 16}, {"nfe": 77}, {"judge_calls": 23}, {"seconds": 1e9}])
def test_what_is_spent_is_what_was_made_and_never_more_than_the_budget(search, limits):
    painter, expert = Painter(batch_size=3), judge()
    result = select(search, scenes(2), editor=painter, reward=graded(expert), budget=Budget(**limits))
    assert result.spent.nfe == painter.evaluated
    assert result.spent.judge_calls == expert.seen.total()
    assert all(getattr(result.spent, name) <= limit for name, limit in limits.items())
    for one in result:
        made = [candidate for candidate in one.candidates if candidate.value is not None]
        assert worth(one) == max(map(worth, made))
        assert len({candidate.id for candidate in one.candidates}) == len(one.candidates)


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
def test_what_fails_in_the_middle_loses_nothing_that_was_made(search):
    painter, expert, journal = Painter(batch_size=1), judge(), Journal()
    whole = select(search, scenes(2), editor=Painter(), reward=graded())
    down = judge(rule=lambda query: Failure("down"))
    with pytest.raises(SelectionStopped, match="down"):
        select(search, scenes(2), editor=painter, reward=graded(down, max_failure_rate=0.1), journal=journal)
    result = select(search, scenes(2), editor=painter, reward=graded(expert), journal=journal)
    assert [winner(one).id for one in result] == [winner(one).id for one in whole]
    assert result.cached_cost.nfe > 0


def test_it_does_not_matter_how_many_are_made_at_once():
    result = [
        select(SuccessiveHalving(8), scenes(3), editor=Painter(batch_size=batch), reward=graded(), seed=5)
        for batch in (1, 4, 100)
    ]
    for other in result[1:]:
        assert [winner(one).to_json()["picture"] for one in other] == [
            winner(one).to_json()["picture"] for one in result[0]
        ]


def test_running_again_makes_and_asks_nothing():
    painter, expert, journal = Painter(), judge(), Journal()
    first = select(SuccessiveHalving(8), scenes(2), editor=painter, reward=graded(expert), journal=journal)
    calls, seen = len(painter.calls), expert.seen.total()
    again = select(SuccessiveHalving(8), scenes(2), editor=painter, reward=graded(expert), journal=journal)
    assert again.selections == first.selections
    assert (len(painter.calls), expert.seen.total()) == (calls, seen)
    assert same_cost(again.cached_cost, again.spent)
    assert same_cost(again.spent, first.spent)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "at least one candidate"),
        ({"checkpoints": (2, 2)}, "increasing"),
        ({"checkpoints": (0, 2)}, "from 1"),
        ({"keep": (8,)}, "each of 2 checkpoints"),
        ({"keep": (8, 0.25)}, "not both"),
        ({"keep": (4, 8)}, "must decrease"),
        ({"keep": (4, 4)}, "must decrease"),
        ({"keep": (17, 8)}, "from 16"),
        ({"keep": (1.5, 0.5)}, "from 1"),
        ({"keep": (4, 0)}, "above 0"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SuccessiveHalving(**options)


def test_an_editor_that_has_not_so_many_steps_is_refused_before_anything_is_made():
    painter = Painter(nfe=4)
    with pytest.raises(ValueError, match="last of 4 steps"):
        select(SuccessiveHalving(8, (2, 4)), scenes(1), editor=painter, reward=graded())
    assert painter.evaluated == 0


def test_an_editor_that_cannot_stop_is_refused():
    with pytest.raises(TypeError, match="not a StepwiseEditor"):
        select(SuccessiveHalving(8), scenes(1), editor=Plain(Painter()), reward=graded())


def test_previews_that_a_guard_rejected_rank_after_equal_ones_and_those_without_a_value_last():
    (scene,) = scenes(1)
    scores = [rejection(), Score.abstained("blurred"), Score.of(0.0), Score.of(0.5), rejection()]
    partials = [
        PartialCandidate(
            CandidateRequest(f"{seed}", scene, scene, NoiseSpec(seed)), 2, previews=(Preview(2, picture(), score),)
        )
        for seed, score in enumerate(scores)
    ]
    assert [partial.request.id for partial in rank_by_preview(partials, 2)] == ["3", "2", "0", "4", "1"]
