"""The client of judge servers, with real servers in processes of their own."""

import asyncio
import gzip
import hashlib
import json
import math
import pickle
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from editcritic.integrations.serving.client import dispatch
from editcritic.integrations.serving.client.remote_reward import RemoteError, RemoteReward
from editcritic.integrations.serving.client.replicas import RewardInfo
from editcritic.integrations.serving.server.app import serve_in_thread
from editcritic.integrations.serving.server.service import ScoringService
from editcritic.integrations.serving.server.settings import ServerConfig
from editcritic.integrations.trl.reward_function import AsyncRewardFunction, RewardFunction
from editcritic.reward import Box, Card, Image, Reward, Score, TooManyFailures
from editcritic.reward.metrics.pairwise import pack_pair
from editcritic.reward.queries import ExpertDown
from editcritic.reward.retry import RetryPolicy
from editcritic.verifiers import BestOfN, Budget, Journal, Verifier, at_least, select
from studies.load_test.synthetic_reward import SyntheticExpert, SyntheticServer, synthetic_reward, synthetic_samples

TINY = 8
IDENTITY = "a" * 64
CARD = {"name": "rehearsal", "version": 1, "summary": "s"}


@pytest.fixture(scope="module")
def server():
    with SyntheticServer(life=120) as running:
        yield running


@contextmanager
def answering(*answers):
    """A ready server that gives (status, headers, JSON or a function of the request) in order, the last for ever."""
    requests, description = [], {"identity": IDENTITY, "card": CARD}
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
            self._say(200, {}, description if "reward" in self.path else {"ready": True})

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            start, end = body.index(b'{"schema"'), body.index(b"\r\n--", body.index(b'{"schema"'))
            request = json.loads(body[start:end])
            with lock:
                requests.append(request)
                status, headers, data = answers[min(len(requests), len(answers)) - 1]
            self._say(status, headers, data(request) if callable(data) else data)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}", requests
        running.shutdown()


def rows_of(request):
    return [{"id": row["id"], "value": 0.5, "status": "scored"} for row in request["samples"]]


def scored(request):
    return {"schema": 2, "reward": "rehearsal@1#aaaaaaaa", "identity": IDENTITY, "scores": rows_of(request)}


def failed(request):
    rows = [{"id": row["id"], "value": None, "status": "failed", "reason": "r"} for row in request["samples"]]
    return {**scored(request), "scores": rows}


def scores_and_requests(*answers: Any, count: int = 2, **options: Any) -> Any:
    """What a client makes of these answers to so many samples, and the requests that it sent."""
    with answering(*answers) as (url, requests):
        return RemoteReward(url, **options)(synthetic_samples(count, size=TINY)), requests


@pytest.mark.parametrize("encoding", ["rgb", "png"])
def test_a_batch_is_scored_as_it_is_without_a_server(server, encoding):
    batch = synthetic_samples(30, size=33, group=4)
    scores = RemoteReward(server.url, chunk_size=4, image_encoding=encoding)(batch)
    assert scores.scores == synthetic_reward()(batch).scores
    assert scores.ids == tuple(sample.id for sample in batch)
    assert scores.stats["replicas"] == {server.url: 30}


class Names:
    card = Card("names", 1, "a number for everything in the sample")

    def __call__(self, sample):
        digest = hashlib.sha256(repr(sample).encode()).digest()
        return Score.of(int.from_bytes(digest[:4], "big") / 2**32)
        yield


def test_earlier_turns_arrive_as_they_are():
    first, second, third, last = synthetic_samples(4, size=TINY)
    cup = {"cup": (Box(0.5, 0.5, 0.25, 0.25),)}
    hint = replace(second, id="hinted", hint="a hat", metadata={"seed": 1}, mask=third.edited)
    batch = [
        replace(third, history=(replace(first, boxes=cup), hint)),
        replace(third, sources=(second.edited, last.edited), history=(first, second)),
        replace(last, boxes=cup, history=(first, replace(second, history=(first,)))),
        pack_pair(replace(first, id="a"), replace(second, id="b", history=(third,))),
    ]
    here = Reward(Names(), {})
    with serve_in_thread(ScoringService(Reward(Names(), {}))) as url:
        assert RemoteReward(url)(batch).values == here(batch).values


