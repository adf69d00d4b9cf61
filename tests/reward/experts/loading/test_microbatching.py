"""Passes have as many items as fit: within a budget, and in halves where memory runs out."""

import warnings
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import ExpertDown
from editcritic.reward.models.passes import Passes, bytes_of, out_of_memory

MIB = 2**20


@pytest.mark.parametrize(
    ("said", "bytes_"), [("8GiB", 8 * 2**30), ("500MB", 500_000_000), ("1.5 kib", 1536), ("1000", 1000)]
)
def test_sizes_are_read(said, bytes_):
    assert bytes_of(said) == bytes_


@pytest.mark.parametrize("said", ["", "lots", "8 gibs", "-1GiB"])
def test_what_is_no_size_is_refused(said):
    with pytest.raises(ValueError, match="such as 8GiB"):
        bytes_of(said)


class Model:
    """Doubles numbers; runs out of memory with more than `room` of them at once."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.tried: list[int] = []

    def __call__(self, some: Sequence[int]) -> list[int]:
        self.tried.append(len(some))
        if len(some) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return [2 * n for n in some]


@given(count=st.integers(0, 50), most=st.integers(1, 40), room=st.integers(1, 40))
def test_a_pass_that_runs_out_of_memory_is_done_again_in_halves(count, most, room):
    model, passes = Model(room), Passes(most, name="tiny")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert passes.through(model, range(count), "cpu") == [2 * n for n in range(count)]
    done = [size for size in model.tried if size <= room]
    assert sum(done) == count  # nothing that was computed is computed again
    assert model.tried == sorted(model.tried, reverse=True)  # what was too many is not tried again


def test_it_says_so():
    with pytest.warns(UserWarning, match="tiny ran out of memory in a pass of 8: from now on 4 at a time"):
        Passes(8, name="tiny").through(Model(4), range(8), "cpu")


def test_one_that_does_not_fit_alone_is_an_error():
    with pytest.warns(UserWarning, match="at a time"), pytest.raises(torch.OutOfMemoryError):
        Passes(4, name="tiny").through(Model(0), range(4), "cpu")


def test_other_errors_are_not_taken_for_it():
    def broken(some: Sequence[int]) -> list[int]:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="shapes"):
        Passes(4).through(broken, range(4), "cpu")


def test_torch_on_a_cpu_says_it_in_words():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert out_of_memory(caught.value)
    assert not out_of_memory(RuntimeError("something else"))


def hungry(mib: float) -> Any:
    """Takes so much for each item while it works."""

    def compute(some: Sequence[int]) -> list[int]:
        sizes.append(len(some))
        held = torch.empty(len(some), int(mib * MIB), dtype=torch.uint8)
        return [int(held.shape[0] and n) for n in some]

    sizes: list[int] = []
    compute.sizes = sizes  # type: ignore[attr-defined]
    return compute


def test_a_budget_makes_passes_as_large_as_fit():
    compute, passes = hungry(2), Passes(64, budget=30 * MIB)
    passes.reserve(weights=6 * MIB, kept=4 * MIB)
    assert passes.through(compute, range(31), "cpu") == list(range(31))
    assert compute.sizes == [1, 10, 10, 10]  # (30 - 6 - 4) / 2, known after the first


def test_what_a_hungrier_item_took_counts_from_then_on():
    passes = Passes(64, budget=32 * MIB)
    passes.reserve(0, 0)
    passes.through(hungry(1), range(33), "cpu")
    assert passes.size == 32
    passes.through(hungry(4), range(1), "cpu")
    assert passes.size == 8


def test_no_budget_takes_what_it_is_told():
    compute = hungry(1)
    Passes(16).through(compute, range(40), "cpu")
    assert compute.sizes == [16, 16, 8]


def test_a_budget_that_weights_use_up_is_refused():
    with pytest.raises(ExpertDown, match=r"tiny may take 1 GiB, but its weights take 0.9 and limit_bytes is 0.1"):
        Passes(8, budget=2**30, name="tiny").reserve(int(0.9 * 2**30), int(0.1 * 2**30) + 10)


def test_one_item_beyond_the_budget_is_said_and_done():
    passes = Passes(8, budget=MIB, name="tiny")
    passes.reserve(0, 0)
    with pytest.warns(UserWarning, match="one pass of tiny takes 3 MiB, and its memory= leaves 1 MiB"):
        assert passes.through(hungry(3), range(2), "cpu") == [0, 1]


def test_the_most_may_change_and_what_was_learnt_stays():
    model, passes = Model(4), Passes(8, name="tiny")
    with pytest.warns(UserWarning, match="from now on 4 at a time"):
        passes.through(model, range(8), "cpu")
    passes.most = 16
    assert passes.size == 4
    passes.most = 2
    assert passes.size == 2
