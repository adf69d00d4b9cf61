"""QInsight: parses the rating after the reasoning, and nothing else."""

import numpy as np
import pytest

from editcritic.reward import Image, Reward
from editcritic.reward.config import build
from editcritic.reward.experts.judge_adapters import QInsight
from editcritic.reward.experts.vlm import Vlm
from editcritic.reward.metrics.i2ibench.overall import image_quality
from editcritic.reward.queries import Failure, Measurement, Rate, Reply
from editcritic.reward.queries.response_formats import FreeText, parse_reply
from editcritic.reward.queries.specs import spec_of

from ..fakes import Fake, sample
from .tiny_vlms import tiny_qwen2_5_vl

PICTURE = Image.of(np.random.default_rng(0).integers(0, 256, (60, 40, 3), dtype=np.uint8))
ASKED = Rate(PICTURE, quality="image quality")


def saying(text):
    """A judge with this reply, parsed as usual."""
    return Fake(lambda query: parse_reply(query.form, text), name="scripted")


def rated(text, **options):
    return QInsight(saying(text), **options)([ASKED])[0]


@pytest.mark.parametrize(
    ("text", "rating"),
    [
        ('<think>It is sharp, perhaps a 4.</think><answer>{"rating": 3.52}</answer>', 3.52),
        ('<think>\nSoft.\n</think>\n<answer>\n```json\n{\n "rating": 2\n}\n```\n</answer>', 2.0),
        ('{"rating": "4.10"}', 4.1),
        ('<think>Not {"rating": 1.0}, for the noise is weak.</think> {"rating": 5, "reason": "none"}', 5.0),
    ],
)
def test_the_rating_after_the_thoughts_is_read(text, rating):
    assert rated(text) == Measurement(rating)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<think>It is sharp, and", "truncated during reasoning"),
        ("<think>It is sharp.</think><answer>4</answer>", "not JSON"),
        ("I cannot rate pictures of people.", "not JSON"),
        ('<answer>{"rating": 5.5}</answer>', "the scale is 1 to 5, got 5.5"),
        ('<answer>{"rating": 0}</answer>', "the scale is 1 to 5, got 0"),
        ('<answer>{"rating": "very good"}</answer>', "'very good', which is no number"),
        ('<answer>{"score": 4}</answer>', "'rating' is a required property"),
        ('<answer>{"rating": 4}</answer> or {"rating": 3}', "2 different answers"),
        ('{"rating": true}', "is wrong"),
    ],
)
def test_what_is_no_rating_fails_with_the_words(text, reason):
    outcome = rated(text)
    assert isinstance(outcome, Failure)
    assert reason in outcome.reason
    assert outcome.raw


def test_it_is_asked_to_think_first_and_shown_the_picture_last(tmp_path):
    query = QInsight(Fake(), max_tokens=99, temperature=0.5).make_query(PICTURE)
    assert query.form == FreeText(99, 0.5)
    system, user = query.messages
    assert (system.role, user.role) == ("system", "user")
    assert "<think>" in str(system.content[0])
    assert '{"rating": ' in str(user.content[0])
    assert user.content[1] == PICTURE
    for name in ("q_insight", "q_insight_system"):
        (tmp_path / f"{name}.txt").write_text(f"words of {name}", encoding="utf-8")
    query = QInsight(Fake(), prompts=str(tmp_path)).make_query(PICTURE)
    assert [message.content[0] for message in query.messages] == ["words of q_insight_system", "words of q_insight"]


def test_nothing_is_loaded_before_the_first_question_and_the_published_checkpoint_is_meant():
    rater = QInsight()
    assert isinstance(rater.judge_expert, Vlm)
    assert rater.judge_expert.name == "ByteDance/Q-Insight/score_degradation"
    assert rater.bytes == {"cache": 0}
    assert build(spec_of(QInsight(draws=2, temperature=1.0)), "editcritic.experts").draws == 2


def test_a_model_is_asked_through_the_whole_path(tmp_path):
    """Random weights generate gibberish: the query fails and keeps the output."""
    tiny_qwen2_5_vl(tmp_path, spread=3.0)
    rater = QInsight({"use": "vlm", "name": str(tmp_path), "device": "cpu"}, max_tokens=12)
    (outcome,) = rater([ASKED])
    assert isinstance(outcome, Failure)
    assert outcome.raw
    assert rater.usage()["image_passes"] == 1
    assert rater.usage()["generated_tokens"] == 12
    assert f"of Vlm@2 {tmp_path.name}@" in rater.id
    rater.unload()
    assert rater.bytes == {"cache": 0}


def test_i2i_bench_is_answered():
    judge = Fake(lambda query: Reply('<answer>{"rating": 4.0}</answer>'))
    scores = Reward(image_quality(), {"quality": QInsight(judge)})([sample()])
    assert scores.values == [0.75]