def test_it_is_what_its_server_serves(server):
    remote, here = RemoteReward(server.url), synthetic_reward()
    assert (remote.card, remote.expert_ids, remote.__name__) == (here.card, here.expert_ids, here.__name__)
    assert Reward.of(remote.spec).card == here.card


def test_it_pickles_without_its_token(server, monkeypatch):
    monkeypatch.setenv("JUDGE_TOKEN", "not for the pickle")
    pickled = pickle.dumps(RemoteReward(server.url, token_env="JUDGE_TOKEN", chunk_size=3))
    again = pickle.loads(pickled)
    assert b"not for the pickle" not in pickled
    assert again.chunk_size == 3
    assert again(synthetic_samples(3, size=TINY)).values == [0, 1, 2]


def test_a_stream_takes_samples_as_there_is_room(server):
    num_consumed = 0

    def source():
        nonlocal num_consumed
        for sample in synthetic_samples(64, size=TINY):
            num_consumed += 1
            yield sample

    remote = RemoteReward(server.url, max_concurrency=1, chunk_size=4)
    values = []
    for streamed in remote.stream(source()):
        values.append(streamed.value)
        assert num_consumed <= len(values) + 3 * 4
    assert values == list(range(64))


@pytest.mark.parametrize(
    ("answers", "retries"),
    [
        ([(503, {"retry-after": "0"}, {"error": "full"}), (503, {}, b"<html>")], {"busy": 2}),
        ([(404, {"content-type": "text/plain"}, b"Path '/v1/score' not found.")] * 2, {"unreachable": 2}),
    ],
    ids=["full", "a proxy that knows no judge server for a while"],
)
def test_requests_are_sent_again_with_their_key_until_there_is_room(answers, retries):
    scores, requests = scores_and_requests(*answers, (200, {}, scored))
    assert scores.values == [0.5, 0.5]
    assert (len(requests), len({request["key"] for request in requests})) == (3, 1)
    assert scores.stats["retries"] == retries


@pytest.mark.parametrize("on_failures", ["raise", "wait"])
def test_what_is_refused_is_sent_once_and_fails_with_the_servers_words(on_failures):
    scores, requests = scores_and_requests((401, {}, {"error": "no such token"}), on_failures=on_failures)
    assert len(requests) == 1
    assert scores.count("failed") == 2
    assert "no such token" in scores[0].reason


def test_a_bad_sample_fails_alone(server):
    batch = synthetic_samples(7, size=TINY)
    batch[4] = replace(batch[4], hint="\ud800")  # a lone surrogate: valid in JSON, rejected by the server
    scores = RemoteReward(server.url)(batch)
    assert [score.status for score in scores] == ["scored"] * 4 + ["failed"] + ["scored"] * 2
    assert "lone surrogate" in scores[4].reason


@pytest.mark.parametrize("encoding", ["rgb", "png"])
def test_a_picture_that_cannot_be_read_any_more_fails_alone(server, encoding, tmp_path):
    samples = synthetic_samples(9, size=TINY)
    lost = [Image((TINY, TINY), digest=f"{number:064x}", path=tmp_path / "lost.png") for number in range(2)]
    broken = [*samples[:2], replace(samples[2], edited=lost[0]), *samples[3:7], replace(samples[7], sources=(lost[1],))]
    scores = RemoteReward(server.url, image_encoding=encoding)([*broken, samples[8]])
    assert [row for row, score in enumerate(scores) if score.status != "scored"] == [2, 7]
    assert {(scores[row].status, scores[row].cause) for row in (2, 7)} == {("failed", "")}
    assert all("lost.png" in scores[row].reason for row in (2, 7))


@pytest.fixture
def no_pauses(monkeypatch):
    monkeypatch.setattr(dispatch, "OUTAGE", RetryPolicy(first_pause_s=0.01))
    monkeypatch.setattr(dispatch, "_FAULTS", RetryPolicy(first_pause_s=0.01, attempts=3))


@pytest.mark.usefixtures("no_pauses")
def test_a_broken_server_is_not_asked_for_ever():
    scores, requests = scores_and_requests((500, {}, {"error": "a bug"}))
    assert len(requests) == 3
    assert "HTTP 500: a bug" in scores[0].reason


