"""16 edits of one source share the plan and all answers about the source."""

from __future__ import annotations

import pytest

from studies.any_edit.pool import ANY_EDIT
from studies.any_edit.query_counts import ROLLOUTS, count_queries, group


def test_a_group_has_one_source_and_different_edits():
    samples = group(4, seed=1)
    assert len({sample.group for sample in samples}) == 1
    assert len({sample.edited.digest for sample in samples}) == 4
    assert all(sample.task is None and sample.plan is None for sample in samples)


@pytest.mark.slow
def test_plan_and_source_are_asked_once_for_sixteen_rollouts():
    counts, single = count_queries(ANY_EDIT), count_queries(ANY_EDIT, rollouts=1)
    assert counts.rollouts == ROLLOUTS == 16
    assert counts.plan == single.plan == 1
    assert counts.repeated == 0
    for role in ("planner", "detector", "judge"):
        assert counts.source.get(role, 0) == single.source.get(role, 0), role
