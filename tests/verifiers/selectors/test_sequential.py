"""Step by step: the best goes on, judged as a part of the whole; chains of turns; what ends on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from editcritic.reward import (
    Box,
    Card,
    EditPlan,
    EditSample,
    Image,
    Operation,
    PlannedOperation,
    Pools,
    Program,
    Reward,
    Score,
    Task,
    ask,
)
from editcritic.reward.metrics.edival.task_parser import update_pools
from editcritic.reward.queries import Measurement, Rate
from editcritic.verifiers import BestOfN, Budget, Candidate, Journal, Selection
from editcritic.verifiers.selection import Selections, Selector
from editcritic.verifiers.selection.selection_run import STEP_SEED_STRIDE
from editcritic.verifiers.selectors.sequential import BeamSearch, MultiTurnEditing, SequentialEditing, join_instructions
from tests.reward.fakes import Says
from tests.verifiers.numpy_editor import Painter, gated, graded, judge, pick, read, scenes, shown, worth

RECOLOUR = Task("color_alter", object="cup", value="blue")
REMOVE = Task("subject_remove", object="fork")
ADD = Task("subject_add", new="plum")
OPERATIONS = (
    Operation("Change the color of cup to blue.", task=RECOLOUR),
    Operation("Remove the fork.", task=REMOVE),
    Operation("Add a plum.", task=ADD),
)
BOXES = {"cup": (Box(0.2, 0.2, 0.1, 0.1),), "fork": (Box(0.7, 0.7, 0.1, 0.1),)}
WHOLE = "Blue cup, no fork, and a plum"


def compounds(count: int = 1, operations: tuple[Operation, ...] = OPERATIONS, **fields: Any) -> list[EditSample]:
    return [replace(one, instruction=WHOLE, operations=operations, **fields) for one in scenes(count)]


class Watching:
    """As good as the image's worth; `seen` has what was judged."""

    card = Card("watching", 1, "good", roles=("judge",))

    def __init__(self, selector: Selector, samples: Sequence[EditSample]) -> None:
        self.seen: list[EditSample] = []
        self.selections = pick(selector, samples, reward=Reward(self, {"judge": judge()}))

    def __call__(self, sample: EditSample) -> Program[Score]:
        self.seen.append(sample)
        answer: Measurement = yield from ask(Rate(sample.edited, "following"), role="judge")
        return Score.of(answer.value or 0.0)

    def at(self, step: int) -> list[EditSample]:
        return [one for one in self.seen if one.id.split("/")[1].startswith(f"{step}.")]


def at(selection: Selection, step: int) -> list[Candidate]:
    return [one for one in selection.candidates if one.step == step]


def test_the_editor_is_given_the_turns_before():
    (one,) = pick(MultiTurnEditing(2), compounds())
    turns = [chosen.sample for chosen in one.steps if chosen.sample is not None]
    for number, chosen in enumerate(one.steps):
        words, earlier = [OPERATIONS[number].instruction], [tuple(turns[:number])]
        assert Painter().edit([turns[number].sources], words, [chosen.noise.seed], history=earlier) == [chosen.picture]


def as_json(selections: Selections) -> list[dict[str, Any]]:
    return [one.to_json() for one in selections]


def test_the_best_of_each_step_goes_on():
    painter = Painter()
    for one in pick(SequentialEditing(4), compounds(3), editor=painter):
        assert len(one.candidates) == 12
        assert [chosen.step for chosen in one.steps] == [1, 2, 3]
        sources = one.sample.sources
        for step, chosen in enumerate(one.steps, start=1):
            here = at(one, step)
            assert worth(chosen) == max(map(worth, here))
            assert {candidate.parent for candidate in here} == {one.steps[step - 2].id if step > 1 else ""}
            words = OPERATIONS[step - 1].instruction
            for candidate in here:  # made of the best of the step before, by the operation's own words
                assert Painter().edit([sources], [words], [candidate.noise.seed]) == [candidate.picture]
            sources = (shown(chosen),)
        assert one.winner == one.steps[-1]
        assert one.reason.startswith("step 3 of 3: the highest of 4")
    assert {words for words, _ in painter.requests} == {operation.instruction for operation in OPERATIONS}


