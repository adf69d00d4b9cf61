"""Operations are checked by detectors where these can tell, and by questions otherwise."""

import numpy as np
import pytest

from editcritic.reward import Box, EditSample, Image, Score
from editcritic.reward.edit_plan import EditPlan, PlannedOperation, Question, Target
from editcritic.reward.engine.program import Ask, Program, map_asks
from editcritic.reward.metrics.any_edit.following import PlanFollowing
from editcritic.reward.queries import Detect, Judge, ReadText
from editcritic.reward.queries.kinds import MapChanges, RecognizedText

from .conftest import PHOTO, PIXELS, Witness, painted

CUP, SPOON = (0.48, 0.4, 0.3, 0.5), (0.1, 0.8, 0.1, 0.2)
AT_CUP = Box(*CUP)
BLUE_CUP = painted(AT_CUP)
WRONG = {"green": (0.0, 0.0)}


_CUP = Target("cup")


def operation(kind="color_alter", target=_CUP, value="blue", **slots):
    return PlannedOperation(kind, f"make the cup {value}", target=target, value=value, **slots)


def question(text="Is it bright?", **fields):
    return Question(text, **fields)


def asked(*questions, kind="attribute", words="make the cup bright"):
    return EditPlan((PlannedOperation(kind, words, target=Target("cup"), questions=questions),))


DONE = '{"differences": [{"what": "the cup is blue", "operation": 1}]}'


def test_an_attribute_is_judged_on_the_crop_of_its_target(scored) -> None:
    witness = Witness(
        source={"cup": [(*CUP, 0.9)]}, edited={"cup": [(*CUP, 0.9)]}, answers={"cup blue": (0.1, 0.9), **WRONG}
    )
    score = scored(PlanFollowing(), EditPlan((operation(),)), BLUE_CUP, witness)
    assert (score.value or 0.0) > 0.9
    assert list(score.credits) == ["operation 1"]
    assert set(witness.topics()) == {"edival/color_pair"}


def test_a_judge_that_says_yes_to_a_wrong_colour_too_confirms_nothing(scored) -> None:
    witness = Witness(
        source={"cup": [(*CUP, 0.9)]},
        edited={"cup": [(*CUP, 0.9)]},
        answers={"cup blue": (0.1, 0.9), "green": (0.2, 0.8)},
    )
    score = scored(PlanFollowing(), EditPlan((operation(),)), BLUE_CUP, witness)
    assert (score.value or 0.0) < 0.25
    assert "'green'" in score.reason


def test_what_the_source_shows_already_is_not_applicable(scored) -> None:
    witness = Witness(
        source={"cup": [(*CUP, 0.9)]}, edited={"cup": [(*CUP, 0.9)]}, answers={"cup blue": (0.9, 0.9), **WRONG}
    )
    score = scored(PlanFollowing(), EditPlan((operation(),)), BLUE_CUP, witness)
    assert score.status == "not_applicable"
    assert "the source shows it already: make the cup blue" in score.reason


def test_a_change_that_cannot_be_seen_does_not_count(scored) -> None:
    witness = Witness(
        source={"cup": [(*CUP, 0.9)]}, edited={"cup": [(*CUP, 0.9)]}, answers={"cup blue": (0.1, 0.9), **WRONG}
    )
    speck = painted(Box(0.48, 0.4, 0.004, 0.005), (120, 100, 90))
    score = scored(PlanFollowing(), EditPlan((operation(),)), speck, witness)
    assert (score.value or 0.0) < 0.25
    assert "too small or too pale to be seen" in score.reason


def test_the_left_one_must_go_and_the_others_may_stay(scored) -> None:
    left, right = (0.2, 0.5, 0.2, 0.3), (0.7, 0.5, 0.2, 0.3)
    plan = EditPlan((PlannedOperation("subject_remove", "remove the left cup", Target("cup", place="left")),))
    both = [(*left, 0.9), (*right, 0.9)]
    gone = painted(Box(*left))
    right_stays = scored(PlanFollowing(), plan, gone, Witness(source={"cup": both}, edited={"cup": both[1:]}))
    assert (right_stays.value or 0.0) > 0.75
    wrong_one = scored(PlanFollowing(), plan, gone, Witness(source={"cup": both}, edited={"cup": both[:1]}))
    assert (wrong_one.value or 0.0) < 0.25


