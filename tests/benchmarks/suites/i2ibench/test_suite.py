"""I2I-Bench end to end: prompts on disk, outputs by id, the dimensions of each prompt, the paper's tables."""

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.run.suite_loading import load_suite
from editcritic.benchmarks.suites.i2ibench.reader import CATEGORIES
from editcritic.benchmarks.suites.i2ibench.suite import I2IBench
from editcritic.benchmarks.suites.results import load_results
from editcritic.reward import build

from ..table_values import values
from ..tiny_suite import outputs
from .layout import SCENES, judged, row, rows, sure, written


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return written(tmp_path_factory.mktemp("i2ibench") / "data", rows())


def says(topic: str, instruction: str) -> float:
    """Half sure of levels, sure of operations of the first scene only."""
    return 0.6 if "follow" in topic or "level" in topic else float(instruction.endswith("0"))


@pytest.fixture(scope="module")
def scored(data):
    suite = I2IBench(data)
    return suite, judged(suite, outputs(data.parent / "out", suite), sure(says))


def test_each_prompt_is_judged_in_its_own_dimensions(scored):
    suite, results = scored
    assert (suite.cases, len(suite.items)) == (("0", "1", "2"), 30), "intervals are over scenes"
    metrics_by_item = {row.id: set(row.scores) for row in results.rows}
    assert metrics_by_item["0-local-editing"] == {"instruction-following", "local-attribute"}
    assert metrics_by_item["1-combination-reasoning"] == {"multi-world-knowledge"}
    assert all(score.status == "scored" for row in results.rows for score in row.scores.values())


def test_questions_that_dimensions_share_are_asked_once(data, tmp_path):
    suite, judge = I2IBench(data, half="single"), sure(says)
    judged(suite, outputs(tmp_path / "out", suite), judge)
    followed = SCENES * 5
    two_levels = SCENES * 3  # hybrid editing asks the same question for two dimensions
    assert len(judge.queries) == followed + two_levels + SCENES
    suite, judge = I2IBench(data, half="single"), sure(lambda *_: 1.0)
    judged(suite, outputs(tmp_path / "out", suite), judge, "judge-only")
    # Instruction Following is a level of its own
    assert {query.topic for query in judge.queries} == {"i2i/level", "i2i/following"}
    assert build(suite.metrics("judge-only")["local-attribute"]).signature.endswith("[judge_only]")


def test_overall_is_over_all_scores_and_leaves_out_what_the_paper_has_no_column_for(scored):
    suite, results = scored
    single, multi = (values(suite, results, half)["all"] for half in ("single", "multi"))
    assert single["Object-Manipulation"] == pytest.approx(1 / 3)
    assert single["Overall"] == pytest.approx((15 * 0.6 + 15 / 3) / 30)
    assert multi["Editing-Artifacts"] == pytest.approx(1 / 3)
    assert multi["Overall"] == pytest.approx((12 * 0.6 + 9 / 3) / 21)
    assert values(suite, results, "leaderboard")["all"] == {"Single": single["Overall"], "Multi": multi["Overall"]}


def test_success_is_from_one_half_on(data, tmp_path):
    suite = I2IBench(data)
    judge = sure(lambda topic, instruction: 0.5 if "0" in instruction else 0.49)
    results = judged(suite, outputs(tmp_path / "out", suite), judge)
    assert values(suite, results, "success") == {
        "single": dict.fromkeys(("Local-Attribute", "Object-Manipulation", "World-Knowledge"), pytest.approx(100 / 3)),
        "multi": dict.fromkeys(("Spatial-Accuracy", "World-Knowledge"), pytest.approx(100 / 3)),
    }


def test_categories_and_halves_stand_side_by_side(scored):
    suite, results = scored
    by_category = values(suite, results, "categories-multi")
    assert list(by_category) == [one.title for one in CATEGORIES.values() if one.multi]
    third = pytest.approx(1 / 3)
    assert by_category["Combination + Reasoning"] == {"World-Knowledge": third, "Overall": third}
    against = values(suite, results, "single-multi")
    assert against["multi − single"] == {"Instruction-Following": pytest.approx(0), "World-Knowledge": pytest.approx(0)}


def test_a_missing_picture_counts_in_every_dimension_it_would_have_been_judged_in(data, tmp_path):
    suite = I2IBench(data)
    folder = outputs(tmp_path / "out", suite)
    (folder / "0-local-editing.png").unlink()
    table = suite.tables(judged(suite, folder, sure(says)))[1]
    assert {name: figure.num_missing for name, figure in table.rows["all"].items()} == {
        "Instruction-Following": 1,
        "Local-Attribute": 1,
        "Object-Manipulation": 0,
        "World-Knowledge": 0,
        "Overall": 2,
    }
    assert table.rows["all"]["Overall"].count == 28


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"dimensions": ["local-attribut"]}, "unknown dimension of one source 'local-attribut'"),
        ({"dimensions": ["subject-extraction"]}, "unknown dimension of one source 'subject-extraction'"),
        ({"dimensions": ["text-content-style"]}, "needs target_text"),
        ({"dimensions": []}, "lacks dimensions"),
        ({"dimensions": "all"}, "a list of names"),
        ({"category": "painting"}, "unknown category 'painting'"),
        ({"category": "basic-combination"}, "several sources"),
        ({"sources": ["nowhere.png"]}, "there is no image"),
        ({"id": "a/b"}, "is not a file name"),
        ({"id": "1-local-editing"}, "make it unique"),
        ("no object", "is str"),
    ],
)
def test_a_line_that_cannot_be_used_is_a_problem_and_the_others_are_there(tmp_path, change, why):
    wrong = {**row(0, "local-editing"), **change} if isinstance(change, dict) else change
    suite = I2IBench(written(tmp_path / "data", [row(1, "local-editing"), wrong]))
    assert [item.id for item in suite.items] == ["1-local-editing"]
    (problem,) = suite.problems
    assert problem.location.endswith("prompts.jsonl:2")
    assert why in problem.message


