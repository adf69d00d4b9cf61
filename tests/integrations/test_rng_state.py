"""What a trainer's random numbers are after a reward was asked."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from editcritic.integrations.trl.reward_function import AsyncRewardFunction, RewardFunction
from editcritic.reward import Image

from ..verifiers.numpy_editor import graded
from .trl_runs import asking


@dataclass
class Drawing:
    """An editor that draws from every global generator there is, with weights that want gradients."""

    id: str = "drawing"
    nfe: int = 1
    batch_size: int = 8
    graphs: Counter[bool] = field(default_factory=Counter)

    def edit(self, images, instructions, seeds, *, history=None):
        weights = torch.nn.Parameter(torch.rand(8, 8, 3))
        shown = weights * random.random() * np.random.rand()  # noqa: NPY002
        self.graphs[shown.requires_grad] += 1
        torch.manual_seed(5)
        return [Image.of(shown.detach())] * len(images)


def drawn():
    return random.random(), float(np.random.rand()), float(torch.rand(()))  # noqa: NPY002


def after(work) -> tuple[float, float, float]:
    """What is drawn next, from generators that stood at the same numbers before the work."""
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    torch.manual_seed(3)
    work()
    return drawn()


def test_random_numbers_go_on_as_if_no_reward_had_been_asked_also_after_an_error():
    editor = Drawing()
    reward = RewardFunction(graded(), editor=editor)
    assert after(lambda: reward(**asking("a", "b"))) == after(lambda: None)
    assert set(editor.graphs) == {False}
    assert torch.is_grad_enabled()

    def draws_and_fails(completion, completion_ids, row):
        drawn()
        raise ValueError("one picture, please")

    def wrong():
        with pytest.raises(ValueError, match="one picture"):
            RewardFunction(graded(), decode_image=draws_and_fails)(**asking("a"))

    assert after(wrong) == after(lambda: None)


@pytest.mark.parametrize("calls", [1, 6])
def test_threads_put_back_what_torch_draws_and_leave_alone_what_the_program_draws(calls):
    editor = Drawing()
    reward = AsyncRewardFunction(RewardFunction(graded(), editor=editor))

    async def together():
        await asyncio.gather(*(reward(**asking(f"{number}")) for number in range(calls)))

    def own():
        for _ in range(calls):  # what the editors drew of Python's and numpy's stays drawn
            random.random()
            np.random.rand()  # noqa: NPY002

    assert after(lambda: asyncio.run(together())) == after(own)
    assert set(editor.graphs) == {False}
