"""OpenAIJudge: parses valid replies; server errors become failures, not numbers or hangs."""

import base64
import gzip
import io
import json
import logging
import re
import sys
import time
from email.utils import formatdate
from math import log
from typing import Any

import pytest
from rich.console import Console

from editcritic.benchmarks.run.scoring_run import profile_table
from editcritic.reward import AnswerLog, Card, EditSample, Image, Program, Reward, Score, ask, build, spec_of
from editcritic.reward.experts.judging import http_endpoint as endpoints
from editcritic.reward.experts.judging import http_errors
from editcritic.reward.experts.judging.http_endpoint import RetriesExhausted
from editcritic.reward.experts.judging.sent_images import after_jpeg
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.queries import (
    ExpertDown,
    Failure,
    FreeText,
    Grade,
    Json,
    Judge,
    Levels,
    Message,
    Reply,
    Tool,
    ToolCall,
    YesNo,
)
from editcritic.reward.retry import RetryPolicy
from tests.reward.experts.http_server import Answer, Loopback, Rule, completion, error, serving, with_logprobs
from tests.reward.fakes import picture, sample

KEY = "sk-a-very-secret-key"
SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(endpoints, "BACKOFF", RetryPolicy(first_pause_s=0.01))


def question(form: Any = None, draw: int = 0, *parts: Any) -> Judge:
    return Judge((Message(parts or ("Is it good?", picture(1))),), form or YesNo(), draw=draw)


def judge(server: Loopback, **options: Any) -> OpenAIJudge:
    return OpenAIJudge("m", server.url, **{"timeout_s": 5.0, "retries": 2, **options})


def outcome(rule: Rule | Any, form: Any = None, requests: int = 1, **options: Any) -> Any:
    """A judge's outcome for one query, or its exception, after `requests` requests. rule: or a constant response."""
    always: Rule = rule if callable(rule) else lambda *_: rule if isinstance(rule, Answer) else Answer(rule)
    with serving(always) as server:
        expert = judge(server, **options)
        actual: Any
        try:
            (actual,) = expert([question(form)])
        except (ExpertDown, RetriesExhausted) as raised:
            actual = raised
        assert len(server.requests) == requests
        assert expert.usage()["requests"] == requests
        return actual


def texts(replies: Any) -> list[str]:
    return [reply.text for reply in replies]


# -- requests ----------------------------------------------------------------------------------------------------------


def body_of(query: Judge, **options: Any) -> dict[str, Any]:
    with serving(lambda *_: Answer(completion())) as server:
        judge(server, **options)([query])
        return dict(server.requests[0].body)


@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_pictures_stand_where_the_words_put_them(kind):
    before, after = picture(1, 40, 30), picture(2, 30, 50)
    body = body_of(question(None, 0, "before ", before, " after ", after, " good?"), image_format=kind)
    (message,) = body["messages"]
    assert [part.get("text") for part in message["content"]] == ["before ", None, " after ", None, " good?"]
    for part, original in ((message["content"][1], before), (message["content"][3], after)):
        head, data = part["image_url"]["url"].split(",")
        assert head == f"data:image/{kind};base64"
        shown = Image.of(base64.b64decode(data))
        assert shown.size == original.size
        assert (shown == original) == (kind == "png")


def test_jpeg_is_that_of_pil_whose_default_quality_is_75():
    shown = picture(1, 37, 53)
    body = body_of(question(None, 0, shown, " good?"), image_format="jpeg", jpeg_quality=75)
    data = base64.b64decode(body["messages"][0]["content"][0]["image_url"]["url"].split(",")[1])
    expected = io.BytesIO()
    shown.pil().save(expected, "JPEG")
    assert data == expected.getvalue()
    assert after_jpeg(shown, 75) == Image.of(data)
    assert after_jpeg(shown, None) is shown


def test_a_picture_is_encoded_once():
    with serving(lambda *_: Answer(completion())) as server:
        expert = judge(server)
        expert([question(draw=draw) for draw in range(5)] + [question(None, 0, picture(1), picture(2), "same?")])
        assert expert.image_cache.encoded == 2
        assert expert.usage()["images_sent"] == 7


def test_thirty_two_edits_of_a_source_at_once_are_encoded_once_each_and_the_source_once():
    with serving(lambda *_: Answer(completion())) as server:
        expert = judge(server, concurrency=32)
        expert([question(None, draw, picture(1, 64, 64), picture(2 + n), "?") for n in range(32) for draw in range(2)])
        assert expert.image_cache.encoded == 33
        assert expert.usage()["images_sent"] == 128


