"""Atomic writes: whole or not at all, for exceptions, kills and several writers."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from editcritic.reward.atomic_files import atomic_replacement, write_atomically

KILLED_WRITER = """
import os, signal, sys
from pathlib import Path
from editcritic.reward.atomic_files import atomic_replacement

with atomic_replacement(Path(sys.argv[1])) as temporary:
    temporary.write_text('{"half": ')
    os.kill(os.getpid(), signal.SIGKILL)
"""
FULL = """
import resource, signal, sys, warnings
from pathlib import Path
from editcritic.benchmarks.common.terminal import user_error_text, user_errors
from editcritic.benchmarks.run.run_journal import RowJournal
from editcritic.benchmarks.run.scoring_run import open_scores_file
from editcritic.reward import AnswerLog
from editcritic.reward.atomic_files import write_atomically

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
folder = Path(sys.argv[1])
text = "x" * 1_000_000

def scores():
    with open_scores_file(folder / "scores.jsonl") as file:
        file.write(text)

def journal():
    RowJournal(folder / "journal").append("key", {"id": text})

def log():
    with AnswerLog(folder / "answers.db") as log:
        log.add_sample(text)

for write in (scores, lambda: write_atomically(folder / "report.html", text), journal, log):
    try:
        write()
    except user_errors() as error:
        print(user_error_text(error))
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_text_replaces_the_file(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text("old")
    assert write_atomically(path, "a\r\nb\n€") == path
    assert path.read_bytes() == "a\r\nb\n€".encode()
    assert names(tmp_path) == ["rows.json"]
    text = json.dumps("a\udc80b", ensure_ascii=False)
    assert json.loads(write_atomically(tmp_path / "rows.json", text).read_text("utf-8")) == "a\udc80b"


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_an_exception_leaves_the_file_as_it_was(tmp_path: Path, kind: type[BaseException]) -> None:
    path = tmp_path / "map.json"
    path.write_text("old")

    def write_half() -> None:
        with atomic_replacement(path) as temporary:
            temporary.write_text("half")
            raise kind

    with pytest.raises(kind):
        write_half()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["map.json"]


def test_a_killed_writer_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "rows-0.jsonl"
    path.write_text("old")
    killed = subprocess.run([sys.executable, "-c", KILLED_WRITER, path], timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    leftover = [name for name in names(tmp_path) if name != path.name]
    assert len(leftover) == 1, "a killed process removes nothing"
    for pattern in ("*.jsonl", "rows-*", "*.json", "*.parquet", "*.png"):
        assert leftover[0] not in [found.name for found in tmp_path.glob(pattern)], "readers do not list it"
    write_atomically(path, "new")
    assert path.read_text() == "new"


def test_the_content_is_on_disk_before_the_name_and_threads_keep_apart(tmp_path, monkeypatch):
    path = tmp_path / "image.png"
    other: list[Path] = []
    thread = threading.Thread(target=lambda: other.append(write_atomically(path, "of the other thread")))
    with atomic_replacement(path) as temporary:
        temporary.write_text("of this thread")
        thread.start()
        thread.join()
        assert path.read_text() == "of the other thread"
    assert other == [path]
    assert path.read_text() == "of this thread"
    assert names(tmp_path) == ["image.png"]
    path, fsync = tmp_path / "map.json", os.fsync
    sizes: list[int] = []

    def recorded(descriptor: int) -> None:
        assert not path.exists()
        sizes.append(os.fstat(descriptor).st_size)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recorded)
    write_atomically(path, "12345")
    assert sizes == [5]


@pytest.mark.skipif(os.name == "nt", reason="limits of POSIX stand in for a full disk")
def test_a_full_disk_names_the_file(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, timeout=120)
    files = ["scores.jsonl", "report.html", "journal/rows-0.jsonl", "answers.db"]
    assert [line.partition(": ")[0] for line in done.stdout.splitlines()] == [str(tmp_path / name) for name in files]
    assert done.stdout.count("File too large") == 3


WRITER = """
import sys
from pathlib import Path
from editcritic.reward.atomic_files import write_atomically

for _ in range(100):
    write_atomically(Path(sys.argv[1]), sys.argv[2] * 100_000)
"""


def test_two_processes_never_mix_their_contents(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, letter]) for letter in "ab"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            seen.add(path.read_text())
    assert [writer.returncode for writer in writers] == [0, 0]
    seen.add(path.read_text())
    assert seen <= {"a" * 100_000, "b" * 100_000}
    assert names(tmp_path) == ["state.json"]
