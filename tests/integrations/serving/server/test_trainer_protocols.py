"""Trainers' own clients against a judge server: calls as the trainers document them, over real HTTP."""

import base64
import contextlib
import io
import math
import pickle
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import PIL.Image
import pytest
import requests
import typer
from requests.adapters import HTTPAdapter
from typer.testing import CliRunner
from urllib3.util.retry import Retry

from editcritic.cli.serve import serve
from editcritic.integrations.serving.server import service as scoring_service
from editcritic.integrations.serving.server import trainer_protocols
from editcritic.integrations.serving.server.app import create_app
from editcritic.integrations.serving.server.service import ScoringService
from editcritic.integrations.serving.server.trainer_protocols import TRAINER_PROTOCOLS, add_trainer_protocols
from editcritic.reward import Card, EditSample, Expert, Image, Program, Reward, Score, ask, retry
from editcritic.reward.queries import Abstention, Failure, Rate

from ....reward.fakes import Fake, known, picture
from ..served import eventually, idle, serving

PICKLED = ("/mode/logits_non_cot", "/mode/score_continue", "/verl-omni")


class Kept:
    """What the expert says of the edited image; keeps the samples that it was asked about."""

    def __init__(self, name: str = "kept") -> None:
        self.samples: list[EditSample] = []
        self.card = Card(name, 2, "kept", roles=("preference",))

    def __call__(self, sample: EditSample) -> Program[Score]:
        self.samples.append(sample)
        answer = yield from ask(Rate(sample.edited, self.card.name), role="preference")
        return Score.of(answer.value or 0.0)


@contextlib.contextmanager
def judge(
    expert: Expert | None = None, *, names: tuple[str, ...] = ("kept",), token: str = "", **options: Any
) -> Iterator[tuple[str, Kept]]:
    """The address of a server with all shims, and its first reward's metric."""
    kept = [Kept(name) for name in names]
    rewards = {one.card.name: Reward(one, {"preference": expert or Fake()}) for one in kept}
    with serving(rewards, options.pop("which", ",".join(TRAINER_PROTOCOLS)), token=token, **options) as (url, _):
        yield url, kept[0]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server that is asked nothing but what it refuses."""
    with judge(limits={"max_samples": 4, "max_image_pixels": 10_000}) as (url, _):
        yield url


def jpeg(image: Image) -> bytes:
    """As trainers write images: PIL's defaults."""
    buffer = io.BytesIO()
    PIL.Image.fromarray(image.pixels).save(buffer, format="JPEG")
    return buffer.getvalue()


def value(content: bytes, prompt: str = "kept") -> float | None:
    """What the expert of these servers says of an image in a file."""
    return known(Rate(Image.of(content), prompt)).value


def problem(answer: Any) -> str:
    """The words of an error: of a pickled dict, of what unpickling raises, or of JSON."""
    if answer.headers["content-type"] == "application/json":
        return str(answer.json()["error"])
    try:
        return str(pickle.loads(answer.content)["error"])
    except AttributeError as error:
        return str(error)


BEFORE, AFTER = [jpeg(picture(number)) for number in range(3)], [jpeg(picture(number)) for number in range(5, 8)]
PROMPTS = ["make it blue", "make it red", "make it blue"]


def edit_r1(url: str, total: int = 1000, path: str = "/mode/logits_non_cot", **changes: Any) -> Any:
    """Edit-R1's call, its session included: whatever comes back is unpickled."""
    session = requests.Session()
    retries = Retry(total=total, backoff_factor=1, status_forcelist=[500], allowed_methods=False)  # type: ignore[arg-type]  # as it is written there
    session.mount("http://", HTTPAdapter(max_retries=retries))
    data = {
        "ref_images": BEFORE,
        "images": AFTER,
        "prompts": PROMPTS,
        "metadatas": [{"requirement": "a blue one", "image": "/etc/passwd"}, {}, {"requirement": ""}],
    }
    answer = session.post(url + path, data=pickle.dumps(data | changes), timeout=60)
    return pickle.loads(answer.content)["scores"]


def verl_omni(url: str, image: bytes, prompt: str, metadata: dict[str, Any]) -> httpx2.Response:
    """verl-omni's call, which is for one image."""
    payload = pickle.dumps({"images": [image], "prompts": [prompt], "metadata": metadata})
    return httpx2.post(f"{url}/verl-omni", content=payload, timeout=60)


def item(text: str, *pictures: bytes, rewards: tuple[str, ...] = ("kept",), **fields: Any) -> dict[str, Any]:
    """An item of UniRL's requests: the same text with every image."""
    history = [{"text": text, "image_b64": base64.b64encode(one).decode()} for one in pictures]
    named = {"request_id": "r", "sample_id": "s", "group_id": "g", "source_rank": 1, "policy_version": 7}
    nothing = {"scorer_version": None, "idempotency_key": None, "metadata": None}
    return {"history": history, "required_rewards": list(rewards), **nothing, **named, **fields}