def test_words_alone_are_sent_as_a_text():
    assert body_of(question(None, 0, "one ", "two"))["messages"] == [{"role": "user", "content": "one two"}]


def test_forms_ask_for_what_they_need():
    assert body_of(question(YesNo()))["temperature"] == 0
    assert body_of(question(YesNo()))["top_logprobs"] == 20
    assert "seed" not in body_of(question(YesNo()))
    assert "logprobs" not in body_of(question(YesNo()), logprobs=False)
    free = body_of(question(FreeText(50, 0.7)), thinking_tokens=100)
    assert (free["max_tokens"], free["temperature"]) == (150, 0.7)
    assert "logprobs" not in free
    for form in (YesNo(), FreeText(50)):
        assert body_of(question(form), max_tokens=1024)["max_tokens"] == 1024
    assert body_of(question(YesNo()), max_tokens=1024, thinking_tokens=100)["max_tokens"] == 1124
    response_format = body_of(question(Json.from_schema(SCHEMA)))["response_format"]
    assert response_format["json_schema"] == {"name": "answer", "strict": True, "schema": SCHEMA}
    assert "response_format" not in body_of(question(Json.from_schema(SCHEMA)), json_mode="text")


def test_draws_have_seeds_of_their_own():
    seeds = {body_of(question(Grade(temperature=1.0), draw))["seed"] for draw in (0, 1, 2, 0)}
    assert len(seeds) == 3


def test_extra_fields_win_and_none_takes_one_out():
    body = body_of(question(), extra={"temperature": None, "top_logprobs": 5, "top_k": 1})
    assert "temperature" not in body
    assert (body["top_logprobs"], body["top_k"]) == (5, 1)


def test_tools_are_offered_called_and_answered_with_pictures_after_all_answers():
    tool = Tool("zoom", "Look closer.", json.dumps({"type": "object"}))
    calls = (ToolCall("zoom", "{}", "c1"), ToolCall("zoom", '{"x": 1}', "c2"))
    turns = (
        Message(("Be strict.",), "system"),
        Message((picture(1), "good?")),
        Message((), "assistant", calls),
        Message(("near: ", picture(2)), "tool", tool_call_id="c1"),
        Message(("nothing",), "tool", tool_call_id="c2"),
    )
    body = body_of(Judge(turns, FreeText(tools=(tool,))))
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "zoom", "description": "Look closer.", "parameters": {"type": "object"}},
        }
    ]
    messages = body["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert messages[2]["tool_calls"][1] == {
        "id": "c2",
        "type": "function",
        "function": {"name": "zoom", "arguments": '{"x": 1}'},
    }
    assert [message["content"] for message in messages[3:5]] == ["near: [picture 1]", "nothing"]
    assert [message["tool_call_id"] for message in messages[3:5]] == ["c1", "c2"]
    assert messages[5]["content"][0] == {"type": "text", "text": "[picture 1]"}
    assert messages[5]["content"][1]["type"] == "image_url"


# -- replies -----------------------------------------------------------------------------------------------------------


def test_text_alone_is_a_reply_without_probabilities():
    assert outcome(completion("Yes.")) == Reply("Yes.")


def test_logprobs_are_probabilities_of_the_options():
    response = with_logprobs(completion("7"), {"7": log(0.6), "8": log(0.2), " 7": log(0.1)})
    reply = outcome(response, Grade())
    assert reply.text == "7"
    assert reply.probabilities["7"] == pytest.approx(0.7 / 0.9)
    assert reply.option_mass == pytest.approx(0.9)
    level = outcome(
        with_logprobs(completion("Good"), {"Good": log(0.5), "bad": log(0.5)}), Levels(("bad", "good"), (0, 1))
    )
    assert level.probabilities == pytest.approx({"bad": 0.5, "good": 0.5})


def test_probabilities_that_cannot_be_known_are_left_out_or_fail_as_was_wanted():
    response = with_logprobs(completion("1"), {"1": log(0.6), "7": log(0.4)})
    assert outcome(response, Grade()) == Reply("1")
    assert isinstance(outcome(response, Grade(), 2, logprobs=True), Failure)
    assert isinstance(outcome(completion("1"), Grade(), 2, logprobs=True), Failure)


def test_tool_calls_are_a_reply():
    call = {"id": "c1", "type": "function", "function": {"name": "zoom", "arguments": "{not json"}}
    response = completion(None, "tool_calls", tool_calls=[call])
    assert outcome(response, FreeText(tools=(Tool("zoom", "", "{}"),))) == Reply(
        "", tool_calls=(ToolCall("zoom", "{not json", "c1"),)
    )
    assert isinstance(outcome(response, requests=2), Failure)


