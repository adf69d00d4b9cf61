"""The rater of edits uses the prompt, and abstains where it cannot."""

from functools import cache
from typing import Any

import pytest

from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.experts.perception_experts import SceneEditPreference
from editcritic.reward.queries import Abstention, Measurement, Rate

RATER = SceneEditPreference()


@cache
def single_edits():
    return [case for case in cases(40) if case.sample.task is not None and len(case.sample.sources) == 1]


def rated(sample, image, quality="instruction following", **changes) -> Any:
    (measurement,) = RATER(
        [Rate(image, changes.get("prompt", sample.instruction), quality, changes.get("sources", sample.sources))]
    )
    return measurement


def test_an_honest_edit_is_rated_above_an_untouched_copy():
    honest = [case.sample for case in single_edits() if not case.mode]
    assert len(honest) > 3
    both = [(rated(one, one.edited), rated(one, one.source)) for one in honest]
    better = [(edit.value or 0) > (copy.value or 0) for edit, copy in both if isinstance(edit, Measurement)]
    assert len(better) > 3
    assert sum(better) / len(better) > 0.9


def test_preference_is_the_mean_of_both_qualities():
    one = single_edits()[0].sample
    following, looks, both = (
        rated(one, one.edited, quality).value for quality in ("instruction following", "visual quality", "preference")
    )
    assert both == pytest.approx((following + looks) / 2)
    assert 0 <= both <= 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sources": ()}, "beside its sources"),
        ({"prompt": "colourless green ideas"}, ""),
        ({"quality": "depth"}, "are not rated by 'depth'"),
    ],
)
def test_what_it_cannot_know_it_does_not_say(changes, message):
    one = single_edits()[0].sample
    answer = rated(one, one.edited, **changes)
    assert isinstance(answer, Abstention)
    assert message in answer.reason
