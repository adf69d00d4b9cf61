"""SceneJudge's own questions can be read back; words it does not know are never guessed at."""

import json
from typing import Any

import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.compound_requests import composition_cases, compound_cases
from editcritic.benchmarks.sceneedit.experts import question_language
from editcritic.benchmarks.sceneedit.experts.edit_comparison import EditComparisonCache
from editcritic.benchmarks.sceneedit.experts.judge import SceneJudge
from editcritic.benchmarks.sceneedit.experts.perception import PerceptionCache
from editcritic.reward import EditSample
from editcritic.reward.queries import Abstention, FreeText, Judge, Message, Reply, YesNo
from editcritic.reward.queries.response_formats import Json, ResponseFormat

LISTS = Json.from_schema({"type": "array"})


def ask(topic: str, form: ResponseFormat, sample: EditSample, **slots: str) -> Reply | Abstention:
    message = Message((*sample.sources, sample.edited, "?"))
    all_slots = {"instruction": sample.instruction, **slots}
    (answer,) = SceneJudge()([Judge((message,), form, f"i2i/{topic}", tuple(all_slots.items()))])
    return answer  # type: ignore[return-value]


def reply_text(topic: str, form: ResponseFormat, sample: EditSample) -> str:
    answer = ask(topic, form, sample)
    assert isinstance(answer, Reply), answer
    return answer.text


def test_every_question_it_writes_is_one_it_can_answer():
    pairs = EditComparisonCache(PerceptionCache())
    for case in (*cases(45), *compound_cases(16), *composition_cases(10)):
        sample = case.sample
        before = pairs.get(sample.sources, sample.source, sample.instruction)
        writers = [question_language.write_physics_questions, question_language.write_composition_questions]
        if len(sample.sources) > 1:
            writers += [question_language.write_transfer_questions, question_language.write_consistency_questions]
        for write in writers:
            written = write(before)
            assert 5 <= len(written) == len(set(written)) <= 7
            for question in written:
                pair = pairs.get(sample.sources, sample.edited, sample.instruction)
                assert 0.0 <= question_language.yes_probability(question, pair) <= 1.0


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Is there one purple hippo?", None),
        ("Is it nice?", None),
        ("Is the background plaid?", None),
        ("Is there nothing that nobody asked for?", "yes"),
        (question_language.LIGHT_QUESTION, "yes"),
    ],
)
def test_unknown_words_are_abstained_on(question, text):
    case = next(case for case in cases(30) if not case.mode and case.task == "color_alter")
    assert getattr(ask("answer", YesNo(), case.sample, question=question), "text", None) == text


def test_commands_name_what_was_made_what_was_left_and_what_was_taken():
    case: Any = next(case for case in cases(40, small_share=0.0) if case.task == "color_alter" and not case.mode)
    colours = {obj.id: obj.colour for obj in case.before.objects}
    (changed,) = (obj for obj in case.after.objects if colours.get(obj.id, obj.colour) != obj.colour)
    assert reply_text("segment_edited", FreeText(), case.sample) == f"Please segment the {changed.name}"
    others = json.loads(reply_text("segment_unchanged", LISTS, case.sample))
    assert f"Please segment the {changed.name}" not in others
    assert len(others) >= 1
    both: Any = next(case for case in composition_cases(10) if not case.mode).sample
    taken = json.loads(reply_text("segment_details_multi", LISTS, both))
    assert taken == [{"source_index": 1, "segmentation_prompt": f"Please segment the {both.task.new}"}]
    assert {one["source_index"] for one in json.loads(reply_text("segment_preserved_multi", LISTS, both))} == {0}
