"""Best of n with the tiny editor: everything given and nothing given select from the same candidates."""

import numpy as np
import pytest

from studies.open_language.best_of_n import SETTINGS, measure_best_of_n
from studies.open_language.open_report import markdown
from studies.open_language.study import OpenStudy

pytest.importorskip("diffusers")


@pytest.mark.slow
def test_a_small_run_selects_at_least_as_well_as_chance_and_resumes(tmp_path):
    study = measure_best_of_n([3], 9, tmp_path, candidates=3)
    assert list(study.chosen) == list(SETTINGS)
    assert study.single.shape == (9,)
    for name, values in study.chosen.items():
        assert ((values >= 0) & (values <= 1)).all()
        assert study.gain(name)[0] >= -0.2
    again = measure_best_of_n([3], 9, tmp_path, candidates=3)
    assert all(np.array_equal(study.chosen[name], again.chosen[name]) for name in SETTINGS)
    table = markdown(OpenStudy([]), study)
    assert "| any-edit, nothing given |" in table