def test_all_of_several_must_have_the_value(scored) -> None:
    places = [(0.2, 0.5, 0.2, 0.3), (0.7, 0.5, 0.2, 0.3)]
    plan = EditPlan((operation(target=Target("cup", quantity="all")),))
    witness = Witness(source={"cup": [(*place, 0.9) for place in places]}, answers={"cup blue": (0.1, 0.9), **WRONG})
    first = painted(Box(*places[0]))
    one = scored(PlanFollowing(), plan, first, witness)
    assert (one.value or 0.0) < 0.25
    both = scored(PlanFollowing(), plan, painted(Box(*places[1]), (20, 50, 200), first.pixels), witness)
    assert (both.value or 0.0) > 0.75


def test_half_is_the_mean_and_half_is_that_all_are_done(scored) -> None:
    remove = PlannedOperation("subject_remove", "remove the spoon", Target("spoon"))
    witness = Witness(
        source={"cup": [(*CUP, 0.9)], "spoon": [(*SPOON, 0.9)]},
        edited={"cup": [(*CUP, 0.9)], "spoon": [(*SPOON, 0.9)]},
        answers={"cup blue": (0.1, 0.9), **WRONG},
    )
    score = scored(PlanFollowing(), EditPlan((operation(), remove)), BLUE_CUP, witness)
    first, second = (credit.value for credit in score.credits.values())
    assert first >= 0.5 > second
    assert score.value == pytest.approx((1 - 0.02 * (2 - 2 * first) + second / 2) / 4)


def test_a_question_scores_by_what_changed(scored) -> None:
    plan = asked(question())
    witness = Witness(source={"cup": [(*CUP, 0.9)]}, answers={"bright": (0.4, 0.7)}, differences=DONE)
    score = scored(PlanFollowing(), plan, BLUE_CUP, witness)
    assert score.credits["operation 1"].value == pytest.approx((0.7 - 0.4) / 0.6)
    yes_man = Witness(source={"cup": [(*CUP, 0.9)]}, answers={"bright": (0.45, 0.45)}, differences=DONE)
    assert scored(PlanFollowing(), plan, BLUE_CUP, yes_man).credits["operation 1"].value == 0.0


def test_a_question_that_contradicts_the_source_is_asked_in_other_words(scored) -> None:
    plan = asked(question(paraphrase="Does it shine?"))
    witness = Witness(
        source={"cup": [(*CUP, 0.9)]}, answers={"bright": (0.9, 0.9), "shine": (0.1, 0.9)}, differences=DONE
    )
    score = scored(PlanFollowing(), plan, BLUE_CUP, witness)
    assert (score.value or 0.0) > 0.75


def test_an_operation_left_without_questions_fails(scored) -> None:
    witness = Witness(source={"cup": [(*CUP, 0.9)]}, answers={"bright": (0.9, 0.9)}, differences=DONE)
    score = scored(PlanFollowing(), asked(question()), BLUE_CUP, witness)
    assert (score.status, score.cause) == ("failed", "")
    assert "their answers about the source contradict it" in score.reason


def test_a_question_about_what_stays_may_not_lose_its_answer(scored) -> None:
    plan = asked(question(), question("Is it a cup?", before="yes", after="yes"))
    kept = Witness(answers={"bright": (0.1, 0.9), "a cup?": (0.8, 0.8)}, unknown=("cup",), differences=DONE)
    lost = Witness(answers={"bright": (0.1, 0.9), "a cup?": (0.8, 0.2)}, unknown=("cup",), differences=DONE)
    a, b = (scored(PlanFollowing(), plan, BLUE_CUP, witness).value for witness in (kept, lost))
    assert a > 0.75
    assert b < 0.25


def test_a_near_miss_that_is_true_means_another_edit_was_made(scored) -> None:
    plan = asked(question(), question("Is it gone?", after="no", near_miss=True))
    witness = Witness(answers={"bright": (0.1, 0.9), "gone": (0.0, 0.9)}, unknown=("cup",), differences=DONE)
    assert scored(PlanFollowing(), plan, BLUE_CUP, witness).value < 0.25


def test_a_child_does_not_count_without_its_parent(scored) -> None:
    plan = asked(question(), question("Is it brighter than the table?", parent=0))
    witness = Witness(answers={"than the table": (0.1, 0.9), "bright": (0.1, 0.2)}, unknown=("cup",), differences=DONE)
    score = scored(PlanFollowing(), plan, BLUE_CUP, witness)
    assert score.credits["operation 1"].value < 0.25