@pytest.mark.parametrize(
    ("published", "instructions"),
    [
        ({}, ("Change the color of cup to blue", "Change the color of cup to blue and remove the fork", WHOLE)),
        ({"metadata": {"compounds": ["one", "two"]}}, ("one", "two", WHOLE)),
    ],
)
def test_a_step_is_judged_on_the_original_picture_by_the_operations_so_far(published, instructions):
    (sample,) = compounds(boxes=BOXES, **published)
    watching = Watching(SequentialEditing(2), [sample])
    for step, instruction in enumerate(instructions, start=1):
        assert len(watching.at(step)) == 2
        for one in watching.at(step):
            assert (one.instruction, one.operations, one.sources) == (instruction, OPERATIONS[:step], sample.sources)
            assert one.task == (RECOLOUR if step == 1 else None)
            assert one.boxes.keys() == BOXES.keys()


@pytest.mark.parametrize("selector", [SequentialEditing(1), MultiTurnEditing(1)])
def test_what_is_said_of_the_finished_edit_is_not_told_to_earlier_steps(selector):
    whole: dict[str, Any] = {"reference": scenes(9)[8].source, "target_text": "SALE", "hint": "there is a plum"}
    whole |= {
        "task": ADD, "pools": Pools(("cup",), ("cup",), ("cup",)), "dimensions": ("blending",), "group": "g",
        "plan": EditPlan((PlannedOperation("other", WHOLE),)), "targets": (Box(0.5, 0.5, 0.2, 0.2),),
    } if isinstance(selector, SequentialEditing) else {}  # fmt: skip
    mask = scenes(9)[7].source
    watching = Watching(selector, compounds(mask=mask, **whole))
    for step in (1, 2):
        (one,) = watching.at(step)
        assert (one.reference, one.target_text, one.hint, one.targets, one.dimensions) == (None, "", "", (), None)
        assert (one.plan, one.mask) == (None, mask)
        assert one.group != "g"
    (last,) = watching.at(3)
    assert {name: getattr(last, name) for name in whole} == whole


@pytest.mark.parametrize("selector", [SequentialEditing(1), MultiTurnEditing(1)])
def test_pools_of_a_step_follow_from_its_boxes_or_are_those_of_the_finished_edit(selector):
    pools = Pools(("cup",), ("cup",), ("cup",))
    boxed, bare = (Watching(selector, compounds(boxes=boxes, pools=pools)).seen for boxes in (BOXES, {}))
    assert [one.pools for one in bare] == [pools] * 3
    assert boxed[-1].pools == pools
    assert [one.pools and one.pools.unchanged for one in boxed] == [("fork",), (), ("cup",)]


def refused(message: str, selector: Selector, samples: Sequence[EditSample], **options: Any) -> None:
    painter = Painter()
    with pytest.raises(ValueError, match=message):
        pick(selector, samples, editor=painter, **options)
    assert painter.calls == []


def test_what_cannot_go_well_is_refused_before_anything_is_made():
    needs = Reward(Says(Score.of(1.0), requires=("target_text",)), {})
    for selector in (SequentialEditing(1), MultiTurnEditing(1)):
        refused("step 1 of 3: says needs target_text", selector, compounds(target_text="SALE"), reward=needs)
    for published in (["one"], "one two three", ["one", ""], ["one", 2]):
        some = compounds(metadata={"compounds": published})
        refused("at least 2 for 3 operations", SequentialEditing(2), some)
    refused("each of 6 steps takes 48", SequentialEditing(4), compounds(2), budget=Budget(nfe=47))


@pytest.mark.parametrize(
    ("instructions", "sentence"),
    [
        (["Remove the cat."], "Remove the cat"),
        (["Remove the cat.", "Add a ball"], "Remove the cat and add a ball"),
        (["Remove it", "TV off", "Make it night. "], "Remove it, TV off, and make it night"),
        (["移除猫", "加一个球"], "移除猫 and 加一个球"),
    ],
)
def test_operations_join_into_one_sentence(instructions, sentence):
    assert join_instructions(instructions) == sentence


