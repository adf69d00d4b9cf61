"""Compositions never make up a number: what failed fails the whole, and nobody gains by making a part abstain."""

import copy
import math
import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.benchmarks.common.reward_catalogue import list_rewards
from editcritic.reward import Card, Engine, Score, build, spec_of
from editcritic.reward.metrics import Fallback, Gate, GeometricMean, Minimum, Product, Threshold, WeightedMean
from editcritic.reward.metrics.any_edit.overall import FollowedAndPreserved
from editcritic.reward.metrics.any_edit.plan_preservation import PlanPreservation
from editcritic.reward.metrics.compose import score_with_signature
from editcritic.reward.queries import Measurement
from editcritic.reward.queries.identity import metric_digest

from ..fakes import Fake, Says, alone, known, question, sample

FAILED, REFUSED = Score.failed("down", cause="infrastructure"), Score.failed("the judge refused")
ABSTAINED, NOTHING = Score.abstained("dark"), Score.not_applicable("no text in it")
VALUES = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1)).map(Score.of)
SCORES = st.one_of(VALUES, VALUES, st.sampled_from([FAILED, REFUSED, ABSTAINED, NOTHING]))
MISSING = st.sampled_from(["leave_out", "whole"])
MANY = (WeightedMean, GeometricMean, Product, Minimum)


def score_of(metric):
    def unasked(query):
        raise AssertionError(f"{query} was asked")

    return alone(metric(sample()), unasked)


def over(kind, *scores, **options):
    """The score of a composition of parts called a, b, c, ... that have these scores."""
    return score_of(kind({name: Says(score) for name, score in zip("abcdef", scores, strict=False)}, **options))


def grown(shape, scores):
    """The composition of a shape, its leaves having these scores from left to right."""
    kind, parts, options = shape
    if kind is None:
        return Says(next(scores))
    inner = [grown(part, scores) for part in parts]
    if kind in MANY:
        return kind({str(place): part for place, part in enumerate(inner)}, **options)
    return kind(*inner, **options)


def shapes_over(parts):
    several = st.lists(parts, min_size=1, max_size=3)
    weights = st.dictionaries(st.just("0"), st.floats(0.01, 100))
    return st.one_of(
        st.tuples(st.sampled_from(MANY), several, st.fixed_dictionaries({"on_not_applicable": MISSING})),
        st.tuples(
            st.just(WeightedMean), several, st.fixed_dictionaries({"on_not_applicable": MISSING, "weights": weights})
        ),
        st.tuples(st.sampled_from([Gate, Fallback]), st.tuples(parts, parts), st.just({})),
        st.tuples(st.just(Threshold), st.tuples(parts), st.fixed_dictionaries({"threshold": st.floats(0, 1)})),
    )


LEAF: st.SearchStrategy[Any] = st.just((None, (), {}))
SHAPES = st.recursive(LEAF, shapes_over, max_leaves=8)
LEAVES = st.lists(SCORES, min_size=24, max_size=24)


@given(shape=SHAPES, leaves=LEAVES, hidden=st.sets(st.integers(0, 7)))
def test_making_parts_abstain_never_raises_a_composition(shape, leaves, hidden):
    with_less = [ABSTAINED if place in hidden else score for place, score in enumerate(leaves)]
    value = score_of(grown(shape, iter(leaves))).value
    less = score_of(grown(shape, iter(with_less))).value
    assert less is None or (value is not None and less <= value)


@given(shape=SHAPES, leaves=LEAVES)
def test_a_composition_of_shares_is_a_share_or_says_why_it_is_nothing(shape, leaves):
    metric = grown(shape, iter(leaves))
    score = score_of(metric)
    assert metric.card.is_unit_range
    assert (0 <= score.value <= 1) if score.status == "scored" else score.reason


SOME = st.lists(VALUES, min_size=1, max_size=5)


@given(SOME)
def test_values_are_what_the_names_say(scores):
    values = [score.value for score in scores]
    assert over(WeightedMean, *scores).value == pytest.approx(math.fsum(values) / len(values))
    assert over(Product, *scores).value == pytest.approx(math.prod(values))
    assert over(GeometricMean, *scores).value == pytest.approx(math.prod(values) ** (1 / len(values)))
    assert over(Minimum, *scores).value == min(values)


