"""The client of judge servers, with real servers in processes of their own."""

import asyncio
import json
import pickle
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from editcritic.integrations.serving.client import RemoteError, RemoteReward
from editcritic.integrations.serving.rehearsal import Reader, Server, reward, samples
from editcritic.integrations.serving.server import running
from editcritic.integrations.serving.service import Service
from editcritic.integrations.trl import AsyncRewardFunction, RewardFunction
from editcritic.reward import ExpertDown, Reward, TooManyFailures, score
from editcritic.verifiers import BestOf, Budget, Journal, Verifier, at_least, select

TINY = 8


@pytest.fixture(scope="module")
def server():
    with Server(life=120) as running:
        yield running


@contextmanager
def answering(*answers):
    """A server that says it is ready, and answers requests with these, one after the other, the last for ever.

    Each: (status, headers, JSON or a function that makes it of the request).
    """
    seen, about = [], {"card": {"name": "rehearsal", "version": 1, "summary": "s"}, "spec": {}, "experts": {}}
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _say(self, status, headers, data):
            body = data if isinstance(data, bytes) else json.dumps(data).encode()
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self._say(200, {}, about if "reward" in self.path else {"ready": True})

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            start, end = body.index(b'{"schema"'), body.index(b"\r\n--", body.index(b'{"schema"'))
            asked = json.loads(body[start:end])
            with lock:
                seen.append(asked)
                status, headers, data = answers[min(len(seen), len(answers)) - 1]
            self._say(status, headers, data(asked) if callable(data) else data)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", seen
        running.shutdown()


def scored(asked):
    rows = [{"id": row["id"], "value": 0.5, "status": "scored"} for row in asked["samples"]]
    return {"schema": 1, "reward": "rehearsal@1", "scores": rows}


def test_a_batch_is_scored_as_it_is_without_a_server(server):
    batch = samples(30, size=TINY, group=4)
    found = RemoteReward(server.url, chunk=4)(batch)
    assert found.scores == reward()(batch).scores
    assert found.ids == tuple(sample.id for sample in batch)
    assert found.stats["replicas"] == {server.url: 30}


@pytest.mark.parametrize("packing", ["rgb", "png"])
def test_pictures_arrive_as_they_are(server, packing):
    batch = samples(5, size=33)
    assert RemoteReward(server.url, packing=packing)(batch).values == reward()(batch).values


def test_it_is_what_its_server_serves(server):
    remote, here = RemoteReward(server.url), reward()
    assert (remote.card, remote.expert_ids, remote.__name__) == (here.card, here.expert_ids, here.__name__)
    assert Reward.of(remote.spec).card == here.card


def test_it_pickles_without_its_token(server, monkeypatch):
    monkeypatch.setenv("JUDGE_TOKEN", "not for the pickle")
    written = pickle.dumps(RemoteReward(server.url, token_env="JUDGE_TOKEN", chunk=3))
    again = pickle.loads(written)
    assert b"not for the pickle" not in written
    assert again.chunk == 3
    assert again(samples(3, size=TINY)).values == [0, 1, 2]


def test_many_clients_each_get_their_own_scores(server):
    async def one(number):
        remote = RemoteReward(server.url, concurrency=2, chunk=5)
        mine = samples(10, size=TINY, group=5, start=10 * number)
        found = await remote.score(mine)
        assert found.values == [10 * number + at for at in range(10)]
        assert found.ids == tuple(sample.id for sample in mine)
        remote.close()
        return len(found)

    async def all_of_them():
        return sum(await asyncio.gather(*(one(number) for number in range(40))))

    assert asyncio.run(all_of_them()) == 400


def test_a_stream_takes_samples_as_there_is_room(server):
    taken = 0

    def source():
        nonlocal taken
        for sample in samples(64, size=TINY):
            taken += 1
            yield sample

    remote = RemoteReward(server.url, concurrency=1, chunk=4)
    values = []
    for one in remote.stream(source()):
        values.append(one.value)
        assert taken <= len(values) + 3 * 4
    assert values == list(range(64))


def test_requests_are_sent_again_with_their_key_until_there_is_room():
    with answering((503, {"retry-after": "0"}, {"error": "full"}), (503, {}, b"<html>"), (200, {}, scored)) as (
        url,
        seen,
    ):
        found = RemoteReward(url)(samples(3, size=TINY))
    assert found.values == [0.5, 0.5, 0.5]
    assert len(seen) == 3
    assert len({asked["key"] for asked in seen}) == 1
    assert found.stats["retries"] == {"busy": 2}


