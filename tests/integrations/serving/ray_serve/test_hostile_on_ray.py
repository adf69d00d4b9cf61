"""What means no good is refused behind Ray's proxy as by the plain server: the same tests, on a cluster."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from editcritic.integrations.serving.server.settings import MIB

from ..raw_http import read_answer, request
from ..served import ASKED, SMALL

# Each test is run here with this file's `server`, and `goes_on` around it.
from ..test_hostile import (  # noqa: F401
    WRONG,
    goes_on,
    peak,
    raw,
    test_a_compressed_body_is_refused_unread,
    test_a_large_body_that_is_announced_is_refused_before_it_is_sent,
    test_a_large_body_that_is_streamed_is_refused_when_it_gets_too_large,
    test_a_picture_of_bare_pixels_has_to_be_as_large_as_it_says,
    test_a_second_request_on_a_connection_may_not_dawdle_either,
    test_bodies_that_are_something_else_are_refused,
    test_connections_that_do_nothing_cannot_keep_others_out_for_long,
    test_what_is_no_http_is_refused,
    test_what_is_not_there_is_said_in_the_same_way,
    test_who_sends_drop_by_drop_is_told_408_and_does_not_keep_the_connection,
)
from .ray_judge import RayJudge, ray_judge

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")


class Held:
    """What the only replica holds, as the tests read it of a `ScoringService`."""

    in_flight = 0

    def __init__(self, judge: RayJudge) -> None:
        self._judge = judge
        self.bytes = self.samples = self

    @property
    def used(self) -> float:
        return self._judge.metric("editcritic_queued_")

    @property
    def active_requests(self) -> float:
        return self._judge.metric("editcritic_active_requests")


@pytest.fixture(scope="module")
def strangers_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with modules that leave a trace if they are run."""
    folder = tmp_path_factory.mktemp("strangers")
    for module in ("fastapi", "grpc", "mmh3", "yaml", "judge"):
        (folder / f"{module}.py").write_text(f"open({str(folder / 'ran')!r}, 'a').write('{module} ')\nraise SystemExit")
    return folder


@pytest.fixture(scope="module")
def judge(strangers_folder: Path) -> Iterator[RayJudge]:
    with ray_judge(
        strangers_folder,
        rewards=["tests.reward.fakes:Rated"],
        experts=["preference=tests.reward.fakes:Fake"],
        limits=SMALL,
        cpus=0.5,
        header_timeout_s=2.0,
        body_timeout_s=3.0,
        max_connections=40,
    ) as running:
        yield running


@pytest.fixture(scope="module")
def server(judge: RayJudge) -> Iterator[tuple[httpx2.Client, Any]]:
    with httpx2.Client(base_url=judge.url, timeout=60) as client:
        yield client, Held(judge)


@pytest.fixture(scope="module")
def hurried(server: tuple[httpx2.Client, Any]) -> tuple[httpx2.Client, Any]:
    return server


def test_what_is_wrong_is_told_to_the_client_and_is_not_to_be_sent_again(server: tuple[httpx2.Client, Any]) -> None:
    for number, (status, body) in enumerate(WRONG):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = server[0].post("/v1/score", content=content, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["retryable"]) == (status, False), f"WRONG[{number}]: {answer.text}"


def test_memory_of_proxy_and_replica_stays_bounded_while_bodies_do_not_end(judge, server):
    """A gigabyte comes in, several bodies at a time, in chunks that no length announces."""
    pids = judge.pids("ray::ProxyActor") | judge.pids("ray::ServeReplica")
    assert len(pids) == 2
    before = sum(peak(pid) for pid in pids)

    def endless() -> Iterator[bytes]:
        for _ in range(128):
            yield bytes(MIB)

    def status(_: int) -> int:
        try:
            return httpx2.post(f"{judge.url}/v1/score", content=endless(), timeout=60).status_code
        except (httpx2.WriteError, httpx2.ReadError, httpx2.RemoteProtocolError):
            return 0  # closed while it was being sent

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(status, range(8))) <= {413, 503, 0}
    assert sum(peak(pid) for pid in pids) - before < 100 * MIB


def test_headers_by_which_ray_lets_clients_turn_off_its_limits_have_no_effect(server):
    for name in ("x-request-timeout-seconds", "X_Request_Timeout_Seconds", "x-request-disconnect-disabled"):
        answer = server[0].post(
            "/v1/score", json=ASKED, headers={name: "0.000001" if "timeout" in name.lower() else "?1"}
        )
        assert answer.status_code == 200, name
    answer = server[0].post("/v1/score", json=ASKED, headers={"x-session-id": "x" * 1000})
    assert (answer.status_code, answer.json()["retryable"]) == (400, False)


def test_a_page_of_somebody_else_gets_nothing_of_ray_itself_either(server: tuple[httpx2.Client, Any]) -> None:
    for path in ("/-/routes", "/-/healthz", "/v1/reward"):
        foreign: list[dict[str, Any]] = [{"host": "evil.example"}, {"origin": "http://evil.example"}]
        for headers in foreign:
            with raw(server[0]) as connection:
                connection.sendall(request("GET", path, **headers))
                assert read_answer(connection).status == 403


def test_who_has_no_key_gets_nothing_of_rays_own_ports(judge: RayJudge) -> None:
    (raylet,) = [pid for pid in judge.pids("") if "/raylet/raylet" in Path(f"/proc/{pid}/cmdline").read_text()]
    command = Path(f"/proc/{raylet}/cmdline").read_text().split("\0")
    (cluster,) = [part.partition("=")[2] for part in command if part.startswith("--gcs-address=")]
    join = f"import ray; ray.init('{cluster}'); print('inside')"
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_NUM_REDIS_GET_RETRIES": "3"}  # seconds
    environment["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # on the same machine: nobody else gets to these ports
    stranger = subprocess.run(
        [sys.executable, "-c", join], env=environment, capture_output=True, text=True, timeout=120
    )
    assert stranger.returncode != 0
    assert "inside" not in stranger.stdout
    assert "uthenticat" in stranger.stderr, stranger.stderr[-500:]


def test_rays_own_metrics_are_told_to_this_machine_only(judge: RayJudge) -> None:
    """They ask for no key, at three ports."""
    sockets: set[str] = set()
    for pid in judge.pids(""):
        for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
            with suppress(OSError):  # closed since, or its process has ended
                sockets.add(str(descriptor.readlink()))
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = [row[1].partition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]
    assert len(listening) > 3
    assert set(listening) == {"0100007F"}  # 127.0.0.1


def test_modules_of_the_working_folder_are_not_run(judge: RayJudge, strangers_folder: Path) -> None:
    assert judge.pids("ray::ServeReplica")
    assert not (strangers_folder / "ran").exists()


def test_nothing_of_the_environment_is_in_what_ray_says_of_itself(server: tuple[httpx2.Client, Any]) -> None:
    assert json.loads(server[0].get("/-/routes").text) == {"/": "editcritic"}
    assert os.environ["PATH"] not in server[0].get("/metrics").text
