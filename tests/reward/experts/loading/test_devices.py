"""Micro-batching within a memory budget, jobs that use all cores in turn, and quantisation with bitsandbytes."""

import gc
import os
import re
import threading
import warnings
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import torch
from bitsandbytes.functional import has_avx512bf16
from bitsandbytes.nn import Linear4bit
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.reward.experts.loading.cpu_cores import run_in_turn
from editcritic.reward.experts.loading.devices import Microbatcher, is_out_of_memory, parse_byte_size
from editcritic.reward.experts.vlm import Vlm
from editcritic.reward.installation import install_command
from editcritic.reward.queries import ExpertDown, Judge, Message, YesNo

from ...fakes import picture
from ..checkpoints import DEVICE
from ..tiny_vlms import tiny_llava

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


def test_one_thread_does_all_of_it_one_after_the_other_and_everybody_gets_his_own_result():
    seen, now, peak = set(), 0, 0

    def work(number):
        nonlocal now, peak
        seen.add(threading.current_thread())
        now += 1
        peak = max(peak, now)
        now -= 1
        return number**2

    def ask(number):
        return [run_in_turn(partial(work, number)) for _ in range(20)][-1]

    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(ask, range(20))) == [number**2 for number in range(20)]
    assert len(seen) == peak == 1
    assert threading.current_thread() not in seen


def test_work_may_ask_for_more_what_is_raised_is_raised_to_who_asked_and_nothing_is_held_afterwards():
    def work():
        raise KeyboardInterrupt("enough")

    assert run_in_turn(lambda: run_in_turn(lambda: 7)) == 7
    with pytest.raises(KeyboardInterrupt, match="enough"):
        run_in_turn(work)
    gone = weakref.ref(thing := threading.Event())
    run_in_turn(partial(id, thing))
    del thing
    assert run_in_turn(lambda: 7) == 7
    gc.collect()
    assert gone() is None


def test_work_that_hangs_holds_up_nobody_after_its_deadline():
    hangs, threads, results = threading.Event(), [], []

    def hang():
        threads.append(threading.current_thread())
        return hangs.wait(60)

    asking = threading.Thread(target=lambda: results.append(run_in_turn(hang, deadline_s=0.05)))
    asking.start()
    while not threads:
        asking.join(0.001)
    fresh = run_in_turn(threading.current_thread)
    assert fresh is not threads[0]
    assert run_in_turn(threading.current_thread) is fresh
    assert results == []
    hangs.set()
    asking.join(60)
    assert results == [True]
    threads[0].join(60)  # it is not needed any more
    assert not threads[0].is_alive()
    assert run_in_turn(threading.current_thread) is fresh


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_a_thread_of_its_own():
    assert run_in_turn(lambda: 7) == 7
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if run_in_turn(lambda: 7) == 7 else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


TEXTS = ["Is the circle red?", "poor", "Did the blue square stay left of it?", "8", "very good edit before and after"]
ASKED = [Judge((Message((text, picture(number, 40, 40))),), YesNo()) for number, text in enumerate(TEXTS)]


# bitsandbytes' AVX-512 kernel needs multiples of 32 outputs and 64 inputs: all layers are at this width.
KERNEL_WIDTH = 128


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("tiny-llava")
    tiny_llava(place, seed=5, width=KERNEL_WIDTH)  # its probabilities differ clearly
    return str(place)


def judge(folder, **loading):
    return Vlm(folder, dtype="float32", min_option_mass=0.0, **loading)


@pytest.mark.parametrize("quantisation", ["int8", "nf4", "fp4"])
def test_it_takes_less_memory_and_says_nearly_the_same(folder, quantisation):
    full, small = judge(folder), judge(folder, quantisation=quantisation)
    expected, actual = ([reply.probabilities["yes"] for reply in expert(ASKED)] for expert in (full, small))
    assert small.bytes[DEVICE] < full.bytes[DEVICE]
    assert max(expected) - min(expected) > 0.3
    assert actual == pytest.approx(expected, abs=0.1)
    assert quantisation in small.id
    assert small.id != full.id


@pytest.mark.parametrize(("width", "uses_kernel"), [(KERNEL_WIDTH, True), (16, False)])
def test_the_kernel_of_the_processor_multiplies_the_widths_that_it_takes(tmp_path, width, uses_kernel):
    tiny_llava(tmp_path, width=width)
    small = judge(str(tmp_path), quantisation="nf4")
    assert all(0 < reply.probabilities["yes"] < 1 for reply in small(ASKED))
    with small.checkpoint.use() as loaded:
        layers = [layer for layer in loaded.model.modules() if isinstance(layer, Linear4bit)]
    packed = {getattr(layer.weight.quant_state, "packing_format_for_cpu", False) for layer in layers}
    assert packed == {uses_kernel and has_avx512bf16()}


def test_offloading_drops_it_and_without_bitsandbytes_it_says_what_to_install(folder, monkeypatch):
    small = judge(folder, quantisation="nf4")
    before = small(ASKED)
    small.offload()
    assert sum(small.checkpoint.bytes.values()) == 0
    assert small(ASKED) == before
    monkeypatch.setattr("transformers.utils.is_bitsandbytes_available", lambda *_: False)
    with pytest.raises(ExpertDown, match=re.escape("needs bitsandbytes: " + install_command("quantised"))):
        judge(folder, quantisation="int8", batch=3, backend="pil")(ASKED)
