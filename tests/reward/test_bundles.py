"""Bundles are found by name, bind every role, and can be mixed with experts of one's own."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editcritic.reward import Image, Reward, SpecError, build, default_experts, load_experts, score, spec_of
from editcritic.reward.config import named_bundles
from editcritic.reward.experts.colour import ColourJudge
from editcritic.reward.experts.loading.model_registry import bundles, registered_models
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.queries.expert import unbound_roles

JUDGE = "openai:http://127.0.0.1:9/v1"
ADDRESS = "EDITCRITIC_JUDGE_URL"


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS, "http://127.0.0.1:9/v1")


def model_name(spec: Any) -> str:
    """The short name of the model in a spec; empty for a served one."""
    if isinstance(spec, dict):
        spec = spec.get("otherwise", spec["use"])
    name = str(spec).partition("?")[0]
    return "" if name.startswith("openai:") else name


def written(experts: Any) -> dict[str, Any]:
    return {role: spec_of(expert) for role, expert in experts.items()}


@pytest.mark.usefixtures("address")
@pytest.mark.parametrize("name", bundles())
def test_a_bundle_binds_every_role_of_any_edit(name: str) -> None:
    experts = load_experts(name)
    assert not unbound_roles(experts, build("any-edit").card.roles)
    assert set(default_experts()) <= set(experts)
    reward = Reward.of("any-edit", name)
    assert written(pickle.loads(pickle.dumps(reward)).experts) == written(experts)


def test_bundles_replace_one_another_and_may_be_mixed():
    assert written(load_experts("cpu")) == written(default_experts()) == written(Reward.of("any-edit").experts)
    assert written(load_experts("small cpu")) == written(load_experts("cpu"))
    judge = ColourJudge()
    experts = load_experts({"bundle": "small", "judge": judge})
    assert experts["judge"] is judge
    assert spec_of(experts["features"]) == spec_of(load_experts("small")["features"])


def test_bundles_say_what_is_gated_and_have_the_judges_of_their_sources():
    gated = {
        name: {
            model_name(spec)
            for spec in bundle.roles.values()
            if getattr(registered_models().get(model_name(spec)), "gated", False)
        }
        for name, bundle in bundles().items()
    }
    assert [name for name, models in gated.items() if not models] == ["cpu", "laptop", "small", "standard", "dlebench"]
    assert gated["large"] == {"sam3", "dinov3-vitl16"}
    assert "gated" in bundles()["large"].unanswered
    assert "gated" in bundles()["edival"].unanswered
    assert "gated" in bundles()["i2ibench"].unanswered
    assert "trust_remote_code" not in json.dumps([dict(bundle.roles) for bundle in bundles().values()])
    for bundle in bundles().values():
        for role, spec in bundle.own_roles.items():
            name = model_name(spec)
            if name not in ("", "judge-reader", "rapidocr"):  # no models of their own
                assert registered_models()[name].licence, (bundle.name, role)


@pytest.mark.usefixtures("address")
@pytest.mark.parametrize(
    ("name", "metric", "models"),
    [
        ("dlebench", "dlebench-if?mode=tools&paper=true", {"detector": "GroundingDino", "enhancer": "RealEsrgan"}),
        ("dlebench", "dlebench-vc?paper=true", {"detector": "GroundingDino", "enhancer": "RealEsrgan"}),
        (
            "i2ibench",
            "i2i-overall",
            {
                "judge": "Vlm",
                "segmenter": "Sa2va",
                "features": "Dino",
                "reader": "GotOcr",
                "quality": "QInsight",
                "aesthetics": "ArtiMuse",
            },
        ),
    ],
)
def test_the_bundle_of_a_paper_has_its_experts(name: str, metric: str, models: dict[str, str]) -> None:
    reward = Reward.of(metric, name)
    assert not unbound_roles(reward.experts, reward.metric.card.roles)
    assert {role: type(load_experts(name)[role]).__name__ for role in models} == models


@pytest.mark.usefixtures("address")
def test_nothing_makes_the_enhanced_crops_smaller_again_for_the_judge_of_dlebench() -> None:
    assert "max_pixels" not in json.dumps(dict(bundles()["dlebench"].own_roles))


@pytest.mark.parametrize(
    ("name", "checkpoint"),
    [
        ("edival", "Qwen/Qwen2.5-VL-7B-Instruct"),  # sections 2.4, 2.5 and C.1
        ("edival-official", "Qwen/Qwen2-VL-7B-Instruct"),  # appendix O.3, and the released code
    ],
)
def test_each_bundle_of_edival_has_the_judge_that_its_source_names(name: str, checkpoint: str) -> None:
    judges = {one: bundles()[one].roles["judge"] for one in ("edival", "edival-official")}
    assert registered_models()[model_name(judges[name])].checkpoint == checkpoint
    others = [{role: spec for role, spec in bundles()[one].roles.items() if role != "judge"} for one in judges]
    assert others[0] == others[1]


@pytest.mark.parametrize("line", [f"small judge={JUDGE}", f"judge={JUDGE} small", ["small", f"judge={JUDGE}"]])
def test_a_role_replaces_that_of_the_bundle(line: Any) -> None:
    mixed, small = load_experts(line), load_experts("small")
    assert isinstance(mixed["judge"], OpenAIJudge)
    assert written(mixed | {"judge": small["judge"]}) == written(small)


def test_a_bundle_stands_in_toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITCRITIC_TRUST", "http://127.0.0.1:9/v1")
    expected = written(load_experts(f"small judge={JUDGE}"))
    file = tmp_path / "experts.toml"
    for text in (
        f'experts = "small judge={JUDGE}"',
        f'[experts]\nbundle = "small"\njudge = "{JUDGE}"',
        f'bundle = "small"\n[judge]\nuse = "{JUDGE}"',
    ):
        file.write_text(text)
        assert written(load_experts(file)) == expected
        assert [bundle.name for bundle in named_bundles([str(file)])] == ["small"]
    file.write_text('bundle = "smal"')
    with pytest.raises(SpecError, match=r"experts.toml: there is no bundle 'smal'; the bundles are\n  cpu: "):
        load_experts(file)
    assert written(Reward.of({"reward": "any-edit", "experts": f"small judge={JUDGE}"}).experts) == expected


def test_the_addresses_that_a_bundle_needs_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ADDRESS, raising=False)
    with pytest.raises(SpecError) as refused:
        load_experts("large")
    for words in (f"set {ADDRESS}=http://127.0.0.1:8000/v1", "'large judge=openai:http://127.0.0.1:8000/v1'", "27B"):
        assert words in str(refused.value)
    assert isinstance(load_experts(f"large judge={JUDGE}")["judge"], OpenAIJudge)
    monkeypatch.setenv(ADDRESS, "http://127.0.0.1:7/v1")
    judge = load_experts("large")["judge"]
    assert isinstance(judge, OpenAIJudge)
    assert (judge.base_url, judge.model) == ("http://127.0.0.1:7/v1", "")
    assert judge.extra == {"chat_template_kwargs": {"enable_thinking": False}}


@pytest.mark.parametrize(
    ("word", "suggested"), [("smal", "small"), ("Standard", "standard"), ("edval", "edival"), ("nothing-like-it", "")]
)
def test_an_unknown_name_lists_the_bundles(word: str, suggested: str) -> None:
    with pytest.raises(SpecError) as refused:
        load_experts(word)
    first, *lines = str(refused.value).splitlines()
    assert "expected experts as role=spec" in first
    assert (f"did you mean {suggested}?" in first) == bool(suggested)
    assert [line.split(":")[0].strip() for line in lines] == list(bundles())


def test_score_takes_a_bundle_or_a_line(tmp_path, monkeypatch):
    before = Image.of(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    same = score(before, before, "make the mug blue", experts="cpu")
    assert (same.value, same.status) == (0.0, "scored")
    assert same == score(before, before, "make the mug blue")
    file = tmp_path / "experts.toml"
    file.write_text('bundle = "cpu"')
    assert score(before, before, "make the mug blue", experts=file) == same
    file.write_text('bundle = "cpu"\nplanner = "nothing-of-the-kind"')
    with pytest.raises(SpecError, match="planner: unknown expert"):
        score(before, before, "make the mug blue", experts=file)
    monkeypatch.delenv(ADDRESS, raising=False)
    with pytest.raises(SpecError, match=ADDRESS):
        score(before, before, "make the mug blue", experts="large")
    pixels = np.zeros((64, 64, 3), np.uint8)
    with pytest.raises(ValueError, match="a built reward has its experts"):
        score(pixels, pixels, "make it red", reward=Reward.of("any-edit"), experts="cpu")


@pytest.mark.parametrize("value", ["127.0.0.1:8000/v1", "not a url", "javascript:x", "file:///etc/passwd"])
def test_an_address_without_a_scheme_is_no_model_of_a_public_server(value, monkeypatch):
    monkeypatch.setenv(ADDRESS, value)
    with pytest.raises(SpecError, match=ADDRESS):
        load_experts("large")
