"""The variance of a judge by number of measurements, with a judge of known standard deviation."""

import json
from collections.abc import Sequence

import numpy as np
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.human_eval.measurement_variance import (
    MeasuredEdit,
    RepeatedMeasurements,
    first_stable_count,
    measure_repeatedly,
    sample_items,
    variation,
)
from editcritic.reward import Expert, Reward
from editcritic.reward.queries import Judge, Reply

from ..suites.tiny_suite import Toy, outputs


class Grader(Expert):
    """Random grades, the same for the same draw."""

    id = "grader@1"
    kinds = (Judge,)

    def __init__(self) -> None:
        self.queries: list[tuple[str, int]] = []

    def __call__(self, queries: Sequence[Judge]) -> Sequence[Reply]:
        self.queries += [(query.digest, query.draw) for query in queries]
        return [self._graded(query) for query in queries]

    def _graded(self, query: Judge) -> Reply:
        grade = int(np.clip(round(np.random.default_rng(query.draw).normal(5, 2)), 0, 10))
        return Reply(json.dumps({"reasoning": "because", "score": grade}))


def grader():
    return {"judge": Grader()}


def measurements(std, samples=200, count=80):
    rng = np.random.default_rng(0)
    values = [list(rng.normal(5, std, count)) for _ in range(samples)]
    names = [f"{n}" for n in range(samples)]
    return RepeatedMeasurements("it", names, names, values, {})


def test_the_variation_falls_with_the_root_of_k_as_expected():
    measured = measurements(2.0)
    for k in (1, 4, 16):
        row = measured.variation_at(k)
        assert row.mean == pytest.approx(row.expected, rel=0.08)
        assert row.low < row.mean < row.high
    assert measured.variation_at(1).mean == pytest.approx(2 * measured.variation_at(4).mean, rel=0.1)


def test_how_many_measurements_a_wanted_variation_takes():
    measured = measurements(2.0)
    k = measured.required_count(0.5)
    assert k == pytest.approx((1.029 * 2 / 0.5) ** 2, rel=0.1)
    assert measured.variation_at(k).mean == pytest.approx(0.5, rel=0.1)
    assert measured.required_count(100) == 1
    assert measurements(0.0, 5).required_count(0.1) == 1


def test_where_it_settles():
    measured = measurements(2.0)
    rows = [measured.variation_at(k) for k in (1, 2, 4, 8, 16, 20)]
    assert first_stable_count(rows) in (8, 16)


def test_a_k_without_enough_measurements_is_refused():
    with pytest.raises(ValueError, match="need 80 grades, got 40"):
        measurements(1.0, 2, 40).variation_at(20)


def test_items_that_are_drawn_are_of_many_cases():
    suite = Toy(count=6)
    assert len({item.case for item in sample_items(suite.items, 6)}) == 6
    assert len(sample_items(suite.items, 100)) == 12
    assert sample_items(suite.items, 5, 1) != sample_items(suite.items, 5, 2)


def test_each_measurement_is_a_call_with_draws_of_its_own(tmp_path):
    suite = Toy(count=2)
    judge = Grader()
    reward = Reward.of("complex-edit-pq?n=1", {"judge": judge})
    edits = [MeasuredEdit(item.id, item.case, item.sample) for item in suite.items[:2]]
    steps = []
    measured = measure_repeatedly(reward, edits, (), 8, lambda: steps.append(1))
    assert [len(row) for row in measured.values] == [8, 8]
    assert len(steps) == 8
    assert len(set(judge.queries)) == len(judge.queries)
    assert len({draw for _, draw in judge.queries}) == 8


def test_a_part_that_is_not_there_is_said():
    suite = Toy(count=1)
    reward = Reward.of("complex-edit-pq?n=1", grader())
    with pytest.raises(InputError, match="no part 'else'"):
        measure_repeatedly(reward, [MeasuredEdit.of(suite.items[0].sample)], ("else",), 4)


def test_noise_as_a_command(editcritic, tmp_path):
    suite = Toy(count=3)
    folder = outputs(tmp_path / "outputs", suite, without=["2/1"])
    command = (
        "judge", "variance", "tests.benchmarks.suites.tiny_suite:Toy?count=3", "--outputs", folder,
        "--metric", "complex-edit-pq", "-k", "1,4", "--num-samples", 2, "--target-variation", 0.5,
        "--experts", f"{__name__}:grader",
    )  # fmt: skip
    ran = editcritic(*command, "-o", tmp_path / "noise.json", "--cache", tmp_path / "answers")
    assert ran.exit_code == 0, ran.stderr
    assert "for a mean variation of 0.5: K =" in ran.stdout
    document = json.loads((tmp_path / "noise.json").read_text())
    assert [len(row) for row in document["measurements"].values()] == [16, 16]
    assert [row["k"] for row in document["variation"]] == [1, 4]
    rerun = editcritic(*command, "--cache", tmp_path / "answers", "--json")
    assert json.loads(rerun.stdout) == document
    assert editcritic(*command, "-k", "0").exit_code == 2


def test_a_part_stands_before_the_options_which_may_hold_paths(editcritic, tmp_path):
    folder = outputs(tmp_path / "outputs", Toy(count=2))
    words = tmp_path / "words"
    words.mkdir()
    (words / "quality.txt").write_text("Your grade from 0 to 10? {rubric}")

    def measured(metric):
        return editcritic(
            *("judge", "variance", "tests.benchmarks.suites.tiny_suite:Toy?count=2", "--outputs", folder),
            *("--metric", metric, "-k", "1", "--experts", f"{__name__}:grader", "--json"),
        )

    assert json.loads(measured(f"complex-edit-pq?prompts={words}").stdout)["metric"] == "complex-edit-pq"
    assert "no part 'else'" in measured(f"complex-edit-pq/else?prompts={words}").stderr


def test_a_variation_is_half_the_range_of_four_means():
    assert variation([1, 3, 5, 7, 2, 2, 9, 1], 2) == (6 - 2) / 2
    assert variation([4, 9, 1, 5, 0, 0], 1) == 4.0
    assert variation([7] * 12, 3) == 0.0


@pytest.mark.parametrize(("k", "says"), [(0, "at least one measurement"), (3, "need 12 grades, got 8: measure more")])
def test_too_few_measurements_are_refused(k, says):
    with pytest.raises(ValueError, match=says):
        variation([5] * 8, k)
