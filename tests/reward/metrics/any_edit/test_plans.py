"""Plans of tasks and operations, and back; the validator names what a plan leaves out; plurals mean all there."""

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.benchmarks.sceneedit.compound_requests import compound_cases
from editcritic.reward import Box, EditPlan, Kept, Operation, PlannedOperation, Question, Relation, Target, Task
from editcritic.reward.metrics.any_edit.instruction_words import split_quotes, stem
from editcritic.reward.metrics.any_edit.plans import (
    is_plural,
    plan_of_operations,
    plan_of_targets,
    plan_of_task,
    plan_problems,
    task_of_operation,
    unnamed_objects,
    with_plurals,
    words_of_plan,
)
from editcritic.reward.metrics.edival.task_parser import parse_task
from editcritic.reward.sample import POSITIONS

from ...plan_strategies import PLANS

GOLDEN = Path(__file__).parents[3] / "golden" / "edival_instruction_following.jsonl"
CUP, DOG, WOMAN, RED_CUP = Target("cup"), Target("dog"), Target("woman"), Target("cup", ("red",))


def op(kind, target=None, words="", **slots):
    return PlannedOperation(kind, words, target, **slots)


def one(kind, target=None, words="", keep=(), language="en", **slots):
    return EditPlan((op(kind, target, words, **slots),), tuple(keep), language=language)


NAMES = st.text(min_size=1, max_size=8).filter(str.strip)
PLACES = st.sampled_from(POSITIONS)
TASKS = st.one_of(
    st.builds(Task, st.just("subject_add"), new=NAMES),
    st.builds(Task, st.just("subject_add"), new=NAMES, position=PLACES, reference=NAMES),
    st.builds(Task, st.just("subject_remove"), object=NAMES),
    st.builds(Task, st.just("subject_replace"), object=NAMES, new=NAMES),
    st.builds(Task, st.just("position_change"), object=NAMES, position=PLACES, reference=NAMES),
    st.builds(Task, st.just("count_change"), object=NAMES, count=st.integers(0, 9)),
    st.builds(Task, st.sampled_from(["color_alter", "material_alter"]), object=NAMES, value=NAMES),
    st.builds(Task, st.just("text_change"), text=NAMES, object=st.none() | NAMES, old=st.none() | NAMES),
    st.builds(Task, st.just("background_change"), value=NAMES, keep=st.lists(NAMES, max_size=3).map(tuple)),
)


@given(TASKS, st.text())
def test_a_task_comes_back_from_its_plan_but_for_what_it_keeps(task, instruction):
    (operation,) = plan_of_task(task, instruction).operations
    assert task_of_operation(operation) == replace(task, keep=())


def test_a_slot_is_the_whole_noun_and_kept_objects_are_those_that_no_other_is_about():
    plan = plan_of_task(Task("background_change", value="snow", keep=("wood red circle",)), " Change  it ")
    (operation,) = plan.operations
    assert (operation.words, operation.value, plan.scope) == ("Change it", "snow", "whole")
    assert plan.keep == (Kept("object", Target("wood red circle")),)
    (recolour,) = plan_of_task(Task("color_alter", object="wood red circle", value="blue")).operations
    assert recolour.target == Target("wood red circle")
    sentences = ("Change the background to snow, remain the cup, fork unchanged", "Remove the Cup")
    assert plan_of_operations(list(map(Operation, sentences))).keep == (Kept("object", Target("fork")),)


def test_an_operation_is_its_task_or_what_its_sentence_says_or_its_words():
    plan = plan_of_operations(
        [
            Operation("Make the cup blue", "Change Color", Task("color_alter", object="cup", value="blue")),
            Operation("Remove the fork"),
            Operation("Make the light warmer", "Adjust Lighting"),
            Operation("Twirl it", "Twirl"),
            Operation("Paint the sky in the colors of dawn", "Change Color"),
        ]
    )
    types = [operation.type for operation in plan.operations]
    assert types == ["color_alter", "subject_remove", "light", "other", "other"]
    assert (plan.operations[2].words, plan.scope) == ("Make the light warmer", "whole")


def test_targets_are_boxes_of_the_target():
    box = Box(0.5, 0.5, 0.1, 0.1)
    (known,) = plan_of_targets("Change the color of cup to blue", [box]).operations
    assert known.target == Target("cup", boxes=(box,))
    (other,) = plan_of_targets("Turn the small red label over", [box]).operations
    assert (other.type, other.words) == ("other", "Turn the small red label over")
    assert other.target is not None
    assert other.target.boxes == (box,)