def test_what_is_refused_is_sent_once_and_fails_with_the_servers_words():
    with answering((401, {}, {"error": "no such token"})) as (url, seen):
        found = RemoteReward(url)(samples(3, size=TINY))
    assert len(seen) == 1
    assert found.count("failed") == 3
    assert "no such token" in found[0].reason


def test_a_bad_sample_fails_alone(server):
    batch = samples(7, size=TINY)
    batch[4] = replace(batch[4], hint="\ud800")  # half of a letter: JSON carries it, and the server refuses it
    found = RemoteReward(server.url)(batch)
    assert [score.status for score in found] == ["scored"] * 4 + ["failed"] + ["scored"] * 2
    assert "half of a letter" in found[4].reason


def test_a_broken_server_is_not_asked_for_ever():
    with answering((500, {}, {"error": "a bug"})) as (url, seen):
        found = RemoteReward(url)(samples(2, size=TINY))
    assert len(seen) == 3
    assert "HTTP 500: a bug" in found[0].reason


@pytest.mark.parametrize(
    "wrong",
    [
        b"no JSON",
        lambda asked: {**scored(asked), "schema": 2},
        lambda asked: {**scored(asked), "scores": scored(asked)["scores"][::-1]},
        lambda asked: {**scored(asked), "scores": [{"id": row["id"], "value": 0.0} for row in asked["samples"]]},
    ],
    ids=["not JSON", "another schema", "another request's", "without a status"],
)
def test_an_answer_that_is_none_is_no_score(wrong):
    with answering((200, {}, wrong), (200, {}, scored)) as (url, seen):
        found = RemoteReward(url)(samples(2, size=TINY))
    assert found.values == [0.5, 0.5]
    assert len(seen) == 2


def test_what_is_not_there_by_the_deadline_fails_and_is_marked(server):
    with Server(seconds=0.3, batch=1, life=60) as slow:
        RemoteReward(slow.url).check([])  # what connecting takes does not count
        found = RemoteReward(slow.url, deadline_s=2.0, chunk=2, on_failures="none")(samples(20, size=TINY))
    known = [score.value for score in found if score.value is not None]
    late = [sample_id for sample_id, score in zip(found.ids, found, strict=True) if score.status == "failed"]
    assert 0 < len(known) < 20
    assert all(value == int(name) for name, value in zip(found.ids, found.values, strict=True) if value)
    assert sorted(found.stats["late"]) == sorted(late)
    assert "not scored within" in next(score.reason for score in found if score.status == "failed")


def test_too_many_failures_bring_along_what_was_scored():
    def mostly_failed(asked):
        said = scored(asked)
        said["scores"][1:] = [
            {"id": row["id"], "value": None, "status": "failed", "reason": "r"} for row in said["scores"][1:]
        ]
        return said

    with answering((200, {}, mostly_failed)) as (url, _):
        with pytest.raises(TooManyFailures, match="failed") as caught:
            RemoteReward(url)(samples(32, size=TINY))
        assert [score.value for score in caught.value.scores].count(0.5) == 4
        found = RemoteReward(url, on_failures="none")(samples(32, size=TINY))
    assert found.count("failed") == 28


def failed(asked):
    rows = [{"id": row["id"], "value": None, "status": "failed", "reason": "r"} for row in asked["samples"]]
    return {**scored(asked), "scores": rows}


def test_it_waits_for_a_judge_that_is_down():
    down: Any = (200, {}, failed)
    with answering(down, down, down, (200, {}, scored)) as (url, seen):
        found = RemoteReward(url, on_failures="wait", chunk=16)(samples(16, size=TINY))
    assert found.values == [0.5] * 16
    assert len({asked["key"] for asked in seen}) == 4


def test_what_fails_among_many_is_asked_for_once_more_and_what_is_refused_is_not():
    def one_of_them(asked):
        rows = zip(failed(asked)["scores"], scored(asked)["scores"], strict=True)
        return {**scored(asked), "scores": [bad if bad["id"] == "7" else good for bad, good in rows]}

    with answering((200, {}, one_of_them)) as (url, seen):
        found = RemoteReward(url, on_failures="wait", chunk=16)(samples(32, size=TINY))
    assert [len(asked["samples"]) for asked in seen if len(asked["samples"]) < 16] == [1]
    assert found.count("failed") == 1
    with answering((401, {}, {"error": "no"})) as (url, seen):
        assert RemoteReward(url, on_failures="wait")(samples(2, size=TINY)).count("failed") == 2
    assert len(seen) == 1