def test_means_weigh_a_part_by_one_and_need_no_bounds_and_a_minimum_has_those_of_its_parts():
    assert over(WeightedMean, Score.of(1), Score.of(0), weights={"a": 3.0}).value == 0.75
    assert over(WeightedMean, Score.of(7), Score.of(-1)).value == 3
    parts = {"a": Says(Score.of(-1.0), range=(-1.0, 1.0)), "b": Says(ABSTAINED, range=(0.0, 1.0))}
    assert score_of(Minimum(parts)).value == -1.0
    parts["a"] = Says(Score.of(0.0), range=(-1.0, 1.0))
    assert score_of(Minimum(parts)).status == "abstained"
    assert over(Minimum, Score.of(0.9, "fine"), Score.of(0.1, "it is blank"), Score.of(0.5)).reason == "it is blank"
    parts = {"a": card("a", range=(None, 1.0)), "b": card("b", range=(0.0, None))}
    assert (WeightedMean(parts).card.range, Minimum(parts).card.range) == ((None, None), (None, None))


@pytest.mark.parametrize("kind", MANY)
@given(scores=st.lists(SCORES, min_size=1, max_size=5), missing=MISSING)
def test_failed_comes_before_abstained_before_not_applicable(kind, scores, missing):
    score = over(kind, *scores, on_not_applicable=missing)
    statuses = [score.status for score in scores]
    values = [score for score in scores if score.status == "scored"]
    excluded = missing == "whole" and "not_applicable" in statuses
    if kind is not WeightedMean and not excluded and any(part.value == 0.0 for part in scores):
        expected = "scored"
        assert score.value == 0.0
    elif "failed" in statuses:
        expected = "failed"
    elif "abstained" in statuses:
        expected = "abstained"
    elif not values or (missing == "whole" and "not_applicable" in statuses):
        expected = "not_applicable"
    else:
        expected = "scored"
        assert score.value == over(kind, *values).value
    assert score.status == expected
    if expected != "scored":
        name = "abcde"[statuses.index(expected)]
        assert score.reason == f"{name}: {scores[statuses.index(expected)].reason}"


@pytest.mark.parametrize("kind", MANY)
def test_a_whole_fails_by_infrastructure_only_if_all_its_parts_without_a_value_do(kind):
    down = Score.failed("down", cause="infrastructure")
    assert over(kind, Score.of(1), down).cause == "infrastructure"
    assert (over(kind, down, NOTHING, down).cause, over(kind, down, ABSTAINED, down).cause) == ("infrastructure", "")
    assert over(kind, down, Score.failed("refused")).cause == ""
    assert over(kind, Score.of(1), ABSTAINED, Score.abstained("gone", cause="edit")).cause == "edit"
    assert over(kind, Score.of(1), ABSTAINED).cause == ""


@pytest.mark.parametrize("kind", [GeometricMean, Product, Minimum])
def test_a_rejected_part_that_decides_rejects_the_whole(kind):
    rejected = replace(Score.of(0, "blank"), cause="guard")
    assert over(kind, Score.of(0.5), rejected).rejected
    assert not over(kind, Score.of(0.5), Score.of(0)).rejected
    assert not over(WeightedMean, Score.of(0.5), rejected).rejected


@pytest.mark.parametrize("kind", MANY)
def test_a_composition_carries_its_parts_signed(kind):
    parts = over(kind, Score.of(0.5), NOTHING, ABSTAINED).parts
    assert list(parts) == ["a", "b", "c"]
    assert [part.status for part in parts.values()] == ["scored", "not_applicable", "abstained"]
    assert {part.metric for part in parts.values()} == {"says@1"}


def test_a_metric_signs_what_it_has_not_signed_itself():
    assert alone(score_with_signature(Says(Score.of(1)), sample()), known).metric == "says@1"
    assert alone(score_with_signature(Says(Score.of(1).with_signature("mine@3")), sample()), known).metric == "mine@3"


@pytest.mark.parametrize(
    ("guard", "reward", "status", "value"),
    [
        *((Score.of(1), Score.of(0.7), "scored", 0.7), (NOTHING, Score.of(0.7), "scored", 0.7)),
        (Score.of(0, "blank"), Score.of(0.7), "scored", 0.2),
        (Score.of(0.99, "nearly blank"), Score.of(0.7), "scored", 0.2),
        *((Score.of(0, "blank"), FAILED, "scored", 0.2), (FAILED, Score.of(0.7), "failed", None)),
        *((ABSTAINED, Score.of(0.7), "abstained", None), (Score.of(1), FAILED, "failed", None)),
        *((Score.of(1), ABSTAINED, "abstained", None), (Score.of(1), NOTHING, "not_applicable", None)),
    ],
)
def test_a_gate_gives_the_reward_or_the_lowest_there_is(guard, reward, status, value):
    score = score_of(Gate(Says(guard), Says(reward, range=(0.2, 1.0))))
    assert (score.status, score.value, score.parts["guard"].status) == (status, value, guard.status)


