"""The judge server over real HTTP: what clients, and those who look after it, are told."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from editcritic.integrations.serving.http_protocol import (
    attach_images,
    encode_image,
    images_by_digest,
    request_json,
    scores_from_json,
)
from editcritic.integrations.serving.server.service import ScoringService
from editcritic.integrations.serving.server.settings import ServerConfig
from editcritic.reward import EditSample, Expert, Reward, Score
from editcritic.reward.queries.expert import ExpertDown

from ....reward.fakes import Fake, Rated, known, mixed, picture, sample
from ..served import TOKEN, Gated, eventually, serving


def edits(count: int, first: int = 0, size: int = 8) -> list[EditSample]:
    return [sample(f"s{number}", edited=picture(first + number, size, size)) for number in range(count)]


@contextmanager
def server(
    expert: Expert | None = None, *, token: str = "", loaded: bool = True, **limits: Any
) -> Iterator[tuple[httpx2.Client, ScoringService]]:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    with (
        serving(expert=expert, limits=limits, loaded=loaded, token=token) as (url, service),
        httpx2.Client(base_url=url, headers=headers, timeout=60) as client,
    ):
        yield client, service


def as_json(samples: list[EditSample], encoding: Any = "png", **fields: Any) -> dict[str, Any]:
    return {"json": attach_images(request_json(samples, **fields), images_by_digest(samples), encoding)}


def as_parts(samples: list[EditSample], encoding: Any = "rgb", **fields: Any) -> dict[str, Any]:
    files = {name: (name, *encode_image(image, encoding)) for name, image in images_by_digest(samples).items()}
    return {"data": {"request": json.dumps(request_json(samples, **fields))}, "files": files}


def scores_of(answer: httpx2.Response, samples: list[EditSample]) -> list[Score]:
    assert answer.status_code == 200, answer.text
    return list(scores_from_json(answer.json(), [sample.id for sample in samples]))


@pytest.mark.parametrize("encoding", ["png", "rgb"])
@pytest.mark.parametrize("way", [as_json, as_parts])
def test_scores_are_those_of_the_reward_however_the_pictures_come(way: Any, encoding: str) -> None:
    earlier = sample("turn", edited=picture(7))
    samples = [
        sample("several", sources=(picture(2), picture(3)), group="g", edited=picture(4)),
        sample("later", sources=(picture(7),), edited=picture(8), history=(earlier,)),
        sample("described", edited=picture(5), mask=picture(6), metadata={"seed": 3, "words": "Ωé"}, target_text="ÄÖ"),
        *edits(20),
    ]
    with server(Fake(mixed)) as (client, _):
        answer = client.post("/v1/score", **way(samples, encoding, detail="all"))
        assert scores_of(answer, samples) == list(Reward(Rated(), {"preference": Fake(mixed)})(samples))


def test_a_request_sent_again_in_another_wrapping_is_replayed_and_another_with_its_key_is_another() -> None:
    expert = Fake()
    with server(expert) as (client, service):
        first = client.post("/v1/score", **as_json(edits(3), key="k")).json()
        service.reward().engine.close()  # the next one knows no answers
        assert client.post("/v1/score", **as_parts(edits(3), key="k")).json() == first
        other = client.post("/v1/score", **as_parts(edits(2, first=3), key="k"))
        assert client.post("/v1/score", **as_parts(edits(3), key="k")).json() == first
    assert scores_of(other, edits(2, first=3)) == list(Reward(Rated(), {"preference": Fake()})(edits(2, first=3)))
    assert sum(expert.seen.values()) == 5


def test_at_the_deadline_there_is_a_partial_answer_and_it_says_so() -> None:
    opened = threading.Event()

    def slow(query: Any) -> Any:
        if query.image.digest != picture(0).digest:
            opened.wait(30)
        return known(query)

    with server(Fake(slow, batch=1)) as (client, _):
        answer = client.post("/v1/score", **as_json(edits(3), deadline_s=0.5)).json()
        opened.set()
    assert [row.get("late", False) for row in answer["scores"]] == [False, True, True]
    assert (answer["scores"][1]["status"], answer["scores"][1]["value"]) == ("failed", None)
    assert "0.5 s" in answer["scores"][1]["reason"]


def test_a_full_server_says_when_to_come_back() -> None:
    expert = Gated()
    with server(expert, max_samples=2, max_queued_samples=2) as (client, service), ThreadPoolExecutor(1) as thread:
        first = thread.submit(client.post, "/v1/score", **as_json(edits(2)))
        assert expert.reached.wait(30)
        refused = client.post("/v1/score", **as_json(edits(2, first=5)))
        assert client.get("/healthz").status_code == 200
        expert.open.set()
        assert first.result().status_code == 200
        assert client.post("/v1/score", **as_json(edits(2, first=5))).status_code == 200
        eventually(lambda: not service.bytes.used, "room is given back once the answer is sent")
    assert (refused.status_code, refused.json()["retryable"]) == (503, True)
    assert 1 <= int(refused.headers["retry-after"]) <= 60


def test_who_hangs_up_is_not_worked_for() -> None:
    expert = Gated(batch=1)
    with server(expert, max_in_flight=1) as (client, service):
        with pytest.raises(httpx2.ReadTimeout):
            client.post("/v1/score", **as_json(edits(30)), timeout=httpx2.Timeout(5, read=0.3))
        assert expert.reached.is_set()
        eventually(lambda: not service._active_jobs)
        expert.open.set()
        eventually(lambda: not service.samples.used)
    assert sum(expert.calls) == 1


@pytest.mark.parametrize("header", ["", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x"])
def test_another_header_than_the_token_is_refused(header):
    with server(token=TOKEN) as (client, _):
        refused = client.post("/v1/score", **as_json(edits(1)), headers={"authorization": header})
        assert (refused.status_code, refused.json()["retryable"]) == (401, False)
        assert client.post("/v1/score", **as_json(edits(1))).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "judge.example"])
def test_a_server_that_others_can_reach_wants_a_token_or_the_word_that_none_is_wanted(host: str) -> None:
    with pytest.raises(ValueError, match="token"):
        ServerConfig(host=host)
    assert ServerConfig(host=host, allow_no_token=True).host == host
    assert TOKEN not in repr(ServerConfig(host=host, token=TOKEN))


def test_what_is_served_is_described() -> None:
    with server() as (client, _):
        description = client.get("/v1/reward").json()
        assert client.get("/v1/reward", params={"name": "other"}).status_code == 400
    assert (description["name"], description["rewards"]) == ("rated", ["rated"])
    assert description["card"]["range"] == [0.0, 1.0]
    assert description["experts"] == {"preference": "fake"}


class Loading(Fake):
    """An expert that takes until `loaded` is set to load, and then loads, or cannot, as told."""

    def __init__(self, problem: str = "") -> None:
        super().__init__()
        self.loaded = threading.Event()
        self.problem = problem
        self.loads = 0

    def load(self) -> None:
        self.loads += 1
        assert self.loaded.wait(30)
        if self.problem:
            raise ExpertDown(self.problem)


def test_a_server_is_ready_when_its_experts_are_and_says_who_is_not() -> None:
    expert = Loading()
    with server(expert, loaded=False) as (client, service):
        waiting = client.get("/readyz")
        assert (waiting.status_code, waiting.json()) == (503, {"ready": False, "loading": "fake"})
        assert client.get("/healthz").status_code == 200
        assert client.post("/v1/score", **as_json(edits(1))).status_code == 503
        expert.loaded.set()
        eventually(lambda: not service.readiness.loading())
        assert client.get("/readyz").status_code == 200
        assert client.post("/v1/score", **as_json(edits(1))).status_code == 200
    assert expert.loads == 1


def test_a_dead_expert_is_told_of_and_gets_another_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("editcritic.integrations.serving.server.readiness._RETRY_S", 0.0)
    expert = Loading("no such weights")
    expert.loaded.set()
    with server(expert) as (client, service):
        eventually(lambda: not service.readiness.loading())
        dead = client.get("/readyz")
        assert (dead.status_code, dead.json()["unavailable"]) == (503, {"fake": "no such weights"})
        assert client.get("/healthz").status_code == 200
        expert.problem = ""
        eventually(lambda: client.get("/readyz").status_code == 200)
        assert client.post("/v1/score", **as_json(edits(1))).json()["scores"][0]["status"] == "scored"


def metrics_of(client: httpx2.Client) -> dict[str, float]:
    lines = (line for line in client.get("/metrics").text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_metrics_count_what_was_done() -> None:
    class Metered(Fake):
        def usage(self) -> dict[str, float]:
            return {"tokens sent": 10.0 * sum(self.seen.values())}

    with server(Metered(mixed)) as (client, _):
        samples = edits(30)
        scores = scores_of(client.post("/v1/score", **as_json(samples)), samples)
        good = [each for each, score in zip(samples, scores, strict=True) if score.status == "scored"]
        for _ in range(2):
            client.post("/v1/score", **as_json(good, key="k"))
        client.post("/v1/score", content=b"{")
        client.post("/v1/../../etc/passwd")
        counted = metrics_of(client)
        bodies = [client.build_request("POST", "/", **as_json(samples)).content]
        bodies += [client.build_request("POST", "/", **as_json(good, key="k")).content] * 2
    statuses = [each.status for each in scores] + ["scored"] * len(good)
    for status in ("scored", "failed", "abstained"):
        assert counted[f'editcritic_samples_total{{status="{status}"}}'] == statuses.count(status)
    assert counted['editcritic_samples_total{status="replayed"}'] == len(good)
    assert counted['editcritic_requests_total{path="/v1/score",status="200"}'] == 3
    assert counted['editcritic_requests_total{path="/v1/score",status="400"}'] == 1
    assert counted['editcritic_requests_total{path="other",status="404"}'] == 1
    assert counted["editcritic_received_bytes_total"] == sum(map(len, bodies)) + 1
    assert counted['editcritic_expert_queries_total{expert="fake"}'] == 30
    assert counted['editcritic_expert_tokens_sent_total{expert="fake"}'] == 300
    assert counted["editcritic_request_seconds_count"] == 3
    assert counted["editcritic_samples_per_second"] > 0
    assert counted["editcritic_samples_per_second_per_gpu"] > 0
    assert counted["editcritic_queued_samples"] == counted["editcritic_queued_bytes"] == 0
    latencies = [counted[f'editcritic_request_latency_seconds{{quantile="{share}"}}'] for share in (0.5, 0.95, 0.99)]
    assert 0 < latencies[0] <= latencies[1] <= latencies[2]


def test_health_is_answered_while_every_decoder_is_at_work() -> None:
    opened = threading.Event()
    with server() as (client, service), ThreadPoolExecutor(1) as thread:
        for _ in range(service.limits.decode_threads):
            service._lanes._pools[0].submit(opened.wait, 30)
        work = thread.submit(client.post, "/v1/score", **as_json(edits(1)))
        eventually(lambda: service.active_requests)
        assert client.get("/healthz").status_code == 200
        assert not work.done()
        opened.set()
        assert work.result().status_code == 200


def test_two_servers_in_a_process_count_apart() -> None:
    with server() as (first, _), server() as (second, _):
        first.post("/v1/score", **as_json(edits(3)))
        assert metrics_of(first)['editcritic_samples_total{status="scored"}'] == 3
        assert 'editcritic_samples_total{status="scored"}' not in metrics_of(second)