SECOND = Target("cup", ("small", "red"), order=2, order_from="left", quantity="all")


@pytest.mark.parametrize(
    ("operation", "task"),
    [
        *((op("style", value="watercolor"), None), (op("position_change", CUP), None)),
        (op("other", words="Do it"), None),
        (op("color_alter", SECOND, value="blue"), Task("color_alter", object="small red cup", value="blue")),
    ],
)
def test_the_task_of_an_operation_keeps_attributes(operation, task):
    assert task_of_operation(operation) == task


def test_a_plan_in_words():
    sign, hat = (
        op("text_change", Target("sign"), text="OPEN"),
        op("subject_add", new=Target("hat"), position="above", reference=Target("man")),
    )
    words = words_of_plan(EditPlan((sign, hat, op("other", words="Twirl it"))))
    assert words == 'text_change: sign -> "OPEN"; subject_add: hat above man; other: Twirl it'


SMILE = "Make the woman smile, keep her identity and hair unchanged"
SKATE = (Question("Is the lake frozen, so that people could skate on it?"),)
BESIDE_TREE = Target("cat", ("small",), relation=Relation("beside", Target("tree")))
CORNER = Target("sign", place="top", relation=Relation("in", Target("left corner")))
YACHT = Target("yacht", relation=Relation("on", Target("river")))
ON_TABLE = Target("cup", ("red",), relation=Relation("on", Target("table")))
LAMP, SECOND_CAR = Target("lamp"), Target("car", order=2, order_from="left")
TO_SOFA = op("position_change", LAMP, position="right", reference=Target("sofa"))
KEEP_BACKGROUND = [Kept("background", words="without changing the background")]
KEEP_HER = [Kept("identity", WOMAN, "keep her identity and hair unchanged")]
NEW_CAR = {"new": Target("bicycle"), "keep": KEEP_BACKGROUND}
BOTH_DOGS = op("subject_remove", Target("dog", quantity="both"))
FLOOD = "What would this look like after a flood?"
FLAGS = "Extract the yacht on the river, including its mast and flags"
MADE_GREY = "Make the coloured wall grey"
SECOND_PICTURE = "Put red cup of the second picture into the first one, below plate"
BELOW_PLATE = {"new": Target("red cup"), "position": "below", "reference": Target("plate")}
ACCEPTED = [
    ("Make the red cup blue.", one("color_alter", RED_CUP, value="blue")),
    ("Make the red cup on the table blue.", one("color_alter", ON_TABLE, value="blue")),
    (
        "Please turn the second car from the left into a bicycle, without changing the background.",
        one("subject_replace", SECOND_CAR, **NEW_CAR),
    ),
    (
        "Remove both dogs and add a small cat next to the tree",
        EditPlan((BOTH_DOGS, op("subject_add", new=BESIDE_TREE))),
    ),
    ("Make it look like a watercolor painting", one("style", value="watercolor painting")),
    (SMILE, one("expression", WOMAN, "Make the woman smile", KEEP_HER, value="smile")),
    (
        "Make the lake frozen so that people can skate on it",
        one("attribute", Target("lake"), value="frozen", questions=SKATE),
    ),
    ('Write "SALE 50%" on the sign in the top left corner', one("text_change", CORNER, text="SALE 50%")),
    (
        "Move the lamp to the right of the sofa and resize it to half its size",
        EditPlan((TO_SOFA, op("resize", LAMP, value="half its size"))),
    ),
    (f"{FLAGS}.", one("extraction", YACHT, FLAGS)),
    ("Hi, could you please remove the dog? Many thanks in advance!", one("subject_remove", DOG)),
    ("Remove the fog", one("weather", value="without fog")),
    ("Crop out the dog on the left", one("subject_remove", Target("dog", place="left"))),
    ("Give her a pair of sunglasses", one("subject_add", new=Target("sunglasses"))),
    (FLOOD, one("reasoning", words=FLOOD)),
    ("把杯子变成蓝色", one("color_alter", CUP, value="blue", language="zh")),
    ("Füge 3 Vögel hinzu", one("subject_add", new=Target("bird", quantity=3), language="de")),
    (MADE_GREY, one("color_alter", Target("wall", ("colored",)), value="gray")),
    (SECOND_PICTURE, one("subject_add", words=SECOND_PICTURE, **BELOW_PLATE)),
]


