"""A replay looks up what the experts made of each query, builds none of them, and agrees on every score."""

import json
import random
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.common.inputs import load_reward
from editcritic.benchmarks.run.replay import (
    NOT_RECORDED,
    RecordingReader,
    RecordingWriter,
    ReplayReport,
    replay_recording,
)
from editcritic.benchmarks.sceneedit.cases import cases
from editcritic.benchmarks.sceneedit.experts.expert_noise import CachingExpert, NoisyExpert, wrap_experts
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.reward import (
    AnswerLog,
    Box,
    EditSample,
    Engine,
    Expert,
    Image,
    Operation,
    Reward,
    Score,
    default_experts,
)
from editcritic.reward.digests import record_checksum
from editcritic.reward.engine.answer_log import LogError
from editcritic.reward.experts.annotated import Annotated
from editcritic.reward.experts.colour import ColourJudge
from editcritic.reward.queries import Abstention, Detect, Judge, Message, YesNo
from editcritic.reward.sample_files import sample_to_json

from ..conftest import SIDE, Folder, patched, photograph, read_jsonl

CORNERS = {"helmet": [70, 85, 127, 127], "face": [47, 13, 73, 41]}
BOXES = {name: (Box.from_corners(a, b, c, d, size=(SIDE, SIDE)),) for name, (a, b, c, d) in CORNERS.items()}
CC = '[reward]\nuse = "weighted-mean"\nparts.consistency.use = "edival-cc"\n'


# -- in this process --------------------------------------------------------------------------------------------------


def edits() -> list[EditSample]:
    """Several turns, several operations, a duplicate, an object without a box, and an edit on another size."""
    source, patch, bigger = (Image.of(picture) for picture in (photograph(), patched(0.2), patched(0.4)))
    green, face = "Change the color of the helmet to green", {"face": BOXES["face"]}
    first = EditSample("turns/turn-1", green, (source,), patch, boxes=BOXES)
    several = (Operation("Remove the helmet"), Operation("Change the color of the face to green"))
    return [
        EditSample("colour", green, (source,), patch, boxes=BOXES),
        EditSample("copy of it", green, (source,), patch, boxes=BOXES),
        EditSample("remove", "Remove the helmet", (source,), bigger, boxes=BOXES),
        EditSample("no box", "Change the color of the badge to red", (source,), bigger, boxes=BOXES),
        EditSample("other boxes", green, (source,), patch, boxes=face),
        EditSample("turns", "Remove the face", (patch,), bigger, boxes=BOXES, history=(first,)),
        EditSample("operations", "Remove the helmet and make the face green", (source,), bigger, operations=several),
        EditSample("resized", "Remove the face", (source,), bigger.resized(96, 96), boxes=BOXES),
    ]


PARTS = {"any": "any-edit", "following": "edival-if", "consistency": "edival-cc", "changed": "guard-not-a-copy"}
REWARD = {"use": "weighted-mean", "parts": {name: {"use": used} for name, used in PARTS.items()}}


def record(path: Path, samples: list[EditSample], experts: Mapping[str, Expert], spec: Any = REWARD) -> list[str]:
    """Record the scores of samples; returns what they are."""
    with AnswerLog(path, record_queries=True) as log, Engine(log=log) as engine:
        reward = Reward.of(spec, experts, engine=engine, on_failures="none")
        writer = RecordingWriter(log, reward)
        for sample in samples:
            writer.add_sample(sample)
        scores = list(reward(samples))
        for sample, score in zip(samples, scores, strict=True):
            writer.add_score(sample.id, score)
    return [shown(score) for score in scores]


def shown(score: Score) -> str:
    return score.status if score.value is None else repr(score.value)


def replay(path: Path, name: str | None = None, write: Any = lambda *_: None) -> ReplayReport:
    recording = RecordingReader(path)
    try:
        return replay_recording(name, recording, None, write=write, on_problem=lambda _: None)
    finally:
        recording.log.close()


def wrapped(experts: Mapping[str, Expert]) -> dict[str, Expert]:
    noisy = wrap_experts(experts, lambda expert: NoisyExpert(expert, misses=0.3, flips=0.3, bias=0.1))
    return dict(wrap_experts(noisy, CachingExpert))


