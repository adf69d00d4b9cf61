"""A reward as trainers call it: failed samples are asked again, and each row has a number, or none, and parts to log.

    reward = TrainerReward("http://127.0.0.1:8321", missing="nan")
    batch = reward(build_samples(prompts, edited, sources))

A failed sample is asked again at once, and during an outage after growing pauses, for `outage_timeout_s` at most: by
the reward itself, and here of a callable. An edit without a score then has the lowest value of the reward's range, if
it abstained or was refused, since the edit itself may be the reason (`training_values`); and no value, which `missing`
is about, if infrastructure failed, the metric does not apply, or the row is no edit.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from statistics import fmean
from time import monotonic, perf_counter, sleep
from typing import Any, Final, Literal, get_args
from urllib.parse import parse_qsl

from ...reward import BaseReward, EditSample, Expert, Reward, Score, TooManyFailures
from ...reward.config import read_spec
from ...reward.queries.specs import Spec
from ...reward.retry import Outage, failed_rows, retry_rounds
from ...reward.training.advantages import AbstainedPolicy, training_values, without_score
from ...reward.training.audit_probe import AuditProbe
from ...reward.training.step_monitor import StepMonitor
from ..dataset_rows import score_usable
from ..rng_state import preserve_rng_state

ScoreFn = Callable[[Sequence[EditSample]], Sequence[Score]]
"""A `Reward`, a `RemoteReward`, or any callable with its signature."""

OnMissingScore = Literal["raise", "nan"]
"""How to treat an edit without a value if a trainer takes numbers only."""

LOGGED_PARTS: Final = ("following", "preservation", "guard")
"""The parts of a score that adapters log by default, as far as the reward has them (`Card.parts`)."""

_OPTIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "on_failures": str, "max_failure_rate": float, "outage_timeout_s": float,
}  # fmt: skip
_REMOTE_OPTIONS: Final[Mapping[str, Callable[[Any], Any]]] = {
    **_OPTIONS, "reward": str, "token_env": str, "image_encoding": str, "detail": str, "identity": str,
    "deadline_s": float, "timeout_s": float, "max_concurrency": int, "chunk_size": int,
}  # fmt: skip

_HELDOUT_DEADLINE_S = 60.0

_CHUNK_SIZE = 32
"""Samples in a request by default: few batches of judges, and 192 MiB for pictures of 1,024 px."""

OUTAGE_TIMEOUT_S: Final = 480.0
"""Less than the ten minutes after which NCCL ends the processes that wait for this one."""

_OUTAGE_RATE = 0.5
"""Of a callable: with more failures, a call waits, as a reward does with its `max_failure_rate`."""

log = logging.getLogger("editcritic.trainers")


class UnscoredError(RuntimeError):
    """Edits without a score, if the trainer cannot leave them out.

    Args:
        scores: Of all edits, in order.
    """

    def __init__(self, message: str, scores: Sequence[Score]) -> None:
        super().__init__(message)
        self.scores = tuple(scores)

    def __reduce__(self) -> tuple[Any, ...]:  # raised in worker processes
        return UnscoredError, (str(self), self.scores)


@dataclass(frozen=True, slots=True)
class TrainerScores:
    """A scored batch of N rows. scores: after retries. values: numbers for the trainer; NaN for a row without a value.
    columns: N numbers per name, to log, the same names in every call: parts of the score, `unscored`, `abstained`, and
    `judge_seconds`.
    """

    scores: tuple[Score, ...]
    values: list[float]
    columns: dict[str, list[float]]

    @property
    def filled_columns(self) -> dict[str, list[float]]:
        """For trainers that take means and do not leave NaN out: a row without a part has the mean of the rows that
        have it.
        """
        return {name: filled(column) for name, column in self.columns.items()}


class TrainerReward:
    """See the module. Thread-safe.

    reward: see `resolve_scorer`, which also takes `options`, as on_failures="raise", with which a call raises
    `TooManyFailures` at once where most samples fail. missing: `raise` ends the run with `UnscoredError`, which names
    the edits; `nan` is for trainers whose statistics leave NaN out. abstained: see `training_values`. outage_timeout_s:
    seconds that a call waits during an outage; 0: a failed sample is asked again at once only. A built reward with
    on_failures="wait" has its own. A warning is logged where torch.distributed has a shorter time-out.
    logged_parts: names of parts, or paths such as guard/not_a_copy; the first that a score has by this name. Default:
    those of `LOGGED_PARTS` that the reward's card names in `parts`; of a callable without a card, none.

    monitor: number of edits that this process scores in a step of the trainer: a `StepMonitor`, then `self.monitor`,
    watches for reward hacking; 0: none. heldout: a reward that is not trained on, for it (see `resolve_heldout`).
    monitor_probe: how far hacks would pay, for it: options of `AuditProbe.of`, as every=10; empty: none. monitor_state:
    its file; `{rank}` in it is the process's RANK, without which a file is refused where WORLD_SIZE is above 1. With a
    monitor, columns have `alarms`, the number of alarms so far, too.

    Raises ValueError for unknown options and values.
    """

    def __init__(
        self,
        reward: ScoreFn | Spec,
        *,
        missing: str | float = "raise",
        abstained: str = "lowest",
        outage_timeout_s: float | str = OUTAGE_TIMEOUT_S,
        logged_parts: Sequence[str] | None = None,
        monitor: int | str = 0,
        heldout: ScoreFn | Spec | None = None,
        monitor_probe: str = "",
        monitor_state: str = "",
        **options: Any,
    ) -> None:
        self.missing = checked_missing(missing)
        self.abstained: AbstainedPolicy = checked_word("abstained", abstained, AbstainedPolicy)
        self._logged_parts = None if logged_parts is None else tuple(logged_parts)
        self.scorer, self.outage_timeout_s = waiting_scorer(reward, outage_timeout_s, **options)
        self.monitor = self._monitor(_number("monitor", monitor, int), heldout, monitor_probe, monitor_state)

    @property
    def __name__(self) -> str:
        """That of the reward; a judge server is asked for it."""
        return scorer_name(self.scorer)

    @property
    def logged_parts(self) -> tuple[str, ...]:
        """Names of parts to log. Until a judge server has been reached, it may have all of the default ones."""
        if self._logged_parts is not None:
            return self._logged_parts
        if not hasattr(self.scorer, "known_card"):
            parts = getattr(getattr(self.scorer, "card", None), "parts", ())
        else:
            parts = LOGGED_PARTS if self.scorer.known_card is None else self.scorer.known_card.parts
        return tuple(name for name in LOGGED_PARTS if name in parts)

    def _monitor(self, step_samples: int, heldout: ScoreFn | Spec | None, probe: str, state: str) -> StepMonitor | None:
        if not step_samples:
            if heldout or probe or state:
                raise ValueError(
                    "a held-out reward, a probe and a state are for the monitor: give monitor=64 with them, say"
                )
            return None
        if state and "{rank}" not in state and int(os.environ.get("WORLD_SIZE") or 1) > 1:
            raise ValueError(
                f"each process has a monitor of its own: put {{rank}} into monitor_state, got {state!r:.200}"
            )
        path = state.replace("{rank}", os.environ.get("RANK") or "0")
        return StepMonitor(
            step_samples,
            heldout=resolve_heldout(heldout),
            probe=AuditProbe.of(self.scorer, probe) if probe else None,
            state=path,
            name=self.__name__ if path else "",
        )

    def __call__(self, samples: Sequence[EditSample | str]) -> TrainerScores:
        """Score the rows of `build_samples`. Raises `UnscoredError`, and what the reward raises."""
        start = perf_counter()
        scores = score_with_retries(self.scorer, samples, self.outage_timeout_s)
        seconds = perf_counter() - start
        if self.monitor is not None:
            with _preserved_rng_state():
                for sample, score in zip(samples, scores, strict=True):
                    if isinstance(sample, EditSample):
                        self.monitor.add([sample], [score])
        groups = ["" if isinstance(sample, str) else sample.group for sample in samples]
        usable = [None if isinstance(sample, str) else score for sample, score in zip(samples, scores, strict=True)]
        lowest = None
        if any(score and score.value is None and score.cause != "infrastructure" for score in usable):
            card = getattr(self.scorer, "card", None)  # not during an outage: a judge server is asked for it
            lowest = None if card is None else card.range[0]
        values = training_values(usable, groups, abstained=self.abstained, lowest=lowest)
        if self.missing == "raise" and any(value is None for value in values):
            lacking = [value is None for value in values]
            raise UnscoredError(describe_unscored(samples, scores, lacking), scores)
        columns = {name: _numbers([part_value(score, name) for score in scores]) for name in self.logged_parts}
        columns |= without_score(usable)
        columns["judge_seconds"] = [seconds] * len(scores)
        if self.monitor is not None:
            columns["alarms"] = [float(len(self.monitor.alarms))] * len(scores)
        return TrainerScores(tuple(scores), _numbers(values), columns)


def resolve_heldout(heldout: ScoreFn | Spec | None) -> ScoreFn | None:
    """As `resolve_scorer`, for a held-out reward, which training must not wait for: a judge server has 60 s, and
    nothing is retried. None for none.
    """
    if not heldout:
        return None
    if not isinstance(heldout, str | Mapping):
        return resolve_scorer(heldout)
    options: dict[str, Any] = {"on_failures": "none"}
    if isinstance(heldout, str) and heldout.startswith(("http://", "https://")):
        options |= {"deadline_s": _HELDOUT_DEADLINE_S, "outage_timeout_s": _HELDOUT_DEADLINE_S}
    return resolve_scorer(heldout, **options)


def waiting_scorer(
    reward: ScoreFn | Spec,
    outage_timeout_s: float | str,
    experts: Mapping[str, Expert | Spec] | None = None,
    **options: Any,
) -> tuple[ScoreFn, float]:
    """The scorer of `resolve_scorer`, and how long it waits in an outage: also with on_failures="none"."""
    seconds = checked_outage_timeout_s(outage_timeout_s)
    if isinstance(reward, str | Mapping):
        options["outage_timeout_s"] = seconds
    scorer = resolve_scorer(reward, experts, **options)
    if isinstance(scorer, BaseReward):
        if getattr(scorer, "on_failures", "") == "none":
            own = seconds if isinstance(reward, BaseReward) else getattr(scorer, "outage_timeout_s", seconds)
            scorer = scorer.waiting(own)
        seconds = getattr(scorer, "outage_timeout_s", seconds)
    warn_if_collectives_end_first(seconds)
    return scorer, seconds


def score_with_retries(scorer: ScoreFn, samples: Sequence[EditSample | str], outage_timeout_s: float) -> list[Score]:
    """`score_samples`, and again for samples that failed, as the module says; scorer: of `waiting_scorer`."""
    start = monotonic()
    is_reward, raises = isinstance(scorer, BaseReward), getattr(scorer, "on_failures", None) == "raise"
    scores = score_samples(scorer if raises else _keeping_scores(scorer), samples)
    if is_reward and not raises:
        return scores  # it has asked again itself
    again = _keeping_scores(scorer.waiting(0.0).without_failure_limit() if isinstance(scorer, BaseReward) else scorer)
    is_unknown = getattr(scorer, "known_card", scorer) is None  # a server that is not there is not asked
    outage = Outage("editcritic" if is_unknown else scorer_name(scorer), 0.0 if raises else outage_timeout_s)
    no_edits = {row for row, sample in enumerate(samples) if isinstance(sample, str)}
    rounds = retry_rounds(scores, start + outage.timeout_s, skip=no_edits, max_rate=_OUTAGE_RATE)
    for pause, rows in rounds:
        if pause:
            outage.begin(scores[rows[0]].reason, start, start)
            sleep(pause)
        retried = score_samples(again, [samples[row] for row in rows])
        for row, score in zip(rows, retried, strict=True):
            scores[row] = score
    if not failed_rows(scores, infrastructure=True):
        outage.end()
    return scores


def _keeping_scores(scorer: ScoreFn) -> ScoreFn:
    """A reward whose failed scores are returned, also if an outage has lasted too long."""

    def score(samples: Sequence[EditSample]) -> Sequence[Score]:
        try:
            return scorer(samples)
        except TooManyFailures as error:
            if len(error.scores) != len(samples):
                raise
            return error.scores

    return score


def warn_if_collectives_end_first(outage_timeout_s: float) -> None:
    """Log a warning if torch.distributed ends the processes that wait for this one before an outage is over."""
    dist: Any = sys.modules.get("torch.distributed")
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return
    group = dist.group.WORLD
    timeouts = [group._get_backend(device).options._timeout.total_seconds() for device in _group_devices(group)]
    if timeouts and min(timeouts) <= outage_timeout_s:
        log.warning(
            "outage_timeout_s is %g s, and torch.distributed ends processes that wait for this one after %g s: give "
            "a smaller outage_timeout_s, or init_process_group a longer timeout",
            outage_timeout_s,
            min(timeouts),
        )


def _group_devices(group: Any) -> Iterator[Any]:
    for device in group._device_types:
        with suppress(RuntimeError):  # such as CUDA where there is none
            group._get_backend(device)
            yield device


def checked_missing(value: str | float) -> OnMissingScore:
    """What a trainer gets for an edit without a value; also NaN itself, as hydra reads the word. Raises ValueError."""
    word = "nan" if isinstance(value, float) and math.isnan(value) else value
    missing: OnMissingScore = checked_word("missing", word, OnMissingScore)
    return missing


def checked_outage_timeout_s(value: float | str) -> float:
    """The seconds that an outage lasts at most. Raises ValueError."""
    seconds: float = _number("outage_timeout_s", value, float)
    if not 0 <= seconds < math.inf:
        raise ValueError(f"outage_timeout_s is a number of seconds, 0 or more, got {value!r}")
    return seconds


def resolve_scorer(
    reward: ScoreFn | Spec, experts: Mapping[str, Expert | Spec] | None = None, **options: Any
) -> ScoreFn:
    """A callable as it is, or the reward of a spec. A string is a spec, the path of a TOML file, or the URLs of judge
    servers with options of `RemoteReward`: http://a:8321,http://b:8321?token_env=JUDGE_TOKEN&deadline_s=60.

    experts: of a spec. options: of `Reward` (on_failures, `wait` by default, max_failure_rate, outage_timeout_s) or of
    `RemoteReward`; numbers may be strings. Raises ValueError, also for experts and options of a reward that is built.
    """
    if isinstance(reward, str) and reward.startswith(("http://", "https://")):
        if experts is not None:
            raise ValueError("a judge server has its experts already: pass experts= only with a spec")
        return _remote(reward, options)
    if isinstance(reward, str) and not reward:
        raise ValueError("no reward: pass a Reward, a spec, the path of a TOML file, or the URL of a judge server")
    if isinstance(reward, str | Mapping):
        read = read_spec(reward) if isinstance(reward, str) and reward.endswith(".toml") else reward
        checked = _checked(options, _OPTIONS, "a reward in this process")
        return Reward.of(read, experts, **{"on_failures": "wait", **checked})
    if experts is not None:
        raise ValueError("this reward has its experts already: pass experts= only with a spec")
    if options:
        raise ValueError(f"a built reward has its options: give {', '.join(options)} to it instead")
    scorer: ScoreFn = reward
    return scorer


def _remote(text: str, options: Mapping[str, Any]) -> ScoreFn:
    from ..serving.client.remote_reward import RemoteReward

    urls, _, query = text.partition("?")
    given = {**options, **dict(parse_qsl(query, keep_blank_values=True))}
    checked = _checked(given, _REMOTE_OPTIONS, urls)
    return RemoteReward(
        urls.split(","), **{"on_failures": "wait", "detail": "parts", "chunk_size": _CHUNK_SIZE, **checked}
    )


def _checked(options: Mapping[str, Any], known: Mapping[str, Callable[[Any], Any]], owner: str) -> dict[str, Any]:
    if unknown := [name for name in options if name not in known]:
        raise ValueError(f"{owner} takes the options {', '.join(known)} here, got {unknown[0]!r:.80}")
    return {name: _number(name, value, known[name]) for name, value in options.items()}


def _number(name: str, value: Any, read: Callable[[Any], Any]) -> Any:
    try:
        return read(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is a number, got {value!r:.80}") from None


def checked_word(name: str, value: object, kind: Any) -> Any:
    """A word of the Literal `kind`. Raises ValueError."""
    if value not in get_args(kind):
        raise ValueError(f"{name} must be {' or '.join(map(repr, get_args(kind)))}, got {value!r:.80}")
    return value


def scorer_name(scorer: ScoreFn) -> str:
    """The name that trainers log."""
    return str(getattr(scorer, "__name__", type(scorer).__name__))


def score_samples(scorer: ScoreFn, samples: Sequence[EditSample | str]) -> list[Score]:
    """One score per sample, as in `score_usable`. The trainer's RNG state is preserved in the main thread only: it
    samples meanwhile in others, and would get the same noise again.
    """
    with _preserved_rng_state():
        return score_usable(scorer, samples)


def _preserved_rng_state() -> AbstractContextManager[None]:
    is_main = threading.current_thread() is threading.main_thread()
    return preserve_rng_state() if is_main else nullcontext()


def describe_unscored(
    samples: Sequence[EditSample | str], scores: Sequence[Score | None], lacking: Sequence[bool] | None = None
) -> str:
    """A message that names the edits without a score and the reasons. lacking: whether a row is one; default: it has no
    value.
    """
    names = [f"edit-{row}" if isinstance(sample, str) else sample.id for row, sample in enumerate(samples)]
    lacking = [score is None or score.value is None for score in scores] if lacking is None else lacking
    unscored = [
        f"{name}: {'late' if score is None else f'{score.status} ({score.reason})'}"
        for name, score, lacks in zip(names, scores, lacking, strict=True)
        if lacks
    ]
    more = f"; and {len(unscored) - 3} more" if len(unscored) > 3 else ""
    return f"{len(unscored)} of {len(samples)} edits have no score: {'; '.join(unscored[:3])}{more}"[:1000]


def part_value(score: Score, name: str) -> float | None:
    """The value of the first part of this name or path, the nearest to the score first."""
    head, _, rest = name.partition("/")
    level = [score]
    while level:
        for one in level:
            if (part := one.parts.get(head)) is not None:
                return part_value(part, rest) if rest else part.value
        level = [part for one in level for part in one.parts.values()]
    return None


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


def filled(column: Sequence[float]) -> list[float]:
    """See `TrainerScores.filled_columns`."""
    known = [value for value in column if not math.isnan(value)]
    return [fmean(known) if math.isnan(value) else value for value in column] if known else list(column)


# -- functions of a trainer that an adapter replaces -------------------------------------------------------------------


class UnknownTrainerError(RuntimeError):
    """A trainer's code is not what an adapter was written for, so nothing of it is replaced."""


@dataclass(frozen=True, slots=True)
class TrainerCode:
    """name: of the trainer. read_at: the commits whose code was read."""

    name: str
    read_at: str

    def attribute(self, module: str, name: str) -> Any:
        """What a module of the trainer has under a name. Raises `UnknownTrainerError`."""
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise self.unknown(f"has no {module}.{name} ({error})") from None

    def check(self, owner: Any, function: str, parameters: tuple[str, ...]) -> None:
        """Raises `UnknownTrainerError` unless a class or module has this function, with these first parameters."""
        present = getattr(owner, function, None)
        names = list(inspect.signature(present).parameters) if callable(present) else []
        expected = ["self", *parameters] if inspect.isclass(owner) else list(parameters)
        if not callable(present) or names[: len(expected)] != expected:
            got = f"has {function}({', '.join(names)})" if callable(present) else f"has no {function}"
            raise self.unknown(f"{got} in {owner.__name__}, not {function}({', '.join(parameters)})")

    def unknown(self, what: str) -> UnknownTrainerError:
        return UnknownTrainerError(f"this {self.name} {what}; what was read is {self.read_at}")
