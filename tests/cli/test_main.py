import contextlib
import io
import json
import os
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from editcritic.reward import AnswerLog, Score, Scores

from ..benchmarks.conftest import SIDE, Command, Folder, patched, photograph, read_jsonl


def test_scores_are_written_as_the_library_writes_them_and_summed_up(editcritic, folder, three):
    out = folder / "scores.jsonl"
    editcritic("score", three, "--reward", folder.cheap, "-o", out, code=0, shows=("3 scored", "0.6667"))
    rows = list(read_jsonl(out))
    assert [(row["id"], row["value"]) for row in rows] == [("copy", 0.5), ("patched", 1.0), ("blank", 0.5)]
    reward = str(rows[0]["reward"])
    assert re.fullmatch(r"\S+@\d+#[0-9a-f]{8}", reward)
    scores = Scores(tuple(map(Score.from_json, rows)), tuple(str(row["id"]) for row in rows), reward=reward)
    assert scores.to_jsonl() == out.read_text(encoding="utf-8")


def test_without_a_file_scores_are_printed_or_one_document(editcritic: Command, folder: Folder, three: Path) -> None:
    command = ("score", three, "--reward", folder.cheap)
    profile = editcritic(*command, "--profile", shows=("unique", "pixel-features", "queries in"))
    lines = profile.stdout.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [["copy", "0.5000"], ["patched", "1.0000"], ["blank", "0.5000"]]
    rows = editcritic(*command, "-o", "-").stdout.splitlines()
    assert [json.loads(row)["id"] for row in rows] == ["copy", "patched", "blank"]
    document = json.loads(editcritic(*command, "--json", "--profile").stdout)
    assert document["exit_code"] == 0
    assert document["summary"]["counts"] == {"scored": 3, "not_applicable": 0, "abstained": 0, "failed": 0}
    assert document["summary"]["quantiles"]["max"] == 1.0
    assert [row["id"] for row in document["scores"]] == ["copy", "patched", "blank"]
    assert document["profile"]["queries"] >= document["profile"]["unique"] > 0
    assert document["reward"]["reward"]["use"] == "weighted-mean"
    editcritic(*command, "-o", "/dev/full", code=2, says="No space left")
    (folder / "score.toml").write_text("max_in_flight = 1\n")
    judged = ("score", three, "--reward", "judge-yes-no", "--experts", "judge=colour", "--json", "--profile")
    for options, calls in ((), 1), (("--config", folder / "score.toml"), 3):
        (expert,) = json.loads(editcritic(*judged, *options).stdout)["profile"]["experts"].values()
        assert (expert["queries"], expert["calls"]) == (3, calls)


def test_a_folder_may_hold_a_sample_file_or_pairs(editcritic: Command, folder: Folder, three: Path) -> None:
    assert "3 scored" in editcritic("score", folder.path, "--reward", folder.cheap).stdout
    pairs = folder / "pairs"
    pairs.mkdir()
    for name in ("a", "b_2"):
        photograph().save(pairs / f"{name}_source.png")
        patched(0.3).save(pairs / f"{name}_edited.jpg")
    (pairs / "a.txt").write_text("Remove helmet\n", encoding="utf-8")
    photograph().save(pairs / "alone_source.png")
    says = ("no instruction: write it into b_2.txt", "no alone_edited.png beside alone_source.png")
    result = editcritic("score", pairs, "--reward", folder.cheap, "--json", code=2, says=says)
    assert [row["id"] for row in json.loads(result.stdout)["scores"]] == ["a"]
    (pairs / "alone_source.png").unlink()
    result = editcritic("score", pairs, "--reward", folder.cheap, "--instruction", "Remove patch", "--json", code=0)
    assert [row["id"] for row in json.loads(result.stdout)["scores"]] == ["a", "b_2"]


def test_a_cache_answers_instead_of_the_experts(editcritic: Command, folder: Folder, three: Path) -> None:
    run = ["score", three, "--reward", folder.cheap, "--cache", folder / "cache.db", "--json", "--profile"]
    first, second = (json.loads(editcritic(*run).stdout) for _ in range(2))
    assert first["scores"] == second["scores"]
    assert first["profile"]["unique"] > 0
    assert (second["profile"]["unique"], second["profile"]["experts"]) == (0, {})


