"""Experts and an editor that take their time, for what is interrupted."""

import sys
import time
from collections.abc import Sequence
from typing import Any

from editcritic.reward import Expert, Image
from editcritic.reward.queries import Judge, Reply

from ..benchmarks.suites.construction.scripted_experts import Script
from ..benchmarks.suites.tiny_suite import CoinJudge, picture


class SlowJudge(Expert):
    """Replies as `CoinJudge`, 0.1 s for each query."""

    id = "slow@1"
    kinds = (Judge,)
    batch = 2

    def __call__(self, queries: Sequence[Judge]) -> Sequence[Reply]:
        time.sleep(0.1 * len(queries))
        return CoinJudge()(queries)


class LongCall(Expert):
    """Is for 20 s in and out of torch's C++, whose backward pass calls Python; says on standard output when it is."""

    id = "long@1"
    kinds = (Judge,)

    def __call__(self, queries: Sequence[Judge]) -> Sequence[Reply]:
        import torch

        class Step(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, value: Any) -> Any:
                return value * 1

            @staticmethod
            def backward(ctx: Any, gradient: Any) -> Any:
                return gradient * 1

        sys.stdout.write("computing\n")
        sys.stdout.flush()
        end = time.monotonic() + 20
        with torch.inference_mode(False), torch.enable_grad():
            while time.monotonic() < end:
                value = start = torch.ones(8, requires_grad=True)
                for _ in range(50):
                    value = Step.apply(value)
                value.sum().backward()
                del start
        return CoinJudge()(queries)


def slow_editor(image: Any, instruction: str, seed: int) -> Any:
    """A noise image of the seed, after 0.1 s."""
    time.sleep(0.1)
    made: Image = picture(seed)
    return made.pil()


class SlowScript(Script):
    """Replies what EdiVal's pipeline asks for, 0.1 s for each query."""

    id = "slow-script@1"
    batch = 2

    def __call__(self, queries: Sequence[Judge]) -> Any:
        time.sleep(0.1 * len(queries))
        return super().__call__(queries)
