"""Score maps: monotone, clamped, kept in files that are found by name, and told apart by what they say."""

from __future__ import annotations

import json
import os
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward import Reward, Score, SpecError, build, spec_of
from editcritic.reward.metrics import GeometricMean, Threshold, WeightedMean
from editcritic.reward.metrics.calibration import (
    Calibrated,
    CalibrationInput,
    CalibrationMap,
    CalibrationOutput,
    find_calibration,
    installed_calibrations,
    spec_text,
)

from ..fakes import Rated, Says, Seeded, alone, sample

IN = CalibrationInput("rated@1", "share", (0.0, 1.0))
NUMBERS = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))


def made(x=(0.0, 0.5, 1.0), y=(-2.0, 0.0, 1.0), **fields):
    options = {
        "goes_in": IN,
        "comes_out": CalibrationOutput("log-odds", (y[0], y[-1])),
        "provenance": {"count": 40},
        **fields,
    }
    return CalibrationMap(x, y, **options)


@st.composite
def maps(draw):
    x = sorted(draw(st.sets(NUMBERS, min_size=2, max_size=8)))
    y = sorted(draw(st.lists(NUMBERS, min_size=len(x), max_size=len(x))))
    return made(x, y)


@given(by=maps(), values=st.lists(st.floats(-2e6, 2e6), min_size=2))
def test_a_higher_score_is_never_worth_less(by, values):
    worth = [by(value) for value in sorted(values)]
    assert worth == sorted(worth)
    assert by.y[0] <= worth[0]
    assert worth[-1] <= by.y[-1]


@given(by=maps())
def test_knots_are_met_exactly_and_what_lies_beyond_is_clamped(by):
    assert ([by(x) for x in by.x], by(by.x[0] - 1), by(by.x[-1] + 1)) == (list(by.y), by.y[0], by.y[-1])
    assert by.is_extrapolation(by.x[0] - 1)
    assert not by.is_extrapolation(by.x[0])
    assert not by.is_extrapolation(by.x[-1])


def test_knots_meet_straight_lines_within_a_range():
    assert (made()(0.25), made()(0.75)) == (-1.0, 0.5)
    with pytest.raises(ValueError, match="exceeds its range 0 to 1"):
        made(comes_out=CalibrationOutput("share", (0.0, 1.0)))
    with pytest.raises(ValueError, match="finite"):
        made()(float("nan"))


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        *(((0.0,), (0.0,), "at least two"), ((0.0, 1.0), (0.0, 1.0, 2.0), "as many x as y")),
        *(((0.0, 0.0), (0.0, 1.0), "increase"), ((0.0, 1.0), (1.0, 0.0), "must not decrease")),
        ((0.0, float("nan")), (0.0, 1.0), "finite"),
        ((0.0, 0.5, 1.0), (-1e308, 0.0, 1e308), "too far apart"),
        ((-1e308, 1e308), (0.0, 1.0), "too far apart"),
    ],
)
def test_knots_that_are_no_monotone_map_are_refused(x, y, says):
    with pytest.raises(ValueError, match=says):
        made(x, y)


def test_it_comes_back_from_its_file_and_its_digest_is_of_what_it_says(tmp_path):
    by = made(provenance={"count": 40, "held_out": {"map": {"log_loss": 0.5}}})
    by.save(tmp_path / "mine.json")
    again = CalibrationMap.load(tmp_path / "mine.json")
    assert (again, again.digest, again.name) == (by, by.digest, "mine")
    assert (list(tmp_path.iterdir()), made(provenance={}).digest) == ([tmp_path / "mine.json"], made().digest)
    others = [
        made(y=(-2.0, 0.1, 1.0)),
        made(goes_in=CalibrationInput("rated@2")),
        made(comes_out=CalibrationOutput("u", (-2.0, 1.0))),
    ]
    assert len({made().digest, *(other.digest for other in others)}) == 4


