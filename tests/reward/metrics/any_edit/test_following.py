"""Operations are checked by detectors where these can tell, and by questions otherwise."""

from typing import Any

import numpy as np
import pytest

from editcritic.reward import Box, EditPlan, EditSample, Image, PlannedOperation, Question, Reward, Target
from editcritic.reward.experts.annotated import Annotated
from editcritic.reward.experts.pixel_changes import PixelChanges
from editcritic.reward.experts.pixel_features import PixelFeatures
from editcritic.reward.metrics.any_edit.following import PlanFollowing
from editcritic.reward.planners.rule_planner import RulePlanner
from editcritic.reward.queries import Detect, Judge, ReadText, RecognizedText

from .conftest import PHOTO, PIXELS, Witness, painted, worth

CUP, SPOON = (0.48, 0.4, 0.3, 0.5), (0.1, 0.8, 0.1, 0.2)
LEFT, RIGHT, ABOVE = (0.2, 0.5, 0.2, 0.3), (0.7, 0.5, 0.2, 0.3), (0.45, 0.1, 0.2, 0.2)
AT_CUP = Box(*CUP)
BLUE_CUP = painted(AT_CUP)
LEFT_GONE = painted(Box(*LEFT))
BOTH_BLUE = painted(Box(*RIGHT), (20, 50, 200), LEFT_GONE.pixels)
WRONG = {"green": (0.0, 0.0)}
DONE = '{"differences": [{"what": "the cup is blue", "operation": 1}]}'


def one(kind, words, target=None, **slots):
    return EditPlan((PlannedOperation(kind, words, target, **slots),))


def asked(*questions):
    return one("attribute", "make the cup bright", Target("cup"), questions=questions)


def cups(*places, phrase="cup"):
    return {phrase: [(*place, 0.9) for place in places]}


BRIGHT = Question("Is it bright?")
BLUE = one("color_alter", "make the cup blue", Target("cup"), value="blue")
ALL_BLUE = one("color_alter", "make the cups blue", Target("cup", quantity="all"), value="blue")
LEFT_CUP = one("subject_remove", "remove the left cup", Target("cup", place="left"))
HORSE = one("subject_remove", "remove the horse", Target("horse"))
DOG, ANOTHER = (one("subject_add", f"add {words} dog", new=Target("dog")) for words in ("a", "another"))
BLUE_DOG = one("subject_add", "add a blue dog", new=Target("dog", ("blue",)))
ASK_DOG = one("subject_add", "add a dog", new=Target("dog"), questions=(Question("Is there a dog?"),))
ASK_BLUE = one(
    "color_alter", "make the cup blue", Target("cup"), value="blue", questions=(Question("Is the cup blue?"),)
)
STAYS = asked(BRIGHT, Question("Is it a cup?", before="yes", after="yes"))
BLIND: dict[str, Any] = {"unknown": ("cup",), "differences": DONE}
SEEN = {"source": cups(CUP), "edited": cups(CUP)}
TURNED_BLUE = {**SEEN, "answers": {"cup blue": (0.1, 0.9), **WRONG}}
DOG_SEEN = {"answers": {"a dog?": (0.1, 0.9)}, "unknown": ("dog",)}
PLACES = [(*CUP, 0.9), (*SPOON, 0.9), (0.85, 0.2, 0.1, 0.1, 0.9)]
TWO = {"source": cups(LEFT, RIGHT)}

