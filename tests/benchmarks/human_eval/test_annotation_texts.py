"""What annotators of DLEBench and I2I-Bench read and see, which prompts a dimension is asked about, and table 3."""

import csv
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.human_eval.agreement_tables import win_correlations
from editcritic.benchmarks.human_eval.annotation_schedule import LabelQuestion, QuestionType
from editcritic.benchmarks.human_eval.annotation_session import AnnotationSession
from editcritic.benchmarks.human_eval.annotation_texts import dimension_definition, guide_of
from editcritic.benchmarks.human_eval.label_sheets import write_question_sheet
from editcritic.benchmarks.human_eval.question_pools import SuitePool
from editcritic.benchmarks.suites.bootstrap import Statistic
from editcritic.benchmarks.suites.dlebench.suite import DleBench
from editcritic.benchmarks.suites.i2ibench.suite import I2IBench
from editcritic.benchmarks.suites.suite import published_figures
from editcritic.benchmarks.web_app.question_view import PictureStore, question_html
from editcritic.reward.metrics.dlebench.conversation import CONSISTENCY, FOLLOWING
from editcritic.reward.metrics.i2ibench.dimensions import DIMENSIONS

from ..suites.dlebench.layout import written as written_dlebench
from ..suites.i2ibench.layout import rows, written
from ..suites.tiny_suite import outputs


def session(folder: Path, kind: str) -> AnnotationSession:
    data = written_dlebench(folder / "data", count=2)
    pool = SuitePool(DleBench(data), dict.fromkeys(("one", "two"), data / "Source_Images"))
    questions = pool.questions([QuestionType.parse(kind)])
    return AnnotationSession(pool, questions, folder / "labels.jsonl", practice_questions=0)


def question_shown(folder: Path, kind: str) -> Any:
    return session(folder, kind).question("ann")


@pytest.mark.parametrize("kind", ["four-level:IF", "four-level:VC", "yes-no:IF", "pair:IF"])
def test_an_edit_is_shown_beside_its_reference(tmp_path: Path, kind: str) -> None:
    shown = question_shown(tmp_path, kind)
    edits = ["left", "right"] if kind == "pair:IF" else ["edited", "reference"]
    assert [picture.role for picture in shown.pictures] == ["source", *edits]
    if "reference" in edits:
        (number,) = [n for n in (0, 1) if f"picture {n} " in shown.instruction]
        with PIL.Image.open(tmp_path / f"data/Reference_Images/{number}_ref.png") as reference:
            assert shown.pictures[-1].image.pixels.tobytes() == reference.convert("RGB").tobytes()


def test_following_counts_what_the_target_should_have_kept_and_consistency_no_light() -> None:
    for kind in ("four-level", "yes-no", "pair"):
        text = dimension_definition(QuestionType(kind, "IF"), "dlebench")
        assert "other changes" not in text
        assert "kept all that the instruction does not name" in text
    assert "other changes" in dimension_definition(QuestionType("yes-no", "IF"), "")
    text = dimension_definition(QuestionType("four-level", "VC"), "dlebench")
    assert "sharpness" not in text
    (sentence,) = [one for one in text.split(". ") if "light" in one]
    assert "do not count" in sentence


@pytest.mark.parametrize(("dimension", "scale"), [("IF", FOLLOWING), ("consistency", CONSISTENCY)])
def test_every_label_is_explained_and_the_steps_lead_to_all_four(tmp_path, dimension, scale):
    shown, store = question_shown(tmp_path, f"four-level:{dimension}"), PictureStore(str(tmp_path))
    _, *rubric = shown.definition.split("\n")
    levels = [f"{label} ({scale.rubric_score(label)}): " for label in scale.labels]
    assert [line[: len(level)] for line, level in zip(rubric, levels, strict=False)] == levels
    steps = "\n".join(rubric[4:])
    assert all(label in steps for label in scale.labels if label != "Flawless Execution")
    assert "<summary>How to decide</summary>" in question_html(shown, "ann", store)
    assert "<summary>" not in question_html(question_shown(tmp_path / "pair", "pair:overall"), "ann", store)


