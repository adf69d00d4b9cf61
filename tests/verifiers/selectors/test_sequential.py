"""Step by step: the best goes on, judged as a part of the whole; chains of turns; what ends on the way."""

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
from editcritic.reward.metrics.edival.pools import update_pools
from editcritic.reward.queries import Measurement, Rate
from editcritic.verifiers import BestOfN, Budget, Candidate, Journal, Selection, select
from editcritic.verifiers.selection import Selections
from editcritic.verifiers.selection.selection_run import STEP_SEED_STRIDE
from editcritic.verifiers.selectors.sequential import MultiTurnEditing, SequentialEditing, join_instructions

from ..numpy_editor import Painter, graded, judge, read, scenes

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

    def __init__(self) -> None:
        self.seen: list[EditSample] = []

    def __call__(self, sample: EditSample) -> Program[Score]:
        self.seen.append(sample)
        answer: Measurement = yield from ask(Rate(sample.edited, "following"), role="judge")
        return Score.of(answer.value or 0.0)

    def at(self, step: int) -> list[EditSample]:
        return [one for one in self.seen if one.id.split("/")[1].startswith(f"{step}.")]


def at(selection: Selection, step: int) -> list[Candidate]:
    return [one for one in selection.candidates if one.step == step]


def worth(candidate: Candidate) -> float:
    assert candidate.value is not None
    return candidate.value


def shown(candidate: Candidate) -> Image:
    assert candidate.picture is not None
    return candidate.picture


def won(selection: Selection) -> Candidate:
    assert selection.winner is not None
    return selection.winner


def judged_as(candidate: Candidate) -> EditSample:
    assert candidate.sample is not None
    return candidate.sample


def as_json(selections: Selections) -> list[dict[str, Any]]:
    return [one.to_json() for one in selections]


# -- sequential -------------------------------------------------------------------------------------------------------


def test_the_best_of_each_step_goes_on():
    painter = Painter()
    for one in select(SequentialEditing(4), compounds(3), editor=painter, reward=graded()):
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


def test_a_step_is_judged_on_the_original_picture_by_the_operations_so_far():
    watching = Watching()
    (sample,) = compounds(boxes=BOXES)
    select(SequentialEditing(2), sample, editor=Painter(), reward=Reward(watching, {"judge": judge()}))
    instructions = {
        1: "Change the color of cup to blue",
        2: "Change the color of cup to blue and remove the fork",
        3: WHOLE,
    }
    for step, instruction in instructions.items():
        assert len(watching.at(step)) == 2
        for one in watching.at(step):
            assert (one.instruction, one.operations, one.sources) == (instruction, OPERATIONS[:step], sample.sources)
            assert one.task == (RECOLOUR if step == 1 else None)
            assert one.boxes.keys() == BOXES.keys()


def test_what_is_said_of_the_finished_edit_is_not_told_to_earlier_steps():
    mask, reference = Image.of(scenes(9)[7].source), Image.of(scenes(9)[8].source)
    whole: dict[str, Any] = {
        "reference": reference,
        "target_text": "SALE",
        "hint": "there is a plum",
        "targets": (Box(0.5, 0.5, 0.2, 0.2),),
        "task": ADD,
        "pools": Pools(("cup",), ("cup",), ("cup",)),
        "dimensions": ("blending",),
        "plan": EditPlan((PlannedOperation("other", WHOLE),)),
        "group": "g",
    }
    (sample,) = compounds(mask=mask, **whole)
    watching = Watching()
    select(SequentialEditing(1), sample, editor=Painter(), reward=Reward(watching, {"judge": judge()}))
    for step in (1, 2):
        (one,) = watching.at(step)
        assert (one.reference, one.target_text, one.hint, one.targets, one.dimensions) == (None, "", "", (), None)
        assert one.plan is None
        assert one.group != "g"
        assert one.mask == mask
    (last,) = watching.at(3)
    assert {name: getattr(last, name) for name in whole} == whole