def png_of(width: int, height: int) -> bytes:
    """A PNG that claims a size and holds next to nothing."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b"")
    )


def truncated() -> bytes:
    encoded = io.BytesIO()
    photograph().save(encoded, "PNG")
    return encoded.getvalue()[:4000]


BAD_PICTURES: dict[str, tuple[Callable[[], bytes], str]] = {
    "truncated": (truncated, "bad.png is damaged"),
    "empty": (lambda: b"", "bad.png is empty (zero bytes)"),
    "bomb": (lambda: png_of(60_000, 60_000), "120,000,000"),
    "large": (lambda: png_of(13_000, 12_000), "13,000 x 12,000 pixels"),
    "text": (lambda: b"no picture at all", "is not an image"),
    "program": (lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n", "bad.png is not an image that can be read"),
}


@pytest.mark.parametrize("kind", BAD_PICTURES)
def test_a_picture_that_cannot_be_read_is_named_and_the_others_scored(kind, editcritic, folder):
    make, says = BAD_PICTURES[kind]
    (folder / "bad.png").write_bytes(make())
    samples = folder.samples(folder.row(id="first"), folder.row(id="bad", edited="bad.png"), folder.row(id="last"))
    editcritic(
        "score", samples, "--reward", folder.cheap, "-o", folder / "out.jsonl", code=2, says=(f"{samples}:2: ", says)
    )
    assert [row["id"] for row in read_jsonl(folder / "out.jsonl")] == ["first", "last"]


_PICTURES = '"source": "source.png", "edited": "patched.png"'
BAD_LINES = {
    '{"id": "x", "instr': "not JSON",
    '["a list"]': "valid dictionary",
    '{"instruction": "x", "source": "source.png"}': "edited: Field required",
    '{"instruction": "x", "edited": "patched.png"}': "either `source` or `sources`",
    '{"instruction": "x", "source": "gone.png", "edited": "patched.png"}': "gone.png: No such file",
    f'{{"instruction": "x", {_PICTURES}, "boxes": {{"cup": [[1, 1, 9, 999]]}}}}': "outside",
    f'{{"instruction": "x", {_PICTURES}, "boxes": {{"cup": [[9, 9, 1, 1]]}}}}': "is empty",
    f'{{"instruction": "x", {_PICTURES}, "boxes": {{"cup": [[1, 1, 9]]}}}}': "boxes.cup",
    f'{{"instruction": "x", {_PICTURES}, "task": {{"type": "dance"}}}}': "task.type",
    f'{{"instruction": "x", {_PICTURES}, "id": "ok"}}': "'ok' is also that of",
}


@pytest.mark.parametrize("line", BAD_LINES, ids=lambda line: line[:60])
def test_a_bad_line_is_named_and_the_others_scored(line: str, editcritic: Command, folder: Folder) -> None:
    samples = folder.samples("", folder.row(id="ok"), line, folder.row(id="last"))
    editcritic(
        *("score", samples, "--reward", folder.cheap, "-o", folder / "out.jsonl"),
        code=2,
        says=(f"{samples}:3: ", BAD_LINES[line]),
    )
    assert [row["id"] for row in read_jsonl(folder / "out.jsonl")] == ["ok", "last"]


def test_of_many_problems_the_first_are_named_and_all_are_counted(editcritic: Command, folder: Folder) -> None:
    samples = folder.samples(folder.row(id="ok"), *["{"] * 30_000, folder.row(id="last"))
    command = ("score", samples, "--reward", folder.cheap, "-o", folder / "out.jsonl")
    told = "30000 problems with the input, the first 1,000 named above, and 29,000 others"
    assert editcritic(*command, code=2, says=told).stderr.count("not JSON") == 1_000
    assert [row["id"] for row in read_jsonl(folder / "out.jsonl")] == ["ok", "last"]
    document = json.loads(editcritic(*command, "--json").stdout)
    assert (document["exit_code"], len(document["problems"]), document["num_problems"]) == (2, 1_000, 30_000)
    assert document["problems"][0].startswith(f"{samples}:2: not JSON")


@pytest.mark.parametrize("instruction", ["把杯子变成蓝色", "Make it look nicer", "اجعل الكوب أزرق", "\ud83d\ude00"])
def test_an_instruction_nobody_understands_is_named_and_its_row_written(instruction, editcritic, folder):
    known = {"type": "subject_remove", "object": "helmet"}
    boxes = {"helmet": [[70, 85, 127, 127]]}
    samples = folder.samples(
        folder.row(id="strange", instruction=instruction, boxes=boxes),
        folder.row(id="annotated", instruction=instruction, boxes=boxes, task=known),
    )
    score = ("score", samples, "--reward", "edival-if", "-o", folder / "out.jsonl")
    result = editcritic(*score, code=2, says=f"{samples}:1: strange: instruction")
    assert ":2:" not in result.stderr
    rows = list(read_jsonl(folder / "out.jsonl"))
    assert [(row["id"], row["status"]) for row in rows] == [("strange", "not_applicable"), ("annotated", "scored")]
    assert editcritic("score", samples, "--reward", folder.cheap).exit_code == 0


def saved(name: str, folder: Folder) -> str:
    """The patched photograph in an unusual form; the name of its file."""
    picture = patched(0.4)
    path = folder / f"{name}.png"
    if name == "cmyk":
        path = path.with_suffix(".jpg")
        picture.convert("CMYK").save(path)
    elif name == "rgba":
        picture.putalpha(200)
        picture.save(path)
    elif name == "sixteen_bit":
        PIL.Image.fromarray(np.array(picture.convert("L")).astype(np.uint16) * 257).save(path)
    elif name == "animated":
        path = path.with_suffix(".gif")
        picture.save(path, save_all=True, append_images=[photograph()])
    elif name == "rotated":
        path = path.with_suffix(".jpg")
        exif = PIL.Image.Exif()
        exif[0x0112] = 6
        picture.rotate(90).save(path, exif=exif, quality=100, subsampling=0)
    else:
        picture.convert("P").save(path)
    return path.name


@pytest.mark.parametrize("form", ["cmyk", "rgba", "sixteen_bit", "animated", "rotated", "palette"])
def test_pictures_in_unusual_forms_are_converted(form: str, editcritic: Command, folder: Folder) -> None:
    samples = folder.samples(folder.row(id=form, edited=saved(form, folder)))
    result = editcritic("score", samples, "--reward", folder.cheap, "--json", code=0)
    assert json.loads(result.stdout)["scores"][0]["value"] == 1.0
    if form == "rotated":  # it is seen upright
        samples = folder.samples(folder.row(id="up", source="patched.png", edited=saved("rotated", folder)))
        score = json.loads(editcritic("score", samples, "--reward", "guard-not-a-copy", "--json").stdout)["scores"][0]
        assert score["value"] == 0.0


@pytest.mark.parametrize("size", [(1, 1), (20_000, 100), (100, 20_000), (5, 5)])
def test_extreme_sizes_are_scored_or_abstained_on_with_a_reason(size, editcritic, folder):
    source, edited = (np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), np.uint8) for seed in (1, 2))
    PIL.Image.fromarray(source).save(folder / "a.png")
    PIL.Image.fromarray(edited).save(folder / "b.png")
    boxes = {"helmet": [[0, 0, *size]]}
    samples = folder.samples(folder.row(id="x", source="a.png", edited="b.png", boxes=boxes))
    result = editcritic("score", samples, "--json", code=0)
    (score,) = json.loads(result.stdout)["scores"]
    assert score["status"] in ("scored", "abstained")


WRONG_USAGE = {
    "no such file": (["{folder}/gone.jsonl"], "gone.jsonl does not exist"),
    "no samples": (["{folder}/empty.jsonl"], "no samples"),
    "nothing in the folder": (["{folder}/nothing"], "neither a samples.jsonl, nor parquet files, nor images"),
    "unknown reward": (["{samples}", "--reward", "edit-balancd"], "did you mean edit-balanced"),
    "unknown module": (["{samples}", "--reward", "no.such:Thing"], "cannot find no.such:Thing"),
    "not a metric": (["{samples}", "--reward", "pathlib:Path"], "not a metric"),
    "unknown option": (["{samples}", "--reward", "edival-if?dens=true"], "does not take dens"),
    "bad option": (["{samples}", "--reward", "edival-if?protocol=2"], "paper, official"),
    "needs parts": (["{samples}", "--reward", "gate"], "gate"),
    "wrong protocol": (["{samples}", "--reward", "edival-if", "--protocol", "papper"], "paper, official"),
    "wrong protocol of a preset": (
        ["{samples}", "--reward", "edit-balanced", "--protocol", "papper"],
        "paper, official",
    ),
    "wrong protocol of cc": (["{samples}", "--reward", "edival-cc", "--protocol", "papper"], "fixed"),
    "no protocols at all": (["{samples}", "--reward", "guard-not-a-copy", "--protocol", "x"], "does not take protocol"),
    "nobody to ask": (["{samples}", "--reward", "edival-vq"], "preference"),
    "no such TOML": (["{samples}", "--reward", "{folder}/gone.toml"], "cannot read"),
    "bad TOML": (["{samples}", "--reward", "{folder}/bad.toml"], "bad.toml is not TOML"),
    "binary TOML": (["{samples}", "--reward", "{folder}/binary.toml"], "binary.toml is not TOML"),
    "TOML of nothing": (["{samples}", "--reward", "{folder}/other.toml"], "`use`"),
    "wrong policy": (["{samples}", "--on-failures", "shrug"], "'raise', 'none' or 'wait'"),
    "share above one": (["{samples}", "--max-failure-rate", "7"], "--max-failure-rate"),
    "output into nowhere": (["{samples}", "--reward", "{cheap}", "-o", "{folder}/no/out.jsonl"], "No such file"),
    "output over a folder": (["{samples}", "--reward", "{cheap}", "-o", "{folder}"], "Is a directory"),
    "output over the input": (["{samples}", "--reward", "{cheap}", "-o", "{samples}"], "use different files"),
    "a cache that is none": (["{samples}", "--reward", "{cheap}", "--cache", "{folder}/bad.toml"], "bad.toml"),
    "a cache in nowhere": (["{samples}", "--reward", "{cheap}", "--cache", "{folder}/no/cache"], "no/cache"),
    "cache and record": (["{samples}", "--cache", "a", "--record", "b"], "give either --cache or --record"),
    "two documents": (["{samples}", "--json", "-o", "-"], "standard output"),
    "two instructions": (["{samples}", "--instruction", "x"], "for folders of images"),
}


@pytest.mark.parametrize("case", WRONG_USAGE)
def test_wrong_usage_is_explained(case: str, editcritic: Command, folder: Folder, three: Path) -> None:
    arguments, says = WRONG_USAGE[case]
    (folder / "empty.jsonl").write_text("\n \n")
    (folder / "nothing").mkdir()
    (folder / "bad.toml").write_text("reward = [")
    (folder / "other.toml").write_text("[reward]\nname = 'x'")
    (folder / "binary.toml").write_bytes(b"\xff\xfe\x00")
    names = {"folder": folder.path, "samples": three, "cheap": folder.cheap}
    before = three.read_bytes()
    result = editcritic("score", *(argument.format(**names) for argument in arguments), code=2)
    assert says in result.stderr.replace("\n", " ")
    assert result.stdout == "" or "--json" in arguments
    assert three.read_bytes() == before


SLOW = """
import time
from pathlib import Path
from editcritic.reward import Expert
from editcritic.reward.queries import Detections, Differ, Failure

