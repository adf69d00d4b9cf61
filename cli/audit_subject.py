"""What `--reward` of an audit names: a reward, judge servers, or a function of the user's."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..benchmarks.run.run_budget import BudgetLimits
    from ..reward import AnswerLog, BaseReward
    from ..reward.audit.audited_reward import AnyScorer

_OUTAGE_S = 20.0
"""How long an audit waits for a server that does not answer."""

_ARGUMENTS = {1: "a list of samples", 3: "lists of sources, edits and instructions"}
"""Of a function of the user's, by their number."""


@dataclass(frozen=True)
class AuditSubject:
    """scorer: what is audited. exhausted: the limit that is reached; empty while there is none."""

    scorer: BaseReward | AnyScorer
    exhausted: Callable[[], str] = lambda: ""


def audit_subject(
    text: str,
    experts: Sequence[str] | None = None,
    protocol: str | None = None,
    *,
    pictures: bool = False,
    log: AnswerLog | None = None,
    limits: BudgetLimits,
) -> AuditSubject:
    """Raises `InputError` or `SpecError` for what cannot be audited, or takes none of these options."""
    from ..benchmarks.common.errors import InputError
    from ..benchmarks.common.inputs import load_reward, spec_argument
    from ..benchmarks.run.run_budget import BudgetTracker
    from ..reward import Reward

    is_served = text.startswith(("http://", "https://"))
    function = None if is_served else _function(text, pictures)
    if is_served or function is not None:
        kind = "a judge server" if is_served else f"{text}, a function of yours,"
        for option, given in (("--experts", experts), ("--protocol", protocol), ("--cache", log)):
            if given is not None:
                raise InputError(f"{kind} has its experts, settings and answers itself: leave {option} out")
        if limits.judge_calls is not None or limits.cost is not None:
            raise InputError(f"{kind} does not say what it calls: --budget takes seconds=... here, nothing else")
    if pictures and function is None:
        raise InputError(f"--pictures is for a function of yours, as in --reward module:function, got {text}")
    if is_served:
        return AuditSubject(_served(text), _deadline(limits.seconds))
    if function is not None:
        return AuditSubject(function, _deadline(limits.seconds))
    reward = load_reward(spec_argument(text), protocol, bindings=experts, log=log, on_failures="none")
    tracker = BudgetTracker(reward.experts, limits=limits)
    metered = Reward(reward.metric, tracker.experts, log=log, on_failures="none")
    deadline = _deadline(limits.seconds)
    return AuditSubject(metered, lambda: tracker.exhausted or deadline())


def _function(text: str, pictures: bool) -> AnyScorer | None:
    """What `module:function` names if it takes samples itself; None for a metric, what makes one, or no such text."""
    from ..benchmarks.common.errors import InputError
    from ..reward.audit import reward_of_pictures
    from ..reward.queries.specs import find_target

    if ":" not in text or "?" in text or text.endswith(".toml"):
        return None
    target: Any = find_target(text)
    if inspect.isclass(target) or hasattr(target, "card") or not callable(target) or not _needs_arguments(target):
        return None
    count, other = (3, 1) if pictures else (1, 3)
    if not _takes(target, count) and _takes(target, other):
        option = "leave --pictures out" if pictures else "add --pictures"
        raise InputError(
            f"--reward: {text} takes {_ARGUMENTS[other]}, and is called with {_ARGUMENTS[count]}: {option}"
        )
    return reward_of_pictures(target) if pictures else target


def _takes(target: Callable[..., Any], count: int) -> bool:
    """Whether it can be called with so many arguments."""
    try:
        inspect.signature(target).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # built in
        return True
    return True


def _needs_arguments(target: Callable[..., Any]) -> bool:
    """Unlike what makes a metric, which is called with its options only."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(target).parameters.values()
    except ValueError:  # built in
        return True
    variadic = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters)
    return variadic or any(one.kind in kinds and one.default is one.empty for one in parameters)


def _served(text: str) -> BaseReward:
    from ..benchmarks.common.errors import InputError
    from ..benchmarks.common.optional_imports import require_serving
    from ..integrations.serving.client.remote_reward import RemoteError
    from ..integrations.trainers.trainer_reward import resolve_scorer
    from ..reward import BaseReward

    require_serving()
    try:
        scorer = resolve_scorer(text, on_failures="none", outage_timeout_s=_OUTAGE_S)
        assert isinstance(scorer, BaseReward)  # of a URL
        scorer.card  # noqa: B018  (asks the servers, which have to be there)
    except (ValueError, RemoteError) as error:
        raise InputError(f"--reward: {error}") from None
    return scorer


def _deadline(seconds: float | None) -> Callable[[], str]:
    begun = time.monotonic()

    def exhausted() -> str:
        over = seconds is not None and time.monotonic() - begun >= seconds
        return f"the budget of {seconds:g} seconds is spent" if over else ""

    return exhausted
