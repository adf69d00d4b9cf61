"""Specs: an object built from a spec has a spec that builds an equal object."""

import json
import pickle
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from editcritic.reward import Reward, Score, SpecError, build, spec_of
from editcritic.reward.config import read_spec
from editcritic.reward.file_specs import HOSTED, require_trusted
from editcritic.reward.metrics import Gate, Minimum, Threshold, WeightedMean
from editcritic.reward.metrics.guards import NotACopy, NotBlank, SameAspect
from editcritic.reward.queries import specs
from editcritic.reward.queries.specs import entry_point_names, with_names
from editcritic.reward.toml_files import tomllib
from editcritic.reward.trust import trusting

from .. import fakes
from ..fakes import Fake, Rated, Says, Seeded, picture, sample

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REWARDS, EXPERTS = (PROJECT["entry-points"][f"editcritic.{kind}"] for kind in ("rewards", "experts"))
A, B = {"use": "guard-not-a-copy"}, {"use": "guard-same-aspect", "tolerance": 0.1}
MAPS = "editcritic.reward.metrics.calibration"
MAP = {
    "use": f"{MAPS}:CalibrationMap",
    "x": [0.0, 1.0],
    "y": [-1.0, 2.5],
    "goes_in": {"use": f"{MAPS}:CalibrationInput", "metric": "theirs@1"},
    "comes_out": {"use": f"{MAPS}:CalibrationOutput", "unit": "log-odds", "range": [-1.0, 2.5]},
}
# Required options of compositions.
OPTIONS: dict[str, dict[str, Any]] = {
    "weighted-mean": {"parts": {"a": A, "b": B}, "weights": {"b": 2.5}},
    "geometric-mean": {"parts": {"a": A, "b": B}, "on_not_applicable": "whole"},
    "product": {"parts": {"a": A}},
    "minimum": {"parts": {"a": A, "b": {"use": "product", "parts": {"c": B}}}},
    "gate": {"guard": A, "reward": B},
    "threshold": {"metric": A, "threshold": 0.5},
    "fallback": {"first": A, "second": B},
    "calibrated": {"metric": A, "calibration": MAP, "allow_mismatch": True},
}
# Options of experts. Ids of experts with weights are known only where the weights are installed.
EXPERT_OPTIONS: dict[str, dict[str, Any]] = {
    "decision": {"name": "someone/model"},
    "openai": {"model": "m", "base_url": "http://127.0.0.1:1/v1"},
    "served": {"model": "m", "usd_per_million_in": 0.5, "extra": {"top_k": 1}},
    "systemone": {"model": "m", "base_url": "http://127.0.0.1:1/v1", "retries": 0},
    "vlm": {"dtype": "float32", "min_option_mass": 0.5},
    "grounding-dino": {"min_score": 0.2, "joint_batch": 3},
    "judge-reader": {"judge": "vlm", "max_tokens": 99},
}
WITHOUT_WEIGHTS = {
    *("annotated", "changes", "colour", "differences", "lanczos", "no-segmenter", "pixels", "rapidocr", "rules"),
    *("openai", "served", "systemone"),
}
SPECS = {name: {"use": name, **OPTIONS.get(name, {})} for name in REWARDS}
OTHER = """
import json, pickle, sys
reward, samples = pickle.load(sys.stdin.buffer)
print(json.dumps([score.to_json() for score in reward(samples)]))
"""