class Fails(Expert):
    id = "fails"
    kinds = (Differ,)
    def __call__(self, queries):
        return [Failure("the server is on fire")] * len(queries)

class SticksAtTheFirst(Expert):
    id = "sticks"
    kinds = (Differ,)
    batch = 1
    concurrency = 4
    def __call__(self, queries):
        if min(queries[0].after.pixels.min(axis=(0, 1))) == 0:  # the first edit is all black
            time.sleep(600)
        return [Detections(())]
"""


def with_expert(folder: Folder, name: str) -> Path:
    (folder / "their_experts.py").write_text(SLOW)
    path = folder / "theirs.toml"
    path.write_text(f'[reward]\nuse = "guard-not-a-copy"\n[experts.differences]\nuse = "their_experts:{name}"\n')
    return path


SHORT_SIGHTED = """
from editcritic.reward import Box, Expert
from editcritic.reward.queries import Detect, Detections

class ShortSighted(Expert):
    id = "short-sighted"
    kinds = (Detect,)
    def __call__(self, queries):
        return [Detections((Box(0.5, 0.5, 0.2, 0.2, 0.9),), min_score=0.5)] * len(queries)
"""


def test_a_detector_that_does_not_look_far_enough_is_refused_with_what_to_do(editcritic, folder, three, monkeypatch):
    monkeypatch.syspath_prepend(folder.path)
    (folder / "short_sighted.py").write_text(SHORT_SIGHTED)
    reward = folder / "short.toml"
    experts = {"detector": "short_sighted:ShortSighted", "judge": "colour", "reader": "rapidocr"}
    lines = [f'[experts.{role}]\nuse = "{use}"' for role, use in experts.items()]
    reward.write_text("\n".join(['[reward]\nuse = "edival-if"', *lines]))
    editcritic(
        *("score", three, "--reward", reward, "--trust", "short_sighted"),
        code=2,
        says="threshold 0.3 lies below the detector's floor 0.5: lower the floor",
    )


def twenty(folder: Folder) -> Path:
    for number in range(20):
        PIL.Image.new("RGB", (SIDE, SIDE), (number * 9,) * 3).save(folder / f"edit{number}.png")
    return folder.samples(*(folder.row(id=str(number), edited=f"edit{number}.png") for number in range(20)))


def test_too_many_failures_end_a_run_and_lose_nothing(editcritic, folder, monkeypatch):
    monkeypatch.syspath_prepend(folder.path)
    monkeypatch.setenv("EDITCRITIC_TRUST", "their_experts")
    reward, samples, out = with_expert(folder, "Fails"), twenty(folder), folder / "out.jsonl"
    editcritic(
        *("score", samples, "--reward", reward, "-o", out),
        code=1,
        says="100% of the last scores failed",
        shows="the server is on fire",
    )
    assert 16 <= len(list(read_jsonl(out))) <= 20
    config = folder / "score.toml"
    config.write_text('on_failures = "none"\n')
    command = ("score", samples, "--reward", reward, "--config", config)
    tolerated = editcritic(*command, "-o", out, code=1)
    assert [row["status"] for row in read_jsonl(out)] == ["failed"] * 20
    assert "20 x the server is on fire (fails)" in tolerated.stdout
    editcritic(*command, "--on-failures", "raise", code=1, says="100% of the last scores failed")
    editcritic(
        *command,
        "--on-failures",
        "raise",
        "--max-failure-rate",
        "1",
        code=1,
        shows="20 x the server is on fire (fails)",
    )


def test_an_interrupted_run_has_written_what_was_known(folder: Folder) -> None:
    reward, samples, out = with_expert(folder, "SticksAtTheFirst"), twenty(folder), folder / "out.jsonl"
    command = [sys.executable, "-m", "editcritic.cli.main", "score", samples, "--reward", reward, "-o", out]
    command += ["--cache", folder / "cache.db", "--trust", "their_experts"]
    path = os.pathsep.join([str(folder.path), *filter(None, [os.environ.get("PYTHONPATH")])])
    # What a shell starts in the background ignores interrupts, and so does all that it starts in turn.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as run:
        try:
            deadline = time.monotonic() + 60
            while not (out.exists() and answers_in(folder / "cache.db") == 19):
                assert time.monotonic() < deadline, "the others were never answered"
                time.sleep(0.1)
            time.sleep(0.5)
            run.send_signal(signal.SIGINT)
            stdout, stderr = run.communicate(timeout=30)
        finally:
            signal.signal(signal.SIGINT, before)
            run.kill()
    assert run.returncode == 130, stderr
    assert "interrupted" in stderr
    assert "Traceback" not in stdout + stderr
    assert [row["id"] for row in read_jsonl(out)] == [str(number) for number in range(1, 20)]


def answers_in(path: Path) -> int:
    if not path.exists():
        return 0
    with sqlite3.connect(path) as db:
        try:
            return int(db.execute("select count(*) from answers").fetchone()[0])
        except sqlite3.OperationalError:  # it is being made just now
            return 0


def test_letters_that_the_encoding_lacks_end_no_command_and_are_not_lost_in_scores(folder: Folder) -> None:
    samples = folder.samples(folder.row(id="猫…"))

    def printed(*arguments: str | Path) -> bytes:
        command = [sys.executable, "-m", "editcritic.cli.main", *map(str, arguments)]
        env = {**os.environ, "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "COLUMNS": "40"}
        return subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60, env=env).stdout

    assert b"served?model=" in b"".join(printed("bench", "build", "edival", "--help").split())
    assert b"?" in printed("score", samples, "--reward", folder.cheap)
    assert json.loads(printed("score", samples, "--reward", folder.cheap, "-o", "-").decode())["id"] == "猫…"


def test_a_progress_bar_stays_out_of_the_output(folder: Folder, three: Path) -> None:
    terminal, theirs = os.openpty()
    command = [sys.executable, "-m", "editcritic.cli.main", "score", three, "--reward", folder.cheap, "-o", "-"]
    with subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env={**os.environ, "TERM": "xterm"},
    ) as run:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # which is how a terminal says that nobody writes to it any more
            while read := os.read(terminal, 4096):
                shown += read
        stdout, _ = run.communicate(timeout=60)
    os.close(terminal)
    assert [json.loads(line)["id"] for line in stdout.splitlines()] == ["copy", "patched", "blank"]
    assert b"scoring" in shown
    assert b"3 scored" in shown


@pytest.mark.parametrize(("keep", "code"), [("--cache", 0), ("--record", 1)])
def test_a_log_that_cannot_be_written_costs_a_recording_and_no_score(
    keep: str, code: int, editcritic: Command, folder: Folder, three: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(AnswerLog, "put", full)
    result = editcritic(
        *("score", three, "--reward", folder.cheap, keep, folder / "log", "--json"),
        code=code,
        says=("warning: continuing without the answer log", "disk is full"),
    )
    assert json.loads(result.stdout)["summary"]["counts"]["scored"] == 3
