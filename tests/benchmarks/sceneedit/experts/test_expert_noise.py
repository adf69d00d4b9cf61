"""Noise on answers is the same every time, grows with its level, and leaves alone what it is not about."""

import json
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.experts.expert_noise import CachingExpert, NoisyExpert, perturb_reply
from editcritic.reward import Box, Expert, Image
from editcritic.reward.metrics.dlebench.conversation import CONSISTENCY, FOLLOWING
from editcritic.reward.queries import (
    Abstention,
    Detect,
    Detections,
    Differ,
    Failure,
    FreeText,
    Judge,
    Mask,
    Measurement,
    Message,
    Rate,
    ReadText,
    RecognizedText,
    Reply,
    Segment,
    YesNo,
)
from editcritic.reward.queries.answers import Outcome, TextLine
from editcritic.reward.queries.kinds import Query
from editcritic.reward.queries.response_formats import Grade, Json, Levels, ResponseFormat, validate_reply

MANY = 400
PICTURES = [Image.from_digest(f"{number:064x}", (8, 8)) for number in range(MANY)]
DETECTS = [Detect(picture, ("cup",)) for picture in PICTURES]
JUDGES = [Judge((Message(("Is it blue?", picture)),), YesNo()) for picture in PICTURES]
READS = [ReadText(picture) for picture in PICTURES]

STRONG, OTHER, WEAK = (Box(0.5, 0.5, 0.2, 0.2, score, "cup") for score in (0.95, 0.6, 0.1))


class Says(Expert):
    """Answers every question of a kind with the same; counts the questions."""

    id = "says"
    kinds = (Detect, Judge, ReadText, Differ, Rate, Segment)
    batch = 7

    def __init__(self, answer: Outcome) -> None:
        self.answer, self.seen, self.loaded = answer, list[str](), False

    def load(self) -> None:
        self.loaded = True

    def rewrite_query(self, query: Query[Any], sample: object) -> Abstention:
        return Abstention("adapted")

    def __call__(self, queries: Sequence[Any]) -> list[Outcome]:
        self.seen += [query.digest for query in queries]
        return [self.answer] * len(queries)


def noisy(answer: Outcome, queries: Sequence[Any], **noise: Any) -> list[Any]:
    answers = NoisyExpert(Says(answer), **noise)(queries)
    for query, outcome in zip(queries, answers, strict=True):
        query.check(outcome)
    return answers


def near(share, probability):
    return abs(share - probability) < 4 * (probability * (1 - probability) / MANY) ** 0.5


def test_a_missed_detection_falls_below_the_threshold_and_the_order_stays():
    answers = noisy(Detections((STRONG, OTHER, WEAK)), DETECTS, misses=0.3)
    for place in (0, 1):
        assert near(np.mean([answer.boxes[place].score < 0.25 for answer in answers]), 0.3)
    assert all(answer.boxes[2] == WEAK for answer in answers)
    (both,) = {answer.boxes for answer in answers if all(box.score < 0.25 for box in answer.boxes)}
    assert both[0].score > both[1].score
    assert noisy(Detections((STRONG,), 0.25), DETECTS[:1], misses=1.0) == [Detections((), 0.25)]  # below its floor


@pytest.mark.parametrize("boxes", [(STRONG, WEAK), ()])
def test_false_alarms_rise_from_a_weak_guess_or_from_nowhere(boxes):
    answers = noisy(Detections(boxes), DETECTS, false_alarms=0.2)
    raised = [answer.boxes for answer in answers if answer.boxes != boxes]
    assert near(len(raised) / MANY, 0.2)
    assert all(0.4 <= risen[-1].score <= 0.9 and risen[-1].label == "cup" for risen in raised)
    if boxes:
        assert {(risen[0], risen[1].cx, len(risen)) for risen in raised} == {(STRONG, WEAK.cx, 2)}
    else:
        assert all(risen[0].x0 >= 0 and risen[0].y0 >= 0 and risen[0].x1 <= 1 and risen[0].y1 <= 1 for risen in raised)
        assert len({risen[0].cx for risen in raised}) == len(raised)


def test_turned_verdicts_change_their_words():
    answers = noisy(Reply("Yes.", {"yes": 0.8, "no": 0.2}), JUDGES, flips=0.25)
    assert near(np.mean([answer.text == "no" for answer in answers]), 0.25)
    assert {(one.text, round(one.probabilities["yes"], 9)) for one in answers} == {("Yes.", 0.8), ("no", 0.2)}
    # by its word, without probabilities
    assert NoisyExpert(Says(Reply("No.")), flips=1.0)(JUDGES[:1]) == [Reply("yes")]
    assert NoisyExpert(Says(Reply("cannot tell")), flips=1.0)(JUDGES[:1]) == [Reply("cannot tell")]


