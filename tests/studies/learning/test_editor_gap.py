"""Where an editor's gap to the best of a group comes from: what is counted, and the groups of the tiny editor."""

import numpy as np
import pytest

from studies.learning.editor_gap import GROUP_SIZE, GroupOutcome, main, sampled_groups, table

NEEDS = ("torch",)


def outcome(task_type, good, followed, targets):
    return GroupOutcome(task_type, np.array(good, bool), np.array(followed, bool), targets)


def test_shares_are_of_groups_and_of_images():
    some = [1, 1, *[0] * 14]
    targets = [0, 1, *[None] * 14], [0, 1, 0, 1, *[None] * 12]
    groups = [
        outcome("color_alter", some, [1, 0, 1, *[0] * 13], targets),
        outcome("text_change", [0] * 16, [0] * 16, ([None] * 16,) * 2),
    ]
    colour, text, both = (line.strip("| ").split(" | ") for line in list(table(groups))[2:])
    # one image of 16, half of the halves, the group; a judge's two good ones; one of two right, one of two found
    assert colour == ["color_alter", "12", "50", "100", "50", "100", "50", "50", "0", "12"]
    assert text[:6] == ["text_change", "0", "0", "0", "0", "0"]
    assert both[:6] == ["all", "6", "25", "50", "25", "50"]


def test_images_of_the_editor_are_judged_and_compared():
    (group,) = sampled_groups(1, 0)
    assert group.task_type == "subject_add"
    assert group.good.shape == group.followed.shape == (GROUP_SIZE,)
    for passed, targets in zip((group.good, group.followed), group.targets, strict=True):
        assert len(targets) == GROUP_SIZE
        assert all(passed[target] for target in targets if target is not None)


def test_an_option_that_is_none_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--groups", "0"])
    assert "at least 1" in capsys.readouterr().err
