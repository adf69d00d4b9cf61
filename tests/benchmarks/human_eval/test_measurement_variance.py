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

TOY = "tests.benchmarks.suites.tiny_suite:Toy"


class Grader(Expert):
    """Random grades, the same for the same draw."""

    id = "grader@1"
    kinds = (Judge,)

    def __init__(self) -> None:
        self.queries: list[tuple[str, int]] = []

    def __call__(self, queries: Sequence[Judge]) -> Sequence[Reply]:
        self.queries += [(query.digest, query.draw) for query in queries]
        grades = [np.clip(round(np.random.default_rng(query.draw).normal(5, 2)), 0, 10) for query in queries]
        return [Reply(json.dumps({"reasoning": "because", "score": int(grade)})) for grade in grades]


def grader():
    return {"judge": Grader()}


def measurements(std, samples=200, count=80):
    rng = np.random.default_rng(0)
    names = [f"{n}" for n in range(samples)]
    return RepeatedMeasurements("it", names, names, [list(rng.normal(5, std, count)) for _ in names], {})


def test_the_variation_falls_with_the_root_of_k_as_expected_and_settles():
    measured = measurements(2.0)
    rows = {k: measured.variation_at(k) for k in (1, 2, 4, 8, 16, 20)}
    for k in (1, 4, 16):
        assert rows[k].mean == pytest.approx(rows[k].expected, rel=0.08)
        assert rows[k].low < rows[k].mean < rows[k].high
    assert rows[1].mean == pytest.approx(2 * rows[4].mean, rel=0.1)
    assert first_stable_count(list(rows.values())) in (8, 16)


def test_how_many_measurements_a_wanted_variation_takes():
    measured = measurements(2.0)
    k = measured.required_count(0.5)
    assert k == pytest.approx((1.029 * 2 / 0.5) ** 2, rel=0.1)
    assert measured.variation_at(k).mean == pytest.approx(0.5, rel=0.1)
    assert measured.required_count(100) == measurements(0.0, 5).required_count(0.1) == 1


def test_items_that_are_drawn_are_of_many_cases():
    items = Toy(count=6).items
    assert (len({item.case for item in sample_items(items, 6)}), len(sample_items(items, 100))) == (6, 12)
    assert sample_items(items, 5, 1) != sample_items(items, 5, 2)


def test_each_measurement_is_a_call_with_draws_of_its_own():
    judge = Grader()
    edits = [MeasuredEdit(item.id, item.case, item.sample) for item in Toy(count=2).items[:2]]
    steps = []
    reward = Reward.of("complex-edit-pq?n=1", {"judge": judge})
    measured = measure_repeatedly(reward, edits, (), 8, lambda: steps.append(1))
    assert [len(row) for row in measured.values] == [8, 8]
    assert len(steps) == len({draw for _, draw in judge.queries}) == 8
    assert len(set(judge.queries)) == len(judge.queries)
    with pytest.raises(InputError, match="no part 'else'"):
        measure_repeatedly(reward, edits[:1], ("else",), 4)


def test_noise_as_a_command(editcritic, tmp_path):
    folder = outputs(tmp_path / "outputs", Toy(count=3), without=["2/1"])
    command = (
        "judge", "variance", f"{TOY}?count=3", "--outputs", folder, "--metric", "complex-edit-pq", "-k", "1,4",
        "--num-samples", 2, "--target-variation", 0.5, "--experts", f"{__name__}:grader",
    )  # fmt: skip
    ran = editcritic(*command, "-o", tmp_path / "noise.json", "--cache", tmp_path / "answers")
    assert ran.exit_code == 0, ran.stderr
    assert "for a mean variation of 0.5: K =" in ran.stdout
    document = json.loads((tmp_path / "noise.json").read_text())
    assert [len(row) for row in document["measurements"].values()] == [16, 16]
    assert [row["k"] for row in document["variation"]] == [1, 4]
    rerun = editcritic(*command, "--cache", tmp_path / "answers", "--json")
    assert (json.loads(rerun.stdout), editcritic(*command, "-k", "0").exit_code) == (document, 2)


def test_a_part_stands_before_the_options_which_may_hold_paths(editcritic, tmp_path):
    folder = outputs(tmp_path / "outputs", Toy(count=2))
    (words := tmp_path / "words").mkdir()
    (words / "quality.txt").write_text("Your grade from 0 to 10? {rubric}")
    command = ("judge", "variance", f"{TOY}?count=2", "--outputs", folder, "-k", "1", "--experts", f"{__name__}:grader")
    ran, refused = (
        editcritic(*command, "--metric", f"{metric}?prompts={words}", "--json")
        for metric in ("complex-edit-pq", "complex-edit-pq/else")
    )
    assert json.loads(ran.stdout)["metric"] == "complex-edit-pq"
    assert "no part 'else'" in refused.stderr


@pytest.mark.parametrize(
    ("grades", "k", "half_range"), [([1, 3, 5, 7, 2, 2, 9, 1], 2, 2.0), ([4, 9, 1, 5, 0, 0], 1, 4.0), ([7] * 12, 3, 0)]
)
def test_a_variation_is_half_the_range_of_four_means(grades, k, half_range):
    assert variation(grades, k) == half_range


@pytest.mark.parametrize(("k", "says"), [(0, "at least one measurement"), (3, "need 12 grades, got 8: measure more")])
def test_too_few_measurements_are_refused(k, says):
    with pytest.raises(ValueError, match=says):
        variation([5] * 8, k)
