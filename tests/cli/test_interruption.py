"""Ctrl-C and other signals, at seeded moments, to real processes."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ..benchmarks.run.counting_experts import files
from ..benchmarks.suites.tiny_suite import Toy, outputs, picture
from ..default_signals import default_signals

ROOT = Path(__file__).parents[2]
SUITE = "tests.benchmarks.suites.tiny_suite:Toy?count=10"
FEW = ("--selector", "best-of?n=6")
NO_MODELS = ("--reward", "guard-not-blank")
SLOW = "judge=tests.cli.slow_parts:SlowJudge"

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux what the process catches")


def program(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "editcritic.cli.main", *map(str, arguments)]


@contextlib.contextmanager
def started(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """The process, once it handles signals: before that, it is Python that starts."""
    with default_signals():
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    try:
        while process.poll() is None and not catches(process.pid, signal.SIGHUP):
            time.sleep(0.002)
        yield process
    finally:
        process.kill()
        process.communicate()


def catches(process: int, number: int) -> bool:
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) >> (number - 1) & 1)


def interrupted(
    command: Sequence[str], delay: float, number: int = signal.SIGINT, *, times: int = 1
) -> tuple[int, str, str]:
    """Exit code, standard output and error of the command that got the signal after a delay in seconds."""
    with started(command) as process:
        time.sleep(delay)
        for _ in range(times):
            process.send_signal(number)
            time.sleep(0.01 * (times > 1))
        stdout, stderr = process.communicate(timeout=60)
    return process.returncode, stdout, stderr


def check_interrupted(code: int, stderr: str, number: int = signal.SIGINT) -> None:
    assert code == 128 + number, stderr
    assert stderr.count("editcritic: interrupted") == 1, stderr
    for wrong in ("Traceback", "Fatal Python error", "terminate called", "Exception ignored"):
        assert wrong not in stderr


def completed(command: Sequence[str], seconds: float = 120) -> str:
    """What a command that succeeds prints."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_until_done(command: Sequence[str], delays: Sequence[float]) -> int:
    """Interrupt a command after each of the delays, then let it end; returns how often it was interrupted."""
    count = 0
    for delay in delays:
        code, _, stderr = interrupted(command, delay)
        if code != 0:  # it had ended
            check_interrupted(code, stderr)
            count += 1
    completed(command)
    return count


def delays(seed: int, count: int, longest: float) -> list[float]:
    chance = random.Random(seed)
    return [0.0, *(chance.uniform(0.0, longest) for _ in range(count - 1))]


def bench_run(folder: Path, out: str) -> list[str]:
    made = folder / "outputs"
    if not made.exists():
        outputs(made, Toy(count=10))
    options = ("--outputs", made, "-o", folder / out, "--editor-name", "mine", "--experts", SLOW)
    return program("bench", "run", SUITE, *options, "--metric", "following")


@pytest.mark.parametrize("count", [4, pytest.param(60, marks=pytest.mark.slow)])
def test_an_interrupted_bench_run_is_resumed_with_equal_results(tmp_path: Path, count: int) -> None:
    completed(bench_run(tmp_path, "whole"))
    assert run_until_done(bench_run(tmp_path, "parts"), delays(1, count, 2.5)) >= 1
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    assert not list((tmp_path / "parts").rglob("*.tmp"))


@pytest.mark.parametrize(
    ("number", "times"), [(signal.SIGTERM, 1), (signal.SIGHUP, 1), (signal.SIGINT, 2), (signal.SIGTERM, 3)]
)
def test_every_signal_ends_a_command_with_its_code(tmp_path: Path, number: int, times: int) -> None:
    for delay in (0.0, 1.2):
        code, _, stderr = interrupted(bench_run(tmp_path, f"out{delay}"), delay, number, times=times)
        check_interrupted(code, stderr, number)


