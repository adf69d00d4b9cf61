"""Who keeps a connection when they are full: those with the token, or who are being answered."""

import contextlib
import gc
import json
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from editcritic.integrations.serving.server import ScoringService
from editcritic.integrations.serving.server.settings import MIB
from editcritic.reward import Expert

from ..raw_http import connect, is_closed, read_answer, request
from ..served import ASKED, PATIENCE_S, SMALL, TOKEN, Gated, eventually, idle, serving

WITH_TOKEN: dict[str, Any] = {"authorization": f"Bearer {TOKEN}"}
BODY = json.dumps(ASKED).encode()


@contextlib.contextmanager
def judge(
    expert: Expert | None = None, token: str = TOKEN, connections: int = 64, **limits: Any
) -> Iterator[tuple[str, ScoringService]]:
    with serving(expert=expert, limits=limits, token=token, max_connections=connections) as running:
        yield running


@contextlib.contextmanager
def flood(url: str, hold: int, greeting: bytes) -> Iterator[Callable[[], int]]:
    """So many connections, another for each that is closed, or for the oldest; gives the number opened so far."""
    stop, opened = threading.Event(), [0]

    def go_on() -> None:
        held: list[socket.socket] = []
        while not stop.is_set():
            try:
                held.append(connect(url))
                opened[0] += 1
                held[-1].sendall(greeting)
            except OSError:
                pass
            if len(held) > hold:
                held.pop(0).close()
        for connection in held:
            connection.close()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        eventually(lambda: opened[0] >= 2 * hold)
        yield lambda: opened[0]
    finally:
        stop.set()
        thread.join()


def requests_counted(service: ScoringService) -> float:
    lines = service.metrics.text().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("editcritic_requests_total"))


def until_let_in(url: str, data: bytes, attempts: int = 30) -> int:
    """The status of a request on a new connection; one that is lost, on a machine without time, is sent again."""
    for _ in range(attempts):
        with contextlib.suppress(OSError), connect(url) as connection:
            connection.sendall(data)
            if status := read_answer(connection).status:
                return status
    return 0


@pytest.mark.parametrize("greeting", [b"", request(), request(path="/metrics"), b"GET /healthz HTTP/1.1\r\nhost: "])
def test_who_has_the_token_and_probes_get_in_while_others_hold_and_reopen_all_connections(greeting: bytes) -> None:
    with judge() as (url, _), flood(url, 150, greeting) as opened:
        while opened() < 750:
            asked = until_let_in(url, request("POST", "/v1/score", BODY, **WITH_TOKEN))
            assert (asked, until_let_in(url, request())) == (200, 200)


def test_without_a_token_a_new_client_gets_in_while_idle_ones_hold_all_connections() -> None:
    with judge(token="") as (url, _), flood(url, 150, request()) as opened:
        while opened() < 750:
            assert until_let_in(url, request("POST", "/v1/score", BODY)) == 200


def test_what_is_scored_and_who_has_shown_the_token_outlast_a_flood() -> None:
    expert = Gated()
    with judge(expert) as (url, service), connect(url) as scored, connect(url) as idle:
        idle.sendall(request(path="/metrics", **WITH_TOKEN))
        assert read_answer(idle).status == 200
        scored.sendall(request("POST", "/v1/score", BODY, **WITH_TOKEN))
        eventually(lambda: service.in_flight)
        with flood(url, 150, request()) as reopened:
            eventually(lambda: reopened() >= 450)
            expert.open.set()
            assert read_answer(scored).status == 200
            for connection in (idle, scored):
                connection.sendall(request(path="/metrics", **WITH_TOKEN))
                assert read_answer(connection).status == 200


