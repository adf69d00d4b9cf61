"""Caches are bounded by the size of what they hold, and drop what was used least recently."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward.lru_cache import FeatureCache, LruCache
from editcritic.reward.queries import Mask, UpscaledImage
from editcritic.reward.queries.serialization import approximate_bytes

from .fakes import picture


def test_what_was_used_last_stays_and_answers_count_by_their_pixels():
    cache: LruCache[str, str] = LruCache(3, len)
    for key, value in (("a", "a"), ("b", "bb"), ("a", "other"), ("c", "c")):
        assert cache.get("a") in (None, "a")
        cache.put(key, value)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), cache.used, len(cache)) == ("a", None, "c", 2, 2)
    cache.clear()
    assert (cache.get("a"), cache.used) == (None, 0)
    for least in (0, 1):
        small: LruCache[str, str] = LruCache(2, len, least=least)
        small.put("a", "far too long")
        assert len(small) == least
    for answer in (UpscaledImage(picture(1, 100, 100)), Mask(np.ones((200, 150), bool))):
        assert 30_000 <= approximate_bytes(answer) < 31_000


def squares(calls):
    def compute(numbers):
        calls.append(list(numbers))
        return [np.full(number, number) for number in numbers]

    return compute


def inputs(*numbers):
    return {str(number): number for number in numbers}


def features(limit=10**6):
    return FeatureCache[np.ndarray](limit, lambda value: int(value.nbytes))


def test_what_is_known_is_not_computed_again():
    calls: list[list[int]] = []
    cache = features()
    cache.get_or_compute(inputs(1, 2), squares(calls))
    values = cache.get_or_compute(inputs(2, 3, 1), squares(calls))
    assert (calls, cache.computed) == ([[1, 2], [3]], 3)
    assert {key: value.tolist() for key, value in values.items()} == {"1": [1], "2": [2, 2], "3": [3, 3, 3]}
    with pytest.raises(ValueError, match="zip"):
        cache.get_or_compute(inputs(5, 6), lambda numbers: [np.zeros(1)])


@given(st.lists(st.lists(st.integers(1, 9), max_size=5), max_size=8), st.integers(0, 200))
def test_the_limit_holds_and_every_answer_is_right(batches, limit):
    cache = features(limit)
    for batch in batches:
        values = cache.get_or_compute(inputs(*batch), squares([]))
        assert {int(key) for key in values} == set(batch)
        assert all(value.tolist() == [int(key)] * int(key) for key, value in values.items())
        assert sum(value.nbytes for value in cache._kept.values()) == cache.used <= limit


def test_threads_may_ask_at_once():
    cache = features(400)
    wrong: list[object] = []

    def work(seed):
        order = np.random.default_rng(seed)
        for _ in range(200):
            values = cache.get_or_compute(inputs(*order.integers(1, 20, 3).tolist()), squares([]))
            wrong.extend(key for key, value in values.items() if value.tolist() != [int(key)] * int(key))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cache.used <= 400
