"""What strangers send by the hundred: paths and methods without the token, odd framings, mixed and made-up requests."""

import contextlib
import json
import math
import random
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from editcritic.integrations.serving.server import ScoringService
from editcritic.integrations.serving.server.settings import MIB

from .raw_http import connect, is_closed, read_answer, request
from .served import ASKED, SMALL, TOKEN, eventually, idle, serving
from .test_hostile import PNG

BODY = json.dumps(ASKED).encode()


@contextlib.contextmanager
def judge(**settings: Any) -> Iterator[tuple[str, ScoringService]]:
    """A server with all protocols; afterwards it scores, and holds nothing of what was sent."""
    with serving(None, "edit-r1,verl-omni,omnigen2-rl,unirl", limits=SMALL, **settings) as (url, service):
        yield url, service
        assert scores(url, settings.get("token", ""))
        eventually(lambda: idle(service))


def scores(url: str, token: str = "") -> bool:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    with connect(url) as connection:
        connection.sendall(request("POST", "/v1/score", BODY, **headers))
        answer = read_answer(connection)
    return answer.status == 200 and json.loads(answer.body)["scores"][0]["status"] == "scored"


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
PUBLIC = ("/healthz", "/readyz", "/ping")
PATHS = (
    *(*PUBLIC, "/", "/v1/score", "/v1/reward", "/v1/reward?name=x", "/metrics", "/monitor", "/v1/score/", "/v1//score"),
    *("/docs", "/redoc", "/openapi.json", "/mode/logits_non_cot", "/mode/score_continue", "/verl-omni", "/score"),
    *("/rewards", "/health", "/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/healthz/../metrics", "//healthz"),
)


@pytest.fixture(scope="module")
def guarded() -> Iterator[str]:
    with judge(token=TOKEN) as (url, _):
        yield url


@pytest.mark.parametrize("path", PATHS)
def test_without_the_token_no_path_and_no_method_has_anything_but_health(guarded: str, path: str) -> None:
    for method in METHODS:
        with connect(guarded) as connection:
            connection.sendall(request(method, path))
            answer = read_answer(connection) if method != "HEAD" else None
            status = answer.status if answer else int(connection.recv(65536).split()[1])
            if path in PUBLIC:
                assert status == (200 if method in ("GET", "HEAD") else 405), method
            else:
                assert status == 401, method
            if answer:
                text = answer.body.decode(errors="replace")
                if status == 200:
                    assert text in ('{"alive": true}', '{"ready": true}')
                else:
                    assert "error" in text or "editcritic: HTTP 401" in text


GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
POST = b"POST /v1/score HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"
FRAMINGS = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # TLS
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x00" * 100 + b"\r\n\r\n",
    b"\xff\xfe\xfd\r\n\r\n",
    b"healthz\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET /healthz\r\n\r\n",
    b"GET /healthz HTTP/1.1.1\r\nhost: localhost\r\n\r\n",
    b"GET /healthz HTTP/1.1 more\r\nhost: localhost\r\n\r\n",
    b"GET  /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET /health\x00z HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET /" + b"a" * 300_000 + b" HTTP/1.1\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\n\r\n",  # no host
    b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nhost: example.org\r\n\r\n",
    b"GET http://example.org/v1/score HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"CONNECT example.org:443 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n",
    GET + b"x y: z\r\n\r\n",
    GET + b": z\r\n\r\n",
    GET + b"x : z\r\n\r\n",
    GET + b"x: \x00\r\n\r\n",
    GET + b" folded\r\n" * 20_000 + b"\r\n",
    GET + b"a:b\r\n" * 100_000,  # without an end
    GET + b"a: " + b"b" * 300_000,
    POST + b"content-length: -5\r\n\r\n",
    POST + b"content-length: +5\r\n\r\n12345",
    POST + b"content-length: 0x5\r\n\r\n12345",
    POST + b"content-length: 5 5\r\n\r\n12345",
    POST + b"content-length: 5\r\ncontent-length: 6\r\n\r\n123456",
    POST + b"content-length: 5, 6\r\n\r\n123456",
    POST + b"content-length: " + b"9" * 30 + b"\r\n\r\n",
    POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    POST + b"content-length: 5\r\n\r\n{" + b"}" * 20,  # more than announced
    POST + b"transfer-encoding: gzip\r\n\r\n",
    POST + b"transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    POST.replace(b"1.1", b"1.0") + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    CHUNKED + b"x\r\n\r\n",
    CHUNKED + b"-1\r\n\r\n",
    CHUNKED + b"ffffffffffffffffffffffff\r\n",
    CHUNKED + b"5;" + b"e" * 300_000 + b"\r\n12345\r\n0\r\n\r\n",
    CHUNKED + b"3\r\n12345\r\n0\r\n\r\n",
]