@pytest.mark.parametrize("selector", [SequentialEditing(1), MultiTurnEditing(1)])
def test_pools_of_a_step_follow_from_its_boxes_or_are_those_of_the_finished_edit(selector):
    pools = Pools(("cup",), ("cup",), ("cup",))
    boxed, bare = Watching(), Watching()
    for watching, boxes in ((boxed, BOXES), (bare, {})):
        (sample,) = compounds(boxes=boxes, pools=pools)
        select(selector, sample, editor=Painter(), reward=Reward(watching, {"judge": judge()}))
    assert [one.pools for one in bare.seen] == [pools] * 3
    assert boxed.seen[-1].pools == pools
    assert [one.pools and one.pools.unchanged for one in boxed.seen] == [("fork",), (), ("cup",)]


@pytest.mark.parametrize("selector", [SequentialEditing(1), MultiTurnEditing(1)])
def test_a_reward_that_needs_what_is_told_at_the_end_is_refused_before_anything_is_made(selector):
    watching, painter = Watching(), Painter()
    watching.card = replace(Watching.card, requires=("target_text",))
    with pytest.raises(ValueError, match=r"step 1 of 3: watching needs target_text"):
        select(selector, compounds(target_text="SALE"), editor=painter, reward=Reward(watching, {"judge": judge()}))
    assert painter.calls == []


def test_published_compound_instructions_are_taken():
    watching = Watching()
    (sample,) = compounds(metadata={"compounds": ["one", "two"]})
    select(SequentialEditing(1), sample, editor=Painter(), reward=Reward(watching, {"judge": judge()}))
    assert [one.instruction for one in watching.seen] == ["one", "two", WHOLE]


@pytest.mark.parametrize("published", [["one"], "one two three", ["one", ""], ["one", 2]])
def test_compound_instructions_that_do_not_fit_are_refused_before_anything_is_made(published):
    painter = Painter()
    with pytest.raises(ValueError, match="at least 2 for 3 operations"):
        select(SequentialEditing(2), compounds(metadata={"compounds": published}), editor=painter, reward=graded())
    assert painter.calls == []


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


def test_one_candidate_a_step_is_plain_sequential_editing():
    (one,) = select(SequentialEditing(1), compounds(), editor=Painter(), reward=graded(), seed=5)
    sources = one.sample.sources
    for step, operation in enumerate(OPERATIONS):
        sources = tuple(Painter().edit([sources], [operation.instruction], [5 + STEP_SEED_STRIDE * step]))
    assert one.picture == sources[0]
    assert one.value == pytest.approx(read(sources[0]))


def test_a_sample_without_operations_takes_one_step_as_in_best_of_n():
    (steps,) = select(SequentialEditing(5), scenes(1), editor=Painter(), reward=graded())
    (best,) = select(BestOfN(5), scenes(1), editor=Painter(), reward=graded())
    assert (steps.picture, steps.value, steps.reason) == (best.picture, best.value, best.reason)
    assert steps.steps == (steps.winner,)


def test_the_steps_of_all_samples_are_made_together():
    painter = Painter(batch_size=6)
    samples = [*compounds(2), *(replace(one, id="short") for one in compounds(1, OPERATIONS[:1]))]
    select(SequentialEditing(2), samples, editor=painter, reward=graded())
    assert painter.calls == [6, 4, 4]


def test_what_a_selection_costs_is_what_its_candidates_cost():
    expert = judge()
    (one,) = select(SequentialEditing(4), compounds(), editor=Painter(), reward=graded(expert))
    assert (one.spent.nfe, one.spent.judge_calls) == (12 * 8, 12)
    assert (one.full_cost.nfe, one.full_cost.judge_calls) == (12 * 8, 12)
    assert (one.stop_reason, sum(expert.calls)) == ("", 12)


