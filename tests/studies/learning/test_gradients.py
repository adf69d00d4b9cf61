"""How much of a gradient is noise."""

import pytest

from studies.learning.gradients import cosine, main

NEEDS = ("torch",)


@pytest.mark.slow
def test_the_cosine_is_one_and_the_same_every_time():
    settings = {"objective": "nft", "num_noise_levels": 1}
    similarity = cosine(1, 3, settings)
    assert -1 <= similarity <= 1
    assert cosine(1, 3, settings) == similarity


def test_settings_that_are_none_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--set", "objective=ppo"])
    assert "--set: " in capsys.readouterr().err