TEXTS = [("STOP SALE", "SALE", True), ("SALE", "SALE", True), ("STOP", "SALE", False), ("STOP SALES", "SALE", False)]
REPLY = {"answers": {"cup blue": (0.1, 0.9), **WRONG}}
SURE = {"bright": (0.1, 0.9)}
BLUE_DOG_SEEN = {"edited": cups(CUP, phrase="blue dog")}
OTHER_WORDS = {"source": cups(CUP), "answers": {"bright": (0.9, 0.9), "shine": (0.1, 0.9)}, "differences": DONE}
DOG_LISTED = '{"differences": [{"what": "a dog", "operation": 1}]}'
MISSED = {"answers": {"this: horse": (0.9, 0.9), "one: remove the horse": (0.1, 0.9), **WRONG}, "differences": DONE}
SPECK, AT_SPOON = painted(Box(0.48, 0.4, 0.004, 0.005), (120, 100, 90)), painted(Box(*SPOON))
MISS = asked(BRIGHT, Question("Is it gone?", after="no", near_miss=True))
CHILD = asked(BRIGHT, Question("Is it brighter than the table?", parent=0))
CASES: dict[str, Any] = {  # plan, what the witness says, whether it is done, the edit, words of the reason
    "a colour on the crop": (BLUE, TURNED_BLUE, True),
    "yes to a wrong colour": (
        BLUE,
        {**SEEN, "answers": {"cup blue": (0, 1), "green": (0, 1)}},
        False,
        BLUE_CUP,
        "'green'",
    ),
    "a speck": (BLUE, TURNED_BLUE, False, SPECK, "too small or too pale to be seen"),
    "the left one is gone": (LEFT_CUP, {**TWO, "edited": cups(RIGHT)}, True, LEFT_GONE),
    "the right one is gone": (LEFT_CUP, {**TWO, "edited": cups(LEFT)}, False, LEFT_GONE),
    "it is elsewhere now": (LEFT_CUP, {**TWO, "edited": cups(RIGHT, ABOVE)}, False, LEFT_GONE),
    "one of all": (ALL_BLUE, {**TWO, **REPLY}, False, LEFT_GONE),
    "all": (ALL_BLUE, {**TWO, **REPLY}, True, BOTH_BLUE),
    "in other words": (asked(Question("Is it bright?", paraphrase="Does it shine?")), OTHER_WORDS, True),
    "what stays does": (STAYS, {"answers": {**SURE, "a cup?": (0.8, 0.8)}, **BLIND}, True),
    "what stays does not": (STAYS, {"answers": {**SURE, "a cup?": (0.8, 0.2)}, **BLIND}, False),
    "a near miss is true": (MISS, {"answers": {**SURE, "gone": (0.0, 0.9)}, **BLIND}, False),
    "no parent": (CHILD, {"answers": {"than the table": (0.1, 0.9), "bright": (0.1, 0.2)}, **BLIND}, False),
    "no detector": (ASK_BLUE, {"answers": {"cup blue?": (0.1, 0.9)}, **BLIND}, True),
    "no detector of the new": (ASK_DOG, {**DOG_SEEN, "differences": DOG_LISTED}, True),
    "a new dog": (DOG, {"edited": cups(CUP, phrase="dog")}, True),
    "more than asked for": (DOG, {"edited": cups(CUP, SPOON, phrase="dog")}, False),
    "a dog of its colour": (BLUE_DOG, {**BLUE_DOG_SEEN, "answers": {"blue dog blue": (0.0, 0.9)}}, True),
    "of another": (BLUE_DOG, {**BLUE_DOG_SEEN, "answers": {"blue dog blue": (0.0, 0.1)}}, False),
    "a judge sees more": (HORSE, MISSED, True),
    **{
        f"{n} where there was one": (
            ANOTHER,
            {"source": {"dog": PLACES[:1]}, "edited": {"dog": PLACES[:n]}},
            n == 2,
            AT_SPOON,
        )
        for n in (1, 2, 3)
    },
    **{
        f"{read} for {text}": (one("text_change", f'write "{text}"', text=text), {"text": ("STOP", read)}, holds)
        for read, text, holds in [*TEXTS, ("STOP STOP SALE", "STOP SALE", True)]
    },
}


@pytest.mark.parametrize("case", CASES)
def test_an_operation_is_decided(scored, case):
    plan, witness, holds, *more = CASES[case]
    score = scored(PlanFollowing(), plan, more[0] if more else BLUE_CUP, Witness(**witness))
    assert worth(score) > 0.75 if holds else worth(score) < 0.25, score.reason
    assert not more[1:] or more[1] in score.reason


