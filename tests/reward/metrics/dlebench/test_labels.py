"""What the labels are worth."""

import pytest

from editcritic.reward.metrics.dlebench.replies import CONSISTENCY, FOLLOWING


@pytest.mark.parametrize(
    ("scale", "label", "score", "share"),
    [
        (FOLLOWING, "Flawless Execution", 4, 1.0),
        (FOLLOWING, "Over Modification", 3, 2 / 3),
        (FOLLOWING, "Wrong Action", 2, 1 / 3),
        (FOLLOWING, "Localization Failure", 1, 0.0),
        (CONSISTENCY, "Perfect Consistency", 4, 1.0),
        (CONSISTENCY, "Single Anomaly", 3, 2 / 3),
        (CONSISTENCY, "Multiple Anomalies", 2, 1 / 3),
        (CONSISTENCY, "Scene Collapse", 1, 0.0),
    ],
)
def test_a_label_is_worth_what_the_paper_says(scale, label, score, share):
    assert scale.rubric_score(label) == score
    assert scale.normalized_score(label) == pytest.approx(share)


@pytest.mark.parametrize("scale", [FOLLOWING, CONSISTENCY])
def test_no_spelling_of_a_label_is_one_of_another(scale):
    for label in [*scale.labels, *(f"{label}s" for label in scale.labels)]:
        assert scale.parse_exact(label) in {None, *(each for each in scale.labels if label.startswith(each[:5]))}
