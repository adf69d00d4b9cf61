"""Micro-batching: batch sizes within a memory budget, halved after running out of memory."""

import warnings
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.reward.experts.loading.devices import Microbatcher, is_out_of_memory, parse_byte_size
from editcritic.reward.queries import ExpertDown

MIB = 2**20


def test_sizes_are_read_and_what_is_none_is_refused():
    sizes = {"8GiB": 8 * 2**30, "500MB": 500_000_000, "1.5 kib": 1536, "1000": 1000}
    assert {text: parse_byte_size(text) for text in sizes} == sizes
    for text in ("", "lots", "8 gibs", "-1GiB", "1" * 5000):
        with pytest.raises(ValueError, match="such as 8GiB"):
            parse_byte_size(text)


class Model:
    """Doubles numbers; runs out of memory with more than `room` of them at once. mib: that each takes meanwhile."""

    def __init__(self, room: int = 2**30, mib: float = 0) -> None:
        self.room = room
        self.mib = mib
        self.tried: list[int] = []

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.tried.append(len(items))
        if len(items) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        buffer = torch.empty(len(items), int(self.mib * MIB), dtype=torch.uint8)
        return [2 * n for n, _ in zip(items, buffer, strict=True)]


@settings(max_examples=25)  # each collects garbage several times
@given(count=st.integers(0, 50), most=st.integers(1, 40), room=st.integers(1, 40))
def test_a_pass_that_runs_out_of_memory_is_done_again_in_halves(count, most, room):
    model, passes = Model(room), Microbatcher(most, name="tiny")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert passes.map(model, range(count), "cpu") == [2 * n for n in range(count)]
    done = [size for size in model.tried if size <= room]
    assert sum(done) == count  # finished items are not computed again
    assert model.tried == sorted(model.tried, reverse=True)  # the size that failed is not tried again


def test_it_says_so_and_keeps_what_was_learnt_when_the_most_changes():
    passes = Microbatcher(8, name="tiny")
    with pytest.warns(UserWarning, match="tiny ran out of memory in a pass of 8: from now on 4 at a time"):
        passes.map(Model(4), range(8), "cpu")
    passes.max_batch_size = 16
    assert passes.size == 4
    passes.max_batch_size = 2
    assert passes.size == 2


def test_one_that_does_not_fit_alone_and_other_errors_are_raised():
    def broken(items: Sequence[int]) -> list[int]:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    with pytest.warns(UserWarning, match="at a time"), pytest.raises(torch.OutOfMemoryError):
        Microbatcher(4, name="tiny").map(Model(0), range(4), "cpu")
    with pytest.raises(RuntimeError, match="shapes"):
        Microbatcher(4).map(broken, range(4), "cpu")
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert is_out_of_memory(caught.value)  # torch on a CPU says it in words
    assert not is_out_of_memory(RuntimeError("something else"))


def budgeted(mib: float, weights: float = 0, cache: float = 0, most: int = 64) -> Any:
    passes = Microbatcher(most, budget=int(mib * MIB), name="tiny")
    passes.set_budget(int(weights * MIB), int(cache * MIB))
    return passes


def test_a_budget_makes_passes_as_large_as_fit():
    model, passes = Model(mib=2), budgeted(30, 6, 4)
    assert passes.map(model, range(31), "cpu") == [2 * n for n in range(31)]
    assert model.tried == [1, 10, 10, 10]  # (30 - 6 - 4) / 2, measured in the first pass
    passes.map(Model(mib=4), range(1), "cpu")
    assert passes.size == 5  # what a hungrier item took counts from then on
    model = Model(mib=1)
    Microbatcher(16).map(model, range(40), "cpu")
    assert model.tried == [16, 16, 8]  # no budget takes what it is told


def test_a_budget_that_weights_use_up_is_refused_and_one_item_beyond_it_is_said_and_done():
    with pytest.raises(ExpertDown, match=r"tiny may take 1 GiB, but its weights take 0.9 and cache_bytes is 0.1"):
        budgeted(1024, 0.9 * 1024, 0.1 * 1024 + 1)
    with pytest.warns(UserWarning, match="one pass of tiny takes 3 MiB, and its max_memory leaves 1 MiB"):
        assert budgeted(1).map(Model(mib=3), range(2), "cpu") == [0, 2]
