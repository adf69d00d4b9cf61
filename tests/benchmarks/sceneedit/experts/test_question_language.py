"""SceneJudge's own questions can be read back; words it does not know are never guessed at."""

import json

import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.compound_requests import composition_cases, compound_cases
from editcritic.benchmarks.sceneedit.experts import question_language
from editcritic.benchmarks.sceneedit.experts.edit_comparison import EditComparison, EditComparisonCache
from editcritic.benchmarks.sceneedit.experts.instruction_parser import UnanswerableError, parse_instruction
from editcritic.benchmarks.sceneedit.experts.judge import SceneJudge
from editcritic.benchmarks.sceneedit.experts.perception import PerceptionCache
from editcritic.reward import EditSample
from editcritic.reward.queries import Abstention, FreeText, Judge, Message, Reply, YesNo
from editcritic.reward.queries.response_formats import Json, ResponseFormat

PAIRS = EditComparisonCache(PerceptionCache())
JUDGE = SceneJudge()
LISTS = Json.from_schema({"type": "array"})


def pair(sample: EditSample) -> EditComparison:
    return PAIRS.get(sample.sources, sample.edited, sample.instruction)


def reply_text(topic: str, form: ResponseFormat, sample: EditSample, **slots: str) -> str:
    all_slots = {"instruction": sample.instruction, **slots}
    message = Message((*sample.sources, sample.edited, "?"))
    (answer,) = JUDGE([Judge((message,), form, f"i2i/{topic}", tuple(all_slots.items()))])
    assert isinstance(answer, Reply), answer
    return answer.text


def test_every_question_it_writes_is_one_it_can_answer():
    edits = [*cases(45), *compound_cases(16), *composition_cases(10)]
    for case in edits:
        before = PAIRS.get(case.sample.sources, case.sample.source, case.sample.instruction)
        writers = [question_language.write_physics_questions, question_language.write_composition_questions]
        if len(case.sample.sources) > 1:
            writers += [question_language.write_transfer_questions, question_language.write_consistency_questions]
        for write in writers:
            written = write(before)
            assert 5 <= len(written) == len(set(written)) <= 7
            for question in written:
                assert 0.0 <= question_language.yes_probability(question, pair(case.sample)) <= 1.0


def test_questions_come_from_source_and_instruction_alone():
    case = cases(9)[0]
    before = PAIRS.get(case.sample.sources, case.sample.source, case.sample.instruction)
    again = PAIRS.get(case.sample.sources, case.sample.source, case.sample.instruction)
    assert question_language.write_physics_questions(before) == question_language.write_physics_questions(again)


@pytest.mark.parametrize(
    ("question", "yes"),
    [
        ("Is there one purple hippo?", None),
        ("Is it nice?", None),
        ("Is the background plaid?", None),
        ("Is there nothing that nobody asked for?", True),
        (question_language.LIGHT_QUESTION, True),
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
    with pytest.raises(UnanswerableError):
        parse_instruction(instruction)


def test_instructions_are_read_as_they_are_meant():
    for case in (*cases(27), *compound_cases(24), *composition_cases(10)):
        sample = case.sample
        tasks = [operation.task for operation in sample.operations] or [sample.task]
        read = [wish.task for wish in parse_instruction(sample.instruction)]
        assert [(task.type, task.object, task.new, task.reference) for task in read] == [
            (task.type, task.object, task.new, task.reference) for task in tasks if task is not None
        ]


# -- commands ---------------------------------------------------------------------------------------------------------


def test_commands_name_what_was_made_what_was_left_and_what_was_taken():
    case = next(case for case in cases(40, small_share=0.0) if case.task == "color_alter" and not case.mode)
    assert case.after is not None
    (changed,) = (obj for obj in case.after.objects if obj.id in {1, 2, 3, 4, 5, 6, 7, 8} and _new(case, obj.id))
    assert reply_text("segment_edited", FreeText(), case.sample) == f"Please segment the {changed.name}"
    others = json.loads(reply_text("segment_unchanged", LISTS, case.sample))
    assert f"Please segment the {changed.name}" not in others
    assert len(others) >= 1
    both = next(case for case in composition_cases(10) if not case.mode)
    task = both.sample.task
    assert task is not None
    taken = json.loads(reply_text("segment_details_multi", LISTS, both.sample))
    assert taken == [{"source_index": 1, "segmentation_prompt": f"Please segment the {task.new}"}]
    kept = json.loads(reply_text("segment_preserved_multi", LISTS, both.sample))
    assert {one["source_index"] for one in kept} == {0}


def _new(case, number):
    before = case.before.object_by_id(number)
    return before is not None and before.colour != case.after.object_by_id(number).colour
