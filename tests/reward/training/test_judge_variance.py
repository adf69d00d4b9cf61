"""Judge variance: measured with other draws in the reward's own engine, without repeated queries."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import stdev
from typing import Any, ClassVar

import numpy as np
import pytest

from editcritic.reward import Card, EditSample, Operation, Program, Reward, Score, ask
from editcritic.reward.engine import ask_many
from editcritic.reward.metrics import Product, Threshold, WeightedMean
from editcritic.reward.metrics.operations import PerOperation
from editcritic.reward.queries import Abstention, Judge, Message, Rate, Reply, YesNo
from editcritic.reward.queries.answers import Measurement, Outcome
from editcritic.reward.queries.kinds import Query
from editcritic.reward.training.advantages import advantages
from editcritic.reward.training.judge_variance import (
    DRAW_STRIDE,
    ResampledMetric,
    VarianceEstimate,
    measure_judge_variance,
)

from ..fakes import Fake, Says, picture, sample

NOISE = 0.1


@dataclass(frozen=True)
class Asked:
    """The mean of a judge's replies over draws."""

    draws: int = 1
    topic: str = "quality"

    @property
    def card(self) -> Card:
        return Card("judged", 1, "mean reply of the judge", roles=("judge",))

    def __call__(self, sample: EditSample) -> Program[Score]:
        words = Message((self.topic, sample.edited))
        questions = [Judge((words,), YesNo(), self.topic, draw=draw) for draw in range(self.draws)]
        replies = yield from ask_many(questions)
        return Score.of(sum(reply.probabilities["yes"] for reply in replies) / len(replies))


@dataclass(frozen=True)
class RatedPicture:
    """A rating without draws."""

    card: ClassVar[Card] = Card("rated-picture", 1, "a rating", roles=("preference",))

    def __call__(self, sample: EditSample) -> Program[Score]:
        answer = yield from ask(Rate(sample.edited))
        return Score.of(answer.value or 0.0)


def share(query: Query[Any], yes: float) -> Reply:
    return Reply("yes" if yes >= 0.5 else "no", {"yes": yes, "no": 1 - yes})


def wavering(query: Query[Any]) -> Outcome:
    """0.5 plus noise that depends on the draw."""
    if isinstance(query, Rate):
        return Measurement(0.25)
    return share(query, min(max(random.Random(query.digest).gauss(0.5, NOISE), 0.0), 1.0))


def firm(query: Query[Any]) -> Outcome:
    """Depends on the image only, not on the draw."""
    assert isinstance(query, Judge)
    return share(query, int(query.images[0].digest[:4], 16) / 2**16)


def torn(query: Query[Any]) -> Outcome:
    """Abstains in one draw of three."""
    return Abstention("who could know") if int(query.digest[:8], 16) % 3 == 0 else wavering(query)


def samples(count: int) -> list[EditSample]:
    return [sample(f"s{number}", edited=picture(number + 1)) for number in range(count)]


def reward_of(metric: Any, rule: Any) -> tuple[Reward, Fake]:
    expert = Fake(rule)
    return Reward(metric, {"judge": expert, "preference": expert}), expert


def test_the_noise_of_a_judge_is_found():
    reward, _ = reward_of(Asked(), wavering)
    noise = measure_judge_variance(reward, samples(64))
    assert noise.overall is not None
    assert noise.overall.low is not None
    assert noise.overall.high is not None
    assert noise.overall.low < NOISE < noise.overall.high
    assert noise.overall.high - noise.overall.low < 0.04
    assert not noise.deterministic
    assert (noise.repeats, noise.samples, noise.unscored, noise.judge_queries) == (4, 64, 0.0, 64)
    single, four = (measure_judge_variance(reward_of(Asked(draws), wavering)[0], samples(64)).std for draws in (1, 4))
    assert four == pytest.approx(single / 2, rel=0.2)
    reward, _ = reward_of(Threshold(Asked(), threshold=0.5), wavering)
    noise = measure_judge_variance(reward, samples(64))
    assert noise.overall is not None
    assert noise.overall.disagreement == pytest.approx(0.5, abs=0.07)
    assert noise.parts["metric"].disagreement is None
    assert "% of decisions flip" in str(noise)


def test_a_deterministic_judge_and_none_have_exactly_no_noise():
    reward, _ = reward_of(WeightedMean({"one": Asked(), "two": Asked(topic="following")}), firm)
    noise = measure_judge_variance(reward, samples(7), repeats=3)
    assert noise.std == 0.0
    assert noise.deterministic
    assert str(noise) == "exactly 0 over 3 repeats of 7 samples: the judge is deterministic"
    assert noise.overall == VarianceEstimate(0.0, 0.0, 0.0, None, 7)
    reward, expert = reward_of(RatedPicture(), wavering)
    noise = measure_judge_variance(reward, samples(3))
    assert noise.judge_queries == 0
    assert str(noise) == "exactly 0 over 4 repeats of 3 samples: no judge is used"
    assert sum(expert.seen.values()) == 3  # the other repeats are answered from memory


