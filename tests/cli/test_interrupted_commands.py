"""Ctrl-C to the commands that build, compare, measure and replay, as real processes: one line, and 130 or 143."""

import contextlib
import json
import os
import signal
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

from editcritic.reward import Score
from editcritic.reward.score import score_line

from ..benchmarks.human_eval import label_files
from ..benchmarks.suites.construction.scripted_experts import photographs
from ..benchmarks.suites.tiny_suite import Toy, outputs, picture
from .test_interruption import SLOW, SUITE, check_interrupted, completed, program, started

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux what the process catches")

MOMENTS = (0.0, 0.7, 2.0)  # seconds after the process handles signals: while it imports, and while it works
MARK = "EDITCRITIC_TEST_MARK"
TRUST = {"EDITCRITIC_TRUST": "tests.cli.slow_parts tests.benchmarks.suites.tiny_suite"}


def run(*words: str | Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in TRUST.items():
            patch.setenv(name, value)
        completed(program(*words), 300)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results, labels, a golden set, a recording, photographs and scores, as the commands take them."""
    folder = tmp_path_factory.mktemp("made")
    outputs(folder / "outputs", Toy(count=10))
    options = ("--outputs", folder / "outputs", "-o", folder / "results", "--editor-name", "mine")
    run("bench", "run", SUITE, *options, "--experts", SLOW, "--metric", "following")
    ids = [json.loads(line)["id"] for line in (folder / "results" / "scores.jsonl").read_text().splitlines()]
    labels = [label_files.make_label("yes" if n % 2 else "no", name) for n, name in enumerate(ids)]
    label_files.labels_file(folder / "labels.jsonl", labels)
    run("judge", "drift", folder / "results", "-o", folder / "golden.jsonl")
    photographs(folder / "photos", count=4)
    write_samples(folder)
    recording = ("--record", folder / "run.db", "-o", folder / "scores.jsonl")
    run("score", folder / "samples.jsonl", "--reward", "judge-yes-no", "--experts", FAST, *recording)
    write_scores(folder)
    return folder


FAST = "judge=tests.benchmarks.suites.tiny_suite:CoinJudge"


def write_samples(folder: Path, count: int = 3_000) -> None:
    for number in range(8):
        picture(number).pil().save(folder / f"{number}.png")
    rows = [
        {"id": str(n), "source": f"{n % 8}.png", "edited": f"{(n + 1) % 8}.png", "instruction": f"Make it {n}"}
        for n in range(count)
    ]
    (folder / "samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_scores(folder: Path, count: int = 400) -> None:
    """Scores with noise, and pairs of them that somebody has compared."""
    chance = np.random.default_rng(0)
    values = chance.uniform(0, 1, count)
    lines = [score_line(str(n), Score.of(float(value)).with_signature("mine@1")) for n, value in enumerate(values)]
    (folder / "raw.jsonl").write_text("".join(lines), encoding="utf-8")
    labels = []
    for one, two in chance.integers(0, count, (4_000, 2)):
        if one != two:
            better = values[one] + chance.normal(0, 0.3) > values[two]
            pair = (("x", str(one)), ("x", str(two)))
            labels.append(label_files.make_label("A" if better else "B", pair, "pair"))
    label_files.labels_file(folder / "pairs.jsonl", labels)
    text = (folder / "pairs.jsonl").read_text(encoding="utf-8")
    rows = [{name: value for name, value in json.loads(line).items() if name != "editor"} for line in text.splitlines()]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


COMMANDS = {
    "build": "bench build edival {made}/photos -o {out}/data --judge tests.cli.slow_parts:SlowScript --turns 5 "
    "--detector tests.benchmarks.suites.construction.scripted_experts:Places",
    "run all": f"bench run all --outputs {{made}} -o {{out}}/all --suite outputs={SUITE} --experts {SLOW}",
    "verify": "bench verify {made}/results",
    "report": f"bench report {{made}}/results -o {{out}}/page.html --bootstrap-samples 3000000 --suite {SUITE}",
    "agreement": "judge agreement {made}/results --labels {made}/labels.jsonl --bootstrap-samples 1000000",
    "variance": f"judge variance {SUITE} --outputs {{made}}/outputs --metric following -k 1,4 --num-samples 8 "
    f"--experts {SLOW}",
    "drift": "judge drift {made}/results --golden {made}/golden.jsonl",
    "calibrate": "judge calibrate fit {made}/raw.jsonl --labels {made}/pairs.jsonl -o {out}/map.json",
    "replay": "dev replay - {made}/run.db -o {out}/replayed.jsonl",
    "audit": f"audit {{made}}/samples.jsonl --reward judge-yes-no --experts {SLOW} -o {{out}}/audit.html",
}
"""made: the folder of that fixture. out: one to write to."""


def words_of(command: str, made: Path, out: Path) -> list[str]:
    return program(*(word.format(made=made, out=out) for word in COMMANDS[command].split()))


def ended_by(command: list[str], delay: float, number: int, *, whole_group: bool) -> tuple[int, str, str, list[int]]:
    """Exit code, standard output and error, and what it has started and still runs 20 s after it has ended."""
    with started(command) as process:
        time.sleep(delay)
        if whole_group:  # as a terminal does
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
        end = time.monotonic() + 20
        while (left := started_here()) and time.monotonic() < end:
            time.sleep(0.1)
    return process.returncode, stdout, stderr, left


def started_here() -> list[int]:
    """The processes that run and have this test's mark, whoever started them."""
    mark = f"{MARK}={os.environ[MARK]}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if int(path.parent.name) != os.getpid() and mark in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


@pytest.fixture(autouse=True)
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**TRUST, MARK: uuid.uuid4().hex}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_ends_a_command_with_a_line_at_any_moment(command: str, made: Path, tmp_path: Path) -> None:
    count = 0
    for number, delay in enumerate(MOMENTS):
        out = tmp_path / str(number)
        out.mkdir()
        is_last = number == len(MOMENTS) - 1
        code, _, stderr, left = ended_by(words_of(command, made, out), delay, signal.SIGINT, whole_group=is_last)
        assert not left, "it has left processes behind"
        if code == 0 and number:  # it had ended
            continue
        check_interrupted(code, stderr)
        count += 1
        assert not list(out.rglob("*.tmp"))
    assert count >= 2 or command in ("drift", "replay")  # which take a moment


