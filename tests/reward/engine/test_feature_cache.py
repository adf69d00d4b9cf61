"""Values are computed once while the cache has room for them."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward.engine.feature_cache import FeatureCache


def squares(calls):
    def compute(numbers):
        calls.append(list(numbers))
        return [np.full(number, number) for number in numbers]

    return compute


def inputs(*numbers):
    return {str(number): number for number in numbers}


def array_bytes(value):
    return int(value.nbytes)


def test_what_is_known_is_not_computed_again():
    calls: list[list[int]] = []
    cache = FeatureCache(10**6, array_bytes)
    cache.get_or_compute(inputs(1, 2), squares(calls))
    values = cache.get_or_compute(inputs(2, 3, 1), squares(calls))
    assert calls == [[1, 2], [3]]
    assert {key: value.tolist() for key, value in values.items()} == {"1": [1], "2": [2, 2], "3": [3, 3, 3]}
    assert cache.computed == 3


@given(st.lists(st.lists(st.integers(1, 9), max_size=5), max_size=8), st.integers(0, 200))
def test_the_limit_holds_and_every_answer_is_right(batches, limit):
    cache = FeatureCache(limit, array_bytes)
    for batch in batches:
        values = cache.get_or_compute(inputs(*batch), squares([]))
        assert {int(key) for key in values} == set(batch)
        assert all(value.tolist() == [int(key)] * int(key) for key, value in values.items())
        assert cache.bytes <= limit
        assert cache.bytes == sum(value.nbytes for value in cache._kept.values())


def test_the_least_recently_used_goes_first():
    calls: list[list[int]] = []
    cache = FeatureCache(3 * 8, array_bytes)
    for number in (1, 2):
        cache.get_or_compute(inputs(number), squares(calls))
    cache.get_or_compute({"1": 1}, squares(calls))
    cache.get_or_compute({"one": 1}, squares(calls))  # 1 + 2 + 1 numbers are too many
    cache.get_or_compute({"1": 1}, squares(calls))
    assert calls == [[1], [2], [1]]
    assert len(cache) == 2


def test_forgetting_gives_the_memory_back():
    calls: list[list[int]] = []
    cache = FeatureCache(10**6, array_bytes)
    cache.get_or_compute(inputs(5), squares(calls))
    cache.clear()
    assert (cache.bytes, len(cache)) == (0, 0)
    cache.get_or_compute(inputs(5), squares(calls))
    assert calls == [[5], [5]]


def test_too_few_values_are_an_error():
    with pytest.raises(ValueError, match="zip"):
        FeatureCache(100, array_bytes).get_or_compute(inputs(1, 2), lambda numbers: [np.zeros(1)])


def test_threads_may_ask_at_once():
    cache = FeatureCache(400, array_bytes)
    wrong: list[str] = []

    def work(seed):
        order = np.random.default_rng(seed)
        for _ in range(200):
            numbers = order.integers(1, 20, 3).tolist()
            values = cache.get_or_compute(inputs(*numbers), squares([]))
            wrong.extend(key for key, value in values.items() if value.tolist() != [int(key)] * int(key))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cache.bytes == sum(value.nbytes for value in cache._kept.values()) <= 400
