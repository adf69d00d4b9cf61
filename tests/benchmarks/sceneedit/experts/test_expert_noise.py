"""Noise on answers is the same every time, grows with its level, and leaves alone what it is not about."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.experts.expert_noise import CachingExpert, NoisyExpert
from editcritic.reward import Box, Expert, Image
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
from editcritic.reward.queries.kinds import Outcome, Query, TextLine

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

    def __init__(self, *answers: Outcome) -> None:
        self.answers = {type(answer): answer for answer in answers}
        self.seen: list[str] = []
        self.loaded = False

    def load(self) -> None:
        self.loaded = True

    def rewrite_query(self, query: Query[Any], sample: object) -> Abstention:
        return Abstention("adapted")

    def __call__(self, queries: Sequence[Any]) -> list[Outcome]:
        self.seen += [query.digest for query in queries]
        (answer,) = self.answers.values()
        return [answer] * len(queries)


def noisy_detections(boxes, **noise) -> list[Detections]:
    answers = NoisyExpert(Says(Detections(boxes)), **noise)(DETECTS)
    assert all(isinstance(answer, Detections) for answer in answers)
    for query, answer in zip(DETECTS, answers, strict=True):
        query.check(answer)
    return answers  # type: ignore[return-value]


def near(share, probability):
    return abs(share - probability) < 4 * (probability * (1 - probability) / MANY) ** 0.5


def test_a_missed_detection_falls_below_the_threshold_and_the_order_stays():
    answers = noisy_detections((STRONG, OTHER, WEAK), misses=0.3)
    lost = [answer.boxes[0].score < 0.25 for answer in answers]
    assert near(np.mean(lost), 0.3)
    assert near(np.mean([answer.boxes[1].score < 0.25 for answer in answers]), 0.3)
    assert all(answer.boxes[2] == WEAK for answer in answers)
    (both,) = {answer.boxes for answer in answers if all(box.score < 0.25 for box in answer.boxes)}
    assert both[0].score > both[1].score


def test_what_is_below_the_detectors_floor_is_gone():
    (answer,) = NoisyExpert(Says(Detections((STRONG,), 0.25)), misses=1.0)(DETECTS[:1])
    assert answer == Detections((), 0.25)


@pytest.mark.parametrize("boxes", [(STRONG, WEAK), ()])
def test_false_alarms_rise_from_a_weak_guess_or_from_nowhere(boxes):
    answers = noisy_detections(boxes, false_alarms=0.2)
    raised = [answer.boxes for answer in answers if answer.boxes != boxes]
    assert near(len(raised) / MANY, 0.2)
    assert all(0.4 <= risen[-1].score <= 0.9 and risen[-1].label == "cup" for risen in raised)
    if boxes:
        assert {(risen[0], risen[1].cx, len(risen)) for risen in raised} == {(STRONG, WEAK.cx, 2)}
    else:
        assert all(risen[0].x0 >= 0 and risen[0].y0 >= 0 and risen[0].x1 <= 1 and risen[0].y1 <= 1 for risen in raised)
        assert len({risen[0].cx for risen in raised}) == len(raised)


def test_turned_verdicts_change_their_words():
    answers = NoisyExpert(Says(Reply("Yes.", {"yes": 0.8, "no": 0.2})), flips=0.25)(JUDGES)
    turned = [answer.text == "no" for answer in answers if isinstance(answer, Reply)]
    assert near(np.mean(turned), 0.25)
    assert {(a.text, round(a.probabilities["yes"], 9)) for a in answers if isinstance(a, Reply)} == {
        ("Yes.", 0.8),
        ("no", 0.2),
    }


def test_a_verdict_without_probabilities_is_turned_by_its_word():
    assert NoisyExpert(Says(Reply("No.")), flips=1.0)(JUDGES[:1]) == [Reply("yes")]
    assert NoisyExpert(Says(Reply("cannot tell")), flips=1.0)(JUDGES[:1]) == [Reply("cannot tell")]


def test_bias_pulls_towards_yes():
    (reply,) = NoisyExpert(Says(Reply("no", {"yes": 0.25, "no": 0.75})), bias=0.5)(JUDGES[:1])
    assert reply == Reply("yes", {"yes": 0.625, "no": 0.375})
    (answer,) = NoisyExpert(Says(Detections((STRONG, WEAK))), bias=0.5)(DETECTS[:1])
    assert isinstance(answer, Detections)
    assert [box.score for box in answer.boxes] == pytest.approx([0.975, 0.55])


def test_a_misread_line_differs_in_one_letter():
    line = TextLine("NO EXIT", STRONG)
    answers = NoisyExpert(Says(RecognizedText((line, line))), flips=0.2)(READS)
    texts = [read.text for answer in answers if isinstance(answer, RecognizedText) for read in answer.lines]
    wrong = [text for text in texts if text != line.text]
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
    levels: list[dict[str, Any]] = [{name: level} for level in (0.05, 0.1, 0.2, 0.4)]
    for lower, higher in pairwise(NoisyExpert(Says(answer), **level)(queries) for level in levels):
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
    assert NoisyExpert(Says(Detections((STRONG, WEAK))), seed=4, **noise)(DETECTS) != whole


MEASURED, MASK = Measurement(0.5), Mask(np.ones((8, 8), bool))


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (DETECTS[0], Abstention("who could know")),
        (JUDGES[0], Failure("lost for words")),
        (Judge(JUDGES[0].messages, FreeText()), Reply("yes", {"yes": 0.9})),
        (Rate(PICTURES[0]), MEASURED),
        (Segment(PICTURES[0], "the cup"), MASK),
        (Differ(PICTURES[0], PICTURES[1]), Detections((STRONG,))),
    ],
)
def test_other_answers_pass_as_they_are(query, answer):
    assert NoisyExpert(Says(answer), misses=1, false_alarms=1, flips=1, bias=1)([query])[0] is answer


def test_without_noise_answers_stay_as_they_are():
    assert noisy_detections((STRONG, OTHER, WEAK)) == [Detections((STRONG, OTHER, WEAK))] * MANY
    reply = Reply("Yes.", {"yes": 0.8, "no": 0.2})
    assert NoisyExpert(Says(reply))(JUDGES) == [reply] * MANY


def test_a_wrapper_is_like_what_it_wraps_and_its_id_says_how_it_errs():
    inner = Says(MEASURED)
    noisy, same = NoisyExpert(inner, misses=0.1, seed=5), CachingExpert(inner)
    for outer in (noisy, same):
        assert (outer.kinds, outer.batch, outer.rewrite_query(READS[0], None)) == (
            inner.kinds,
            7,
            Abstention("adapted"),
        )
        inner.loaded = False
        outer.load()
        assert inner.loaded
    assert same.id == "says"
    assert noisy.id == "says + noise@2 misses=0.1 false_alarms=0.0 flips=0.0 bias=0.0 seed=5"


@pytest.mark.parametrize("level", [-0.1, 1.1, float("nan")])
def test_a_level_that_is_no_chance_is_refused(level):
    with pytest.raises(ValueError, match=r"flips is .*: expected a probability between 0 and 1"):
        NoisyExpert(Says(MEASURED), flips=level)


def test_nobody_is_asked_twice_for_what_is_remembered():
    inner = Says(Detections((STRONG,)))
    memory = CachingExpert(inner)
    first = memory(DETECTS[:3])
    for level in (0.1, 0.2):
        NoisyExpert(memory, misses=level)(DETECTS[:5])
    assert (memory.query_count, memory.hit_count) == (13, 8)
    assert sorted(inner.seen) == sorted(query.digest for query in DETECTS[:5])
    assert memory(DETECTS[:3]) == first


def test_a_question_asked_twice_in_a_batch_goes_on_once():
    inner = Says(Detections((STRONG,)))
    assert CachingExpert(inner)([DETECTS[0], DETECTS[1], DETECTS[0]]) == [Detections((STRONG,))] * 3
    assert len(inner.seen) == 2


def test_failures_are_not_remembered():
    memory = CachingExpert(inner := Says(Failure("lost for words")))
    assert memory(READS[:1]) == memory(READS[:1]) == [Failure("lost for words")]
    assert (len(inner.seen), memory.query_count, memory.hit_count) == (2, 2, 0)
