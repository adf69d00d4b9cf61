"""Cases: bit-identical by seed, apart by split, and as many kinds of each as they say."""

import itertools
from collections import Counter
from dataclasses import replace

import pytest

from editcritic.benchmarks.sceneedit.cases import (
    SPLITS,
    Case,
    cases,
    dataset_digest,
    drift_series,
    same_truth_groups,
    split_leaks,
)
from editcritic.benchmarks.sceneedit.failure_modes import FAILURE_MODES
from editcritic.reward.metrics.edival.task_parser import pools_of
from editcritic.reward.sample import TASK_TYPES

COUNT = 180
# sha256 over images and truths. It changes only where the world is meant to change; scores of before and after are
# then of two data sets, and the changelog says so.
DIGEST = "440ed866cd9db9b3e187f67c1f3d0c7d22e5eb75d253ddc6f2e6db56be9c7da4"


@pytest.fixture(scope="module")
def many():
    """As many as it takes to have every failure mode."""
    return cases(270)


@pytest.fixture(scope="module")
def edits(many):
    return many[:COUNT]


def test_the_data_set_is_the_one_it_was(edits):
    assert dataset_digest(edits) == DIGEST


def test_a_prefix_is_a_prefix_and_another_seed_is_another_set(edits):
    assert dataset_digest(cases(20)) == dataset_digest(edits[:20])
    assert dataset_digest(cases(20, seed=1)) != dataset_digest(edits[:20])


def test_all_types_and_modes_are_there(edits, many):
    types = Counter(case.task for case in edits)
    assert set(types) == set(TASK_TYPES)
    assert len(set(types.values())) == 1
    assert {case.mode for case in many} == {"", *(mode.name for mode in FAILURE_MODES)}
    assert {case.sample.turn for case in edits} == {1, 2, 3}
    assert {case.sample.source.size for case in edits} == {(64, 64), (128, 128)}


def test_chains_and_small_targets_can_be_had_alone():
    chains = cases(12, turns=3)
    assert all(case.sample.turn == 3 for case in chains)
    assert all(len({turn.task.type for turn in case.sample.turns if turn.task}) == 3 for case in chains)
    assert all(turn.pools is not None for case in chains for turn in case.sample.turns)
    tiny = cases(12, small_share=1.0, turns=1)
    assert all(obj.w * obj.h < 0.01 for case in tiny if case.before for obj in case.before.objects)
    with pytest.raises(ValueError, match="a chain has 1 to 9 turns, each of another type, got 10"):
        cases(1, turns=10)


def test_later_turns_edit_what_earlier_ones_made_and_carry_pools(edits):
    for case in edits:
        turns = case.sample.turns
        for earlier, later in itertools.pairwise(turns):
            assert later.source == earlier.edited
            assert pools_of(replace(later, pools=None, history=(earlier,))) is not None


def test_splits_do_not_share_pictures_or_scenes():
    splits: dict[str, list[Case]] = {split: cases(30, split=split) for split in SPLITS}
    assert split_leaks(splits) == []
    planted = {**splits, "test": [*splits["test"], splits["train"][5]]}
    (problem,) = split_leaks(planted)
    assert problem == "train-0-5 of test has an image or scene of train-0-5 in train"


def test_the_same_scene_under_another_light_is_a_leak(edits):
    from editcritic.benchmarks.sceneedit.render import render
    from editcritic.benchmarks.sceneedit.scene_graph import Light

    first = next(case for case in edits if not case.sample.history)
    relit = replace(first.before, light=Light(0.7), noise_seed=1)
    sample = replace(first.sample, sources=(render(relit),), edited=render(relit))
    assert len(split_leaks({"train": [first], "test": [replace(first, before=relit, sample=sample)]})) == 1


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match="unknown split 'dev': expected one of train, validation, test"):
        cases(1, split="dev")  # type: ignore[arg-type]


def test_drift_series_drift_and_nothing_else():
    for series in drift_series(4):
        severities = [case.severity for case in series]
        assert severities == sorted(set(severities))
        assert severities[0] == 0
        backgrounds = [case.truth.background or 0.0 for case in series]
        assert backgrounds == sorted(backgrounds, reverse=True)
        assert len({case.truth.objects for case in series}) == 1


def test_crowds_are_sixteen_pictures_of_one_request_with_one_verdict():
    for crowd in same_truth_groups(4):
        assert len(crowd) == len({case.sample.edited.digest for case in crowd}) == 16
        assert len({case.sample.group for case in crowd}) == len({case.truth.followed for case in crowd}) == 1
