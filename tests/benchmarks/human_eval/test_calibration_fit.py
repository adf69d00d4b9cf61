"""Score maps from labels and scores: one scale for judges fitted on the same labels, and word of where it is from."""

from dataclasses import replace

import numpy as np
import pytest

from editcritic.benchmarks.inputs import InputError
from editcritic.benchmarks.people.meeting import Meeting
from editcritic.benchmarks.people.score_maps import Asked, Source, fit_maps
from editcritic.benchmarks.suites.results import Row
from editcritic.reward import Score, WeightedMean, build
from editcritic.reward.mapped import Mapped

from .made import results, said

EDITORS = ("one", "two")
CASES = 40


def scored(name, **values):
    """A row with signed scores; a value with its signature, or None where the judge abstained."""
    scores = {
        metric: (Score.abstained("dark") if value is None else Score.of(value)).by(signature)
        for metric, (value, signature) in values.items()
    }
    return Row(name, name, {}, scores)


def worths(seed=0):
    return np.random.default_rng(seed).normal(0, 1.5, (len(EDITORS), CASES))


def meeting(lost=0, signature="edival-if@1/paper[dense]"):
    """Two judges of the same edits: one from 0 to 1, one from 0 to 100. `lost` edits the second has no score of."""
    return Meeting(
        [
            results(
                editor,
                [
                    scored(
                        f"{case}",
                        following=(1 / (1 + np.exp(-w)), signature),
                        quality=(None if case < lost else 50 + 10 * w + 2 * (w > 0), "judge-quality@1"),
                    )
                    for case, w in enumerate(row)
                ],
            )
            for editor, row in zip(EDITORS, worths(), strict=True)
        ]
    )


def pairs(turned=False, **fields):
    """Which editor is better in each case, by three people who are not always right."""
    chance = np.random.default_rng(7)
    found = []
    for case, (one, two) in enumerate(worths().T):
        for number, name in enumerate(("ann", "ben", "cyd")):
            first = chance.random() < 1 / (1 + np.exp(two - one))
            on = (("one", f"{case}"), ("two", f"{case}"))
            label = "A" if first != turned else "B"
            found.append(
                said(label, on[::-1] if turned else on, "pair", by=name, minute=number, dimension="overall", **fields)
            )
    return found


def fitted(labels=None, metrics=("following", "quality"), where=None, **options):
    asked = Asked.of(pairs() if labels is None else labels)
    return fit_maps(asked, Source(where or meeting()), list(metrics), **options)


def test_judges_fitted_on_the_same_labels_share_a_scale():
    maps = fitted()
    one, other = maps["following"], maps["quality"]
    assert one.comes_out.unit == other.comes_out.unit
    rows = meeting().rows.values()
    values = {name: [row.value(name) for row in rows] for name in maps}
    worth = {name: np.array([maps[name](value) for value in values[name]]) for name in maps}
    assert [abs(found.mean()) for found in worth.values()] == pytest.approx([0, 0])
    assert np.abs(worth["following"] - worth["quality"]).mean() < 0.2  # of a spread of 1.5
    mean = WeightedMean(
        {
            "one": Mapped(build("edival-if?dense=true"), one),
            "other": Mapped(build("judge-quality"), other),
        }
    )
    assert mean.card.unit == one.comes_out.unit


def test_maps_of_other_labels_have_another_unit():
    fewer = fitted(pairs()[:-3])
    assert fewer["quality"].comes_out.unit != fitted()["quality"].comes_out.unit
    with pytest.raises(ValueError, match="different units"):
        WeightedMean(
            {
                "one": Mapped(build("judge-quality"), fewer["quality"]),
                "other": Mapped(build("judge-quality"), fitted()["quality"]),
            }
        )


def test_neither_the_order_of_labels_nor_which_was_called_a_matters():
    found = fitted()
    assert fitted(pairs()[::-1]) == found
    assert fitted(pairs(turned=True)) == found


def test_zero_is_the_mean_of_the_edits_that_all_have():
    maps = fitted(where=meeting(lost=10))
    rows = [row for row in meeting(lost=10).rows.values() if row.value("quality") is not None]
    for name, by in maps.items():
        assert np.mean([by(row.value(name)) for row in rows]) == pytest.approx(0)
        assert by.provenance["zero"] == "the mean of 60 edits"
    assert maps["quality"].provenance["not_scored"] == 30
    assert maps["following"].provenance["not_scored"] == 0


def test_maps_fitted_one_by_one_share_a_scale_where_they_have_the_same_edits():
    together = fitted()
    for name, by in together.items():
        assert fitted(metrics=[name])[name] == by
    missing = meeting(lost=10)
    alone = [fitted(metrics=[name], where=missing)[name].comes_out.unit for name in together]
    assert alone[0] != alone[1]


def test_a_share_is_the_probability_of_being_preferred_to_the_mean_edit():
    odds, share = (fitted(scale=scale)["quality"] for scale in ("log-odds", "share"))
    for value in np.linspace(odds.x[0], odds.x[-1], 37):
        assert share(value) == pytest.approx(1 / (1 + np.exp(-odds(value))), abs=2e-3)
    assert Mapped(build("judge-quality"), share).card.is_share


def test_provenance_says_where_it_comes_from():
    by = fitted()["quality"]
    told = by.provenance
    assert (told["kind"], told["dimension"], told["count"], told["edits"], told["annotators"]) == (
        "pair",
        "overall",
        120,
        80,
        3,
    )
    assert told["held_out"]["judgements"] == 120
    assert told["held_out"]["map"]["log_loss"] < told["held_out"]["constant"]["log_loss"]
    assert set(told["versions"]) == {"editcritic", "numpy", "scipy"}
    assert (by.goes_in.metric, by.goes_in.unit, by.goes_in.range) == ("judge-quality@1", "grade 0-100", (0.0, 100.0))


def test_a_reward_that_is_given_stands_in_the_map():
    metric = build("edival-if?dense=true")
    assert "InstructionFollowing" in fitted(rewards=[metric])["following"].goes_in.spec
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
        said(answers[int(w > 0.3)], f"{case}", kind, editor=editor)
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
    labels = [*pairs(), said("yes", "0", editor="one")]
    with pytest.raises(InputError, match="pair:overall, yes-no:following"):
        Asked.of(labels)
    assert Asked.of(labels, kind="pair").dimension == "overall"
    with pytest.raises(InputError, match="none of them"):
        Asked.of(labels, dimension="light")
    trial = [replace_phase(label) for label in pairs()]
    with pytest.raises(InputError, match="there are none"):
        Asked.of(trial)


def replace_phase(label):
    return label.model_copy(update={"phase": "trial"})


def test_what_makes_no_map_is_refused():
    with pytest.raises(InputError, match="no row has a score 'light': there are following, quality"):
        fitted(metrics=["light"])
    with pytest.raises(InputError, match="following: a map takes 20 judgements at least, and there are 9"):
        fitted(pairs()[:9])
    elsewhere = [said("A", (("x", "0"), ("y", "0")), "pair") for _ in range(30)]
    with pytest.raises(InputError, match="no label is about an edit that has scores"):
        fitted(elsewhere)
    mixed = Meeting([meeting().results[0], replace(meeting(signature="edival-if@1/official").results[1])])
    with pytest.raises(InputError, match=r"edival-if@1/paper\[dense\] \(40\) and edival-if@1/official \(40\)"):
        fitted(where=mixed)
    with pytest.raises(InputError, match="do not say which metric"):
        fitted(where=meeting(signature=""))
