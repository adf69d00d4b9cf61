import json
import random
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.run.replay import RecordingReader, RecordingWriter
from editcritic.reward import AnswerLog, Box, EditSample, Image, Reward
from editcritic.reward.engine.answer_log import LogError

from ..conftest import SIDE, Command, Folder, patched, read_jsonl

BOXES = {"helmet": [[70, 85, 127, 127]], "face": [[47.123456789, 13.2, 73.75, 41.1]]}


@pytest.fixture
def samples(folder: Folder) -> Path:
    patched(0.2).save(folder / "second.png")
    turn = {"instruction": "Remove badge", "edited": "patched.png"}
    return folder.samples(
        folder.row(id="patched", boxes=BOXES),
        folder.row(id="copy", edited="copy.png", boxes=BOXES),
        folder.row(id="strange", instruction="Make it pretty", boxes=BOXES),
        folder.row(id="later", edited="second.png", boxes=BOXES, history=[turn], metadata={"seed": 3}),
    )


@pytest.fixture
def recording(editcritic: Command, folder: Folder, samples: Path) -> Path:
    """A run with edival-cc and the guards recorded, and all pictures gone since."""
    reward = folder / "both.toml"
    reward.write_text(
        '[reward]\nuse = "weighted-mean"\nparts.consistency.use = "edival-cc"\nparts.changed.use = "guard-not-a-copy"\n'
    )
    path = folder / "run.db"
    out = folder / "scores.jsonl"
    assert editcritic("score", samples, "--reward", reward, "--record", path, "-o", out).exit_code in (0, 2)
    for picture in folder.path.glob("*.png"):
        picture.unlink()
    samples.unlink()
    return path


def replayed(recording: Path, *more: object) -> str:
    """What a replay prints in a process that has never seen the pictures, nor what was cut out of them."""
    command = [sys.executable, "-m", "editcritic.cli.main", "dev", "replay", recording, *more]
    run = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_a_recording_replays_to_the_same_scores_without_pictures(
    editcritic: Command, folder: Folder, recording: Path
) -> None:
    assert replayed(recording, "-o", folder / "again.jsonl").endswith("\n4/4 agree\n")
    first, again = (list(read_jsonl(folder / f"{name}.jsonl")) for name in ("scores", "again"))
    assert [(row["id"], row["value"], row["status"]) for row in first] == [
        (row["id"], row["value"], row["status"]) for row in again
    ]
    assert any(row["value"] is not None for row in first)
    assert "4/4 agree" in editcritic("dev", "replay", "-", recording).stdout


def test_another_reward_is_replayed_over_the_same_answers(editcritic: Command, recording: Path) -> None:
    document = json.loads(editcritic("dev", "replay", "guard-not-a-copy", recording, "--json").stdout)
    assert document["num_compared"] == 0
    assert document["summary"]["counts"]["scored"] == 4
    official = json.loads(
        editcritic("dev", "replay", "edival-cc", recording, "--protocol", "official", "--json").stdout
    )
    assert official["exit_code"] == 1
    reasons = {row["reason"].rpartition(": ")[2] for row in official["summary"]["unscored"]}
    assert "the recording has no answer to this query" in reasons


def test_what_comes_out_otherwise_is_named(editcritic: Command, recording: Path) -> None:
    with AnswerLog(recording) as log:
        log.meta("score:copy", json.dumps({"value": 0.123, "status": "scored"}))
    editcritic("dev", "replay", recording, code=1, says="copy: recorded 0.123, got", shows="3/4 agree")
    document = json.loads(editcritic("dev", "replay", recording, "--json").stdout)
    assert (document["num_agreeing"], document["num_compared"], len(document["mismatches"])) == (3, 4, 1)
    assert document["exit_code"] == 1


def test_a_missing_answer_fails_what_needs_it(editcritic: Command, recording: Path) -> None:
    with sqlite3.connect(recording) as db:
        db.execute("delete from answers")
    editcritic("dev", "replay", recording, code=1, says="the recording has no answer to this query")


