"""Reward: a metric bound to experts, callable on a batch. The only scorer of trainers, pipelines and benchmarks."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import closing, suppress
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from .base_reward import BaseReward
from .boxes import boxes_of_corners
from .card import Card
from .config import ExpertBindings, build, expert_specs, load_experts
from .engine.answer_log import AnswerLog
from .engine.engine import Engine
from .forks import ForkSafeLock
from .image import Image
from .metrics.compose import Metric, score_with_signature
from .queries.expert import Expert, unbound_roles, unsuitable_experts
from .queries.identity import metric_digest, reward_identity
from .queries.specs import Spec, SpecError, spec_of
from .retry import OUTAGE, FailureWindow, Outage, failed_rows
from .sample import EditSample
from .score import Score, Scores

OnFailures = Literal["raise", "none", "wait"]
_REWARD_OPTIONS = ("log", "max_in_flight", "max_failure_rate", "on_failures", "outage_timeout_s")
_POLL_S = 0.1  # how often a reward that waits looks whether its time is over


class TooManyFailures(RuntimeError):
    """More scores failed than `max_failure_rate` allows, or an outage was longer than `outage_timeout_s`.

    Args:
        scores: Those computed so far, in order, after an outage one for each sample of the call; from a stream, which
            has yielded the others, only the last one.
    """

    def __init__(self, message: str, scores: Sequence[Score]) -> None:
        super().__init__(message)
        self.scores = tuple(scores)

    def __reduce__(self) -> tuple[Any, ...]:  # workers return it to the main process
        return TooManyFailures, (str(self), self.scores)


class Reward(BaseReward):
    """A metric or composition bound to experts.

    Args:
        metric: See `compose.Metric`.
        experts: Role -> expert (`judge` also serves `judge.quality`); default: experts that need no download.
        engine: Rewards that share an engine share answers; by default created on first use, with `log` (stores answers
            on disk) and `max_in_flight` (samples in flight).
        max_failure_rate: Tolerated fraction of failures among the last 64 scores (at least 16).
        on_failures: What happens above that rate. `raise`: `TooManyFailures` with the scores so far. `none`: continue;
            failed values are None. `wait`: every failed sample is asked again once, at once. While more than
            `max_failure_rate` have failed (of a call with fewer than 16 samples, of these, for reasons of
            infrastructure), samples are asked again after pauses that grow from 1 to 15 s, for `outage_timeout_s`,
            counted from the first failure, of the call. Then `TooManyFailures`; a call has all scores in it.

    Raises:
        ValueError: For a role of the card without an expert, and for an expert that neither answers nor adapts the
            kinds of queries that the card names for its role; one that does not say what it accepts is believed
            (`queries.expert.accepted_kinds`).
    """

    def __init__(
        self,
        metric: Metric,
        experts: Mapping[str, Expert] | None = None,
        *,
        engine: Engine | None = None,
        log: AnswerLog | None = None,
        max_in_flight: int = 256,
        max_failure_rate: float = 0.5,
        on_failures: OnFailures = "raise",
        outage_timeout_s: float = 3600.0,
    ) -> None:
        if not 0 <= max_failure_rate <= 1:
            raise ValueError(f"max_failure_rate is a fraction in [0, 1], got {max_failure_rate}")
        if on_failures not in ("raise", "none", "wait"):
            raise ValueError(f"on_failures is 'raise', 'none' or 'wait', got {on_failures!r}")
        self.metric = metric
        self.experts = dict(default_experts() if experts is None else experts)
        if unbound := unbound_roles(self.experts, metric.card.roles):
            raise ValueError(
                f"{metric.card.name} needs experts for {', '.join(unbound)}, but experts are bound to "
                f"{', '.join(sorted(self.experts)) or 'no role'} only: bind one to each, or add yours to those that "
                "need no download, as in {**default_experts(), 'judge': judge}"
            )
        if unsuitable := unsuitable_experts(self.experts, metric.card.kinds):
            raise ValueError(
                f"{metric.card.name} cannot be scored with these experts: {'; '.join(unsuitable.values())}"
            )
        self.max_failure_rate = max_failure_rate
        self.on_failures: OnFailures = on_failures
        self.outage_timeout_s = outage_timeout_s
        self._max_in_flight = max_in_flight
        self._log = log
        self._engine = engine
        self._window = FailureWindow(max_failure_rate)
        self._outage = Outage(metric.card.name, outage_timeout_s)
        self._engine_lock = ForkSafeLock()
        self._own_identity = uuid.uuid4().hex
        self._metric_identity = _identity_of(metric)  # now: files of its options may change

    @staticmethod
    def of(
        spec: Spec, experts: ExpertBindings | None = None, *, engine: Engine | None = None, **options: Any
    ) -> Reward:
        """Build a reward from a spec (see `queries.specs`), as in `Reward.of("edival-if", protocol="official")`.

        Options named like an argument of `Reward` (log, max_in_flight, max_failure_rate, on_failures,
        outage_timeout_s) are passed to it, the others to the metric. Raises `SpecError`.

        Args:
            experts: See `load_experts`.
        """
        reward_options = {key: options.pop(key) for key in _REWARD_OPTIONS if key in options}
        if isinstance(spec, Mapping) and "reward" in spec:
            experts = experts if experts is not None else spec.get("experts")
            spec = spec["reward"]
        metric = build(spec, **options)
        if not hasattr(metric, "card"):
            raise SpecError(f"{spec!r} is not a metric: it has no card")
        bound = None if experts is None else load_experts(experts)
        return Reward(metric, bound, engine=engine, **reward_options)

    @property
    def spec(self) -> dict[str, Any]:
        """A plain table from which `Reward.of` builds the same reward: for servers, workers and result files."""
        return {
            "reward": spec_of(self.metric),
            "experts": {role: spec_of(expert) for role, expert in self.experts.items()},
        }

    def __reduce__(self) -> tuple[Callable[..., Reward], tuple[Any, ...]]:
        options = {
            "max_in_flight": self._max_in_flight,
            "max_failure_rate": self.max_failure_rate,
            "on_failures": self.on_failures,
            "outage_timeout_s": self.outage_timeout_s,
        }
        try:
            return _rebuild, (self.spec, options)
        except SpecError as error:
            raise SpecError(
                f"a reward is pickled as its spec, and there is {error}: give that, or what it is given itself, as a "
                "spec, such as `my_module:MyExpert`"
            ) from None

    @cached_property
    def card(self) -> Card:
        return self.metric.card

    @property
    def expert_ids(self) -> dict[str, str]:
        return {role: expert.id for role, expert in self.experts.items()}

    @property
    def used_experts(self) -> dict[str, Expert]:
        """The experts of the roles in the card, by role; others may be bound, too."""
        bases = {role.partition(".")[0] for role in self.card.roles}
        return {role: expert for role, expert in self.experts.items() if role.partition(".")[0] in bases}

    @property
    def identity(self) -> str:
        """See `BaseReward.identity`. Of the experts, it has those of the roles in the card. That of a metric without a
        spec is this object's alone: see `is_repeatable`.

        Raises what an expert raises whose id cannot be determined, such as `ExpertDown`.
        """
        ids = {role: expert.id for role, expert in self.used_experts.items()}
        return reward_identity(self._metric_identity or self._own_identity, ids)

    @property
    def is_repeatable(self) -> bool:
        """Whether another process can have an equal reward, so that scores may be kept for it."""
        return bool(self._metric_identity)

    @property
    def engine(self) -> Engine:
        """The engine that runs it; made with the first call where none was given."""
        with self._engine_lock:  # a server's threads may call at once
            if self._engine is None or not self._engine.is_open:
                self._engine = Engine(window=self._max_in_flight, log=self._log)
            return self._engine

    def __call__(self, samples: Iterable[EditSample]) -> Scores:
        """Score a batch. Results are in the order of the samples, regardless of the order of execution. Raises
        ValueError, before any query, where samples lack fields that the metric requires, and names them;
        `TooManyFailures` by `on_failures`.
        """
        batch = list(samples)
        self.validate(batch)
        before = self.engine.stats()
        start, call_start = time.perf_counter(), time.monotonic()
        scores: list[Score] = []
        try:
            for score in self._stream(batch, call_start, to_the_end=True):
                scores.append(score)  # noqa: PERF402  (partial scores are needed if it raises)
        except TooManyFailures as error:
            raise TooManyFailures(str(error), [*scores, *error.scores]) from None
        if self.on_failures == "wait":
            rows = failed_rows(scores, infrastructure=True)
            if rows and self._outage.ended_at >= call_start:  # they failed while it lasted
                self._ask_again(batch, scores, rows, call_start)
                rows = failed_rows(scores, infrastructure=True)
            if rows and (len(rows) > self.max_failure_rate * len(batch) or self._is_down()):
                self._wait_for_recovery(batch, scores, rows, call_start)
                if (rows := failed_rows(scores, infrastructure=True)) and self._remaining(call_start) <= 0:
                    raise self._still_failing(scores[rows[-1]], scores)
            if not failed_rows(scores):
                self._outage.end()
        stats = self.engine.stats().since(before)
        stats["seconds"] = round(time.perf_counter() - start, 4)
        return Scores(tuple(scores), tuple(sample.id for sample in batch), stats, self.known_signature)

    def stream(self, samples: Iterable[EditSample]) -> Iterator[Score]:
        """Yield scores in order. Samples are consumed lazily, so their number is unbounded."""
        return self._stream(samples, time.monotonic(), to_the_end=False)

    def submit(self, sample: EditSample, *, is_wanted: Callable[[], bool] | None = None) -> Future[Score]:
        """Start scoring one sample, without retries, and return the future of its score; see `Engine.submit`."""
        program = score_with_signature(self.metric, sample, self.card)
        return self.engine.submit(program, self.experts, sample, is_wanted=is_wanted)

    def _stream(self, samples: Iterable[EditSample], call_start: float, *, to_the_end: bool) -> Iterator[Score]:
        """to_the_end: after an outage, what has no score fails, and nothing is raised."""
        waits = self.on_failures == "wait"
        in_flight: deque[EditSample] = deque()  # only with `wait`, where a failed sample may be retried

        def programs() -> Iterator[tuple[Any, EditSample]]:
            for sample in samples:
                if waits:
                    in_flight.append(sample)
                yield score_with_signature(self.metric, sample, self.card), sample

        gave_up = (lambda: self._remaining(call_start) <= 0) if waits else None
        # Closed explicitly: a traceback may keep the generator alive for long.
        with closing(self.engine.run(programs(), self.experts, gave_up)) as scores:
            for score in scores:
                scored = [score]
                sample = [in_flight.popleft()] if waits else []
                if score.status == "failed" and waits:
                    self._ask_again(sample, scored, [0], call_start)
                self._window.add(scored[0])
                if scored[0].status == "failed" and self._window.exceeded:
                    if self.on_failures == "raise":
                        raise TooManyFailures(self._window.reset_with_reason(score), scored)
                    if waits:
                        self._wait_for_recovery(sample, scored, [0], call_start)
                        if scored[0].status != "failed":
                            self._window.forgive()
                        elif not to_the_end:
                            raise self._still_failing(scored[0], scored)
                yield scored[0]

    def _still_failing(self, score: Score, scores: Sequence[Score]) -> TooManyFailures:
        self._window.clear()
        return TooManyFailures(f"still failing after {self.outage_timeout_s:g} s: {score.reason}", scores)

    def waiting(self, outage_timeout_s: float) -> Reward:
        return self._with("wait", outage_timeout_s)

    def without_failure_limit(self) -> Reward:
        return self._with("none", self.outage_timeout_s)

    def _with(self, on_failures: OnFailures, outage_timeout_s: float) -> Reward:
        return Reward(
            self.metric,
            self.experts,
            engine=self.engine,
            max_failure_rate=self.max_failure_rate,
            on_failures=on_failures,
            outage_timeout_s=outage_timeout_s,
        )

    def offload(self) -> None:
        """Offload expert weights to the CPU; the next query to an expert loads them back.

        Waits for batches in flight, also those of a call that ended with an exception. Cached answers are kept.
        Experts without a method `offload` (served models, algorithms on pixels) are skipped.
        """
        if self._engine is not None:
            self._engine.wait_for_cancelled()
        for expert in {id(expert): expert for expert in self.experts.values()}.values():
            offload = getattr(expert, "offload", None)
            if callable(offload):
                offload()

    def _wait_for_recovery(
        self, samples: Sequence[EditSample], scores: list[Score], rows: list[int], call_start: float
    ) -> None:
        """Ask the samples of these rows again until one is scored, or the time is over. Cached answers cost nothing, so
        only failed queries are repeated.
        """
        retries = 0
        since = self._failing_since(call_start)
        while (remaining := self._remaining(call_start)) > 0:
            self._outage.begin(scores[rows[-1]].reason, call_start, since)
            time.sleep(min(OUTAGE.pause(retries), remaining))
            retries += 1
            for expert in self.experts.values():
                self.engine.try_circuit(expert)
            self._ask_again(samples, scores, rows, call_start)
            failed = [row for row in rows if scores[row].status == "failed"]
            if len(failed) < len(rows):
                self._outage.end()
            if len(failed) <= self.max_failure_rate * len(rows):
                return
            rows = failed

    def _ask_again(
        self, samples: Sequence[EditSample], scores: list[Score], rows: Sequence[int], call_start: float
    ) -> None:
        if self._remaining(call_start) <= 0:
            return
        wanted = threading.Event()
        wanted.set()
        futures = [self.submit(samples[row], is_wanted=wanted.is_set) for row in rows]
        pending = set(futures)
        while pending and self._remaining(call_start) > 0:
            pending = wait(pending, timeout=_POLL_S).not_done
        wanted.clear()
        for row, future in zip(rows, futures, strict=True):
            if future not in pending:
                scores[row] = future.result()

    def _is_down(self) -> bool:
        with suppress(Exception):  # the id of an expert that is down may not be known
            return not self.engine.down_experts().keys().isdisjoint(self.expert_ids.values())
        return True

    def _failing_since(self, call_start: float) -> float | None:
        """Since when an expert's server has given no answer but errors; it may be asking again itself."""
        times = [since for expert in self.experts.values() if (since := expert.failing_since(call_start)) is not None]
        return min(times, default=None)

    def _remaining(self, call_start: float) -> float:
        return self._outage.remaining(call_start, self._failing_since(call_start))


