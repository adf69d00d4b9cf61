"""Score maps from labels and scores: one scale for judges fitted on the same labels, and word of where it is from."""

import numpy as np
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.human_eval.calibration_fit import CalibrationSource, LabelSet, fit_calibrations
from editcritic.benchmarks.human_eval.label_matching import ScoreLookup
from editcritic.benchmarks.suites.results import ResultRow
from editcritic.reward import Score, build
from editcritic.reward.metrics import WeightedMean
from editcritic.reward.metrics.calibration import Calibrated

from .label_files import make_label, make_labels, results

EDITORS = ("one", "two")
WORTHS = np.random.default_rng(0).normal(0, 1.5, (len(EDITORS), 40))


def scored(name, **values):
    """A row with signed scores; a value with its signature, or None where the judge abstained."""
    scores = {
        metric: (Score.abstained("dark") if value is None else Score.of(value)).with_signature(signature)
        for metric, (value, signature) in values.items()
    }
    return ResultRow(name, name, {}, scores)


def lookup(lost=0, signatures=("edival-if@3/paper[dense]",) * 2):
    """Two judges of the same edits: one from 0 to 1, one from 0 to 100. `lost` edits the second has no score of."""
    all_results = []
    for editor, worths, signature in zip(EDITORS, WORTHS, signatures, strict=True):
        shares = [(1 / (1 + np.exp(-w)), signature) for w in worths]
        grades = [(None if n < lost else 50 + 10 * w + 2 * (w > 0), "judge-quality@2") for n, w in enumerate(worths)]
        both = enumerate(zip(shares, grades, strict=True))
        all_results.append(results(editor, [scored(f"{n}", following=one, quality=two) for n, (one, two) in both]))
    return ScoreLookup(all_results)


def pairs(turned=False, **fields):
    """Which editor is better in each case, by three people who are not always right."""
    rng = np.random.default_rng(7)
    labels = []
    for case, (one, two) in enumerate(WORTHS.T):
        keys = (("one", f"{case}"), ("two", f"{case}"))[:: -1 if turned else 1]
        for number, name in enumerate(("ann", "ben", "cyd")):
            first = rng.random() < 1 / (1 + np.exp(two - one))
            label = "A" if first != turned else "B"
            labels.append(make_label(label, keys, "pair", by=name, minute=number, dimension="overall", **fields))
    return labels


def fitted(labels=None, metrics=("following", "quality"), where=None, **options):
    label_set = LabelSet.select(pairs() if labels is None else labels)
    return fit_calibrations(label_set, CalibrationSource(where or lookup()), list(metrics), **options)


def mean_of(one, other, first="judge-quality"):
    return WeightedMean({"one": Calibrated(build(first), one), "other": Calibrated(build("judge-quality"), other)})


def test_judges_fitted_on_the_same_labels_share_a_scale():
    maps = fitted()
    one, other = maps["following"], maps["quality"]
    assert one.comes_out.unit == other.comes_out.unit == mean_of(one, other, "edival-if?dense=true").card.unit
    rows = lookup().rows.values()
    calibrated = [np.array([by(row.value(name)) for row in rows]) for name, by in maps.items()]
    assert [abs(values.mean()) for values in calibrated] == pytest.approx([0, 0])
    assert np.abs(calibrated[0] - calibrated[1]).mean() < 0.2  # of a spread of 1.5
    fewer = fitted(pairs()[:-3])["quality"]
    assert fewer.comes_out.unit != other.comes_out.unit
    with pytest.raises(ValueError, match="different units"):
        mean_of(fewer, other)


def test_neither_the_order_of_labels_nor_which_was_called_a_matters():
    calibrations = fitted()
    assert fitted(pairs()[::-1]) == fitted(pairs(turned=True)) == calibrations


def test_zero_is_the_mean_of_the_edits_that_all_have():
    maps = fitted(where=lookup(lost=10))
    rows = [row for row in lookup(lost=10).rows.values() if row.value("quality") is not None]
    for name, by in maps.items():
        assert np.mean([by(row.value(name)) for row in rows]) == pytest.approx(0)
        assert by.provenance["reference"] == "the mean of 60 edits"
    assert [maps[name].provenance["num_unscored"] for name in ("quality", "following")] == [30, 0]