def toml(value):
    """A value as TOML, tables inline."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items()) + "}"
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, list) else json.dumps(value)


def uses(value):
    """All that plain data of specs builds."""
    if isinstance(value, dict) and "use" in value:
        yield value["use"]
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from uses(item)


def names_only(table):
    """Whether a file may hold it: all that it builds is installed, and named by its entry point."""
    assert not [use for use in uses(table) if ":" in use]
    require_trusted(table, "f.toml")
    assert with_names(table) == table


@pytest.mark.parametrize("name", REWARDS)
def test_every_reward_can_be_written_down_and_built_again(name, tmp_path):
    metric = build(SPECS[name])
    assert metric.card.signature
    table = spec_of(metric)
    names_only(table)
    assert build(table) == metric
    assert build(json.loads(json.dumps(table, allow_nan=False))) == metric
    assert build(pickle.loads(pickle.dumps(table))) == metric
    path = tmp_path / "reward.toml"
    path.write_text("".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in table.items()), encoding="utf-8")
    assert build(read_spec(path)) == metric
    if name not in OPTIONS:
        assert build(name) == metric


@pytest.mark.parametrize("name", EXPERTS)
def test_every_expert_can_be_written_down_and_built_again(name):
    options = EXPERT_OPTIONS.get(name, {})
    expert = build(name, "editcritic.experts", **options)
    with trusting(*(option for option in options.values() if isinstance(option, str)), *HOSTED.values()):
        names_only(spec_of(expert))
    again = build(json.loads(json.dumps(spec_of(expert))), "editcritic.experts")
    assert (type(again), spec_of(again)) == (type(expert), spec_of(expert))
    assert options.items() <= spec_of(expert).items()
    if name in WITHOUT_WEIGHTS:
        assert again.id == expert.id


def test_options_stand_behind_the_name_or_beside_it_and_tables_nest():
    assert build("guard-same-aspect?tolerance=0.5") == SameAspect(0.5)
    assert build({"use": "guard-same-aspect", "tolerance": 0.5}) == SameAspect(0.5)
    assert build("guard-same-aspect", tolerance=0.5) == SameAspect(0.5)
    assert build("guard-same-aspect?tolerance=0.1", tolerance=0.5) == SameAspect(0.5)
    assert build("editcritic.reward.metrics.guards:SameAspect?tolerance=0.5") == SameAspect(0.5)
    assert build("tests.reward.fakes:Rated?prompt=a cup&weights=[2,3]") == Rated("a cup", (2, 3))
    assert build("tests.reward.fakes:Rated?prompt=%7Bx%7D&role=judge.style") == Rated("{x}", role="judge.style")
    assert spec_of(SameAspect()) == {"use": "guard-same-aspect"}
    assert spec_of(NotBlank(min_contrast_ratio=0.5)) == {"use": "guard-not-blank", "min_contrast_ratio": 0.5}
    assert spec_of(Rated(weights=(1.0, 2.0)))["weights"] == [1.0, 2.0]
    assert build(spec_of(Rated(weights=(1.0, 2.0)))) == Rated(weights=(1.0, 2.0))
    assert set(REWARDS) <= set(entry_point_names("editcritic.rewards"))
    assert set(EXPERTS) <= set(entry_point_names("editcritic.experts"))
    table = {
        "use": "gate",
        "guard": {"use": "minimum", "parts": {"a": A, "b": B}},
        "reward": {"use": "weighted-mean", "parts": {"c": {"use": "threshold", "metric": B, "threshold": 1}}},
    }
    expected = Gate(
        Minimum({"a": NotACopy(), "b": SameAspect(0.1)}), WeightedMean({"c": Threshold(SameAspect(0.1), 1)})
    )
    assert build(table) == expected
    assert build(spec_of(expected)) == expected


def test_a_metric_may_be_an_object_or_a_function(monkeypatch):
    monkeypatch.setattr(fakes, "READY", Says(Score.of(1)), raising=False)
    assert build("tests.reward.fakes:READY") is fakes.__dict__["READY"]
    with pytest.raises(SpecError, match=r"READY takes no options, got \['x'\]"):
        build("tests.reward.fakes:READY?x=1")
    assert spec_of(a_metric) == {"use": f"{__name__}:a_metric"}
    assert build(spec_of(a_metric)) is a_metric


def a_metric(sample):
    """A metric that is a function."""
    return Score.of(1)
    yield


a_metric.card = Says(Score.of(1)).card  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("edival-iff", r"unknown reward 'edival-iff': did you mean edival-if"),
        ("edival_cc", "did you mean edival-cc"),
        ("gaurds", "did you mean guards"),
        ("qqq", "unknown reward 'qqq': there are [0-9]+ of them, listed by `editcritic rewards`"),
        ("", "a spec begins with a name"),
        ("guard-same-aspect?tolerence=1", "does not take tolerence: its options are tolerance"),
        ("guards?reeder=false", "its options are aspect_guard, copy_guard, prompt_injection_guard"),
        ("weighted-mean", r"weighted-mean needs parts: give weighted-mean\?parts="),
        ("editcritic.nowhere:X", "cannot find editcritic.nowhere:X: No module named 'editcritic.nowhere'"),
        ("editcritic.reward.metrics.guards:Nothing", "has no attribute 'Nothing'"),
        ("editcritic.reward.metrics.guards:", "cannot find"),
        (":Changed", "cannot find :Changed: expected package.module:Name"),
        (".guards:Changed", "cannot find .guards:Changed"),
        ("editcritic.reward.metrics.new_text:_INJECTION_PATTERN", "is Pattern, which is not callable"),
        ({"name": "guards"}, r"a spec table needs `use`, got only \['name'\]"),
        ({"use": "gate", "guard": A, "reward": {"use": "gaurd-changed"}}, "unknown reward 'gaurd-changed': did you"),
        (SameAspect(), "a spec is a name or a table, got SameAspect"),
        (None, "a spec is a name or a table, got NoneType"),
    ],
)
def test_a_spec_that_cannot_be_built_says_what_is_wrong_with_it(spec, says):
    with pytest.raises(SpecError, match=says):
        build(spec)


def test_what_cannot_be_found_has_no_spec(tmp_path):
    with pytest.raises(SpecError, match="unknown expert 'edival-if': "):
        build("edival-if", "editcritic.experts")

    class Local(Seeded):
        pass

    with pytest.raises(SpecError, match="Local is defined inside a function"):
        spec_of(Local())
    with pytest.raises(SpecError, match="no spec: Fake does not keep its argument 'name' as an attribute"):
        spec_of(Fake())
    with pytest.raises(SpecError, match="no spec"):
        spec_of(lambda sample: None)
    with pytest.raises(SpecError, match="no spec: range does not say its arguments"):
        spec_of(Rated(weights=range(3)))  # type: ignore[arg-type]
    with pytest.raises(SpecError, match=f"cannot read {tmp_path}/nowhere.toml: No such file"):
        read_spec(tmp_path / "nowhere.toml")
    (tmp_path / "odd.toml").write_text("use = ")
    with pytest.raises(SpecError, match=r"odd\.toml is not TOML: Invalid value"):
        read_spec(tmp_path / "odd.toml")


def test_others_ship_rewards_under_a_name(monkeypatch):
    points = [
        EntryPoint("theirs", "tests.reward.fakes:Rated", "editcritic.rewards"),
        EntryPoint("broken", "nowhere.at.all:X", "editcritic.rewards"),
        EntryPoint("moved", "tests.reward.fakes:Gone", "editcritic.rewards"),
    ]
    monkeypatch.setattr(specs, "entry_points", lambda group: points)
    assert build("theirs?prompt=x") == Rated("x")
    with pytest.raises(
        SpecError, match=r"broken is installed, but nowhere\.at\.all:X cannot be loaded: No module named"
    ):
        build("broken")
    with pytest.raises(SpecError, match=r"moved is installed, but tests\.reward\.fakes:Gone cannot be loaded"):
        build("moved")


def test_a_reward_scores_the_same_in_another_process():
    metric = WeightedMean({"a": Rated("a"), "b": Rated("b", (0.5,), "preference.b"), "c": SameAspect()})
    reward = Reward(metric, {"preference": Seeded(1), "preference.b": Seeded(2)}, on_failures="none", max_in_flight=3)
    samples = [sample(str(number), edited=picture(number, 8 + number % 2)) for number in range(10)]
    expected = [score.to_json() for score in reward(samples)]
    assert len({score["value"] for score in expected}) == 10
    for rebuilt in (reward, Reward.of(reward.spec), pickle.loads(pickle.dumps(reward))):
        run = subprocess.run(
            [sys.executable, "-c", OTHER],
            cwd=ROOT,
            input=pickle.dumps((rebuilt, samples)),
            capture_output=True,
            timeout=60,
        )
        assert json.loads(run.stdout) == expected, run.stderr.decode()
