"""How much of a gradient is noise."""

import pytest

from editcritic.benchmarks.learning.gradients import cosine, main

NEEDS = ("torch",)


@pytest.mark.slow
def test_the_cosine_is_one_and_the_same_every_time():
    settings = {"objective": "nft", "levels": 1}
    found = cosine(1, 3, settings)
    assert -1 <= found <= 1
    assert cosine(1, 3, settings) == found


def test_settings_that_are_none_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--set", "objective=ppo"])
    assert "--set: " in capsys.readouterr().err