@pytest.mark.parametrize(
    "statement",
    [
        "update answers set answer = replace(answer, '0.', '0.1') where rowid_is_first",
        "update samples set sample = replace(sample, 'Make it pretty', 'Make it petty')",
        "update meta set value = replace(value, 'not-a-copy', 'not-blank') where key = 'spec'",
        "update meta set value = replace(value, 'scored', 'failed') where key = 'score:copy'",
        "update derived_images set operation = replace(operation, '1', '2')",
    ],
    ids=["answers", "samples", "reward", "score", "crops"],
)
def test_a_damaged_recording_is_refused(statement: str, editcritic: Command, recording: Path) -> None:
    first = "query_digest = (select query_digest from answers where answer like '%0.%' limit 1)"
    with sqlite3.connect(recording) as db:
        assert db.execute(statement.replace("rowid_is_first", first)).rowcount >= 1
    editcritic("dev", "replay", recording, code=2, says=f"{recording.name} is damaged")
    another = editcritic("dev", "replay", "guard-not-a-copy", recording)
    assert (another.exit_code, another.stdout) == (2, "")


def test_no_flipped_bit_of_a_recording_changes_a_replayed_score(recording: Path) -> None:
    """One bit anywhere in the file: the recording is refused, or all its samples and answers are as recorded."""
    with AnswerLog(recording) as log:
        log._db.execute("pragma wal_checkpoint(truncate)")
    intact = recording.read_bytes()
    readable = RecordingReader(recording)
    expected = list(readable.samples()), readable.spec, answers(readable.log)
    used = [place for place, byte in enumerate(intact) if byte]
    rng = random.Random(0)
    refused = 0
    for _ in range(120):
        content = bytearray(intact)
        content[rng.choice(used)] ^= 1 << rng.randrange(8)
        path = recording.with_name("flipped.db")
        path.write_bytes(content)
        for rest in ("-wal", "-shm"):
            path.with_name(path.name + rest).unlink(missing_ok=True)
        try:
            reader = RecordingReader(path)
        except (LogError, InputError):
            refused += 1
        else:
            assert (list(reader.samples()), reader.spec, answers(reader.log)) == expected
            reader.log.close()
    assert refused > 60


def answers(log: AnswerLog) -> list[tuple[str, ...]]:
    return list(log._intact_rows("answer"))


def test_a_recording_goes_on_where_it_stopped(editcritic: Command, folder: Folder, samples: Path) -> None:
    run = ["score", samples, "--reward", folder.cheap, "--record", folder / "run.db"]
    assert editcritic(*run).exit_code == 0
    again = json.loads(editcritic(*run, "--json", "--profile").stdout)
    assert again["profile"]["unique"] == 0
    assert "4/4 agree" in editcritic("dev", "replay", folder / "run.db").stdout
    editcritic(
        *("score", samples, "--reward", "guard-not-blank", "--record", folder / "run.db"),
        code=2,
        says="recording of another reward (weighted-mean)",
    )


def test_crops_that_are_equal_in_two_pictures_are_both_known_to_a_replay(editcritic: Command, folder: Folder) -> None:
    """Consistency crops the same box out of source and edits, the guard enlarges halves: where nothing changed, what
    is cut out of two pictures is one."""
    face = {"face": [[47, 13, 73, 41]], "helmet": [[70, 85, 127, 127]]}
    pixels = np.array(PIL.Image.open(folder / "source.png"))
    for number in range(6):
        pixels[90 + number, 90:] = 255
        PIL.Image.fromarray(pixels).save(folder / f"edit{number}.png")
    samples = folder.samples(*(folder.row(id=str(n), edited=f"edit{n}.png", boxes=face) for n in range(6)))
    reward = folder / "crops.toml"
    parts = 'parts.consistency.use = "edival-cc"\nparts.collage.use = "guard-not-collage"\n'
    reward.write_text(f'[reward]\nuse = "weighted-mean"\n{parts}')
    assert editcritic("score", samples, "--reward", reward, "--record", folder / "run.db").exit_code == 0
    assert replayed(folder / "run.db").endswith("\n6/6 agree\n")


def test_samples_come_back_from_a_recording_as_they_were(tmp_path: Path) -> None:
    size = (97, 61)
    source, edited = (Image.from_digest(f"{number:064}", size) for number in (1, 2))
    numbers = np.random.default_rng(0).uniform(0.05, 0.9, (200, 2))
    boxes = {"cup": tuple(Box(x, y, 1 / 3 * x, 0.07, 0.25) for x, y in numbers)}
    first = EditSample("a/turn-1", "Add cup", (source,), edited, boxes=boxes, metadata={"seed": 1})
    sample = EditSample("a", "Remove cup", (edited,), edited, boxes=boxes, history=(first,), metadata={"seed": 1})
    with AnswerLog(tmp_path / "run.db", record_queries=True) as log:
        RecordingWriter(log, Reward.of("guard-same-aspect")).add_sample(sample)
    recall = RecordingReader(tmp_path / "run.db")
    (back,) = recall.samples()
    recall.log.close()
    assert back == sample