def test_a_file_that_was_changed_or_is_no_map_is_refused(tmp_path):
    path = tmp_path / "mine.json"
    made().save(path)
    data = json.loads(path.read_text())
    higher = {**data["comes_out"], "range": [-3.0, 1.0]}
    changes: list[tuple[dict[str, Any], str]] = [
        ({"y": [-3.0, 0.0, 1.0], "comes_out": higher}, "was changed after"),
        *(({"schema": 2}, "reads schema 1"), ({"x": "abc"}, "is not a score map")),
        *(({"more": 1}, "is not a score map"), ({"goes_in": None}, "is not a score map")),
        ({"goes_in": {**data["goes_in"], "metric": ["rated@1"]}}, "expected text, got"),
        ({"goes_in": {**data["goes_in"], "range": ["low", "high"]}}, "expected a number as end of a range, got 'low'"),
        ({"goes_in": {**data["goes_in"], "spec": "[" * 100_000}}, "is not a score map: it holds about 100,000 values"),
        ({"comes_out": {**data["comes_out"], "meaning": 7}}, "expected text, got 7"),
    ]
    for change, says in changes:
        path.write_text(json.dumps({**data, **change}))
        with pytest.raises(SpecError, match=says):
            CalibrationMap.load(path)
    path.write_text("[1, 2")
    with pytest.raises(SpecError, match=r"mine\.json is not a score map"):
        CalibrationMap.load(path)


def test_maps_are_found_by_name_in_the_folders_in_order(tmp_path, monkeypatch):
    first, second, own = (tmp_path / name for name in ("first", "second", "config/editcritic/maps"))
    for folder in (first, second, own):
        folder.mkdir(parents=True)
    monkeypatch.setenv("EDITCRITIC_MAPS", os.pathsep.join(map(str, (first, tmp_path / "not there", second))))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for folder, names in ((first, "a"), (second, "ab"), (own, "abc")):
        for name in names:
            made().save(folder / f"{name}.json")
    assert installed_calibrations() == {"a": first / "a.json", "b": second / "b.json", "c": own / "c.json"}
    assert (find_calibration("b"), find_calibration(str(own / "a.json"))) == (second / "b.json", own / "a.json")
    with pytest.raises(SpecError) as caught:
        CalibrationMap.find("d")
    for text in (str(first), str(own), "available: a, b, c", "EDITCRITIC_MAPS"):
        assert text in str(caught.value)
    with pytest.raises(SpecError, match=r"there is no score map .*d\.json"):
        find_calibration(first / "d.json")


SHARE = CalibrationOutput("share", (0.0, 1.0), "the share of people who say yes")


def map_of(metric="rated@1", x=(0.2, 0.8), y=(0.0, 1.0), out=SHARE, spec=""):
    return CalibrationMap(x, y, CalibrationInput(metric, spec=spec), out, {"count": 40, "kind": "yes-no"}, name="mine")


def score_of(metric):
    return alone(metric(sample()), lambda query: pytest.fail(f"{query} was asked"))


def says(value, signature="says@1"):
    return Says(Score.of(value).with_signature(signature))


def test_the_value_and_the_card_are_the_maps():
    score = score_of(Calibrated(says(0.5), map_of("says@1")))
    assert (score.value, score.parts["metric"].value) == (pytest.approx(0.5), 0.5)
    assert "clamped" not in score.reason
    assert score.metric == f"calibrated@1[says@1, {map_of('says@1').digest[:12]}]"
    card = Calibrated(Rated(), map_of()).card
    assert (card.range, card.unit, card.roles) == ((0.0, 1.0), "share", ("preference",))
    assert "share of people who say yes" in card.summary
    assert "40 human judgements" in card.source


@pytest.mark.parametrize(("value", "worth"), [(0.1, 0.0), (0.95, 1.0)])
def test_what_lies_beyond_the_knots_is_clamped_and_says_so(value, worth):
    score = score_of(Calibrated(says(value), map_of("says@1")))
    assert score.value == worth
    assert "fitted on 0.2 to 0.8" in score.reason
    assert score.evidence[0].numbers == {"score": value, "calibrated": worth, "clamped": 1.0}


@pytest.mark.parametrize(
    "score", [Score.failed("down"), Score.abstained("dark"), Score.not_applicable("no text in it")]
)
def test_what_has_no_value_passes_through(score):
    result = score_of(Calibrated(Says(score), map_of("says@1")))
    assert (result.value, result.status, result.reason) == (None, score.status, score.reason)


