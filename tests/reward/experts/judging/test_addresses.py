"""Which address of a judge gets a request, and which is left alone."""

from types import SimpleNamespace
from typing import Any

import pytest

from editcritic.reward.experts.judging import addresses as module
from editcritic.reward.experts.judging.addresses import MIN_BOUNDED_LOAD, Address, Addresses, AddressRequest

URLS = "http://a:8000/v1,http://b:8000/v1/,http://c:8000/v1"


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=1000.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def pool(clock) -> Addresses:
    return Addresses(URLS, 60)


def used(pool: Addresses, group: str = "g", avoid: Address | None = None) -> Address:
    with pool.use(group, avoid) as request:
        return request.address


WRONG: dict[Any, str] = {
    "": "must be a URL",
    (): "a URL or a list",
    7: "a URL or a list",
    "http://a/v1,": "must be a URL",
}
WRONG |= {("http://a/v1", 7): "must be a URL", "http://a/v1, http://a/v1/": "has a/v1 twice"}
WRONG |= {"http://a/v1,http://user:secret@b/v1": "no password"}


def test_addresses_are_read_from_a_text_or_a_list():
    assert Addresses(URLS, 60).names == Addresses(URLS.split(","), 60).names == "a:8000/v1, b:8000/v1, c:8000/v1"
    assert Addresses("http://a/v1", 60).names == "a/v1"
    for urls, says in WRONG.items():
        with pytest.raises(ValueError, match=says) as raised:
            Addresses(urls, 60)
        assert "secret" not in str(raised.value)


def test_a_group_stays_at_its_address_and_the_rest_goes_to_others(pool):
    home = used(pool)
    assert all(used(pool) is home for _ in range(9))
    assert {used(pool, str(group)) for group in range(60)} == set(pool.all)
    home.in_flight = MIN_BOUNDED_LOAD
    assert used(pool) is not home
    assert home.in_flight == MIN_BOUNDED_LOAD


def test_an_address_that_fails_is_left_for_longer_and_longer_and_is_tried_by_one_request(clock, pool):
    with pool.use("g") as one, pool.use("g") as other:
        home = one.address
        pool.record_failure(one, None)
        pool.record_failure(other, None)  # was in flight with it: the same failure
    for seconds in (1.0, 2.0, 4.0):
        clock.now += seconds - 0.01
        assert used(pool) is not home
        clock.now += 0.02
        with pool.use("g") as cancelled:
            assert cancelled.address is home  # and it ends without an answer or a failure
        with pool.use("g") as tried:
            assert tried.address is home
            assert used(pool) is not home  # while it is tried
            if seconds < 4.0:
                pool.record_failure(tried, None)
            else:
                pool.record_answer(tried)
    assert used(pool) is home
    pool.record_failure(AddressRequest(home, home.failures), None)
    clock.now += 1.01
    assert used(pool) is home


@pytest.mark.parametrize(("asked_s", "left_s"), [(30.0, 30.0), (1e9, 60.0)])
def test_an_address_is_left_for_as_long_as_it_says_and_only_a_later_one_brings_it_back(clock, pool, asked_s, left_s):
    with pool.use("g") as slow, pool.use("g") as refused:
        home = slow.address
        pool.record_failure(refused, asked_s)
        pool.record_answer(slow)  # was in flight before the other was refused
    clock.now += left_s - 0.1
    assert used(pool) is not home
    clock.now += 0.2
    with pool.use("g") as tried:
        assert tried.address is home
        pool.record_failure(slow, None)  # another old one says nothing of the trial
        assert home.half_open is tried
        pool.record_answer(tried)
    assert all(used(pool) is home for _ in range(3))


def test_if_all_are_left_one_is_asked_and_not_the_one_that_has_just_failed(pool):
    one = Addresses("http://a/v1", 60)
    for addresses in (pool, one):
        for address in addresses.all:
            addresses.record_failure(AddressRequest(address, address.failures), 1e9)
    home = used(pool)
    assert used(pool, avoid=home) is not home
    assert not any(map(pool.has_other, pool.all))
    assert used(one, avoid=one.first) is one.first