def test_json_is_validated_whoever_promised_it():
    assert outcome(completion('{"score": 3}'), Json.from_schema(SCHEMA)).text == '{"score": 3}'
    failure = outcome(completion('{"score": "high"}'), Json.from_schema(SCHEMA), 2)
    assert isinstance(failure, Failure)
    assert failure.raw == '{"score": "high"}'


NOT_ANSWERS = {
    "refusal": completion(None, refusal="I cannot help with that."),
    "content filter": completion("Yes", "content_filter"),
    "another content filter": completion("Yes", "sensitive"),
    "broken off": completion("Yes", "error"),
    "stopped by the server": completion("Yes", "abort"),
    "error of the choice": {
        "choices": [{"message": {"content": "Yes"}, "finish_reason": "stop", "error": {"code": 502, "message": "gone"}}]
    },
    "no choices": {"choices": []},
    "no content": completion(None),
    "empty content": completion(""),
    "only thoughts": completion("", "length", reasoning_content="hm"),
    "cut off in thought": completion("<think>let me see", "length"),
    "cut off in thought that mentions its end": completion("<think>I write </think> Yes", "model_length"),
    "cut off": completion("The picture shows", "length"),
    "unreadable": completion("It depends."),
    "error with status 200": {"error": {"message": "overloaded"}},
    "another schema": {"answer": "Yes"},
    "choices of another kind": {"choices": "Yes"},
    "a message that is text": {"choices": [{"message": "Yes"}]},
    "content of another kind": completion(7),  # type: ignore[arg-type]
    "a list": ["Yes"],
    "truncated JSON": b'{"choices": [{"message": {"content": "Ye',
    "no JSON": b"<html>Bad gateway</html>",
    "bytes": b"\xff\xfe\x00Yes",
    "nothing": b"",
    "deep nesting": b"[" * 200_000,
    "NaN for a logprob": with_logprobs(completion("Yes"), {"Yes": float("nan"), "No": -1.0}),
    "infinity for a logprob": with_logprobs(completion("Yes"), {"Yes": float("inf"), "No": -1.0}),
    "minus infinity for a logprob": with_logprobs(completion("Yes"), {"Yes": -0.1, "No": float("-inf")}),
    "a positive logprob": with_logprobs(completion("Yes"), {"Yes": 3.0, "No": -1.0}),
    "text for a logprob": with_logprobs(completion("Yes"), {"Yes": "high", "No": -1.0}),  # type: ignore[dict-item]
}


@pytest.mark.parametrize("response", NOT_ANSWERS.values(), ids=NOT_ANSWERS)
def test_what_is_no_answer_is_asked_for_once_more_and_fails_with_what_was_said(response):
    no_json_object = not isinstance(response, dict) or bool(
        {"NaN", "Infinity"} & set(re.findall(r"\w+", json.dumps(response)))
    )
    failure = outcome(Answer(response), requests=1 if no_json_object else 2)
    assert isinstance(failure, Failure)
    assert failure.infrastructure == no_json_object
    assert failure.reason
    assert failure.raw or response == b""
    assert len(failure.raw) <= 2000


def test_an_answer_at_the_second_try_is_one():
    answers = [completion(None, refusal="no"), completion("Yes")]
    assert outcome(lambda _, number: Answer(answers[number]), requests=2) == Reply("Yes")


def test_a_refusal_shows_its_words():
    failure = outcome(completion(None, refusal="I cannot help with that."), requests=2)
    assert failure == Failure("the judge refused: I cannot help with that.", raw="I cannot help with that.")


def test_logprobs_without_alternatives_are_none():
    response = completion("Yes")
    response["choices"][0]["logprobs"] = {"content": [{"token": "Yes", "logprob": -0.1, "top_logprobs": []}]}
    assert outcome(response) == Reply("Yes")
    response["choices"][0]["logprobs"] = {"content": None}
    assert outcome(response) == Reply("Yes")


@pytest.mark.parametrize(
    "content",
    [
        [{"token": "Yes", "logprob": -(9**999), "top_logprobs": [{"token": "Yes", "logprob": -1}]}],
        [{"token": "Yes", "logprob": -1, "top_logprobs": [{"token": "Yes", "logprob": -(9**999)}]}],
        [{"token": "Yes", "logprob": -1, "top_logprobs": [5]}],
        ["Yes"],
        {"Yes": -1},
        5,
    ],
)
def test_logprobs_that_are_none_fail_one_question(content):
    response = completion("Yes")
    response["choices"][0]["logprobs"] = {"content": content}
    failure = outcome(response, requests=2)
    assert isinstance(failure, Failure)
    assert failure.reason.startswith("this is no chat completion")


