"""A replay looks up what the experts made of each query, builds none of them, and agrees on every score."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

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
from editcritic.reward import AnswerLog, Box, EditSample, Engine, Expert, Image, Operation, Reward, default_experts
from editcritic.reward.digests import record_checksum
from editcritic.reward.experts.annotated import Annotated
from editcritic.reward.experts.colour import ColourJudge
from editcritic.reward.queries import Abstention, Detect, Judge, Message, YesNo
from editcritic.reward.queries.kinds import Query
from editcritic.reward.sample_files import sample_to_json

from ..conftest import Command, Folder, patched, photograph

HELMET = {"helmet": (Box.from_corners(70, 85, 127, 127, size=(128, 128)),)}
FACE = {"face": (Box.from_corners(47, 13, 73, 41, size=(128, 128)),)}


def edits() -> list[EditSample]:
    """Several turns, several operations, a duplicate, an object without a box, and an edit on another size."""
    source, patch, bigger = (Image.of(picture) for picture in (photograph(), patched(0.2), patched(0.4)))
    boxes = HELMET | FACE
    first = EditSample("turns/turn-1", "Change the color of the helmet to green", (source,), patch, boxes=boxes)
    several = (Operation("Remove the helmet"), Operation("Change the color of the face to green"))
    return [
        EditSample("colour", "Change the color of the helmet to green", (source,), patch, boxes=boxes),
        EditSample("copy of it", "Change the color of the helmet to green", (source,), patch, boxes=boxes),
        EditSample("remove", "Remove the helmet", (source,), bigger, boxes=boxes),
        EditSample("no box", "Change the color of the badge to red", (source,), bigger, boxes=boxes),
        EditSample("other boxes", "Change the color of the helmet to green", (source,), patch, boxes=FACE),
        EditSample("turns", "Remove the face", (patch,), bigger, boxes=boxes, history=(first,)),
        EditSample("operations", "Remove the helmet and make the face green", (source,), bigger, operations=several),
        EditSample("resized", "Remove the face", (source,), bigger.resized(96, 96), boxes=boxes),
    ]


REWARD = {
    "use": "weighted-mean",
    "parts": {
        "any": {"use": "any-edit"},
        "following": {"use": "edival-if"},
        "consistency": {"use": "edival-cc"},
        "changed": {"use": "guard-not-a-copy"},
    },
}


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
    return [score.status if score.value is None else repr(score.value) for score in scores]


def replay(path: Path, name: str | None = None) -> ReplayReport:
    recording = RecordingReader(path)
    try:
        return replay_recording(name, recording, None, write=lambda *_: None, on_problem=lambda _: None)
    finally:
        recording.log.close()


def wrapped(experts: Mapping[str, Expert]) -> dict[str, Expert]:
    noisy = wrap_experts(experts, lambda expert: NoisyExpert(expert, misses=0.3, flips=0.3, bias=0.1))
    return dict(wrap_experts(noisy, CachingExpert))


EXPERTS: dict[str, Callable[[], Mapping[str, Expert]]] = {
    "cpu": default_experts,
    "scene": scene_experts,
    "annotated with noise": lambda: wrapped(default_experts()),
    "scene with noise": lambda: wrapped(scene_experts() | {"judge": ColourJudge()}),
}


@pytest.mark.parametrize("name", EXPERTS)
def test_a_replay_agrees_without_the_experts(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [case.sample for case in cases(12, seed=0, size=64)] if "scene" in name else edits()
    scores = record(tmp_path / "run.db", samples, EXPERTS[name]())
    assert len(set(scores)) > 2
    built: list[object] = []
    for expert in (Annotated, ColourJudge, NoisyExpert):
        monkeypatch.setattr(expert, "__init__", lambda self, *_, **__: built.append(self))
    report = replay(tmp_path / "run.db")
    assert report.mismatches == []
    assert (report.num_agreeing, report.num_compared) == (len(samples), len(samples))
    assert built == []


def test_a_recording_goes_on_and_what_its_spec_says_of_experts_is_not_read(tmp_path: Path) -> None:
    path, samples = tmp_path / "run.db", edits()
    first = record(path, samples[:3], default_experts())
    assert record(path, samples, default_experts())[:3] == first
    with AnswerLog(path) as log:  # what its spec says of experts is not read
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


def test_another_reward_is_replayed_where_the_answers_suffice(tmp_path: Path) -> None:
    samples = edits()
    record(tmp_path / "run.db", samples, default_experts())
    expected = record(tmp_path / "other.db", samples, default_experts(), {"use": "edival-cc"})
    scores: list[str] = []
    recording = RecordingReader(tmp_path / "run.db")
    replay_recording(
        "edival-cc",
        recording,
        None,
        write=lambda _, score, __: scores.append(score.status if score.value is None else repr(score.value)),
        on_problem=lambda _: None,
    )
    recording.log.close()
    assert scores == expected
    assert any(score not in ("failed", "abstained", "not_applicable") for score in scores)


def test_an_expert_of_a_replay_rewrites_as_recorded_for_that_sample_only(tmp_path: Path) -> None:
    """Equal crops of two samples are one query; of one sample it is the whole image, and the judge abstains."""
    whole = Image.of(patched(0.2))
    inside = EditSample("inside", "Make it green", (Image.of(photograph()),), Image.of(photograph()))
    samples = {"whole": EditSample("whole", "Make it green", (whole,), whole), "inside": inside}
    query = Judge((Message((whole, "?")),), YesNo(), topic="edival/color", slots=(("object", "x"), ("value", "green")))
    third = EditSample("third", "Make it green", (whole,), whole)
    judge = ColourJudge()
    with AnswerLog(tmp_path / "run.db", record_queries=True) as log:
        RecordingWriter(log, Reward.of("guard-not-a-copy", default_experts() | {"judge": judge}))
        for sample in samples.values():
            log.add_sample(json.dumps(sample_to_json(sample)))
            log.record_asked(sample, [(judge.id, query, judge.rewrite_query(query, sample))])
    recording = RecordingReader(tmp_path / "run.db")
    expert = recording.experts()["judge"]
    assert isinstance(expert.rewrite_query(query, samples["whole"]), Abstention)
    assert expert.rewrite_query(query, samples["inside"]) is query
    unknown: list[tuple[Query[Any], EditSample | None]] = [
        (Detect(whole, ("helmet",)), samples["whole"]),
        (query, third),
        (query, None),
    ]
    for asked, owner in unknown:
        with pytest.raises(LookupError, match=NOT_RECORDED):
            expert.rewrite_query(asked, owner)
    recording.log.close()


def test_a_recording_of_an_earlier_version_says_what_to_do(tmp_path: Path) -> None:
    record(tmp_path / "run.db", edits()[:2], default_experts())
    with AnswerLog(tmp_path / "run.db") as log:
        log._db.execute("drop table rewritings")
        log.meta("experts", json.dumps({role: expert.id for role, expert in default_experts().items()}))
        log._db.execute("pragma wal_checkpoint(truncate)")
    before = (tmp_path / "run.db").read_bytes()
    with pytest.raises(InputError, match=r"recorded by an earlier version.*record the samples again, in a new file"):
        RecordingReader(tmp_path / "run.db")
    assert (tmp_path / "run.db").read_bytes() == before
    with AnswerLog(tmp_path / "run.db") as log:  # its answers are as good as before
        assert len(log) > 0
        log.verify()


def test_a_replay_changes_no_byte_and_leaves_no_file(editcritic: Command, folder: Folder, three: Path) -> None:
    path = folder / "run.db"
    assert editcritic("score", three, "--reward", folder.cheap, "--record", path).exit_code == 0
    before = {file.name: file.read_bytes() for file in folder.path.iterdir() if file.is_file()}
    assert "3/3 agree" in editcritic("dev", "replay", path).stdout
    assert {file.name: file.read_bytes() for file in folder.path.iterdir() if file.is_file()} == before


def test_a_recording_that_was_cut_off_is_replayed_with_its_wal(tmp_path: Path) -> None:
    """As kill -9 leaves it: rows are in the WAL alone. Nothing is changed, and the copy is deleted."""
    path, cut_off = tmp_path / "run.db", tmp_path / "cut off"
    cut_off.mkdir()
    samples = edits()[:3]
    record(path, samples, default_experts())
    with AnswerLog(path) as log:
        log.add_sample(log.samples()[0].replace('"colour"', '"fourth"'))
        for file in tmp_path.glob("run.db*"):
            if not file.name.endswith("-shm"):
                (cut_off / file.name).write_bytes(file.read_bytes())
    before = {file.name: file.read_bytes() for file in cut_off.iterdir()}
    assert set(before) == {"run.db", "run.db-wal"}
    recording = RecordingReader(cut_off / "run.db")
    assert [sample.id for sample in recording.samples()][-1] == "fourth"
    copy = Path(recording.log._database._copy.name)  # type: ignore[union-attr]
    assert copy.exists()
    recording.log.close()
    assert not copy.exists()
    assert {file.name: file.read_bytes() for file in cut_off.iterdir()} == before


def test_recording_is_the_users_own_reward(tmp_path: Path) -> None:
    """A file of somebody else with another reward, or with one that cannot be read, is not recorded into."""
    reward = load_reward("guard-not-a-copy")
    for spec in ("[1]", "nonsense", '{"reward": 3}', '{"reward": ' + "[" * 5_000):
        with AnswerLog(tmp_path / "run.db", record_queries=True) as log:
            log.meta("spec", spec)
            with pytest.raises(InputError, match="is a recording of another reward"):
                RecordingWriter(log, reward)
