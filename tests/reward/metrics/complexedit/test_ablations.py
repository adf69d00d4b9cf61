"""The cells of tables 1 and 2 and of section 4.1.4: what each asks, and what its answers are worth."""

import json

import pytest

from editcritic.reward.metrics.complexedit.metrics import (
    ComplexEditInstructionFollowing,
    ComplexEditOverall,
    PerceptualQuality,
)
from editcritic.reward.queries import Grade, Json, Reply, YesNo
from editcritic.reward.queries.response_formats import FreeText

from .scripted_judges import Heard, edit, numbers, scored


def told(query):
    """All that is said to the judge."""
    return "\n".join(part for message in query.messages for part in message.content if isinstance(part, str))


def temperature(query):
    return getattr(query.form, "temperature", None)


def answered(query):
    """7, in whatever form."""
    if not isinstance(query.form, Json):
        return Reply("7")
    names = json.loads(query.form.schema)["properties"]
    return Reply(json.dumps({name: "seen" if name == "reasoning" else 7 for name in names}))


@pytest.mark.parametrize("reasoning", [False, True])
@pytest.mark.parametrize("rubric", [False, True])
def test_the_grid_of_reasoning_and_rubric(reasoning, rubric):
    judge = Heard(answered)
    (score,) = scored(ComplexEditOverall(n=2, reasoning=reasoning, rubric=rubric), judge, edit())
    assert score.value == 7.0
    assert len(judge.queries) == 4, "two draws of the judgement that following and preservation share, two of quality"
    for query in judge.queries:
        reasons = isinstance(query.form, Json) and "reasoning" in json.loads(query.form.schema)["properties"]
        assert (reasons, "Reason first" in told(query)) == (reasoning, reasoning)
        assert ("The scale of" in told(query)) == rubric
        assert temperature(query) == 1.0
    alignment, quality = (next(q for q in judge.queries if q.topic.endswith(name)) for name in ("alignment", "quality"))
    assert "At 10 all the changes it asks for are there" in told(alignment), "the ends of the scale are no rubric"
    assert "10 stands for perfect harmony" in told(quality)


def test_the_default_is_the_best_cell_of_each_column():
    """Table 2: 0.468 and 0.530 with rubric and reasoning, 0.234 with rubric and without reasoning."""
    judge = Heard(answered)
    scored(ComplexEditOverall(n=1), judge, edit())
    assert [(type(query.form), "The scale of" in told(query)) for query in judge.queries] == [
        (Json, True),
        (Grade, True),
    ]


def test_deterministic_sampling_asks_once_at_temperature_nought():
    judge = Heard(answered)
    (score,) = scored(ComplexEditOverall(sampling="deterministic"), judge, edit())
    assert [(query.topic, temperature(query), query.draw) for query in judge.queries] == [
        ("complexedit/alignment", 0.0, 0),
        ("complexedit/quality", 0.0, 0),
    ]
    assert score.value == 7.0
    (failed,) = scored(PerceptualQuality(sampling="deterministic"), Heard(lambda query: Reply("well")), edit())
    assert (failed.status, "the deterministic measurement failed" in failed.reason) == ("failed", True)


def test_token_probability_after_reasoning_is_the_mean_over_the_reasonings():
    """Yes 0.9 and no 0.1 after one reasoning, 0.2 and 0.2 after the other: 10 x (0.9 + 0.5) / 2 = 7."""

    def rule(query):
        if isinstance(query.form, FreeText):
            return Reply(("It is all there.", "Half of it is.")[query.draw])
        first = query.messages[1].content == ("It is all there.",)
        return Reply("yes", {"yes": 0.9, "no": 0.1} if first else {"yes": 0.2, "no": 0.2})

    judge = Heard(rule)
    (score,) = scored(ComplexEditInstructionFollowing("token_probability", n=2, reasoning=True), judge, edit())
    assert score.value == pytest.approx(7.0)
    assert numbers(score, "measurements") == pytest.approx(
        {"mean": 0.7, "std": 0.2, "lowest": 0.5, "highest": 0.9, "n": 2}
    )
    reasons, decisions = judge.queries[:2], judge.queries[2:]
    assert all(temperature(query) == 1.0 and "yes or no" not in told(query) for query in reasons)
    for query in decisions:
        assert [message.role for message in query.messages] == ["user", "assistant", "user"]
        assert query.form == YesNo()
        assert query.messages[-1].content == ("Answer with one word: yes or no.",)


def test_quality_with_the_instruction_is_still_of_the_edited_picture_alone():
    judge, sample = Heard(answered), edit()
    scored(PerceptualQuality(n=1, instruction=True), judge, sample)
    scored(PerceptualQuality(n=1), judge, sample)
    assert [query.images for query in judge.queries] == [(sample.edited,)] * 2
    assert [sample.instruction in told(query) for query in judge.queries] == [True, False]
