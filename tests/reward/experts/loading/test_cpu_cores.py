"""Jobs that use all cores run one after the other in one thread."""

import gc
import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from editcritic.reward.experts.loading.cpu_cores import run_in_turn


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
