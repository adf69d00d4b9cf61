"""HTTP server of the annotation page, for this machine only; the URL holds a secret token.

It listens on 127.0.0.1. A request must name this machine as its host, carry the token, and come from the page itself:
other origins, other host names (DNS rebinding), and bodies that are not small JSON objects are rejected. No path of a
request is looked up on disk: the server knows three files, and images by random keys.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Mapping
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Annotated, Any, ClassVar, TypeVar
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ...integrations.foreign_pages import foreign_page
from ...reward import ImageError
from ..run.editor_outputs import MissingOutput
from ..suites.human_labels import Corners, LabelKind
from .annotation_session import AnnotationError, AnnotationSession

HOST = "127.0.0.1"
MAX_BODY_BYTES = 64 * 1024
"""Maximum bytes of a request body."""

_MAX_LENGTH_DIGITS = 20

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
        return clean_annotator_name(name)


class _AnswerBody(_Body):
    number: int = Field(ge=0)
    label: Annotated[int, Field(strict=True)] | Annotated[str, Field(max_length=20)] | tuple[Corners, ...]
    seconds: float = Field(ge=0, le=86_400)
    note: str = Field("", max_length=2000)


class _RepeatBody(_Body):
    kind: LabelKind
    dimension: str = Field(max_length=200)


_BodyT = TypeVar("_BodyT", bound=_Body)


class _HttpError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def clean_annotator_name(name: str) -> str:
    """An annotator's name, stripped. Raises ValueError for an empty, long or unprintable name."""
    name = name.strip()
    if not name or len(name) > 100 or not name.isprintable():
        raise ValueError("a name is 1 to 100 printable characters")
    return name


class LabelServer(ThreadingHTTPServer):
    """Serves an annotation session. port: 0 picks a free one. `url` is the page's address with its token."""

    daemon_threads = True

    def __init__(self, session: AnnotationSession, port: int = 0) -> None:
        super().__init__((HOST, port), _Handler)
        self.session = session
        self.token = secrets.token_urlsafe(24)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that is gone is no error of ours."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: LabelServer
    protocol_version = "HTTP/1.1"
    server_version = "editcritic"
    sys_version = ""
    timeout: ClassVar[int] = 30  # seconds without data before a connection closes

    def do_GET(self) -> None:
        self._respond(self._get)

    def do_POST(self) -> None:
        self._respond(self._post)

    def log_message(self, *_: object) -> None:
        """Log nothing: the URL holds the token."""

    # -- access checks ------------------------------------------------------------------------------------------------

    def _parse_target(self) -> tuple[str, dict[str, list[str]]]:
        """The path after the token, and the query. Raises `_HttpError`."""
        headers = ((name.lower(), value) for name, value in self.headers.items())
        if problem := foreign_page(headers, loopback=True):
            raise _HttpError(403, f"refused, since {problem}: open the address that the command printed")
        try:
            address = urlsplit(self.path)
        except ValueError:  # an address such as http://[
            raise _HttpError(404, "not found") from None
        token, slash, rest = address.path.removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()) or not slash:
            raise _HttpError(404, "not found")
        return rest, parse_qs(address.query)

    # -- routes -------------------------------------------------------------------------------------------------------

    def _get(self) -> tuple[bytes, str]:
        rest, query = self._parse_target()
        session = self.server.session
        if rest in _FILES:
            name, kind = _FILES[rest]
            return _file(name), kind
        if rest == "session":
            return _json({"annotators": session.annotators, "suite": session.pool.suite.info.title})
        if rest == "question":
            number = _first_value(query, "number")
            if number is not None and not (number.isascii() and number.isdigit() and len(number) < 10):
                raise _HttpError(400, "number must be a non-negative integer")
            try:
                annotator = clean_annotator_name(_first_value(query, "annotator") or "")
            except ValueError as error:
                raise _HttpError(400, str(error)) from None
            return _json(session.current_question(annotator, None if number is None else int(number)))
        folder, _, key = rest.partition("/")
        if folder == "image" and (png := session.image(key)) is not None:
            return png, "image/png"
        raise _HttpError(404, "not found")

    def _post(self) -> tuple[bytes, str]:
        rest, _ = self._parse_target()
        if rest == "answer":
            body = self._body(_AnswerBody)
            return _json(self.server.session.submit(body.annotator, body.number, body.label, body.seconds, body.note))
        if rest == "repeat":
            repeat = self._body(_RepeatBody)
            return _json(self.server.session.repeat_dimension(repeat.annotator, repeat.kind, repeat.dimension))
        raise _HttpError(404, "not found")

    def _body(self, model: type[_BodyT]) -> _BodyT:
        if self.headers.get_content_type() != "application/json":
            raise _HttpError(415, "expected a JSON object")
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise _HttpError(411, "Content-Length is required")
        if len(length) > _MAX_LENGTH_DIGITS or int(length) > MAX_BODY_BYTES:
            raise _HttpError(413, f"a body has at most {MAX_BODY_BYTES} bytes")
        try:
            return model.model_validate_json(self.rfile.read(int(length)))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"][:1])
            raise _HttpError(400, f"{where}: {first['msg']}" if where else str(first["msg"])) from None

    # -- responses ----------------------------------------------------------------------------------------------------

    def _respond(self, handle: Any) -> None:
        try:
            body, kind = handle()
            status = 200
        except _HttpError as error:
            status, (body, kind) = error.status, _json({"error": str(error)})
            self.close_connection = True  # the rest of the body is not a request
        except AnnotationError as error:
            status, (body, kind) = 409, _json({"error": str(error)})
        except (MissingOutput, ImageError) as error:
            status, (body, kind) = 410, _json({"error": str(error)})
        except OSError as error:
            status, (body, kind) = 507, _json({"error": f"the answer was not saved: {error.strerror or error}"})
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


def _first_value(query: Mapping[str, list[str]], name: str) -> str | None:
    values = query.get(name, [])
    return values[0] if values else None


@cache
def _file(name: str) -> bytes:
    return (files(__package__) / name).read_bytes()