GZIP = {"content-encoding": "gzip, gzip"}


@pytest.mark.parametrize(
    ("headers", "wrong"),
    [
        ({}, b"no JSON"),
        ({}, lambda request: {**scored(request), "schema": 1}),
        ({}, lambda request: {**scored(request), "scores": rows_of(request)[::-1]}),
        ({}, lambda request: {**scored(request), "scores": [{"id": "0", "value": 0.0}, {"id": "1", "value": 0.0}]}),
        ({}, lambda request: {**scored(request), "scores": [{**row, "value": 9**999} for row in rows_of(request)]}),
        ({}, b'{"schema": 2, "scores": [' + b"{}," * 2_000_000 + b"{}]}"),
        (GZIP, b"no gzip"),
        (GZIP, lambda _: gzip.compress(gzip.compress(b"[" + b" " * 2**28 + b"]"))),
    ],
    ids=["no JSON", "another schema", "another request", "no status", "huge", "many values", "no gzip", "bomb"],
)
def test_an_answer_that_is_none_is_no_score(headers, wrong):
    scores, requests = scores_and_requests((200, headers, wrong), (200, {}, scored))
    assert scores.values == [0.5, 0.5]
    assert len(requests) == 2


@pytest.mark.parametrize("digits", [400, 5000])
def test_a_queue_of_absurd_length_counts_as_none(digits):
    with answering((200, {"x-queued-samples": "9" * digits}, scored)) as (url, _):
        remote = RemoteReward(url)
        assert [remote(synthetic_samples(2, size=TINY)).values for _ in range(2)] == [[0.5, 0.5]] * 2


def test_a_server_that_wants_to_be_asked_again_at_once_is_not_flooded():
    scores, requests = scores_and_requests((503, {"retry-after": "0"}, {}), outage_timeout_s=1.0, on_failures="none")
    assert scores[0].status == "failed"
    assert len(requests) <= 12


@pytest.mark.parametrize(
    "odd",
    [
        {"range": [1, 0]},
        {"range": [0, 0]},
        {"range": [0, "much"]},
        {"range": [0, math.inf]},
        {"range": [0]},
        {"name": ""},
        {"name": {"a": 1}},
        {"version": "newest"},
        {"requires": [["edited"]]},
        {"aspect": "beauty"},
        {"parts": 7},
    ],
)
def test_a_card_that_no_reward_has_and_a_description_without_an_identity_are_refused(odd):
    assert RewardInfo.of({"card": CARD, "identity": IDENTITY}).card.range == (0.0, 1.0)
    with pytest.raises(ValueError, match="no card"):
        RewardInfo.of({"card": {**CARD, **odd}, "identity": IDENTITY})
    for identity in (None, 5, [1]):
        with pytest.raises(ValueError, match="identity"):
            RewardInfo.of({"card": CARD, "identity": identity})


def test_a_value_outside_of_the_cards_range_is_a_failure():
    def generous(request):
        response = scored(request)
        for row, value in zip(response["scores"], (1000.0, -0.1, 1.0000001), strict=False):
            row["value"] = value
        return response

    scores, _ = scores_and_requests((200, {}, generous), count=4, on_failures="none")
    assert scores.values == [None, None, 1.0000001, 0.5]
    assert "the value 1000, which its card's range (0.0, 1.0) does not have" in scores[0].reason


def test_what_is_not_there_by_the_deadline_fails_and_is_marked(server):
    with SyntheticServer(seconds=0.3, batch=1, life=60) as slow:
        RemoteReward(slow.url).validate([])  # what connecting takes does not count
        scores = RemoteReward(slow.url, deadline_s=2.0, chunk_size=2, on_failures="none")(
            synthetic_samples(20, size=TINY)
        )
    values = [score.value for score in scores if score.value is not None]
    late = [sample_id for sample_id, score in zip(scores.ids, scores, strict=True) if score.status == "failed"]
    assert 0 < len(values) < 20
    assert all(value == int(name) for name, value in zip(scores.ids, scores.values, strict=True) if value)
    assert sorted(scores.stats["late"]) == sorted(late)
    assert "not scored within" in next(score.reason for score in scores if score.status == "failed")


