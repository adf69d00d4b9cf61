"""The reward-hacking monitor of a judge server: what its clients send is monitored, on a page and in its metrics, and
scoring waits for none of it.
"""

import base64
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import httpx2
import numpy as np
import pytest

from editcritic.integrations.serving.client import RemoteReward
from editcritic.integrations.serving.http_protocol import attach_images, images_by_digest, request_json
from editcritic.integrations.serving.server import ScoringService
from editcritic.integrations.serving.server.monitoring import monitor_page
from editcritic.reward import EditSample, Image, Reward, Score
from editcritic.reward.queries import Measurement
from editcritic.reward.training.alarm import MONITORED, Alarm
from editcritic.reward.training.audit_probe import AuditProbe
from editcritic.reward.training.image_statistics import image_statistics
from editcritic.reward.training.reward_hacking_monitor import RewardHackingMonitor
from editcritic.reward.training.step_monitor import StepMonitor

from ....reward.fakes import Fake, Rated, known, picture, sample
from ....reward.training.policies import HACKS, Hack, Policy
from ..served import TOKEN, eventually, serving


def reward() -> Reward:
    return Reward(Rated(), {"preference": Fake(known)}, on_failures="none")


@contextmanager
def served(monitor: StepMonitor | None, **settings: Any) -> Iterator[tuple[str, ScoringService]]:
    with serving({"mine": reward()}, monitors=monitor and {"mine": monitor}, **settings) as running:
        yield running


def train(url: str, monitor: StepMonitor, hack: Hack | None, steps: int) -> None:
    """As a trainer does, of whose policy the server knows nothing."""
    policy = Policy(13, hack, start=20)
    with closing(RemoteReward(url)) as remote:
        for number in range(steps):
            remote([edit.sample for edit in policy.step(number)])
            eventually(lambda: len(monitor.history) > number)  # noqa: B023


def numbers(text: str) -> dict[str, float]:
    lines = (line for line in text.splitlines() if line.startswith("editcritic_monitor"))
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


@pytest.mark.parametrize("hack", ["copies the source", "makes one image per group", ""])
def test_a_policy_that_hacks_is_seen_on_the_page_and_in_the_metrics(hack):
    name, change = HACKS[hack] if hack else ("", None)
    monitor = StepMonitor(64, heldout=lambda samples: [Score.of(0.5)] * len(samples), name="mine")
    with served(monitor) as (url, _):
        train(url, monitor, change, 27)
        metrics = numbers(httpx2.get(f"{url}/metrics").text)
        answer = httpx2.get(f"{url}/monitor")
    assert metrics['editcritic_monitor_steps_total{reward="mine"}'] == 27
    assert metrics['editcritic_monitor_dropped_steps_total{reward="mine"}'] == 0
    assert metrics['editcritic_monitor_value{quantity="heldout",reward="mine"}'] == 0.5
    assert metrics['editcritic_monitor_value{quantity="rejected",reward="mine"}'] == 0.0
    raised = {key for key in metrics if key.startswith("editcritic_monitor_alarms_total")}
    if not hack:
        assert not raised
        assert "No alarm." in answer.text
        return
    assert metrics[f'editcritic_monitor_alarms_total{{name="{name}",reward="mine"}}'] == 1
    assert abs(metrics[f'editcritic_monitor_z{{quantity="{name}",reward="mine"}}']) > 3
    assert f"<strong>{name}</strong>, since about step 20: {MONITORED[name].description} was " in answer.text
    assert "<b>What to do:</b> compare edits of the last steps" in answer.text
    assert f"alarm: {name}" in answer.text
    assert len(re.findall(r'<polyline class="line0" points="[\d., ]{100,}"', answer.text)) >= 5


def colourful() -> Reward:
    rule = lambda query: Measurement(image_statistics(query.image)["saturation"])  # noqa: E731
    return Reward(Rated(), {"preference": Fake(rule)}, on_failures="none")