def test_maps_fitted_one_by_one_share_a_scale_where_they_have_the_same_edits():
    together = fitted()
    assert {name: fitted(metrics=[name])[name] for name in together} == together
    alone = [fitted(metrics=[name], where=lookup(lost=10))[name].comes_out.unit for name in together]
    assert alone[0] != alone[1]


def test_a_share_is_the_probability_of_being_preferred_to_the_mean_edit():
    odds, share = (fitted(scale=scale)["quality"] for scale in ("log-odds", "share"))
    for value in np.linspace(odds.x[0], odds.x[-1], 37):
        assert share(value) == pytest.approx(1 / (1 + np.exp(-odds(value))), abs=2e-3)
    assert Calibrated(build("judge-quality"), share).card.is_unit_range


def test_provenance_says_where_it_comes_from():
    by = fitted()["quality"]
    expected = {"kind": "pair", "dimension": "overall", "count": 120, "edits": 80, "annotators": 3}
    assert {name: by.provenance[name] for name in expected} == expected
    held_out = by.provenance["held_out"]
    assert held_out["judgements"] == 120
    assert held_out["map"]["log_loss"] < held_out["constant"]["log_loss"]
    assert set(by.provenance["versions"]) == {"editcritic", "numpy", "scipy"}
    assert (by.goes_in.metric, by.goes_in.unit, by.goes_in.range) == ("judge-quality@2", "grade 0-100", (0.0, 100.0))


def test_a_reward_that_is_given_stands_in_the_map():
    assert "edival-if" in fitted(rewards=[build("edival-if?dense=true")])["following"].goes_in.spec
    assert fitted(rewards=[build("edival-if")])["following"].goes_in.spec == ""


@pytest.mark.parametrize(
    ("kind", "answers", "meaning"),
    [
        ("yes-no", ("no", "yes"), "the share of people who say yes about following"),
        ("four-level", (1, 4), "people's mean label about following"),
        ("reference", ("regenerate", "accept"), "the share of people who say accept about following"),
    ],
)
def test_labels_of_one_edit_give_their_own_scale(kind, answers, meaning):
    labels = [
        label
        for editor, worths in zip(EDITORS, WORTHS, strict=True)
        for label in make_labels([answers[int(w > 0.3)] for w in worths], kind, editor=editor)
    ]
    by = fitted(labels)["quality"]
    assert (by.comes_out.unit, by.comes_out.range) == ("share", (0.0, 1.0))
    assert by.comes_out.meaning.startswith(meaning)
    assert (by(30.0), by(70.0)) == (0.0, 1.0)
    with pytest.raises(InputError, match="have a scale of their own"):
        fitted(labels, scale="share")


def test_labels_of_several_kinds_are_not_mixed():
    labels = [*pairs(), make_label("yes", "0", editor="one")]
    assert LabelSet.select(labels, kind="pair").dimension == "overall"
    for some, options, says in (
        (labels, {}, "pair:overall, yes-no:following"),
        (labels, {"dimension": "light"}, "none of them"),
        (pairs(phase="trial"), {}, "the file has none"),
    ):
        with pytest.raises(InputError, match=says):
            LabelSet.select(some, **options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"metrics": ["light"]}, "no row has a score 'light': there are following, quality"),
        ({"labels": pairs()[:9]}, "following: a map needs at least 20 judgements, got 9"),
        ({"labels": [make_label("A", (("x", "0"), ("y", "0")), "pair")] * 30}, "no label matches an edit with scores"),
        ({"where": lookup(signatures=("if@3/paper[dense]", "if@4"))}, r"if@3/paper\[dense\] \(40\) and if@4 \(40\)"),
        ({"where": lookup(signatures=("", ""))}, "have no metric signature"),
    ],
)
def test_what_makes_no_map_is_refused(options, says):
    with pytest.raises(InputError, match=says):
        fitted(**options)
