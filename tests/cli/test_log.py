"""`editcritic log merge`: what is printed, exit codes, and recordings that become one."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from ..benchmarks.conftest import Command, Folder


def record(editcritic: Command, folder: Folder, name: str, *edits: str, reward: Path | None = None) -> Path:
    path = folder / f"{name}.db"
    samples = folder.samples(*(folder.row(id=edit, edited=f"{edit}.png") for edit in edits), name=f"{name}.jsonl")
    editcritic("score", samples, "--reward", reward or folder.cheap, "--record", path, code=0)
    return path


def test_recordings_of_one_reward_become_one_that_is_replayed_and_a_cache(editcritic: Command, folder: Folder) -> None:
    first = record(editcritic, folder, "first", "copy", "patched")
    second = record(editcritic, folder, "second", "patched", "blank")
    merged, answers = folder / "merged.db", folder / "answers.db"
    editcritic("log", "merge", first, second, "-o", merged, code=0, shows="and 3 samples are in")
    replayed = editcritic("dev", "replay", "-", merged, code=0)
    editcritic("log", "merge", first, second, "-o", merged, code=0)
    assert editcritic("dev", "replay", "-", merged).stdout == replayed.stdout
    editcritic("log", "merge", first, second, "-o", answers, "--answers", code=0)
    samples = folder.samples(*(folder.row(id=edit, edited=f"{edit}.png") for edit in ("copy", "patched", "blank")))
    result = editcritic("score", samples, "--reward", folder.cheap, "--cache", answers, "--profile", "--json")
    profile = json.loads(result.stdout)["profile"]
    assert profile["experts"] == {}
    assert (profile["unique"], profile["cache_hits"] + profile["coalesced"]) == (0, profile["queries"])


def test_recordings_that_do_not_fit_are_refused_and_their_answers_are_merged(editcritic, folder):
    first = record(editcritic, folder, "first", "copy")
    other, merged = folder / "other.toml", folder / "merged.db"
    other.write_text('reward = "guard-not-blank"\n')
    second = record(editcritic, folder, "second", "copy", reward=other)
    editcritic("log", "merge", first, second, "-o", merged, code=2, says=("of another reward", "answers alone"))
    assert not merged.exists()
    editcritic("log", "merge", first, second, "-o", merged, "--answers", code=0)
    editcritic("dev", "replay", "-", merged, code=2, says="no samples")
    (folder / "copy.png").write_bytes((folder / "blank.png").read_bytes())
    third, says = record(editcritic, folder, "third", "copy"), ("another sample 'copy'", "different ids")
    editcritic("log", "merge", first, third, "-o", folder / "other.db", code=2, says=says)


def test_conflicts_are_shown_and_end_with_exit_code_1_unless_it_is_said_what_to_keep(editcritic, folder):
    first = record(editcritic, folder, "first", "patched")
    second = folder / "second.db"
    second.write_bytes(first.read_bytes())
    change_an_answer(second)
    merged = folder / "merged.db"
    with closing(sqlite3.connect(first)) as db:
        (answers,) = db.execute("select count(*) from answers").fetchone()
    editcritic(
        *("log", "merge", first, second, "-o", merged),
        code=1,
        says=("1 conflicts; the first of each is kept", "0.125"),
        shows="pixel-features@1",
    )
    for keep, kept in (("first", 1), ("none", 0)):
        merged.unlink()
        result = editcritic("log", "merge", first, second, "-o", merged, "--keep", keep, "--json", code=0)
        printed = json.loads(result.stdout)
        assert printed["num_conflicts"] == printed["counts"][0]["conflicts"] == 1
        assert (printed["answers"], printed["conflicts"][0]["other_log"]) == (answers - 1 + kept, str(second))


def change_an_answer(path: Path) -> None:
    """As a judge that does not repeat itself: the row is intact."""
    from editcritic.reward.digests import record_checksum

    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        number, digest, text, expert = db.execute(
            "select expert_number, query_digest, answer, id from answers join experts on number = expert_number "
            "where id like 'pixel-features%' order by query_digest"
        ).fetchone()
        answer = json.loads(text)
        assert "value" in answer
        changed = json.dumps({**answer, "value": 0.125})
        checksum = record_checksum("answer", expert, digest.hex(), changed)
        db.execute(
            "update answers set answer = ?, checksum = ? where expert_number = ? and query_digest = ?",
            (changed, checksum, number, digest),
        )
