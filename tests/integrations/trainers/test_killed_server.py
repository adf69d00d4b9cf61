"""A judge server that is killed while training runs: what each adapter gives its trainer, and when it is back."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from editcritic.integrations.diffusion_rl import diffusion_trainer
from editcritic.integrations.serving.client import RemoteReward
from editcritic.integrations.trainers.trainer_reward import TrainerReward, UnscoredError
from editcritic.reward import Reward
from tests.integrations.serving.processes import judge
from tests.integrations.trainers.entries import ENTRIES, TAKES_NONE, Entry, Row, Values, rows_of, samples_of
from tests.integrations.trainers.killed_trainer import killed_and_restarted
from tests.integrations.trainers.trainer_cases import Batch, Judge, batch, values
from tests.reward.fakes import Fake, Rated, known

NEEDS = ("torch",)

EDITS = batch(groups=2, group_size=2)
LATER = batch(groups=2, group_size=2, first=200)


def own_trainer(url: str, *, missing: str, **options: Any) -> Entry:
    trainer: Any = SimpleNamespace(
        reward=RemoteReward(url, on_failures="wait", **options),
        accelerator=SimpleNamespace(is_main_process=False),
        heldout=None,
        audit_probe=None,
    )

    def call(rows: Sequence[Row]) -> Values:
        scores = diffusion_trainer.DiffusionTrainer._score(trainer, SimpleNamespace(rows=samples_of(rows))).scores  # type: ignore[arg-type]
        return [score.value for score in scores]

    return call


def shared(url: str, **options: Any) -> Entry:
    reward = TrainerReward(url, **options)
    return lambda rows: reward(samples_of(rows)).values


ADAPTERS = {**ENTRIES, "own_trainer": own_trainer, "shared": shared}


@pytest.fixture(scope="module")
def steps() -> Iterator[dict[tuple[str, str], Any]]:
    """Adapters and what they gave before the server was killed; those with `wait` are called while it is down."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = str(unused.getsockname()[1])
    made: dict[tuple[str, str], Any] = {}
    with ExitStack() as servers, ThreadPoolExecutor(len(ADAPTERS)) as threads:
        url, process = servers.enter_context(judge("--port", port))
        for name, adapter in ADAPTERS.items():
            for mode in ("nan", "raise", "wait"):
                seconds = 60.0 if mode == "wait" else 0.4
                step = adapter(url, missing="nan" if mode == "wait" else mode, outage_timeout_s=seconds)
                made[name, mode] = step, step(rows_of(EDITS))
        process.kill()
        process.wait()
        for name in ADAPTERS:
            made[name, "nan"] = made[name, "nan"][1], _outcome(made[name, "nan"][0])
            made[name, "raise"] = made[name, "raise"][1], _outcome(made[name, "raise"][0])
        waiting = {name: threads.submit(_outcome, made[name, "wait"][0]) for name in ADAPTERS}
        time.sleep(0.3)  # so that they have begun
        assert not any(future.done() for future in waiting.values())
        servers.enter_context(judge("--port", port))
        for name, future in waiting.items():
            made[name, "wait"] = made[name, "wait"][1], future.result(60)
        yield made


def rated(edits: Batch) -> list[float | None]:
    return list(Reward(Rated(), {"preference": Fake(known)})(samples_of(rows_of(edits))).values)


def _outcome(step: Entry) -> Any:
    try:
        return step(rows_of(LATER))
    except Exception as error:  # noqa: BLE001  (what ends the run)
        return error


@pytest.mark.parametrize("name", ADAPTERS)
def test_nan_is_what_every_edit_without_a_score_has(steps, name):
    before, during = steps[name, "nan"]
    assert all(0 <= value <= 1 for value in before)
    assert len(during) == 4
    assert all(value is None if name in TAKES_NONE else math.isnan(value) for value in during)


@pytest.mark.parametrize("name", [name for name in ADAPTERS if name not in TAKES_NONE])
def test_raise_ends_the_run_and_names_the_edits(steps, name):
    before, during = steps[name, "raise"]
    assert all(0 <= value <= 1 for value in before)
    assert isinstance(during, UnscoredError)
    first = {"shared": "edit-0"}.get(name, "row0/0")
    assert f"{first}: failed" in str(during)
    assert "no response for 0.4 s" in str(during)


@pytest.mark.parametrize("name", ADAPTERS)
def test_a_server_that_is_back_in_time_scores_as_if_nothing_had_happened(steps, name):
    before, during = steps[name, "wait"]
    assert before == pytest.approx(rated(EDITS))
    assert during == pytest.approx(rated(LATER))


def score_batch(url: str) -> list[float]:
    return TrainerReward(url)(samples_of(rows_of(batch()))).values


def test_a_restarted_trainer_has_the_same_values_and_no_question_is_repeated():
    assert killed_and_restarted(f"{__name__}:score_batch", Judge()) == (values(batch()), 16)