@pytest.fixture(scope="module")
def unguarded() -> Iterator[str]:
    with judge(header_timeout_s=2.0, body_timeout_s=2.0) as (url, _):
        yield url


@pytest.mark.parametrize("number", range(len(FRAMINGS)))
def test_odd_framings_are_the_clients_mistake_or_the_end_of_the_connection(unguarded: str, number: int) -> None:
    with connect(unguarded) as connection:
        with contextlib.suppress(ConnectionError):  # refused while it was being sent
            connection.sendall(FRAMINGS[number])
        answer = read_answer(connection)
        assert answer.status == 0 or 400 <= answer.status < 500, answer
    assert scores(unguarded)


def test_chunks_of_one_byte_with_extensions_are_a_body_like_another(unguarded: str) -> None:
    with connect(unguarded) as connection:
        connection.sendall(CHUNKED + b"".join(b"1;a=b\r\n%c\r\n" % byte for byte in BODY) + b"0\r\nx: y\r\n\r\n")
        assert read_answer(connection).status == 200


def test_a_pipeline_of_hundreds_is_answered_in_turn(unguarded: str) -> None:
    with connect(unguarded) as connection:
        connection.sendall(request() * 500 + request(connection="close"))
        received = b""
        while more := connection.recv(65536):
            received += more
        assert received.count(b"HTTP/1.1 200") == 501