SHOWN = {**SEEN, "answers": {"cup blue": (0.9, 0.9), **WRONG}}
CONTRADICTED = {"source": cups(CUP), "answers": {"bright": (0.9, 0.9)}, "differences": DONE}
NO_HORSE = {"answers": {"this: horse": (0.1, 0.1), "remove the horse": (0.1, 0.9)}, "differences": DONE}
SECOND = one("subject_remove", "remove the second cup", Target("cup", order=2, order_from="left"))


@pytest.mark.parametrize(
    ("plan", "edited", "witness", "status", "reason"),
    [
        (BLUE, BLUE_CUP, SHOWN, "not_applicable", "the source shows it already: make the cup blue"),
        (asked(BRIGHT), BLUE_CUP, CONTRADICTED, "failed", "their answers about the source contradict it"),
        (HORSE, BLUE_CUP, NO_HORSE, "not_applicable", "there is no horse in the source"),
        (HORSE, PHOTO, NO_HORSE, "not_applicable", "there is no horse in the source"),
        (SECOND, BLUE_CUP, {"source": cups(CUP), "differences": DONE}, "scored", ""),
    ],
)
def test_what_is_open_or_not_there_has_no_value(scored, plan, edited, witness, status, reason):
    seen = Witness(**witness)
    score = scored(PlanFollowing(), plan, edited, seen)
    assert (score.status, score.cause) == (status, "")
    assert reason in score.reason
    if plan is HORSE:
        assert all(query.images == (PHOTO,) for query in seen.queries if isinstance(query, Judge))


def test_half_is_the_mean_and_half_is_that_all_are_done(scored):
    remove = PlannedOperation("subject_remove", "remove the spoon", Target("spoon"))
    there = {**cups(CUP), **cups(SPOON, phrase="spoon")}
    witness = Witness(source=there, edited=there, answers=TURNED_BLUE["answers"])
    score = scored(PlanFollowing(), EditPlan((*BLUE.operations, remove)), BLUE_CUP, witness)
    first, second = (credit.value for credit in score.credits.values())
    assert first >= 0.5 > second
    assert score.value == pytest.approx((1 - 0.02 * (2 - 2 * first) + second / 2) / 4)


def test_a_question_scores_by_what_changed_and_needs_a_difference_in_the_list(scored):
    def credit(p, listed=DONE, **options):
        witness = Witness(source=cups(CUP), answers={"bright": p}, differences=listed)
        score = scored(PlanFollowing(**options), asked(BRIGHT), BLUE_CUP, witness)
        return score.credits["operation 1"].value, score.reason

    assert (credit((0.4, 0.7))[0], credit((0.45, 0.45))[0]) == (pytest.approx((0.7 - 0.4) / 0.6), 0.0)
    value, reason = credit((0.1, 0.9), '{"differences": []}')
    assert (value, "none of the differences" in reason) == (0.25, True)
    assert credit((0.1, 0.9), '{"differences": []}', list_differences=False)[0] > 0.75


def test_the_plan_and_the_source_are_asked_about_once_for_all_edits_of_a_group():
    edits = [painted(AT_CUP, (30, 60, 200 + number)) for number in range(16)]
    witness, changes = Witness(**TURNED_BLUE), PixelChanges()
    known = {"changes": changes, "pixels": PixelFeatures(), "planner": RulePlanner(), "matcher": Annotated()}
    Reward(PlanFollowing(), {**dict.fromkeys(PlanFollowing.card.roles, witness), **known})(
        [EditSample(str(n), "make the cup blue", (PHOTO,), edit, plan=BLUE) for n, edit in enumerate(edits)]
    )
    about_source = [query for query in witness.queries if all(map(witness.is_source, query.images))]
    assert len(about_source) == 2  # one detection, one question
    assert (sum(isinstance(query, Detect) for query in witness.queries), changes.usage()["envelopes"]) == (1 + 16, 1)
    assert set(witness.topics()) == {"edival/color_pair"}


