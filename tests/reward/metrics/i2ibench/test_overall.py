"""The overall: which dimensions are in it, what is left out of it, and that no question is asked twice for it."""

import json
from collections import Counter

import pytest

from editcritic.reward import build, spec_of
from editcritic.reward.metrics.i2ibench.dimensions import DIMENSIONS
from editcritic.reward.metrics.i2ibench.overall import I2IBenchOverall
from editcritic.reward.queries import Abstention, Failure

from .scripted_i2ibench import EDITED, World, several, single

SINGLE = {name for name, known in DIMENSIONS.items() if not known.multi}
SETS = [f"questions_{subject}" for subject in ("physical", "composition", "physical_multi", "composition_multi")]
SETS += ["questions_transfer_multi", "questions_consistency_multi"]
MULTI = {name for name, known in DIMENSIONS.items() if known.multi} - {"multi-editing-artifacts"}


def test_there_are_fifteen_dimensions_of_each_half():
    assert len(SINGLE) == len(MULTI) == 15


@pytest.mark.parametrize(("sample", "names"), [(single(), SINGLE), (several(), MULTI)])
def test_it_is_the_mean_of_the_dimensions_for_as_many_sources(sample, names):
    (score,) = World().score(I2IBenchOverall(), sample)
    assert score.parts.keys() == names
    assert score.value == pytest.approx(sum(part.value or 0.0 for part in score.parts.values()) / 15)
    assert score.metric == "i2i-overall@3"
    for name, part in score.parts.items():
        assert part.metric == f"i2i-{name}@{3 if name == 'non-edited-fidelity' else 2}"


@pytest.mark.parametrize("sample", [single(), several()])
def test_no_question_is_asked_twice_over_all_dimensions(sample):
    world = World()
    world.score(I2IBenchOverall(), sample)
    assert set(world.seen.values()) == {1}
    topics = [query.topic for query in world.judged]
    assert topics.count("i2i/success") == 1
    assert topics.count("i2i/segment_details_multi") == (len(sample.sources) > 1)
    assert len({query.digest for query in world.judged}) == len(topics)


def test_what_each_half_costs_the_judge():
    counts = {}
    for name, sample in (("single", single()), ("multi", several())):
        world = World(says={topic: {"questions": [f"{topic} {n}?" for n in range(6)]} for topic in SETS})
        world.score(I2IBenchOverall(), sample)
        counts[name] = len(world.judged)
    # Single: 3 levels, success, knowledge, 2 sets of 1 + 6, 2 segmentation, style. Multi: 2 levels, success, knowledge,
    # 4 sets of 1 + 6, 2 segmentation, style, count.
    assert counts == {"single": 22, "multi": 36}


def test_dimensions_that_do_not_apply_are_left_out():
    (score,) = World().score(
        I2IBenchOverall(), single(dimensions=("Object Manipulation Accuracy", "editing artifacts"))
    )
    assert score.value == pytest.approx((1.0 + 0.5) / 2)
    assert {name for name, part in score.parts.items() if part.status == "scored"} == {
        "object-manipulation",
        "editing-artifacts",
    }
    (score,) = World().score(I2IBenchOverall(), single(target_text="", hint=""))
    left_out = {name for name, part in score.parts.items() if part.status == "not_applicable"}
    assert left_out == {"text-content-style", "world-knowledge"}
    (score,) = World().score(I2IBenchOverall(), single(dimensions=()))
    assert score.status == "not_applicable"


def test_artifacts_of_several_sources_are_not_in_it_even_where_they_apply():
    (score,) = World().score(I2IBenchOverall(), several(dimensions=("editing artifacts", "blending naturalness")))
    assert score.value == 0.75


def test_one_that_abstains_makes_it_abstain_and_one_that_fails_makes_it_fail():
    gone = {(EDITED, "Please segment the cup"): Abstention("no segmenter")}
    (score,) = World(masks=gone).score(I2IBenchOverall(), single())
    assert (score.status, score.value) == ("abstained", None)
    assert score.reason.startswith("non-edited-fidelity: ")
    (score,) = World(masks=gone, says={"success": Failure("lost")}).score(I2IBenchOverall(), single())
    assert score.status == "failed"