def test_an_operation_that_no_listed_difference_belongs_to_was_not_carried_out(scored) -> None:
    plan = asked(question())
    witness = Witness(answers={"bright": (0.1, 0.9)}, unknown=("cup",))
    score = scored(PlanFollowing(), plan, BLUE_CUP, witness)
    assert score.credits["operation 1"].value == 0.25
    assert "none of the differences" in score.reason
    assert scored(PlanFollowing(list_differences=False), plan, BLUE_CUP, witness).value > 0.75


def test_without_a_detector_that_can_look_for_it_questions_decide(scored) -> None:
    plan = EditPlan((operation(questions=(question("Is the cup blue?"),)),))
    witness = Witness(answers={"cup blue?": (0.1, 0.9)}, unknown=("cup",), differences=DONE)
    assert scored(PlanFollowing(), plan, BLUE_CUP, witness).value > 0.75
    assert witness.topics().count("any-edit/edited") >= 2


def test_the_plan_and_the_source_are_asked_about_once_for_all_edits_of_a_group(scored) -> None:
    from editcritic.reward import EditSample, Reward
    from editcritic.reward.experts.annotated import Annotated
    from editcritic.reward.experts.pixel_changes import PixelChanges
    from editcritic.reward.experts.pixel_features import PixelFeatures
    from editcritic.reward.planners.rule_planner import RulePlanner

    plan = EditPlan((operation(),))
    edits = [painted(AT_CUP, (30, 60, 200 + n)) for n in range(16)]
    witness = Witness(
        source={"cup": [(*CUP, 0.9)]}, edited={"cup": [(*CUP, 0.9)]}, answers={"cup blue": (0.1, 0.9), **WRONG}
    )
    changes = PixelChanges()
    known = {"changes": changes, "pixels": PixelFeatures(), "planner": RulePlanner(), "matcher": Annotated()}
    experts = {**dict.fromkeys(PlanFollowing.card.roles, witness), **known}
    Reward(PlanFollowing(), experts)(
        [EditSample(str(n), "make the cup blue", (PHOTO,), edit, plan=plan) for n, edit in enumerate(edits)]
    )
    about_source = [query for query in witness.queries if all(witness._is_source(image) for image in query.images)]
    assert len(about_source) == 2  # one detection, one question
    assert sum(isinstance(query, Detect) for query in witness.queries) == 1 + 16
    assert changes.usage()["envelopes"] == 1
    assert MapChanges in changes.kinds


def test_without_a_detector_that_knows_what_is_new_questions_decide(scored) -> None:
    add = PlannedOperation("subject_add", "add a dog", new=Target("dog"), questions=(question("Is there a dog?"),))
    witness = Witness(
        answers={"a dog?": (0.1, 0.9)},
        unknown=("dog",),
        differences='{"differences": [{"what": "a dog", "operation": 1}]}',
    )
    assert (scored(PlanFollowing(), EditPlan((add,)), BLUE_CUP, witness).value or 0.0) > 0.75


def test_more_of_something_than_was_asked_for_is_not_what_was_asked_for(scored) -> None:
    plan = EditPlan((PlannedOperation("subject_add", "add a dog", new=Target("dog")),))
    one = Witness(edited={"dog": [(*CUP, 0.9)]})
    two = Witness(edited={"dog": [(*CUP, 0.9), (*SPOON, 0.9)]})
    assert (scored(PlanFollowing(), plan, BLUE_CUP, one).value or 0.0) > 0.75
    assert (scored(PlanFollowing(), plan, BLUE_CUP, two).value or 0.0) < 0.25


@pytest.mark.parametrize(("p", "holds"), [(0.9, True), (0.1, False)])
def test_something_new_has_the_colour_of_its_name(p, holds, scored) -> None:
    plan = EditPlan((PlannedOperation("subject_add", "add a blue dog", new=Target("dog", ("blue",))),))
    witness = Witness(edited={"blue dog": [(*CUP, 0.9)]}, answers={"blue dog blue": (0.0, p)})
    assert ((scored(PlanFollowing(), plan, BLUE_CUP, witness).value or 0.0) > 0.75) is holds