EXPERTS = {
    "cpu": default_experts,
    "scene": scene_experts,
    "annotated with noise": lambda: wrapped(default_experts()),
    "scene with noise": lambda: wrapped(scene_experts() | {"judge": ColourJudge()}),
}


@pytest.mark.parametrize("name", EXPERTS)
def test_a_replay_agrees_without_the_experts(name, tmp_path, monkeypatch):
    samples = [case.sample for case in cases(12, seed=0, size=64)] if "scene" in name else edits()
    scores = record(tmp_path / "run.db", samples, EXPERTS[name]())
    assert len(set(scores)) > 2
    for expert in (Annotated, ColourJudge, NoisyExpert):
        monkeypatch.setattr(expert, "__init__", lambda self, *_, **__: pytest.fail("an expert was built"))
    report = replay(tmp_path / "run.db")
    assert report.mismatches == []
    assert (report.num_agreeing, report.num_compared) == (len(samples), len(samples))


def test_a_recording_goes_on_and_its_words_about_experts_are_not_read(tmp_path):
    path, samples = tmp_path / "run.db", edits()
    first = record(path, samples[:3], default_experts())
    assert record(path, samples, default_experts())[:3] == first
    with AnswerLog(path) as log:
        spec = json.loads(log.meta("spec") or "")
        spec["experts"] = {"judge": {"use": "os:system", "command": f"touch {tmp_path}/ran"}}
        log.meta("spec", json.dumps(spec))
    report = replay(path)
    assert (report.num_agreeing, report.num_compared) == (len(samples), len(samples))
    assert not (tmp_path / "ran").exists()
    with AnswerLog(path) as log:
        assert log._db.execute("""update rewritings set rewritten = '{"abstained": "no"}'""").rowcount > 0
    with pytest.raises(ValueError, match=r"is damaged: a row .rewriting. is not as it was written"):
        RecordingReader(path)
    with AnswerLog(tmp_path / "log") as log, Engine(log=log) as engine:  # no recording: it stores no rewritings
        list(Reward.of(REWARD, default_experts(), engine=engine, on_failures="none")(samples[:2]))
        assert len(log) > 0
        assert log._db.execute("select count(*) from rewritings").fetchone() == (0,)
    fields = ("annotated", "0" * 64, "1" * 64, "{}")  # the checksum covers what a rewriting is looked up by
    assert len({record_checksum("rewriting", *fields[:n], "x", *fields[n + 1 :]) for n in range(4)}) == 4


def test_another_reward_is_replayed_where_the_answers_suffice(tmp_path):
    record(tmp_path / "run.db", edits(), default_experts())
    expected = record(tmp_path / "other.db", edits(), default_experts(), {"use": "edival-cc"})
    scores: list[str] = []
    replay(tmp_path / "run.db", "edival-cc", lambda _, score, __: scores.append(shown(score)))
    assert scores == expected
    assert any(score not in ("failed", "abstained", "not_applicable") for score in scores)


def test_an_expert_of_a_replay_rewrites_as_recorded_for_that_sample_only(tmp_path):
    """Equal crops of two samples are one query; of one sample it is the whole image, and the judge abstains."""
    whole, inside, words = Image.of(patched(0.2)), Image.of(photograph()), "Make it green"
    samples = {
        name: EditSample(name, words, (image,), image)
        for name, image in (("whole", whole), ("inside", inside), ("third", whole))
    }
    query = Judge((Message((whole, "?")),), YesNo(), topic="edival/color", slots=(("object", "x"), ("value", "green")))
    judge = ColourJudge()
    with AnswerLog(tmp_path / "run.db", record_queries=True) as log:
        RecordingWriter(log, Reward.of("guard-not-a-copy", default_experts() | {"judge": judge}))
        for sample in (samples["whole"], samples["inside"]):
            log.add_sample(json.dumps(sample_to_json(sample)))
            log.record_asked(sample, [(judge.id, query, judge.rewrite_query(query, sample))])
    recording = RecordingReader(tmp_path / "run.db")
    expert = recording.experts()["judge"]
    assert isinstance(expert.rewrite_query(query, samples["whole"]), Abstention)
    assert expert.rewrite_query(query, samples["inside"]) is query
    unknown: Any = [(Detect(whole, ("helmet",)), samples["whole"]), (query, samples["third"]), (query, None)]
    for asked, owner in unknown:
        with pytest.raises(LookupError, match=NOT_RECORDED):
            expert.rewrite_query(asked, owner)
    recording.log.close()


