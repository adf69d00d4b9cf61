"""Why one edit is above another: the sentence, and what a part alone makes of the difference."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.report.ranking import rank_candidates
from editcritic.benchmarks.report.score_comparison import (
    ScoreComparison,
    compare_candidates,
    compare_scores,
    require_comparable,
)
from editcritic.reward import Card, EditSample, Image, Program, Reward, Score
from editcritic.reward.metrics.compose import Gate, GeometricMean, Metric, Minimum, Product, WeightedMean

from ..conftest import Command, Folder

NAMES = ("a", "b")
PICTURE = Image.from_digest("0" * 64, (8, 8))


class Given:
    """A metric in [0, 1] whose value a sample has in its metadata."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def card(self) -> Card:
        return Card(self.name, 1, self.name, range=(0.0, 1.0))

    def __call__(self, sample: EditSample) -> Program[Score]:
        yield from ()
        return sample.metadata[self.name]


def scored(metric: Metric, **parts: float | Score) -> Score:
    """What a real composition makes of the values of its parts."""
    values = {name: value if isinstance(value, Score) else Score.of(value) for name, value in parts.items()}
    sample = EditSample("a", "Remove cup", (PICTURE,), PICTURE, metadata=values)
    reward = Reward(metric, {}, on_failures="none")
    with reward.engine:
        return reward([sample])[0]


COMPOSITIONS: Mapping[str, Callable[[Mapping[str, Metric]], Metric]] = {
    "product": Product,
    "minimum": Minimum,
    "geometric mean": GeometricMean,
    "mean": WeightedMean,
}
XY = {"x": Given("x"), "y": Given("y")}


def exchanged(comparison: ScoreComparison) -> dict[str, float]:
    return {pair.path: pair.exchanged for pair in comparison.parts if pair.exchanged is not None}


def gated(following: float, preservation: float, reason: str = "") -> Score:
    metric = Gate(Given("guard"), Product({"following": Given("following"), "preservation": Given("preservation")}))
    return scored(metric, guard=1.0, following=following, preservation=Score.of(preservation, reason))


def test_the_part_that_differs_is_named_with_its_reason() -> None:
    comparison = compare_scores(NAMES, gated(1.0, 0.95), gated(1.0, 0.54, "the sky changed"))
    expected = "a is above b by 0.410: preservation 0.950 against 0.540 (the sky changed); following is equal (1.000)"
    assert comparison.sentence == expected
    turned = compare_scores(NAMES[::-1], gated(1.0, 0.54, "the sky changed"), gated(1.0, 0.95))
    assert turned.sentence == expected


def test_a_part_may_go_the_other_way() -> None:
    sentence = compare_scores(NAMES, gated(0.9, 0.5), gated(0.4, 0.8)).sentence
    assert sentence.startswith("a is above b by 0.130: following 0.900 against 0.400")
    assert "preservation 0.500 against 0.800, the other way" in sentence


def test_what_has_no_value_is_neither_above_nor_below() -> None:
    for scores in (
        (Score.of(0.1), Score.failed("the judge was down")),
        (Score.failed("the judge was down"), Score.of(0.1)),
    ):
        name = "b" if scores[0].value else "a"
        assert compare_scores(NAMES, *scores).sentence == (
            f"{name} has no value, and is neither above nor below: failed: the judge was down"
        )
    both = compare_scores(NAMES, Score.abstained("too dark"), Score.failed("down"))
    assert both.sentence == "neither has a value: a abstained (too dark), b failed (down)"


def test_a_guard_decides_before_any_part() -> None:
    metric = Gate(Given("guard"), Product(XY))
    rejected = scored(metric, guard=Score.of(0.0, "it is a copy"), x=1.0, y=1.0)
    passed = scored(metric, guard=1.0, x=0.1, y=0.1)
    comparison = compare_scores(NAMES, rejected, passed)
    assert (comparison.sentence, comparison.rule) == ("a was rejected by a guard: it is a copy", "")
    assert compare_scores(NAMES, rejected, rejected).sentence == "a and b score the same: both were rejected by a guard"


def test_equal_scores_are_equal() -> None:
    assert compare_scores(NAMES, gated(0.5, 0.5), gated(0.5, 0.5)).sentence == "a and b score the same: 0.250"


@pytest.mark.parametrize("rule", COMPOSITIONS)
def test_what_one_part_alone_makes_is_what_the_composition_would_give(rule: str) -> None:
    metric = COMPOSITIONS[rule](XY)
    comparison = compare_scores(NAMES, scored(metric, x=0.2, y=0.9), scored(metric, x=0.7, y=0.8))
    assert comparison.rule == rule
    assert exchanged(comparison) == {
        "x": pytest.approx(scored(metric, x=0.7, y=0.9).value),
        "y": pytest.approx(scored(metric, x=0.2, y=0.8).value),
    }


