"""Judge servers that die, come back, are slow and are full while they are asked: the scores are those of a calm day."""

import signal
from concurrent.futures import ThreadPoolExecutor

from editcritic.integrations.serving.client.remote_reward import RemoteReward
from studies.load_test.synthetic_reward import SyntheticServer, synthetic_samples

from .served import counted, eventually

BATCH = synthetic_samples(200, size=16, group=4)
CALM = [float(number) for number in range(200)]
THREADS = ThreadPoolExecutor(4)
SAMPLES = "editcritic_samples_total"


def test_servers_that_are_killed_in_turn_lose_nothing():
    with SyntheticServer(seconds=0.04, life=90) as first, SyntheticServer(seconds=0.04, life=90) as second:
        remote = RemoteReward([first.url, second.url], chunk_size=4)
        remote(BATCH[:8])
        scoring = THREADS.submit(remote, BATCH)
        for server in (first, second, first):
            eventually(lambda: counted(server.url, SAMPLES) >= 12)  # noqa: B023  (since it was started)
            server.kill()
            server.restart()
        scores = scoring.result(60)
    assert scores.values == CALM
    assert set(scores.stats["retries"]) & {"connection_lost", "unreachable"}


def test_a_slow_server_holds_up_its_own_requests_only():
    with SyntheticServer(life=90) as slow, SyntheticServer(life=90) as quick:
        remote = RemoteReward([slow.url, quick.url], chunk_size=4, max_concurrency=4, timeout_s=1.5)
        remote(BATCH[:8])
        slow.process.send_signal(signal.SIGSTOP)
        scores = remote(BATCH)
    assert scores.values == CALM
    assert scores.stats["retries"]["timeout"] > 0
    assert scores.stats["replicas"][quick.url] > 100


def test_a_full_queue_is_waited_for():
    with SyntheticServer(seconds=0.005, queue=16, life=90) as server:
        remotes = [RemoteReward(server.url, chunk_size=4, max_concurrency=8) for _ in range(3)]
        work = [THREADS.submit(remote, BATCH[at:60:3]) for at, remote in enumerate(remotes)]
        all_scores = [scoring.result(60) for scoring in work]
    assert [scores.values for scores in all_scores] == [CALM[at:60:3] for at in range(3)]
    assert sum(scores.stats["retries"].get("busy", 0) for scores in all_scores) > 0


def test_a_server_that_stops_in_order_finishes_what_it_took():
    with SyntheticServer(seconds=0.01, life=90) as first, SyntheticServer(seconds=0.01, life=90) as second:
        remote = RemoteReward([first.url, second.url], chunk_size=4)
        remote(BATCH[:8])
        scoring = THREADS.submit(remote, BATCH)
        eventually(lambda: counted(first.url, SAMPLES) >= 20)
        first.process.terminate()
        scores = scoring.result(60)
        assert first.process.wait(20) == 0
    assert scores.values == CALM