def test_a_recording_of_an_earlier_version_says_what_to_do(tmp_path):
    path = tmp_path / "run.db"
    record(path, edits()[:2], default_experts())
    with AnswerLog(path) as log:
        log._db.execute("drop table rewritings")
        log.meta("experts", json.dumps({role: expert.id for role, expert in default_experts().items()}))
        log._db.execute("pragma wal_checkpoint(truncate)")
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"recorded by an earlier version.*record the samples again, in a new file"):
        RecordingReader(path)
    assert path.read_bytes() == before
    with AnswerLog(path) as log:  # its answers are as good as before
        assert len(log) > 0
        log.verify()


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def test_a_recording_that_was_cut_off_is_replayed_with_its_wal(tmp_path):
    """As kill -9 leaves it: rows are in the WAL alone. Nothing is changed, and the copy is deleted."""
    path, cut_off = tmp_path / "run.db", tmp_path / "cut off"
    cut_off.mkdir()
    record(path, edits()[:3], default_experts())
    with AnswerLog(path) as log:
        log.add_sample(log.samples()[0].replace('"colour"', '"fourth"'))
        for file in tmp_path.glob("run.db*"):
            if not file.name.endswith("-shm"):
                (cut_off / file.name).write_bytes(file.read_bytes())
    before = contents(cut_off)
    assert set(before) == {"run.db", "run.db-wal"}
    recording = RecordingReader(cut_off / "run.db")
    assert [sample.id for sample in recording.samples()][-1] == "fourth"
    copy = Path(recording.log._database._copy.name)  # type: ignore[union-attr]
    assert copy.exists()
    recording.log.close()
    assert not copy.exists()
    assert contents(cut_off) == before


def test_recording_is_the_users_own_reward(tmp_path):
    """A file of somebody else with another reward, or with one that cannot be read, is not recorded into."""
    for spec in ("[1]", "nonsense", '{"reward": 3}', '{"reward": ' + "[" * 5_000):
        with AnswerLog(tmp_path / "run.db", record_queries=True) as log:
            log.meta("spec", spec)
            with pytest.raises(InputError, match="is a recording of another reward"):
                RecordingWriter(log, load_reward("guard-not-a-copy"))


def test_samples_come_back_from_a_recording_as_they_were(tmp_path):
    source, edited = (Image.from_digest(f"{number:064}", (97, 61)) for number in (1, 2))
    numbers = np.random.default_rng(0).uniform(0.05, 0.9, (200, 2))
    boxes = {"cup": tuple(Box(x, y, 1 / 3 * x, 0.07, 0.25) for x, y in numbers)}
    first = EditSample("a/turn-1", "Add cup", (source,), edited, boxes=boxes, metadata={"seed": 1})
    sample = EditSample("a", "Remove cup", (edited,), edited, boxes=boxes, history=(first,), metadata={"seed": 1})
    with AnswerLog(tmp_path / "run.db", record_queries=True) as log:
        RecordingWriter(log, Reward.of("guard-same-aspect")).add_sample(sample)
    recall = RecordingReader(tmp_path / "run.db")
    assert list(recall.samples()) == [sample]
    recall.log.close()


# -- on the command line ----------------------------------------------------------------------------------------------


@pytest.fixture
def samples(folder):
    patched(0.2).save(folder / "second.png")
    boxes = {"helmet": [CORNERS["helmet"]], "face": [[47.123456789, 13.2, 73.75, 41.1]]}
    turn = {"instruction": "Remove badge", "edited": "patched.png"}
    return folder.samples(
        folder.row(id="patched", boxes=boxes),
        folder.row(id="copy", edited="copy.png", boxes=boxes),
        folder.row(id="strange", instruction="Make it pretty", boxes=boxes),
        folder.row(id="later", edited="second.png", boxes=boxes, history=[turn], metadata={"seed": 3}),
    )


