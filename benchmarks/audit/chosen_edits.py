"""The edits of an audit: those that the reward can score, of as many sources as possible."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from ...reward import BaseReward, EditSample
from ...reward.audit.audited_reward import AnyScorer
from ..common.inputs import SampleEntry

READ_AHEAD = 16
"""Samples that are read for each that is audited: of these, as many sources as possible are chosen."""


def valid_samples(
    entries: Iterable[SampleEntry], scorer: BaseReward | AnyScorer, on_problem: Callable[[str], object]
) -> Iterator[EditSample]:
    """The samples. on_problem: called with the place and the problem of each entry that is none, or that lacks fields
    which the reward requires.
    """
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