def test_dimensions_that_nobody_can_judge_may_be_left_out():
    metric = I2IBenchOverall(excluded_dimensions=("image quality", "Aesthetic-Quality"))
    world = World()
    (score,) = world.score(metric, single())
    assert score.parts.keys() == SINGLE - {"image-quality", "aesthetic-quality"}
    assert set(metric.card.roles) == {"judge", "segmenter", "features", "reader"}
    assert score.metric == "i2i-overall@3[excluded_dimensions=image quality, excluded_dimensions=Aesthetic-Quality]"
    with pytest.raises(ValueError, match="no dimension of I2I-Bench is called 'beauty'"):
        I2IBenchOverall(excluded_dimensions=("beauty",))
    with pytest.raises(ValueError, match="leave one in"):
        I2IBenchOverall(excluded_dimensions=tuple(SINGLE))


def test_a_prompt_pack_is_for_every_dimension(tmp_path):
    (tmp_path / "success.txt").write_text("Now, {instruction}?", encoding="utf-8")
    world = World()
    (score,) = world.score(I2IBenchOverall(prompts=str(tmp_path)), single())
    assert all("[prompts=" in signed.metric for signed in (score, *score.parts.values()))
    (question,) = [query for query in world.judged if query.topic == "i2i/success"]
    assert question.messages[0].content[-1] == "Now, make the cup blue?"


def test_by_a_judge_alone_every_dimension_is_a_level():
    world = World()
    (score,) = world.score(I2IBenchOverall(judge_only=True), single())
    assert score.value == pytest.approx((0.75 + 1.0 + 13 * 0.25) / 15)  # good, excellent, poor
    assert Counter(query.topic for query in world.judged) == {"i2i/level": 13, "i2i/blending": 1, "i2i/following": 1}
    assert len(world.queries) == 15
    assert I2IBenchOverall(judge_only=True).card.roles == ("judge",)


def test_it_asks_all_roles_and_can_be_written_down(tmp_path):
    assert set(I2IBenchOverall().card.roles) == {"judge", "segmenter", "features", "reader", "quality", "aesthetics"}
    for metric in (
        I2IBenchOverall(),
        I2IBenchOverall(excluded_dimensions=("image-quality",), prompts=str(tmp_path)),
        I2IBenchOverall(judge_only=True),
    ):
        again = build(json.loads(json.dumps(spec_of(metric))))
        assert again == metric
        assert again.signature == metric.signature


def test_quotas_and_the_overall_are_those_of_the_paper():
    # Rows Qwen-Image-Edit-2509 of table 1 and Nano-Banana of table 2, with the overall printed there.
    single_row = "0.977 0.589 0.807 0.823 0.907 0.811 0.93 0.961 0.898 0.937 0.527 0.951 0.768 0.666 0.749"
    multi_row = "0.58 0.562 0.693 0.7 0.514 0.803 0.83 0.582 0.655 0.433 0.894 0.535 0.53 0.687 0.721"
    single_quotas = "86 500 500 350 500 500 500 282 500 332 500 275 233 100 100"
    multi_quotas = "500 500 500 126 500 500 500 412 500 500 476 500 500 200 100"
    for names, row, prompts, overall in (
        (SINGLE, single_row, single_quotas, 0.813),
        (MULTI, multi_row, multi_quotas, 0.636),
    ):
        values = dict(zip(sorted(names), map(float, row.split()), strict=True))
        quotas = {name: DIMENSIONS[name].quota or 0 for name in names}
        assert [quotas[name] for name in sorted(names)] == list(map(int, prompts.split()))
        mean = sum(values[name] * quotas[name] for name in names) / sum(quotas.values())
        assert mean == pytest.approx(overall, abs=0.004)
