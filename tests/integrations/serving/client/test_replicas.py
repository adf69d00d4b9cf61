"""Which of several judge servers is asked."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from editcritic.integrations.serving.client.remote_reward import RemoteError, RemoteReward
from editcritic.integrations.serving.client.replicas import MIN_BOUNDED_LOAD, ReplicaPool
from editcritic.integrations.serving.client.transport import TransportError, TransportResponse
from editcritic.reward.retry import RetryPolicy
from editcritic.reward.routing import rendezvous_weight
from editcritic.reward.timeout_compat import timeout
from studies.load_test.synthetic_reward import SyntheticServer, synthetic_samples

URLS = ("http://a", "http://b", "http://c")
ABOUT = {
    "identity": "a" * 64,
    "card": {"name": "rehearsal", "version": 1, "summary": "s"},
    "spec": {},
    "experts": {"judge": "one"},
}


class Net:
    """Servers without a network: `ready` is those that are there, `about` what they serve."""

    has_token = False

    def __init__(self):
        self.ready = set(URLS)
        self.dead = set()
        self.about = dict.fromkeys(URLS, ABOUT)

    async def get(self, url):
        server, _, path = url.removeprefix("http://").partition("/")
        if f"http://{server}" not in self.ready:
            raise TransportError("no connection")
        if path == "readyz" and f"http://{server}" in self.dead:
            return TransportResponse(503, {}, {"ready": False, "unavailable": {"judge": "no memory"}})
        return TransportResponse(200, {}, self.about[f"http://{server}"] if path == "v1/reward" else {"ready": True})

    async def close(self):
        pass


def connected(test):
    async def run():
        net: Any = Net()
        replicas = ReplicaPool(URLS, net, outage_timeout_s=1.0)
        await replicas.connect()
        await test(net, replicas)
        await replicas.close()

    asyncio.run(run())


def test_a_group_has_its_server_whoever_asks():
    async def test(_, replicas):
        net: Any = Net()
        other = ReplicaPool(URLS[::-1], net, outage_timeout_s=1.0)
        await other.connect()
        groups = [f"group {number}" for number in range(300)]
        homes = [picked.url for group in groups if (picked := replicas.pick(group, 1))]
        others = [picked.url for group in groups if (picked := other.pick(group, 1))]
        assert homes == others
        assert len(homes) == len(groups)
        assert all(60 < count < 140 for count in Counter(homes).values())

    connected(test)


def test_the_groups_of_a_server_that_is_gone_move_and_no_others():
    async def test(_, replicas):
        groups = [f"group {number}" for number in range(300)]
        before = {group: replicas.pick(group, 1).url for group in groups}
        next(one for one in replicas.all if one.url == "http://b").unavailable_reason = "gone"
        after = {group: replicas.pick(group, 1).url for group in groups}
        assert all(after[group] == home for group, home in before.items() if home != "http://b")
        assert {after[group] for group, home in before.items() if home == "http://b"} == {"http://a", "http://c"}

    connected(test)


def test_a_server_with_more_than_its_share_is_passed_over():
    async def test(_, replicas):
        home = replicas.pick("group", 8)
        home.in_flight = MIN_BOUNDED_LOAD
        second = replicas.pick("group", 8)
        assert second is not home
        for one in replicas.all:
            one.in_flight = MIN_BOUNDED_LOAD
        assert replicas.pick("group", 8) is home  # all are as busy
        home.in_flight = 0
        replicas.mark_answered(
            home, TransportResponse(200, {"x-queued-samples": str(10 * MIN_BOUNDED_LOAD)}, {})
        )  # of other clients
        assert replicas.pick("group", 8) is second
        home.reported_at -= 60  # that was a minute ago
        assert replicas.pick("group", 8) is home

    connected(test)


def test_one_that_is_full_rests_and_one_that_is_down_is_asked_whether_it_is_ready():
    async def test(net, replicas):
        home = replicas.pick("group", 1)
        replicas.mark_busy(home, 0.2)
        assert replicas.pick("group", 1) is not home
        await asyncio.sleep(0.25)
        assert replicas.pick("group", 1) is home
        net.ready.remove(home.url)
        replicas.mark_down(home, "lost")
        await asyncio.sleep(0.05)
        assert replicas.pick("group", 1) is not home
        net.ready.add(home.url)
        for _ in range(100):
            await asyncio.sleep(0.02)
            if home.up:
                break
        assert replicas.pick("group", 1) is home

    connected(test)


def test_nobody_is_asked_while_all_are_down_and_waiting_ends_with_the_first(monkeypatch):
    policy = RetryPolicy(first_pause_s=0.1, longest_pause_s=3600.0)
    monkeypatch.setattr("editcritic.integrations.serving.client.replicas._PROBES", policy)

    async def test(net, replicas):
        net.ready.clear()
        for one in replicas.all:
            replicas.mark_down(one, "lost")
        assert replicas.pick("group", 1) is None
        assert "http://b: lost" in replicas.problems() or "http://b: no connection" in replicas.problems()
        asyncio.get_running_loop().call_later(0.1, net.ready.add, "http://b")
        async with timeout(60):
            while replicas.pick("group", 1) is None:
                await replicas.wait(3600.0)
        assert replicas.pick("group", 1).url == "http://b"

    connected(test)


def test_one_with_a_dead_expert_is_asked_where_there_is_no_other():
    async def test(net, replicas):
        net.dead |= {"http://a", "http://c"}
        for one in replicas.all:
            if one.url != "http://b":
                replicas.mark_down(one, "all scores failed")
        await asyncio.sleep(0.1)
        assert {replicas.pick(f"group {number}", 1).url for number in range(50)} == {"http://b"}
        replicas.mark_down(next(one for one in replicas.all if one.url == "http://b"), "lost")
        assert {replicas.pick(f"group {number}", 1).url for number in range(50)} == {"http://a", "http://c"}
        assert "no memory" in replicas.problems()

    connected(test)


def test_one_that_comes_back_with_another_reward_is_not_asked_until_it_has_the_first_one():
    async def test(net, replicas):
        home = replicas.pick("group", 1)
        net.about[home.url] = {**ABOUT, "identity": "b" * 64, "experts": {"judge": "another"}}
        replicas.mark_down(home, "lost")
        for _ in range(50):
            await asyncio.sleep(0.02)
        assert "rehearsal@1#aaaaaaaa and rehearsal@1#bbbbbbbb" in home.unavailable_reason
        assert "'another'" in home.unavailable_reason
        assert replicas.pick("group", 1) is not home
        assert not replicas.permanent_failure
        net.about[home.url] = ABOUT
        for _ in range(100):
            await asyncio.sleep(0.05)
            if home.up:
                break
        assert replicas.pick("group", 1) is home

    connected(test)


def test_an_answer_of_another_identity_is_no_score_and_its_server_is_not_used_again():
    async def test(net, replicas):
        home = replicas.pick("group", 1)
        net.about[home.url] = {**ABOUT, "identity": "c" * 64}
        replicas.mark_down(home, "it scored with another")
        await asyncio.sleep(0.3)
        assert home.other_identity
        for other in [one for one in replicas.all if one is not home]:
            net.about[other.url] = net.about[home.url]
            replicas.mark_down(other, "restarted")
        await asyncio.sleep(0.5)
        assert "rehearsal@1#aaaaaaaa and rehearsal@1#cccccccc" in replicas.permanent_failure

    connected(test)


def test_servers_of_two_rewards_are_refused_by_name():
    different = pytest.raises(RemoteError, match="different rewards")
    with SyntheticServer(life=60) as first, SyntheticServer(life=60, seconds=0.001) as second:
        remote = RemoteReward([first.url, second.url])
        with different as caught:
            remote(synthetic_samples(1, size=8))
        with pytest.raises(RemoteError, match="different rewards"):
            remote(synthetic_samples(1, size=8))
    assert first.url in str(caught.value)
    assert second.url in str(caught.value)
    assert "rehearsal@1 seconds=0.001" in str(caught.value)


def test_rollouts_of_one_source_meet_at_one_server():
    with SyntheticServer(life=60) as first, SyntheticServer(life=60) as second:
        urls = [first.url, second.url]
        batch = synthetic_samples(64, size=8, group=8)
        ranks = [RemoteReward(urls, chunk_size=2), RemoteReward(urls[::-1], chunk_size=2)]
        scores = [ranks[0](batch[::2]), ranks[1](batch[1::2])]
        homes = Counter(rendezvous_weight(first.url, s.group) > rendezvous_weight(second.url, s.group) for s in batch)
    assert scores[0].values + scores[1].values == [*range(0, 64, 2), *range(1, 64, 2)]
    samples_by_server = Counter(scores[0].stats["replicas"]) + Counter(scores[1].stats["replicas"])
    assert samples_by_server == {first.url: homes[True], second.url: homes[False]}


def test_while_servers_are_upgraded_a_client_uses_the_identity_it_names():
    with SyntheticServer(life=60) as old, SyntheticServer(life=60, seconds=0.001) as new:
        identity = RemoteReward(new.url).identity
        remote = RemoteReward([old.url, new.url], identity=identity[:8])
        scores = remote(synthetic_samples(8, size=8))
        assert remote.identity == identity
        assert scores.count("scored") == 8
        assert set(scores.stats["replicas"]) == {new.url}
        assert scores.reward.endswith(f"#{identity[:8]}")
        with pytest.raises(RemoteError, match="identity=0000000000000000 is required"):
            RemoteReward([old.url, new.url], identity="0" * 16)(synthetic_samples(1, size=8))
    with pytest.raises(ValueError, match="8 to 64 hex digits"):
        RemoteReward("http://a", identity="newest")