def test_a_sheet_has_the_guide_too(tmp_path: Path) -> None:
    count, problems = write_question_sheet(session(tmp_path, "four-level:VC"), "ann", tmp_path / "sheet")
    assert (count > 0, list(problems)) == (True, [])
    with (tmp_path / "sheet/questions.csv").open(encoding="utf-8-sig", newline="") as file:
        row = next(csv.DictReader(file))
    assert "Scene Collapse (1): " in row["definition"]
    with PIL.Image.open(tmp_path / "sheet" / row["picture"]) as picture:
        assert picture.width == 3 * 64 + 2 * 12


@pytest.fixture
def pool(tmp_path: Path) -> SuitePool:
    suite = I2IBench(written(tmp_path / "data", rows()))
    return SuitePool(suite, {f"e{n}": outputs(tmp_path / f"e{n}", suite) for n in range(5)})


@pytest.mark.parametrize("name", DIMENSIONS)
def test_annotators_read_what_a_dimension_means_and_what_to_look_for_and_to_ignore(name: str, pool: SuitePool) -> None:
    dimension = DIMENSIONS[name]
    keys = pool.questions([QuestionType("pair", "overall")])[0].item_keys
    question = LabelQuestion(QuestionType("pair", name), keys)
    shown: Any = AnnotationSession(pool, [question], pool.editors["e0"] / "labels").question("ann")
    assert all(words in shown.definition for words in (dimension.title, dimension.meaning, *guide_of(dimension)))
    assert "Which of the two is better on this dimension?" in shown.definition.splitlines()[0]


def test_no_two_dimensions_of_a_half_have_one_guide() -> None:
    for multi in (False, True):
        guides = [guide_of(one) for one in DIMENSIONS.values() if one.multi == multi]
        assert len(set(guides)) == len(guides)
    assert guide_of(DIMENSIONS["non-edited-fidelity"]) != guide_of(DIMENSIONS["multi-non-edited-fidelity"])


def test_a_dimension_is_asked_where_a_prompt_has_it(pool: SuitePool) -> None:
    names = {one.item_keys[0][1] for one in pool.questions([QuestionType("pair", "local-attribute")])}
    assert names == {f"{scene}-{name}" for scene in range(3) for name in ("local-editing", "hybrid-editing")}
    assert len(pool.questions([QuestionType("pair", "overall")])) == 30 * 10
    with pytest.raises(InputError, match="there is nothing to ask about text-content-style"):
        pool.questions([QuestionType("pair", "text-content-style")])


def test_items_are_drawn_of_each_dimension_and_of_several_sources_all_editors_are_compared(pool: SuitePool) -> None:
    pool.editors_per_dimension = 4
    for name, pairs in (("object-manipulation", 6), ("multi-spatial-accuracy", 10)):
        questions = pool.questions([QuestionType("pair", name)], items=5)
        assert len({one.item_keys[0][1] for one in questions}) == 5
        assert len(questions) == 5 * pairs  # as 85 items x 6 pairs are the paper's 510


@pytest.mark.parametrize(("half", "mean"), [("single", 0.9425), ("multi", 0.8688)])
def test_the_mean_of_the_correlations_is_that_of_table_3(half: str, mean: float) -> None:
    *values, printed = published_figures("i2ibench")["tables"]["table3_pearson"][half]["ours"]
    assert (len(values), printed) == (15, mean)
    statistics = {f"{number}": Statistic.mean([value], [0], 1) for number, value in enumerate(values)}
    statistics["overall"] = Statistic.mean([-1.0], [0], 1)  # people's whole impression is no dimension
    assert win_correlations(statistics).rows["mean"]["Pearson"].value == pytest.approx(mean, abs=5e-5)