@pytest.fixture
def recording(editcritic, folder, samples):
    """A run with edival-cc and a guard recorded, and all pictures gone since."""
    reward, path = folder / "both.toml", folder / "run.db"
    reward.write_text(CC + 'parts.changed.use = "guard-not-a-copy"\n')
    ran = editcritic("score", samples, "--reward", reward, "--record", path, "-o", folder / "scores.jsonl")
    assert ran.exit_code in (0, 2)
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


def test_a_recording_replays_to_the_same_scores_without_pictures(editcritic, folder, recording):
    before = contents(folder.path)
    editcritic("dev", "replay", "-", recording, shows="4/4 agree")
    assert contents(folder.path) == before
    assert replayed(recording, "-o", folder / "again.jsonl").endswith("\n4/4 agree\n")
    first, again = (
        [(row["id"], row["value"], row["status"]) for row in read_jsonl(folder / f"{name}.jsonl")]
        for name in ("scores", "again")
    )
    assert first == again
    assert any(value is not None for _, value, _ in first)


def test_another_reward_is_replayed_over_the_same_answers(editcritic, recording):
    document = json.loads(editcritic("dev", "replay", "guard-not-a-copy", recording, "--json").stdout)
    assert (document["num_compared"], document["summary"]["counts"]["scored"]) == (0, 4)
    ran = editcritic("dev", "replay", "edival-cc", recording, "--protocol", "official", "--json", code=1)
    reasons = {
        row["reason"].rpartition(": ")[2].partition(" (")[0] for row in json.loads(ran.stdout)["summary"]["unscored"]
    }
    assert "the recording has no answer to this query" in reasons


def test_what_comes_out_otherwise_is_named(editcritic, recording):
    with AnswerLog(recording) as log:
        log.meta("score:copy", json.dumps({"value": 0.123, "status": "scored"}))
    editcritic("dev", "replay", recording, code=1, says="copy: recorded 0.123, got", shows="3/4 agree")
    document = json.loads(editcritic("dev", "replay", recording, "--json", code=1).stdout)
    found = (document["num_agreeing"], document["num_compared"], len(document["mismatches"]), document["exit_code"])
    assert found == (3, 4, 1, 1)
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
def test_a_damaged_recording_is_refused(statement, editcritic, recording):
    first = "query_digest = (select query_digest from answers where answer like '%0.%' limit 1)"
    with sqlite3.connect(recording) as db:
        assert db.execute(statement.replace("rowid_is_first", first)).rowcount >= 1
    editcritic("dev", "replay", recording, code=2, says=f"{recording.name} is damaged")
    assert editcritic("dev", "replay", "guard-not-a-copy", recording, code=2).stdout == ""


def test_no_flipped_bit_of_a_recording_changes_a_replayed_score(recording):
    """One bit anywhere in the file: the recording is refused, or all its samples and answers are as recorded."""
    with AnswerLog(recording) as log:
        log._db.execute("pragma wal_checkpoint(truncate)")
    intact = recording.read_bytes()
    expected = content(RecordingReader(recording))
    used = [place for place, byte in enumerate(intact) if byte]
    rng = random.Random(0)
    refused = 0
    for _ in range(120):
        flipped = bytearray(intact)
        flipped[rng.choice(used)] ^= 1 << rng.randrange(8)
        path = recording.with_name("flipped.db")
        path.write_bytes(flipped)
        for rest in ("-wal", "-shm"):
            path.with_name(path.name + rest).unlink(missing_ok=True)
        try:
            reader = RecordingReader(path)
        except (LogError, InputError):
            refused += 1
        else:
            assert content(reader) == expected
            reader.log.close()
    assert refused > 60


def content(reader: RecordingReader) -> tuple[object, ...]:
    return list(reader.samples()), reader.spec, list(reader.log._intact_rows("answer"))


def test_the_command_goes_on_where_it_stopped(editcritic, folder, samples):
    run, path = ["score", samples, "--reward", folder.cheap, "--record", folder / "run.db"], folder / "run.db"
    editcritic(*run, code=0)
    again = json.loads(editcritic(*run, "--json", "--profile").stdout)
    assert again["profile"]["unique"] == 0
    editcritic("dev", "replay", path, shows="4/4 agree")
    other = ("score", samples, "--reward", "guard-not-blank", "--record", path)
    editcritic(*other, code=2, says="recording of another reward (weighted-mean)")


