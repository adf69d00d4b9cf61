"""What specs from files may name, and that ours name nothing but what is installed."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, get_args

import pytest

import editcritic.benchmarks.sceneedit
import editcritic.benchmarks.suites
import editcritic.reward
import editcritic.verifiers
from editcritic.benchmarks.run.suite_loading import load_suite
from editcritic.reward import Expert, SpecError, build, spec_of
from editcritic.reward.experts import openai_judge
from editcritic.reward.experts.judging.endpoint_expert import OPENAI
from editcritic.reward.experts.loading.model_registry import bundles
from editcritic.reward.file_specs import ADDRESSES, HOSTED, PLAIN, require_trusted
from editcritic.reward.queries.specs import (
    Group,
    entry_point_names,
    find_target,
    import_path,
    parameters,
    registered,
    spec_name,
)
from editcritic.reward.trust import trusting

from ..benchmarks.run.all_suites import SUITES, recipe, write
from .queries.test_specs import names_only

JUDGE = {"use": "openai", "model": "m", "base_url": "http://127.0.0.1:8000/v1"}
OURS = (editcritic.reward, editcritic.verifiers, editcritic.benchmarks.suites, editcritic.benchmarks.sceneedit)
"""The packages whose objects specs are written of."""
NO_SPECS = {
    *("Metric", "PairwiseMetric", "PerceptiveExpert"),  # protocols, and a base of classes
    *("Reward", "BaseReward", "ResampledMetric", "SelectionRun"),  # never options of a spec
    *("CachingExpert", "MonitoredReward", "FaultyJudge"),  # hold what they were built with
}
CHECKED = {
    "annotations": "a path",
    "api_key_env": "the name of an environment variable",
    "base": "a folder or a model on the hub",
    "base_url": "an address",
    "calibration": "a path, or the name of a map in the user's own folders",
    "data": "a path; what is typed or recorded beside the spec takes its place",
    "extra": "fields of requests to a server that is trusted",
    "images": "a path",
    "judge": "a spec",
    "lora": "a folder or a model on the hub",
    "recogniser": "a path",
    "name": "a folder or a model on the hub; of compositions a title",
    "prompts": "a path",
    "real_esrgan": "a path",
    "swin2sr": "a folder or a model on the hub",
    "template": "a path",
    "trust_remote_code": "code of a model",
}
"""Options that act, hold specs, or are names of files: `require_trusted` sees by themselves what their texts are."""
PARTS = {
    *("aspect_guard", "comes_out", "comparison", "consistency", "copy_guard", "expert", "feedback", "first"),
    *("following", "goes_in", "otherwise", "region"),
    *("guard", "metric", "parts", "preservation", "provenance", "quality", "reward", "second", "spec"),
    "verifier",
}
"""Options that are tables: their contents are seen one by one."""
NUMBERS = (
    *("int", "float", "bool", "bool | None", "int | None", "float | None", "Sequence[float]", "Sequence[float] | None"),
    "ValueRange",
)


@pytest.mark.parametrize(
    ("spec", "named", "typed"),
    [
        ("os:system", "the module os", "os"),
        ({"use": "os.path:join"}, "the module os.path (at use)", "os.path"),
        ({"use": "os:system?x=1"}, None, None),  # no name: it is looked up as it stands, and is none
        ({"a": [{"b": {"use": "os:system"}}]}, "the module os (at a.b.use)", "os"),
        ({"use": "editcritic.reward.config:build"}, "the module editcritic.reward.config (at use)", None),
        ({"use": "artimuse", "judge": "os:system"}, "the module os (at judge)", "os"),
        ('artimuse?judge="os:system"', "the module os (at judge)", "os"),
        ('artimuse?judge={"use":"os:system"}', "the module os (at judge.use)", "os"),
        # What stands after an expert's name is what it is built with: a folder, or the spec of the judge that it asks.
        ("artimuse:os:system", "the module os", "os"),
        ({"reader": "judge-reader:q-insight:os:system"}, "the module os (at reader)", "os"),
        ("judge-reader:openai:gpt-4o", "the address https://api.openai.com/v1, since", "https://api.openai.com/v1"),
        ("judge-reader:openai:http://a.b/v1", "the address http://a.b/v1", "http://a.b/v1"),
        ('calibrated?calibration=x&metric={"use":"os:system"}', "the module os (at metric.use)", "os"),
        ({"experts": "small judge=os:system"}, "the module os (at experts.judge)", "os"),
        ({"experts": "small os:environ"}, "the module os (at experts)", "os"),
        ({"expert_bindings": ["os:environ"]}, "the module os (at expert_bindings)", "os"),
        # Roles may have these names, and then their texts are no lines, in which a word is a file or left out.
        ({"experts": {"experts": "os:system?command=x.toml"}}, "the module os (at experts.experts)", "os"),
        ({"experts": {"experts": "os:system?command='"}}, "the module os (at experts.experts)", "os"),
        ({"expert_bindings": "os:system?command=x.toml"}, "the module os (at expert_bindings)", "os"),
        ({"experts": {"text": "clip", "model": "vlm:tools"}}, "the path tools (at experts.model)", "tools"),
        # Beside `use` it is an option, and also what a reward is bound to.
        ({"use": "x", "reward": "guards", "experts": "judge=os:system?x=1"}, "the module os (at experts.judge)", "os"),
        ({"use": "x", "experts": ["cpu", "judge=os:system"]}, "the module os (at experts.judge)", "os"),
        ({"use": "x", "experts": "os:system?command=x.toml"}, "the module os (at experts)", "os"),
        # An expert's name, which is also that of a package: rewards, suites and selectors are found in the package.
        ({"use": "changes:Mine"}, "the module changes (at use)", "changes"),
        ("changes:Mine?x=1", "the module changes", "changes"),
        ("openai:http://a.b/v1", "the address http://a.b/v1", "http://a.b/v1"),
        ("openai:http://a.b/v1?model=m", "the address http://a.b/v1", "http://a.b/v1"),
        ("openai?base_url=http://a.b", "the address http://a.b (at base_url)", "http://a.b"),
        ("served?model=m&base_url=a.b:80", "the address a.b:80 (at base_url)", "a.b:80"),
        (JUDGE, "the address http://127.0.0.1:8000/v1 (at base_url)", "http://127.0.0.1:8000/v1"),
        ({"use": "theirs", "server_url": "a.b"}, "the address a.b (at server_url)", "a.b"),
        ({"use": "theirs", "where": "ftp://a.b"}, "the address ftp://a.b (at where)", "ftp://a.b"),
        ("openai:gpt-4o", "the address https://api.openai.com/v1, since", "https://api.openai.com/v1"),
        ({"use": "openai", "model": "m"}, "the address https://api.openai.com/v1, since", None),
        ("openai?model=m", "the address https://api.openai.com/v1, since", None),
        ({"use": "theirs", "key_env": "HOME"}, "the environment variable HOME (at key_env)", "HOME"),
        ("theirs?api_key_env=HOME", "the environment variable HOME (at api_key_env)", "HOME"),
        ({"use": "sa2va", "trust_remote_code": True}, "code of sa2va to run", "sa2va"),
        ({"use": "sa2va", "name": "a/b", "trust_remote_code": 1}, "code of a/b to run", "a/b"),
        ("sa2va:a/b?trust_remote_code=true", "code of sa2va:a/b to run", "sa2va:a/b"),
        ({"use": "edival-if", "prompts": "/etc"}, "the path /etc (at prompts)", "/etc"),
        ({"use": "edival-if", "prompts": "~/x"}, "the path ~/x (at prompts)", "'~/x'"),
        ({"use": "edival-if", "prompts": "a/../../x"}, "the path a/../../x (at prompts)", "a/../../x"),
        ({"use": "edival-if", "mode": "../x"}, "the path ../x (at mode)", "../x"),
        ({"use": "edival-if", "prompts": "tools"}, "the path tools (at prompts)", "tools"),
        ("edival-if?prompts=tools", "the path tools (at prompts)", "tools"),
        ({"detector": "tools"}, "the path tools (at detector)", "tools"),
        ("vlm:tools", "the path tools", "tools"),
        ("tools", "the path tools", "tools"),
        ({"use": "vlm", "name": "clip"}, "the path clip (at name)", "clip"),  # a folder, whatever else has this name
        ({"use": "calibrated", "metric": "guards", "calibration": "map.json"}, "the path map.json", "map.json"),
    ],
)
def test_what_is_not_installed_is_refused_until_it_is_trusted(spec, named, typed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("tools", "clip", "modules"):
        Path(name).mkdir()
    Path("map.json").touch()
    Path("modules/changes.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path / "modules")
    if named is None:
        with pytest.raises(SpecError, match="cannot find os:system"):
            build(spec)
        return
    with pytest.raises(SpecError) as raised:
        require_trusted(spec, "f.toml")
    assert f"f.toml names {named}" in str(raised.value)
    assert "\n" not in str(raised.value)
    if typed is not None:
        assert f"add `--trust {typed}`" in str(raised.value)
        with trusting(typed.strip("'")):
            require_trusted(spec, "f.toml")
    with trusting("f.toml"):
        require_trusted(spec, "f.toml")
    with trusting("g.toml", ".."), pytest.raises(SpecError):
        require_trusted(spec if "path" not in named else "os:system", "f.toml")


@pytest.mark.parametrize(
    "spec",
    [
        "edival-if?protocol=official",
        "guards",
        "small",
        {"experts": "small judge=qwen3-vl-8b detector=vlm:Qwen/Qwen3-VL-8B-Instruct other.toml"},
        {"bundle": "large"},
        {"use": "dlebench", "mode": "tools"},
        {"judge": "clip"},
        "artimuse",
        {"use": "editcritic.reward.experts.pixel_features:PixelFeatures"},
        {"experts": ["editcritic.benchmarks.sceneedit.scene_experts:scene_experts"]},
        {"use": "clip", "device": "cuda:0", "max_memory": "0:8GiB"},
        {"use": "systemone", "api_key_env": "", "trust_remote_code": False},
        "sa2va?trust_remote_code=false",
        {"use": "edival-if", "prompts": "x" * 5000},
        {"use": "edival-if", "prompts": "a\0b"},
        *bundles(),
    ],
)
def test_what_is_installed_passes(spec: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("tools", "clip"):
        Path(name).mkdir()
    require_trusted(spec, "f.toml")


def test_what_a_file_names_is_said_at_once_and_nothing_is_imported(tmp_path, monkeypatch):
    with pytest.raises(SpecError, match="`--trust http://a --trust KEY`"):
        require_trusted({"use": "openai", "base_url": "http://a", "api_key_env": "KEY"}, "f.toml")
    many = [{"use": f"m{number}:X"} for number in range(9)]
    with pytest.raises(SpecError, match=r"; and 4 more, which are not shown: .*`--trust f\.toml`"):
        require_trusted(many, "f.toml")
    with pytest.raises(SpecError, match=r"`--trust f\.toml`") as raised:
        require_trusted({"use": "x", "base_url": "a\n\x1b[2J`--trust os`" * 99}, "f.toml")
    assert str(raised.value).isprintable()
    deep: Any = "os:system"
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(SpecError, match="nested too deeply"):
        require_trusted(deep, "f.toml")
    (tmp_path / "loud.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SpecError, match="the module loud"):
        require_trusted({"use": "loud:X"}, "f.toml")
    monkeypatch.setenv("EDITCRITIC_JUDGE_URL", "http://127.0.0.1:8000/v1")
    require_trusted({"experts": "large"}, "f.toml")
    with pytest.raises(SpecError, match=r"api\.openai\.com"):  # a variable is no variable in a file
        require_trusted({"judge": "openai:$EDITCRITIC_JUDGE_URL"}, "f.toml")


def test_names_lead_into_classes_and_trust_in_nothing_is_none(tmp_path, monkeypatch):
    assert find_target("editcritic.reward.image:Image.open")
    for path in ("editcritic.benchmarks.run.run_journal:os.system", "os:path.join", "os:system.__call__"):
        with pytest.raises(SpecError, match="is no class"):
            find_target(path)
    for path in ("os :system", ".os:system", "os:", "os:system?x", "os\n:system"):
        with pytest.raises(SpecError, match=r"(?s)cannot find .*expected package\.module:Name"):
            find_target(path)
    monkeypatch.chdir(tmp_path)
    Path("weights").mkdir()
    with trusting(""), pytest.raises(SpecError, match="the path weights"):
        require_trusted({"judge": "vlm:weights"}, "f.toml")
    for text in ("/a\0", "/\ud800"):
        with trusting("/b"), pytest.raises(SpecError, match="names the path"):
            require_trusted({"judge": f"vlm:{text}"}, tmp_path / "f.toml")


@pytest.mark.parametrize("name", entry_point_names("editcritic.selectors"))
def test_a_spec_of_a_selector_names_entry_points(name: str) -> None:
    selector = build({"use": name, **({"verifier": 0.5} if name == "retry" else {})}, "editcritic.selectors")
    names_only(spec_of(selector))
    assert spec_of(build(spec_of(selector), "editcritic.selectors")) == spec_of(selector)


def test_metrics_of_suites_are_entry_points(tmp_path: Path) -> None:
    write(tmp_path)
    suites = [load_suite(SUITES[name], recipe(tmp_path, name).data) for name in SUITES]
    singlepass = load_suite("edival?mode=singlepass", recipe(tmp_path, "edival").data)
    for suite in (*suites, singlepass):
        for protocol in (None, "paper", "official"):
            try:
                specs = suite.metrics(protocol)
            except ValueError:
                continue
            for spec in specs.values():
                names_only(spec)
                metric = build(spec)
                names_only(spec_of(metric))
                assert build(spec_of(metric)) == metric


def ours() -> Iterator[type]:
    """All metrics and experts in them."""
    for package in OURS:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.endswith("__main__"):
                continue
            for name, target in vars(import_module(module.name)).items():
                if not inspect.isclass(target) or target.__module__ != module.name or name.startswith("_"):
                    continue
                if not inspect.isabstract(target) and (issubclass(target, Expert) or hasattr(target, "card")):
                    yield target


def test_all_of_ours_has_a_name_which_means_one_thing():
    nameless = {target.__name__ for target in ours() if registered(import_path(target)) is None}
    assert nameless <= NO_SPECS, "give it an entry point in pyproject.toml: files name nothing else"
    named = [(name, group) for group in get_args(Group) for name in entry_point_names(group)]
    twice = {name for name, _ in named if sum(other == name for other, _ in named) > 1}
    # Of a metric and of the expert that it asks, or of the suite that it is from: never in each other's place.
    assert twice == {"edit-reward", "imgedit"}
    assert {OPENAI} == set(HOSTED.values())
    for value in HOSTED:
        assert EntryPoint("x", value, "x").load() is openai_judge.OpenAIJudge


def test_what_a_package_offers_under_a_shorter_path_has_its_name(tmp_path, monkeypatch):
    (tmp_path / "shortened").mkdir()
    (tmp_path / "shortened" / "__init__.py").write_text("from .deep import Mine\n")
    (tmp_path / "shortened" / "deep.py").write_text("class Mine:\n    card = None\nclass Own:\n    pass\n")
    info = tmp_path / "shortened-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shortened\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[editcritic.rewards]\nmine = shortened:Mine\n")
    monkeypatch.syspath_prepend(tmp_path)
    deep = import_module("shortened.deep")
    assert spec_name(deep.Mine) == "mine"
    assert spec_name(deep.Own) == "shortened.deep:Own"
    assert isinstance(build(spec_of(deep.Mine())), deep.Mine)


def our_options() -> Iterator[tuple[str, str, str]]:
    """Entry point, option and type."""
    for group in get_args(Group):
        for point in entry_point_names(group).values():
            if point.module.startswith("editcritic."):
                for name, parameter in parameters(point.load()).items():
                    yield point.name, name, str(parameter.annotation)


def test_every_option_is_known_for_what_it_does():
    unknown = [
        f"{name} of {point}: {kind}"
        for point, name, kind in our_options()
        if name not in {*PLAIN, *CHECKED, *PARTS}
        and kind not in NUMBERS
        and not kind.startswith(("Mapping[str, float]", "tuple[float", "tuple[int", "Literal["))
    ]
    assert unknown == []
    assert {*PLAIN, *CHECKED, *PARTS} <= {name for _, name, _ in our_options()}, "names of options that are gone"
    assert not PLAIN & CHECKED.keys()
    assert not PLAIN & PARTS
    assert not PARTS & CHECKED.keys()
    assert {*CHECKED, "address"} >= ADDRESSES
