"""Requests of web pages to this machine: which are the own page's or no page's, and what a server does with others."""

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from editcritic.integrations.foreign_pages import foreign_page, is_loopback
from editcritic.integrations.serving.http_protocol import encode_image, images_by_digest, request_json
from editcritic.integrations.serving.server import ScoringService, ServerConfig, create_app, serve_in_thread
from editcritic.reward import Reward

from ..reward.fakes import Fake, Rated, sample
from .serving.served import ASKED, TOKEN, serving

ONE = sample("a")
PATHS = ("/v1/score", "/v1/reward", "/healthz", "/readyz", "/metrics", "/verl-omni", "/score", "/rewards", "/nowhere")

FOREIGN = [
    {"host": "example.org"},
    {"host": "example.org:8321"},
    {"host": "localhost.example.org"},
    {"host": "127.0.0.1.example.org:8321"},
    {"host": "0.0.0.0:8321"},
    {"host": "192.168.0.7"},
    {"host": "[::ffff:10.0.0.1]"},
    {"host": "[broken"},
    {"host": ""},
    {"origin": "https://example.org"},
    {"origin": "null"},
    {"origin": "http://localhost:3000"},  # another program's page on this machine
    {"origin": "http://127.0.0.1.example.org"},
    {"origin": ""},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
]


@contextlib.contextmanager
def judge(**settings: Any) -> Iterator[tuple[str, Fake]]:
    expert = Fake()
    with serving(None, "verl-omni,unirl", expert=expert, **settings) as (url, _):
        yield url.replace("0.0.0.0", "127.0.0.1"), expert


@pytest.fixture(scope="module")
def unguarded() -> Iterator[httpx2.Client]:
    with judge() as (url, _), httpx2.Client(base_url=url) as client:
        yield client


def test_a_server_without_a_token_answers_no_foreign_page_at_any_path(unguarded: httpx2.Client) -> None:
    for headers in FOREIGN:
        for path in PATHS if headers == FOREIGN[0] else PATHS[:1]:
            for method in ("GET", "POST", "OPTIONS"):
                answer = unguarded.request(method, path, headers=headers)
                assert answer.status_code == 403, (method, path, headers)
                assert b"start the server with a token" in answer.content


def test_a_cross_site_form_is_not_scored() -> None:
    """What a page can send anywhere without asking: a form with files."""
    data = {"request": json.dumps(request_json([ONE]))}
    images = images_by_digest([ONE]).items()
    files = {digest: (digest, encode_image(image, "png")[0], "image/png") for digest, image in images}
    with judge() as (url, expert):
        for headers in ({"origin": "https://example.org", "sec-fetch-site": "cross-site"}, {"origin": "null"}):
            assert httpx2.post(f"{url}/v1/score", data=data, files=files, headers=headers).status_code == 403
        assert not expert.seen
        assert httpx2.post(f"{url}/v1/score", data=data, files=files).status_code == 200
        assert sum(expert.seen.values()) == 1


def test_programs_and_the_own_page_are_answered_also_through_a_tunnel(unguarded: httpx2.Client) -> None:
    for name in ("127.0.0.1", "localhost", "LOCALHOST.", "127.1.2.3", "[::1]"):
        for host in (name, f"{name}:8321", f"{name}:9000"):
            own_page = {"host": host, "origin": f"http://{host}", "sec-fetch-site": "same-origin"}
            for headers in ({"host": host}, own_page, {"host": host, "sec-fetch-site": "none"}):
                assert unguarded.post("/v1/score", json=ASKED, headers=headers).status_code == 200


def test_a_token_is_in_no_page_so_that_names_do_not_matter() -> None:
    with judge(token=TOKEN) as (url, _), httpx2.Client(base_url=url) as guarded:
        for headers in FOREIGN:
            if headers.get("host") != "[broken":
                allowed = {**headers, "authorization": f"Bearer {TOKEN}"}
                assert guarded.get("/v1/reward", headers=allowed).status_code == 200
                assert guarded.get("/v1/reward", headers=headers).status_code == 401


def test_a_server_for_other_machines_without_a_token_has_any_name_and_still_no_foreign_page() -> None:
    with judge(host="0.0.0.0", allow_no_token=True) as (url, _):
        assert httpx2.get(f"{url}/v1/reward", headers={"host": "judge.example.org:8321"}).status_code == 200
        for headers in ({"origin": "https://example.org"}, {"sec-fetch-site": "cross-site"}):
            assert httpx2.post(f"{url}/v1/score", headers=headers).status_code == 403


def test_an_app_for_this_machine_refuses_others_where_a_proxy_lets_them_in() -> None:
    """As behind a proxy of Ray that listens on all addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outward:
        try:
            outward.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but its own")
        address = outward.getsockname()[0]
    service = ScoringService(Reward(Rated(), {"preference": Fake()}))
    anywhere = ServerConfig("0.0.0.0", 0, allow_no_token=True)
    with serve_in_thread(service, anywhere, create_app(service, ServerConfig())) as url:
        port = url.rpartition(":")[2]
        statuses = [
            httpx2.get(f"http://{host}:{port}/v1/reward", headers={"host": "localhost"}).status_code
            for host in ("127.0.0.1", address)
        ]
    service.close()
    assert statuses == [200, 403]


def test_why_a_page_is_foreign_is_said_in_one_line_and_headers_that_are_there_twice_count_twice() -> None:
    for headers in FOREIGN:
        problem = foreign_page({"host": "localhost:8321", **headers}.items(), loopback=True)
        assert problem
        assert problem.isprintable()
    host = ("host", "localhost")
    assert foreign_page([host, ("origin", "http://localhost"), ("origin", "null")], loopback=True)
    assert foreign_page([host, ("host", "example.org")], loopback=True)
    assert not foreign_page([host, host], loopback=True)
    assert not foreign_page([], loopback=True)  # HTTP/1.0, and no browser


def test_this_machines_own_addresses_are_known() -> None:
    own = ("localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "Localhost")
    others = ("0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.example.org", "", "1")
    assert [is_loopback(host) for host in (*own, *others)] == [True] * len(own) + [False] * len(others)