def test_crops_that_are_equal_in_two_pictures_are_both_known_to_a_replay(editcritic, folder):
    """Consistency crops the same box out of source and edits, the guard enlarges halves: where nothing changed, what
    is cut out of two pictures is one."""
    pixels = np.array(PIL.Image.open(folder / "source.png"))
    for number in range(6):
        pixels[90 + number, 90:] = 255
        PIL.Image.fromarray(pixels).save(folder / f"edit{number}.png")
    boxes = {name: [corners] for name, corners in CORNERS.items()}
    samples = folder.samples(*(folder.row(id=str(n), edited=f"edit{n}.png", boxes=boxes) for n in range(6)))
    (folder / "crops.toml").write_text(CC + 'parts.collage.use = "guard-not-collage"\n')
    editcritic("score", samples, "--reward", folder / "crops.toml", "--record", folder / "run.db", code=0)
    assert replayed(folder / "run.db").endswith("\n6/6 agree\n")


def golden(folder: Folder, *expected: int) -> Path:
    """Golden cases of a removal that was done."""
    detections = {"source": {"bench": [[0.5, 0.5, 0.2, 0.2, 0.9]]}, "edited": {"bench": []}}
    calls = [{"image": image, "phrase": "bench", "threshold": 0.35} for image in ("source", "edited")]
    row = {"instruction": "Remove bench", "detections": detections, "vlm": {"core_name": {"bench": "bench"}}}
    path = folder / "golden.jsonl"
    lines = ({**row, "id": f"{n}-1-0", "detector_calls": calls, "expected": one} for n, one in enumerate(expected))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_all_published_golden_cases_agree(editcritic):
    path = Path(__file__).parents[2] / "golden" / "edival_instruction_following.jsonl"
    editcritic("dev", "replay", "edival", path, "--protocol", "official", code=0, shows="2730/2730 agree")


def test_a_golden_case_that_disagrees_is_named(editcritic, folder):
    command = ("dev", "replay", "edival", golden(folder, 1, 0, 1), "--protocol", "official")
    editcritic(*command, code=1, shows="2/3 agree", says="1-1-0: expected 0, got 1")
    document = json.loads(editcritic("dev", "replay", golden(folder, 1, 0, 1), "--json").stdout)
    assert (document["num_agreeing"], document["num_compared"], document["exit_code"]) == (2, 3, 1)


def wrong_file(kind: str, folder: Folder) -> Path:
    path = folder / f"{kind}.file"
    match kind:
        case "picture":
            PIL.Image.new("RGB", (SIDE, SIDE)).save(path, "PNG")
        case "database":
            with sqlite3.connect(path) as db:
                db.execute("create table meta (theirs)")
        case "cache" | "torn":
            AnswerLog(path).close()
            if kind == "torn":
                path.write_bytes(path.read_bytes()[:5000])
        case _:
            assert kind == "missing"
    return path


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("missing", "No such file"),
        (b"hello", "is not a recording"),
        (b"", "is not a recording"),
        ("picture", "is not a recording"),
        ("database", "is a database of something else: give another file"),
        ("cache", "it is a cache, not written with --record"),
        ("torn", "torn.file"),
        (b'{"id": "x", "instruction": "Remove cup"}\n', "line 1: not a golden case: it has no 'detector_calls'"),
        (b'{"id": "\xff\xfe"}\n', "line 1: not a golden case"),
    ],
)
def test_a_file_that_cannot_be_replayed_is_refused_and_left_alone(kind, says, editcritic, folder):
    path = folder / "own.file"
    if isinstance(kind, bytes):
        path.write_bytes(kind)
    else:
        path = wrong_file(kind, folder)
    before = path.read_bytes() if path.exists() else b""
    editcritic("dev", "replay", path, code=2)
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
def test_wrong_usage_is_explained(arguments, says, editcritic, folder, recording):
    names = {"golden": golden(folder, 1), "recording": recording}
    editcritic("dev", "replay", *(argument.format(**names) for argument in arguments), code=2, says=says)
