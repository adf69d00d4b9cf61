"""What the page of `editcritic app` starts with, and what its tabs share: the rewards, with one store of answers."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ...reward import AnswerLog, EditSample, Engine, Expert, Reward, Scores, default_experts, load_experts
from ...reward.queries import Abstention, Failure
from ...reward.queries.answers import Outcome
from ...reward.queries.kinds import Query
from ..common.inputs import load_reward, spec_argument
from ..human_eval.annotation_session import AnnotationSession
from ..inspection.model_requirements import ModelRequirements, model_requirements
from .open_files import OpenFiles

NOT_RECORDED = "this needs an answer that no expert has given yet: score again with these thresholds"


class RecordedOnly(Expert):
    """An expert whose answers come from the log, and who is never asked."""

    kinds: ClassVar[tuple[type[Query[Any]], ...]] = tuple(Query.__subclasses__())

    def __init__(self, expert: Expert) -> None:
        self.id = expert.id
        self._expert = expert

    def __call__(self, queries: Sequence[Query[Any]]) -> Sequence[Outcome]:
        return [Failure(NOT_RECORDED)] * len(queries)

    def rewrite_query(self, query: Query[Any], sample: EditSample | None) -> Query[Any] | Abstention:
        """As the expert would."""
        return self._expert.rewrite_query(query, sample)


class Scorers:
    """cache: the answer log of all scores, kept for the next start; None: one that is removed in the end. Thread-safe.
    Raises what `AnswerLog` raises for a file that is none."""

    def __init__(self, cache: Path | None = None) -> None:
        self._stack = ExitStack()
        if cache is None:
            cache = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="editcritic-"))) / "answers"
        self.log = self._stack.enter_context(AnswerLog(cache))
        self._lock = threading.Lock()
        self._experts: dict[str, Mapping[str, Expert]] = {}
        self._engines: dict[str, Engine] = {}
        self._plans: dict[str, ModelRequirements] = {}

    def plan(self, experts: str) -> ModelRequirements:
        """What these experts would load. Raises `SpecError`."""
        with self._lock:
            if experts not in self._plans:
                self._plans[experts] = model_requirements([experts])
            return self._plans[experts]

    def reward(self, spec: str, experts: str, **options: Any) -> Reward:
        """The reward, on experts and an engine that are shared by all with the same `experts`. options: of the metric.
        Raises `InputError` and `SpecError`."""
        with self._lock:
            bound = self._bound(experts)
            return load_reward(
                spec_argument(spec), engine=self._engines[experts], experts=bound, on_failures="none", **options
            )

    def rescored(self, spec: str, experts: str, samples: Sequence[EditSample], **options: Any) -> Scores:
        """Scores from answers that are in the log: no expert is asked, and a score that needs more fails. options: of
        the metric. Raises `InputError` and `SpecError`."""
        with self._lock:
            recorded = {role: RecordedOnly(expert) for role, expert in self._bound(experts).items()}
        with Engine(log=self.log, breaker=2**31) as engine:
            return load_reward(spec_argument(spec), engine=engine, experts=recorded, on_failures="none", **options)(
                samples
            )

    def close(self) -> None:
        """End the engines' threads, and close the log."""
        self._stack.close()

    def _bound(self, experts: str) -> Mapping[str, Expert]:
        if experts not in self._engines:
            self._experts[experts] = load_experts([experts], default_experts())
            self._engines[experts] = self._stack.enter_context(Engine(log=self.log))
        return self._experts[experts]


@dataclass(frozen=True, slots=True)
class AppSettings:
    """files: what may be opened beside uploads. scorers: builds rewards, with one store of answers. reward, experts:
    specs, chosen at the start. session: the questions of the tab "Label", or None for those that are chosen on the
    page."""

    files: OpenFiles = field(default_factory=OpenFiles)
    scorers: Scorers = field(default_factory=Scorers)
    reward: str = "any-edit"
    experts: str = "cpu"
    session: AnnotationSession | None = None

    @property
    def folder(self) -> str | None:
        """Where the page's files are written, which are removed in the end; None while it is not served."""
        return os.environ.get("GRADIO_TEMP_DIR")
