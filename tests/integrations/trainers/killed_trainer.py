"""A trainer that is killed while its call is in flight, and started again.

def trainer_step(url: str) -> list[float]:  # module level; builds the trainer's calling code, and calls once
    return restated_step(TrainerReward(url), batch())

values, asked = killed_and_restarted(f"{__name__}:trainer_step", Judge())
assert (values, asked) == (values_of(batch()), 16)
"""

import importlib
import json
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from editcritic.reward.queries.answers import Outcome
from editcritic.reward.queries.kinds import Query

from ..prepared_processes import TrainerProcess
from ..serving.served import PATIENCE_S, eventually, idle, serving
from .trainer_cases import Judge


def killed_and_restarted(
    step: str, judge: Judge, protocol: str = "", *, hold: Callable[[Any], bool] = lambda query: True
) -> tuple[Any, int]:
    """What `step` (`module:function`) returns at its second start, and the number of questions that the judge was asked
    in both: as many as there are images, if no answer was lost.

    The judge holds the first batch with a question of which `hold` is true. The child is killed, with its own children,
    while it waits, the judge goes on, the server forgets the call, and the child is started again. Asserts that nothing
    of both calls is left, and the server's threads end.
    """
    threads = {thread.ident for thread in threading.enumerate()}
    held, go_on, answer = threading.Event(), threading.Event(), judge.expert.rule

    def answer_when_allowed(query: Query[Any]) -> Outcome:
        if hold(query):
            held.set()
            assert go_on.wait(2 * PATIENCE_S), "the judge was held for too long"
        outcome: Outcome = answer(query)
        return outcome

    judge.expert.rule = answer_when_allowed
    with serving(judge.reward(), protocol) as (url, service), tempfile.TemporaryDirectory() as folder:
        results = [Path(folder, name) for name in ("killed.json", "restarted.json")]
        try:
            with closing(Child(step, url, results[0])) as child:
                eventually(lambda: held.is_set() or child.process.ended, "the judge is asked")
                assert held.is_set(), child.log.read_text()
                assert service.in_flight > 0
        finally:
            go_on.set()
        assert not results[0].exists()
        eventually(lambda: idle(service), "the server forgets the call of the killed trainer")
        with closing(Child(step, url, results[1])) as child:
            assert child.process.wait(2 * PATIENCE_S) is not None
            assert results[1].exists(), child.log.read_text()
        eventually(lambda: idle(service), "the server forgets the call of the restarted trainer")
        values = json.loads(results[1].read_text())

    def own_threads() -> list[threading.Thread]:
        return [one for one in threading.enumerate() if one.ident not in threads and one.name.startswith("editcritic")]

    eventually(lambda: not own_threads(), "the server's threads end")
    return values, sum(judge.batches)


class Child:
    """A process that runs the step, and leaves its result."""

    def __init__(self, step: str, url: str, result: Path) -> None:
        self.log = result.with_suffix(".log")
        self.process = TrainerProcess(f"{__name__}:run_step", step, url, str(result), log=self.log)
        self.close = self.process.kill


def run_step(step: str, url: str, result_path: str) -> None:
    """What the child does."""
    module, _, function = step.partition(":")
    result = getattr(importlib.import_module(module), function)(url)
    partial = Path(result_path + ".partial")
    partial.write_text(json.dumps(result))
    partial.rename(result_path)
