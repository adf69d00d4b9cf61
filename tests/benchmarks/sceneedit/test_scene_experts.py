"""The experts together: every role is served, and the guards do here what they are for."""

import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import Card, Reward, default_experts
from editcritic.reward.queries.specs import entry_point_names


def test_every_role_of_every_reward_is_served():
    served = set(scene_experts())
    roles = {role.partition(".")[0] for role in default_experts()} | {
        "preference",
        "preference.edit",
        "segmenter",
        "quality",
        "aesthetics",
        "features.clip",
    }
    assert roles == served
    for name, point in entry_point_names("editcritic.rewards").items():
        card = getattr(point.load(), "card", None)
        if isinstance(card, Card):
            assert {role.partition(".")[0] for role in card.roles} <= served, name


@pytest.mark.parametrize("size", [32, 64])
def test_guards_reject_hacks_and_let_honest_edits_pass(size):
    edits = [case for case in cases(150, size=size) if case.is_hack or not case.mode]
    values = Reward.of("guards", scene_experts())([case.sample for case in edits]).values
    passed: dict[str, list[float | None]] = {mode: [] for mode in {case.mode for case in edits}}
    for case, value in zip(edits, values, strict=True):
        passed[case.mode].append(value)
    assert set(passed.pop("")) == {1.0}
    for mode in ("flooded", "cleared"):  # those are for content consistency, and for guard-objects-preserved
        passed.pop(mode, None)
    assert len(passed) == 4
    assert (
        sum(value != 0.0 for mode_values in passed.values() for value in mode_values) <= 2
    )  # an inset of half of the side may pass
