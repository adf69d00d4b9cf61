"""Endpoint: server errors become failures, not numbers or hangs; several servers are one, and keys show nowhere."""

from __future__ import annotations

import gzip
import logging
import re
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from email.utils import formatdate
from typing import Any

import pytest

from editcritic.reward import AnswerLog, build, load_experts, spec_of
from editcritic.reward.experts.judging import addresses, http_errors
from editcritic.reward.experts.judging.addresses import PrefixGroups
from editcritic.reward.experts.judging.http_endpoint import RetriesExhausted
from editcritic.reward.experts.judging.token_usage import TokenUsage
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.installation import install_command
from editcritic.reward.queries import ExpertDown, Failure, FreeText, Grade, Judge, Message, Reply, YesNo
from editcritic.reward.queries.specs import SpecError
from editcritic.reward.routing import by_preference
from editcritic.reward.trust import trusting

from ...fakes import picture, sample
from ..asking import assert_down
from ..http_server import Answer, completion, error, serving
from ..served_judges import image_parts, judge, question, scored, texts
from ..test_openai_judge import outcome

KEY = "sk-a-very-secret-key"


def slow_down(after: str) -> Answer:
    return error(429, "slow down", **{"Retry-After": after})


TROUBLES = {
    "429": error(429, "slow down"),
    "429 with seconds": slow_down("0.05"),
    "429 with a date": slow_down(formatdate(time.time() + 1, usegmt=True)),
    "429 with a date in the past": slow_down(formatdate(0, usegmt=True)),
    "429 with nonsense": slow_down("soon"),
    "429 with infinity": slow_down("inf"),
    "429 with an hour, of which the time of a request is waited": slow_down("3600"),
    "408": error(408, "too slow"),
    "500": error(500, "oops"),
    "503": error(503, "loading"),
    "429 sent as success": Answer({"error": {"message": "Provider returned error", "code": 429}}),
    "cut in the headers": Answer(completion(), cut=0),
    "cut in the body": Answer(completion(), cut=25),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_passing_trouble_is_tried_again(trouble):
    def once(_: Any, number: int) -> Answer:
        return Answer(completion()) if number else trouble

    assert outcome(once, requests=2, timeout_s=1.0) == Reply("Yes")


@pytest.mark.parametrize(
    ("trouble", "options", "says"),
    [
        (error(500, "oops"), {}, "3 attempts.*HTTP 500: oops"),
        (error(429, "slow"), {}, "3 attempts.*HTTP 429: slow"),
        (Answer(completion(), after_s=20.0), {"timeout_s": 1.0, "retries": 1}, "no complete response within 1 s"),
        (Answer(trickle=True), {"timeout_s": 1.0, "retries": 1}, "no complete response within 1 s"),
        (Answer(trickle=True, status=500), {"timeout_s": 1.0, "retries": 1}, "no complete response within 1 s"),
    ],
    ids=["500", "429", "silence", "a trickle", "a trickle with an error"],
)
def test_lasting_trouble_ends_after_the_last_try_and_no_request_outlasts_its_time(trouble, options, says):
    raised = outcome(lambda *_: trouble, requests=1 + options.get("retries", 2), **options)
    assert isinstance(raised, RetriesExhausted)
    assert re.search(says, str(raised))


@pytest.mark.parametrize("status", [200, 400, 500])
def test_a_body_without_end_is_not_swallowed_and_a_compressed_one_not_unpacked(status, monkeypatch):
    monkeypatch.setattr(http_errors, "MAX_RESPONSE_BYTES", 1 << 20)
    failure = outcome(Answer(flood=True, status=status), timeout_s=20.0)
    assert failure.reason.endswith("is longer than 1 MiB")
    packed = Answer(gzip.compress(bytes(64 << 20)), headers={"Content-Encoding": "gzip"})
    with serving(lambda *_: packed) as server:
        (failure,) = judge(server)([question()])
        assert isinstance(failure, Failure)
        assert failure.reason.endswith("is compressed, and was to be as it is: turn compression off on the server")
        assert server.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer({"data": [{"id": "qwen"}]}), "^qwen$"),
        (Answer({"data": [{"id": "a"}, {"id": "b" * 1000}]}), f"has a, {'b' * 100}: name one"),
        (Answer(trickle=True), "no complete response within 1 s"),
        (Answer(flood=True), "is longer than 1 MiB"),
        (Answer(b"", headers={"Content-Encoding": "gzip"}), "is compressed"),
        *((Answer(wrong), "does not list its models") for wrong in (b"no JSON", b"[" * 10**5, {"data": 1}, {})),
        (Answer({"data": [1]}), "does not list its models"),
        (Answer(status=500), "HTTP 500"),
    ],
)
def test_the_list_of_models_is_bounded_in_time_and_size(monkeypatch, answer, says):
    monkeypatch.setattr(http_errors, "MAX_RESPONSE_BYTES", 1 << 20)
    with serving(lambda *_: answer) as server:
        try:
            said = OpenAIJudge("", server.url, timeout_s=1.0 if answer.trickle else 60.0).served
        except ExpertDown as down:
            said = str(down)
    assert re.search(says, said)