def unirl(url: str, *items: dict[str, Any], status: int = 200) -> Any:
    answer = requests.post(f"{url}/score", json={"protocol_version": "1", "requests": list(items)}, timeout=60)
    assert answer.status_code == status, answer.text
    return answer.json()


@pytest.mark.parametrize("path", ["/mode/logits_non_cot", "/mode/score_continue"])
def test_edit_r1_gets_the_scores_of_its_pictures_in_order(path):
    with judge() as (url, kept):
        assert edit_r1(url, path=path) == [value(one) for one in AFTER]
    assert [one.instruction for one in kept.samples] == PROMPTS
    assert [one.sources for one in kept.samples] == [(Image.of(one),) for one in BEFORE]
    assert [one.hint for one in kept.samples] == ["a blue one", "", ""]
    assert len({one.group for one in kept.samples}) == 3, "the same words for two pictures are two groups"


def test_what_keeps_failing_is_refused_for_good_and_never_a_number(monkeypatch):
    monkeypatch.setattr(scoring_service, "_RETRY_SHARE", 0.0)
    with judge(Fake(lambda query: Failure("the judge is elsewhere", infrastructure=True))) as (url, _):
        body = pickle.dumps({"ref_images": BEFORE, "images": AFTER, "prompts": PROMPTS})
        answers = [requests.post(f"{url}/mode/logits_non_cot", data=body, timeout=60) for _ in range(4)]
        with pytest.raises(AttributeError, match="3 of 3 edits have no score: edit-0: failed"):
            edit_r1(url, total=0)
    assert [one.status_code for one in answers[:3]] == [503, 503, 422]
    assert answers[0].headers["retry-after"] == "5"
    assert "retry-after" not in answers[2].headers
    for answer in answers:
        assert "3 of 3 edits have no score: edit-0: failed (" in problem(answer)
        assert "the judge is elsewhere" in problem(answer)


def test_an_outage_is_waited_for_on_the_server_and_others_are_not_kept_waiting(monkeypatch):
    monkeypatch.setattr(retry, "OUTAGE", retry.RetryPolicy(first_pause_s=2.0))
    failures = {Image.of(AFTER[1]).digest: 3}

    def rule(query: Any) -> Any:
        left = failures.get(query.image.digest, 0)
        failures[query.image.digest] = left - 1
        return Failure("the judge is elsewhere", infrastructure=True) if left > 0 else known(query)

    with judge(Fake(rule)) as (url, kept), ThreadPoolExecutor() as pool:
        first = pool.submit(edit_r1, url, total=0)
        eventually(lambda: len(kept.samples) >= 4)  # it has been asked again at once
        start = time.monotonic()
        other = verl_omni(url, AFTER[0], "make it blue", {"ref_images": BEFORE[:1]})
        assert time.monotonic() - start < 0.7
        assert pickle.loads(other.content) == {"scores": [value(AFTER[0])]}
        assert not first.done()
        assert first.result(60) == [value(one) for one in AFTER]


def test_who_waits_for_an_outage_and_goes_leaves_nothing_behind(monkeypatch):
    monkeypatch.setattr(retry, "OUTAGE", retry.RetryPolicy(first_pause_s=60.0, longest_pause_s=60.0))
    away = Fake(lambda query: Failure("away", infrastructure=True))
    body = pickle.dumps({"ref_images": BEFORE, "images": AFTER, "prompts": PROMPTS})
    with serving(None, "edit-r1", expert=away) as (url, service):
        with pytest.raises(requests.ReadTimeout):
            requests.post(f"{url}/mode/logits_non_cot", data=body, timeout=1.0)
        eventually(lambda: idle(service))


def test_what_nobody_can_know_has_the_lowest_value_and_never_stops_a_run():
    def rule(query: Any) -> Any:
        answers = {Image.of(AFTER[1]): Abstention("who could know"), Image.of(AFTER[2]): Failure("I refuse")}
        return answers.get(query.image) or known(query)

    with judge(Fake(rule)) as (url, kept):
        assert edit_r1(url) == [value(AFTER[0]), 0.0, 0.0]
        assert edit_r1(url, metadatas=[{}] * 3) == [value(AFTER[0]), 0.0, 0.0]
        lowest = verl_omni(url, AFTER[1], "make it red", {"ref_images": BEFORE[1:2]})
    assert pickle.loads(lowest.content) == {"scores": [0.0]}
    assert len(kept.samples) == 3 + 1 + 3 + 1 + 1, "a refusal is asked again once, an abstention is not"


