"""One judge behind several addresses: each source has its server, and a server that fails loses no question."""

import re
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from editcritic.reward import AnswerLog, Card, EditSample, Program, Reward, Score, ask, build, load_experts, spec_of
from editcritic.reward.experts.judging import addresses
from editcritic.reward.experts.judging import http_endpoint as endpoints
from editcritic.reward.experts.judging.addresses import PrefixGroups
from editcritic.reward.experts.judging.http_endpoint import RetriesExhausted
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.queries import ExpertDown, Grade, Judge, Message, YesNo
from editcritic.reward.queries.specs import SpecError
from editcritic.reward.retry import RetryPolicy
from editcritic.reward.routing import by_preference
from editcritic.reward.trust import trusting
from tests.reward.experts.http_server import Answer, Loopback, completion, error, serving
from tests.reward.fakes import picture, sample


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(endpoints, "BACKOFF", RetryPolicy(first_pause_s=0.01))
    monkeypatch.setattr(addresses, "FIRST_BACKOFF_S", 0.05)


def texts(replies: Any) -> list[str]:
    return [reply.text for reply in replies]


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

    def __enter__(self) -> "Servers":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def chats(self, server: Loopback) -> list[Any]:
        return [request for request in server.requests if request.path.endswith("/chat/completions")]


def about(source: int, number: int = 0) -> Judge:
    return Judge((Message((picture(source), picture(100 + source), f"question {number}")),), Grade())


def judge(servers: Servers, model: str = "m", **options: Any) -> OpenAIJudge:
    return OpenAIJudge(model, servers.urls, **{"timeout_s": 5.0, "retries": 2, **options})


def test_questions_about_one_source_meet_at_one_server():
    with Servers(3) as servers:
        queries = [about(source, number) for source in range(24) for number in range(6)]
        replies = judge(servers)(queries)
        assert texts(replies) == ["7"] * len(queries)
        seen = [Counter(_first_picture(request) for request in server.requests) for server in servers.all]
    assert sum(map(len, seen)) == 24  # no source is at two servers
    assert {count for counts in seen for count in counts.values()} == {6}
    assert all(seen)


def test_questions_about_an_edit_alone_meet_those_about_it_and_its_source():
    groups = PrefixGroups()
    source, edit = picture(1), picture(2)
    both, alone, other, words = (
        Judge((Message(content),), YesNo()) for content in ((source, edit, "?"), (edit, "?"), (picture(3), "?"), ("?",))
    )
    assert groups.of(alone) == edit.digest  # before it is known what it is an edit of
    groups = PrefixGroups()
    assert groups.of(both) == groups.of(alone) == groups.of(both) == source.digest
    assert groups.of(other) == picture(3).digest
    collapsed = Judge((Message((picture(4), edit, "?")),), YesNo())  # the same edit of another source
    assert groups.of(collapsed) == picture(4).digest
    assert groups.of(words) == words.digest


def _first_picture(request: Any) -> str:
    return str(request.body["messages"][0]["content"][0]["image_url"]["url"])


def test_more_questions_about_one_source_than_a_share_go_to_the_other_server_too():
    with Servers(2) as servers:
        judge(servers, concurrency=32)([about(1, number) for number in range(96)])
        counts = sorted(len(server.requests) for server in servers.all)
    assert counts[0] > 0
    assert sum(counts) == 96


def test_a_server_that_fails_in_mid_run_loses_no_question_and_is_used_again_when_it_answers():
    with Servers(2) as servers:
        expert = judge(servers)
        expert([about(source) for source in range(20)])
        homes = [len(server.requests) for server in servers.all]
        assert min(homes) > 0
        servers.broken = {0}
        replies = expert([about(source, 1) for source in range(20)])
        assert texts(replies) == ["7"] * 20
        failed = len(servers.all[0].requests) - homes[0]
        assert 1 <= failed <= homes[0]
        assert len(servers.all[1].requests) == homes[1] + 20
        assert expert.usage()["retries"] == failed
        servers.broken = set()
        time.sleep(0.5)  # longer than a server is left in this test
        expert([about(source, 2) for source in range(20)])
        assert len(servers.all[0].requests) > homes[0] + failed


def test_a_server_that_is_gone_loses_no_question():
    with Servers(2) as servers:
        expert = judge(servers)
        expert([about(source) for source in range(20)])
        homes = [len(server.requests) for server in servers.all]
        servers.all[0].close()
        assert texts(expert([about(source, 1) for source in range(20)])) == ["7"] * 20
        assert [len(server.requests) for server in servers.all] == [homes[0], homes[1] + 20]


def test_a_busy_server_is_left_for_the_other_at_once():
    busy = error(429, "slow down", **{"Retry-After": "30"})
    with serving(lambda *_: busy) as first, serving(lambda *_: Answer(completion("7"))) as second:
        expert = OpenAIJudge("m", [first.url, second.url], timeout_s=60.0, retries=1)
        replies = expert([about(source) for source in range(20)])
        assert texts(replies) == ["7"] * 20
        assert len(second.requests) == 20
        assert 1 <= len(first.requests) < 20


