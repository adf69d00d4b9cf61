"""Preservation: 1 for no change; damage is graded without a step; drift is charged; exemptions are capped."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from editcritic.reward import Box
from editcritic.reward.metrics.any_edit.preservation import (
    MAX_EXEMPT_SHARE,
    _lower_quartile,
    _median,
    exempt_patches,
    preservation,
)
from editcritic.reward.queries import ChangeMap

SHAPE = (24, 32)
CORNER, FAR = Box.from_corners(0, 0, 1 / 4, 1 / 24, (1, 1)), Box(0.8, 0.8, 0.2, 0.2)


def unchanged(shape=SHAPE):
    zeros, ones = np.zeros(shape, np.float32), np.ones((*shape, 3), np.float32)
    return ChangeMap(zeros, 0 * ones, zeros + 1, 2 * ones, 2 * ones)


def damaged(patches, strength=20.0):
    """What was there has other features and no detail left."""
    features, amplitude = np.zeros(SHAPE, np.float32), np.array(unchanged().amplitude_before)
    features.ravel()[:patches] = strength
    amplitude.reshape(-1, 3)[:patches] = 0
    return replace(unchanged(), features=features, amplitude_after=amplitude)


def falls(values):
    return values == sorted(values, reverse=True)


def test_damage_is_graded_without_a_step_by_its_share_and_severity():
    result = preservation(unchanged())
    assert (result.value, result.local, result.drift, result.lost, result.worst) == (1.0, 1.0, 1.0, 0.0, None)
    values = [preservation(damaged(16, strength)).value for strength in np.arange(0.0, 16.0, 0.1)]
    assert max(np.abs(np.diff(values))) < 0.06
    assert (values[0], values[-1] < 0.4) == (1.0, True)
    values = [preservation(damaged(patches)).value for patches in (0, 4, 8, 16, 64, 200, 400, 768)]
    assert falls(values)
    assert len(set(values)) == len(values)
    assert values[-1] == pytest.approx(0, abs=0.06)
    assert falls([preservation(damaged(60, strength)).value for strength in (0, 1, 2, 3, 4, 6, 8)])


def test_another_light_is_less_than_other_content():
    colour = np.zeros((*SHAPE, 3), np.float32)
    colour.reshape(-1, 3)[:16, 0] = -20.0
    relit = preservation(replace(unchanged(), colour=colour)).value
    assert preservation(damaged(16)).value < relit - 0.1 < 1 - 0.1


def test_damage_in_an_exempt_box_is_free_but_boxes_are_capped_and_objects_that_stay_are_compared():
    assert preservation(damaged(8), [CORNER]).value == 1.0
    assert preservation(damaged(8), [FAR]).value < 0.7
    everything = [Box(0.5, 0.5, 1.0, 1.0)]
    assert exempt_patches(everything, SHAPE).mean() <= MAX_EXEMPT_SHARE
    result = preservation(damaged(768), everything)
    assert result.exempt_share <= MAX_EXEMPT_SHARE
    assert result.value < 0.1
    assert preservation(damaged(8), within=[CORNER]).local < 0.1
    assert (preservation(damaged(8), within=[FAR]).value, preservation(damaged(8), within=[]).compared) == (1.0, 0)


def test_the_worst_patch_and_the_heat_map_are_evidence():
    result = preservation(damaged(1), [Box(0.9, 0.9, 0.1, 0.1)])
    assert result.worst is not None
    assert (result.worst.cx, result.worst.cy) == (0.5 / 32, 0.5 / 24)
    assert (np.isnan(result.heat).mean(), result.heat[0, 0]) == (pytest.approx(result.exempt_share), 20.0)


@given(arrays.arrays(np.float32, st.integers(1, 40), elements=st.floats(-1e4, 1e4, width=32)))
def test_medians_and_quartiles_are_numpy_s(values):
    assert (_median(values), _lower_quartile(values)) == (np.median(values), np.quantile(values, 0.25))


SAME = unchanged()
DRIFTS = {
    "tint": lambda x: replace(SAME, colour=np.full((*SHAPE, 3), [0, x, 0], np.float32)),
    "light": lambda x: replace(SAME, colour=np.full((*SHAPE, 3), [x, 0, 0], np.float32)),
    "blur": lambda x: replace(SAME, amplitude_after=SAME.amplitude_after * np.float32(np.exp(-x / 10))),
    "grid": lambda x: replace(SAME, periodicity=x),
}


@pytest.mark.parametrize("kind", DRIFTS)
def test_drift_is_charged_and_more_of_it_costs_more(kind):
    values = [preservation(DRIFTS[kind](strength)).value for strength in (0, 0.5, 1, 2, 4, 8, 16, 32)]
    assert falls(values)
    assert (values[0], values[-1] < 0.1, preservation(DRIFTS[kind](8)).local) == (1.0, True, 1.0)


@given(
    arrays.arrays(np.float32, (5, 7), elements=st.floats(0, 1e4, width=32)),
    arrays.arrays(np.float32, (5, 7, 3), elements=st.floats(-200, 200, width=32)),
    st.lists(st.builds(Box, *[st.floats(0, 1)] * 4), max_size=3),
)
def test_values_lie_between_0_and_1_and_more_change_never_pays(features, colour, boxes):
    changes = replace(unchanged((5, 7)), features=features, colour=colour)
    result = preservation(changes, boxes)
    assert 0 <= result.value <= 1
    assert np.isfinite([result.excess, result.lost, *result.drift_values.values()]).all()
    assert preservation(replace(changes, features=features * 2), boxes).value <= result.value + 1e-6