def test_each_part_and_credit_has_a_noise_of_its_own():
    reward, _ = reward_of(Product({"judged": Asked(), "rated": RatedPicture()}), wavering)
    noise = measure_judge_variance(reward, samples(32))
    assert noise.parts["rated"].std == 0.0
    assert noise.parts["judged"].std == pytest.approx(noise.std / 0.25)
    assert not noise.deterministic
    reward, _ = reward_of(PerOperation(Asked()), wavering)
    operations = (Operation("make it blue"), Operation("make it small"))
    noise = measure_judge_variance(reward, [replace(edit, operations=operations) for edit in samples(8)])
    assert set(noise.parts) == {"operation 1", "operation 2"}
    assert noise.parts["operation 1"].std == pytest.approx(noise.std)  # both ask the same of the same picture


def test_noise_is_what_advantages_take_and_missing_values_are_counted():
    reward, _ = reward_of(Asked(), wavering)
    batch = samples(64)
    noise = measure_judge_variance(reward, batch)
    plain, corrected = (
        advantages(reward(batch), [f"{index // 8}" for index in range(64)], judge_std=judge_std)
        for judge_std in (0.0, noise.std)
    )
    assert np.abs(corrected.values).mean() < 0.5 * np.abs(plain.values).mean()
    assert corrected.noise_variance_share > 0.7
    reward, _ = reward_of(Asked(), torn)
    noise = measure_judge_variance(reward, samples(64))
    assert noise.unscored == pytest.approx(1 / 3, abs=0.1)
    assert noise.std == pytest.approx(NOISE, rel=0.25)
    never, _ = reward_of(Says(Score.abstained("never")), wavering)
    nothing = measure_judge_variance(never, samples(2))
    assert nothing.overall is None
    assert not nothing.deterministic
    with pytest.raises(ValueError, match="no sample has two values, 100% of the scores have none"):
        _ = nothing.std


def test_repeats_ask_nothing_twice_and_share_no_draw():
    reward, expert = reward_of(Asked(draws=3), wavering)
    batch = samples(5)
    scores = reward(batch)
    assert sum(expert.seen.values()) == 15
    measure_judge_variance(reward, batch, repeats=4)
    assert sum(expert.seen.values()) == 60
    assert set(expert.seen.values()) == {1}
    assert list(Reward(ResampledMetric(reward.metric, 0), reward.experts, engine=reward.engine)(batch)) == list(scores)
    measure_judge_variance(reward, batch, repeats=5)  # a measurement that goes on asks only what is new
    assert sum(expert.seen.values()) == 75
    draws: list[int] = []

    def noting(query: Query[Any]) -> Outcome:
        assert isinstance(query, Judge)
        draws.append(query.draw)
        return wavering(query)

    reward, _ = reward_of(Asked(draws=3), noting)
    measure_judge_variance(reward, samples(1), repeats=3)
    assert sorted(draws) == [repeat * DRAW_STRIDE + draw for repeat in range(3) for draw in range(3)]


def test_estimates_are_pooled_and_too_little_is_refused():
    rows: list[Sequence[float]] = [[1.0, 3.0], [0.0, 1.0, 2.0], [5.0]]
    pooled, one, none = (VarianceEstimate.of(values) for values in (rows, [[0.0, 1.0]], [[0.1] * 3, [0.7] * 5]))
    assert pooled is not None
    assert pooled.std == pytest.approx(math.sqrt((stdev(rows[0]) ** 2 + 2 * stdev(rows[1]) ** 2) / 3))
    assert pooled.samples == 2
    assert one is not None
    assert (one.low, one.high, one.disagreement) == (None, None, 1.0)
    assert str(one) == "0.707, 100% of decisions flip"
    assert none is not None
    assert (none.std, none.low, none.high) == (0.0, 0.0, 0.0), "whatever the mean of equal values rounds to"
    assert VarianceEstimate.of([[1.0], []]) is None
    reward, expert = reward_of(Asked(), wavering)
    with pytest.raises(ValueError, match="two or more repeats, got 1"):
        measure_judge_variance(reward, samples(1), repeats=1)
    with pytest.raises(ValueError, match="got none"):
        measure_judge_variance(reward, [])
    assert not expert.seen
