"""The page that collects labels, served to this machine alone: to whoever knows the token in its address.

It listens on 127.0.0.1. A request must name this address as its host, carry the token, and come from the page itself:
other origins, other names for the host (DNS rebinding), and bodies that are not small JSON objects are refused. Files
are never looked up by what a request says: there are three of them, and pictures are known by keys of our own.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Annotated, Any, ClassVar, TypeVar
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ...reward import ImageError
from ..suite_run.outputs import MissingPicture
from .desk import Desk, Refused
from .labels import Corners, Kind

HOST = "127.0.0.1"
LARGEST = 64 * 1024
"""Bytes of a body."""

_FILES: Mapping[str, tuple[str, str]] = {
    "": ("page.html", "text/html; charset=utf-8"),
    "page.css": ("page.css", "text/css; charset=utf-8"),
    "page.js": ("page.js", "text/javascript; charset=utf-8"),
}
_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; img-src 'self'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}

Annotator = Annotated[str, Field(min_length=1, max_length=100)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    annotator: Annotator

    @field_validator("annotator")
    @classmethod
    def _a_name(cls, name: str) -> str:
        return named(name)


class _Said(_Body):
    number: int = Field(ge=0)
    label: Annotated[int, Field(strict=True)] | Annotated[str, Field(max_length=20)] | tuple[Corners, ...]
    seconds: float = Field(ge=0, le=86_400)
    note: str = Field("", max_length=2000)


class _Again(_Body):
    kind: Kind
    dimension: str = Field(max_length=200)


_Parsed = TypeVar("_Parsed", bound=_Body)


class _Refusal(Exception):
    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def named(name: str) -> str:
    """An annotator's name without what surrounds it. Raises ValueError for one that cannot be read."""
    name = name.strip()
    if not name or len(name) > 100 or not name.isprintable():
        raise ValueError("a name is 1 to 100 characters that can be printed")
    return name


class LabelServer(ThreadingHTTPServer):
    """Serves a desk. port: 0 for any that is free. `url` is what to open; without its token nothing is answered."""

    daemon_threads = True

    def __init__(self, desk: Desk, port: int = 0) -> None:
        super().__init__((HOST, port), _Handler)
        self.desk = desk
        self.token = secrets.token_urlsafe(24)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}/{self.token}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        return (f"{HOST}:{self.server_port}", f"localhost:{self.server_port}")


class _Handler(BaseHTTPRequestHandler):
    server: LabelServer
    protocol_version = "HTTP/1.1"
    server_version = "editcritic"
    sys_version = ""
    timeout: ClassVar[int] = 30  # seconds a connection may be silent

    def do_GET(self) -> None:
        self._answered(self._get)

    def do_POST(self) -> None:
        self._answered(self._post)

    def log_message(self, *_: object) -> None:
        """Nothing: the address holds the token."""

    # -- who may ask --------------------------------------------------------------------------------------------------

    def _place(self) -> tuple[str, dict[str, list[str]]]:
        """What is asked for behind the token, and the query. Raises `_Refusal`."""
        if self.headers.get("Host", "").lower() not in self.server.hosts:
            raise _Refusal(403, "this page is for this machine alone")
        origin = self.headers.get("Origin")
        if origin is not None and origin not in {f"http://{host}" for host in self.server.hosts}:
            raise _Refusal(403, "requests from other pages are refused")
        if self.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            raise _Refusal(403, "requests from other pages are refused")
        address = urlsplit(self.path)
        token, slash, rest = address.path.removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()) or not slash:
            raise _Refusal(404, "there is nothing here")
        return rest, parse_qs(address.query)

    # -- what is asked ------------------------------------------------------------------------------------------------

    def _get(self) -> tuple[bytes, str]:
        rest, query = self._place()
        desk = self.server.desk
        if rest in _FILES:
            name, kind = _FILES[rest]
            return _file(name), kind
        if rest == "who":
            return _json({"annotators": desk.annotators, "suite": desk.pool.suite.about.title})
        if rest == "question":
            number = _one(query, "number")
            if number is not None and not (number.isascii() and number.isdigit() and len(number) < 10):
                raise _Refusal(400, "number is a whole number")
            try:
                who = named(_one(query, "annotator") or "")
            except ValueError as error:
                raise _Refusal(400, str(error)) from None
            return _json(desk.shown(who, None if number is None else int(number)))
        folder, _, key = rest.partition("/")
        if folder == "picture" and (found := desk.picture(key)) is not None:
            return found, "image/png"
        raise _Refusal(404, "there is nothing here")

    def _post(self) -> tuple[bytes, str]:
        rest, _ = self._place()
        if rest == "answer":
            said = self._body(_Said)
            return _json(self.server.desk.answer(said.annotator, said.number, said.label, said.seconds, said.note))
        if rest == "again":
            wanted = self._body(_Again)
            return _json(self.server.desk.again(wanted.annotator, wanted.kind, wanted.dimension))
        raise _Refusal(404, "there is nothing here")

    def _body(self, model: type[_Parsed]) -> _Parsed:
        if self.headers.get_content_type() != "application/json":
            raise _Refusal(415, "a JSON object is expected")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise _Refusal(411, "say how long the body is")
        if int(length) > LARGEST:
            raise _Refusal(413, f"no more than {LARGEST} bytes are taken")
        try:
            return model.model_validate_json(self.rfile.read(int(length)))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"][:1])
            raise _Refusal(400, f"{where}: {first['msg']}" if where else str(first["msg"])) from None

    # -- answering ----------------------------------------------------------------------------------------------------

    def _answered(self, ask: Any) -> None:
        try:
            body, kind = ask()
            status = 200
        except _Refusal as error:
            status, (body, kind) = error.status, _json({"error": str(error)})
            self.close_connection = True  # what is left of a body is no next request
        except Refused as error:
            status, (body, kind) = 409, _json({"error": str(error)})
        except (MissingPicture, ImageError) as error:
            status, (body, kind) = 410, _json({"error": str(error)})
        except OSError as error:
            status, (body, kind) = 507, _json({"error": f"nothing was saved: {error.strerror or error}"})
        self.send_response(status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.send_header("Cache-Control", "private, max-age=3600" if kind == "image/png" else "no-store")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


def _json(data: Mapping[str, Any]) -> tuple[bytes, str]:
    return json.dumps(data, ensure_ascii=False, allow_nan=False).encode(), "application/json"


def _one(query: Mapping[str, list[str]], name: str) -> str | None:
    found = query.get(name, [])
    return found[0] if found else None


@cache
def _file(name: str) -> bytes:
    return (files(__package__) / name).read_bytes()