@pytest.mark.parametrize(("instruction", "accepted"), ACCEPTED, ids=[instruction for instruction, _ in ACCEPTED])
def test_a_plan_that_accounts_for_the_sentence_passes(instruction, accepted):
    assert not plan_problems(accepted, instruction)


LEFT_OUT, TRUE, BOTH, OWN = "accounts for", "changes nothing", "keep one of the two", "asks for something of its own"
HAIR = "Make the woman smile, keep her hair unchanged"
FENCE = "Remove the dog without touching the fence"
FROZEN = "Make the lake frozen so that people can skate"
WINTER = "Make it winter and remove the car"
THEN_CAT = "Remove the dog, then place a cat there"
BLACK = op("color_alter", DOG, value="black")
RED, BLUE = (op("color_alter", CUP, value=value) for value in ("red", "blue"))
REJECTED = [
    ("Make the red cup on the table blue", one("color_alter", RED_CUP, value="blue"), LEFT_OUT, "table"),
    ("Remove both dogs", one("subject_remove", DOG), LEFT_OUT, "both"),
    ("Add 3 birds", one("subject_add", new=Target("birds")), LEFT_OUT, "3"),
    ("Add a lamp on the left", one("subject_add", new=LAMP), LEFT_OUT, "left"),
    ('Write "OPEN" on the door', one("text_change", Target("door"), text="SHUT"), LEFT_OUT, '"OPEN"'),
    ("加“你好”", one("text_change", text="hello", language="zh"), LEFT_OUT, '"你好"'),
    ("Füge 3 Vögel hinzu", one("subject_add", new=Target("bird"), language="de"), LEFT_OUT, "3"),
    ("Make the red cup red", one("color_alter", RED_CUP, value="red"), TRUE, "red"),
    ("Make the red cup red", one("color_alter", Target("red cup"), value="red"), TRUE, "red"),
    ("Replace the cup with a cup", one("subject_replace", CUP, new=CUP), TRUE, "cup"),
    ("Remove the cup but keep the cup", one("subject_remove", CUP, keep=[Kept("object", CUP)]), BOTH, "cup"),
    ("Remove the dog and make the dog black", EditPlan((op("subject_remove", DOG), BLACK)), BOTH, "dog"),
    ("Make the cup red and the cup blue", EditPlan((RED, BLUE)), BOTH, "cup"),
    (
        "Change the background to snow and keep the background",
        one("background_change", value="snow", keep=[Kept("background")]),
        *(BOTH, "background"),
    ),
    (HAIR, one("expression", WOMAN, HAIR, value="smile"), OWN, "keep her hair unchanged"),
    (FENCE, one("subject_remove", DOG), OWN, FENCE.lower()),
    (FROZEN, one("attribute", Target("lake"), FROZEN, value="frozen"), OWN, FROZEN.lower()),
    (WINTER, one("other", words=WINTER), OWN, "remove the car"),
    ("Make the cup red and rotate the cup", EditPlan((RED,)), OWN, "rotate the cup"),
    (
        "Make it winter and include a snowman",
        one("weather", words="Make it winter", value="winter"),
        *(LEFT_OUT, "snowman"),
    ),
    (
        "Make the woman older, including a red hat",
        one("attribute", WOMAN, "Make the woman older", value="older"),
        *(LEFT_OUT, "red hat"),
    ),
    (THEN_CAT, one("subject_remove", DOG, THEN_CAT), OWN, "place a cat there"),
]


@pytest.mark.parametrize(("instruction", "rejected", "kind", "words"), REJECTED)
def test_a_plan_that_leaves_something_out_is_rejected_with_the_words(instruction, rejected, kind, words):
    problems = plan_problems(rejected, instruction)
    assert any(problem.words == words and kind in problem.message for problem in problems)
    assert all(problem.words in problem.message for problem in problems)


@pytest.mark.parametrize("verb", ["darkening", "softening", "copying", "modifying", "applying", "rendering"])
def test_a_form_of_a_verb_whose_stem_is_another_is_a_request_of_its_own(verb):
    assert plan_problems(one("subject_add", new=Target("hat")), f"Add a hat, {verb} the sky")


LIGHT = one("color_alter", Target("traffic light", ("old",)), value="blue")


