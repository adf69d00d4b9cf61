"""SceneJudge's own questions can be read back; words it does not know are never guessed at."""

import json

import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.compositions import composition_cases
from editcritic.benchmarks.sceneedit.compounds import compound_cases
from editcritic.benchmarks.sceneedit.experts import questions
from editcritic.benchmarks.sceneedit.experts.judge import SceneJudge
from editcritic.benchmarks.sceneedit.experts.pairs import Pair, Pairs
from editcritic.benchmarks.sceneedit.experts.sights import Looker
from editcritic.benchmarks.sceneedit.experts.wishes import Unknown, wishes
from editcritic.reward import Abstention, EditSample, FreeText, Judge, Message, Reply, YesNo
from editcritic.reward.forms import Form, Json

PAIRS = Pairs(Looker())
JUDGE = SceneJudge()
LISTS = Json.of({"type": "array"})


def pair(sample: EditSample) -> Pair:
    return PAIRS.of(sample.sources, sample.edited, sample.instruction)


def said(topic: str, form: Form, sample: EditSample, **slots: str) -> str:
    asked = {"instruction": sample.instruction, **slots}
    message = Message((*sample.sources, sample.edited, "?"))
    (answer,) = JUDGE([Judge((message,), form, f"i2i/{topic}", tuple(asked.items()))])
    assert isinstance(answer, Reply), answer
    return answer.text


def test_every_question_it_writes_is_one_it_can_answer():
    found = [*cases(45), *compound_cases(16), *composition_cases(10)]
    for case in found:
        before = PAIRS.of(case.sample.sources, case.sample.source, case.sample.instruction)
        writers = [questions.about_physics, questions.about_composition]
        if len(case.sample.sources) > 1:
            writers += [questions.about_transfer, questions.about_consistency]
        for write in writers:
            written = write(before)
            assert 5 <= len(written) == len(set(written)) <= 7
            for question in written:
                assert 0.0 <= questions.answer(question, pair(case.sample)) <= 1.0


def test_questions_come_from_source_and_instruction_alone():
    case = cases(9)[0]
    before = PAIRS.of(case.sample.sources, case.sample.source, case.sample.instruction)
    again = PAIRS.of(case.sample.sources, case.sample.source, case.sample.instruction)
    assert questions.about_physics(before) == questions.about_physics(again)


@pytest.mark.parametrize(
    ("question", "yes"),
    [
        ("Is there one purple hippo?", None),
        ("Is it nice?", None),
        ("Is the background plaid?", None),
        ("Is there nothing that nobody asked for?", True),
        (questions.LIGHT, True),
    ],
)
def test_unknown_words_are_abstained_on(question, yes):
    case = next(case for case in cases(30) if not case.mode and case.task == "color_alter")
    message = Message((case.sample.source, case.sample.edited, "?"))
    slots = (("instruction", case.sample.instruction), ("question", question))
    (answer,) = JUDGE([Judge((message,), YesNo(), "i2i/answer", slots)])
    if yes is None:
        assert isinstance(answer, Abstention)
    else:
        assert isinstance(answer, Reply)
        assert answer.text == "yes"


@pytest.mark.parametrize(
    "instruction",
    ["Make it nicer", "Remove the dog", "Remove red circle and sing", "Change the color of red circle to plaid", ""],
)
def test_instructions_it_does_not_understand_are_unknown(instruction):
    with pytest.raises(Unknown):
        wishes(instruction)


def test_instructions_are_read_as_they_are_meant():
    for case in (*cases(27), *compound_cases(24), *composition_cases(10)):
        sample = case.sample
        asked = [operation.task for operation in sample.operations] or [sample.task]
        read = [wish.task for wish in wishes(sample.instruction)]
        assert [(task.type, task.object, task.new, task.reference) for task in read] == [
            (task.type, task.object, task.new, task.reference) for task in asked if task is not None
        ]


# -- commands ---------------------------------------------------------------------------------------------------------


def test_commands_name_what_was_made_what_was_left_and_what_was_taken():
    case = next(case for case in cases(40, small=0.0) if case.task == "color_alter" and not case.mode)
    assert case.after is not None
    (changed,) = (thing for thing in case.after.things if thing.id in {1, 2, 3, 4, 5, 6, 7, 8} and _new(case, thing.id))
    assert said("segment_edited", FreeText(), case.sample) == f"Please segment the {changed.name}"
    others = json.loads(said("segment_unchanged", LISTS, case.sample))
    assert f"Please segment the {changed.name}" not in others
    assert len(others) >= 1
    both = next(case for case in composition_cases(10) if not case.mode)
    task = both.sample.task
    assert task is not None
    taken = json.loads(said("segment_details_multi", LISTS, both.sample))
    assert taken == [{"source_index": 1, "segmentation_prompt": f"Please segment the {task.new}"}]
    kept = json.loads(said("segment_preserved_multi", LISTS, both.sample))
    assert {one["source_index"] for one in kept} == {0}


def _new(case, number):
    before = case.before.get(number)
    return before is not None and before.colour != case.after.get(number).colour