def test_too_many_failures_bring_along_what_was_scored():
    def mostly_failed(request):
        return {**scored(request), "scores": [*rows_of(request)[:1], *failed(request)["scores"][1:]]}

    with answering((200, {}, mostly_failed)) as (url, _):
        with pytest.raises(TooManyFailures, match="failed") as caught:
            RemoteReward(url)(synthetic_samples(32, size=TINY))
        assert [score.value for score in caught.value.scores].count(0.5) == 4
        scores = RemoteReward(url, on_failures="none")(synthetic_samples(32, size=TINY))
    assert scores.count("failed") == 28


@pytest.mark.usefixtures("no_pauses")
def test_it_waits_for_a_judge_that_is_down():
    down: list[Any] = [(200, {}, failed)] * 3
    scores, requests = scores_and_requests(*down, (200, {}, scored), count=16, on_failures="wait", chunk_size=16)
    assert scores.values == [0.5] * 16
    assert len({request["key"] for request in requests}) == 4


def test_what_fails_among_many_is_asked_for_once_more():
    def one_of_them(request):
        rows = zip(failed(request)["scores"], scored(request)["scores"], strict=True)
        return {**scored(request), "scores": [bad if bad["id"] == "7" else good for bad, good in rows]}

    scores, requests = scores_and_requests((200, {}, one_of_them), count=32, on_failures="wait", chunk_size=16)
    assert [len(request["samples"]) for request in requests if len(request["samples"]) < 16] == [1]
    assert scores.count("failed") == 1


def test_nobody_there_is_said_after_the_patience():
    remote = RemoteReward("http://127.0.0.1:9", outage_timeout_s=0.3)
    with pytest.raises(TooManyFailures, match=r"http://127.0.0.1:9: no connection") as caught:
        remote(synthetic_samples(3, size=TINY))
    assert [score.cause for score in caught.value.scores] == ["infrastructure"] * 3
    with pytest.raises(RemoteError, match=r"http://127.0.0.1:9: no connection"):
        _ = remote.card
    assert remote([]).values == []


def test_the_token_is_that_of_the_environment(monkeypatch):
    monkeypatch.delenv("JUDGE_TOKEN", raising=False)
    with pytest.raises(ValueError, match="JUDGE_TOKEN"):
        RemoteReward("http://127.0.0.1:9", token_env="JUDGE_TOKEN")(synthetic_samples(1, size=TINY))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"urls": "ftp://here"}, "URL"),
        ({"urls": []}, "needs the URL"),
        ({"urls": "http://me:secret@here"}, "no password"),
        ({"image_encoding": "jpeg"}, "image_encoding"),
        ({"chunk_size": 0}, "chunk_size"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"max_failure_rate": 2}, "max_failure_rate"),
    ],
)
def test_what_means_nothing_is_refused_at_once(options, message):
    with pytest.raises(ValueError, match=message) as caught:
        RemoteReward(**{"urls": "http://127.0.0.1:9", **options})
    assert "secret" not in str(caught.value)


def test_trl_takes_it(server):
    columns = {"instruction": ["x"] * 4, "source": [sample.source for sample in synthetic_samples(4, size=TINY)]}
    columns["edited"] = [sample.edited for sample in synthetic_samples(4, size=TINY)]
    function = pickle.loads(pickle.dumps(RewardFunction(RemoteReward(server.url), offload=True)))
    assert function.__name__ == "rehearsal"
    assert function(["p"] * 4, ["c"] * 4, **columns) == [0, 1, 2, 3]
    assert asyncio.run(AsyncRewardFunction(function)(["p"] * 4, ["c"] * 4, **columns)) == [0, 1, 2, 3]