def test_a_map_of_another_metric_protocol_or_of_other_parts_is_refused():
    with pytest.raises(SpecError, match="fitted on scores of clip-image@1, and this is rated@1; allow_mismatch=true"):
        Calibrated(Rated(), map_of("clip-image@1"))
    assert Calibrated(Rated(), map_of("clip-image@1"), allow_mismatch=True).card.unit == "share"
    by = map_of("edival-if@3/paper")
    assert Calibrated(build("edival-if"), by).card.range == (0.0, 1.0)
    with pytest.raises(SpecError, match="edival-if@3/official"):
        Calibrated(build("edival-if?protocol=official"), by)
    by = map_of("threshold@1", spec=spec_text(Threshold(Rated(), 0.5)))
    assert Calibrated(Threshold(Rated(), 0.5), by).digest == by.digest
    with pytest.raises(SpecError, match=r"0\.6"):
        Calibrated(Threshold(Rated(), 0.6), by)


def test_a_metric_that_says_its_protocol_only_when_it_scores_fails_where_it_is_another():
    by = map_of("says@1/paper")
    score = score_of(Calibrated(says(0.5, "says@1/official"), by))
    assert score.status == "failed"
    assert "says@1/paper" in score.reason
    assert "says@1/official" in score.reason
    assert score_of(Calibrated(says(0.5, "says@1/paper"), by)).value == pytest.approx(0.5)
    assert score_of(Calibrated(says(0.5, "says@1/official"), by, allow_mismatch=True)).value == pytest.approx(0.5)


def test_a_digest_allows_one_map_alone():
    by = map_of()
    assert Calibrated(Rated(), by, by.digest[:8]).digest == by.digest
    for wrong in ("0" * 64, by.digest[:7]):
        with pytest.raises(SpecError, match="does not begin with"):
            Calibrated(Rated(), by, wrong)
    with pytest.raises(SpecError, match="in quotes"):
        build({"use": "editcritic.reward.metrics.calibration:Calibrated", "metric": "edival-if", "calibration": 7})


def test_its_spec_holds_the_digest_so_that_it_cannot_mean_another_map_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("EDITCRITIC_MAPS", str(tmp_path))
    map_of().save(tmp_path / "mine.json")
    reward = Reward(Calibrated(Rated(), "mine"), {"preference": Seeded()})
    spec = reward.spec
    assert spec["reward"]["digest"] == map_of().digest
    again = pickle.loads(pickle.dumps(reward))
    assert again([sample()]).values == reward([sample()]).values
    map_of(y=(0.0, 0.9)).save(tmp_path / "mine.json")
    with pytest.raises(SpecError, match="does not begin with"):
        Reward.of(spec)


def test_a_map_given_itself_travels_in_the_spec():
    metric = Calibrated(Rated(), map_of())
    again = build(spec_of(metric))
    assert (again, again.calibration_map.provenance) == (metric, {"count": 40, "kind": "yes-no"})


def test_compositions_take_shares_and_means_of_one_scale_only():
    one, other = Calibrated(Rated(), map_of()), Calibrated(Rated("b"), map_of(x=(0.0, 1.0)))
    mean = GeometricMean({"one": one, "other": other})
    (score,) = Reward(mean, {"preference": Seeded()})([sample()])
    assert score.value is not None
    odds = Calibrated(Rated(), map_of(y=(-2.0, 1.5), out=CalibrationOutput("log-odds against labels a", (-2.0, 1.5))))
    with pytest.raises(ValueError, match=r"range -2\.0\.\.1\.5"):
        GeometricMean({"one": one, "odds": odds})
    elsewhere = Calibrated(
        Rated(), map_of(y=(-2.0, 1.5), out=CalibrationOutput("log-odds against labels b", (-2.0, 1.5)))
    )
    with pytest.raises(ValueError, match="different units"):
        WeightedMean({"odds": odds, "elsewhere": elsewhere})
    assert WeightedMean({"odds": odds, "again": odds}).card.range == (-2.0, 1.5)