@pytest.mark.parametrize(("passes", "query_count"), [(1.0, 1), (0.0, 0)])
def test_a_gate_asks_for_the_reward_only_if_the_guard_passes(passes, query_count):
    expert = Fake(lambda query: Measurement(passes if query == question(1) else 0.5))
    gate = Gate(Says(number=1), Says(number=2))
    with Engine() as engine:
        score = engine.submit(gate(sample()), {"preference": expert}).result(20)
    assert score.value == passes / 2
    assert (expert.seen[question(1).digest], expert.seen[question(2).digest]) == (1, query_count)
    assert list(score.parts) == ["guard", "reward"][: 1 + query_count]


def test_gates_in_gates_name_the_guard_once():
    gate = Gate(Says(ABSTAINED), Says(Score.of(1)))
    assert score_of(Gate(gate, Says(Score.of(1)))).reason == f"guard: {ABSTAINED.reason}"


def test_a_rejected_edit_says_why_and_reaches_no_threshold():
    score = score_of(Gate(Says(Score.of(0, "it is blank")), Says(Score.of(1))))
    assert "it is blank" in score.reason
    assert score.rejected
    assert not score_of(Gate(Says(Score.of(1)), Says(Score.of(0)))).rejected
    result = score_of(Threshold(Gate(Says(Score.of(0, "blank")), Says(Score.of(1))), 0.0))
    assert (result.value, result.rejected, result.reason) == (0.0, True, "blank")


@pytest.mark.parametrize(
    ("score", "value"),
    [(Score.of(0.5), 1.0), (Score.of(0.49), 0.0), (FAILED, None), (ABSTAINED, None), (NOTHING, None)],
)
def test_a_threshold_is_a_verdict_on_a_value(score, value):
    result = score_of(Threshold(Says(score), 0.5))
    assert (result.value, result.status) == (value, score.status)
    assert result.parts["metric"] == score.with_signature("says@1")


@pytest.mark.parametrize("score", [Score.of(0.5), ABSTAINED, NOTHING, REFUSED])
def test_a_fallback_does_not_ask_the_second_unless_infrastructure_failed_the_first(score):
    result = score_of(Fallback(Says(score), Says(number=1)))
    assert (result.value, result.status, list(result.parts)) == (score.value, score.status, ["first"])


@pytest.mark.parametrize("second", [Score.of(0.5), ABSTAINED, NOTHING, FAILED])
def test_a_fallback_gives_the_second_where_the_first_failed(second):
    score = score_of(Fallback(Says(FAILED), Says(second)))
    assert (score.value, score.status, list(score.parts)) == (second.value, second.status, ["first", "second"])


def card(name, **fields):
    return Says(Score.of(1), name=name, **fields)


def test_a_composition_has_the_card_of_its_parts():
    a = card("a", range=(0.0, 0.5), requires=("task",), source="paper A", failure_modes="Blur.", number=None)
    b = card("b", range=(0.2, 1.0), requires=("task", "boxes"), source="paper B", failure_modes="Sharpen.")
    asking = Says(number=1, name="c", failure_modes="Blur.")
    score = WeightedMean({"a": a, "b": b, "c": asking}, name="mine").card
    assert score == Card(
        "mine",
        1,
        "mean of a, b, c",
        range=(0.0, 1.0),
        roles=("preference",),
        requires=("task", "boxes"),
        source="paper A; paper B",
        failure_modes="Blur. Sharpen.",
        parts=("a", "b", "c"),
    )
    assert Gate(asking, Product({"d": asking})).card.parts == ("guard", "reward", "d")


def test_a_gate_has_the_range_and_unit_of_its_reward_and_a_threshold_is_a_share():
    reward = card("reward", range=(-5.0, None), unit="logit")
    score = Gate(Says(number=1, name="guard"), reward).card
    assert (score.range, score.unit, score.roles) == ((-5.0, None), "logit", ("preference",))
    verdict = Threshold(reward, 2.5).card
    assert (verdict.range, verdict.unit, verdict.summary) == ((0.0, 1.0), "share", "reward is at least 2.5")


