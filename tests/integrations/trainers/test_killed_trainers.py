"""What a killed trainer leaves on a judge server, for the client that all adapters share."""

import pytest

from editcritic.integrations.trainers.trainer_reward import TrainerReward

from .entries import rows_of, samples_of
from .killed_trainer import killed_and_restarted
from .trainer_cases import Judge, batch, values


def score_batch(url: str) -> list[float]:
    return TrainerReward(url)(samples_of(rows_of(batch()))).values


def broken_step(url: str) -> None:
    raise ValueError("this trainer is broken")


def test_a_restarted_trainer_has_the_same_values_and_no_question_is_repeated():
    assert killed_and_restarted(f"{__name__}:score_batch", Judge()) == (values(batch()), 16)


def test_a_step_that_never_asks_is_seen_with_its_reason():
    with pytest.raises(AssertionError, match="this trainer is broken"):
        killed_and_restarted(f"{__name__}:broken_step", Judge())
