"""JudgeRater: a judge's reply becomes a rating or a failure; usage and memory are the judge's."""

import asyncio
from typing import ClassVar

import pytest

from editcritic.reward import Expert, Reward
from editcritic.reward.config import build
from editcritic.reward.experts.judge_adapters import JudgeRater
from editcritic.reward.queries import (
    Abstention,
    AsyncExpert,
    ExpertDown,
    Failure,
    Judge,
    Measurement,
    Message,
    Rate,
    Reply,
)
from editcritic.reward.queries.response_formats import FreeText
from editcritic.reward.queries.specs import SpecError, spec_of

from ...fakes import Fake, Rated, picture, sample

PICTURES = [picture(n) for n in range(5)]


class Rater(JudgeRater):
    """Uses Q-Insight's prompts, and parses the text as a number."""

    quality = "charm"
    scale = (0.0, 10.0)
    topics: ClassVar[tuple[str, ...]] = ("q_insight",)

    def __init__(self, judge, *, prompts=None, draws=1, temperature=0.0):
        super().__init__(judge, prompts=prompts, draws=draws, temperature=temperature)

    def make_query(self, image):
        return Judge((Message((image, self.texts["q_insight"])),), FreeText(temperature=self.temperature))

    def parse_rating(self, reply):
        return float(reply.text)


def by_picture(query):
    """The number of the query's image, plus a tenth for each draw."""
    return Reply(str(PICTURES.index(query.images[0]) + query.draw / 10))


def rate(image, **other):
    return Rate(image, quality="charm", **other)


def test_ratings_come_in_the_order_of_the_questions():
    outcomes = Rater(Fake(by_picture))([rate(PICTURES[n]) for n in (3, 0, 4)])
    assert outcomes == [Measurement(3.0), Measurement(0.0), Measurement(4.0)]


def test_a_picture_is_asked_about_once_whatever_else_the_queries_say():
    judge = Fake(by_picture)
    outcomes = Rater(judge)(
        [rate(PICTURES[1]), rate(PICTURES[1], prompt="a hat"), rate(PICTURES[1], sources=(PICTURES[2],))]
    )
    assert outcomes == [Measurement(1.0)] * 3
    assert judge.seen.total() == 1


def test_the_rating_is_the_mean_of_its_draws():
    judge = Fake(by_picture)
    (outcome,) = Rater(judge, draws=4, temperature=1.0)([rate(PICTURES[2])])
    assert isinstance(outcome, Measurement)
    assert outcome.value == pytest.approx(2.15)
    assert len(judge.seen) == 4


def test_the_judge_is_given_no_more_questions_than_it_takes():
    judge = Fake(by_picture, batch=4)
    rater = Rater(judge, draws=3, temperature=1.0)
    assert rater.batch == 1
    rater([rate(image) for image in PICTURES])
    assert max(judge.calls) == 4
    assert sum(judge.calls) == 15


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Failure("the judge refused", raw="I can't"), "the judge refused"),
        (Reply("lovely"), "could not convert"),
        (Reply("11"), "the scale is 0 to 10, got 11"),
        (Reply("-0.1"), "the scale is 0 to 10"),
        (Reply("nan"), "the scale is 0 to 10"),
        ("not even a reply", "expects Reply"),
    ],
)
def test_what_is_no_rating_is_a_failure_with_the_words(reply, reason):
    wrong, right = Rater(Fake(lambda query: by_picture(query) if query.images[0] == PICTURES[1] else reply))(
        [rate(PICTURES[0]), rate(PICTURES[1])]
    )
    assert isinstance(wrong, Failure)
    assert reason in wrong.reason
    assert wrong.raw == getattr(reply, "raw", getattr(reply, "text", ""))
    assert right == Measurement(1.0)


def test_one_draw_that_fails_fails_all_and_abstention_stays_abstention():
    answers = {0: Reply("5"), 1: Abstention("who could know"), 2: Failure("busy")}
    failing = Rater(Fake(lambda query: answers[query.draw]), draws=3, temperature=1.0)([rate(PICTURES[0])])
    assert failing == [Failure("busy")]
    abstaining = Rater(Fake(lambda query: answers[query.draw]), draws=2, temperature=1.0)([rate(PICTURES[0])])
    assert abstaining == [Abstention("who could know")]