def mixed(url: str, seed: int) -> int | str:
    """One of the requests that come: honest, wrong, slow, aborted, unread; its status or what became of it."""
    rng = random.Random(seed)
    kind = rng.choice(("good", "good", "wrong", "busy", "slow", "aborted", "unread", "reset", "path"))
    with connect(url) as connection:
        if kind == "slow":
            data = request("POST", "/v1/score", BODY)
            for start in range(0, len(data), len(data) // 5):
                connection.sendall(data[start : start + len(data) // 5])
                time.sleep(0.01)
        elif kind == "aborted":
            data = request("POST", "/v1/score", BODY)
            connection.sendall(data[: rng.randrange(len(data))])
            return kind
        elif kind == "unread":
            connection.sendall(request("POST", "/v1/score", BODY))
            return kind
        elif kind == "reset":
            connection.sendall(request("POST", "/v1/score", BODY))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            return kind
        elif kind == "wrong":
            data = rng.choice((b"{", b"[]", b"{}", rng.randbytes(1000), BODY[: rng.randrange(len(BODY))]))
            connection.sendall(request("POST", "/v1/score", data))
        elif kind == "path":
            connection.sendall(request(rng.choice(METHODS[2:]), rng.choice(PATHS)))
        else:
            body = json.dumps({**ASKED, "key": f"{rng.randrange(5)}"}) if kind == "good" else ASKED
            content = body if isinstance(body, str) else json.dumps({**ASKED, "samples": ASKED["samples"] * 8})
            connection.sendall(request("POST", "/v1/score", content.encode()))
        return read_answer(connection).status


def test_after_hundreds_of_mixed_requests_nothing_is_held() -> None:
    with judge() as (url, service), ThreadPoolExecutor(12) as threads:
        outcomes = Counter(threads.map(lambda seed: mixed(url, seed), range(600)))
        assert {"aborted", "unread", "reset", 200, 400}.issubset(outcomes)
        assert outcomes.keys() <= {"aborted", "unread", "reset", 200, 400, 404, 405, 422, 503}, outcomes
        assert len(service._idempotency_cache) <= 5
        assert service.bytes.used <= 8 * MIB


def test_names_of_strangers_are_no_labels_of_metrics_and_no_lines_of_logs(caplog: pytest.LogCaptureFixture) -> None:
    with judge() as (url, service), httpx2.Client(base_url=url, timeout=60) as client:
        before = len(service.metrics.text().splitlines())
        for number in range(60):
            assert client.get(f"/made-up/{number}").status_code == 404
            client.request(f"METHOD{number}", "/v1/score")
        assert len(service.metrics.text().splitlines()) < before + 20
        forged = "x\nERROR all is lost\x1b[2J" + "y" * 50_000
        for data in (
            {**ASKED, forged: 1},
            {**ASKED, "key": forged},
            {**ASKED, "reward": forged[:400]},
            {**ASKED, "images": {forged: "!"}},
            {**ASKED, "samples": [{"id": forged, "instruction": "x", "source": forged, "edited": "b"}]},
        ):
            error = client.post("/v1/score", json=data).json()["error"]
            assert error.isprintable()
            assert len(error) <= 500
        item = {"history": [{"text": "x"}, {"text": "x"}], "required_rewards": [forged]}
        client.post("/score", json={"requests": [item]})
        client.post("/verl-omni", content=b"S" + forged.encode() + b"\n.")
    assert all(record.getMessage().isprintable() and len(record.getMessage()) < 700 for record in caplog.records)


FIELDS = (
    *("id", "group", "instruction", "source", "sources", "edited", "boxes", "fractions", "mask", "reference", "task"),
    *("operations", "plan", "targets", "target_fractions", "target_text", "hint", "dimensions", "history", "metadata"),
    *("pools", "turn_sources", "\x00", ""),
)


def made_up(rng: random.Random, depth: int = 0) -> Any:
    """A JSON value, with a taste for limits."""
    pick = rng.randrange(14 if depth < 4 else 11)
    simple: tuple[Callable[[], Any], ...] = (
        lambda: None,
        lambda: rng.choice((True, False)),
        lambda: rng.choice((0, -1, 1, 2**31, -(2**53), 10**30)),
        lambda: rng.choice((0.5, -0.0, 1e308, 5e-324, math.pi)),
        lambda: rng.choice(("", "a", "b", PNG, "\x00", "\ud800", "\u202e", "é" * 100, "/etc/passwd", "=1+1")),
        lambda: "".join(chr(rng.randrange(1, 0xD800)) for _ in range(rng.randrange(20))),
        lambda: {"digest": "0" * 64, "size": [8, 8]},
        lambda: {"rgb": "AAAA", "size": [rng.randrange(-1, 3), 1]},
        lambda: [[0, 0, rng.choice((1, 9, -1)), 1]],
        lambda: {"type": rng.choice(("count_change", "color_change", "x")), "object": "cup", "count": rng.random() * 9},
        lambda: "a",
    )
    if pick < len(simple):
        return simple[pick]()
    if pick == 11:
        return [made_up(rng, depth + 1) for _ in range(rng.randrange(4))]
    names = FIELDS if pick == 12 else ("cup", "text", "scope", "type", "object", "x", "0")
    return {rng.choice(names): made_up(rng, depth + 1) for _ in range(rng.randrange(4))}


def made_up_request(rng: random.Random) -> dict[str, Any]:
    """An honest request with some of its fields replaced."""
    row = {"id": "a", "instruction": "make it blue", "source": "a", "edited": "b"}
    row |= {rng.choice(FIELDS): made_up(rng) for _ in range(rng.randrange(4))}
    data: dict[str, Any] = {"schema": 2, "images": {"a": PNG, "b": PNG}, "samples": [row] * rng.randrange(1, 3)}
    for field in ("schema", "key", "detail", "reward", "images", "samples", "deadline_s", "x"):
        if rng.random() < 0.06:
            data[field] = made_up(rng)
    return data


@pytest.mark.parametrize("seed", range(4))
def test_of_a_thousand_made_up_requests_none_is_our_mistake(seed: int) -> None:
    rng = random.Random(seed)
    with judge() as (url, _), httpx2.Client(base_url=url, timeout=60) as client:
        statuses: Counter[int] = Counter()
        for _ in range(250):
            answer = client.post("/v1/score", content=json.dumps(made_up_request(rng)).encode())
            assert answer.status_code == 200 or 400 <= answer.status_code < 500, answer.text
            statuses[answer.status_code] += 1
            scored = answer.json().get("scores", [])
            assert all((row["value"] is None) == (row["status"] != "scored") for row in scored if "value" in row)
        assert statuses[200] > 10
        assert statuses[400] > 10


@pytest.mark.parametrize("seed", range(2))
def test_made_up_items_of_the_trainers_json_protocol_are_none_either(seed: int) -> None:
    rng = random.Random(seed)
    with judge() as (url, _), httpx2.Client(base_url=url, timeout=60) as client:
        for _ in range(150):
            turns: Any = [{"text": "make it blue", "image_b64": PNG}] * 2
            item = {"history": turns, "required_rewards": ["rated"], rng.choice(("metadata", "x")): made_up(rng)}
            data: dict[str, Any] = {"requests": [item, made_up(rng)][: rng.randrange(1, 3)]}
            if rng.random() < 0.3:
                data[rng.choice(("requests", "grad_mode", "protocol_version"))] = made_up(rng)
            status = client.post("/score", content=json.dumps(data).encode()).status_code
            assert status == 200 or 400 <= status < 500


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="reads /proc")
def test_no_connection_is_left_open_by_those_who_are_gone() -> None:
    with judge(token=TOKEN) as (url, _):
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(200):
            with connect(url) as connection:
                connection.sendall(request(path="/metrics"))
                assert is_closed(connection)
        eventually(lambda: len(list(Path("/proc/self/fd").iterdir())) <= before + 5)