RULES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "product": math.prod,
    "minimum": min,
    "geometric mean": lambda pair: math.prod(pair) ** 0.5,
    "mean": lambda pair: sum(pair) / 2,
}
PAIRS = st.tuples(*[st.sampled_from([0.0, 0.3, 0.5, 1.0])] * 2)


@given(st.sampled_from(sorted(RULES)), PAIRS, PAIRS)
def test_no_number_is_given_that_the_composition_would_not_give(rule, first, second):
    value = RULES[rule]
    whole = [Score.of(value(pair), parts={"x": Score.of(pair[0]), "y": Score.of(pair[1])}) for pair in (first, second)]
    right = {"x": value((second[0], first[1])), "y": value((first[0], second[1]))}
    comparison = compare_scores(NAMES, *whole)
    for path, alone in exchanged(comparison).items():
        assert alone == pytest.approx(right[path])
    assert comparison.rule in ("", rule)


def test_an_inner_part_is_followed_to_the_whole() -> None:
    metric = Gate(
        Given("guard"), Product({"following": Minimum(XY, name="following"), "preservation": Given("preservation")})
    )
    first = scored(metric, guard=1.0, x=0.4, y=0.9, preservation=0.5)
    second = scored(metric, guard=1.0, x=0.8, y=0.7, preservation=0.25)
    found = exchanged(compare_scores(NAMES, first, second))
    assert found["reward/following/x"] == pytest.approx(0.8 * 0.5)
    assert found["reward/following/y"] == pytest.approx(0.4 * 0.5)
    assert found["reward/following"] == pytest.approx(0.7 * 0.5)
    assert found["reward/preservation"] == pytest.approx(0.4 * 0.25)


def test_a_part_that_is_not_applicable_is_left_out() -> None:
    absent = Score.not_applicable("everything may change")
    metric = WeightedMean({**XY, "z": Given("z")})
    comparison = compare_scores(NAMES, scored(metric, x=0.2, y=0.8, z=absent), scored(metric, x=0.6, y=0.9, z=absent))
    assert comparison.rule == "mean"
    assert exchanged(comparison) == {"x": pytest.approx(0.7), "y": pytest.approx(0.55)}


def test_no_rule_is_claimed_that_does_not_give_both_values() -> None:
    weighted = WeightedMean(XY, {"x": 3.0})
    comparison = compare_scores(NAMES, scored(weighted, x=0.2, y=0.9), scored(weighted, x=0.1, y=0.7))
    assert (comparison.rule, exchanged(comparison)) == ("", {})


def test_credits_of_a_part_are_told_once() -> None:
    credits = {"operation 1": Score.of(1.0), "operation 2": Score.of(0.0)}
    following = Score.of(0.5, credits=credits)
    whole = Score.of(0.5, parts={"following": following, "preservation": Score.of(1.0)}, credits=credits)
    other = Score.of(1.0, parts={"following": Score.of(1.0), "preservation": Score.of(1.0)})
    paths = [pair.path for pair in compare_scores(NAMES, whole, other).parts]
    assert paths == ["following", "following/operation 1", "following/operation 2", "preservation"]


def samples() -> list[EditSample]:
    return [EditSample(name, "Remove cup", (PICTURE,), PICTURE, group=name[0]) for name in ("a1", "a2", "b1")]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a1", "a3"), "no candidate is called 'a3': there are a1, a2, b1"),
        (("a1", "a1"), "'a1' is compared with itself"),
        (("a1", "b1"), "'a1' and 'b1' are edits of different sources or instructions"),
    ],
)
def test_what_cannot_be_compared_is_refused(names: tuple[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        require_comparable(names, samples())


def test_a_candidate_that_was_not_scored_is_not_compared() -> None:
    rankings = rank_candidates(samples()[:1], [Score.of(0.5)], 0.0)
    assert compare_candidates(("a1", "a2"), rankings) is None


def test_rank_says_why(editcritic: Command, folder: Folder, three: Path) -> None:
    arguments = ("rank", three, "--reward", folder.cheap, "--why", "blank", "patched")
    result = editcritic(*arguments, code=0, shows="patched is above blank by")
    why = json.loads(editcritic(*arguments, "--json").stdout)["why"]
    assert why["sentence"] in " ".join(result.stdout.split())
    (part,) = [part for part in why["parts"] if part["part"] == "not_blank"]
    assert (part["first"], part["second"], part["difference"]) == (0.0, 1.0, -1.0)


def test_rank_compares_no_unknown_candidate(editcritic: Command, folder: Folder, three: Path) -> None:
    result = editcritic("rank", three, "--reward", folder.cheap, "--why", "blank", "nobody", code=2)
    assert "no candidate is called 'nobody': there are copy, patched, blank" in " ".join(result.stderr.split())
    assert result.stdout == ""
