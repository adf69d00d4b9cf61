"""The experts together: every role is served, and the guards do here what they are for."""

from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import Card, default_experts
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