def test_a_mistake_of_the_server_is_words_and_is_not_repeated_for_hours(monkeypatch):
    """Edit-R1 repeats a 500 a thousand times."""
    calls: list[Any] = []

    def broken(*arguments: Any) -> Any:
        calls.append(arguments)
        raise ZeroDivisionError

    monkeypatch.setattr(trainer_protocols, "values_or_error", broken)
    with judge() as (url, _), pytest.raises(AttributeError, match="HTTP 500: internal server error: ZeroDivisionError"):
        edit_r1(url)
    assert len(calls) == 1


def test_a_request_that_is_repeated_is_not_scored_again():
    expert = Fake()
    with judge(expert) as (url, kept):
        assert edit_r1(url) == edit_r1(url) == [value(one) for one in AFTER]
    assert len(kept.samples) == 3
    assert sum(expert.calls) == 3


def test_missing_scores_are_nan_where_that_is_wanted(monkeypatch):
    monkeypatch.setattr(scoring_service, "_RETRY_SHARE", 0.0)

    def rule(query: Any) -> Any:
        return Failure("away", infrastructure=True) if query.image == Image.of(AFTER[1]) else known(query)

    with judge(Fake(rule), on_unscored="nan") as (url, _):
        first, second, third = edit_r1(url)
        alone = verl_omni(url, AFTER[1], "make it red", {"ref_images": [BEFORE[1]]})
    assert (first, third) == (value(AFTER[0]), value(AFTER[2]))
    assert math.isnan(second)
    assert math.isnan(pickle.loads(alone.content)["scores"][0])


def test_verl_omni_gets_a_score_where_the_source_is_sent_and_is_told_so_where_it_is_not():
    extra = {"boxes": {"cup": [[0, 0, 4, 4]]}, "metadata": {"seed": 3}}
    with judge() as (url, kept):
        answer = verl_omni(url, AFTER[0], "make it blue", {"ref_images": [BEFORE[:2]], "editcritic": extra})
        without = verl_omni(url, AFTER[0], "make it blue", {})
    assert pickle.loads(answer.content) == {"scores": [value(AFTER[0])]}
    assert kept.samples[0].sources == (Image.of(BEFORE[0]), Image.of(BEFORE[1]))
    assert list(kept.samples[0].boxes) == ["cup"]
    assert kept.samples[0].metadata == {"seed": 3}
    assert without.status_code == 422
    assert "editcritic.integrations.trainers.verl_omni" in problem(without)


def test_unirl_gets_results_errors_and_identities_item_by_item():
    def rule(query: Any) -> Any:
        return Abstention("who could know") if query.image == Image.of(AFTER[1]) else known(query)

    items = [item(PROMPTS[at], BEFORE[at], AFTER[at], idempotency_key=f"key {at}") for at in range(3)]
    with judge(Fake(rule)) as (url, kept):
        reply = unirl(url, *items)
        again = unirl(url, *items)
        other = unirl(url, items[0], {**items[1], "history": items[0]["history"]}, items[2])  # the same keys
        assert requests.get(f"{url}/health", timeout=60).json() == {"status": "ok", "rewards": {"kept": ["ready"]}}
        assert requests.get(f"{url}/rewards", timeout=60).json() == {"rewards": ["kept"]}
    assert reply["protocol_version"] == "1"
    scores = [value(AFTER[0]), 0.0, value(AFTER[2])]  # the lowest of the range in place of the abstention
    assert reply["results"] == [{"kept": {"score": score}} for score in scores]
    assert reply["errors"] == [{}, {}, {}]
    for sent_item, identity in zip(items, reply["identities"], strict=True):
        version = identity["scorer_version"]
        assert re.fullmatch(r"kept@2#[0-9a-f]{8}", version)
        assert identity == {name: sent_item[name] for name in identity} | {"scorer_version": version}
        assert set(identity) == set(sent_item) - {"history", "required_rewards", "metadata"}
    assert again == reply
    assert other["results"] == [reply["results"][0], {"kept": {"score": value(AFTER[0])}}, reply["results"][2]]
    assert [one.instruction for one in kept.samples[:3]] == PROMPTS
    assert [one.source for one in kept.samples[:3]] == [Image.of(one) for one in BEFORE]
    assert len({one.group for one in kept.samples[:3]}) == 3


def test_unirl_may_require_several_rewards_each_of_some_items():
    items = [
        item("make it blue", BEFORE[0], AFTER[0], rewards=("kept", "other"), scorer_version="kept@2+other@2"),
        item("make it blue", BEFORE[0], AFTER[1], rewards=("other",)),
    ]
    with judge(names=("kept", "other"), which="unirl") as (url, _):
        reply = unirl(url, *items)
        assert unirl(url) == {"protocol_version": "1", "results": [], "errors": [], "identities": []}
    first, second = value(AFTER[0]), value(AFTER[0], "other")
    assert reply["results"][0] == {"kept": {"score": first}, "other": {"score": second}}
    assert reply["results"][1] == {"other": {"score": value(AFTER[1], "other")}}


