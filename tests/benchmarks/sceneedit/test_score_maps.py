"""Score maps where the truth is known: judges of SceneEdit brought onto one scale, on edits they were not fitted on."""

import numpy as np
import pytest

from editcritic.benchmarks.human_eval.calibration_fit import CalibrationSource, LabelSet, fit_calibrations
from editcritic.benchmarks.human_eval.label_matching import ScoreLookup
from editcritic.benchmarks.human_eval.monotone_regression import fit_pairs
from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.suites.results import ResultRow, Results
from editcritic.reward import Engine, Reward, build
from editcritic.reward.metrics import WeightedMean
from editcritic.reward.metrics.calibration import Calibrated

from ..human_eval.label_files import make_label

YES, GRADE, LEVELS = "judge-yes-no", "complex-edit-o?mode=expected", "judge-levels"
SPECS = {"yes": YES, "grade": GRADE, "levels": LEVELS}  # shares, grades from 0 to 10, shares
PEOPLE = 6.0  # log-odds between an edit whose truth is 1 and one whose truth is 0


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


class Study:
    """Edits scored by three judges; half of them compared by made-up people who see the truth, now and then wrongly."""

    def __init__(self, count=160):
        edits = cases(count, size=32, turns=1)
        self.samples = [case.sample for case in edits]
        self.truth = np.array([case.truth.overall for case in edits])
        self.experts, self.engine = scene_experts(), Engine()
        scores = {name: Reward.of(spec, self.experts, engine=self.engine)(self.samples) for name, spec in SPECS.items()}
        self.raw = {name: np.array(one.values, float) for name, one in scores.items()}
        ids = [sample.id for sample in self.samples]
        rows = [ResultRow(ids[at], ids[at], {}, {name: one[at] for name, one in scores.items()}) for at in range(count)]
        rng = np.random.default_rng(0)
        seen, self.unseen = np.split(rng.permutation(count), 2)
        self.compared = [rng.choice(seen, 2, replace=False) for _ in range(1200)]
        self.won = [rng.random() < self.odds(i, j) for i, j in self.compared]
        self.seen = seen
        labels = [
            make_label("A" if won else "B", (("", ids[i]), ("", ids[j])), "pair", by=f"person {number}")
            for number, ((i, j), won) in enumerate(zip(self.compared, self.won, strict=True))
        ]
        source = CalibrationSource(ScoreLookup([Results("", rows)]))
        self.maps = fit_calibrations(
            LabelSet.select(labels), source, list(SPECS), rewards=[build(spec) for spec in SPECS.values()]
        )
        self.pairs = rng.choice(self.unseen, (2, 6000))

    def odds(self, i, j):
        """How likely people prefer one to the other."""
        return sigmoid(PEOPLE * (self.truth[i] - self.truth[j]))

    def mapped(self, name):
        return np.array([self.maps[name](value) for value in self.raw[name]])

    def straight(self, name):
        """As `mapped`, by a straight line fitted on the same labels."""
        x = self.raw[name]
        i, j = np.array(self.compared).T
        fit = fit_pairs(x[i], x[j], np.array(self.won, float), reference_scores=x[self.seen], knots=2, l2=1e-3)
        return fit.y[0] + (x - fit.x[0]) / np.ptp(fit.x) * np.ptp(fit.y)

    def loss(self, one, other):
        """Log-loss on unseen pairs: the first edit scored by one judge, the second by another."""
        i, j = self.pairs
        z, p = one[i] - other[j], self.odds(i, j)
        return float(np.mean(np.logaddexp(0, z) - p * z))


@pytest.fixture(scope="module")
def study():
    return Study()


def test_an_edit_of_one_judge_can_be_compared_with_an_edit_of_another(study):
    yes, grade = study.mapped("yes"), study.mapped("grade")
    own = study.loss(yes, yes), study.loss(grade, grade)
    across = study.loss(yes, grade), study.loss(grade, yes)
    lines = study.straight("yes"), study.straight("grade")
    assert max(across) < max(own) + 0.02 < np.log(2) - 0.1  # 0.559, all but as good as the worse one's own 0.547
    assert max(across) < min(study.loss(*lines), study.loss(*lines[::-1])) - 0.005  # 0.566
    raw = study.raw["yes"], study.raw["grade"]
    assert min(study.loss(*raw), study.loss(*raw[::-1])) > 2  # 3.6: whatever has a grade from 0 to 10 wins


def test_judges_that_see_the_same_say_the_same_on_one_scale(study):
    apart = {
        how: np.sqrt(np.mean((of("yes") - of("levels"))[study.unseen] ** 2))
        for how, of in (("maps", study.mapped), ("lines", study.straight))
    }
    assert apart["maps"] < 0.15 < 0.4 < apart["lines"]  # 0.06 and 0.51, of a spread of 1.9


def test_their_mean_is_a_reward_and_better_than_either(study):
    by = study.maps
    mean = WeightedMean({name: Calibrated(build(SPECS[name]), by[name]) for name in ("yes", "grade")})
    assert mean.card.unit == by["yes"].comes_out.unit
    scores = Reward(mean, study.experts, engine=study.engine)(study.samples)
    values = np.array(scores.values, float)
    assert values == pytest.approx((study.mapped("yes") + study.mapped("grade")) / 2)
    best = min(study.loss(study.mapped(name), study.mapped(name)) for name in ("yes", "grade"))
    assert study.loss(values, values) < best  # 0.491 of 0.507