def test_if_all_fail_the_message_names_all():
    with Servers(2) as servers:
        servers.broken = {0, 1}
        with pytest.raises(RetriesExhausted) as raised:
            judge(servers, retries=1)([about(1)])
        for server in servers.all:
            assert f"127.0.0.1:{server.port}" in str(raised.value)
            assert len(server.requests) == 1


def test_servers_with_different_models_are_no_judge():
    with Servers(2, "ab") as servers:
        with pytest.raises(ExpertDown, match="one judge is one model") as raised:
            _ = judge(servers, "").id
        for server, model in zip(servers.all, "ab", strict=True):
            assert f"127.0.0.1:{server.port}" in str(raised.value)
            assert re.search(rf"\b{model}\b", str(raised.value))


@pytest.mark.parametrize(("model", "is_used"), [("a", True), ("b", False)])
def test_a_server_that_was_away_at_first_is_asked_for_its_model_before_it_is_used(model, is_used):
    with Servers(2, "a" + model) as servers:
        servers.broken = {1}
        expert = judge(servers, "")
        assert expert.served == "a"
        servers.broken = set()
        queries = [about(source) for source in range(20)]
        if is_used:
            assert len(expert(queries)) == 20
            assert all(servers.chats(server) for server in servers.all)
        else:
            with pytest.raises(ExpertDown, match="one judge is one model"):
                expert(queries)
            assert not servers.chats(servers.all[1])


def test_asking_for_the_model_is_no_request_of_the_counts_and_is_done_once_for_all_that_wait():
    with Servers(2, "aa") as servers:
        servers.broken = {1}
        expert = judge(servers, "", max_requests=20)
        assert expert.served == "a"
        servers.broken = set()
        servers.delay_s = 0.2  # of lists: all questions of the first burst wait for one
        assert texts(expert([about(source) for source in range(20)])) == ["7"] * 20
        assert _lists(servers, 1) == 2  # with the one at first
        assert len(servers.chats(servers.all[1])) > 1
        assert (expert.usage()["requests"], expert.usage()["retries"]) == (20, 0)


def test_a_failed_list_of_models_fails_those_that_wait_for_it_and_costs_no_request():
    with Servers(2, "aa") as servers:
        servers.broken = {1}
        servers.delay_s = 0.2
        expert = judge(servers, "", max_requests=20)
        assert expert.served == "a"
        assert texts(expert([about(source) for source in range(20)])) == ["7"] * 20
        counts = expert.usage()
        assert (counts["requests"], counts["retries"], len(servers.chats(servers.all[0]))) == (20, 0, 20)
        assert not servers.chats(servers.all[1])
        assert 2 <= _lists(servers, 1) <= 5  # at first, of the burst, and of those that try it after a backoff


def test_one_attempt_has_one_time_for_the_list_of_models_and_the_answer():
    with Servers(2, "aa") as servers:
        servers.broken = {1}
        expert = judge(servers, "", timeout_s=1.0, retries=0)
        assert expert.served == "a"
        servers.broken = set()
        servers.delay_s = servers.answer_s = 0.7
        pool = expert.endpoint.addresses.all
        queries = [about(source) for source in range(20)]
        query = next(query for query in queries if by_preference(pool, PrefixGroups().of(query))[0] is pool[1])
        with pytest.raises(RetriesExhausted, match="no complete response within 1 s"):
            expert([query])
        assert (_lists(servers, 1), len(servers.chats(servers.all[1]))) == (2, 1)  # the list came in time


def _lists(servers: "Servers", index: int) -> int:
    return sum(request.path.endswith("/models") for request in servers.all[index].requests)


def test_a_server_that_comes_back_with_another_model_is_not_used():
    with Servers(2, "aa") as servers:
        expert = judge(servers, "")
        expert([about(source) for source in range(20)])
        servers.broken = {1}
        expert([about(source, 1) for source in range(20)])
        number = len(servers.chats(servers.all[1]))
        servers.broken, servers.models[1] = set(), "b"
        time.sleep(0.5)  # longer than a server is left in this test
        with pytest.raises(ExpertDown, match=r"serves a and .* b: one judge is one model"):
            expert([about(source, 2) for source in range(20)])
        assert len(servers.chats(servers.all[1])) == number


class Asking:
    """Asks the judge about the source and the edit."""

    card = Card("asking", 1, "asks a judge", roles=("judge",))

    def __call__(self, sample: EditSample) -> Program[Score]:
        reply = yield from ask(Judge((Message((sample.source, sample.edited, sample.instruction)),), Grade()))
        return Score.of(int(reply.text) / 10, evidence=())


def test_answers_stay_known_when_a_server_is_added(tmp_path):
    edits = [sample(f"s{number}", instruction=f"make it {number}") for number in range(8)]
    with Servers(2) as servers:
        for urls in (servers.urls[0], servers.urls):
            with AnswerLog(tmp_path / "log") as log:
                reward = Reward(Asking(), {"judge": OpenAIJudge("m", urls)}, log=log)
                assert list(reward(edits).values) == [0.7] * 8
                reward.engine.close()
        assert [len(server.requests) for server in servers.all] == [8, 0]


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
