"""The rewards of the page: built once for each choice, with one store of answers."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from ...reward import AnswerLog, Engine, Expert, Reward, default_experts, load_experts
from ..common.inputs import load_reward, spec_argument
from ..inspection.load_plan import LoadPlan, plan_load


class Scorers:
    """log: keeps all answers on disk. names: the rewards and experts that were named at the start, beside the installed
    ones: only these may be modules or addresses. Thread-safe.
    """

    def __init__(self, log: AnswerLog | None = None) -> None:
        self.log = log
        self._lock = threading.Lock()
        self._experts: dict[str, Mapping[str, Expert]] = {}
        self._engines: dict[str, Engine] = {}
        self._plans: dict[str, LoadPlan] = {}

    def plan(self, experts: str) -> LoadPlan:
        """What these experts would load. Raises `SpecError`."""
        with self._lock:
            if experts not in self._plans:
                self._plans[experts] = plan_load([experts])
            return self._plans[experts]

    def reward(self, spec: str, experts: str, **options: Any) -> Reward:
        """The reward, on experts and an engine that are shared by all with the same `experts`. options: of the metric.

        Raises `InputError` and `SpecError`.
        """
        with self._lock:
            if experts not in self._engines:
                self._experts[experts] = load_experts([experts], default_experts())
                self._engines[experts] = Engine(log=self.log)
            return load_reward(
                spec_argument(spec),
                engine=self._engines[experts],
                experts=self._experts[experts],
                on_failures="none",
                **options,
            )

    def close(self) -> None:
        """End the engines' threads."""
        with self._lock:
            for engine in self._engines.values():
                engine.close()
            self._engines.clear()
