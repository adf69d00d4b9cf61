"""A local HTTP server that answers by a rule and imitates the faults of real servers."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class ReceivedRequest:
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class Answer:
    """A response. body: JSON, or raw bytes. after_s: delay. cut: the connection closes after this many bytes of the
    body. trickle: an endless body, a byte at a time. flood: an endless body at full speed."""

    body: Any = field(default_factory=dict)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    after_s: float = 0.0
    cut: int | None = None
    trickle: bool = False
    flood: bool = False

    @property
    def data(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Rule = Callable[[ReceivedRequest, int], Answer]
"""(request, its number from 0) -> answer."""


class Loopback:
    """requests: in order of arrival. peak_concurrency: maximum of concurrent requests. connections: open ones."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.requests: list[ReceivedRequest] = []
        self.peak_concurrency = 0
        self.connections = 0
        self._active = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        loopback = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                with loopback._lock:
                    loopback.connections += 1

            def finish(self) -> None:
                with loopback._lock:
                    loopback.connections -= 1
                super().finish()

            def do_POST(self) -> None:
                try:
                    loopback._answer(self)
                except (BrokenPipeError, ConnectionResetError):  # the client has disconnected
                    self.close_connection = True

            do_GET = do_POST

            def log_message(self, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False
            request_queue_size = 64

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        text = handler.rfile.read(int(handler.headers["Content-Length"] or 0)) or b"null"
        request = ReceivedRequest(
            handler.path, {name.lower(): value for name, value in handler.headers.items()}, json.loads(text)
        )
        with self._lock:
            number = len(self.requests)
            self.requests.append(request)
            self._active += 1
            self.peak_concurrency = max(self.peak_concurrency, self._active)
        try:
            self._send(handler, self.rule(request, number))
        finally:
            with self._lock:
                self._active -= 1

    def _send(self, handler: BaseHTTPRequestHandler, answer: Answer) -> None:
        self._closing.wait(answer.after_s)
        handler.send_response(answer.status)
        for name, value in {"Content-Type": "application/json", **answer.headers}.items():
            handler.send_header(name, value)
        endless = answer.trickle or answer.flood
        handler.close_connection = endless or answer.cut is not None
        if not endless:
            handler.send_header("Content-Length", str(len(answer.data)))
        handler.end_headers()
        if not endless:
            handler.wfile.write(answer.data[: answer.cut])
        while endless and not self._closing.is_set():
            handler.wfile.write(b" " if answer.trickle else b" " * 2**16)
            if answer.trickle:
                self._closing.wait(0.02)


@contextmanager
def serving(rule: Rule) -> Iterator[Loopback]:
    server = Loopback(rule)
    try:
        yield server
    finally:
        server.close()


def completion(text: Any = "Yes", finish: str = "stop", **message: Any) -> dict[str, Any]:
    """A chat completion with this text."""
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
    usage = {"prompt_tokens": 100, "completion_tokens": 2}
    return {"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage}


def with_logprobs(response: dict[str, Any], *steps: Mapping[str, float]) -> dict[str, Any]:
    """A completion with the alternatives to each of its tokens, the sampled one first; token -> logprob."""
    entries = [[{"token": token, "logprob": logprob} for token, logprob in step.items()] for step in steps]
    response["choices"][0]["logprobs"] = {"content": [{**step[0], "top_logprobs": step} for step in entries]}
    return response


def error(status: int, message: str, code: str = "", **headers: str) -> Answer:
    return Answer({"error": {"message": message, "code": code}}, status, headers)
