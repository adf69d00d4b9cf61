"""Instructions that are long, or hard to parse, through a server: the answer comes at once, and others are served."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import numpy as np
import pytest

from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.integrations.serving.http_protocol import attach_images, images_by_digest, request_json
from editcritic.reward import Box, EditSample, Reward

from ...reward.fakes import picture
from .served import serving

REWARDS = ("any-edit", "edival-if")
QUOTES = 'replace the text "a" on a'
ATTACKS = {
    "quotes": QUOTES + ' with "b" on c' * 300,
    "blanks": "add" + " " * 7_990 + "x",
    "places": "move a " + "on the left of " * 800 + "\n",
}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx2.Client]:
    rewards = {name: Reward.of(name, scene_experts()) for name in REWARDS}
    with serving(rewards) as (url, _), httpx2.Client(base_url=url, timeout=120) as client:
        yield client


def post(client: httpx2.Client, reward: str, instruction: str, **row: Any) -> httpx2.Response:
    sample = EditSample("a", "make it blue", (picture(1, 32, 32),), picture(2, 32, 32))
    body = attach_images(request_json([sample], reward=reward), images_by_digest([sample]))
    body["samples"][0] |= {"instruction": instruction, **row}
    return client.post("/v1/score", json=body)


@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_an_instruction_that_is_hard_to_parse_freezes_nobody(client, reward, attack):
    with ThreadPoolExecutor(4) as threads:
        long = threads.submit(post, client, reward, attack + "x" * max(0, 11_000 - len(attack)))
        short = threads.submit(post, client, reward, attack[:3_999])
        health = [threads.submit(client.get, "/healthz") for _ in range(20)]
        assert {answer.result().status_code for answer in health} == {200}
        assert long.result().status_code == 413
        assert "characters, and at most 4,000 are allowed: shorten it" in long.result().json()["error"]
        (score,) = short.result().json()["scores"]
    assert score["status"] in ("scored", "abstained", "failed", "not_applicable")


@pytest.mark.parametrize("reward", REWARDS)
def test_as_many_labels_as_are_allowed_are_scored(client, reward):
    labels = {f"cup {number} " + "a " * 90: [[*np.random.default_rng(number).random(4), 1.0]] for number in range(256)}
    assert all(Box(*box[0]) for box in labels.values())
    answer = post(client, reward, "Remove the cup", fractions=labels)
    assert answer.status_code == 200
    assert (
        post(client, reward, "Remove the cup", fractions=labels | {"dog": [[0.5, 0.5, 0.1, 0.1, 1.0]]}).status_code
        == 413
    )