def test_half_a_character_is_a_question_mark_and_whole_ones_stay():
    assert outcome(completion("Yes \ud800 \U0001f600")) == Reply("Yes ? \U0001f600")


@pytest.mark.parametrize("status", [400, 401])
def test_a_servers_message_is_one_line_that_can_be_printed(status):
    message = "red \x1b[31m\nsecond line \ud800"
    answer = outcome(error(status, message))
    reason = answer.reason if isinstance(answer, Failure) else str(answer)
    assert reason.isprintable()
    assert "red \\x1b[31m\\nsecond line \\ud800" in reason


def test_tokens_that_nobody_has_are_not_counted():
    response = {**completion("Yes"), "usage": {"prompt_tokens": 9**999, "completion_tokens": -5}}
    with serving(lambda *_: Answer(response)) as server:
        expert = judge(server, usd_per_million_in=1.0, usd_per_million_out=1.0)
        expert([question()])
        usage = expert.usage()
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["requests_without_usage"]) == (0, 0, 1)
    assert "usd" not in usage  # unknown, not nothing


# -- server errors -----------------------------------------------------------------------------------------------------


def once(trouble: Answer) -> Rule:
    return lambda request, number: Answer(completion()) if number else trouble


def slow_down(after: str) -> Answer:
    return error(429, "slow down", **{"Retry-After": after})


TROUBLES = {
    "429": error(429, "slow down"),
    "429 with seconds": slow_down("0.05"),
    "429 with a date": slow_down(formatdate(time.time() + 1, usegmt=True)),
    "429 with a date in the past": slow_down(formatdate(0, usegmt=True)),
    "429 with nonsense": slow_down("soon"),
    "429 with infinity": slow_down("inf"),
    "408": error(408, "too slow"),
    "500": error(500, "oops"),
    "503": error(503, "loading"),
    "429 sent as success": Answer({"error": {"message": "Provider returned error", "code": 429}}),
    "cut in the headers": Answer(completion(), cut=0),
    "cut in the body": Answer(completion(), cut=25),
}


@pytest.mark.parametrize("trouble", TROUBLES.values(), ids=TROUBLES)
def test_passing_trouble_is_tried_again(trouble):
    assert outcome(once(trouble), requests=2) == Reply("Yes")


@pytest.mark.parametrize(
    ("trouble", "says"), [(error(500, "oops"), "HTTP 500: oops"), (error(429, "slow"), "HTTP 429: slow")]
)
def test_lasting_trouble_ends_after_the_last_try(trouble, says):
    raised = outcome(lambda *_: trouble, requests=3)
    assert isinstance(raised, RetriesExhausted)
    assert says in str(raised)
    assert "3 attempts" in str(raised)


ENDLESS = {
    "silence": Answer(completion(), after_s=20.0),
    "a trickle": Answer(trickle=True),
    "a trickle with an error": Answer(trickle=True, status=500),
}


@pytest.mark.parametrize("trouble", ENDLESS.values(), ids=ENDLESS)
def test_no_request_outlasts_its_time(trouble):
    raised = outcome(lambda *_: trouble, requests=2, timeout_s=1.0, retries=1)
    assert isinstance(raised, RetriesExhausted)
    assert "no complete response within 1 s" in str(raised)


@pytest.mark.parametrize("status", [200, 400, 500])
def test_a_body_without_end_is_not_swallowed(status, monkeypatch):
    monkeypatch.setattr(http_errors, "MAX_RESPONSE_BYTES", 1 << 20)
    with serving(lambda *_: Answer(flood=True, status=status)) as server:
        (failure,) = judge(server, timeout_s=20.0)([question()])
        assert isinstance(failure, Failure)
        assert failure.reason.endswith("is longer than 1 MiB")
        (request,) = server.requests
        assert request.headers["accept-encoding"] == "identity"  # compressed, a megabyte would be a gigabyte


def test_a_compressed_body_is_not_unpacked():
    bomb = Answer(gzip.compress(bytes(64 << 20)), headers={"Content-Encoding": "gzip"})
    failure = outcome(lambda *_: bomb)
    assert isinstance(failure, Failure)
    assert failure.reason.endswith("is compressed, and was to be as it is: turn compression off on the server")


