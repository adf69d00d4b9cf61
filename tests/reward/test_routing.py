"""Which of several equal servers gets a request."""

from collections import Counter
from dataclasses import dataclass

import pytest

from editcritic.reward.routing import by_preference, within_load


@dataclass
class Box:
    url: str
    load: int = 0


BOXES = [Box(f"http://{name}") for name in "abcd"]


def test_an_order_depends_on_the_group_and_not_on_that_of_the_servers():
    assert by_preference(BOXES, "g") == by_preference(BOXES[::-1], "g")
    first = Counter(by_preference(BOXES, f"group {number}")[0].url for number in range(400))
    assert set(first) == {box.url for box in BOXES}
    assert min(first.values()) > 50


def test_without_a_server_only_its_groups_move():
    for number in range(100):
        order = by_preference(BOXES, str(number))
        rest = by_preference([box for box in BOXES if box is not order[1]], str(number))
        assert rest == [order[0], *order[2:]]


def test_a_server_beyond_its_share_is_passed_over():
    near, far = Box("near", 7), Box("far", 0)
    chosen = [within_load([near, far], lambda box: box.load, count, 8) for count in (1, 2)]
    assert chosen == [near, far]  # 8 is never too much; 9 is more than 1.25 times half of 9
    near.load = far.load = 50
    assert within_load([near, far], lambda box: box.load, 1, 8) is near
    assert within_load([near, far], lambda box: box.load, 1000, 8) is near  # all beyond: the one with the least
    with pytest.raises(ValueError, match="no server"):
        within_load([], lambda box: 0, 1, 8)
