"""The edits of an audit, those that the reward can score, of as many sources as possible; and what ends it early."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from ...reward import BaseReward, EditSample, Score
from ...reward.audit import AuditRun
from ...reward.audit.audited_reward import AnyScorer
from ..common.inputs import SampleEntry

READ_AHEAD = 16  # samples that are read for each that is audited: of these, as many sources as possible are chosen


def valid_samples(
    entries: Iterable[SampleEntry], scorer: BaseReward | AnyScorer | None, on_problem: Callable[[str], object]
) -> Iterator[EditSample]:
    """The samples. on_problem: called with the place and the problem of each entry that is none, or that lacks fields
    which the reward requires."""
    for entry in entries:
        sample, problem = entry.sample, entry.problem
        missing = scorer.missing_fields(sample) if sample is not None and isinstance(scorer, BaseReward) else []
        if sample is not None and missing:
            problem = f"the reward needs {', '.join(missing)}, which {sample.id!r} lacks"
        if sample is None or problem:
            on_problem(f"{entry.location}: {problem}")
        else:
            yield sample


def of_many_sources(samples: Iterable[EditSample], limit: int, seed: int) -> list[EditSample]:
    """At most `limit` of the first samples, of as many sources as possible; all of them, as they are, if no more."""
    read = list(islice(samples, limit * READ_AHEAD))
    if len(read) <= limit:
        return read
    rng = random.Random(seed)
    rng.shuffle(read)
    taken: dict[tuple[str, ...], int] = {}
    rounds = []
    for sample in read:
        source = tuple(image.digest for image in sample.sources)
        taken[source] = taken.get(source, 0) + 1
        rounds.append(taken[source])
    order = sorted(range(len(read)), key=rounds.__getitem__)
    return [read[number] for number in order[:limit]]


_OUTAGE = 16  # the last scores that have to fail for reasons of infrastructure for the audit to end
_FEWEST = 4  # of them, where there are few edits: a single time-out is no outage


def latest_scores(run: AuditRun) -> list[Score]:
    """The last scores of pictures that can be read: of others, an expert may crash without an outage."""
    readable = {family.name for family in run.maker.families if family.relation != "no_number"}
    variants = (trial.variant for trial in reversed(run.trials) if trial.family in readable)
    return [*run.edits[-_OUTAGE:], *reversed([*islice(variants, _OUTAGE)])]


def outage(scores: Sequence[Score], all_known: int = _OUTAGE) -> str:
    """Why the last scores all failed, if that is a matter of infrastructure: nothing more can be found out then.
    all_known: fewer scores are enough where there are so few edits."""
    count = max(_FEWEST, min(_OUTAGE, all_known))
    last = scores[-count:]
    if len(last) == count and all(score.cause == "infrastructure" for score in last):
        return f"the last {len(last)} scores failed: {last[-1].reason}"
    return ""
