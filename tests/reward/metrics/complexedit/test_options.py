"""Options: what is refused, how a metric signs, and that it can be written down and built again."""

import json

import pytest

from editcritic.benchmarks.suites.suite import published_figures
from editcritic.reward import Card, spec_of
from editcritic.reward.config import build
from editcritic.reward.metrics.complexedit.alignment import ComplexEditInstructionFollowing, IdentityPreservation
from editcritic.reward.metrics.complexedit.options import MODES
from editcritic.reward.metrics.complexedit.overall import ComplexEditOverall
from editcritic.reward.metrics.complexedit.quality import PerceptualQuality

from .scripted_judges import Heard, edit, scored, words

ALL = [ComplexEditInstructionFollowing, IdentityPreservation, PerceptualQuality, ComplexEditOverall]


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"mode": "guess"}, "unknown mode 'guess': complex-edit-.* has numeric, token_probability, expected"),
        ({"n": 0}, "needs n >= 1"),
        ({"max_replacements": -1}, "max_replacements >= 0"),
        ({"seed": -1}, "seed >= 0"),
        ({"n": 999}, r"1000 draws per seed, got n \+ max_replacements = 1001: lower n"),
        ({"mode": "expected", "n": 5}, "sends one query in mode expected, got n=5: leave it out"),
        (
            {"mode": "token_probability", "seed": 5, "max_replacements": 1},
            "got seed=5, max_replacements=1: leave it out",
        ),
        ({"sampling": "greedy"}, "unknown sampling 'greedy'"),
        ({"sampling": "deterministic", "n": 3}, "one query by deterministic sampling, got n=3: leave it out"),
        ({"sampling": "deterministic", "mode": "expected"}, "in mode numeric only"),
        ({"mode": "expected", "reasoning": True}, "no reasoning in mode expected"),
        ({"mode": "token_probability", "rubric": False}, "no rubric in mode token_probability"),
        ({"prompts": "/nowhere/to/be/found"}, "is not a folder"),
    ],
)
def test_options_that_mean_nothing_are_refused(metric, options, says):
    with pytest.raises(ValueError, match=says):
        metric(**options)


def test_operations_and_instruction_are_refused_where_nobody_is_told_them():
    with pytest.raises(ValueError, match="operations=listed in mode numeric with reasoning only"):
        ComplexEditInstructionFollowing("expected", operations="listed")
    with pytest.raises(ValueError, match="operations=listed in mode numeric with reasoning only"):
        IdentityPreservation(reasoning=False, operations="listed")
    with pytest.raises(ValueError, match="no instruction in mode token_probability"):
        PerceptualQuality("token_probability", instruction=True)


def test_an_unknown_mean_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match="unknown mean 'harmonic': complex-edit-o has arithmetic, geometric"):
        ComplexEditOverall(mean="harmonic")  # type: ignore[arg-type]


@pytest.mark.parametrize(("metric", "short"), [*zip(ALL, ("if", "ip", "pq", "o"), strict=True)])
def test_the_signature_names_mode_options_and_prompts(metric, short, tmp_path):
    short = f"complex-edit-{short}@{metric.card.version}"
    assert metric().signature == f"{short}/numeric"
    assert metric("expected").signature == f"{short}/expected"
    assert metric(n=5, max_replacements=0).signature == f"{short}/numeric[n=5, max_replacements=0]"
    (tmp_path / "quality.txt").write_text("How good?", encoding="utf-8")
    packed = metric(prompts=str(tmp_path)).signature
    (tmp_path / "quality.txt").write_text("How well?", encoding="utf-8")
    assert packed.startswith(f"{short}/numeric[prompts=")
    assert metric(prompts=str(tmp_path)).signature != packed


@pytest.mark.parametrize("metric", ALL)
def test_a_metric_can_be_written_down_and_built_again(metric):
    for made in (metric(), metric("expected"), metric(n=3, seed=2, max_replacements=1)):
        assert build(json.loads(json.dumps(spec_of(made)))) == made


def test_a_pack_changes_the_words_of_every_metric(tmp_path):
    (tmp_path / "rubric_following.txt").write_text("Follow or fail.", encoding="utf-8")
    (tmp_path / "quality.txt").write_text("How good is it? {rubric}", encoding="utf-8")
    judge = Heard()
    scored(ComplexEditOverall(n=1, prompts=str(tmp_path)), judge, edit())
    prompts = {query.topic: words(query) for query in judge.queries}
    assert "Follow or fail." in prompts["complexedit/alignment"]
    assert prompts["complexedit/quality"].startswith("How good is it? The scale of perceptual quality")


@pytest.mark.parametrize(
    ("metric", "aspect"), [*zip(ALL, ("following", "consistency", "quality", "overall"), strict=True)]
)
def test_cards_say_what_there_is(metric, aspect):
    card = metric.card
    assert (card.range, card.unit, card.aspect, card.modes) == ((0.0, 10.0), "grade 0-10", aspect, MODES)
    assert card.roles == ("judge",)
    assert card.failure_modes
    assert "section" in card.source


def test_cards_quote_the_correlations_of_the_published_table():
    table = published_figures("complexedit")["tables"]
    rows = table["table2_scoring_methods"]
    for place, metric in enumerate(ALL[:3]):
        card: Card = metric.card  # type: ignore[attr-defined]
        for row in ("numeric_rubric", "numeric_rubric_cot", "token_probability"):
            assert f"{rows[row][place]:.3f}" in card.source
    for value in table["metaeval_pairwise_correlation"]["overall_mean"].values():
        assert f"{value:.3f}" in ComplexEditOverall.card.source
