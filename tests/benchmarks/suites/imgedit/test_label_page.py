"""Conversations of ImgEdit-Bench on the annotation page: a question about all turns so far, for each of their kinds."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from editcritic.benchmarks.human_eval.annotation_plan import QuestionPool, QuestionType
from editcritic.benchmarks.human_eval.annotation_server import LabelServer
from editcritic.benchmarks.human_eval.annotation_session import AnnotationSession
from editcritic.benchmarks.suites.human_labels import read_labels
from editcritic.benchmarks.suites.imgedit.suite import ImgEditBench
from editcritic.reward import Image

from ..tiny_suite import picture
from .layout import TURNS, archive, outputs

MEMORY = QuestionType("yes-no", "content-memory")


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImgEditBench:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return ImgEditBench(archive(tmp_path / "data"), part="multi-turn")


@pytest.fixture
def page(suite: ImgEditBench, tmp_path: Path) -> Iterator[str]:
    """The address of the page, with questions about memory; labels go to `labels.jsonl`."""
    pool = QuestionPool(suite, {"mine": outputs(tmp_path / "made", suite)})
    session = AnnotationSession(
        pool, pool.questions([MEMORY]), tmp_path / "labels.jsonl", {}, practice_questions=0, recheck_share=0
    )
    with LabelServer(session, 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.url
        server.shutdown()
        thread.join(20)


def asked(url: str, body: Any = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"} if data else {})
    with urllib.request.urlopen(request, timeout=20) as response:
        content: bytes = response.read()
        return content


def test_a_person_sees_the_whole_conversation_and_the_answer_is_kept(page: str, tmp_path: Path) -> None:
    seen = {}
    for number in range(3):
        question = json.loads(asked(f"{page}question?annotator=ann"))
        assert question["definition"].startswith("Does the last edit keep to what earlier instructions set")
        seen[question["instruction"]] = [shown["role"] for shown in question["images"]]
        if len(question["images"]) == 4:
            made = [Image.of(asked(f"{page}image/{shown['key']}")) for shown in question["images"]]
            assert made[1:] == [picture(2000, turn) for turn in range(3)]
        asked(f"{page}answer", {"annotator": "ann", "number": number, "label": "yes", "seconds": 1})
    two, three = f"1. {TURNS[0]}\n2. {TURNS[1]}", f"1. {TURNS[0]}\n2. {TURNS[1]}\n3. {TURNS[2]}"
    assert seen == {
        two: ["source", "after turn 1", "edited"],
        three: ["source", "after turn 1", "after turn 2", "edited"],
    }
    labels = read_labels([tmp_path / "labels.jsonl"])
    assert sorted(name for label in labels for _, name in label.item_keys) == [
        "content-memory-1/2",
        "content-memory-1/3",
        "content-memory-2/2",
    ]
    assert {(label.dimension, label.label) for label in labels} == {("content-memory", "yes")}


def test_each_kind_has_its_own_question_from_the_second_turn_on(suite: ImgEditBench, tmp_path: Path) -> None:
    editors = {name: outputs(tmp_path / name, suite) for name in ("one", "two")}
    for kind in ("content-memory", "content-understanding", "version-backtracking"):
        questions = QuestionPool(suite, editors).questions([QuestionType("pair", kind)])
        items = [name for question in questions for _, name in question.item_keys]
        assert sorted(set(items)) == [f"{kind}-1/2", f"{kind}-1/3", f"{kind}-2/2"]
    every = QuestionPool(suite, editors).questions([QuestionType("yes-no", "following")])
    assert len(every) == 2 * len(suite.items)