@pytest.mark.parametrize(("opacity", "holds"), [(1.0, True), (0.3, False), (0.04, False), (0.0, False)])
def test_a_moved_object_looks_as_it_did(opacity, holds, scored):
    source = painted(Box(*LEFT), (30, 60, 220), PIXELS * 0 + 200)
    gone = painted(Box(*LEFT), (200, 200, 200), source.pixels)
    ghost = tuple(opacity * colour + (1 - opacity) * 200 for colour in (30, 60, 220))
    places = {"table": [(0.45, 0.5, 0.1, 0.1, 0.9)]}
    witness = Witness(source, {**cups(LEFT, phrase="box"), **places}, {**cups(RIGHT, phrase="box"), **places})
    slots = {"position": "right", "reference": Target("table")}
    plan = one("position_change", "move it right of the table", Target("box"), **slots)
    edited = painted(Box(*RIGHT), ghost, gone.pixels)
    score = scored(PlanFollowing(), plan, edited, witness, sources=(source,), instruction="move the box to the right")
    assert (worth(score) > 0.75) is holds, score.reason


class ReadsInTheWholeOnly(Witness):
    """Reads STOP everywhere, and SALE beside it in the whole edited image."""

    def _answer(self, query):
        if isinstance(query, ReadText):
            is_whole_edit = query.image.size == PHOTO.size and query.image != PHOTO
            return RecognizedText.without_boxes("STOP SALE" if is_whole_edit else "STOP")
        return super()._answer(query)


def test_a_text_for_an_object_must_stand_on_it(scored):
    plan = one("text_change", 'write "SALE" on the cup', Target("cup"), text="SALE")
    assert worth(scored(PlanFollowing(), plan, BLUE_CUP, ReadsInTheWholeOnly(**SEEN))) < 0.25


def test_what_shows_in_reverse_was_not_removed(scored):
    """No detector finds the cup in a negative of it."""
    plan = one("subject_remove", "remove the cup", Target("cup"))
    clean = painted(AT_CUP, (190, 130, 70))
    overdone = clean.pixels + 0.8 * (clean.pixels.astype(float) - PIXELS)
    reversed_cup = Image.of(np.clip(np.rint(overdone), 0, 255).astype(np.uint8))
    gone, ghost = (scored(PlanFollowing(), plan, it, Witness(source=cups(CUP))) for it in (clean, reversed_cup))
    assert worth(ghost) < 0.5 < 0.75 < worth(gone)
    assert "in reverse" in ghost.reason


def test_a_pair_is_the_first_source_and_the_edit(scored):
    witness = Witness(answers={"bright": (0.1, 0.9)}, **BLIND)
    plan = asked(Question("Is it bright?", view="pair"))
    scored(PlanFollowing(), plan, BLUE_CUP, witness, sources=(PHOTO, painted(Box(*SPOON))))
    pairs = [query.images for query in witness.queries if isinstance(query, Judge)]
    assert {(len(images), images[0]) for images in pairs} == {(2, PHOTO)}


def test_the_plan_is_in_the_evidence_and_a_doubtful_one_in_the_reason(scored):
    sure = scored(PlanFollowing(), BLUE, BLUE_CUP, Witness(**TURNED_BLUE))
    assert list(sure.credits) == ["operation 1"]
    (planned,) = [item for item in sure.evidence if item.what == "plan"]
    assert (planned.text, planned.numbers) == ("color_alter: cup -> blue", {"confidence": 1.0})
    doubted = EditPlan(BLUE.operations, confidence=0.5)
    doubtful = scored(PlanFollowing(), doubted, BLUE_CUP, Witness(**TURNED_BLUE))
    assert (doubtful.reason, doubtful.value) == (f"the plan is uncertain; {sure.reason}", sure.value)