UNBOUNDED, SIGNED = card("hps", range=(None, None)), card("ssim", range=(-1.0, 1.0))
SHARE, LOGIT = card("share"), card("logit", unit="logit")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: GeometricMean({"a": SHARE, "b": UNBOUNDED}), "geometric-mean: hps has the range None..None"),
        (lambda: Product({"a": SIGNED}), r"product: ssim has the range -1\.0\.\.1\.0, and parts must lie in 0\.\.1"),
        (lambda: Gate(SIGNED, SHARE), "gate: ssim has the range"),
        (lambda: Gate(SHARE, UNBOUNDED), "gate: hps has no lowest value for rejected edits"),
        (lambda: WeightedMean({"a": SHARE, "b": LOGIT}), r"parts have different units \['logit', 'share'\]"),
        (lambda: Minimum({"a": SHARE, "b": LOGIT}), "cannot be compared"),
        (lambda: Fallback(SHARE, SIGNED), "fallback: both metrics must have the same range and unit"),
        (lambda: Fallback(SHARE, LOGIT), "fallback: both metrics must have the same range and unit"),
        (lambda: Threshold(SHARE, math.nan), "threshold: threshold must be a finite number, got nan"),
        (lambda: WeightedMean({"a": SHARE}, weights={"b": 1}), r"weights for \['b'\], but the parts are \['a'\]"),
        (lambda: WeightedMean({"a": SHARE}, weights={"a": 0}), "weights must be positive, got"),
        (lambda: WeightedMean({"a": SHARE}, weights={"a": -1}), "weights must be positive"),
        (lambda: WeightedMean({"a": SHARE}, weights={"a": math.nan}), "weights must be positive"),
        (lambda: WeightedMean({"a": SHARE}, weights={"a": math.inf}), "weights must be positive"),
        *((lambda kind=kind: kind({}), "needs at least one part") for kind in MANY),
        *(
            (lambda kind=kind: kind({"a": SHARE}, on_not_applicable="no"), "leave_out, whole, got 'no'")
            for kind in MANY
        ),
    ],
)
def test_a_composition_that_means_nothing_is_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_every_reward_builds_its_card_once_and_comes_back_from_its_spec_and_a_pickle():
    names = [entry.name for entry in list_rewards() if entry.card is not None]
    assert len(names) >= 66
    for name in names:
        metric, untouched = build(name), build(name)
        assert metric.card is metric.card, name
        assert (metric, metric_digest(metric), repr(metric)) == (untouched, metric_digest(untouched), repr(untouched))
        assert build(spec_of(metric)) == metric, name
        again, copied = pickle.loads(pickle.dumps(metric)), copy.copy(metric)
        assert (again, copied) == (untouched, untouched), name
        assert (again.card, copied.card) == (metric.card, metric.card), name


def test_a_metric_with_other_options_has_a_card_of_its_own():
    faces = PlanPreservation(faces="embedder")
    changed: list[Any] = [
        replace(PlanPreservation(), faces="embedder"),
        replace(FollowedAndPreserved(), preservation=faces),
    ]
    plain = [PlanPreservation(), FollowedAndPreserved()]
    assert ["features.face" in one.card.roles for one in (*plain, *changed)] == [False, False, True, True]


@given(SOME, st.lists(st.floats(0.01, 100), min_size=5, max_size=5))
def test_weights_count(scores, numbers):
    weights = dict(zip("abcde"[: len(scores)], numbers, strict=False))
    total = sum(weight * score.value for weight, score in zip(weights.values(), scores, strict=True))
    value = over(WeightedMean, *scores, weights=weights).value
    assert value == pytest.approx(total / sum(weights.values()))
    assert min(score.value for score in scores) - 1e-9 <= value <= max(score.value for score in scores) + 1e-9


@pytest.mark.parametrize("kind", [GeometricMean, Product, Minimum])
@pytest.mark.parametrize("unknown", [FAILED, ABSTAINED])
def test_a_part_at_the_lower_bound_decides_whatever_the_others_would_have_been(kind, unknown):
    score = over(kind, unknown, Score.of(0, "a copy"), Score.of(0.7))
    assert (score.status, score.value) == ("scored", 0.0)
    assert score.parts["a"].status == unknown.status
    assert over(kind, unknown, Score.of(0.01)).value is None
    assert over(WeightedMean, unknown, Score.of(0)).value is None
