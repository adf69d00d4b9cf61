"""A trainer that is killed while its call is in flight, and started again.

    def trainer_step(url: str) -> list[float]:  # module level; builds the trainer's calling code, and calls once
        return restated_step(TrainerReward(url), batch())

    values, asked = killed_and_restarted(f"{__name__}:trainer_step", Judge())
    assert (values, asked) == (values_of(batch()), 16)

The step runs in a child process (`..prepared_processes`) against a judge server of this process, and returns what JSON
can hold. `add=` is given the server's app and service, as `add_trainer_protocols` takes them.
"""

import importlib
import json
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from editcritic.integrations.serving.server.app import create_app, serve_in_thread
from editcritic.integrations.serving.server.service import ScoringService
from editcritic.integrations.serving.server.settings import ServerConfig, ServerLimits
from editcritic.reward.queries.kinds import Outcome, Query

from ..prepared_processes import TrainerProcess
from .trainer_cases import Judge

TIMEOUT_S = 120.0


def killed_and_restarted(
    step: str,
    judge: Judge,
    *,
    add: Callable[[FastAPI, ScoringService], None] | None = None,
    limits: ServerLimits | None = None,
    hold: Callable[[Any], bool] = lambda query: True,
) -> tuple[Any, int]:
    """What `step` (`module:function`) returns at its second start, and the number of questions that the judge was asked
    in both: as many as there are images, if no answer was lost.

    The judge holds the first batch with a question of which `hold` is true: by default the first one. The child is
    killed (SIGKILL, with its own children) while it waits, the judge goes on, the server forgets the call, and the
    child is started again. Asserts that the server forgets both calls (nothing in flight, no capacity kept) and its
    threads end. Nothing waits for longer than `TIMEOUT_S`.
    """
    threads = {thread.ident for thread in threading.enumerate()}
    held, go_on = _hold(judge, hold)
    service = ScoringService(judge.reward(), limits=limits)
    settings = ServerConfig(port=0)
    app = create_app(service, settings)
    if add is not None:
        add(app, service)
    try:
        with serve_in_thread(service, settings, app) as url, tempfile.TemporaryDirectory() as folder:
            with _Child(step, url, Path(folder, "killed")) as child:
                _wait_until(lambda: held.is_set() or child.ended, "the judge is asked")
                assert held.is_set(), child.log
                assert service.in_flight > 0
                child.kill()
            assert not child.result.exists()
            go_on.set()
            _wait_until(lambda: _is_idle(service), "the server forgets the call of the killed trainer")
            with _Child(step, url, Path(folder, "restarted")) as child:
                _wait_until(lambda: child.ended, "the restarted trainer ends")
                assert child.result.exists(), child.log
                values = json.loads(child.result.read_text())
            _wait_until(lambda: _is_idle(service), "the server forgets the call of the restarted trainer")
    finally:
        go_on.set()
        service.close()
    _wait_until(lambda: not _threads_of_server(threads), "the server's threads end")
    return values, sum(judge.batches)


def _hold(judge: Judge, hold: Callable[[Any], bool]) -> tuple[threading.Event, threading.Event]:
    """Let the judge wait at a question. Returns the events that it waits there, and that it may go on."""
    held, go_on = threading.Event(), threading.Event()
    answer = judge.expert.rule

    def answer_when_allowed(query: Query[Any]) -> Outcome:
        if hold(query):
            held.set()
            assert go_on.wait(TIMEOUT_S), "the judge was held for too long"
        outcome: Outcome = answer(query)
        return outcome

    judge.expert.rule = answer_when_allowed
    return held, go_on


class _Child:
    """A process that runs the step. result: the file that it leaves."""

    def __init__(self, step: str, url: str, path: Path) -> None:
        self.result = path.with_suffix(".json")
        self._log = path.with_suffix(".log")
        self._process = TrainerProcess(f"{__name__}:run_step", step, url, str(self.result), log=self._log)

    def __enter__(self) -> "_Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def ended(self) -> bool:
        return self._process.ended

    @property
    def log(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        self._process.kill()


def _is_idle(service: ScoringService) -> bool:
    return not (service.in_flight or service.samples.used or service.bytes.used or service.active_requests)


def _threads_of_server(before: set[int | None]) -> list[threading.Thread]:
    return [
        thread
        for thread in threading.enumerate()
        if thread.ident not in before and thread.name.startswith("editcritic") and thread.is_alive()
    ]


def _wait_until(happened: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + TIMEOUT_S
    while not happened():
        assert time.monotonic() < until, f"waited {TIMEOUT_S:.0f} s: {what}"
        time.sleep(0.02)


def run_step(step: str, url: str, result_path: str) -> None:
    """What the child does."""
    module, _, function = step.partition(":")
    result = getattr(importlib.import_module(module), function)(url)
    partial = Path(result_path + ".partial")
    partial.write_text(json.dumps(result))
    partial.rename(result_path)