def test_what_hacks_would_pay_is_on_the_page_and_in_the_metrics():
    reward = colourful()
    monitor = StepMonitor(64, probe=AuditProbe(reward, every=2, samples=2), name="mine")
    with serving({"mine": reward}, monitors={"mine": monitor}) as (url, _):
        train(url, monitor, None, 12)
        metrics = numbers(httpx2.get(f"{url}/metrics").text)
        page = httpx2.get(f"{url}/monitor").text
    probed = [step for step, numbers in monitor.history if "hack/best" in numbers]
    assert probed == [0, 2, 4, 6, 8, 10]
    assert metrics['editcritic_monitor_value{quantity="hack/over-saturated",reward="mine"}'] > 0.05
    assert metrics['editcritic_monitor_value{quantity="hack/blank",reward="mine"}'] < 0
    assert metrics['editcritic_monitor_alarms_total{name="hack/over-saturated",reward="mine"}'] == 1
    assert metrics['editcritic_monitor_probe_failures_total{reward="mine"}'] == 0
    assert "<strong>hack/over-saturated</strong>, since about step 0: the hack over-saturated would gain 0." in page
    assert "Gain of hacks over the policy&#39;s best edits; above 0 they pay" in page
    table = page[page.index("What hacks would gain") : page.index("numbers of the last step")]
    rows = re.findall(
        r'<tr( class="pays")?><th scope="row">(.*?)</th><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td>', table
    )
    assert len(rows) == 11
    latest = [float(row[3]) for row in rows]
    assert latest == sorted(latest, reverse=True)
    assert [bool(row[0]) for row in rows] == [value > 0 for value in latest]
    assert {row[1] for row in rows} >= {"best hack of each edit", "over-saturated", "unchanged-source"}
    assert "alarm: hack/over-saturated" in page
    curves = re.findall(r'<polyline class="line[012]" points="([\d., ]+)"', page[page.index("Gain of hacks") :])
    assert max(len(curve.split()) for curve in curves) == 6  # one curve over the steps that were probed


def test_each_reward_has_a_monitor_of_its_own_and_some_have_none():
    monitor = StepMonitor(8)
    edits = [sample(str(row), edited=picture(row)) for row in range(8)]
    with serving({"mine": reward(), "eval": reward()}, monitors={"mine": monitor}) as (url, _):
        with closing(RemoteReward(url, reward="eval")) as other:
            other(edits)
        assert monitor.steps == 0
        with closing(RemoteReward(url, reward="mine")) as mine:
            mine(edits)
        eventually(lambda: len(monitor.history) >= 1)
    with pytest.raises(ValueError, match="no reward 'none' to monitor: served are mine"):
        ScoringService({"mine": reward()}, monitors={"none": monitor})


def test_a_request_that_is_repeated_counts_once():
    monitor = StepMonitor(8)
    with served(monitor) as (url, service):
        for key, count in (("a", 4), ("a", 4), ("b", 4)):
            edits = [sample(str(row), edited=picture(row)) for row in range(count)]
            body = attach_images({**request_json(edits), "key": key}, images_by_digest(edits))
            assert httpx2.post(f"{url}/v1/score", json=body).status_code == 200
            assert monitor.steps == (key == "b")
        eventually(lambda: len(monitor.history) >= 1)
        assert 'editcritic_samples_total{status="replayed"} 4.0' in service.metrics.text().decode()


def test_scoring_does_not_wait_for_a_held_out_reward_and_steps_are_dropped():
    asked, release = threading.Event(), threading.Event()

    def slow(samples: Sequence[EditSample]) -> list[Score]:
        asked.set()
        release.wait(60)
        return [Score.of(0.5)] * len(samples)

    monitor = StepMonitor(8, heldout=slow)
    edits = [sample(str(row), edited=picture(row)) for row in range(80)]
    with served(monitor) as (url, service):
        with closing(RemoteReward(url)) as remote:
            scores = list(remote(edits[:8]))
            asked.wait(60)
            scores += remote(edits[8:])
        assert all(score.status == "scored" for score in scores)
        assert (monitor.steps, monitor.dropped) == (10, 8)
        assert service.samples.used == 0
        release.set()
        eventually(lambda: len(monitor.history) >= 2)
        page = httpx2.get(f"{url}/monitor").text
    assert "10 steps of 8 edits; 8 of them not observed, since the one before took too long" in page


