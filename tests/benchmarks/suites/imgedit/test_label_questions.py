"""Conversations of ImgEdit-Bench as people label them: a question about all turns so far, for each of their kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from editcritic.benchmarks.human_eval.annotation_plan import QuestionType
from editcritic.benchmarks.human_eval.annotation_session import AnnotationSession
from editcritic.benchmarks.human_eval.question_pools import SuitePool
from editcritic.benchmarks.suites.human_labels import read_labels
from editcritic.benchmarks.suites.imgedit.suite import ImgEditBench

from ..tiny_suite import picture
from .layout import TURNS, archive, outputs

MEMORY = QuestionType("yes-no", "content-memory")


@pytest.fixture
def suite(tmp_path: Path) -> ImgEditBench:
    return ImgEditBench(archive(tmp_path / "data"), part="multi-turn")


def test_a_person_sees_the_whole_conversation_and_the_answer_is_kept(suite: ImgEditBench, tmp_path: Path) -> None:
    pool = SuitePool(suite, {"mine": outputs(tmp_path / "made", suite)})
    session = AnnotationSession(
        pool, pool.questions([MEMORY]), tmp_path / "labels.jsonl", practice_questions=0, recheck_share=0
    )
    seen = {}
    for number in range(3):
        question = session.question("ann")
        assert question is not None
        assert question.definition.startswith("Does the last edit keep to what earlier instructions set")
        seen[question.instruction] = [shown.role for shown in question.pictures]
        if len(question.pictures) == 4:
            assert [shown.image for shown in question.pictures][1:] == [picture(2000, turn) for turn in range(3)]
        session.submit("ann", number, "yes", 1)
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
        questions = SuitePool(suite, editors).questions([QuestionType("pair", kind)])
        items = [name for question in questions for _, name in question.item_keys]
        assert sorted(set(items)) == [f"{kind}-1/2", f"{kind}-1/3", f"{kind}-2/2"]
    every = SuitePool(suite, editors).questions([QuestionType("yes-no", "following")])
    assert len(every) == 2 * len(suite.items)