@pytest.mark.parametrize(
    ("plan", "instruction", "unnamed"),
    [
        (LIGHT, "Make the light blue", ()),
        (LIGHT, "Make it blue", ("old traffic light",)),
        (one("subject_remove", Target("lid", boxes=(Box(0.5, 0.5, 0.1, 0.1),))), "Remove it", ()),
        (one("subject_add", new=CUP, position="left", reference=DOG, language="zh"), "加一个杯子", ()),
        (one("subject_remove", CUP, language="zh"), "去掉杯子", ("cup",)),
    ],
)
def test_objects_that_the_sentence_does_not_name_are_for_the_detector(plan, instruction, unnamed):
    assert unnamed_objects(plan, instruction) == unnamed


def test_golden_and_compound_instructions_pass_and_no_operation_can_be_left_out():
    sentences = [json.loads(line)["instruction"] for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    plans = [(plan_of_task(task, text), text) for text in sentences if (task := parse_task(text)) is not None]
    assert len(plans) > 2000
    assert not [text for plan, text in plans if plan_problems(plan, text) or unnamed_objects(plan, text)]
    for case in compound_cases(16, seed=2, split="train"):
        whole = plan_of_operations(case.sample.operations)
        assert not plan_problems(whole, case.sample.instruction)
        if len(whole.operations) > 1:
            assert plan_problems(replace(whole, operations=whole.operations[:-1]), case.sample.instruction)


@given(PLANS, st.text(alphabet="aZ é杯'\"“”,.;and keep without3", max_size=200))
def test_any_plan_of_any_sentence_is_validated(any_plan, instruction):
    assert plan_problems(any_plan, instruction) == plan_problems(any_plan, instruction)
    unnamed_objects(any_plan, instruction)


@pytest.mark.parametrize("part", ["'", '"', "a' ", "and add ", "keep a, ", "“", "a b ", "\t \n", "é", "so that "])
def test_long_instructions_take_little_time_and_longer_ones_are_refused(part):
    the_plan = EditPlan((op("other", words="x " * 900),) * 16)
    start = time.perf_counter()
    plan_problems(the_plan, (part * 4000)[:3999])
    assert time.perf_counter() - start < 5
    (refused,) = plan_problems(the_plan, "x " * 3000)
    assert "shorten it" in refused.message


@pytest.mark.parametrize(
    ("sentence", "plain", "quoted"),
    [
        ("Add text 'MEOW' on the image", "Add text   on the image", ["MEOW"]),
        ("Don't write 'DON'T' on Ann's cup", "Don't write   on Ann's cup", ["DON'T"]),
        ('"Change the color of cup to red"', "Change the color of cup to red", []),
        ("写“你好”和「再见」", "写 和 ", ["你好", "再见"]),
        ('an open " quote', 'an open " quote', []),
    ],
)
def test_quoted_texts_are_told_from_apostrophes(sentence, plain, quoted):
    assert split_quotes(sentence) == (plain, quoted)


FORMS = ["cups cup", "berries berry", "running run", "making make", "coloured color", "boxes box"]


@pytest.mark.parametrize("forms", FORMS)
def test_forms_of_a_word_have_one_stem(forms):
    assert len(set(map(stem, forms.split()))) == 1


PLURALS = ["skiers", "people", "wine glass bottles", "cups of tea", "geese", "boxes", "young men", "red text"]
SINGULARS = ["skier", "bus", "glass", "scissors", "cup of beans", "iris", "sunglasses", "canvas", "gas"]


def test_plurals():
    assert list(filter(is_plural, PLURALS + SINGULARS)) == PLURALS


@pytest.mark.parametrize(
    ("target", "quantity"),
    [
        (Target("boats", place="left"), "all"),
        (Target("boats", relation=Relation("on", Target("lake"))), "all"),
        (Target("boat", place="left"), 1),
        (Target("boats"), 1),  # all of them anyway
        (Target("boats", place="left", quantity=2), 2),
        (Target("boats", place="left", quantity="both"), "both"),
        (Target("boats", size="largest"), 1),
        (Target("boats", order=2, order_from="left"), 1),
    ],
)
def test_the_number_that_is_meant_also_of_what_a_target_relates_to(target, quantity):
    (operation,) = with_plurals(one("subject_remove", target)).operations
    assert operation.target == replace(target, quantity=quantity)
    (operation,) = with_plurals(one("subject_remove", Target("cup", relation=Relation("on", target)))).operations
    assert operation.target == Target("cup", relation=Relation("on", replace(target, quantity=quantity)))