def _identity_of(metric: Metric) -> str:
    """The digest of a metric; empty if no other process can have an equal one."""
    try:
        return metric_digest(metric)
    except Exception:  # noqa: BLE001  (whatever its attributes raise, it can be scored with)
        return ""


def default_experts() -> dict[str, Expert]:
    """Experts without weights to download, those of the bundle `cpu`: annotated boxes tracked by matching, OCR from its
    wheel, colours, pixels, a planner.

    They abstain on other queries: materials, backgrounds, objects without a box, judge queries about anything but
    colours, plans of sentences that are not clear in every word, and all segmenter queries.
    """
    return load_experts("cpu")


def score(
    source: object,
    edited: object,
    instruction: str,
    *,
    reward: Spec | BaseReward = "any-edit",
    experts: ExpertBindings | None = None,
    boxes: Mapping[str, Sequence[Sequence[float]]] | None = None,
    **fields: Any,
) -> Score:
    """Score one edit.

    Args:
        source: Any input of `Image.of`.
        edited: Any input of `Image.of`.
        experts: A bundle such as `small`, or any input of `load_experts`; by default those that need no download, or
            the reward's own. Weights of the last bundle or line stay loaded; give a `Reward` to hold several.
        boxes: Objects of the source as pixel corners, name -> [(x0, y0, x1, y1), ...].
        fields: Any other field of `EditSample`.

    Raises:
        ImageError: With what to do.
        SpecError: With what to do.
        ValueError: With what to do.
    """
    before = Image.of(source)
    box_fractions = {name: boxes_of_corners(name, corners, before.size) for name, corners in (boxes or {}).items()}
    fields.setdefault("id", "edit")
    sample = EditSample(
        instruction=instruction, sources=(before,), edited=Image.of(edited), boxes=box_fractions, **fields
    )
    return _bound_reward(reward, experts)([sample])[0]


