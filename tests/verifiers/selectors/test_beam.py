"""Beams: several images go on, those that are the same count once, and a beam of one is sequential editing."""

from collections.abc import Sequence
from typing import Any

import pytest

from editcritic.reward import Image
from editcritic.verifiers import Budget, Journal, select
from editcritic.verifiers.selection.selection_run import STEP_SEED_STRIDE
from editcritic.verifiers.selectors.beam import BeamSearch
from editcritic.verifiers.selectors.sequential import SequentialEditing

from ..numpy_editor import Painter, gated, graded, read
from .test_sequential import as_json, at, compounds, shown, worth


class Twins(Painter):
    """Makes the same image of each two seeds."""

    def edit(self, images: Any, instructions: Any, seeds: Sequence[int], **history: Any) -> list[Image]:
        return super().edit(images, instructions, [seed - seed % 2 for seed in seeds], **history)


@pytest.mark.parametrize("n", [1, 3, 4])
def test_a_beam_of_one_is_sequential_editing(n):
    journal = Journal()  # so that both took the same time
    steps = select(SequentialEditing(n), compounds(2), editor=Painter(), reward=graded(), journal=journal)
    beam = select(BeamSearch(1, n), compounds(2), editor=Painter(), reward=graded(), journal=journal)
    assert as_json(beam) == as_json(steps)


def test_the_best_pictures_go_on_in_turn():
    (one,) = select(BeamSearch(2, 5), compounds(), editor=Painter(), reward=graded())
    for step in (1, 2, 3):
        assert len(at(one, step)) == 5
    for step in (2, 3):
        before = sorted(at(one, step - 1), key=worth, reverse=True)
        parents = [candidate.parent for candidate in at(one, step)]
        assert parents == [before[number % 2].id for number in range(5)]


def test_the_steps_of_a_selection_are_the_path_to_the_winner():
    second = 0
    for seed in range(12):
        (one,) = select(BeamSearch(2, 4), compounds(), editor=Painter(), reward=graded(), seed=seed)
        assert one.steps[-1] == one.winner
        assert [chosen.parent for chosen in one.steps] == ["", one.steps[0].id, one.steps[1].id]
        assert one.value == max(map(worth, at(one, 3)))
        second += one.steps[0].id != max(at(one, 1), key=worth).id
    assert second  # now and then the winner is not made of the first step's best image


def test_the_same_picture_goes_on_once():
    (one,) = select(BeamSearch(2, 4), compounds(), editor=Twins(), reward=graded())
    parents = {candidate.parent for candidate in at(one, 2)}
    pictures = {shown(candidate).digest for candidate in one.candidates if candidate.id in parents}
    assert parents == {"1.0", "1.2"}
    assert len(pictures) == 2


def test_a_beam_narrows_where_there_are_fewer_pictures():
    (one,) = select(BeamSearch(2, 2), compounds(), editor=Twins(), reward=graded())
    assert [candidate.parent for candidate in one.candidates] == ["", "", "1.0", "1.0", "2.0", "2.0"]


def test_a_beam_of_any_width_costs_the_same():
    spent = [
        select(BeamSearch(width, 4), compounds(2), editor=Painter(), reward=graded()).spent.nfe for width in (1, 2, 4)
    ]
    assert spent == [2 * 3 * 4 * 8] * 3


def test_a_beam_keeps_within_its_budget():
    limit = 2 * 7 * 8
    budget = Budget(nfe=limit)
    results = select(BeamSearch(2, 4), compounds(2), editor=Painter(), reward=graded(), budget=budget)
    assert results.spent.nfe <= limit
    assert all(one.winner is not None for one in results)
    assert all("candidates at step" in one.stop_reason or "NFE are spent" in one.stop_reason for one in results)


def test_failures_on_the_way_do_not_go_on():
    bad = {0, 2, STEP_SEED_STRIDE, STEP_SEED_STRIDE + 1, STEP_SEED_STRIDE + 2, STEP_SEED_STRIDE + 3}
    (one,) = select(BeamSearch(2, 4), compounds(), editor=Painter(bad_seeds=bad), reward=graded())
    assert one.winner is None
    assert [chosen.step for chosen in one.steps] == [1]
    assert {candidate.parent for candidate in at(one, 2)} == {"1.1", "1.3"}


def test_ties_are_asked_about_once():
    journal = Journal()
    (one,) = select(
        BeamSearch(3, 6),
        compounds(),
        editor=Painter(levels=2),
        reward=graded(),
        tiebreak_reward=graded(None, "second"),
        journal=journal,
    )
    tied = [candidate for candidate in one.candidates if candidate.tiebreak_score is not None]
    assert one.spent.judge_calls == len(one.candidates) + len(tied)
    assert one.winner is not None


def test_a_beam_wider_than_its_candidates_is_refused():
    with pytest.raises(ValueError, match="from 1 to its 4 candidates per step, got 5"):
        BeamSearch(5, 4)
    with pytest.raises(ValueError, match="got 0"):
        BeamSearch(0)


def test_what_a_guard_rejected_does_not_go_on_beside_others():
    reward = gated(lambda picture: read(picture) < 0.5)
    for one in select(BeamSearch(4, 6), compounds(4), editor=Painter(), reward=reward):
        parents = {candidate.parent for candidate in one.candidates} - {""}
        rejected = {candidate.id for candidate in one.candidates if candidate.score.rejected}
        assert rejected
        assert parents
        assert not parents & rejected
