"""Which of several equal servers gets a request."""

from collections import Counter

from editcritic.reward.routing import Server, by_preference, choose_server

BOXES = [Server(f"http://{name}") for name in "abcd"]


def test_a_group_has_its_order_of_servers():
    assert by_preference(BOXES, "g") == by_preference(BOXES[::-1], "g")
    first = Counter(by_preference(BOXES, f"group {number}")[0].url for number in range(400))
    assert set(first) == {box.url for box in BOXES}
    assert min(first.values()) > 50
    for number in range(100):
        order = by_preference(BOXES, str(number))
        rest = by_preference([box for box in BOXES if box is not order[1]], str(number))
        assert rest == [order[0], *order[2:]]


def test_a_server_beyond_its_share_is_passed_over():
    near, far = by_preference(BOXES[:2], "g")
    with near.waited_for(7):
        chosen = [choose_server(BOXES[:2], "g", count, 8) for count in (1, 2)]
        assert chosen == [near, far]  # 8 is never too much; 9 is more than 1.25 times half of 9
        assert choose_server(BOXES[:2], "g", 1, 8, avoid=near) is far
        assert choose_server([near], "g", 1, 8, avoid=near) is near
    assert near.in_flight == 0
    with near.waited_for(50), far.waited_for(50):
        assert choose_server(BOXES[:2], "g", 1, 8) is near
        assert choose_server(BOXES[:2], "g", 1000, 8) is near  # all beyond: the one with the least
    assert choose_server([], "g", 1, 8) is None