def _bound_reward(reward: Spec | BaseReward, experts: ExpertBindings | None) -> BaseReward:
    if isinstance(reward, BaseReward):
        if experts is not None:
            raise ValueError("a built reward has its experts: give them to it, as in Reward.of('any-edit', 'small')")
        return reward
    if not isinstance(reward, str):
        return Reward.of(reward, experts)
    if experts is None:
        return _cached_reward(reward)
    if not isinstance(experts, str | Path):
        return Reward.of(reward, experts, on_failures="none")
    # By what it means now: a file or an address may have changed.
    bound, rewards = _last_experts(str(experts), json.dumps(expert_specs(experts), sort_keys=True, default=id))
    if reward not in rewards:
        rewards[reward] = Reward.of(reward, bound, on_failures="none")
    return rewards[reward]


@cache
def _cached_reward(spec: str) -> Reward:
    return Reward.of(spec, on_failures="none")


@lru_cache(maxsize=1)  # weights of several bundles may not fit
def _last_experts(experts: str, meaning: str) -> tuple[dict[str, Expert], dict[str, Reward]]:
    """The experts of a line, and the rewards that have been bound to them, by name. meaning: tells changes of it."""
    return load_experts(experts), {}


def _rebuild(spec: dict[str, Any], options: dict[str, Any]) -> Reward:
    return Reward.of(spec, **options)
