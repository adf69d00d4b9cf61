"""A server that is told to stop: what it accepted is answered, what comes then is sent elsewhere."""

import signal
import time
from concurrent.futures import Future, ThreadPoolExecutor

import httpx2
import pytest

from editcritic.integrations.serving.http_protocol import attach_images, images_by_digest, request_json
from editcritic.reward import EditSample, Reward

from ...reward.fakes import Rated, picture, sample
from .judge_server_process import Slow
from .processes import judge
from .served import counted, eventually


def edits(count: int, first: int) -> list[EditSample]:
    return [sample(f"s{number}", edited=picture(first + number)) for number in range(count)]


CLIENT = httpx2.Client(timeout=60)


def send(url: str, count: int, first: int) -> httpx2.Response:
    samples = edits(count, first)
    request = attach_images(request_json(samples), images_by_digest(samples))
    return CLIENT.post(f"{url}/v1/score", json=request)


def test_what_was_accepted_is_answered_and_what_comes_after_the_signal_is_refused() -> None:
    with judge(seconds=0.02) as (url, process), ThreadPoolExecutor(12) as threads:
        work = [threads.submit(send, url, 10, 10 * number) for number in range(10)]
        names = ("editcritic_active_requests", 'editcritic_requests_total{path="/v1/score"')
        eventually(lambda: counted(url, *names) >= 10)
        process.send_signal(signal.SIGTERM)
        statuses = set[int]()
        refused: Future[httpx2.Response] | None = None
        while not statuses & {503}:
            refused = threads.submit(send, url, 1, 1000)
            statuses.add(refused.result().status_code)
        assert refused is not None
        assert refused.result().headers["retry-after"]
        answers = [future.result() for future in work]
        assert process.wait(60) == 0
    assert {answer.status_code for answer in answers} == {200}
    all_values = [[row["value"] for row in answer.json()["scores"]] for answer in answers]
    reward = Reward(Rated(), {"preference": Slow()})
    assert all_values == [reward(edits(10, 10 * number)).values for number in range(10)]


def test_when_patience_ends_the_rest_is_answered_as_late() -> None:
    with judge(settings={"shutdown_timeout_s": 0.5}, seconds=0.05) as (url, process), ThreadPoolExecutor(1) as thread:
        work = thread.submit(send, url, 200, 0)
        eventually(lambda: counted(url, "editcritic_queued_samples") == 200)
        process.send_signal(signal.SIGTERM)
        rows = work.result().json()["scores"]
        assert process.wait(60) == 0
    late = [row.get("late", False) for row in rows]
    assert len(rows) == 200
    assert any(late)
    assert all((row["value"] is None) == row.get("late", False) for row in rows)


def test_a_second_signal_ends_it_at_once() -> None:
    with judge(seconds=30) as (url, process), ThreadPoolExecutor(1) as thread:
        work = thread.submit(send, url, 20, 0)
        eventually(lambda: counted(url, "editcritic_queued_samples") == 20)
        process.send_signal(signal.SIGTERM)
        while CLIENT.get(f"{url}/readyz").json() != {"ready": False, "draining": True}:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
        with pytest.raises(httpx2.HTTPError):
            work.result()


def test_an_idle_server_stops_though_clients_keep_their_connections() -> None:
    with judge() as (url, process), httpx2.Client() as client:
        assert client.get(f"{url}/readyz").status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0  # before idle connections are dropped, which is after 30 s