def test_a_sample_without_operations_takes_one_step_as_in_best_of_n():
    (steps,) = pick(SequentialEditing(5))
    (best,) = pick(BestOfN(5))
    assert (steps.picture, steps.value, steps.reason) == (best.picture, best.value, best.reason)
    assert steps.steps == (steps.winner,)


def test_the_steps_of_all_samples_are_made_together():
    painter = Painter(batch_size=6)
    samples = [*compounds(2), *(replace(one, id="short") for one in compounds(1, OPERATIONS[:1]))]
    pick(SequentialEditing(2), samples, editor=painter)
    assert painter.calls == [6, 4, 4]


def test_a_step_without_a_score_ends_that_sample_and_keeps_what_was_chosen():
    painter = Painter(bad_seeds={STEP_SEED_STRIDE, STEP_SEED_STRIDE + 1})
    short = replace(compounds(1, OPERATIONS[:1])[0], id="short")
    long, other = pick(SequentialEditing(2), [*compounds(), short], editor=painter)
    assert (long.winner, long.value, long.picture) == (None, None, None)
    assert long.reason.startswith("step 2 of 3: none of 2 candidates has a score: the editor failed")
    assert [one.step for one in long.steps] == [1]
    assert [one.status for one in long.candidates] == ["made", "made", "failed", "failed"]
    assert long.spent.nfe == 4 * 8
    assert other.winner is not None
    assert (long.stop_reason, other.stop_reason) == ("", "")


def test_a_budget_of_evaluations_is_spread_over_the_steps():
    (sample,) = compounds(1, (*OPERATIONS, Operation("Make it night.")))
    (one,) = pick(SequentialEditing(4), sample, budget=Budget(nfe=10 * 8))
    assert [len(at(one, step)) for step in (1, 2, 3, 4)] == [2, 2, 3, 3]
    assert one.spent.nfe == 80
    assert one.full_cost.nfe == 16 * 8
    assert one.winner is not None
    assert "80 NFE allow 3 of 4 candidates at step 4" in one.stop_reason


def test_a_budget_of_judge_calls_that_ends_before_the_last_step_leaves_no_winner():
    (one,) = pick(SequentialEditing(4), compounds(), budget=Budget(judge_calls=6))
    assert [len(at(one, step)) for step in (1, 2, 3)] == [4, 2, 0]
    assert one.spent.judge_calls == 6
    assert one.winner is None
    assert one.reason == "step 3 of 3: the budget allows no candidate"
    assert one.stop_reason == "6 of 6 judge calls are spent"
    assert [worth(chosen) for chosen in one.steps] == [max(map(worth, at(one, step))) for step in (1, 2)]


def test_a_turn_is_judged_against_the_last_one_with_the_turns_and_pools_before_it():
    (sample,) = compounds(boxes=BOXES)
    watching = Watching(MultiTurnEditing(2), [sample])
    (one,) = watching.selections
    pools = Pools(tuple(BOXES), tuple(BOXES), tuple(BOXES))
    for turn, (operation, task) in enumerate(zip(OPERATIONS, (RECOLOUR, REMOVE, ADD), strict=True), start=1):
        pools = update_pools(pools, task)
        before = one.steps[: turn - 1]
        for judged in watching.at(turn):
            assert (judged.instruction, judged.task, judged.pools) == (operation.instruction, task, pools)
            assert judged.source == (before[-1].picture if before else sample.source)
            assert judged.history == tuple(chosen.sample for chosen in before)
            assert (judged.turn, judged.base, judged.operations) == (turn, sample.source, ())
    assert pools == Pools(("cup", "fork", "blue cup", "plum"), ("blue cup", "plum"), ())
    assert one.winner == one.steps[-1]


def test_a_chain_goes_on_from_turns_that_were_made_before():
    turn = replace(scenes(1)[0], id="t1", task=REMOVE, boxes=BOXES, edited=scenes(4)[3].source)
    (sample,) = compounds(1, OPERATIONS[2:], boxes=BOXES, history=(turn,))
    (judged,) = Watching(MultiTurnEditing(1), [replace(sample, sources=(turn.edited,))]).seen
    assert judged.history == (turn,)
    assert judged.pools == Pools(("cup", "fork", "plum"), ("cup", "plum"), ("cup",))


