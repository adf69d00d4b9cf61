"""Quality sees the edited image alone; overall is the mean of three scores, out of two sorts of questions."""

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Reward
from editcritic.reward.metrics.complexedit.metrics import ComplexEditOverall, PerceptualQuality
from editcritic.reward.queries import Abstention, Failure, Grade, Reply, YesNo

from ...fakes import picture
from .scripted_judges import AFTER, BEFORE, Heard, edit, known, numbers, score_of, scored, value_of, verdict, words


def graded(following, preservation, quality):
    return lambda query: verdict(following, preservation) if query.slots else Reply(str(quality))


def topics(judge):
    return Counter(query.topic.removeprefix("complexedit/") for query in judge.queries)


# -- perceptual quality ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "topic", "form"),
    [
        ("numeric", "quality", Grade(0, 10, temperature=1.0)),
        ("expected", "quality", Grade(0, 10)),
        ("token_probability", "quality_yes_no", YesNo()),
    ],
)
def test_quality_is_asked_of_the_edited_picture_without_instruction_or_reasoning(mode, topic, form):
    judge = Heard()
    scored(PerceptualQuality(mode), judge, edit(instruction="xyzzy"))
    for query in judge.queries:
        (message,) = query.messages
        assert message.content[:-1] == (AFTER,)
        assert "xyzzy" not in words(query)
        assert "reason" not in words(query).lower()
        assert (query.slots, query.topic, query.form) == ((), f"complexedit/{topic}", form)
    assert len(judge.queries) == (20 if mode == "numeric" else 1)


def test_quality_does_not_know_what_the_picture_was_made_of():
    judge = Heard()
    first, second = scored(PerceptualQuality(), judge, edit("a"), edit("b", sources=(picture(5),), instruction="other"))
    assert first == second
    assert len(judge.queries) == 20


def test_the_modes_of_quality_by_hand():
    def rule(query):
        if query.form == YesNo():
            return Reply("no", {"yes": 0.2, "no": 0.6})
        if query.form == Grade(0, 10):
            return Reply("8", {"8": 0.75, "4": 0.25})
        return Reply(str(6 + query.draw % 2))

    assert score_of(PerceptualQuality("token_probability"), rule).value == pytest.approx(2.5)
    assert score_of(PerceptualQuality("expected"), rule).value == pytest.approx(7.0)
    score = score_of(PerceptualQuality(), rule)
    assert score.value == pytest.approx(6.5)
    assert numbers(score, "measurements")["std"] == pytest.approx(0.5)


# -- overall -----------------------------------------------------------------------------------------------------------


def test_overall_asks_for_the_shared_judgement_once():
    judge = Heard()
    scored(ComplexEditOverall(), judge, edit())
    assert topics(judge) == {"alignment": 20, "quality": 20}
    assert set(judge.seen.values()) == {1}


@pytest.mark.parametrize(
    ("mode", "query_count"),
    [
        ("expected", {"following": 1, "preservation": 1, "quality": 1}),
        ("token_probability", {"following_yes_no": 1, "preservation_yes_no": 1, "quality_yes_no": 1}),
    ],
)
def test_the_other_modes_take_three_questions(mode, query_count):
    judge = Heard()
    (score,) = scored(ComplexEditOverall(mode), judge, edit())
    assert topics(judge) == query_count
    assert score.status == "scored"
    assert score.metric == f"complex-edit-o@3/{mode}"


@given(*[st.integers(0, 10)] * 3)
def test_overall_is_the_mean_of_the_parts(following, preservation, quality):
    rule = graded(following, preservation, quality)
    score = score_of(ComplexEditOverall(n=2), rule)
    assert score.value == pytest.approx((following + preservation + quality) / 3)
    assert {name: part.value for name, part in score.parts.items()} == {
        "following": following,
        "preservation": preservation,
        "quality": quality,
    }
    geometric = score_of(ComplexEditOverall(n=2, mean="geometric"), rule)
    assert geometric.value == pytest.approx((following * preservation * quality) ** (1 / 3))
    assert value_of(geometric) <= value_of(score) + 1e-9
    assert geometric.metric == "complex-edit-o@3/numeric[n=2, mean=geometric]"


def test_parts_are_signed_as_the_metrics_they_are():
    score = score_of(ComplexEditOverall(n=2, seed=1), known)
    assert [part.metric for part in score.parts.values()] == [
        f"complex-edit-{name}@3/numeric[n=2, seed=1]" for name in ("if", "ip", "pq")
    ]


@pytest.mark.parametrize(
    ("outcome", "status"), [(Failure("down"), "failed"), (Abstention("who could know"), "abstained")]
)
@pytest.mark.parametrize("place", ["alignment", "quality"])
@pytest.mark.parametrize("mean", ["arithmetic", "geometric"])
def test_nothing_is_left_out_of_overall(mean, place, outcome, status):
    rule = lambda query: outcome if query.topic.endswith(place) else known(query)  # noqa: E731
    score = score_of(ComplexEditOverall(n=2, mean=mean), rule)
    assert (score.status, score.value) == (status, None)
    lacking = [name for name, part in score.parts.items() if part.status == status]
    assert lacking == (["quality"] if place == "quality" else ["following", "preservation"])


def test_an_edit_of_several_pictures_has_no_overall_score():
    score = score_of(ComplexEditOverall(n=1), known, edit(sources=(BEFORE, AFTER)))
    assert (score.status, score.parts["quality"].status) == ("not_applicable", "scored")


@given(st.permutations(range(3)))
def test_swapped_samples_have_swapped_scores(order):
    samples = [edit(str(seed), sources=(picture(seed),), edited=picture(seed + 10)) for seed in range(3)]
    values = Reward(ComplexEditOverall(n=9), {"judge": Heard()})(samples).values
    assert len(set(values)) == 3
    swapped = Reward(ComplexEditOverall(n=9), {"judge": Heard()})([samples[place] for place in order]).values
    assert swapped == [values[place] for place in order]


def test_candidates_of_one_group_share_nothing_but_their_source():
    judge = Heard()
    scored(ComplexEditOverall(n=2), judge, edit("a"), edit("b", edited=picture(9)))
    assert topics(judge) == {"alignment": 4, "quality": 4}
    assert {query.images[-1] for query in judge.queries} == {AFTER, picture(9)}


def test_scores_can_be_written_as_json():
    text = json.dumps(score_of(ComplexEditOverall(n=2), known).to_json(), allow_nan=False)
    assert '"complex-edit-ip@3/numeric[n=2]"' in text
