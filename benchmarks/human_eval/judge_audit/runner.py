"""The audit of a judge: all probes on the same samples, each with its cost."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from ....reward import AnswerLog, EditSample, Engine, Expert, Reward
from ....reward.queries.expert import expert_of_role
from ...common.errors import InputError
from ...run.run_budget import BudgetLimits
from .findings import JudgeAudit, findings_of
from .measures import reliability
from .probes import OF_JUDGE, Condition, Tables, probes
from .questions import PLAIN
from .recommendations import recommendations
from .session import Session

if TYPE_CHECKING:
    from collections.abc import Iterable

SCALES = (0.5, 0.25)
"""Of the sides of pictures, from the mildest on."""
QUALITIES = (75, 30)
"""Of JPEG, from the mildest on."""
REPEATS = 4
"""How often the plain question, and a sampled grade, is asked."""

FAULTS = tuple(probes(SCALES, QUALITIES))


def audit(
    judge: Expert | Reward,
    samples: Sequence[EditSample],
    *,
    faults: Collection[str] | None = None,
    repeats: int = REPEATS,
    scales: Sequence[float] = SCALES,
    qualities: Sequence[int] = QUALITIES,
    limits: BudgetLimits | None = None,
    log: AnswerLog | None = None,
    step: Callable[[], None] = lambda: None,
) -> JudgeAudit:
    """Measure the faults of a judge on edits. No label is needed: each fault is a question answered in two ways.

    judge: an expert for `Judge` queries; or a reward, whose draws, picture sizes and obedience are measured on its own
    score, and the other faults on its judge, if it has one. samples: edits, of several sources; better two or more of
    each. faults: some of `FAULTS`; by default all that can be measured. repeats: of the plain question. scales,
    qualities: reductions of pictures, from the mildest on. limits: what may be asked; beyond, answers are failures, and
    none is a number. log: keeps answers, so that an interrupted audit asks nothing again. step: called after each
    fault.

    Raises `InputError` for no samples, unknown faults, and a reward without a bounded range or whose fields the samples
    lack.
    """
    asked = selected_faults(faults)
    _check(samples, repeats, scales, qualities)
    if isinstance(judge, Reward):
        metric, experts = judge.metric, dict(judge.experts)
        if None in metric.card.range:
            raise InputError(
                f"{metric.card.name} has no bounded range, so that the size of a change means nothing: audit a reward "
                "with one"
            )
        if lacking := sorted({name for sample in samples for name in judge.missing_fields(sample)}):
            raise InputError(f"{metric.card.name} needs {', '.join(lacking)}, which the samples do not all have")
        bound = _judge_of(judge)
        if bound is not None:
            experts["judge"] = bound
        elif faults is None:
            asked = tuple(fault for fault in asked if fault not in OF_JUDGE)
        elif missing := sorted(OF_JUDGE & set(asked)):
            raise InputError(f"{metric.card.name} asks no judge, and {', '.join(missing)} is a fault of judges")
        subject, question = metric.card.name if bound is None else bound.id, metric.card.name
    else:
        metric, experts = PLAIN, {"judge": judge}
        subject, question = judge.id, "the yes/no question of judge-yes-no"
    with ExitStack() as stack:
        engine = stack.enter_context(Engine(log=log))
        session = Session(samples, experts, engine, metric=metric, repeats=repeats, limits=limits)
        tables = Tables()
        conditions: list[Condition] = []
        for fault in asked:
            with session.costs_of(fault):
                conditions += probes(scales, qualities)[fault](session, tables)
            step()
    reliabilities = {
        f"{name}, {reading}": reliability(rows)
        for name, readings in tables.rows.items()
        for reading, rows in readings.items()
    }
    result = JudgeAudit(
        subject,
        question,
        len(session.samples),
        len(set(session.sources)),
        findings_of(conditions),
        session.costs,
        reliabilities,
        dict(sorted(session.replies.items())),
        session.exhausted,
    )
    return replace(result, recommendations=tuple(recommendations(result)))


def selected_faults(faults: Collection[str] | None) -> tuple[str, ...]:
    """These faults in the order of the table; all without any. Raises `InputError` for an unknown one."""
    if unknown := sorted(set(faults or ()) - set(FAULTS)):
        raise InputError(f"there is no fault {unknown[0]!r} to audit: it is one of {', '.join(FAULTS)}")
    return tuple(fault for fault in FAULTS if not faults or fault in faults)


def choose(samples: Iterable[EditSample], limit: int, seed: int = 0) -> list[EditSample]:
    """At most `limit` samples of as many sources as possible, two of each where there are two: for comparisons."""
    groups: dict[tuple[str, ...], list[EditSample]] = {}
    for sample in samples:
        groups.setdefault((sample.instruction, *(image.digest for image in sample.sources)), []).append(sample)
    rng = random.Random(seed)
    order = list(groups.values())
    rng.shuffle(order)
    for group in order:
        rng.shuffle(group)
    rounds = [sample for group in order for sample in group[:2]]
    rest = [sample for group in order for sample in group[2:]]
    return [*rounds, *rest][:limit]


def _judge_of(reward: Reward) -> Expert | None:
    role = next((role for role in reward.card.roles if role.partition(".")[0] == "judge"), None)
    return None if role is None else expert_of_role(reward.experts, role)


def _check(samples: Sequence[EditSample], repeats: int, scales: Sequence[float], qualities: Sequence[int]) -> None:
    if not samples:
        raise InputError("an audit needs samples, got none: give 30 or more edits, of several sources")
    if repeats < 2:
        raise InputError(f"an audit asks the plain question 2 or more times, got {repeats}")
    if wrong := [scale for scale in scales if not 0 < scale < 1]:
        raise InputError(f"a scale of pictures is between 0 and 1, got {wrong[0]:g}")
    if wrong_quality := [quality for quality in qualities if not 1 <= quality <= 95]:
        raise InputError(f"a quality of JPEG is 1 to 95, got {wrong_quality[0]}")
