"""A killed run resumes without repeating answered queries, and its results equal those of an undisturbed run."""

import json
from collections import Counter

from .conftest import python
from .counting_experts import Paying, files
from .kill_and_resume import COUNT, KILLS


def test_a_run_that_is_killed_twenty_times_ends_as_if_it_had_not_been(tmp_path):
    python("-m", "tests.benchmarks.run.kill_and_resume", tmp_path)
    kills = json.loads((tmp_path / "kills.json").read_text())
    assert sum(killed for _, killed in kills) == KILLS
    assert len({paid for paid, _ in kills}) > KILLS // 2  # they were spread over the run
    assert files(tmp_path / "killed") == files(tmp_path / "straight")

    paid = (tmp_path / "paid_when_killed").read_text().split()
    assert len(set(paid)) == 2 * COUNT == len((tmp_path / "paid").read_text().split())
    in_flight = {number for count, _ in kills for number in range(count - Paying.batch, count)}
    again = {question for question, times in Counter(paid).items() if times > 1}
    assert again <= {paid[number] for number in in_flight if number >= 0}
