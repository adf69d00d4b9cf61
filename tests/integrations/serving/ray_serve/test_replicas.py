"""Replicas behind one address that come, are killed and go while they are asked: the scores are those of a calm day."""

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from editcritic.integrations.serving.client.remote_reward import RemoteReward
from editcritic.integrations.serving.http_protocol import attach_images, images_by_digest, request_json
from studies.load_test.synthetic_reward import synthetic_reward, synthetic_samples

from ..served import eventually
from .ray_judge import RayJudge, notes, ray_judge

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")

METRIC = "studies.load_test.synthetic_reward:SyntheticMetric"
EXPERT = "preference=tests.integrations.serving.ray_serve.ray_judge:Noted"
TOKEN = "the-token-of-the-test"
HEADERS = {"authorization": f"Bearer {TOKEN}"}
REPLICA = "ray::ServeReplica"
THREADS = ThreadPoolExecutor(8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notes")


@pytest.fixture(scope="module")
def judge(folder: Path) -> Iterator[RayJudge]:
    os.environ["RAY_JUDGE_TOKEN"] = TOKEN
    with ray_judge(
        rewards=[METRIC, f"again={METRIC}"],
        experts=[f"{EXPERT}?folder={folder}&seconds=0.002"],
        token_env="RAY_JUDGE_TOKEN",
        trainer_protocols=["unirl"],
        replicas="1-2",
        target_requests=2,
        upscale_s=0.5,
        downscale_s=3.0,
        cpus=0.25,
    ) as running:
        yield running
    del os.environ["RAY_JUDGE_TOKEN"]


def client(judge: RayJudge) -> RemoteReward:
    return RemoteReward(judge.url, token_env="RAY_JUDGE_TOKEN", reward="rehearsal", chunk_size=10, max_concurrency=16)


def test_of_thousands_of_samples_none_is_lost_while_replicas_are_added_killed_and_stopped(judge, folder):
    samples = synthetic_samples(8_000, size=8, group=10)
    assert len(judge.pids(REPLICA)) == 1
    scoring = THREADS.submit(client(judge), samples)
    eventually(lambda: len(judge.pids(REPLICA)) == 2, "a second replica under load")
    eventually(lambda: len(list(folder.glob("asked-*"))) == 2, "questions to both")
    assert not scoring.done()
    asked = len(notes(folder, "asked"))
    killed = min(judge.pids(REPLICA))
    os.kill(killed, signal.SIGKILL)
    scores = scoring.result(180)
    assert asked < 8_000
    assert scores.values == [float(number) for number in range(8_000)]
    local = synthetic_reward()(samples[:100])
    assert local.values == scores.values[:100]
    eventually(lambda: len(judge.pids(REPLICA) - {killed}) == 1, "one replica without load")
    assert client(judge)(samples[:20]).values == scores.values[:20]


def test_rewards_of_a_replica_share_an_expert_whose_weights_are_loaded_once(judge: RayJudge, folder: Path) -> None:
    again = RemoteReward(judge.url, token_env="RAY_JUDGE_TOKEN", reward="again")
    assert again(synthetic_samples(8, size=8)).values == [float(number) for number in range(8)]
    loads = {path.name: len(path.read_text().split()) for path in folder.glob("loaded-*")}
    assert set(loads.values()) == {1}


def test_without_the_token_the_proxy_tells_nothing_but_health(judge: RayJudge) -> None:
    for path in ("/v1/reward", "/metrics", "/monitor", "/-/routes", "/v1/score", "/score", "/x", "//healthz"):
        for method in ("GET", "POST", "PUT", "OPTIONS"):
            answer = httpx2.request(method, f"{judge.url}{path}", timeout=60)
            assert answer.status_code == 401, (method, path)
            assert answer.headers["connection"] == "close"
    for path in ("/healthz", "/readyz", "/-/healthz"):
        assert httpx2.get(f"{judge.url}{path}", timeout=60).status_code == 200
    assert httpx2.get(f"{judge.url}/v1/reward?name=again", headers=HEADERS, timeout=60).status_code == 200


def test_the_token_is_in_no_command_line_and_in_no_file_of_ray(judge: RayJudge) -> None:
    for pid in [judge.process.pid, *judge.pids("")]:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        assert TOKEN.encode() not in command
    sessions = list(Path("/tmp/ray").glob(f"session_*_{judge.process.pid}"))
    files = [
        path for folder in sessions for path in folder.rglob("*") if path.is_file() and path.stat().st_size < 2**24
    ]
    assert files
    assert not [path for path in files if TOKEN.encode() in path.read_bytes()]


def test_metrics_name_the_replica_that_answers(judge: RayJudge) -> None:
    lines = httpx2.get(f"{judge.url}/metrics", headers=HEADERS, timeout=60).text.splitlines()
    values = [line for line in lines if line.startswith("editcritic_")]
    assert values
    assert all('replica="' in line for line in values)


def test_the_whole_cluster_may_die_and_come_back_while_it_is_asked(judge: RayJudge, folder: Path) -> None:
    samples = synthetic_samples(1_000, size=8, group=10, start=20_000)
    before = len(notes(folder, "asked"))
    scoring = THREADS.submit(client(judge), samples)
    eventually(lambda: len(notes(folder, "asked")) > before + 200, "some are scored")
    judge.kill()
    assert not scoring.done()
    judge.start()
    scores = scoring.result(180)
    assert scores.values == [float(number) for number in range(20_000, 21_000)]


def test_a_stopped_judge_answers_what_it_accepted_and_refuses_the_rest(judge: RayJudge) -> None:
    def send(first: int, count: int) -> httpx2.Response:
        samples = synthetic_samples(count, size=8, start=first)
        data = attach_images(request_json(samples, reward="rehearsal"), images_by_digest(samples))
        return httpx2.post(f"{judge.url}/v1/score", content=json.dumps(data).encode(), headers=HEADERS, timeout=120)

    with ThreadPoolExecutor(4) as threads:
        accepted = [threads.submit(send, 40_000 + 500 * number, 500) for number in range(3)]
        eventually(lambda: _queued(judge) == 1_500, "all are accepted")
        judge.process.send_signal(signal.SIGTERM)
        statuses = set[int]()
        first = 50_000
        while not statuses & {503}:
            try:
                statuses.add(send(first, 1).status_code)
            except httpx2.TransportError:
                break
            first += 1
        answers = [future.result() for future in accepted]
    assert judge.process.wait(60) == 0
    assert statuses <= {200, 503}
    assert 503 in statuses
    for number, answer in enumerate(answers):
        assert answer.status_code == 200
        assert [row["value"] for row in answer.json()["scores"]] == [40_000.0 + 500 * number + at for at in range(500)]


def _queued(judge: RayJudge) -> float:
    """Samples in the replicas: each look may be answered by another one."""
    by_replica: dict[str, float] = {}
    for _ in range(8):
        for line in httpx2.get(f"{judge.url}/metrics", headers=HEADERS, timeout=60).text.splitlines():
            if line.startswith("editcritic_queued_samples{"):
                by_replica[line.partition("}")[0]] = float(line.split()[-1])
    return sum(by_replica.values())
