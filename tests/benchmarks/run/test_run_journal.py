"""Coordination of several processes that score a suite together."""

import threading

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.run import run_journal
from editcritic.benchmarks.run.run_journal import ProcessRank, Rendezvous, ShardResult

from ..suites.tiny_suite import Toy


def test_cases_are_shared_whole():
    suite = Toy(count=5)
    shares = [[item.id for item in ProcessRank(rank, 3).items(suite)] for rank in range(3)]
    assert shares == [["0/1", "0/2", "3/1", "3/2"], ["1/1", "1/2", "4/1", "4/2"], ["2/1", "2/2"]]


def test_a_process_that_died_is_noticed(tmp_path):
    def hand_in() -> None:
        with Rendezvous(tmp_path, ProcessRank(2, 3)) as meeting:
            meeting.submit(ShardResult({"a": '{"id": "a"}'}))

    with Rendezvous(tmp_path, ProcessRank(0, 3)) as first:
        second = Rendezvous(tmp_path, ProcessRank(1, 3))
        second.__enter__()
        third = threading.Thread(target=hand_in)
        third.start()
        threading.Timer(0.5, second.__exit__).start()
        shards = first.collect()
    third.join()
    assert shards[0].stop_reason == "process 1 of 3 ended before its shard was done"
    assert shards[1].row_lines == {"a": '{"id": "a"}'}


def test_a_process_that_never_comes_is_waited_for_so_long(tmp_path, monkeypatch):
    """What it handed in at an earlier run is not taken."""
    monkeypatch.setattr(run_journal, "STARTUP_TIMEOUT_S", 0.2)
    (tmp_path / "shard-1.jsonl").write_text('{"stop_reason": "", "statistics": {}}\n{"id": "old"}\n')
    with Rendezvous(tmp_path, ProcessRank(0, 2)) as first:
        (shard,) = first.collect()
    assert "did not start" in shard.stop_reason
    assert not shard.row_lines


def test_a_first_process_that_has_read_the_shard_and_ended_at_once_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(run_journal, "write_atomically", lambda path, text: None)  # as if it was read at once
    monkeypatch.setattr("time.sleep", lambda _: pytest.fail("it waits"))
    with Rendezvous(tmp_path, ProcessRank(1, 2)) as second:
        second.submit(ShardResult())


def test_a_second_run_on_one_journal_is_refused(tmp_path):
    with Rendezvous(tmp_path, ProcessRank()), pytest.raises(InputError, match="another run uses"):
        Rendezvous(tmp_path, ProcessRank()).__enter__()


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"RANK": "2", "WORLD_SIZE": "2"}, "do not fit"),
        ({"RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}, "table .ray."),
        ({"RANK": "x"}, "whole numbers"),
    ],
)
def test_an_environment_that_makes_no_sense_is_refused(environment, message):
    with pytest.raises(InputError, match=message):
        ProcessRank.from_environment(environment)
    mpi = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
    assert ProcessRank.from_environment(mpi) == ProcessRank(1, 2)


@pytest.mark.parametrize(
    ("share", "visible", "left"),
    [
        (ProcessRank(3, 4), None, "1"),
        (ProcessRank(1, 4), "5,7", "7"),
        (ProcessRank(0, 1), "5,7", "5,7"),
        (ProcessRank(0, 1), None, None),
        (ProcessRank(1, 2), "", ""),
    ],
)
def test_each_process_has_a_gpu_of_its_own(tmp_path, share, visible, left):
    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        (tmp_path / name).touch()
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    share.assign_gpu(environment, tmp_path)
    assert environment.get("CUDA_VISIBLE_DEVICES") == left
