"""SceneEdit as a suite: every image judged by the metrics and by the truth, which tells how far they agree."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_experts import scene_experts
from editcritic.benchmarks.sceneedit.suite import FOLLOWED, UNCHANGED, SceneEdit, prompt_from_json, prompt_of
from editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation import held_out_prompts
from editcritic.benchmarks.suites.bootstrap import bootstrap_weights
from editcritic.benchmarks.suites.results import ResultRow, Results
from editcritic.benchmarks.suites.suite import SuiteItem
from editcritic.benchmarks.suites.tables import ComputedTable
from editcritic.reward import Engine, Image, Reward, Score, build, spec_of

SUITE = SceneEdit(prompts=9)


def right(item: SuiteItem) -> Image:
    prompt = prompt_of(item.sample)
    assert prompt is not None
    return render(prompt.request.apply(prompt.before))


def source(item: SuiteItem) -> Image:
    return item.sample.source


@cache
def judged(picture: Callable[[SuiteItem], Image]) -> Results:
    samples = [SUITE.edited_sample(item, picture) for item in SUITE.items]
    bound, engine = scene_experts(), Engine()
    scores = {
        name: Reward.of(spec, bound, engine=engine, on_failures="none")(samples)
        for name, spec in SUITE.metrics().items()
    }
    rows = [
        ResultRow(item.id, item.case, item.labels, {name: column[number] for name, column in scores.items()})
        for number, item in enumerate(SUITE.items)
    ]
    return Results("editor", rows)


def leaderboard(results: Results) -> dict[str, float | None]:
    table, *_ = SUITE.tables(results)
    return {column: figure.value for column, figure in table.rows["all"].items()}


def test_its_prompts_are_those_of_the_editors_card() -> None:
    assert [prompt_of(item.sample) for item in SUITE.items] == held_out_prompts(9, 7)
    assert [item.labels["type"] for item in SUITE.items][:2] == ["subject_add", "subject_remove"]


def test_a_scene_and_its_request_come_back_from_json() -> None:
    for item in SceneEdit(prompts=18, size=64).items:
        prompt = prompt_of(item.sample)
        assert prompt is not None
        assert prompt_from_json(item.sample.metadata["sceneedit"]) == prompt
        assert item.sample.source.size == (64, 64)


def test_a_perfect_editor_is_truly_right_and_one_that_does_nothing_is_not() -> None:
    assert leaderboard(judged(right))[FOLLOWED] == 1.0
    assert leaderboard(judged(source))[FOLLOWED] == 0.0
    assert leaderboard(judged(source))[UNCHANGED] == 1.0


def test_metrics_tell_the_two_apart() -> None:
    good, bad = leaderboard(judged(right)), leaderboard(judged(source))
    for name in ("following", "edival-if", "edit-balanced"):
        assert (good[name] or 0) > (bad[name] or 0) + 0.5


def test_agreement_is_with_the_truth() -> None:
    both = [*judged(right).rows, *judged(source).rows]
    upside_down = {True: 0.9, False: 0.1}
    wrong = [
        ResultRow(
            row.id, row.case, row.labels, {**row.scores, "following": Score.of(upside_down[row.value(FOLLOWED) == 0])}
        )
        for row in both
    ]
    agreement = SUITE.tables(Results("wrong", wrong))[-1].rows["following"]
    assert {name: figure.value for name, figure in agreement.items()} == {
        "accuracy": 0.0,
        "false yes": 1.0,
        "false no": 1.0,
        "r, followed": pytest.approx(-1.0),
        "r, unchanged": pytest.approx(agreement["r, unchanged"].value),
    }


def test_a_picture_of_another_size_has_no_truth() -> None:
    sample = SUITE.edited_sample(SUITE.items[0], lambda item: source(item).resized(64, 64))
    (score,) = Reward.of(SUITE.metrics()[FOLLOWED], {})([sample])
    assert score.status == "abstained"
    assert "64 x 64" in score.reason


def test_every_metric_is_built_again_from_its_spec() -> None:
    for spec in SUITE.metrics("official").values():
        metric = build(spec)
        assert build(spec_of(metric)) == metric


def test_every_table_can_be_written() -> None:
    for table in SUITE.tables(judged(right)):
        assert "truth" in ComputedTable.compute(table, bootstrap_weights(9, 20)).markdown()


def test_digests_are_of_what_was_asked() -> None:
    assert SceneEdit(prompts=9).digest == SUITE.digest
    assert SceneEdit(prompts=9, seed=8).digest != SUITE.digest


@pytest.mark.parametrize(
    "wrong", [{"prompts": 0}, {"size": 16}, {"data": "somewhere"}, {"prompts": 10**9}, {"size": 10**5}]
)
def test_what_it_cannot_make_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match="sceneedit"):
        SceneEdit(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="paper, official"):
        SUITE.metrics("other")
