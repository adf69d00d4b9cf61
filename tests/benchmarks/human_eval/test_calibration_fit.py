"""Score maps from labels and scores: one scale for judges fitted on the same labels, and word of where it is from."""

from dataclasses import replace

import numpy as np
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.human_eval.calibration_fit import CalibrationSource, LabelSet, fit_calibrations
from editcritic.benchmarks.human_eval.label_matching import ScoreLookup
from editcritic.benchmarks.suites.results import ResultRow
from editcritic.reward import Score, build
from editcritic.reward.metrics import WeightedMean
from editcritic.reward.metrics.calibration import Calibrated

from .label_files import make_label, results

EDITORS = ("one", "two")
CASES = 40


def scored(name, **values):
    """A row with signed scores; a value with its signature, or None where the judge abstained."""
    scores = {
        metric: (Score.abstained("dark") if value is None else Score.of(value)).with_signature(signature)
        for metric, (value, signature) in values.items()
    }
    return ResultRow(name, name, {}, scores)


def worths(seed=0):
    return np.random.default_rng(seed).normal(0, 1.5, (len(EDITORS), CASES))


def lookup(lost=0, signature="edival-if@3/paper[dense]"):
    """Two judges of the same edits: one from 0 to 1, one from 0 to 100. `lost` edits the second has no score of."""
    return ScoreLookup(
        [
            results(
                editor,
                [
                    scored(
                        f"{case}",
                        following=(1 / (1 + np.exp(-w)), signature),
                        quality=(None if case < lost else 50 + 10 * w + 2 * (w > 0), "judge-quality@2"),
                    )
                    for case, w in enumerate(row)
                ],
            )
            for editor, row in zip(EDITORS, worths(), strict=True)
        ]
    )


def pairs(turned=False, **fields):
    """Which editor is better in each case, by three people who are not always right."""
    rng = np.random.default_rng(7)
    labels = []
    for case, (one, two) in enumerate(worths().T):
        for number, name in enumerate(("ann", "ben", "cyd")):
            first = rng.random() < 1 / (1 + np.exp(two - one))
            keys = (("one", f"{case}"), ("two", f"{case}"))
            label = "A" if first != turned else "B"
            labels.append(
                make_label(
                    label, keys[::-1] if turned else keys, "pair", by=name, minute=number, dimension="overall", **fields
                )
            )
    return labels


def fitted(labels=None, metrics=("following", "quality"), where=None, **options):
    label_set = LabelSet.select(pairs() if labels is None else labels)
    return fit_calibrations(label_set, CalibrationSource(where or lookup()), list(metrics), **options)


def test_judges_fitted_on_the_same_labels_share_a_scale():
    maps = fitted()
    one, other = maps["following"], maps["quality"]
    assert one.comes_out.unit == other.comes_out.unit
    rows = lookup().rows.values()
    values = {name: [row.value(name) for row in rows] for name in maps}
    calibrated = {name: np.array([maps[name](value) for value in values[name]]) for name in maps}
    assert [abs(values.mean()) for values in calibrated.values()] == pytest.approx([0, 0])
    assert np.abs(calibrated["following"] - calibrated["quality"]).mean() < 0.2  # of a spread of 1.5
    mean = WeightedMean(
        {
            "one": Calibrated(build("edival-if?dense=true"), one),
            "other": Calibrated(build("judge-quality"), other),
        }
    )
    assert mean.card.unit == one.comes_out.unit


def test_maps_of_other_labels_have_another_unit():
    fewer = fitted(pairs()[:-3])
    assert fewer["quality"].comes_out.unit != fitted()["quality"].comes_out.unit
    with pytest.raises(ValueError, match="different units"):
        WeightedMean(
            {
                "one": Calibrated(build("judge-quality"), fewer["quality"]),
                "other": Calibrated(build("judge-quality"), fitted()["quality"]),
            }
        )


def test_neither_the_order_of_labels_nor_which_was_called_a_matters():
    calibrations = fitted()
    assert fitted(pairs()[::-1]) == calibrations
    assert fitted(pairs(turned=True)) == calibrations