def test_verifiers_and_selectors_take_it(server):
    remote, (sample,) = RemoteReward(server.url), synthetic_samples(1, size=TINY)
    pictures = [image.edited for image in synthetic_samples(4, size=TINY)]
    assert Verifier(remote, at_least(2))([replace(sample, edited=image) for image in pictures]).answers == [
        *("reject", "reject", "accept", "accept")
    ]

    class Editor:
        id, nfe, batch_size = "numbers", 1, 4

        def edit(self, images, instructions, seeds, *, history=None):
            return [pictures[seed] for seed in seeds]

    journal = Journal()
    best = select(BestOfN(4), [sample], editor=Editor(), reward=remote, journal=journal)
    assert best[0].winner is not None
    assert best[0].winner.score.value == 3
    here = synthetic_reward()
    again = select(BestOfN(4), [sample], editor=Editor(), reward=here, journal=journal)[0].winner
    assert again is not None
    assert again.score.value == 3
    assert not here.engine.stats().queries  # the journal knows it to be the same reward
    with pytest.raises(ValueError, match=r"limit .* or seconds"):
        select(BestOfN(4), [sample], editor=Editor(), reward=remote, budget=Budget(judge_calls=8))


def test_a_judge_that_is_dead_fails_its_samples_with_the_reason():
    dead = synthetic_reward()
    dead.experts["preference"] = Dead()
    with serve_in_thread(ScoringService(dead)) as url:
        scores = RemoteReward(url, on_failures="none", chunk_size=2)(synthetic_samples(6, size=TINY))
    assert scores.count("failed") == 6
    assert "no such weights" in scores[0].reason


def test_an_answer_of_another_identity_than_the_first_is_no_score():
    def changed(request):
        return {**scored(request), "reward": "rehearsal@1#bbbbbbbb", "identity": "b" * 64}

    with answering((200, {}, scored), (200, {}, changed)) as (url, _):
        remote = RemoteReward(url, on_failures="none", outage_timeout_s=2)
        assert remote(synthetic_samples(1, size=TINY)).count("scored") == 1
        late = remote(synthetic_samples(1, size=TINY, start=5))
    assert late.count("failed") == 1
    assert "rehearsal@1#bbbbbbbb instead of rehearsal@1#aaaaaaaa" in late[0].reason


def test_a_server_that_was_restarted_with_other_weights_gives_no_score():
    with SyntheticServer(life=60) as before:
        remote = RemoteReward(before.url, on_failures="none", outage_timeout_s=20, chunk_size=2)
        assert remote(synthetic_samples(2, size=TINY)).count("scored") == 2
    first, port = remote.identity, int(before.url.rpartition(":")[2])
    other = synthetic_reward(seconds=0.001)  # its expert has another id, as one with other weights
    with serve_in_thread(ScoringService(other), ServerConfig(port=port)):
        scores = remote(synthetic_samples(2, size=TINY, start=4))
    assert (scores.count("failed"), scores[0].cause) == (2, "infrastructure")
    assert f"rehearsal@1#{first[:8]} and rehearsal@1#{other.identity[:8]}" in scores[0].reason


def test_a_client_keeps_its_identity_when_it_is_closed_and_when_it_is_pickled():
    first, other = synthetic_reward(), synthetic_reward(seconds=0.001)
    with serve_in_thread(ScoringService(first)) as url:
        remote = RemoteReward(url, on_failures="none", outage_timeout_s=20)
        assert remote(synthetic_samples(1, size=TINY)).count("scored") == 1
        pickled = pickle.dumps(remote)
        remote.close()
    port = int(url.rpartition(":")[2])
    with serve_in_thread(ScoringService(other), ServerConfig(port=port)):
        for client in (remote, pickle.loads(pickled)):
            with pytest.raises(RemoteError, match=f"identity={first.identity[:16]} is required"):
                client(synthetic_samples(1, size=TINY))
        assert RemoteReward(url)(synthetic_samples(1, size=TINY)).count("scored") == 1


def test_an_expert_that_the_reward_does_not_use_may_be_down():
    reward = synthetic_reward()
    reward.experts["segmenter"] = Nameless()
    with serve_in_thread(ScoringService(reward)) as url:
        assert RemoteReward(url)(synthetic_samples(1, size=TINY)).count("scored") == 1


class Nameless(SyntheticExpert):
    """Its server lists no model."""

    def __getattribute__(self, name):
        if name == "id":
            raise ExpertDown("no model listed")
        return super().__getattribute__(name)


class Dead(SyntheticExpert):
    def load(self):
        raise ExpertDown("no such weights")
