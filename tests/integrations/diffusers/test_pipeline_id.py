"""The id of a pipeline: settings and solver by all their content."""

from types import SimpleNamespace

import numpy as np
from diffusers import DDIMScheduler

from editcritic.integrations.diffusers.pipeline_id import pipeline_id


def identified(betas: np.ndarray) -> str:
    pipeline = SimpleNamespace(scheduler=DDIMScheduler(trained_betas=betas), components={}, name_or_path="tiny")
    return pipeline_id(pipeline, {"num_inference_steps": 4})


def test_solvers_that_differ_within_a_long_array_differ():
    betas = np.linspace(1e-4, 0.02, 2000)
    changed = betas.copy()
    changed[1000] *= 2
    assert str(betas) == str(changed)
    assert identified(betas) == identified(betas.copy())
    assert identified(betas) != identified(changed)
