"""What annotators of DLEBench see: the criteria of the paper's annotation document, and the reference."""

from __future__ import annotations

import csv
from pathlib import Path

import PIL.Image
import pytest

from editcritic.benchmarks.human_eval.annotation_plan import QuestionType
from editcritic.benchmarks.human_eval.annotation_session import AnnotationSession
from editcritic.benchmarks.human_eval.annotation_texts import dimension_definition
from editcritic.benchmarks.human_eval.label_sheets import write_question_sheet
from editcritic.benchmarks.human_eval.question_pools import SuitePool
from editcritic.benchmarks.human_eval.shown_questions import ShownQuestion
from editcritic.benchmarks.suites.dlebench.suite import DleBench
from editcritic.benchmarks.web_app.question_view import PictureStore, question_html
from editcritic.reward.metrics.dlebench.replies import CONSISTENCY, FOLLOWING

from ..suites.dlebench.layout import written


def session(folder: Path, *kinds: str) -> AnnotationSession:
    data = written(folder / "data", count=2)
    pool = SuitePool(DleBench(data), dict.fromkeys(("one", "two"), data / "Source_Images"))
    questions = pool.questions([QuestionType.parse(kind) for kind in kinds])
    return AnnotationSession(pool, questions, folder / "labels.jsonl", practice_questions=0)


def asked(folder: Path, kind: str) -> ShownQuestion:
    question = session(folder, kind).question("ann")
    assert question is not None
    return question


@pytest.mark.parametrize(
    ("kind", "roles"),
    [
        ("four-level:IF", ["source", "edited", "reference"]),
        ("four-level:VC", ["source", "edited", "reference"]),
        ("yes-no:IF", ["source", "edited", "reference"]),
        ("pair:IF", ["source", "left", "right"]),
    ],
)
def test_an_edit_is_shown_beside_its_reference(tmp_path: Path, kind: str, roles: list[str]) -> None:
    shown = asked(tmp_path, kind)
    assert [picture.role for picture in shown.pictures] == roles
    if "reference" in roles:
        (number,) = [n for n in (0, 1) if f"picture {n} " in shown.instruction]
        with PIL.Image.open(tmp_path / f"data/Reference_Images/{number}_ref.png") as reference:
            assert shown.pictures[-1].image.pixels.tobytes() == reference.convert("RGB").tobytes()


def test_following_counts_what_the_target_should_have_kept(tmp_path: Path) -> None:
    for kind in ("four-level", "yes-no", "pair"):
        text = dimension_definition(QuestionType(kind, "IF"), "dlebench")
        assert "other changes" not in text
        assert "kept all that the instruction does not name" in text
    assert "other changes" in dimension_definition(QuestionType("yes-no", "IF"), "")


def test_light_is_named_by_consistency_only_as_what_does_not_count(tmp_path: Path) -> None:
    text = dimension_definition(QuestionType("four-level", "VC"), "dlebench")
    assert "sharpness" not in text
    (sentence,) = [one for one in text.split(". ") if "light" in one]
    assert "do not count" in sentence


@pytest.mark.parametrize(("dimension", "scale"), [("IF", FOLLOWING), ("consistency", CONSISTENCY)])
def test_every_label_is_explained_and_the_steps_lead_to_all_four(tmp_path: Path, dimension: str, scale: object) -> None:
    shown = asked(tmp_path, f"four-level:{dimension}")
    assert isinstance(scale, type(FOLLOWING))
    _, *rubric = shown.definition.split("\n")
    levels = [f"{label} ({scale.rubric_score(label)}): " for label in scale.labels]
    assert [line[: len(level)] for line, level in zip(rubric, levels, strict=False)] == levels
    steps = "\n".join(rubric[4:])
    assert all(label in steps for label in scale.labels if label != "Flawless Execution")
    view = question_html(shown, "ann", PictureStore(str(tmp_path)))
    assert "<summary>How to decide</summary>" in view
    assert "<summary>" not in question_html(
        asked(tmp_path / "pair", "pair:overall"), "ann", PictureStore(str(tmp_path))
    )


def test_a_sheet_has_the_guide_too(tmp_path: Path) -> None:
    count, problems = write_question_sheet(session(tmp_path, "four-level:VC"), "ann", tmp_path / "sheet")
    assert count
    assert not list(problems)
    with (tmp_path / "sheet/questions.csv").open(encoding="utf-8-sig", newline="") as file:
        row = next(csv.DictReader(file))
    assert "Scene Collapse (1): " in row["definition"]
    with PIL.Image.open(tmp_path / "sheet" / row["picture"]) as picture:
        assert picture.width == 3 * 64 + 2 * 12