def test_the_same_seed_gives_the_same_winner_and_more_candidates_a_better_first_step():
    first = []
    for n in range(1, 7):
        once, again = (select(SequentialEditing(n), compounds(2), editor=Painter(), reward=graded()) for _ in range(2))
        assert [won(one).id for one in once] == [won(one).id for one in again]
        assert [one.picture for one in once] == [one.picture for one in again]
        first.append([one.steps[0].value for one in once])
    assert first == sorted(first)
    assert all(column == tuple(sorted(column)) for column in zip(*first, strict=True))


# -- what ends on the way ---------------------------------------------------------------------------------------------


def test_a_step_without_a_score_ends_that_sample_and_keeps_what_was_chosen():
    painter = Painter(bad_seeds={STEP_SEED_STRIDE, STEP_SEED_STRIDE + 1})
    short = replace(compounds(1, OPERATIONS[:1])[0], id="short")
    long, other = select(SequentialEditing(2), [*compounds(), short], editor=painter, reward=graded())
    assert (long.winner, long.value, long.picture) == (None, None, None)
    assert long.reason.startswith("step 2 of 3: none of 2 candidates has a score: the editor failed")
    assert [one.step for one in long.steps] == [1]
    assert [one.status for one in long.candidates] == ["made", "made", "failed", "failed"]
    assert long.spent.nfe == 4 * 8
    assert other.winner is not None
    assert (long.stop_reason, other.stop_reason) == ("", "")


def test_a_failed_candidate_does_not_go_on():
    (one,) = select(
        SequentialEditing(3),
        compounds(),
        editor=Painter(bad_seeds={STEP_SEED_STRIDE, 2 * STEP_SEED_STRIDE + 2}),
        reward=graded(),
    )
    assert [[candidate.status for candidate in at(one, step)].count("failed") for step in (1, 2, 3)] == [0, 1, 1]
    assert one.steps[1].id in ("2.1", "2.2")
    assert one.winner is not None


def test_what_failed_is_made_in_the_next_run_and_nothing_else():
    journal, expert = Journal(), judge()
    bad = Painter(bad_seeds={STEP_SEED_STRIDE + 2}, batch_size=1)
    select(SequentialEditing(3), compounds(), editor=bad, reward=graded(expert), journal=journal)
    good = Painter(batch_size=1)
    (one,) = select(SequentialEditing(3), compounds(), editor=good, reward=graded(expert), journal=journal)
    (whole,) = select(SequentialEditing(3), compounds(), editor=Painter(), reward=graded())
    assert one.picture == whole.picture
    assert {seed for _, seed in good.requests} <= {
        STEP_SEED_STRIDE + 2,
        *(2 * STEP_SEED_STRIDE + number for number in range(3)),
    }
    assert (STEP_SEED_STRIDE + 2) in {seed for _, seed in good.requests}


def test_a_second_run_with_the_same_journal_asks_nothing(tmp_path):
    with Journal(tmp_path) as journal:
        first = select(SequentialEditing(3), compounds(2), editor=Painter(), reward=graded(), journal=journal)
    painter, expert = Painter(), judge()
    with Journal(tmp_path) as journal:
        again = select(SequentialEditing(3), compounds(2), editor=painter, reward=graded(expert), journal=journal)
    assert (painter.calls, expert.calls) == ([], [])
    assert as_json(again) == as_json(first)
    assert (again.cached_cost.nfe, again.cached_cost.judge_calls) == (again.spent.nfe, again.spent.judge_calls)


def test_a_budget_of_evaluations_is_spread_over_the_steps():
    (sample,) = compounds(1, (*OPERATIONS, Operation("Make it night.")))
    (one,) = select(SequentialEditing(4), sample, editor=Painter(), reward=graded(), budget=Budget(nfe=10 * 8))
    assert [len(at(one, step)) for step in (1, 2, 3, 4)] == [2, 2, 3, 3]
    assert one.spent.nfe == 80
    assert one.full_cost.nfe == 16 * 8
    assert one.winner is not None
    assert "80 NFE allow 3 of 4 candidates at step 4" in one.stop_reason


