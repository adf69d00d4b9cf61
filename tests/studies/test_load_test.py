"""The load generator, and the synthetic server that it starts."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

import pytest

from editcritic.integrations.serving.client.remote_reward import RemoteError
from editcritic.integrations.serving.server.app import serve_in_thread
from editcritic.integrations.serving.server.service import ScoringService
from studies.load_test.__main__ import LoadConfig, generate_load
from studies.load_test.synthetic_reward import SyntheticServer, synthetic_reward

HttpHandler: TypeAlias = type[BaseHTTPRequestHandler]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with SyntheticServer(life=120) as running:
        yield running.url


def test_it_counts_what_it_puts_on_a_server_and_checks_every_score():
    report = generate_load(load=LoadConfig(clients=4, samples=50, group_size=4, image_size=16, chunk_size=2))
    assert (report.samples, report.failed, report.mismatched, report.scored_by_servers) == (50, 0, 0, 50)
    assert 0 < report.latency_s["p50"] <= report.latency_s["p95"] <= report.latency_s["p99"] <= report.seconds
    assert report.samples_per_second == pytest.approx(50 / report.seconds)
    assert report.client_cpu_ms > 0
    assert (report.server_cpu_ms or 0) > 0
    assert "50 samples" in report.to_text()


def test_two_hundred_clients_lose_nothing_and_mix_nothing_up(server: str) -> None:
    load = LoadConfig(clients=200, samples=2_500, group_size=5, image_size=8, chunk_size=5)
    report = generate_load([server], load)
    assert (report.samples, report.failed, report.mismatched) == (2_500, 0, 0)
    assert report.scored_by_servers == 2_500  # none twice


def test_wrong_scores_show():
    class Off(type(synthetic_reward().experts["preference"])):  # type: ignore[misc]
        def __call__(self, queries):
            return super().__call__(queries[::-1])

    wrong = synthetic_reward()
    wrong.experts["preference"] = Off()
    with serve_in_thread(ScoringService(wrong)) as url:
        report = generate_load([url], LoadConfig(clients=1, samples=16, group_size=16, image_size=8))
    assert (report.mismatched or 0) > 0


def test_proxies_are_for_other_machines(server: str, monkeypatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    report = generate_load([server], LoadConfig(clients=2, samples=20, group_size=4, image_size=8))
    assert (report.samples, report.failed, report.mismatched, report.scored_by_servers) == (20, 0, 0, 20)


@pytest.mark.parametrize("url", ["http://192.0.2.1:80", "http://example.org", "http://127.0.0.1.example.org"])
def test_a_load_is_put_on_no_other_machine(url):
    with pytest.raises(ValueError, match="is not this machine"):
        generate_load([url])


def test_nobody_there_is_said_at_once():
    with pytest.raises(RemoteError, match=r"no judge server at http://127\.0\.0\.1:9"):
        generate_load(["http://127.0.0.1:9"])


def test_as_a_command():
    arguments = ["--clients", "2", "--samples", "8", "--image_size", "8", "--json"]
    ran = subprocess.run(
        [sys.executable, "-m", "studies.load_test", *arguments], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["samples"] == 8


def answering(metrics: bytes) -> HttpHandler:
    """A judge server whose /metrics sends these bytes."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self.wfile.write(metrics)
                return
            self._say({"identity": "a" * 64, "card": {"name": "rehearsal", "version": 1, "summary": "s"}})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            start = body.index(b'{"schema"')
            rows = json.loads(body[start : body.index(b"\r\n--", start)])["samples"]
            scores = [{"id": row["id"], "value": float(row["id"]), "status": "scored"} for row in rows]
            self._say({"schema": 2, "identity": "a" * 64, "scores": scores})

        def _say(self, data: Any) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(data).encode())

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@contextmanager
def listening(handler: HttpHandler) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_the_token_goes_to_no_address_that_a_server_names(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere: list[str] = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            elsewhere.append(str(self.headers))
            self.send_error(404)

    monkeypatch.setenv("LOAD_TOKEN", "secret-of-this-server")
    with listening(Elsewhere) as stranger:
        redirect = f"HTTP/1.1 302 Found\r\nlocation: {stranger}/metrics\r\ncontent-length: 0\r\n\r\n".encode()
        with listening(answering(redirect)) as url:
            report = generate_load(
                [url], LoadConfig(clients=1, samples=2, group_size=2, image_size=8), token_env="LOAD_TOKEN"
            )
    assert elsewhere == []
    assert (report.samples, report.failed, report.scored_by_servers) == (2, 0, None)


# -- the synthetic server ---------------------------------------------------------------------------------------------

FIRST = "from studies.load_test.synthetic_reward import SyntheticServer as S; import os"
# Kills itself with its server ready, or at once: then nobody reads the address that the server writes.
WHEN_READY = f"{FIRST}; s = S(life=60); print(s.process.pid, flush=True); os._exit(0)"
AT_ONCE = f"{FIRST}; S._wait_until_ready = lambda s: (print(s.process.pid, flush=True), os._exit(0)); S(life=60)"


@pytest.mark.parametrize("program", [WHEN_READY, AT_ONCE], ids=["when it is ready", "before it is"])
def test_a_server_ends_with_the_process_that_started_it(program: str) -> None:
    # The server inherits standard error, whose end is seen here only once both have ended.
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=40, check=True)
    assert int(done.stdout)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0
