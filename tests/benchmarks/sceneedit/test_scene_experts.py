"""The experts together: every role is served, and the guards do here what they are for."""

import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.critics import experts
from editcritic.reward import Card, Reward, no_download
from editcritic.reward.spec import names


def test_every_role_of_every_reward_is_served():
    served = set(experts())
    roles = {role.partition(".")[0] for role in no_download()} | {
        "preference",
        "preference.edit",
        "segmenter",
        "quality",
        "aesthetics",
        "features.clip",
    }
    assert roles == served
    for name, point in names("editcritic.rewards").items():
        card = getattr(point.load(), "card", None)
        if isinstance(card, Card):
            assert {role.partition(".")[0] for role in card.roles} <= served, name


@pytest.mark.parametrize("size", [32, 64])
def test_guards_reject_hacks_and_let_honest_edits_pass(size):
    found = [case for case in cases(150, size=size) if case.hack or not case.mode]
    values = Reward.of("guards", experts())([case.sample for case in found]).values
    passed: dict[str, list[float | None]] = {mode: [] for mode in {case.mode for case in found}}
    for case, value in zip(found, values, strict=True):
        passed[case.mode].append(value)
    assert set(passed.pop("")) == {1.0}
    for mode in ("flooded", "cleared"):  # those are for content consistency, and for guard-still-there
        passed.pop(mode, None)
    assert len(passed) == 4
    assert sum(value != 0.0 for one in passed.values() for value in one) <= 2  # an inset of half of the side may pass
