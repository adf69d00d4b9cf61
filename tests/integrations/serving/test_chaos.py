"""Judge servers that die, come back, are slow and are full while they are asked: the scores are those of a calm day."""

import signal
import threading
import time

from editcritic.integrations.serving.client import RemoteReward
from editcritic.integrations.serving.rehearsal import Server, samples

BATCH = samples(400, size=16, group=4)
CALM = [float(number) for number in range(400)]


def asked(remote, batch=BATCH):
    """Start asking in a thread; gives back the thread and where the scores will be."""
    found = []
    thread = threading.Thread(target=lambda: found.append(remote(batch)))
    thread.start()
    return thread, found


def ended(thread, found):
    thread.join(60)
    assert not thread.is_alive()
    return found[0]


def test_a_server_that_is_killed_is_replaced_by_the_other():
    with Server(seconds=0.01, life=90) as one, Server(seconds=0.01, life=90) as other:
        remote = RemoteReward([one.url, other.url], chunk=4, concurrency=8)
        remote(BATCH[:8])
        thread, found = asked(remote)
        time.sleep(0.7)
        one.kill()
        scores = ended(thread, found)
    assert scores.values == CALM
    assert set(scores.stats["retries"]) & {"lost", "unreachable"}


def test_the_only_server_may_die_and_come_back():
    with Server(seconds=0.01, life=90) as server:
        remote = RemoteReward(server.url, chunk=4)
        remote(BATCH[:8])
        thread, found = asked(remote)
        time.sleep(0.7)
        server.kill()
        time.sleep(0.5)
        server.restart()
        scores = ended(thread, found)
    assert scores.values == CALM


def test_servers_that_are_killed_in_turn_lose_nothing():
    with Server(seconds=0.02, life=90) as one, Server(seconds=0.02, life=90) as other:
        remote = RemoteReward([one.url, other.url], chunk=4)
        remote(BATCH[:8])
        thread, found = asked(remote)
        for server in (one, other, one):
            time.sleep(0.6)
            server.kill()
            server.restart()
        scores = ended(thread, found)
    assert scores.values == CALM


def test_a_slow_server_holds_up_its_own_requests_only():
    with Server(life=90) as slow, Server(life=90) as quick:
        remote = RemoteReward([slow.url, quick.url], chunk=4, concurrency=4, timeout_s=3.0)
        remote(BATCH[:8])
        slow.process.send_signal(signal.SIGSTOP)
        scores = remote(BATCH)
    assert scores.values == CALM
    assert scores.stats["retries"]["time-out"] > 0
    assert scores.stats["replicas"][quick.url] > 200


def test_a_full_queue_is_waited_for():
    with Server(seconds=0.005, queue=16, life=90) as server:
        remotes = [RemoteReward(server.url, chunk=4, concurrency=8) for _ in range(3)]
        work = [asked(remote, BATCH[at:60:3]) for at, remote in enumerate(remotes)]
        found = [ended(*one) for one in work]
    assert [scores.values for scores in found] == [CALM[at:60:3] for at in range(3)]
    assert sum(scores.stats["retries"].get("busy", 0) for scores in found) > 0


def test_a_server_that_stops_in_order_finishes_what_it_took():
    with Server(seconds=0.01, life=90) as one, Server(seconds=0.01, life=90) as other:
        remote = RemoteReward([one.url, other.url], chunk=4)
        remote(BATCH[:8])
        thread, found = asked(remote)
        time.sleep(0.5)
        one.process.terminate()
        scores = ended(thread, found)
        assert one.process.wait(20) == 0
    assert scores.values == CALM
