"""The overall: which dimensions are in it, what is left out of it, and that no question is asked twice for it."""

import json
from collections import Counter

import pytest

from editcritic.reward import build, spec_of
from editcritic.reward.metrics.i2ibench.dimensions import DIMENSIONS
from editcritic.reward.metrics.i2ibench.overall import I2IBenchOverall
from editcritic.reward.queries import Abstention, Failure

from .scripted_i2ibench import EDITED, ROLES, World, several, single

SINGLE = {name for name, known in DIMENSIONS.items() if not known.multi}
MULTI = {name for name, known in DIMENSIONS.items() if known.multi} - {"multi-editing-artifacts"}
SUBJECTS = ("physical", "composition", "physical_multi", "composition_multi", "transfer_multi", "consistency_multi")
SETS = {f"questions_{name}": {"questions": [f"{name} {n}?" for n in range(6)]} for name in SUBJECTS}


@pytest.mark.parametrize(
    # Single: 3 levels, success, knowledge, 2 sets of 1 + 6, 2 segmentation, style. Multi: 2 levels, success, knowledge,
    # 4 sets of 1 + 6, 2 segmentation, style, count.
    ("sample", "names", "count"),
    [(single(), SINGLE, 22), (several(), MULTI, 36)],
)
def test_it_is_the_mean_of_the_dimensions_for_as_many_sources_and_no_question_is_asked_twice(sample, names, count):
    world = World(says=SETS)
    (score,) = world.score(I2IBenchOverall(), sample)
    assert (score.parts.keys(), len(names)) == (names, 15)
    assert score.value == pytest.approx(sum(part.value or 0.0 for part in score.parts.values()) / 15)
    assert score.metric == "i2i-overall@3"
    for name, part in score.parts.items():
        assert part.metric == f"i2i-{name}@{3 if name == 'non-edited-fidelity' else 2}"
    assert set(world.seen.values()) == {1}
    assert len(world.judged) == len({query.digest for query in world.judged}) == count


@pytest.mark.parametrize(
    ("sample", "value", "scored"),
    [
        (single(dimensions=("Object Manipulation Accuracy", "editing artifacts")), 0.75, 2),
        (single(target_text="", hint=""), None, 13),
        (single(dimensions=()), None, 0),
        (several(dimensions=("editing artifacts", "blending naturalness")), 0.75, 1),  # artifacts are not in it
    ],
)
def test_dimensions_that_do_not_apply_are_left_out(sample, value, scored):
    (score,) = World().score(I2IBenchOverall(), sample)
    assert value is None or score.value == value
    assert sum(part.status == "scored" for part in score.parts.values()) == scored
    assert score.status == ("scored" if scored else "not_applicable")


def test_one_that_abstains_makes_it_abstain_and_one_that_fails_makes_it_fail():
    gone = {(EDITED, "Please segment the cup"): Abstention("no segmenter")}
    for says, status in (({}, "abstained"), ({"success": Failure("lost")}, "failed")):
        (score,) = World(masks=gone, says=says).score(I2IBenchOverall(), single())
        assert (score.status, score.value) == (status, None)
        assert status == "failed" or score.reason.startswith("non-edited-fidelity: ")


def test_dimensions_that_nobody_can_judge_may_be_left_out():
    metric = I2IBenchOverall(excluded_dimensions=("image quality", "Aesthetic-Quality"))
    (score,) = World().score(metric, single())
    assert score.parts.keys() == SINGLE - {"image-quality", "aesthetic-quality"}
    assert (set(I2IBenchOverall().card.roles), set(metric.card.roles)) == (set(ROLES), set(ROLES[:4]))
    assert score.metric == "i2i-overall@3[excluded_dimensions=image quality, excluded_dimensions=Aesthetic-Quality]"
    for excluded, says in (
        (("beauty",), "no dimension of I2I-Bench is called 'beauty'"),
        (tuple(SINGLE), "leave one in"),
    ):
        with pytest.raises(ValueError, match=says):
            I2IBenchOverall(excluded_dimensions=excluded)


def test_a_prompt_pack_is_for_every_dimension_and_a_judge_alone_gives_every_one_a_level(tmp_path):
    (tmp_path / "success.txt").write_text("Now, {instruction}?", encoding="utf-8")
    world = World()
    (score,) = world.score(I2IBenchOverall(prompts=str(tmp_path)), single())
    assert all("[prompts=" in signed.metric for signed in (score, *score.parts.values()))
    (question,) = [query for query in world.judged if query.topic == "i2i/success"]
    assert question.messages[0].content[-1] == "Now, make the cup blue?"
    world = World()
    (score,) = world.score(I2IBenchOverall(judge_only=True), single())
    assert score.value == pytest.approx((0.75 + 1.0 + 13 * 0.25) / 15)  # good, excellent, poor
    assert Counter(query.topic for query in world.judged) == {"i2i/level": 13, "i2i/blending": 1, "i2i/following": 1}
    assert (len(world.queries), I2IBenchOverall(judge_only=True).card.roles) == (15, ("judge",))
    for options in ({"excluded_dimensions": ("image-quality",), "prompts": str(tmp_path)}, {"judge_only": True}):
        metric = I2IBenchOverall(**options)
        again = build(json.loads(json.dumps(spec_of(metric))))
        assert (again, again.signature) == (metric, metric.signature)


@pytest.mark.parametrize(
    ("names", "row", "prompts", "overall"),
    [
        (
            SINGLE,
            "0.977 0.589 0.807 0.823 0.907 0.811 0.93 0.961 0.898 0.937 0.527 0.951 0.768 0.666 0.749",
            "86 500 500 350 500 500 500 282 500 332 500 275 233 100 100",
            0.813,
        ),
        (
            MULTI,
            "0.58 0.562 0.693 0.7 0.514 0.803 0.83 0.582 0.655 0.433 0.894 0.535 0.53 0.687 0.721",
            "500 500 500 126 500 500 500 412 500 500 476 500 500 200 100",
            0.636,
        ),
    ],
)
def test_quotas_and_the_overall_are_those_of_the_paper(names, row, prompts, overall):
    """Rows Qwen-Image-Edit-2509 of table 1 and Nano-Banana of table 2, with the overall printed there."""
    values, quotas = list(map(float, row.split())), [DIMENSIONS[name].quota or 0 for name in sorted(names)]
    assert quotas == list(map(int, prompts.split()))
    mean = sum(value * quota for value, quota in zip(values, quotas, strict=True)) / sum(quotas)
    assert mean == pytest.approx(overall, abs=0.004)