def test_a_longer_history_is_one_edit_after_another():
    turns = item("", *BEFORE, AFTER[0])
    for turn, text in zip(turns["history"], ["", "add a cat", "add a dog", "make it blue"], strict=True):
        turn["text"] = text
    with judge() as (url, kept):
        unirl(url, turns)
    (sample,) = kept.samples
    assert [one.instruction for one in sample.turns] == ["add a cat", "add a dog", "make it blue"]
    assert [one.source for one in sample.turns] == [Image.of(one) for one in BEFORE]
    assert (sample.turn, sample.edited) == (3, Image.of(AFTER[0]))


def test_clients_without_headers_bear_the_token_in_their_url():
    token = "correct-horse-battery-staple"
    with judge(token=token) as (url, _):
        inside = url.replace("http://", f"http://any:{token}@")
        assert len(edit_r1(inside)) == 3
        assert verl_omni(inside, AFTER[0], "make it blue", {"ref_images": BEFORE[:1]}).status_code == 200
        assert len(unirl(inside, item("make it blue", BEFORE[0], AFTER[0]))["results"]) == 1
        for wrong in (url, inside.replace("horse", "cow")):
            assert [requests.post(wrong + path, data=b"", timeout=60).status_code for path in PICKLED] == [401] * 3
            assert requests.get(f"{wrong}/health", timeout=60).status_code == 401


@pytest.mark.parametrize(
    ("changes", "status", "message"),
    [
        ({"required_rewards": ["hpsv2"]}, 400, "no reward 'hpsv2': served are kept"),
        ({"required_rewards": []}, 400, "required_rewards"),
        ({"scorer_version": "1"}, 400, "but kept@2#"),
        ({"history": []}, 422, "two turns"),
        ({"history": item("a", AFTER[0])["history"]}, 422, "two turns"),
        ({"history": [{"text": "a", "video_path": "/etc/passwd"}] * 2}, 400, "video_path"),
        ({"history": [{"text": "a"}] * 2}, 422, "image_b64"),
        ({"history": [{"text": "a", "image_b64": "/etc/passwd"}] * 2}, 400, "not base64"),
        ({"history": [*item("a", BEFORE[0])["history"], *item("b", AFTER[0])["history"]]}, 422, "ambiguous"),
        ({"metadata": {"editcritic": {"edited": "/etc/passwd"}}}, 400, "unknown field 'edited'"),
    ],
)
def test_unirl_is_told_what_is_wrong(url, changes, status, message):
    answer = unirl(url, {**item("make it blue", BEFORE[0], AFTER[0]), **changes}, status=status)
    assert message in answer["error"]
    assert not answer["retryable"]


def test_other_protocols_and_gradients_are_refused(url):
    for change in ({"protocol_version": "2"}, {"grad_mode": True}):
        answer = requests.post(f"{url}/score", json={"requests": [], **change}, timeout=60)
        assert answer.status_code == 400, answer.text


def test_without_being_named_no_shim_is_there():
    with serving() as (url, _):
        statuses = [requests.post(url + path, data=b"", timeout=60).status_code for path in (*PICKLED, "/score")]
    assert statuses == [404] * 4


def test_names_that_mean_nothing_are_refused():
    service = ScoringService({name: Reward(Kept(name), {"preference": Fake()}) for name in ("a", "b")})
    app = create_app(service)
    with pytest.raises(ValueError, match="no trainer protocol 'flow-grpo': there are edit-r1, verl-omni, omnigen2-rl"):
        add_trainer_protocols(app, service, "edit-r1, flow-grpo")
    with pytest.raises(ValueError, match="serve one reward"):
        add_trainer_protocols(app, service, ["edit-r1"])
    with pytest.raises(ValueError, match="must be 'refuse' or 'nan'"):
        add_trainer_protocols(app, service, ["unirl"], on_unscored="0")
    service.close()


def test_the_command_names_shims_and_refuses_others(tmp_path):
    rated = ["--reward", "tests.reward.fakes:Rated", "--experts", "preference=tests.reward.fakes:Seeded"]
    app = typer.Typer()
    app.command()(serve)
    config = tmp_path / "serve.toml"
    config.write_text('unscored = "0"')
    for wrong, message in (
        (["--trainer-protocol", "edit-r1,nothing"], "no trainer protocol 'nothing'"),
        (["--config", str(config)], "must be 'refuse' or 'nan'"),
    ):
        result = CliRunner().invoke(app, [*rated, "--port", "0", "--trainer-protocol", "unirl", *wrong])
        assert result.exit_code == 2, result.output
        assert message in " ".join(result.output.split())
