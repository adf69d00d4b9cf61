"""Work for all cores is done by one thread, in turn, for whoever asks."""

import gc
import os
import threading
import weakref
from functools import partial

import pytest

from editcritic.reward.models.cores import in_turn


def test_one_thread_does_all_of_it_one_after_the_other():
    seen, now, most = set(), 0, 0

    def work():
        nonlocal now, most
        seen.add(threading.current_thread())
        now += 1
        most = max(most, now)
        now -= 1

    threads = [threading.Thread(target=lambda: [in_turn(work) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == most == 1
    assert threading.current_thread() not in seen


def test_everybody_gets_his_own_result():
    found = {}

    def ask(number):
        found[number] = in_turn(lambda: number**2)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: number**2 for number in range(20)}


def test_work_may_ask_for_more_in_turn():
    assert in_turn(lambda: in_turn(lambda: 7)) == 7


def test_what_is_raised_is_raised_to_who_asked_and_the_next_is_served():
    def work():
        raise KeyboardInterrupt("enough")

    with pytest.raises(KeyboardInterrupt, match="enough"):
        in_turn(work)
    assert in_turn(lambda: 7) == 7


def test_work_that_hangs_holds_up_nobody_after_its_deadline():
    hangs, threads = threading.Event(), []

    def hang():
        threads.append(threading.current_thread())
        return hangs.wait(60)

    found = []
    asking = threading.Thread(target=lambda: found.append(in_turn(hang, deadline_s=0.05)))
    asking.start()
    while not threads:
        asking.join(0.001)
    fresh = in_turn(threading.current_thread)
    assert fresh is not threads[0]
    assert in_turn(threading.current_thread) is fresh
    assert found == []
    hangs.set()
    asking.join(60)
    assert found == [True]
    threads[0].join(60)  # it is not needed any more
    assert not threads[0].is_alive()
    assert in_turn(threading.current_thread) is fresh


def test_nothing_is_held_afterwards():
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    in_turn(partial(id, thing))
    del thing
    in_turn(lambda: None)
    gc.collect()
    assert gone() is None


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_has_a_thread_of_its_own():
    assert in_turn(lambda: 7) == 7
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if in_turn(lambda: 7) == 7 else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