def test_an_exception_of_the_monitor_reaches_no_client(monkeypatch):
    monitor = StepMonitor(8)
    monkeypatch.setattr(RewardHackingMonitor, "observe", lambda *_: 1 / 0)
    with served(monitor) as (url, _), closing(RemoteReward(url)) as remote:
        for start in range(3):
            scores = remote([sample(str(row), edited=picture(100 * start + row)) for row in range(8)])
            assert all(score.status == "scored" for score in scores)


def test_images_of_a_step_are_bounded_by_their_bytes():
    monitor = StepMonitor(64)
    pixels = np.zeros((2048, 2048, 3), np.uint8)
    images = [Image.of(pixels), Image.of(pixels + 1)]
    for row in range(63):
        monitor.collect(sample(str(row), sources=(images[0],), edited=images[1], group=str(row // 4)), Score.of(0.5))
    assert len(monitor._kept.items()) == 10  # of 24 MiB each
    assert monitor._kept_bytes == 10 * 2 * pixels.size


def test_the_page_runs_nothing_loads_nothing_and_escapes_names():
    monitor = StepMonitor(8)
    monitor.add([sample(str(row), edited=picture(row)) for row in range(8)], [Score.of(0.5)] * 8)
    monitor.monitor.alarms += [Alarm(0, "difference", -9.0, 3.0, f"{row} <img src=x> & more") for row in range(60)]
    page = monitor_page({'<script>alert("x")</script>': monitor})
    assert "<script" not in page
    assert "<img" not in page
    assert "59 &lt;img src=x&gt; &amp; more" in page
    assert "and 10 earlier ones" in page
    assert not re.search(r"https?://|src=[\"']|href=|url\(|@import|\son\w+=", page.replace("src=x", ""))
    assert "the baseline needs" not in page
    monitor.monitor.alarms.clear()
    assert "the baseline needs 19 more steps" in monitor_page({"a": monitor})


def test_the_page_of_no_step_and_of_one_step_are_pages():
    assert "No alarm yet: the baseline needs 20 more steps" in monitor_page({"a": StepMonitor(8)})
    monitor = StepMonitor(8, heldout=lambda samples: [])
    monitor.add([sample(str(row), edited=picture(row)) for row in range(8)], [Score.abstained("who knows")] * 8)
    page = monitor_page({"a": monitor})
    assert "1 step of 8 edits; the held-out reward failed 1 time; no probe of hacks (" in page
    assert "nan" not in page.lower()


def test_the_page_is_only_for_who_has_the_token():
    with served(StepMonitor(8), token=TOKEN) as (url, _):
        refused = httpx2.get(f"{url}/monitor")
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Basic realm=")
        assert httpx2.get(f"{url}/metrics").headers["www-authenticate"] == "Bearer"
        basic = "Basic " + base64.b64encode(f"any:{TOKEN}".encode()).decode()
        for authorization in (basic, f"Bearer {TOKEN}"):
            answer = httpx2.get(f"{url}/monitor", headers={"authorization": authorization})
            assert answer.status_code == 200
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            assert answer.headers["content-security-policy"].startswith("default-src 'none';")
        # A browser that was given the token sends it with requests of other pages, too.
        for foreign in ({"origin": "http://elsewhere.example"}, {"sec-fetch-site": "cross-site"}):
            answer = httpx2.get(f"{url}/monitor", headers={"authorization": basic, **foreign})
            assert answer.status_code == 403
            answer = httpx2.post(f"{url}/v1/score", headers={"authorization": basic, **foreign}, content=b"{}")
            assert answer.status_code == 403
        same = {"authorization": basic, "sec-fetch-site": "same-origin"}
        assert httpx2.get(f"{url}/monitor", headers=same).status_code == 200


def test_a_server_without_a_monitor_says_how_to_have_one():
    with served(None) as (url, _):
        answer = httpx2.get(f"{url}/monitor")
        assert answer.status_code == 404
        assert "start the server with --monitor" in answer.json()["error"]
        assert "editcritic_monitor" not in httpx2.get(f"{url}/metrics").text