def test_nobody_there_is_said_after_the_patience():
    remote = RemoteReward("http://127.0.0.1:9", patience_s=0.3)
    with pytest.raises(RemoteError, match=r"http://127.0.0.1:9: no connection"):
        remote(samples(1, size=TINY))


def test_a_server_that_went_away_is_waited_for_as_long_as_there_is_patience():
    with Server(life=60) as server:
        remote = RemoteReward(server.url, patience_s=0.5, on_failures="none")
        assert remote(samples(1, size=TINY)).values == [0]
        server.kill()
        found = remote(samples(2, size=TINY))
    assert found.count("failed") == 2
    assert "nobody answered for" in found[0].reason


def test_the_token_is_that_of_the_environment(monkeypatch):
    monkeypatch.delenv("JUDGE_TOKEN", raising=False)
    with pytest.raises(ValueError, match="JUDGE_TOKEN"):
        RemoteReward("http://127.0.0.1:9", token_env="JUDGE_TOKEN")(samples(1, size=TINY))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"urls": "ftp://here"}, "URL"),
        ({"urls": []}, "needs the URL"),
        ({"urls": "http://me:secret@here"}, "no password"),
        ({"packing": "jpeg"}, "packing"),
        ({"chunk": 0}, "chunk"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"max_failed": 2}, "max_failed"),
    ],
)
def test_what_means_nothing_is_refused_at_once(given, said):
    with pytest.raises(ValueError, match=said) as caught:
        RemoteReward(**{"urls": "http://127.0.0.1:9", **given})
    assert "secret" not in str(caught.value)


# -- where a Reward is taken ------------------------------------------------------------------------------------------


def test_trl_takes_it(server):
    columns = {"instruction": ["x"] * 4, "source": [one.source for one in samples(4, size=TINY)]}
    columns["edited"] = [one.edited for one in samples(4, size=TINY)]
    function = pickle.loads(pickle.dumps(RewardFunction(RemoteReward(server.url), offload=True)))
    assert function.__name__ == "rehearsal"
    assert function(["p"] * 4, ["c"] * 4, **columns) == [0, 1, 2, 3]
    assert asyncio.run(AsyncRewardFunction(function)(["p"] * 4, ["c"] * 4, **columns)) == [0, 1, 2, 3]


def test_verifiers_and_selectors_take_it(server):
    remote, (sample,) = RemoteReward(server.url), samples(1, size=TINY)
    pictures = [one.edited for one in samples(4, size=TINY)]
    assert Verifier(remote, at_least(2))([replace(sample, edited=one) for one in pictures]).answers == [
        *("reject", "reject", "accept", "accept")
    ]

    class Editor:
        id, evaluations, batch = "numbers", 1, 4

        def edit(self, images, instructions, seeds, *, history=None):
            return [pictures[seed] for seed in seeds]

    journal = Journal()
    best = select(BestOf(4), [sample], editor=Editor(), reward=remote, journal=journal)
    assert best[0].winner is not None
    assert best[0].winner.score.value == 3
    here = reward()
    again = select(BestOf(4), [sample], editor=Editor(), reward=here, journal=journal)[0].winner
    assert again is not None
    assert again.score.value == 3
    assert not here.engine.stats().asked  # the journal knows it to be the same reward
    with pytest.raises(ValueError, match="limit evaluations or seconds"):
        select(BestOf(4), [sample], editor=Editor(), reward=remote, budget=Budget(judge_calls=8))


def test_score_takes_it(server):
    (sample,) = samples(1, size=TINY, start=1 << 16)
    assert score(sample.source, sample.edited, "x", reward=RemoteReward(server.url)).value == 1 << 16


def test_a_judge_that_is_dead_fails_its_samples_with_the_reason():
    dead = reward()
    dead.experts["preference"] = Dead()
    with running(Service(dead)) as url:
        found = RemoteReward(url, on_failures="none", chunk=2)(samples(6, size=TINY))
    assert found.count("failed") == 6
    assert "no such weights" in found[0].reason


class Dead(Reader):
    def load(self):
        raise ExpertDown("no such weights")