def test_a_new_client_is_told_to_come_back_while_all_connections_are_being_answered() -> None:
    expert = Gated()
    with judge(expert, connections=3) as (url, service), contextlib.ExitStack() as stack:
        busy = [stack.enter_context(connect(url)) for _ in range(3)]
        for connection in busy:
            connection.sendall(request("POST", "/v1/score", BODY, **WITH_TOKEN))
        eventually(lambda: service.samples.used == 3)
        with connect(url) as late:
            late.sendall(request())
            answer = read_answer(late)
            assert (answer.status, answer.headers["retry-after"], answer.closed) == (503, "1", True)
        expert.open.set()
        assert [read_answer(connection).status for connection in busy] == [200] * 3


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="has other addresses for this machine")
def test_who_takes_most_of_the_connections_loses_them_first() -> None:
    """The new ones give way, if they are of the address that has more: also before they have shown anything."""
    with judge(connections=8) as (url, _), connect(url, "127.0.0.2") as first, contextlib.ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(connect(url, "127.0.0.3"))
        time.sleep(0.2)
        first.sendall(request("POST", "/v1/score", BODY, **WITH_TOKEN))
        assert read_answer(first).status == 200


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (request(), 200),
        (request(path="/metrics"), 401),
        (request("POST", "/v1/score", BODY), 401),
        (request("POST", "/healthz", BODY), 405),
        (request(path="/metrics", authorization="Bearer another-token-of-the-test"), 401),
    ],
)
def test_without_the_token_there_is_one_answer_to_a_connection(asked: bytes, status: int) -> None:
    with judge() as (url, service), connect(url) as connection:
        connection.sendall(asked * 500)  # each is answered in turn, or none but the first
        answer = read_answer(connection)
        assert (answer.status, answer.closed) == (status, True)
        assert is_closed(connection)
        assert httpx2.post(f"{url}/v1/score", content=BODY, headers=WITH_TOKEN).status_code == 200
        eventually(lambda: requests_counted(service) >= 2)
        assert requests_counted(service) == 2


def test_a_refusal_arrives_although_the_body_is_still_being_sent() -> None:
    """Closing at once would reset the connection, and the client would never read why."""
    with judge() as (url, _):
        for _ in range(5):
            answer = httpx2.post(f"{url}/v1/score", content=bytes(8 * MIB), timeout=60)
            assert answer.status_code == 401
            assert "requires a token" in answer.json()["error"]


@pytest.mark.parametrize("token", [TOKEN, ""])
def test_bodies_that_are_only_announced_take_no_room(token: str) -> None:
    """Sixteen of the largest, as many as the server could hold, and not a byte of them."""
    headers = WITH_TOKEN if token else {}
    with (
        judge(token=token, **SMALL | {"max_queued_bytes": 16 * MIB}) as (url, service),
        contextlib.ExitStack() as stack,
    ):
        silent = [stack.enter_context(connect(url)) for _ in range(16)]
        for connection in silent:
            connection.sendall(request("POST", "/v1/score", content_length=str(MIB), **headers))
        eventually(lambda: service.active_requests == 16)
        assert service.bytes.used == 0
        assert httpx2.post(f"{url}/v1/score", content=BODY, headers=headers).status_code == 200
        silent[0].sendall(bytes(MIB // 2))
        eventually(lambda: service.bytes.used == MIB // 2)
        for connection in silent:
            connection.close()
        eventually(lambda: idle(service))


def test_bodies_that_arrive_are_counted_and_refused_where_there_is_no_room() -> None:
    with judge(**SMALL | {"max_queued_bytes": 4 * MIB}) as (url, service), contextlib.ExitStack() as stack:
        five = [stack.enter_context(connect(url)) for _ in range(5)]
        for connection in five:
            connection.sendall(request("POST", "/v1/score", content_length=str(MIB), **WITH_TOKEN) + bytes(MIB - 1))
            assert service.bytes.used <= 4 * MIB
        refused, _, _ = select.select(five, [], [], PATIENCE_S)
        answer = read_answer(refused[0])
        assert (answer.status, json.loads(answer.body)["retryable"]) == (503, True)
        assert service.bytes.used <= 4 * MIB


def test_answers_do_not_wait_for_acknowledgements_of_the_client() -> None:
    with judge(token="") as (url, _), connect(url) as client:
        client.sendall(request())
        assert read_answer(client).status == 200
        (served,) = [
            one
            for one in gc.get_objects()
            if isinstance(one, socket.socket) and one.fileno() >= 0 and peer(one) == client.getsockname()
        ]
        assert served.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def peer(connection: socket.socket) -> Any:
    with contextlib.suppress(OSError):
        return connection.getpeername()