@pytest.mark.parametrize(("opacity", "holds"), [(1.0, True), (0.3, False), (0.04, False), (0.0, False)])
def test_a_moved_object_looks_as_it_did(opacity, holds, scored) -> None:
    old, new, table = Box(0.2, 0.5, 0.2, 0.3), Box(0.7, 0.5, 0.2, 0.3), (0.45, 0.5, 0.1, 0.1)
    source = painted(old, (30, 60, 220), PIXELS * 0 + 200)
    gone = painted(old, (200, 200, 200), source.pixels)
    ghost = tuple(opacity * colour + (1 - opacity) * 200 for colour in (30, 60, 220))
    edited = painted(new, ghost, gone.pixels)
    operation = PlannedOperation(
        "position_change", "move it right of the table", Target("box"), position="right", reference=Target("table")
    )
    places = {"table": [(*table, 0.9)]}
    witness = Witness(
        original=source,
        source={"box": [(old.cx, old.cy, old.w, old.h, 0.9)], **places},
        edited={"box": [(new.cx, new.cy, new.w, new.h, 0.9)], **places},
    )
    plan = EditPlan((operation,))
    score = scored(PlanFollowing(), plan, edited, witness, sources=(source,), instruction="move the box to the right")
    assert ((score.value or 0.0) > 0.75) is holds, score.reason


class Observed:
    """`PlanFollowing`. asks: what its programs asked for."""

    card = PlanFollowing.card

    def __init__(self) -> None:
        self.asks: list[Ask] = []

    def __call__(self, sample: EditSample) -> Program[Score]:
        return map_asks(PlanFollowing()(sample), self._kept)

    def _kept(self, asked: Ask) -> Ask:
        self.asks.append(asked)
        return asked


def test_many_copies_are_compared_at_once(scored) -> None:
    places = [(x / 6, y / 5, 0.06, 0.06, 0.9) for x in range(1, 6) for y in range(1, 5)]
    source, edited = PHOTO, PHOTO
    for place in places[:5]:
        source = painted(Box(*place), pixels=source.pixels)
    for place in places:
        edited = painted(Box(*place), pixels=edited.pixels)
    plan = EditPlan((PlannedOperation("count_change", "make it 20 cups", Target("cup", quantity="all"), count=20),))
    witness = Witness(original=source, source={"cup": places[:5]}, edited={"cup": places})
    metric = Observed()
    score = scored(metric, plan, edited, witness, sources=(source,))
    assert (score.value or 0.0) > 0.75, score.reason
    compared = [len(one.queries) for one in metric.asks if isinstance(one.queries[0], MapChanges)]
    assert compared == [2 * 12 * 4, 1]  # of 15 copies and 5 originals; and the whole image


@pytest.mark.parametrize(("count", "holds"), [(1, False), (2, True), (3, False)])
def test_another_one_is_one_more_than_there_was(count, holds, scored) -> None:
    places = [(*CUP, 0.9), (*SPOON, 0.9), (0.85, 0.2, 0.1, 0.1, 0.9)]
    plan = EditPlan((PlannedOperation("subject_add", "add another dog", new=Target("dog")),))
    witness = Witness(source={"dog": places[:1]}, edited={"dog": places[:count]})
    score = scored(PlanFollowing(), plan, painted(Box(*SPOON)), witness)
    assert ((score.value or 0.0) > 0.75) is holds, score.reason


@pytest.mark.parametrize(
    ("read", "text", "holds"),
    [
        ("STOP SALE", "SALE", True),
        ("SALE", "SALE", True),
        ("STOP", "SALE", False),
        ("STOP SALES", "SALE", False),
        ("STOP STOP SALE", "STOP SALE", True),
    ],
)
def test_a_text_may_stand_beside_those_that_are_there(read, text, holds, scored) -> None:
    plan = EditPlan((PlannedOperation("text_change", f'write "{text}"', text=text),))
    score = scored(PlanFollowing(), plan, BLUE_CUP, Witness(text=("STOP", read)))
    assert ((score.value or 0.0) > 0.75) is holds, score.reason


class ReadsInTheWholeOnly(Witness):
    """Reads STOP everywhere, and SALE beside it in the whole edited image."""

    def _answer(self, query):
        if isinstance(query, ReadText):
            is_whole_edit = query.image.size == PHOTO.size and query.image != PHOTO
            return RecognizedText.without_boxes("STOP SALE" if is_whole_edit else "STOP")
        return super()._answer(query)


def test_a_text_for_an_object_must_stand_on_it(scored) -> None:
    plan = EditPlan((PlannedOperation("text_change", 'write "SALE" on the cup', Target("cup"), text="SALE"),))
    seen = {"cup": [(*CUP, 0.9)]}
    score = scored(PlanFollowing(), plan, BLUE_CUP, ReadsInTheWholeOnly(source=seen, edited=seen))
    assert (score.value or 0.0) < 0.25, score.reason