def test_sigterm_ends_a_command_with_its_own_code(made: Path, tmp_path: Path) -> None:
    code, _, stderr, left = ended_by(words_of("build", made, tmp_path), 1.5, signal.SIGTERM, whole_group=False)
    assert not left
    check_interrupted(code, stderr, signal.SIGTERM)


def test_a_build_that_was_interrupted_goes_on(made: Path, tmp_path: Path) -> None:
    code, _, stderr, _ = ended_by(words_of("build", made, tmp_path), 2.5, signal.SIGINT, whole_group=True)
    check_interrupted(code, stderr)
    assert "4 chains constructed" in completed(words_of("build", made, tmp_path))


@pytest.mark.parametrize(
    ("command", "number"),
    [("score", signal.SIGINT), ("score", signal.SIGTERM), ("score", signal.SIGHUP), ("replay", signal.SIGINT)],
)
def test_a_json_document_has_the_exit_code_of_the_process(command, number, made, tmp_path):
    """A document is written although the command was interrupted: it does not say that by another number."""
    if command == "replay":
        words, rows = [*words_of("replay", made, tmp_path), "--json"], tmp_path / "replayed.jsonl"
    else:
        rows = tmp_path / "scores.jsonl"
        options = ("--reward", "judge-yes-no", "--experts", SLOW, "-o", rows, "--json")
        words = program("score", made / "samples.jsonl", *options)
    with started(words) as process:
        end = time.monotonic() + 60  # a replay is done within a second of its first rows
        while process.poll() is None and not (rows.exists() and rows.stat().st_size) and time.monotonic() < end:
            time.sleep(0.001)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=60)
    code = process.returncode
    check_interrupted(code, stderr, number)
    document = json.loads(stdout)
    assert (document["exit_code"], document["interrupted"]) == (code, True)