@pytest.mark.parametrize("end", ["raise ValueError('of a library') from None", "sys.exit(2)"])
def test_an_error_that_a_library_made_of_the_interruption_is_none(end: str) -> None:
    """As pydantic's SchemaError, when Ctrl-C comes while it builds a model."""
    program = [
        "import sys, time",
        "from editcritic.benchmarks.common.interruption import end_after",
        "def wait():",
        "    try: time.sleep(30)",
        f"    except KeyboardInterrupt: {end}",
        "end_after(wait)",
    ]
    code, _, stderr = interrupted([sys.executable, "-c", "\n".join(program)], 0.1)
    check_interrupted(code, stderr)


def test_an_ignored_signal_stays_ignored(tmp_path: Path) -> None:
    """As in what a shell starts in the background."""
    command = [sys.executable, "-c", "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "]
    command[-1] += "os.execv(sys.argv[1], sys.argv[1:])"
    code, _, stderr = interrupted([*command, *bench_run(tmp_path, "out")], 0.5)
    assert code == 0, stderr


def test_a_signal_aborts_no_process_whose_thread_is_inside_a_library(tmp_path: Path) -> None:
    """An expert's thread that comes back from C++ while the interpreter is destroyed ended the process by SIGABRT."""
    pytest.importorskip("torch")
    made = outputs(tmp_path / "outputs", Toy(count=1))
    options = ("--outputs", made, "-o", tmp_path / "out", "--experts", "judge=tests.cli.slow_parts:LongCall")
    with started(program("bench", "run", f"{SUITE[:-2]}1", *options, "--metric", "following")) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "computing\n"
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=60)
    check_interrupted(process.returncode, stderr)


def test_interrupted_scores_are_whole_lines_and_a_recording_is_resumed(tmp_path: Path) -> None:
    with (tmp_path / "samples.jsonl").open("w", encoding="utf-8") as rows:
        for number in range(12):
            for name in ("a", "b"):
                picture(number, name == "b").pil().save(tmp_path / f"{number}{name}.png")
            row = {"id": str(number), "source": f"{number}a.png", "edited": f"{number}b.png"}
            rows.write(json.dumps({**row, "instruction": "Make it blue"}) + "\n")
    options = ("--reward", "judge-yes-no", "--experts", SLOW)

    def score(name: str) -> list[str]:
        files = ("-o", tmp_path / f"{name}.jsonl", "--record", tmp_path / f"{name}.db")
        return program("score", tmp_path / "samples.jsonl", *options, *files)

    completed(score("whole"))
    for delay in delays(2, 3, 2.0):
        code, _, stderr = interrupted(score("parts"), delay)
        if code:
            check_interrupted(code, stderr)
        written = tmp_path / "parts.jsonl"
        text = written.read_text(encoding="utf-8") if written.exists() else ""
        assert text == "" or text.endswith("\n")
        assert all(json.loads(line)["id"] for line in text.splitlines())
    assert run_until_done(score("parts"), []) == 0
    assert (tmp_path / "parts.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


@pytest.mark.parametrize("command", ["generate", "edit"])
def test_interrupted_editing_leaves_whole_pictures_and_is_resumed(tmp_path: Path, command: str) -> None:
    def words(out: str) -> list[str]:
        pipeline = ("--pipeline", "tests.cli.slow_parts:slow_editor", "-o", tmp_path / out)
        if command == "generate":
            return program("bench", "generate", SUITE, *pipeline)
        return program("edit", tmp_path / "cup.png", "--instruction", "Make it blue", *pipeline, *NO_MODELS, *FEW)

    picture(1).pil().save(tmp_path / "cup.png")
    completed(words("whole"))
    assert run_until_done(words("parts"), delays(3, 3, 1.5)) >= 1
    assert pictures(tmp_path / "parts") == pictures(tmp_path / "whole")
    assert not list((tmp_path / "parts").rglob("*.tmp"))


def pictures(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.png")}


def test_a_reader_that_closes_our_output_sees_no_traceback() -> None:
    for words in (["rewards"], ["bench", "run", "--help"]):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(program(*words), cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
        os.close(writer)
        assert (done.returncode, done.stderr) == (1, "")