def test_another_quality_is_not_rated():
    judge = Fake(by_picture)
    (outcome,) = Rater(judge)([Rate(PICTURES[0], quality="sharpness")])
    assert outcome == Failure("Rater rates charm only, got sharpness")
    assert not judge.seen


class Held(Fake):
    """A judge with weights in memory that records calls."""

    done: list[str]

    def __init__(self):
        super().__init__(by_picture, name="held@1", batch=7, deadline_s=30.0)
        self.done = []

    def load(self):
        self.done.append("load")

    def offload(self):
        self.done.append("offload")

    def unload(self):
        self.done.append("unload")

    @property
    def bytes(self):
        return {"cpu": 5}

    def usage(self):
        return {"forward_passes": 3}


def test_memory_work_and_limits_are_the_judges():
    judge = Held()
    rater = Rater(judge)
    rater.load()
    rater.offload()
    rater.unload()
    assert judge.done == ["load", "offload", "unload"]
    assert (rater.bytes, rater.usage()) == ({"cpu": 5}, {"forward_passes": 3})
    assert (rater.batch, rater.deadline_s) == (7, 30.0)
    plain = Rater(Fake())
    plain.offload()
    plain.unload()
    assert plain.bytes == {}


def test_the_id_holds_the_judges_and_all_that_changes_the_answers(tmp_path):
    (tmp_path / "q_insight.txt").write_text("How charming?", encoding="utf-8")
    judge = Held()
    raters = [Rater(judge), Rater(judge, prompts=str(tmp_path)), Rater(judge, draws=2, temperature=1.0), Rater(Fake())]
    ids = [rater.id for rater in raters]
    assert len(set(ids)) == 4
    assert ids[0].startswith("Rater@1 prompts=")
    assert ids[0].endswith(" of held@1")
    assert raters[1].make_query(PICTURES[0]).messages[0].content[-1] == "How charming?"


class Slow(AsyncExpert):
    id = "slow"
    kinds = (Judge,)
    concurrency = 3

    async def answer(self, query):
        await asyncio.sleep(0.001)
        return by_picture(query)


def test_a_judge_that_waits_for_a_server_is_asked_side_by_side_in_an_engine_too():
    class Liked(Rater):
        quality = "preference"

    scores = Reward(Rated(), {"preference": Liked(Slow())})(
        [sample(str(n), edited=image) for n, image in enumerate(PICTURES)]
    )
    assert scores.values == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_a_judge_that_is_down_takes_the_rater_along():
    class Down(Fake):
        def load(self):
            raise ExpertDown("no weights")

    with pytest.raises(ExpertDown, match="no weights"):
        Rater(Down()).load()


def test_the_judge_may_be_a_spec_and_the_rater_has_one():
    rater = Rater("colour")
    assert isinstance(rater.judge_expert, Expert)
    assert rater.judge_expert.id.startswith("colour")
    again = build(spec_of(rater), "editcritic.experts")
    assert again.id == rater.id
    table = build(
        {"use": "tests.reward.experts.judging.test_judge_rater:Rater", "judge": {"use": "colour"}}, "editcritic.experts"
    )
    assert table.id == rater.id


@pytest.mark.parametrize(
    ("judge", "options", "error", "message"),
    [
        ("pixels", {}, ValueError, "needs a judge, PixelFeatures answers"),
        ("no-such-judge", {}, SpecError, "no-such-judge"),
        (Fake(), {"draws": 0}, ValueError, "draws is 1 or more"),
        (Fake(), {"draws": 2}, ValueError, "set a temperature above 0"),
        (Fake(), {"temperature": float("nan")}, ValueError, "temperature 0 or more"),
        (Fake(), {"prompts": "nowhere"}, ValueError, "not a folder"),
    ],
)
def test_what_cannot_work_is_refused_at_once(judge, options, error, message):
    with pytest.raises(error, match=message):
        Rater(judge, **options)
