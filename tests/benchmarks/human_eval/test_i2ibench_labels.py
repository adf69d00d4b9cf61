"""Labels of I2I-Bench: what annotators read, which prompts each dimension is asked about, and table 3's means."""

from __future__ import annotations

from pathlib import Path

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.human_eval.annotation_plan import QuestionType
from editcritic.benchmarks.human_eval.annotation_session import AnnotationSession
from editcritic.benchmarks.human_eval.i2ibench_texts import guide_of
from editcritic.benchmarks.human_eval.preference_agreement import win_correlations
from editcritic.benchmarks.human_eval.question_pools import SuitePool
from editcritic.benchmarks.suites.bootstrap import Statistic
from editcritic.benchmarks.suites.i2ibench.suite import I2IBench
from editcritic.benchmarks.suites.suite import published_figures
from editcritic.reward.metrics.i2ibench.dimensions import DIMENSIONS

from ..suites.i2ibench.layout import rows, written
from ..suites.tiny_suite import outputs


@pytest.fixture
def suite(tmp_path: Path) -> I2IBench:
    return I2IBench(written(tmp_path / "data", rows()))


@pytest.fixture
def pool(suite: I2IBench, tmp_path: Path) -> SuitePool:
    return SuitePool(suite, {f"e{n}": outputs(tmp_path / f"e{n}", suite) for n in range(5)})


@pytest.mark.parametrize("name", DIMENSIONS)
def test_annotators_read_what_a_dimension_means_and_what_to_look_for_and_to_ignore(name: str, pool: SuitePool) -> None:
    dimension, guide = DIMENSIONS[name], guide_of(DIMENSIONS[name])
    key = next(iter(pool.suite.items)).id
    question = QuestionType("pair", name)
    about = [one for one in pool.questions([QuestionType("pair", "overall")]) if one.item_keys[0][1] == key][:1]
    session = AnnotationSession(pool, [type(about[0])(question, about[0].item_keys)], pool.editors["e0"] / "labels")
    shown = session.question("ann")
    assert shown is not None
    for words in (dimension.title, dimension.meaning, *guide):
        assert words in shown.definition
    assert "Which of the two is better on this dimension?" in shown.definition.splitlines()[0]


def test_no_two_dimensions_of_a_half_have_one_guide() -> None:
    for multi in (False, True):
        guides = [guide_of(one) for one in DIMENSIONS.values() if one.multi == multi]
        assert len(set(guides)) == len(guides)
    assert guide_of(DIMENSIONS["non-edited-fidelity"]) != guide_of(DIMENSIONS["multi-non-edited-fidelity"])


def test_a_dimension_is_asked_where_a_prompt_has_it(pool: SuitePool) -> None:
    questions = pool.questions([QuestionType("pair", "local-attribute")])
    asked = {one.item_keys[0][1] for one in questions}
    assert asked == {f"{scene}-{name}" for scene in range(3) for name in ("local-editing", "hybrid-editing")}
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