def listing(rule: Rule, **options: Any) -> str:
    """The model's name in a judge's id, or why there is none."""
    with serving(rule) as server:
        try:
            return OpenAIJudge("", server.url, **options).served
        except ExpertDown as down:
            return str(down)


def test_the_list_of_models_is_bounded_in_time_and_size(monkeypatch):
    monkeypatch.setattr(http_errors, "MAX_RESPONSE_BYTES", 1 << 20)
    one, two = {"data": [{"id": "qwen"}]}, {"data": [{"id": "a"}, {"id": "b" * 1000}]}
    assert listing(lambda *_: Answer(one)) == "qwen"
    assert f"has a, {'b' * 100}: name one" in listing(lambda *_: Answer(two))
    assert "no complete response within 1 s" in listing(lambda *_: Answer(trickle=True), timeout_s=1.0)
    assert "is longer than 1 MiB" in listing(lambda *_: Answer(flood=True))
    assert "is compressed" in listing(lambda *_: Answer(b"", headers={"Content-Encoding": "gzip"}))
    for wrong in (b"no JSON", b"[" * 10**5, {"data": 1}, {"data": [1]}, {}):
        assert "does not list its models" in listing(lambda *_, wrong=wrong: Answer(wrong))
    assert "HTTP 500" in listing(lambda *_: Answer(status=500))


@pytest.mark.parametrize("form", [YesNo(), Grade(), Json('{"type": "array"}'), FreeText()], ids=repr)
def test_a_reply_that_is_too_long_is_none(form):
    failure = outcome(lambda *_: Answer(completion("[" + "1, " * 40_000 + "1]")), form, requests=2)
    assert isinstance(failure, Failure)
    assert "the reply has 120,003 characters, and at most 100,000 are read" in failure.reason
    assert len(failure.raw) == 2000


def test_a_long_wait_that_is_asked_for_ends_with_the_time_for_a_request():
    assert outcome(once(slow_down("3600")), requests=2, timeout_s=1.0) == Reply("Yes")


def test_what_is_sent_counts_per_attempt_also_if_no_server_is_reached():
    with serving(lambda *_: Answer(completion("7"))) as server:
        expert = judge(server, retries=2)
        expert([question(Grade(), 0, picture(1))])
        once = expert.usage()
        server.close()
        with pytest.raises(RetriesExhausted):
            expert([question(Grade(), 0, picture(1))])
    counts = expert.usage()
    for name in ("requests", "images_sent", "bytes_sent"):
        assert counts[name] == 4 * once[name] > 0


def test_a_server_that_is_not_there_is_an_error_and_no_judgement():
    with serving(lambda *_: Answer(completion())) as server:
        url = server.url
    expert = OpenAIJudge("m", url, retries=2)
    with pytest.raises(RetriesExhausted, match="ConnectionRefusedError"):
        expert([question()])
    assert expert.usage()["requests"] == 3


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (error(401, "bad key"), "name the variable with its key in api_key_env"),
        (error(403, "not yours"), "refuses access"),
        (error(404, "no model m"), "check base_url and the model's name"),
        (error(402, "no credit"), "has no quota left"),
        (error(429, "no credit", "insufficient_quota"), "has no quota left"),
        (Answer({"error": {"message": "no", "type": "exceeded_current_quota_error"}}, 429), "has no quota left"),
        (Answer(b"", 308, {"Location": "http://127.0.0.1:9/"}), "has moved"),
    ],
)
def test_what_holds_for_every_request_takes_the_expert_down_at_once(answer, says):
    raised = outcome(answer)
    assert isinstance(raised, ExpertDown)
    assert says in str(raised)


@pytest.mark.parametrize(
    "answer",
    [
        error(400, "Your request was rejected", "content_policy_violation"),
        error(403, "Your input was flagged by moderation"),
        error(400, "max_tokens is too large: 100000"),
        error(422, "unexpected field"),
        Answer(b"no", 400),
        Answer({"detail": [{"msg": "wrong"}]}, 422),
        Answer({"error": "just text"}, 409),
    ],
)
def test_a_rejected_question_fails_alone_and_is_not_asked_again(answer):
    failure = outcome(answer)
    assert isinstance(failure, Failure)
    assert failure.raw