def test_what_is_sent_counts_per_attempt_also_if_no_server_is_reached_and_retries_towards_the_budget():
    with serving(lambda *_: Answer(completion("7"))) as server:
        expert = judge(server, retries=2)
        expert([question(Grade(), 0, picture(1))])
        before = expert.usage()
        server.close()
        with pytest.raises(RetriesExhausted, match="ConnectionRefusedError"):
            expert([question(Grade(), 0, picture(1))])
    counts = expert.usage()
    assert all(counts[name] == 4 * before[name] > 0 for name in ("requests", "images_sent", "bytes_sent"))
    raised = outcome(lambda *_: error(500, "oops"), requests=2, max_requests=2, retries=5)
    assert isinstance(raised, ExpertDown)
    assert "request budget of 2 requests is spent" in str(raised)
    assert OpenAIJudge("m", "http://h/v1", timeout_s=10, retries=2).deadline_s >= 2 * (3 * 10 + 2 * 10)


DOWN = {
    "name the variable with its key in api_key_env": error(401, "bad key"),
    "refuses access": error(403, "not yours"),
    "red \\x1b[31m\\nsecond line \\ud800 ": error(401, "red \x1b[31m\nsecond line \ud800 "),
    "check base_url and the model's name": error(404, "no model m"),
    "has no quota left": error(402, "no credit"),
    "no quota left": error(429, "no credit", "insufficient_quota"),
    "quota left": Answer({"error": {"message": "no", "type": "exceeded_current_quota_error"}}, 429),
    "has moved": Answer(b"", 308, {"Location": "http://127.0.0.1:9/"}),
}
REJECTED = {
    "policy": error(400, "Your request was rejected", "content_policy_violation"),
    "moderation": error(403, "Your input was flagged by moderation"),
    "max_tokens is too large": error(400, "max_tokens is too large: 100000"),
    "unexpected field": error(422, "unexpected field"),
    "red \\x1b[31m\\nsecond line \\ud800": error(400, "red \x1b[31m\nsecond line \ud800"),
    "no": Answer(b"no", 400),
    "wrong": Answer({"detail": [{"msg": "wrong"}]}, 422),
    "just text": Answer({"error": "just text"}, 409),
    "HTTP 400): no such field": Answer(
        [{"error": {"code": 400, "message": "no such field", "status": "INVALID"}}], 400
    ),
    'HTTP 400): upstream: {"message": ': Answer(
        {"error": {"message": "upstream", "metadata": {"raw": '{"message": "too dark"}'}}}, 400
    ),
}


@pytest.mark.parametrize("says", [*DOWN, *REJECTED])
def test_what_is_refused_is_not_asked_again_and_takes_the_expert_down_if_it_holds_for_every_request(says):
    refused = outcome(DOWN.get(says) or REJECTED[says])
    if says in DOWN:
        assert isinstance(refused, ExpertDown)
    else:
        assert isinstance(refused, Failure)
        assert refused.raw
    reason = str(refused) if says in DOWN else refused.reason
    assert says in reason
    assert reason.isprintable()


def test_one_judge_serves_one_event_loop_after_another():
    with serving(lambda *_: Answer(completion("7"))) as server:
        expert = judge(server)
        for n in range(3):
            ((score,),) = scored(expert, [sample(instruction=f"make it {n}")])
            assert score.value == 0.7
            assert texts(expert([question(Grade(), n)])) == ["7"]
        assert expert.usage()["requests"] == 6
        end = time.monotonic() + 10
        while server.connections and time.monotonic() < end:
            time.sleep(0.01)
        assert server.connections == 0  # no connection is left to a closed loop