def test_what_there_is_nothing_of_is_refused(tmp_path):
    data = written(tmp_path / "data", [row(0, "local-editing")])
    for make, message in (
        (lambda: I2IBench(tmp_path), "build i2ibench"),
        (lambda: I2IBench(data, half="multi"), "the half multi"),
        (lambda: I2IBench(data).metrics("official"), "judge-only"),
        (lambda: I2IBench(data, prompts=str(tmp_path / "nowhere")), "not a folder"),
    ):
        with pytest.raises(InputError, match=message):
            make()


def test_digests_are_of_prompts_and_pictures_and_packs_are_named_by_theirs(data, every, tmp_path):
    same = written(tmp_path / "same", rows())
    other = written(tmp_path / "other", [{**line, "instruction": "Do nothing"} for line in rows()])
    assert I2IBench(data).digest == I2IBench(same).digest != I2IBench(other).digest
    (tmp_path / "answer.txt").write_text("Say it.", encoding="utf-8")
    suite = I2IBench(data, prompts=str(tmp_path))
    signature = build(suite.metrics()["instruction-following"]).signature
    assert f"prompts={suite.options['prompts']}" in signature
    loaded = load_suite("i2ibench?consistency=five_levels&half=multi", every)
    judged(loaded, outputs(tmp_path / "out", loaded), sure(says), out=tmp_path / "results")
    options = load_results(tmp_path / "results").provenance["suite_options"]
    assert options == {"consistency": "five_levels", "half": "multi"}


EVERY = {
    "text-rendering": ["text-content-style", "blending-naturalness", "image-quality", "physical-plausibility"],
    "basic-combination": ["non-edited-fidelity", "cross-source-attribute", "inter-subject-consistency"],
    "combination-text-rendering": ["text-content-style", "aesthetic-quality"],
}
VIEWED = ("physical-plausibility", "multi-cross-source-attribute", "multi-inter-subject-consistency")
OPTIONS = [
    ("content=part", {"text-content-style": "content=part", "multi-text-content-style": "content=part"}),
    ("letters=exact", {"text-content-style": "letters=exact", "multi-text-content-style": "letters=exact"}),
    ("inverted=true", {"multi-non-edited-fidelity": "inverted=True"}),
    ("shown_images=edited", {"blending-naturalness": "shown_images=edited"}),
    ("transfer=two_levels", {"multi-cross-source-attribute": "protocol=two_levels"}),
    ("consistency=five_levels", {"multi-inter-subject-consistency": "protocol=five_levels"}),
    ("quality_scale=[1,10]", {"image-quality": "scale=(1, 10)"}),
    ("aesthetics_scale=[0,10]", {"multi-aesthetic-quality": "scale=(0, 10)"}),
    ("answering_view=edited", dict.fromkeys(VIEWED, "answering_view=edited")),
]


@pytest.fixture
def every(tmp_path):
    lines = [{**one, "dimensions": EVERY[one["category"]]} for one in rows() if one["category"] in EVERY]
    return written(tmp_path / "every", lines)


@pytest.mark.parametrize(("option", "changed"), OPTIONS)
def test_variants_of_the_paper_are_options_of_the_suite(every, option, changed):
    plain, suite = load_suite("i2ibench", every), load_suite(f"i2ibench?{option}", every)
    for name, spec in suite.metrics().items():
        signature = build(plain.metrics()[name]).signature
        assert build(spec).signature == (f"{signature}[{changed[name]}]" if name in changed else signature)
    assert suite.options.keys() == {option.partition("=")[0]}
    assert suite.digest == plain.digest
    with pytest.raises(InputError, match="judge-only asks for a level alone: leave"):
        suite.metrics("judge-only")


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("content=some", "no content 'some': there are whole, part"),
        ("transfer=five_levels", "has no protocol 'five_levels': there are questions, two_levels"),
        ("quality_scale=[5,1]", "scale must be the lowest and the highest rating"),
        ("half=single&inverted=true", "inverted is for multi-non-edited-fidelity: no prompt has them"),
    ],
)
def test_options_that_metrics_do_not_have_are_refused(every, option, reason):
    with pytest.raises(InputError, match=reason):
        load_suite(f"i2ibench?{option}", every)
