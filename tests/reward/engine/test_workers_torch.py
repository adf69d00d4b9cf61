"""Experts with torch: they run in inference mode, their callers do not, and a tensor is not a number."""

import random
from typing import Any, cast

import numpy as np
import torch

from editcritic.reward import Engine
from editcritic.reward.queries import Measurement

from ..fakes import Fake, asks, known, run_all


def test_experts_run_in_inference_mode_and_callers_do_not():
    modes = []

    def rule(query):
        modes.append((torch.is_inference_mode_enabled(), torch.is_grad_enabled()))
        return known(query)

    weight = torch.ones(1, requires_grad=True)
    state = torch.random.get_rng_state(), random.getstate(), np.random.get_state(legacy=False)  # noqa: NPY002
    with Engine() as engine:
        run_all(engine, [asks(1)], Fake(rule))
    assert modes == [(True, False)]
    assert not torch.is_inference_mode_enabled()
    (weight * 2).backward()
    assert weight.grad == 2
    assert torch.equal(state[0], torch.random.get_rng_state())
    assert (state[1], repr(state[2])) == (random.getstate(), repr(np.random.get_state(legacy=False)))  # noqa: NPY002


def test_a_tensor_is_no_answer():
    with Engine() as engine:
        (score,) = run_all(engine, [asks(1)], Fake(lambda query: Measurement(cast(Any, torch.tensor(0.5)))))
    assert score.status == "failed"
    assert "rate expects finite floats, got Measurement(value=tensor" in score.reason
