"""Asking: in one process or in several, the rows are the same."""

import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.critics import experts
from editcritic.benchmarks.validity.desk import Counts, Crew, Desk, Noise
from editcritic.benchmarks.validity.metrics import chosen

CASES = cases(30, seed=3)
SAMPLES = [case.sample for case in CASES]
SPECS = ("edival-if?dense=true", "edival-cc?protocol=fixed&similarity=l1")


@pytest.fixture(scope="module")
def tried():
    return chosen(SPECS, experts(), CASES)


def test_several_processes_find_what_one_finds(tried):
    desk, steps = Desk(experts()), []
    noise = Noise("misses", 0.4, seed=1)
    with Crew(2) as crew:
        rows = list(crew.ask(tried, SAMPLES, step=lambda: steps.append(1)))
        assert rows == list(desk.ask(tried, SAMPLES))
        assert len(steps) == len(SAMPLES)
        spoilt = list(crew.ask(tried, SAMPLES, noise=noise))
        assert spoilt == list(desk.ask(tried, SAMPLES, noise=noise)) != rows
        known = crew.counts()
        assert list(crew.ask(tried, SAMPLES)) == rows
        assert crew.counts().known - known.known == crew.counts().asked - known.asked > 0


def test_rows_come_sample_by_sample_in_order(tried):
    rows = list(Desk(experts()).ask(tried, SAMPLES[:3]))
    assert [(row.case, row.spec) for row in rows] == [(place, spec) for place in range(3) for spec in SPECS]


def test_what_was_asked_before_is_not_asked_again(tried):
    desk = Desk(experts())
    assert desk.counts() == Counts()
    list(desk.ask(tried, SAMPLES[:5]))
    first = desk.counts()
    list(desk.ask(tried, SAMPLES[:5]))
    assert desk.counts().asked - desk.counts().known == first.asked - first.known > 0


def test_an_expert_that_serves_two_roles_is_counted_once(tried):
    pixels = experts()
    assert pixels["features"] is pixels["pixels"]
    desk = Desk(pixels)
    list(desk.ask(tried, SAMPLES[:1]))
    assert desk.counts().asked < 30
