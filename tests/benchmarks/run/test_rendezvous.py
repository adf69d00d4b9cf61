"""Several processes judge a suite together, and nobody can tell from what they write."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from editcritic.benchmarks.inputs import InputError
from editcritic.benchmarks.suite_run import sharing
from editcritic.benchmarks.suite_run.sharing import HandedIn, Meeting, Share

from ..suites.toy import Toy


def test_cases_are_shared_whole() -> None:
    suite = Toy(count=5)
    shares = [[item.id for item in Share(rank, 3).items(suite)] for rank in range(3)]
    assert shares == [["0/1", "0/2", "3/1", "3/2"], ["1/1", "1/2", "4/1", "4/2"], ["2/1", "2/2"]]


def test_a_process_that_died_is_noticed(tmp_path: Path) -> None:
    with Meeting(tmp_path, Share(0, 3)) as first:
        second = Meeting(tmp_path, Share(1, 3))
        second.__enter__()
        third = threading.Thread(target=_hands_in, args=(tmp_path,))
        third.start()
        threading.Timer(0.5, second.__exit__).start()
        found = first.collect()
    third.join()
    assert found[0].ended == "process 1 of 3 ended before its part was done"
    assert found[1].lines == {"a": '{"id": "a"}'}


def _hands_in(folder: Path) -> None:
    with Meeting(folder, Share(2, 3)) as meeting:
        meeting.hand_in(HandedIn({"a": '{"id": "a"}'}))


def test_a_process_that_never_comes_is_waited_for_so_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "START_S", 0.2)
    with Meeting(tmp_path, Share(0, 2)) as first:
        assert "did not come" in first.collect()[0].ended


def test_a_part_of_an_earlier_run_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "START_S", 0.2)
    (tmp_path / "part-1.jsonl").write_text('{"ended": "", "facts": {}}\n{"id": "old"}\n')
    with Meeting(tmp_path, Share(0, 2)) as first:
        assert not first.collect()[0].lines


def test_a_second_run_on_one_journal_is_refused(tmp_path: Path) -> None:
    with Meeting(tmp_path, Share()), pytest.raises(InputError, match="another run is at work"):
        Meeting(tmp_path, Share()).__enter__()


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"RANK": "2", "WORLD_SIZE": "2"}, "do not fit"),
        ({"RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}, "--ray"),
        ({"RANK": "x"}, "whole numbers"),
    ],
)
def test_an_environment_that_makes_no_sense_is_refused(environment: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Share.of(environment)


def test_mpi_says_the_same_with_other_words() -> None:
    said = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
    assert Share.of(said) == Share(1, 2)


@pytest.mark.parametrize(
    ("share", "visible", "left"),
    [
        (Share(3, 4), None, "1"),
        (Share(1, 4), "5,7", "7"),
        (Share(0, 1), "5,7", "5,7"),
        (Share(0, 1), None, None),
        (Share(1, 2), "", ""),
    ],
)
def test_each_process_has_a_gpu_of_its_own(tmp_path: Path, share: Share, visible: str | None, left: str | None) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        (tmp_path / name).touch()
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    share.take_gpu(environment, tmp_path)
    assert environment.get("CUDA_VISIBLE_DEVICES") == left
