"""QInsight: reads the rating that stands after the thoughts, and takes nothing else for one."""

import numpy as np
import pytest

from editcritic.reward import Failure, Image, Measured, Rate, Reply, Reward
from editcritic.reward.experts.q_insight import QInsight
from editcritic.reward.experts.vlm import Vlm
from editcritic.reward.forms import FreeText, read_reply
from editcritic.reward.i2ibench.single import image_quality
from editcritic.reward.spec import build, spec_of

from ..fakes import Fake, sample
from .tiny_vlms import tiny_qwen2_5_vl

PICTURE = Image.of(np.random.default_rng(0).integers(0, 256, (60, 40, 3), dtype=np.uint8))
ASKED = Rate(PICTURE, quality="image quality")


def saying(text):
    """A judge that says so, read as every judge's words are."""
    return Fake(lambda query: read_reply(query.form, text), name="scripted")


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
    assert rated(text) == Measured(rating)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<think>It is sharp, and", "cut off while it thought"),
        ("<think>It is sharp.</think><answer>4</answer>", "not JSON"),
        ("I cannot rate pictures of people.", "not JSON"),
        ('<answer>{"rating": 5.5}</answer>', "rates from 1 to 5, and said 5.5"),
        ('<answer>{"rating": 0}</answer>', "rates from 1 to 5, and said 0"),
        ('<answer>{"rating": "very good"}</answer>', "'very good', which is no number"),
        ('<answer>{"score": 4}</answer>', "'rating' is a required property"),
        ('<answer>{"rating": 4}</answer> or {"rating": 3}', "2 different answers"),
        ('{"rating": true}', "is wrong"),
    ],
)
def test_what_is_no_rating_fails_with_the_words(text, reason):
    found = rated(text)
    assert isinstance(found, Failure)
    assert reason in found.reason
    assert found.raw


def test_it_is_asked_to_think_first_and_shown_the_picture_last(tmp_path):
    query = QInsight(Fake(), max_tokens=99, temperature=0.5).question(PICTURE)
    assert query.form == FreeText(99, 0.5)
    system, user = query.messages
    assert (system.speaker, user.speaker) == ("system", "user")
    assert "<think>" in str(system.parts[0])
    assert '{"rating": ' in str(user.parts[0])
    assert user.parts[1] == PICTURE
    for name in ("q_insight", "q_insight_system"):
        (tmp_path / f"{name}.txt").write_text(f"words of {name}", encoding="utf-8")
    query = QInsight(Fake(), prompts=str(tmp_path)).question(PICTURE)
    assert [message.parts[0] for message in query.messages] == ["words of q_insight_system", "words of q_insight"]


def test_nothing_is_loaded_before_the_first_question_and_the_published_checkpoint_is_meant():
    rater = QInsight()
    assert isinstance(rater.asked, Vlm)
    assert rater.asked.name == "ByteDance/Q-Insight/score_degradation"
    assert rater.bytes == {"remembered": 0}
    assert build(spec_of(QInsight(draws=2, temperature=1.0)), "editcritic.experts").draws == 2


def test_a_model_is_asked_through_the_whole_path(tmp_path):
    """Random weights write gibberish: the query fails, and tells what was written."""
    tiny_qwen2_5_vl(tmp_path, spread=3.0)
    rater = QInsight({"use": "vlm", "name": str(tmp_path), "device": "cpu"}, max_tokens=12)
    (found,) = rater([ASKED])
    assert isinstance(found, Failure)
    assert found.raw
    assert rater.meter()["image_passes"] == 1
    assert rater.meter()["generated_tokens"] == 12
    assert f"of Vlm@1 {tmp_path.name}@" in rater.id
    rater.unload()
    assert rater.bytes == {"remembered": 0}


def test_i2i_bench_is_answered():
    judge = Fake(lambda query: Reply('<answer>{"rating": 4.0}</answer>'))
    scores = Reward(image_quality(), {"quality": QInsight(judge)})([sample()])
    assert scores.values == [0.75]
