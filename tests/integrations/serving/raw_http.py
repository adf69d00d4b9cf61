"""Requests byte by byte, for what a client library would not send."""

import socket
from dataclasses import dataclass


def connect(url: str, source: str = "") -> socket.socket:
    """A connection to a server; source: the address that it comes from."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30, source_address=(source, 0) if source else None)


def request(method: str = "GET", path: str = "/healthz", body: bytes = b"", **headers: str) -> bytes:
    """A request that is addressed to localhost, with the length of its body unless another is given."""
    fields = {"host": "localhost", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if body or method == "POST":
        fields.setdefault("content-length", str(len(body)))
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@dataclass(frozen=True)
class Answer:
    """A status, 0 where the connection was closed without one, and what was sent until the connection was closed."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def closed(self) -> bool:
        return self.headers.get("connection") == "close"


def read_answer(connection: socket.socket) -> Answer:
    """One answer, by its content length."""
    received = b""
    try:
        while b"\r\n\r\n" not in received:
            more = connection.recv(65536)
            if not more:
                return Answer(0, {}, received)
            received += more
        head, _, body = received.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        while len(body) < int(headers.get("content-length", 0)):
            body += connection.recv(65536)
    except ConnectionError:
        return Answer(0, {}, received)
    return Answer(int(status.split()[1]), headers, body)


def is_closed(connection: socket.socket) -> bool:
    """Whether the server closes the connection; waits for it. What still arrives is dropped."""
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True