class Twins(Painter):
    """Makes the same image of each two seeds."""

    def edit(self, images: Any, instructions: Any, seeds: Sequence[int], **history: Any) -> list[Image]:
        return super().edit(images, instructions, [seed - seed % 2 for seed in seeds], **history)


@pytest.mark.parametrize("n", [1, 3, 4])
def test_a_beam_of_one_is_sequential_editing(n):
    journal = Journal()  # so that both took the same time
    steps = pick(SequentialEditing(n), compounds(2), journal=journal)
    beam = pick(BeamSearch(1, n), compounds(2), journal=journal)
    assert as_json(beam) == as_json(steps)


def test_the_best_pictures_go_on_in_turn():
    (one,) = pick(BeamSearch(2, 5), compounds())
    for step in (1, 2, 3):
        assert len(at(one, step)) == 5
    for step in (2, 3):
        before = sorted(at(one, step - 1), key=worth, reverse=True)
        parents = [candidate.parent for candidate in at(one, step)]
        assert parents == [before[number % 2].id for number in range(5)]


def test_the_steps_of_a_selection_are_the_path_to_the_winner():
    second = 0
    for seed in range(12):
        (one,) = pick(BeamSearch(2, 4), compounds(), seed=seed)
        assert one.steps[-1] == one.winner
        assert [chosen.parent for chosen in one.steps] == ["", one.steps[0].id, one.steps[1].id]
        assert one.value == max(map(worth, at(one, 3)))
        second += one.steps[0].id != max(at(one, 1), key=worth).id
    assert second  # now and then the winner is not made of the first step's best image


def test_the_same_picture_goes_on_once_and_a_beam_narrows_where_there_are_fewer():
    (one,) = pick(BeamSearch(2, 4), compounds(), editor=Twins())
    parents = {candidate.parent for candidate in at(one, 2)}
    assert parents == {"1.0", "1.2"}
    assert len({shown(candidate).digest for candidate in one.candidates if candidate.id in parents}) == 2
    (one,) = pick(BeamSearch(2, 2), compounds(), editor=Twins())
    assert [candidate.parent for candidate in one.candidates] == ["", "", "1.0", "1.0", "2.0", "2.0"]


def test_a_beam_of_any_width_costs_the_same_and_keeps_within_its_budget():
    assert [pick(BeamSearch(width, 4), compounds(2)).spent.nfe for width in (1, 2, 4)] == [2 * 3 * 4 * 8] * 3
    results = pick(BeamSearch(2, 4), compounds(2), budget=Budget(nfe=2 * 7 * 8))
    assert results.spent.nfe <= 2 * 7 * 8
    assert all(one.winner is not None for one in results)
    assert all("candidates at step" in one.stop_reason or "NFE are spent" in one.stop_reason for one in results)


def test_failures_on_the_way_do_not_go_on():
    bad = {0, 2, STEP_SEED_STRIDE, STEP_SEED_STRIDE + 1, STEP_SEED_STRIDE + 2, STEP_SEED_STRIDE + 3}
    (one,) = pick(BeamSearch(2, 4), compounds(), editor=Painter(bad_seeds=bad))
    assert one.winner is None
    assert [chosen.step for chosen in one.steps] == [1]
    assert {candidate.parent for candidate in at(one, 2)} == {"1.1", "1.3"}


def test_ties_are_asked_about_once():
    options: dict[str, Any] = {"editor": Painter(levels=2), "tiebreak_reward": graded(None, "second")}
    (one,) = pick(BeamSearch(3, 6), compounds(), **options)
    tied = [candidate for candidate in one.candidates if candidate.tiebreak_score is not None]
    assert tied
    assert one.spent.judge_calls == len(one.candidates) + len(tied)


def test_what_a_guard_rejected_does_not_go_on_beside_others():
    reward = gated(lambda picture: read(picture) < 0.5)
    for one in pick(BeamSearch(4, 6), compounds(4), reward=reward):
        parents = {candidate.parent for candidate in one.candidates} - {""}
        rejected = {candidate.id for candidate in one.candidates if candidate.score.rejected}
        assert rejected
        assert parents
        assert not parents & rejected
