"""Which of several judge servers is asked."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from editcritic.integrations.serving.client import RemoteError, RemoteReward
from editcritic.integrations.serving.rehearsal import Server, samples
from editcritic.integrations.serving.replicas import HOLD, Replicas
from editcritic.integrations.serving.transport import Answer, Lost
from editcritic.reward.timeouts import timeout

URLS = ("http://a", "http://b", "http://c")
ABOUT = {"card": {"name": "rehearsal", "version": 1, "summary": "s"}, "spec": {}, "experts": {"judge": "one"}}


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
            raise Lost("no connection")
        if path == "readyz" and f"http://{server}" in self.dead:
            return Answer(503, {}, {"ready": False, "dead": {"judge": "no memory"}})
        return Answer(200, {}, self.about[f"http://{server}"] if path == "v1/reward" else {"ready": True})

    async def close(self):
        pass


def connected(test):
    """Run an `async def` of a net and its replicas."""

    async def run():
        net: Any = Net()
        replicas = Replicas(URLS, net, patience_s=1.0)
        await replicas.connect()
        await test(net, replicas)
        await replicas.close()

    asyncio.run(run())


def test_a_group_has_its_server_whoever_asks():
    async def test(_, replicas):
        net: Any = Net()
        other = Replicas(URLS[::-1], net, patience_s=1.0)
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
        next(one for one in replicas.all if one.url == "http://b").problem = "gone"
        after = {group: replicas.pick(group, 1).url for group in groups}
        assert all(after[group] == home for group, home in before.items() if home != "http://b")
        assert {after[group] for group, home in before.items() if home == "http://b"} == {"http://a", "http://c"}

    connected(test)


def test_a_server_with_more_than_its_share_is_passed_over():
    async def test(_, replicas):
        home = replicas.pick("group", 8)
        home.in_flight = HOLD
        second = replicas.pick("group", 8)
        assert second is not home
        for one in replicas.all:
            one.in_flight = HOLD
        assert replicas.pick("group", 8) is home  # all are as busy
        home.in_flight = 0
        replicas.answered(home, Answer(200, {"x-samples-waiting": str(10 * HOLD)}, {}))  # of other clients
        assert replicas.pick("group", 8) is second
        home.reported_at -= 60  # that was a minute ago
        assert replicas.pick("group", 8) is home

    connected(test)


def test_one_that_is_full_rests_and_one_that_is_down_is_asked_whether_it_is_ready():
    async def test(net, replicas):
        home = replicas.pick("group", 1)
        replicas.busy(home, 0.2)
        assert replicas.pick("group", 1) is not home
        await asyncio.sleep(0.25)
        assert replicas.pick("group", 1) is home
        net.ready.remove(home.url)
        replicas.down(home, "lost")
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
    monkeypatch.setattr("editcritic.integrations.serving.replicas._LONGEST_PAUSE_S", 3600.0)

    async def test(net, replicas):
        net.ready.clear()
        for one in replicas.all:
            replicas.down(one, "lost")
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
                replicas.down(one, "all scores failed")
        await asyncio.sleep(0.1)
        assert {replicas.pick(f"group {number}", 1).url for number in range(50)} == {"http://b"}
        replicas.down(next(one for one in replicas.all if one.url == "http://b"), "lost")
        assert {replicas.pick(f"group {number}", 1).url for number in range(50)} == {"http://a", "http://c"}
        assert "no memory" in replicas.problems()

    connected(test)


def test_one_that_comes_back_with_another_reward_is_never_asked_again():
    async def test(net, replicas):
        home = replicas.pick("group", 1)
        net.about[home.url] = {**ABOUT, "experts": {"judge": "another"}}
        replicas.down(home, "lost")
        for _ in range(50):
            await asyncio.sleep(0.02)
        assert "'another'" in home.refused
        assert replicas.pick("group", 1) is not home
        assert not replicas.hopeless

    connected(test)


def test_servers_of_two_rewards_are_refused_by_name():
    different = pytest.raises(RemoteError, match="different rewards")
    with Server(life=60) as one, Server(life=60, seconds=0.001) as other:
        remote = RemoteReward([one.url, other.url])
        with different as caught:
            remote(samples(1, size=8))
        with pytest.raises(RemoteError, match="different rewards"):
            remote(samples(1, size=8))
    assert one.url in str(caught.value)
    assert other.url in str(caught.value)
    assert "rehearsal@1 seconds=0.001" in str(caught.value)


def test_rollouts_of_one_source_meet_at_one_server():
    with Server(life=60) as one, Server(life=60) as other:
        urls = [one.url, other.url]
        batch = samples(64, size=8, group=8)
        ranks = [RemoteReward(urls, chunk=2), RemoteReward(urls[::-1], chunk=2)]
        found = [ranks[0](batch[::2]), ranks[1](batch[1::2])]
        homes = Counter(ranks[0].replicas()[0].weight(s.group) > ranks[0].replicas()[1].weight(s.group) for s in batch)
    assert found[0].values + found[1].values == [*range(0, 64, 2), *range(1, 64, 2)]
    asked = Counter(found[0].stats["replicas"]) + Counter(found[1].stats["replicas"])
    assert asked == {one.url: homes[True], other.url: homes[False]}