def test_one_of_several_that_is_elsewhere_now_was_not_removed(scored) -> None:
    left, right, elsewhere = (0.2, 0.5, 0.2, 0.3), (0.7, 0.5, 0.2, 0.3), (0.45, 0.1, 0.2, 0.2)
    plan = EditPlan((PlannedOperation("subject_remove", "remove the left cup", Target("cup", place="left")),))
    source = {"cup": [(*left, 0.9), (*right, 0.9)]}
    moved = Witness(source=source, edited={"cup": [(*right, 0.9), (*elsewhere, 0.9)]})
    assert (scored(PlanFollowing(), plan, painted(Box(*left)), moved).value or 0.0) < 0.25


def test_what_shows_in_reverse_was_not_removed(scored) -> None:
    """No detector finds the cup in a negative of it."""
    plan = EditPlan((PlannedOperation("subject_remove", "remove the cup", _CUP),))
    witness = Witness(source={"cup": [(*CUP, 0.9)]})
    clean = painted(AT_CUP, (190, 130, 70))
    gone = scored(PlanFollowing(), plan, clean, witness)
    overdone = clean.pixels + 0.8 * (clean.pixels.astype(float) - PIXELS)
    reversed_cup = Image.of(np.clip(np.rint(overdone), 0, 255).astype(np.uint8))
    ghost = scored(PlanFollowing(), plan, reversed_cup, witness)
    assert (gone.value or 0.0) > 0.75
    assert (ghost.value or 0.0) < 0.5
    assert "in reverse" in ghost.reason


def test_a_pair_is_the_first_source_and_the_edit(scored) -> None:
    plan = asked(question(view="pair"))
    witness = Witness(answers={"bright": (0.1, 0.9)}, unknown=("cup",), differences=DONE)
    scored(PlanFollowing(), plan, BLUE_CUP, witness, sources=(PHOTO, painted(Box(*SPOON))))
    pairs = [query.images for query in witness.queries if isinstance(query, Judge)]
    assert {len(images) for images in pairs} == {2}
    assert all(images[0] == PHOTO for images in pairs)


HORSE = PlannedOperation("subject_remove", "remove the horse", Target("horse"))


@pytest.mark.parametrize("edited", [BLUE_CUP, PHOTO], ids=["an edit", "a copy"])
def test_what_is_not_there_cannot_be_removed_whatever_the_edit_shows(scored, edited) -> None:
    witness = Witness(answers={"this: horse": (0.1, 0.1), "remove the horse": (0.1, 0.9)}, differences=DONE)
    score = scored(PlanFollowing(), EditPlan((HORSE,)), edited, witness)
    assert (score.status, score.value) == ("not_applicable", None)
    assert score.reason == "there is no horse in the source"
    assert all(query.images == (PHOTO,) for query in witness.queries if isinstance(query, Judge))


def test_a_judge_that_sees_what_the_detector_missed_is_believed(scored) -> None:
    witness = Witness(
        answers={"this: horse": (0.9, 0.9), "one: remove the horse": (0.1, 0.9), **WRONG}, differences=DONE
    )
    score = scored(PlanFollowing(), EditPlan((HORSE,)), BLUE_CUP, witness)
    assert (score.value or 0.0) > 0.9


def test_another_one_of_its_kind_is_no_reason_to_say_that_it_is_absent(scored) -> None:
    second = Target("cup", order=2, order_from="left")
    plan = EditPlan((PlannedOperation("subject_remove", "remove the second cup", second),))
    score = scored(PlanFollowing(), plan, BLUE_CUP, Witness(source={"cup": [(*CUP, 0.9)]}, differences=DONE))
    assert score.status == "scored"


def test_the_plan_is_in_the_evidence_and_a_doubtful_one_in_the_reason(scored) -> None:
    witness = Witness(
        source={"cup": [(*CUP, 0.9)]}, edited={"cup": [(*CUP, 0.9)]}, answers={"cup blue": (0.1, 0.9), **WRONG}
    )
    sure = scored(PlanFollowing(), EditPlan((operation(),)), BLUE_CUP, witness)
    (planned,) = [one for one in sure.evidence if one.what == "plan"]
    assert (planned.text, planned.numbers) == ("color_alter: cup -> blue", {"confidence": 1.0})
    doubtful = scored(PlanFollowing(), EditPlan((operation(),), confidence=0.5), BLUE_CUP, witness)
    assert doubtful.reason == f"the plan is uncertain; {sure.reason}"
    assert doubtful.value == sure.value