def test_zero_is_the_mean_of_the_edits_that_all_have():
    maps = fitted(where=lookup(lost=10))
    rows = [row for row in lookup(lost=10).rows.values() if row.value("quality") is not None]
    for name, by in maps.items():
        assert np.mean([by(row.value(name)) for row in rows]) == pytest.approx(0)
        assert by.provenance["reference"] == "the mean of 60 edits"
    assert maps["quality"].provenance["num_unscored"] == 30
    assert maps["following"].provenance["num_unscored"] == 0


def test_maps_fitted_one_by_one_share_a_scale_where_they_have_the_same_edits():
    together = fitted()
    for name, by in together.items():
        assert fitted(metrics=[name])[name] == by
    missing = lookup(lost=10)
    alone = [fitted(metrics=[name], where=missing)[name].comes_out.unit for name in together]
    assert alone[0] != alone[1]


def test_a_share_is_the_probability_of_being_preferred_to_the_mean_edit():
    odds, share = (fitted(scale=scale)["quality"] for scale in ("log-odds", "share"))
    for value in np.linspace(odds.x[0], odds.x[-1], 37):
        assert share(value) == pytest.approx(1 / (1 + np.exp(-odds(value))), abs=2e-3)
    assert Calibrated(build("judge-quality"), share).card.is_unit_range


def test_provenance_says_where_it_comes_from():
    by = fitted()["quality"]
    provenance = by.provenance
    assert (
        provenance["kind"],
        provenance["dimension"],
        provenance["count"],
        provenance["edits"],
        provenance["annotators"],
    ) == (
        "pair",
        "overall",
        120,
        80,
        3,
    )
    assert provenance["held_out"]["judgements"] == 120
    assert provenance["held_out"]["map"]["log_loss"] < provenance["held_out"]["constant"]["log_loss"]
    assert set(provenance["versions"]) == {"editcritic", "numpy", "scipy"}
    assert (by.goes_in.metric, by.goes_in.unit, by.goes_in.range) == ("judge-quality@2", "grade 0-100", (0.0, 100.0))


def test_a_reward_that_is_given_stands_in_the_map():
    metric = build("edival-if?dense=true")
    assert "edival-if" in fitted(rewards=[metric])["following"].goes_in.spec
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
        make_label(answers[int(w > 0.3)], f"{case}", kind, editor=editor)
        for editor, row in zip(EDITORS, worths(), strict=True)
        for case, w in enumerate(row)
    ]
    by = fitted(labels)["quality"]
    assert (by.comes_out.unit, by.comes_out.range) == ("share", (0.0, 1.0))
    assert by.comes_out.meaning.startswith(meaning)
    assert (by(30.0), by(70.0)) == (0.0, 1.0)
    with pytest.raises(InputError, match="have a scale of their own"):
        fitted(labels, scale="share")


def test_labels_of_several_kinds_are_not_mixed():
    labels = [*pairs(), make_label("yes", "0", editor="one")]
    with pytest.raises(InputError, match="pair:overall, yes-no:following"):
        LabelSet.select(labels)
    assert LabelSet.select(labels, kind="pair").dimension == "overall"
    with pytest.raises(InputError, match="none of them"):
        LabelSet.select(labels, dimension="light")
    trial = [replace_phase(label) for label in pairs()]
    with pytest.raises(InputError, match="the file has none"):
        LabelSet.select(trial)


def replace_phase(label):
    return label.model_copy(update={"phase": "trial"})


def test_what_makes_no_map_is_refused():
    with pytest.raises(InputError, match="no row has a score 'light': there are following, quality"):
        fitted(metrics=["light"])
    with pytest.raises(InputError, match="following: a map needs at least 20 judgements, got 9"):
        fitted(pairs()[:9])
    elsewhere = [make_label("A", (("x", "0"), ("y", "0")), "pair") for _ in range(30)]
    with pytest.raises(InputError, match="no label matches an edit with scores"):
        fitted(elsewhere)
    mixed = ScoreLookup([lookup().results[0], replace(lookup(signature="edival-if@3/official").results[1])])
    with pytest.raises(InputError, match=r"edival-if@3/paper\[dense\] \(40\) and edival-if@3/official \(40\)"):
        fitted(where=mixed)
    with pytest.raises(InputError, match="have no metric signature"):
        fitted(where=lookup(signature=""))