def golden(folder: Folder, *expected: int) -> Path:
    """Golden cases of a removal that was done."""
    detections = {"source": {"bench": [[0.5, 0.5, 0.2, 0.2, 0.9]]}, "edited": {"bench": []}}
    calls = [{"image": image, "phrase": "bench", "threshold": 0.35} for image in ("source", "edited")]
    row = {"instruction": "Remove bench", "detections": detections, "vlm": {"core_name": {"bench": "bench"}}}
    path = folder / "golden.jsonl"
    lines = ({**row, "id": f"{n}-1-0", "detector_calls": calls, "expected": one} for n, one in enumerate(expected))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_all_published_golden_cases_agree(editcritic: Command) -> None:
    path = Path(__file__).parents[2] / "golden" / "edival_instruction_following.jsonl"
    result = editcritic("dev", "replay", "edival", path, "--protocol", "official", code=0)
    assert result.stdout.strip() == "2730/2730 agree"


def test_a_golden_case_that_disagrees_is_named(editcritic: Command, folder: Folder) -> None:
    result = editcritic("dev", "replay", "edival", golden(folder, 1, 0, 1), "--protocol", "official", code=1)
    assert result.stdout.strip() == "2/3 agree"
    assert "1-1-0: expected 0, got 1" in result.stderr
    document = json.loads(editcritic("dev", "replay", golden(folder, 1, 0, 1), "--json").stdout)
    assert (document["num_agreeing"], document["num_compared"], document["exit_code"]) == (2, 3, 1)


def wrong_file(kind: str, folder: Folder) -> Path:
    path = folder / f"{kind}.file"
    match kind:
        case "text":
            path.write_text("hello")
        case "empty":
            path.touch()
        case "picture":
            PIL.Image.new("RGB", (SIDE, SIDE)).save(path, "PNG")
        case "database":
            with sqlite3.connect(path) as db:
                db.execute("create table meta (theirs)")
        case "cache":
            AnswerLog(path).close()
        case "torn":
            AnswerLog(path).close()
            path.write_bytes(path.read_bytes()[:5000])
        case "samples":
            path.write_text('{"id": "x", "instruction": "Remove cup"}\n')
        case "binary":
            path.write_bytes(b'{"id": "\xff\xfe"}\n')
        case _:
            assert kind == "missing"
    return path


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("missing", "No such file"),
        ("text", "is not a recording"),
        ("empty", "is not a recording"),
        ("picture", "is not a recording"),
        ("database", "is a database of something else: give another file"),
        ("cache", "it is a cache, not written with --record"),
        ("torn", "torn.file"),
        ("samples", "line 1: not a golden case"),
        ("binary", "line 1: not a golden case"),
    ],
)
def test_a_file_that_cannot_be_replayed_is_refused_and_left_alone(
    kind: str, says: str, editcritic: Command, folder: Folder
) -> None:
    path = wrong_file(kind, folder)
    before = path.read_bytes() if path.exists() else b""
    assert editcritic("dev", "replay", path).exit_code == 2
    result = editcritic("dev", "replay", path, "--json", code=2, says=says)
    assert says in json.loads(result.stdout)["error"]
    assert kind == "cache" or (path.read_bytes() if path.exists() else b"") == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["guard-not-a-copy", "{golden}"], "golden cases of edival, not of guard-not-a-copy"),
        (["edival", "{golden}", "--protocol", "papper"], "paper, official"),
        (["a", "b", "c"], "one reward and one file"),
        (["edvial-if", "{recording}"], "did you mean edival-if"),
        (["edival-if", "{recording}", "--protocol", "papper"], "paper, official"),
        (["{recording}", "-o", "{recording}"], "use different files"),
    ],
)
def test_wrong_usage_is_explained(
    arguments: list[str], says: str, editcritic: Command, folder: Folder, recording: Path
) -> None:
    names = {"golden": golden(folder, 1), "recording": recording}
    editcritic("dev", "replay", *(argument.format(**names) for argument in arguments), code=2, says=says)
