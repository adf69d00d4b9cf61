"""Requests that mean no good, or are broken: the right status, bounded memory, and a server that goes on."""

import base64
import contextlib
import dataclasses
import gzip
import json
import socket
import struct
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from editcritic.integrations.serving.http_protocol import APIError, encode_image
from editcritic.integrations.serving.server.request_decoding import decode_request
from editcritic.integrations.serving.server.service import ScoringService
from editcritic.integrations.serving.server.settings import MIB, ServerLimits
from editcritic.reward import EditSample

from ...reward.fakes import picture
from .processes import judge
from .raw_http import connect, read_answer, request
from .served import ASKED, PATIENCE_S, SMALL, eventually, idle, serving


def png(width: int, height: int, rows: bytes = b"") -> bytes:
    """A PNG whose header says what it likes."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@contextlib.contextmanager
def small(**patience: Any) -> Iterator[tuple[httpx2.Client, ScoringService]]:
    with (
        serving(limits=SMALL, max_connections=40, **patience) as (url, service),
        httpx2.Client(base_url=url, timeout=60) as client,
    ):
        yield client, service


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[httpx2.Client, ScoringService]]:
    with small() as running:
        yield running


@pytest.fixture(scope="module")
def hurried() -> Iterator[tuple[httpx2.Client, ScoringService]]:
    """One that waits for nobody. On a busy machine honest requests are too slow for it now and then."""
    with small(header_timeout_s=0.5, body_timeout_s=0.8) as running:
        yield running


@pytest.fixture(autouse=True)
def goes_on(request: pytest.FixtureRequest) -> Iterator[None]:
    """After whatever was sent, the server scores, and holds nothing."""
    servers = [request.getfixturevalue(name) for name in ("server", "hurried") if name in request.fixturenames]
    yield
    until = time.monotonic() + PATIENCE_S
    for client, service in servers:
        while (status := scored(client)) in (0, 408, 503) and time.monotonic() < until:
            time.sleep(0.05)
        assert status == 200
        eventually(partial(idle, service))


def scored(client: httpx2.Client) -> int:
    """The status of an honest request; 0 where the server had no patience with it."""
    try:
        answer = client.post("/v1/score", json=ASKED)
    except httpx2.TransportError:
        return 0
    if answer.status_code == 200:
        assert answer.json()["scores"][0]["status"] == "scored"
    return answer.status_code


def raw(client: httpx2.Client) -> socket.socket:
    return connect(f"http://{client.base_url.host}:{client.base_url.port}")


def head(length: int | str, **headers: Any) -> bytes:
    return request("POST", "/v1/score", content_type="application/json", content_length=str(length), **headers)


def status_of(connection: socket.socket) -> int:
    return read_answer(connection).status


def changed(**fields: Any) -> dict[str, Any]:
    return {**ASKED, **fields}


def row(**fields: Any) -> dict[str, Any]:
    return {"samples": [{"instruction": "x", "source": "a", "edited": "b", **fields}]}


PNG = base64.b64encode(encode_image(picture(0), "png")[0]).decode()
BOTH = {"a": PNG, "b": PNG}
TURN = {"instruction": "x", "edited": "a"}

WRONG: list[tuple[int, Any]] = [
    (400, b""),
    (400, b"{"),
    (400, b"\xff\xfe"),
    (400, b"[" * 200_000),
    (400, b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    (400, b"[" * 500 + b"]" * 500),
    (400, b"null"),
    (400, b"[]"),
    (400, b'"text"'),
    (400, b"1" * 10_000),
    (400, json.dumps(changed(deadline_s=float("nan"))).encode()),
    (400, json.dumps(changed(deadline_s=float("inf"))).encode()),
    (400, json.dumps(ASKED).replace('"schema": 2', '"deadline_s": 1e999, "schema": 2', 1).encode()),
    (400, json.dumps(changed(**row(metadata={"deep": json.loads("[" * 60 + "]" * 60)}))).encode()),
    (400, changed(schema=1)),
    (400, changed(schema="1")),
    (400, changed(unknown=1)),
    (400, changed(deadline_s=-1)),
    (400, changed(deadline_s="soon")),
    (400, changed(detail="everything")),
    (400, changed(key="k" * 600)),
    (400, changed(key=7)),
    (400, changed(reward="other")),
    (400, changed(samples=[])),
    (400, changed(samples={})),
    (400, changed(samples=[1])),
    (400, changed(samples=[{}])),
    (400, changed(samples=[{"id": {"a": 1}}])),
    (400, changed(images=[])),
    (400, changed(images={"a": 1})),
    (400, changed(images={"a": {"rgb": "AAAA"}})),
    (400, changed(images={"a": "not base64!"})),
    (400, changed(images={"a": "ÄÖÜ="})),
    (400, changed(images={"a": {"rgb": "ÄÖÜ=", "size": [1, 1]}})),
    (400, changed(images={"a": {"rgb": "AAAA", "size": [2, 2]}})),
    (400, changed(images={"a": {"rgb": "AAAA", "size": [-1, -1]}})),
    (400, changed(images={"a": {"rgb": "AAAA", "size": [2**40, 2**40]}})),
    (400, changed(images={"a": {"rgb": "AAAA", "size": [1.5, "x"]}})),
    (422, changed(images={"a": ""})),
    (422, changed(images={"a": base64.b64encode(b"GIF89a" + bytes(50)).decode()})),
    (422, changed(images={"a": base64.b64encode(b"%!PS-Adobe-3.0 EPSF-3.0\n").decode()})),
    (422, changed(images={"a": base64.b64encode(png(64, 64, b"cut off")).decode()})),
    (400, changed(**row(source="/etc/passwd"))),
    (400, changed(**row(source="../../../../etc/passwd"))),
    (400, changed(**row(source="file:///etc/passwd"))),
    (400, changed(**row(source={"digest": "0" * 64, "size": [8, 8]}))),
    (400, changed(images=BOTH, **row(boxes={"cup": [[0, 0, 1e300, 1]]}))),
    (400, changed(images=BOTH, **row(fractions={"cup": [["x"]]}))),
    (400, changed(images=BOTH, **row(instruction=5))),
    (400, changed(images=BOTH, **row(instruction="\ud800"))),
    (400, changed(images=BOTH, **row(task={"type": "count_change", "object": "x", "count": 10**30}))),
    (400, changed(images=BOTH, **row(task={"type": "steal"}))),
    (413, changed(samples=ASKED["samples"] * 9)),
    (413, changed(images=BOTH, **row(instruction="x" * 200_000))),
    (413, changed(images=BOTH, **row(history=[TURN] * 65))),
    (413, changed(images=BOTH, **row(turn_sources=["a"] * 65))),
    (413, changed(images=BOTH, **row(history=[{**TURN, "turn_sources": ["a"] * 65}]))),
    (413, changed(images=BOTH, **row(history=[{**TURN, "operations": [{"instruction": "x"}] * 65}]))),
    (400, changed(images=BOTH, **row(history=[{**TURN, "history": [TURN]}]))),
    (413, changed(images={"a": base64.b64encode(png(600, 600)).decode()})),
    (413, changed(images={str(n): base64.b64encode(png(512, 512)).decode() for n in range(5)})),
    (413, changed(images={"a": base64.b64encode(png(60_000, 60_000)).decode()})),
    (413, changed(images={"a": base64.b64encode(png(2**31 - 1, 2**31 - 1)).decode()})),
]


@pytest.mark.parametrize(("status", "body"), WRONG)
def test_what_is_wrong_is_told_to_the_client_and_is_not_to_be_sent_again(server, status, body):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = server[0].post("/v1/score", content=content, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["retryable"]) == (status, False), answer.text
    assert 10 < len(answer.json()["error"]) < 600


def test_a_name_is_never_a_file(server: tuple[httpx2.Client, ScoringService], monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(f"opened {args}")

    monkeypatch.setattr("editcritic.reward.image.read_bytes", opened)
    answer = server[0].post("/v1/score", json=changed(**row(source="/etc/passwd", edited="/etc/passwd")))
    assert answer.status_code == 400
    assert "was not sent" in answer.json()["error"]
    assert "root:" not in answer.text


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (415, "application/x-pickle", b"cos\nsystem\n(S'echo'\ntR."),
        (415, "text/plain", b"{}"),
        (400, "multipart/form-data", b"--x\r\n\r\n"),
        (400, "multipart/form-data; boundary=x", b""),
        (400, "multipart/form-data; boundary=x", b"--x\r\nno headers"),
        (400, "multipart/form-data; boundary=x", b"--x\r\n\r\n\r\n--x--"),
        (400, "multipart/form-data; boundary=x", b'--x\r\ncontent-disposition: form-data; name="a"\r\n\r\nb\r\n--x--'),
        (400, "multipart/form-data; boundary=x", b"--x\r\n" + b"a: b\r\n" * 5000 + b"\r\n\r\n--x--"),
        (400, "multipart/form-data; boundary=x", b"--x\r\n" * 100_000),
        (400, "multipart/form-data; boundary=\xe9", b"--x\r\n"),
        (400, 'multipart/form-data; boundary="', b'--"\r\n'),
    ],
)
def test_bodies_that_are_something_else_are_refused(server, status, kind, body):
    answer = server[0].post("/v1/score", content=body, headers={b"content-type": kind.encode("latin-1")})
    assert answer.status_code == status, answer.text


def test_a_compressed_body_is_refused_unread(server: tuple[httpx2.Client, ScoringService]) -> None:
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    answer = server[0].post("/v1/score", content=gzip.compress(b" " * 2**20), headers=headers)
    assert (answer.status_code, answer.json()["retryable"]) == (415, False)


def test_what_is_not_there_is_said_in_the_same_way(server: tuple[httpx2.Client, ScoringService]) -> None:
    for answer, status in ((server[0].get("/v1/score"), 405), (server[0].post("/v2/score", json=ASKED), 404)):
        assert (answer.status_code, answer.json()["retryable"]) == (status, False)


def test_a_mistake_of_ours_is_500_and_says_nothing_of_the_inside(server, monkeypatch):
    def broken(*args: Any) -> Any:
        raise KeyError("secret")

    monkeypatch.setattr("editcritic.integrations.serving.server.app.decode_request", broken)
    answer = server[0].post("/v1/score", json=ASKED)
    monkeypatch.undo()
    assert (answer.status_code, answer.json()["retryable"]) == (500, False)
    assert "secret" not in answer.text


def test_a_picture_of_bare_pixels_has_to_be_as_large_as_it_says(server: tuple[httpx2.Client, ScoringService]) -> None:
    for kind in ("width=2; height=2", "width=99999; height=99999", "width=-1; height=-1", "width=x; height=1", ""):
        files = {"a": ("a", b"\0" * 3, f"application/x-rgb; {kind}")}
        answer = server[0].post("/v1/score", data={"request": json.dumps(changed(images={}))}, files=files)
        assert answer.status_code == 400, (kind, answer.text)


def test_a_large_body_that_is_announced_is_refused_before_it_is_sent(server):
    for length, status in ((2**30, 413), (10**18, 413), ("9" * 30, 400)):
        with raw(server[0]) as connection:
            connection.sendall(head(length, expect="100-continue"))
            assert status_of(connection) == status


def test_a_large_body_that_is_streamed_is_refused_when_it_gets_too_large(server):
    with raw(server[0]) as connection:
        connection.sendall(b"POST /v1/score HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")
        sent = 0
        try:
            while sent < 2**30:
                connection.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
                sent += 65536
        except OSError:
            pass  # the server has had enough
        assert sent < 2**29


@pytest.mark.parametrize("drops", [b"GET /healthz HTTP/1.1\r\nx-", b"GET", head(1000) + b"{", b""])
def test_who_sends_drop_by_drop_is_told_408_and_does_not_keep_the_connection(hurried, drops):
    with raw(hurried[0]) as connection:
        connection.sendall(drops)
        connection.settimeout(0.1)
        received = b""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            try:
                connection.sendall(b"a" if drops else b"")
                more = connection.recv(4096)
            except TimeoutError:
                continue
            except OSError:
                break
            if not more:
                break
            received += more
        else:
            pytest.fail("the connection is kept")
        assert received.startswith(b"HTTP/1.1 408")


def test_a_second_request_on_a_connection_may_not_dawdle_either(hurried: tuple[httpx2.Client, ScoringService]) -> None:
    with raw(hurried[0]) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        while not connection.recv(4096).endswith(b"true}"):
            pass
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")
        assert status_of(connection) == 408


def test_who_does_not_read_the_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("editcritic.integrations.serving.server.connection._WRITE_S", 0.3)
    rows = [{**ASKED["samples"][0], "id": f"{number}" * 4000} for number in range(1000)]
    body = json.dumps(changed(samples=rows)).encode()  # the answer is as long as its ids: more than sockets hold
    with serving() as (url, service), socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", int(url.rpartition(":")[2])))
        connection.sendall(head(len(body)) + body)
        eventually(lambda: not service.active_requests and service.metrics.samples_per_second())
        time.sleep(1)  # ends before its time only in a server that waits
        got = 0
        with contextlib.suppress(ConnectionError):
            while more := connection.recv(2**20):
                got += len(more)
        assert got < len(body) / 2


def test_connections_that_do_nothing_cannot_keep_others_out_for_long(hurried):
    idle = [socket.create_connection((hurried[0].base_url.host, hurried[0].base_url.port)) for _ in range(60)]
    until = time.monotonic() + PATIENCE_S
    status = 0
    while status != 200 and time.monotonic() < until:
        try:
            status = httpx2.get(f"{hurried[0].base_url}/healthz", timeout=5).status_code
        except httpx2.HTTPError:
            time.sleep(0.05)
    for connection in idle:
        connection.close()
    assert status == 200


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"POST /v1/score HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\n",
        b"POST /v1/score HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused(server: tuple[httpx2.Client, ScoringService], data: bytes) -> None:
    with raw(server[0]) as connection:
        connection.sendall(data)
        assert status_of(connection) in (400, 431, 505)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("a") | st.just(PNG),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
FIELDS = st.sampled_from([field.name for field in dataclasses.fields(EditSample)] + ["source", "x"])
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("schema", "key", "deadline_s", "detail", "reward", "images"), JSON),
        "samples": st.lists(st.dictionaries(FIELDS, JSON), max_size=3) | JSON,
    },
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(REQUESTS)
def test_whatever_json_comes_it_is_a_request_or_the_clients_mistake(data: dict[str, Any]) -> None:
    whole = {"images": {"a": PNG}, "samples": [{"instruction": "x", "source": "a", "edited": "a"}], **data}
    try:
        decoded = decode_request(json.dumps(whole).encode(), "application/json", ServerLimits(**SMALL))
        status = 200 if decoded.samples else 0
    except APIError as error:
        status = error.status
    assert status == 200 or 400 <= status < 500


def peak(process: int) -> int:
    """The most memory that a process has held, in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_memory_stays_bounded_under_all_of_it() -> None:
    """Bombs and bodies, many at a time, of a size that would be gigabytes if they were let in."""
    bomb = base64.b64encode(png(5900, 5900, bytes(1 + 3 * 5900) * 5900)).decode()  # 104 MB of pixels in 140 kB
    bombs = json.dumps(changed(images={str(number): bomb for number in range(60)})).encode()
    brackets = b"[" + b"[]," * 5_000_000 + b"[]]"
    limits = {"max_body_bytes": 16 * MIB, "max_pixels": 40_000_000, "max_queued_bytes": 256 * MIB}
    with judge(settings={"limits": limits}) as (url, process):
        before = peak(process.pid)

        def status(content: Any) -> int:
            try:
                kind = {"content-type": "application/json"}
                return httpx2.post(f"{url}/v1/score", content=content, headers=kind, timeout=60).status_code
            except (httpx2.WriteError, httpx2.ReadError):
                return 0  # closed while it was being sent

        def endless() -> Iterator[bytes]:
            for _ in range(1024):
                yield bytes(MIB)

        with ThreadPoolExecutor(6) as threads:
            statuses = list(threads.map(status, [bombs, brackets, bytes(20 * MIB)] * 6))
            assert set(statuses) <= {413, 503, 0}
            assert 413 in statuses
            assert set(threads.map(lambda _: status(endless()), range(3))) <= {413, 503, 0}
        assert httpx2.post(f"{url}/v1/score", json=ASKED).status_code == 200
        assert peak(process.pid) - before < 300 * MIB
