"""Successive halving: what is made, what survives, what wins, and what it costs."""

from dataclasses import dataclass

import pytest

from editcritic.reward import Image, Score
from editcritic.reward.queries import Abstention, Measurement
from editcritic.verifiers import BestOfN, Budget, Journal
from editcritic.verifiers.selection import (
    CandidateRequest,
    DenoisingState,
    NoiseSpec,
    PartialCandidate,
    Preview,
    SelectionRun,
)
from editcritic.verifiers.selectors.halving import SuccessiveHalving, advance_interleaved, rank_by_preview

from ...reward.fakes import picture
from ..numpy_editor import Painter, Vector, graded, judge, pick, read, rejection, scenes, won


class Clear(Painter):
    def _expected(self, draft: DenoisingState) -> Vector:
        return draft.arrays["latents"]


class Blind(Painter):
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
    result = pick(halving, 3, editor=painter, reward=graded(expert))
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


@pytest.mark.parametrize(
    ("halving", "editor"),
    [
        (SuccessiveHalving(8, ()), Painter()),
        (SuccessiveHalving(16), Clear()),
        (SuccessiveHalving(16, (1,), (1,)), Clear()),
        (SuccessiveHalving(9, (2, 5), (0.5, 0.2)), Clear()),
    ],
)
def test_without_checkpoints_or_with_perfect_previews_the_winner_is_that_of_best_of_n(halving, editor):
    halved, whole = (pick(selector, 12, editor=editor) for selector in (halving, BestOfN(halving.n)))
    assert [(won(one).id, one.value) for one in halved] == [(won(one).id, one.value) for one in whole]


def test_with_useless_previews_the_best_survives_by_chance():
    journal = Journal()
    whole, halved = (
        pick(selector, 80, editor=Blind(), journal=journal)
        for selector in (BestOfN(8), SuccessiveHalving(8, (1,), (2,)))
    )
    kept = sum(one.value == other.value for one, other in zip(halved, whole, strict=True))
    assert 8 <= kept <= 32  # 80 * 2 / 8, and three standard deviations


def test_previews_rank_by_value_then_guards_then_seed_and_those_without_a_value_come_last():
    (scene,) = scenes(1)
    low, high = Score.of(0.0), Score.of(0.9)
    scores = [low, high, rejection(), Score.abstained("blurred"), high, Score.of(-1), Score.failed("down"), rejection()]
    wants = [CandidateRequest(f"{seed}", scene, scene, NoiseSpec(seed)) for seed in range(10)]
    staged = [
        PartialCandidate(want, 2, previews=(Preview(2, picture(), score),))
        for want, score in zip(wants, scores, strict=False)
    ]
    others = [
        PartialCandidate(wants[8], 2, error="no paint"),
        PartialCandidate(wants[9], 1, previews=staged[1].previews),
    ]
    ranked = rank_by_preview([*others, *staged[::-1]], 2)
    assert [one.request.id for one in ranked] == ["1", "4", "0", "5", "2", "7", "3", "6"]


def test_previews_that_nobody_can_read_go_on_where_there_is_room():
    blurred = judge(
        rule=lambda query: (
            Abstention("blurred") if query.image.pixels[-1, -1, 0] < 8 else Measurement(read(query.image))
        )
    )
    (result,) = pick(SuccessiveHalving(8, (1, 2), (4, 2)), editor=Marked(), reward=graded(blurred))
    assert [one.id for one in result.candidates if one.status == "made"] == ["0", "1"]
    assert won(result).id in ("0", "1")


def test_a_candidate_that_fails_never_wins_and_leaves_its_place():
    best = [won(one).noise.seed for one in pick(BestOfN(8), 4, editor=Clear())]
    painter = Clear(bad_seeds=set(best))
    result = pick(SuccessiveHalving(8, (1, 2), (4, 2)), 4, editor=painter)
    for one in result:
        failed = [candidate.noise.seed for candidate in one.candidates if candidate.status == "failed"]
        assert set(failed) == set(best)
        assert won(one).noise.seed not in best
        assert sum(candidate.status == "made" for candidate in one.candidates) == min(2, 8 - len(set(best)))
        assert one.spent.nfe == 8 + min(4, 8 - len(set(best))) + 2 * 6


def test_a_small_budget_shrinks_the_plan_for_all_alike_before_anything_is_made():
    painter = Painter()
    halving = SuccessiveHalving(16, (1, 2), (8, 4))
    result = pick(halving, 2, editor=painter, budget=Budget(nfe=60))
    assert halving.nfe_and_scores(11, 8)[0] == 28 <= 30 < halving.nfe_and_scores(12, 8)[0]
    assert [len(one.candidates) for one in result] == [11, 11]
    assert painter.evaluated == result.spent.nfe == 56
    assert all(one.winner is not None and not one.stop_reason for one in result)
    assert all("11 of 16" in one.notes[0] for one in result)


@pytest.mark.parametrize(("bad_seeds", "limit"), [((), 40), ((0, 1), 40)])
def test_a_small_budget_of_judge_calls_is_foreseen_by_the_first_that_can_be_made(bad_seeds, limit):
    result = pick(SuccessiveHalving(16), 2, editor=Painter(bad_seeds=bad_seeds), budget=Budget(judge_calls=limit))
    assert [len(one.candidates) for one in result] == [11, 11]
    assert all(one.winner is not None for one in result)
    assert bad_seeds or result.spent.judge_calls == 2 * (11 + 5 + 2)


def test_what_a_run_has_spent_before_is_no_longer_in_its_budget():
    run = SelectionRun(Painter(), graded(), budget=Budget(nfe=60))
    first, second = scenes(2)
    run.generate([run.request(first, number) for number in range(2)])
    (result,) = SuccessiveHalving(16)(run, [second])
    assert len(result.candidates) == 15  # 15 + 7 + 3 * 6 = 40, and 16 would take 48
    assert (run.spent.nfe, run.stop_reason) == (56, "")


def test_a_budget_that_ends_is_fair():
    run = SelectionRun(Painter(batch_size=3), graded(), budget=Budget(nfe=12))
    rows = [[PartialCandidate(run.request(scene, number)) for number in range(4)] for scene in scenes(3)]
    moved = advance_interleaved(run, rows, 2)
    assert [[one.step for one in row] for row in moved] == [[2, 2, 0, 0]] * 3
    assert [[one.request.id for one in row] for row in moved] == [[one.request.id for one in row] for row in rows]