@pytest.mark.parametrize("status", [400, 403])
def test_a_server_that_knows_no_logprobs_is_asked_without_from_then_on(status):
    def rule(request: Any, number: int) -> Answer:
        return error(status, "you may not ask for logprobs") if "logprobs" in request.body else Answer(completion())

    with serving(rule) as server:
        expert = judge(server, concurrency=1)
        assert expert([question(draw=draw) for draw in range(3)]) == [Reply("Yes")] * 3
        assert ["logprobs" in request.body for request in server.requests] == [True, False, False, False]
        with pytest.raises(ExpertDown, match="logprobs=False or 'auto'"):
            judge(server, logprobs=True)([question()])


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ([{"error": {"code": 400, "message": "no such field", "status": "INVALID_ARGUMENT"}}], "no such field"),
        (
            {"error": {"message": "upstream", "metadata": {"raw": '{"message": "too dark"}'}}},
            'upstream: {"message": ',
        ),
    ],
)
def test_the_message_of_an_error_is_found(body, says):
    failure = outcome(Answer(body, 400))
    assert isinstance(failure, Failure)
    assert failure.reason.startswith(f"the server rejected it (HTTP 400): {says}")


def test_a_schema_that_the_server_rejects_is_left_to_the_words_and_the_others_are_not():
    other = Json.from_schema({"type": "object"})

    def rule(request: Any, number: int) -> Answer:
        requested = request.body.get("response_format")
        if requested and requested["json_schema"]["schema"] == SCHEMA:
            return error(400, "Invalid schema for response_format 'answer'")
        return Answer(completion('{"score": 1}'))

    with serving(rule) as server:
        expert = judge(server, concurrency=1)
        forms = [Json.from_schema(SCHEMA), Json.from_schema(SCHEMA), other]
        assert texts(expert([question(form) for form in forms])) == ['{"score": 1}'] * 3
        assert ["response_format" in request.body for request in server.requests] == [True, False, False, True]


# -- keys, ids, options ------------------------------------------------------------------------------------------------


def test_a_key_goes_to_its_server_and_shows_nowhere(monkeypatch, caplog):
    monkeypatch.setenv("THEIR_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    with serving(lambda *_: error(401, f"Incorrect API key provided: {KEY}")) as server:
        expert = judge(server, api_key_env="THEIR_KEY")
        with pytest.raises(ExpertDown, match="check the key in THEIR_KEY") as raised:
            expert([question()])
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    with serving(lambda *_: error(400, f"what is {KEY}?")) as server:
        (failure,) = judge(server, api_key_env="THEIR_KEY")([question()])
    shown = [str(raised.value), repr(raised.value), repr(failure), expert.id, repr(expert), str(spec_of(expert))]
    assert not [text for text in [*shown, str(vars(expert)), caplog.text] if KEY in text]


def test_replies_refusals_and_names_of_models_hold_no_key(monkeypatch, tmp_path):
    monkeypatch.setenv("THEIR_KEY", KEY)
    for reply in (completion(f"your key is {KEY}"), completion(refusal=KEY)):
        with serving(lambda *_, reply=reply: Answer(reply)) as server:
            (outcome,) = judge(server, api_key_env="THEIR_KEY")([question(FreeText())])
        assert "***" in repr(outcome)
        assert KEY not in repr(outcome)
    with serving(lambda *_: Answer({"data": [{"id": KEY}]})) as server:
        assert OpenAIJudge("", server.url, api_key_env="THEIR_KEY").served == "***"
    monkeypatch.setenv("THEIR_KEY", "Yes")
    with serving(lambda *_: Answer(completion())) as server:
        assert judge(server, api_key_env="THEIR_KEY")([question()]) == [Reply("Yes")]


def test_no_key_is_sent_where_none_was_named(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with serving(lambda *_: Answer(completion())) as server:
        assert judge(server)([question()]) == [Reply("Yes")]
        assert not [value for value in server.requests[0].headers.values() if KEY in value]
        assert "authorization" not in server.requests[0].headers


def test_a_missing_key_says_which(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ExpertDown, match="environment variable OPENAI_API_KEY"):
        OpenAIJudge("gpt").load()


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ExpertDown, match=re.escape("openai is not installed: pip install 'editcritic[judge]'")):
        OpenAIJudge("m", "http://127.0.0.1:9/v1").load()


def test_the_id_changes_with_what_changes_answers_and_only_with_that():
    url = "http://127.0.0.1:9/v1"
    same = [OpenAIJudge("m", url, timeout_s=1, retries=0, max_requests=3, concurrency=2), OpenAIJudge("m", url + "/")]
    assert {expert.id for expert in same} == {OpenAIJudge("m", url).id}
    changed: list[dict[str, Any]] = [
        {},
        {"logprobs": True},
        {"logprobs": False},
        {"json_mode": "text"},
        {"image_format": "jpeg"},
        {"image_format": "jpeg", "jpeg_quality": 50},
        {"detail": "low"},
        {"max_tokens": 1024},
        {"thinking_tokens": 10},
        {"max_tokens_field": "max_tokens"},
        {"extra": {"top_k": 1}},
    ]
    ids = {OpenAIJudge("m", url, **options).id for options in changed}
    ids |= {OpenAIJudge("n", url).id, OpenAIJudge("m", "http://127.0.0.1:9/v2").id, OpenAIJudge("m").id}
    assert len(ids) == len(changed) + 3


def test_it_is_built_again_from_its_spec():
    expert = OpenAIJudge("m", "http://127.0.0.1:9/v1", retries=1, extra={"top_k": 1}, usd_per_million_in=2.5)
    again = build(spec_of(expert), "editcritic.experts")
    assert (again.id, again.retries, again.usd_per_million_in) == (expert.id, 1, 2.5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"base_url": "http://user:secret@host/v1"}, "no password"),
        ({"base_url": "http://host/v1?key=secret"}, "no query"),
        ({"base_url": "host/v1"}, "URL such as"),
        ({"base_url": ""}, "URL such as"),  # is not OpenAI
        ({"base_url": []}, "a URL or a list"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"retries": -1}, "retries"),
        ({"max_requests": -1}, "max_requests"),
        ({"concurrency": 0}, "concurrency"),
        ({"logprobs": "yes"}, "logprobs"),
        ({"json_mode": "object"}, "json_mode"),
        ({"image_format": "webp"}, "png or jpeg"),
        ({"jpeg_quality": 0}, "quality"),
        ({"max_tokens": 0}, "max_tokens is 1 or more, got 0"),
        ({"extra": "{top_k:1}"}, "extra takes request fields as JSON.* single quotes"),
    ],
)
def test_refuses_options_that_mean_nothing(options, says):
    with pytest.raises(ValueError, match=says) as raised:
        OpenAIJudge("m", **options)
    assert "secret" not in str(raised.value)