def test_bias_pulls_towards_yes():
    (reply,) = noisy(Reply("no", {"yes": 0.25, "no": 0.75}), JUDGES[:1], bias=0.5)
    assert reply == Reply("yes", {"yes": 0.625, "no": 0.375})
    (answer,) = noisy(Detections((STRONG, WEAK)), DETECTS[:1], bias=0.5)
    assert [box.score for box in answer.boxes] == pytest.approx([0.975, 0.55])


def test_a_misread_line_differs_in_one_letter():
    line = TextLine("NO EXIT", STRONG)
    answers = noisy(RecognizedText((line, line)), READS, flips=0.2)
    wrong = [read.text for answer in answers for read in answer.lines if read.text != line.text]
    assert near(len(wrong) / (2 * MANY), 0.2)
    assert all(sum(a != b for a, b in zip(text, line.text, strict=True)) == 1 and text[2] == " " for text in wrong)
    assert len({next(i for i in range(7) if text[i] != line.text[i]) for text in wrong}) == 6


@pytest.mark.parametrize(
    ("name", "queries", "answer"),
    [
        ("misses", DETECTS, Detections((STRONG, OTHER))),
        ("false_alarms", DETECTS, Detections((WEAK,))),
        ("flips", JUDGES, Reply("yes", {"yes": 0.9, "no": 0.1})),
        ("flips", READS, RecognizedText((TextLine("EXIT", STRONG),))),
    ],
)
def test_levels_are_nested_and_the_same_disturbance_comes_back(name, queries, answer):
    for lower, higher in pairwise(noisy(answer, queries, **{name: level}) for level in (0.05, 0.1, 0.2, 0.4)):
        changed = [place for place in range(MANY) if lower[place] != answer]
        assert changed
        if name == "misses":  # two boxes: another may be missed besides
            assert all(higher[place] != answer for place in changed)
        else:
            assert [lower[place] for place in changed] == [higher[place] for place in changed]


def test_order_and_batches_change_nothing_and_the_seed_does():
    noise: dict[str, Any] = {"misses": 0.3, "false_alarms": 0.3, "bias": 0.1}
    expert = NoisyExpert(Says(Detections((STRONG, WEAK))), seed=3, **noise)
    whole = expert(DETECTS)
    assert [expert([query])[0] for query in reversed(DETECTS)] == whole[::-1]
    assert noisy(Detections((STRONG, WEAK)), DETECTS, seed=4, **noise) != whole


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (DETECTS[0], Abstention("who could know")),
        (JUDGES[0], Failure("lost for words")),
        (Judge(JUDGES[0].messages, FreeText()), Reply("yes", {"yes": 0.9})),
        (Rate(PICTURES[0]), Measurement(0.5)),
        (Segment(PICTURES[0], "the cup"), Mask(np.ones((8, 8), bool))),
        (Differ(PICTURES[0], PICTURES[1]), Detections((STRONG,))),
    ],
)
def test_other_answers_pass_as_they_are(query, answer):
    assert NoisyExpert(Says(answer), misses=1, false_alarms=1, flips=1, bias=1)([query])[0] is answer


NOISE = "noise@2 misses=0.1 false_alarms=0.0 flips=0.0 bias=0.0 seed=5"


@pytest.mark.parametrize(
    ("wrap", "name"),
    [(CachingExpert, "says"), (partial(NoisyExpert, misses=0.1, seed=5), f"says + {NOISE}")],
)
def test_a_wrapper_is_like_what_it_wraps_and_its_id_says_how_it_errs(wrap, name):
    inner = Says(Measurement(0.5))
    outer = wrap(inner)
    assert (outer.id, outer.kinds, outer.batch) == (name, inner.kinds, 7)
    assert outer.rewrite_query(READS[0], None) == Abstention("adapted")
    outer.load()
    assert inner.loaded


@pytest.mark.parametrize("level", [-0.1, 1.1, float("nan")])
def test_a_level_that_is_no_chance_is_refused(level):
    with pytest.raises(ValueError, match=r"flips is .*: expected a probability between 0 and 1"):
        NoisyExpert(Says(Measurement(0.5)), flips=level)


# -- the cache --------------------------------------------------------------------------------------------------------


def test_nobody_is_asked_twice_for_what_is_remembered():
    memory = CachingExpert(inner := Says(Detections((STRONG,))))
    first = memory([DETECTS[0], *DETECTS[:3]])
    for level in (0.1, 0.2):
        NoisyExpert(memory, misses=level)(DETECTS[:5])
    assert (memory.query_count, memory.hit_count) == (14, 9)
    assert sorted(inner.seen) == sorted(query.digest for query in DETECTS[:5])
    assert memory(DETECTS[:4]) == first