def test_a_budget_that_is_too_small_for_a_candidate_a_step_is_refused():
    painter = Painter()
    with pytest.raises(ValueError, match="each of 6 steps takes 48"):
        select(SequentialEditing(4), compounds(2), editor=painter, reward=graded(), budget=Budget(nfe=47))
    assert painter.calls == []


def test_a_budget_of_judge_calls_that_ends_before_the_last_step_leaves_no_winner():
    (one,) = select(SequentialEditing(4), compounds(), editor=Painter(), reward=graded(), budget=Budget(judge_calls=6))
    assert [len(at(one, step)) for step in (1, 2, 3)] == [4, 2, 0]
    assert one.spent.judge_calls == 6
    assert one.winner is None
    assert one.reason == "step 3 of 3: the budget allows no candidate"
    assert one.stop_reason == "6 of 6 judge calls are spent"
    assert [worth(chosen) for chosen in one.steps] == [max(map(worth, at(one, step))) for step in (1, 2)]


def test_no_candidates_are_refused():
    with pytest.raises(ValueError, match="at least one candidate per step, got 0"):
        SequentialEditing(0)


# -- chains -----------------------------------------------------------------------------------------------------------


def test_a_turn_is_judged_against_the_last_one_with_the_turns_and_pools_before_it():
    watching = Watching()
    (sample,) = compounds(boxes=BOXES)
    (one,) = select(MultiTurnEditing(2), sample, editor=Painter(), reward=Reward(watching, {"judge": judge()}))
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


def test_the_editor_is_given_the_turns_before():
    (one,) = select(MultiTurnEditing(2), compounds(), editor=Painter(), reward=graded())
    for turn, chosen in enumerate(one.steps):
        earlier = tuple(judged_as(before) for before in one.steps[:turn])
        made = Painter().edit(
            [judged_as(chosen).sources], [OPERATIONS[turn].instruction], [chosen.noise.seed], history=[earlier]
        )
        assert made == [chosen.picture]


def test_a_chain_goes_on_from_turns_that_were_made_before():
    (turn,) = [replace(one, id="t1", task=REMOVE, boxes=BOXES, edited=scenes(4)[3].source) for one in scenes(1)]
    watching = Watching()
    (sample,) = compounds(1, OPERATIONS[2:], boxes=BOXES, history=(turn,))
    select(
        MultiTurnEditing(1),
        replace(sample, sources=(turn.edited,)),
        editor=Painter(),
        reward=Reward(watching, {"judge": judge()}),
    )
    (judged,) = watching.seen
    assert judged.history == (turn,)
    assert judged.pools == Pools(("cup", "fork", "plum"), ("cup", "plum"), ("cup",))


def test_what_is_said_of_the_end_of_a_chain_is_told_to_its_last_turn():
    watching = Watching()
    (sample,) = compounds(target_text="SALE", hint="a plum", reference=scenes(3)[2].source, targets=BOXES["cup"])
    select(MultiTurnEditing(1), sample, editor=Painter(), reward=Reward(watching, {"judge": judge()}))
    as_json = [(one.target_text, one.hint, one.reference is not None, one.targets) for one in watching.seen]
    assert as_json == [("", "", False, ()), ("", "", False, ()), ("SALE", "a plum", True, ())]


def test_a_chain_ends_where_no_candidate_of_a_turn_has_a_score():
    (one,) = select(
        MultiTurnEditing(2),
        compounds(),
        editor=Painter(bad_seeds={2 * STEP_SEED_STRIDE, 2 * STEP_SEED_STRIDE + 1}),
        reward=graded(),
    )
    assert one.winner is None
    assert "step 3 of 3" in one.reason
    assert [chosen.step for chosen in one.steps] == [1, 2]


def test_a_second_run_of_a_chain_asks_nothing():
    journal, painter = Journal(), Painter()
    first = select(MultiTurnEditing(2), compounds(2), editor=Painter(), reward=graded(), journal=journal)
    again = select(MultiTurnEditing(2), compounds(2), editor=painter, reward=graded(), journal=journal)
    assert painter.calls == []
    assert as_json(again) == as_json(first)