# -- concurrent queries in an engine -----------------------------------------------------------------------------------


class Asking:
    """Queries the judge whether the sample's instruction was followed."""

    card = Card("asking", 1, "asks a judge", roles=("judge",))

    def __call__(self, sample: EditSample) -> Program[Score]:
        reply = yield from ask(Judge((Message((sample.instruction, sample.edited)),), Grade()))
        return Score.of(int(reply.text) / 10, evidence=())


def words_of(body: Any) -> str:
    return str(body["messages"][0]["content"][0]["text"])


def test_two_hundred_questions_sixteen_at_a_time_each_gets_its_own_answer():
    def echo(request: Any, number: int) -> Answer:
        return Answer(completion(f"about {words_of(request.body)}"), after_s=0.002 * (number % 7))

    with serving(echo) as server:
        queries = [question(FreeText(), 0, f"number {n}", picture(1)) for n in range(200)]
        assert texts(judge(server, concurrency=16)(queries)) == [f"about number {n}" for n in range(200)]
        assert len(server.requests) == 200
        assert 1 < server.peak_concurrency <= 16


def samples(count: int) -> list[EditSample]:
    return [sample(f"s{n}", instruction=f"make it {n}") for n in range(count)]


def test_in_an_engine_failures_keep_their_reason_and_words_and_stats_tell_the_cost():
    def rule(request: Any, number: int) -> Answer:
        if words_of(request.body) == "make it 3":
            return Answer(completion(None, refusal="not that one"))
        return Answer(completion("7"))

    with serving(rule) as server:
        expert = judge(server, usd_per_million_in=1.0, usd_per_million_out=10.0)
        reward = Reward(Asking(), {"judge": expert})
        scores = reward(samples(8))
        reward.engine.close()
    assert [score.value for score in scores] == [0.7, 0.7, 0.7, None, 0.7, 0.7, 0.7, 0.7]
    assert scores[3].reason.endswith("the judge refused: not that one")
    assert [evidence.text for evidence in scores[3].evidence] == ["not that one"]
    meter = scores.stats["experts"][expert.id]
    assert {name: meter[name] for name in ("requests", "prompt_tokens", "completion_tokens", "images_sent")} == {
        "requests": 9,  # the refused one twice
        "prompt_tokens": 900,
        "completion_tokens": 18,
        "images_sent": 9,
    }
    assert meter["usd"] == pytest.approx(0.00108)