def test_failures_are_not_remembered():
    memory = CachingExpert(inner := Says(Failure("lost for words")))
    assert memory(READS[:1]) == memory(READS[:1]) == [Failure("lost for words")]
    assert (len(inner.seen), memory.query_count, memory.hit_count) == (2, 2, 0)


# -- graded answers ---------------------------------------------------------------------------------------------------

FIVE = Levels(("excellent", "good", "fair", "poor", "bad"), (1.0, 0.75, 0.5, 0.25, 0.0))
SCORE = {"type": "integer", "minimum": 0, "maximum": 10}
ITEMS = {"type": "array", "items": {"type": "object", "properties": {"score": SCORE}}}
FIELDS = {"reasoning": {"type": "string"}, "items": ITEMS, "score": {**SCORE, "minimum": 1, "maximum": 5}}
GRADES = Json.from_schema({"type": "object", "properties": FIELDS})


def spoilt(form: ResponseFormat, reply: Reply, *, flipped=False, bias=0.0, biased=False) -> Reply:
    perturbed = perturb_reply(Judge((Message(("?",)),), form), reply, flipped, bias, biased)
    validate_reply(form, perturbed)
    return perturbed


def test_a_level_becomes_that_of_the_other_end():
    reply = Reply("good", {"excellent": 0.2, "good": 0.6, "fair": 0.2, "poor": 0.0, "bad": 0.0})
    turned = spoilt(FIVE, reply, flipped=True)
    assert turned.text == "poor"
    assert FIVE.reply_value(turned) == pytest.approx(1 - FIVE.reply_value(reply))
    assert spoilt(FIVE, Reply("bad"), flipped=True).text == "excellent"


def test_bias_lifts_a_level_and_a_grade_towards_the_best():
    reply = Reply("bad", {"excellent": 0.0, "good": 0.0, "fair": 0.0, "poor": 0.0, "bad": 1.0})
    assert FIVE.reply_value(spoilt(FIVE, reply, bias=0.4)) == pytest.approx(0.4)
    assert [spoilt(FIVE, reply, bias=bias).text for bias in (0.4, 0.6)] == ["bad", "excellent"]
    drawn = Reply("3", {str(grade): float(grade == 3) for grade in range(11)})
    lifted = spoilt(Grade(0, 10, 1.0), drawn, bias=0.5, biased=True)
    assert lifted.text == "10"
    assert Grade().expected_value(lifted) == pytest.approx(6.5)
    assert spoilt(Grade(0, 10, 1.0), drawn, bias=0.5).text == "3"


@pytest.mark.parametrize(
    ("errors", "items", "score"),
    [
        ({"flipped": True}, [{"score": 1}, {"score": 10}], 4),
        ({"biased": True, "bias": 0.1}, [{"score": 10}, {"score": 10}], 5),
    ],
)
def test_all_grades_in_json_are_changed_each_on_its_scale(errors, items, score):
    reply = Reply(json.dumps({"reasoning": "4 of 5", "items": [{"score": 9}, {"score": 0}], "score": 2}))
    assert json.loads(spoilt(GRADES, reply, **errors).text) == {"reasoning": "4 of 5", "items": items, "score": score}


@pytest.mark.parametrize("scale", [FOLLOWING, CONSISTENCY])
def test_a_label_becomes_that_of_the_other_end(scale):
    for label, other in zip(scale.labels, reversed(scale.labels), strict=True):
        reply = Reply(f"<Start Thinking>{label}?</Start Thinking>\n<Start Final Answer>{label}</Start Final Answer>")
        text = spoilt(FreeText(), reply, flipped=True).text
        assert text.endswith(f"<Start Final Answer>{other}</Start Final Answer>")
        assert text.startswith(f"<Start Thinking>{label}?")
    reply = Reply(f"<Start Final Answer>{scale.labels[-1]}</Start Final Answer>")
    assert scale.labels[0] in spoilt(FreeText(), reply, bias=0.1, biased=True).text


@pytest.mark.parametrize(
    ("queries", "answer"),
    [(DETECTS, Detections((STRONG, OTHER, WEAK))), (JUDGES, Reply("Yes.", {"yes": 0.8, "no": 0.2}))],
)
def test_without_noise_answers_stay_as_they_are(queries, answer):
    assert noisy(answer, queries) == [answer] * MANY


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (FreeText(), "Please segment the red circle"),
        (Json.from_schema({"type": "array"}), '["Please segment the red circle"]'),
        (Json.from_schema({"type": "object"}), '{"questions": ["Is it 5?"]}'),
    ],
)
def test_what_a_judge_writes_is_left_alone(form, text):
    reply = Reply(text)
    assert spoilt(form, reply, flipped=True, bias=1.0, biased=True) is reply