def test_a_key_goes_to_its_server_and_shows_nowhere(monkeypatch, caplog):
    monkeypatch.setenv("THEIR_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    with serving(lambda *_: error(401, f"Incorrect API key provided: {KEY}")) as server:
        expert = judge(server, api_key_env="THEIR_KEY")
        with pytest.raises(ExpertDown, match="check the key in THEIR_KEY") as raised:
            expert([question()])
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    shown = [str(raised.value), repr(raised.value), expert.id, repr(expert), str(spec_of(expert)), str(vars(expert))]
    answers = [error(400, f"what is {KEY}?"), Answer(completion(f"your key is {KEY}")), Answer(completion(refusal=KEY))]
    for answer in answers:
        with serving(lambda *_, answer=answer: answer) as server:
            (reply,) = judge(server, api_key_env="THEIR_KEY")([question(FreeText())])
        assert "***" in repr(reply)
        shown.append(repr(reply))
    assert not [text for text in [*shown, caplog.text] if KEY in text]
    with serving(lambda *_: Answer({"data": [{"id": KEY}]})) as server:
        assert OpenAIJudge("", server.url, api_key_env="THEIR_KEY").served == "***"
    monkeypatch.setenv("THEIR_KEY", "Yes")  # a placeholder, and a word of replies
    with serving(lambda *_: Answer(completion())) as server:
        assert judge(server, api_key_env="THEIR_KEY")([question()]) == [Reply("Yes")]


def test_no_key_is_sent_where_none_was_named_and_a_missing_key_or_package_says_which(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving(lambda *_: Answer(completion())) as server:
        assert judge(server)([question()]) == [Reply("Yes")]
        assert not [value for value in server.requests[0].headers.values() if KEY in value]
        assert "authorization" not in server.requests[0].headers
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert_down(OpenAIJudge("gpt"), "environment variable OPENAI_API_KEY")
    monkeypatch.setitem(sys.modules, "openai", None)
    assert_down(
        OpenAIJudge("m", "http://127.0.0.1:9/v1"), re.escape(f"openai is not installed: {install_command('judge')}")
    )


@pytest.fixture(autouse=True)
def short_backoff(monkeypatch):
    monkeypatch.setattr(addresses, "FIRST_BACKOFF_S", 0.05)


class Servers:
    """Loopback servers. broken: numbers of those that answer with HTTP 500. models: what each of them lists. delay_s,
    answer_s: before a list of models, and before an answer."""

    def __init__(self, number: int, models: str = "") -> None:
        self.broken: set[int] = set()
        self.delay_s, self.answer_s = 0.0, 0.005
        self.models = list(models)
        self._stack = ExitStack()
        self.all = [self._stack.enter_context(serving(self._rule(index))) for index in range(number)]
        self.urls = [server.url for server in self.all]

    def _rule(self, index: int) -> Any:
        def answer(request: Any, number: int) -> Answer:
            is_list = request.path.endswith("/models")
            if index in self.broken:
                return replace(error(500, "out of order"), after_s=self.delay_s if is_list else 0.0)
            if is_list:
                return Answer({"data": [{"id": self.models[index]}]}, after_s=self.delay_s)
            return Answer(completion("7"), after_s=self.answer_s)

        return answer

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def judge(self, model: str = "m", **options: Any) -> OpenAIJudge:
        return OpenAIJudge(model, self.urls, **{"timeout_s": 5.0, "retries": 2, **options})

    def requests(self, index: int, path: str = "/chat/completions") -> int:
        return sum(request.path.endswith(path) for request in self.all[index].requests)


def about(source: int, number: int = 0) -> Judge:
    return Judge((Message((picture(source), picture(100 + source), f"question {number}")),), Grade())


def twenty(number: int = 0) -> list[Judge]:
    return [about(source, number) for source in range(20)]


def test_questions_about_one_source_meet_at_one_server_with_those_about_its_edits_alone():
    def first_picture(request: Any) -> str:
        return str(image_parts(request.body)[0]["image_url"]["url"])

    with Servers(3) as servers:
        queries = [about(source, number) for source in range(24) for number in range(6)]
        assert texts(servers.judge()(queries)) == ["7"] * len(queries)
        seen = [Counter(map(first_picture, server.requests)) for server in servers.all]
    assert sum(map(len, seen)) == 24  # no source is at two servers
    assert {count for counts in seen for count in counts.values()} == {6}
    assert all(seen)
    source, edit, third, fourth = (picture(n) for n in range(1, 5))

    def of(groups: PrefixGroups, *content: Any) -> str:
        return groups.of(Judge((Message((*content, "?")),), YesNo()))

    assert of(PrefixGroups(), edit) == edit.digest  # before it is known what it is an edit of
    groups = PrefixGroups()
    assert of(groups, source, edit) == of(groups, edit) == of(groups, source, edit) == source.digest
    assert of(groups, third) == third.digest
    assert of(groups, fourth, edit) == fourth.digest  # the same edit of another source
    assert of(groups) == Judge((Message(("?",)),), YesNo()).digest


def test_more_questions_about_one_source_than_a_share_go_to_the_other_server_too():
    with Servers(2) as servers:
        servers.judge(concurrency=32)([about(1, number) for number in range(96)])
        counts = sorted(len(server.requests) for server in servers.all)
    assert counts[0] > 0
    assert sum(counts) == 96


def test_answers_stay_known_when_a_server_is_added(tmp_path):
    edits = [sample(f"s{number}", instruction=f"make it {number}") for number in range(8)]
    with Servers(2) as servers:
        for urls in (servers.urls[0], servers.urls):
            with AnswerLog(tmp_path / "log") as log:
                (scores,) = scored(OpenAIJudge("m", urls), edits, log=log)
                assert list(scores.values) == [0.7] * 8
        assert [len(server.requests) for server in servers.all] == [8, 0]


def test_a_server_that_fails_in_mid_run_loses_no_question_and_is_used_again_when_it_answers():
    with Servers(2) as servers:
        expert = servers.judge()
        expert(twenty())
        homes = [len(server.requests) for server in servers.all]
        assert min(homes) > 0
        servers.broken = {0}
        assert texts(expert(twenty(1))) == ["7"] * 20
        failed = len(servers.all[0].requests) - homes[0]
        assert 1 <= failed <= homes[0]
        assert len(servers.all[1].requests) == homes[1] + 20
        assert expert.usage()["retries"] == failed
        servers.broken = set()
        time.sleep(0.5)  # longer than a server is left in this test
        expert(twenty(2))
        assert len(servers.all[0].requests) > homes[0] + failed
        homes = [len(server.requests) for server in servers.all]
        servers.all[0].close()  # gone altogether
        assert texts(expert(twenty(3))) == ["7"] * 20
        assert [len(server.requests) for server in servers.all] == [homes[0], homes[1] + 20]


def test_a_busy_server_is_left_for_the_other_at_once_and_if_all_fail_the_message_names_all():
    with serving(lambda *_: slow_down("30")) as first, serving(lambda *_: Answer(completion("7"))) as second:
        expert = OpenAIJudge("m", [first.url, second.url], timeout_s=60.0, retries=1)
        assert texts(expert(twenty())) == ["7"] * 20
        assert len(second.requests) == 20
        assert 1 <= len(first.requests) < 20
    with Servers(2) as servers:
        servers.broken = {0, 1}
        with pytest.raises(RetriesExhausted) as raised:
            servers.judge(retries=1)([about(1)])
        for server in servers.all:
            assert f"127.0.0.1:{server.port}" in str(raised.value)
            assert len(server.requests) == 1


def test_servers_with_different_models_are_no_judge_also_where_one_comes_back_with_another():
    with Servers(2, "ab") as servers:
        with pytest.raises(ExpertDown, match=r"serves a and .* b: one judge is one model") as raised:
            _ = servers.judge("").id
        assert all(f"127.0.0.1:{server.port}" in str(raised.value) for server in servers.all)
    with Servers(2, "aa") as servers:
        expert = servers.judge("")
        expert(twenty())
        servers.broken = {1}
        expert(twenty(1))
        number = servers.requests(1)
        servers.broken, servers.models[1] = set(), "b"
        time.sleep(0.5)  # longer than a server is left in this test
        with pytest.raises(ExpertDown, match=r"serves a and .* b: one judge is one model"):
            expert(twenty(2))
        assert servers.requests(1) == number


@pytest.mark.parametrize("model", ["a", "b", ""])
def test_a_server_that_was_away_at_first_is_asked_once_for_its_model_which_is_no_request_of_the_counts(model):
    """model: of the server when it is back; none where it stays away."""
    with Servers(2, f"a{model or 'a'}") as servers:
        servers.broken = {1}
        expert = servers.judge("", max_requests=20)
        assert expert.served == "a"
        servers.broken = set() if model else {1}
        servers.delay_s = 0.2  # of lists: all questions of the first burst wait for one
        if model == "b":
            with pytest.raises(ExpertDown, match="one judge is one model"):
                expert(twenty())
            assert not servers.requests(1)
            return
        assert texts(expert(twenty())) == ["7"] * 20
        assert (expert.usage()["requests"], expert.usage()["retries"]) == (20, 0)
        lists, chats = servers.requests(1, "/models"), [servers.requests(index) for index in (0, 1)]
        if model:
            assert lists == 2  # with the one at first
            assert min(chats) > 1
        else:
            assert chats == [20, 0]
            assert 2 <= lists <= 5  # at first, of the burst, and of those that try it after a backoff


def test_one_attempt_has_one_time_for_the_list_of_models_and_the_answer():
    with Servers(2, "aa") as servers:
        servers.broken = {1}
        expert = servers.judge("", timeout_s=1.0, retries=0)
        assert expert.served == "a"
        servers.broken = set()
        servers.delay_s = servers.answer_s = 0.7
        pool = expert.endpoint.addresses.all
        query = next(one for one in twenty() if by_preference(pool, PrefixGroups().of(one))[0] is pool[1])
        with pytest.raises(RetriesExhausted, match="no complete response within 1 s"):
            expert([query])
        assert (servers.requests(1, "/models"), servers.requests(1)) == (2, 1)  # the list came in time


def test_several_addresses_are_written_in_a_line_and_in_a_table(tmp_path):
    urls = ["http://127.0.0.1:9/v1", "http://127.0.0.1:10/v1"]
    table = tmp_path / "experts.toml"
    table.write_text(f'[judge]\nuse = "openai"\nmodel = "m"\nbase_url = {urls!r}\n')
    texts = [f"judge=openai:{','.join(urls)}?model=m&retries=1", str(table)]
    with pytest.raises(SpecError, match=r"names the address http://127.0.0.1:10/v1"), trusting(urls[0]):
        load_experts(str(table))
    with trusting(*urls):
        experts = [load_experts(text)["judge"] for text in texts]
    systemone: Any = build(f"systemone?model=m&base_url={','.join(urls)}", "editcritic.experts")
    for expert in (*experts, *(build(spec_of(one), "editcritic.experts") for one in experts), systemone):
        assert expert.endpoint.addresses.names == "127.0.0.1:9/v1, 127.0.0.1:10/v1"
    assert experts[0].id == OpenAIJudge("m", urls[0]).id


def counted(*usages: Any, prices: tuple[float | None, ...] = (2.0, None, 10.0)) -> dict[str, float]:
    usage = TokenUsage(*prices)
    for one in usages:
        usage.add_response(one)
    return usage.counters()


def reported(prompt: Any = 1000, completion: Any = 10, **details: Any) -> dict[str, Any]:
    cached, reasoning = details.get("cached"), details.get("reasoning")
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": None if cached is None else {"cached_tokens": cached},
        "completion_tokens_details": None if reasoning is None else {"reasoning_tokens": reasoning},
    }


def test_cached_tokens_have_their_own_price_or_that_of_the_others():
    usages = reported(cached=600), reported(cached=0, reasoning=7)
    for price, usd in ((0.5, 1400 * 2 + 600 * 0.5 + 20 * 10), (None, 2000 * 2 + 20 * 10), (0.0, 1400 * 2 + 20 * 10)):
        counts = counted(*usages, prices=(2.0, price, 10.0))
        assert (counts["prompt_tokens"], counts["cached_tokens"], counts["reasoning_tokens"]) == (2000, 600, 7)
        assert counts["usd"] == pytest.approx(usd / 1e6)


def test_what_no_server_reported_is_no_counter_and_other_names_of_the_same_are_read():
    counts = counted(reported())
    assert not {"cached_tokens", "reasoning_tokens"} & counts.keys()
    assert counts["requests_without_usage"] == 0
    counts = counted({"input_tokens": 5, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 4}})
    assert (counts["prompt_tokens"], counts["cached_tokens"], counts["completion_tokens"]) == (5, 4, 3)


def test_a_response_without_tokens_makes_the_cost_unknown_and_more_cached_tokens_than_there_are_are_none():
    for usage in list[Any]([None, [], "many", {}, reported(completion=None), reported(prompt=2**40)]):
        counts = counted(reported(), usage, reported())
        assert counts["requests_without_usage"] == 1
        assert counts["prompt_tokens"] >= 2000
        assert "usd" not in counts
    for cached in list[Any]([1001, -1, True, "600", {}]):
        counts = counted(reported(cached=cached))
        assert "cached_tokens" not in counts
        assert counts["usd"] == pytest.approx((1000 * 2 + 10 * 10) / 1e6)
    for prices in ((-1.0, None, 1.0), (1.0, None, float("nan")), (1.0, float("inf"), 1.0), (None, 1.0, 2.0)):
        with pytest.raises(ValueError, match="is a price of 0 or more" if prices[0] else "needs usd_per_million_in"):
            TokenUsage(*prices)