def test_stats_and_the_profile_have_cached_tokens_and_the_cost_until_it_is_unknown():
    def rule(request: Any, number: int) -> Answer:
        tokens = {"prompt_tokens": 100, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 80}}
        silent = words_of(request.body) == "make it 5"
        return Answer({**completion("7"), "usage": None if silent else tokens})

    with serving(rule) as server:
        expert = judge(server, usd_per_million_in=1.0, usd_per_million_cached_in=0.1, usd_per_million_out=10.0)
        reward = Reward(Asking(), {"judge": expert})
        first, second = reward(samples(5)), reward(samples(6))
        reward.engine.close()
        sent = sum(int(request.headers["content-length"]) for request in server.requests)
    meter = first.stats["experts"][expert.id]
    assert (meter["prompt_tokens"], meter["cached_tokens"], meter["completion_tokens"]) == (500, 400, 10)
    assert meter["usd"] == pytest.approx((100 * 1.0 + 400 * 0.1 + 10 * 10.0) / 1e6)
    later = second.stats["experts"][expert.id]
    assert (later["requests"], later["requests_without_usage"], later["prompt_tokens"]) == (1, 1, 0)
    assert "usd" not in later
    assert meter["bytes_sent"] + later["bytes_sent"] == sent
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(profile_table(first.stats))
    shown = console.export_text()
    assert "500 prompt tokens, 10 completion tokens, 5 images sent" in shown
    assert "400 cached tokens, 0.000240 USD" in shown


def test_a_question_that_finds_no_server_does_not_stop_the_others():
    def rule(request: Any, number: int) -> Answer:
        return Answer(completion("7"), cut=5 if words_of(request.body) == "make it 5" else None)

    with serving(rule) as server:
        reward = Reward(Asking(), {"judge": judge(server, retries=1)})
        scores = reward(samples(60))
        reward.engine.close()
        assert [n for n, score in enumerate(scores) if score.status == "failed"] == [5]
        assert len(server.requests) == 61


def test_a_dead_server_is_soon_left_alone():
    with serving(lambda *_: error(500, "dead")) as server:
        reward = Reward(Asking(), {"judge": judge(server, retries=1, concurrency=4)}, on_failures="none")
        scores = reward(samples(100))
        reward.engine.close()
        assert {score.status for score in scores} == {"failed"}
        assert "not asked, the expert is down" in scores[99].reason
        assert len(server.requests) <= 2 * (16 + 4)


def test_a_spent_budget_stops_asking_and_a_later_run_pays_for_the_rest_only(tmp_path):
    with serving(lambda *_: Answer(completion("7"), after_s=0.01)) as server:
        with AnswerLog(tmp_path / "log") as log:
            expert = judge(server, max_requests=10, concurrency=4)
            reward = Reward(Asking(), {"judge": expert}, log=log, on_failures="none")
            first = reward(samples(25))
            reward.engine.close()
        assert len(server.requests) == 10
        assert [score.status for score in first].count("scored") == 10
        reasons = {score.reason for score in first if score.status == "failed"}
        assert all("request budget of 10 requests is spent" in reason for reason in reasons)
        with AnswerLog(tmp_path / "log") as log:
            reward = Reward(Asking(), {"judge": judge(server)}, log=log)
            second = reward(samples(25))
            reward.engine.close()
        assert len(server.requests) == 25
        assert [score.value for score in second] == [0.7] * 25


def test_retries_count_towards_the_budget():
    raised = outcome(lambda *_: error(500, "oops"), requests=2, max_requests=2, retries=5)
    assert isinstance(raised, ExpertDown)
    assert "request budget of 2 requests is spent" in str(raised)


def test_one_judge_serves_one_event_loop_after_another():
    with serving(lambda *_: Answer(completion("7"))) as server:
        expert = judge(server)
        for n in range(3):
            reward = Reward(Asking(), {"judge": expert})
            assert reward([sample(instruction=f"make it {n}")])[0].value == 0.7
            reward.engine.close()
            assert texts(expert([question(Grade(), n)])) == ["7"]
        assert expert.usage()["requests"] == 6
        end = time.monotonic() + 10
        while server.connections and time.monotonic() < end:
            time.sleep(0.01)
        assert server.connections == 0  # no connection is left to a closed loop


def test_the_deadline_covers_every_try_and_pause():
    assert OpenAIJudge("m", "http://h/v1", timeout_s=10, retries=2).deadline_s >= 2 * (3 * 10 + 2 * 10)
