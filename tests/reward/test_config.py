"""Experts are bound by the same line on the command line, in TOML and in Python."""

import contextlib
import inspect
import json
import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import entry_points
from typing import Any

import pytest

from editcritic.benchmarks.common.inputs import load_reward
from editcritic.reward import Reward, SpecError, build, load_experts, spec_of
from editcritic.reward.experts.clip import Clip
from editcritic.reward.experts.dino import Dino
from editcritic.reward.experts.grounding_dino import GroundingDino
from editcritic.reward.experts.loading.model_registry import registered_models
from editcritic.reward.experts.openai_judge import OpenAIJudge
from editcritic.reward.experts.vlm import Vlm
from editcritic.reward.queries import ExpertDown
from editcritic.reward.queries.specs import entry_point_names

LINE = (
    "detector=grounding-dino-tiny?min_score=0.2&device=cpu judge=openai:http://127.0.0.1:9/v1?model=some-judge "
    "features=dinov3-vitb16?dtype=bfloat16&max_memory=2GiB reader=rapidocr pixels=pixels"
)
ODD_PARTS: dict[str, tuple[dict[str, Any], str]] = {
    "a list of metrics": ({"use": "product", "parts": [{"use": "any-edit"}]}, "parts is a table of metrics"),
    "a metric for a table": ({"use": "minimum", "parts": {"use": "any-edit"}}, "parts is a table of metrics"),
    "numbers for metrics": ({"use": "weighted-mean", "parts": {"a": 1}}, "parts is a table of metrics"),
    "a text for a metric": ({"use": "any-edit", "quality": "much"}, "quality is a metric"),
    "a number for thresholds": ({"use": "clip-image", "thresholds": 1}, "thresholds is a table of numbers"),
    "numbers for texts": ({"use": "i2i-overall", "excluded_dimensions": [1]}, "excluded_dimensions is texts"),
    "no metric": ({"use": "edival-o", "following": None}, "following is a metric"),
}


def written(experts) -> dict[str, Any]:
    return {role: spec_of(expert) for role, expert in experts.items()}


def test_models_are_found_by_name():
    experts = load_experts(LINE)
    assert isinstance(experts["detector"], GroundingDino)
    assert experts["detector"].name == "IDEA-Research/grounding-dino-tiny"
    assert experts["detector"].min_score == 0.2
    assert isinstance(experts["features"], Dino)
    assert (experts["features"].dtype, experts["features"].max_memory) == ("bfloat16", "2GiB")
    assert isinstance(experts["judge"], OpenAIJudge)
    assert (experts["judge"].model, experts["judge"].base_url) == ("some-judge", "http://127.0.0.1:9/v1")


def test_the_same_line_loads_in_toml_on_the_command_line_and_after_pickling(tmp_path, monkeypatch):
    expected = written(load_experts(LINE))
    file = tmp_path / "experts.toml"
    file.write_text(f'experts = "{LINE}"\n')
    monkeypatch.setenv("EDITCRITIC_TRUST", "http://127.0.0.1:9/v1")
    assert written(load_experts(str(file))) == expected
    file.write_text("[experts]\n" + "".join('"{}" = "{}"\n'.format(*word.split("=", 1)) for word in LINE.split()))
    assert written(load_experts(file)) == expected
    reward = Reward.of("edival-if", LINE)
    assert written(reward.experts) == expected
    assert written(pickle.loads(pickle.dumps(reward)).experts) == expected
    assert written(Reward.of(json.loads(json.dumps(reward.spec))).experts) == expected
    file.write_text(f'reward = "edival-if"\nexperts = "{LINE}"\n')
    assert written(load_reward({"reward": "edival-if", "experts": LINE}).experts) == expected
    assert expected.items() <= written(load_reward("edival-if", bindings=[LINE]).experts).items()
    assert expected.items() <= written(load_reward("edival-if", bindings=LINE.split()).experts).items()


def test_later_words_win_roles_nest_and_revisions_are_texts(tmp_path):
    defaults = load_experts("pixels=pixels reader=rapidocr")
    experts = load_experts(["pixels=differences", "pixels=lanczos"], defaults)
    assert type(experts["pixels"]).__name__ == "Lanczos"
    assert experts["reader"] is defaults["reader"]
    file = tmp_path / "experts.toml"
    file.write_text(
        '[experts]\npixels = "pixels"\n[experts.judge]\nquality = "colour"\n[experts.other]\nuse = "colour"\n'
    )
    assert sorted(load_experts(file)) == ["judge.quality", "other", "pixels"]
    features = load_experts("features=dinov2-base?revision=1234567")["features"]
    assert isinstance(features, Dino)
    assert features.revision == "1234567"


@pytest.mark.parametrize("name", sorted(registered_models()))
def test_every_model_that_is_known_has_its_expert(name):
    model = registered_models()[name]
    if model.expert not in entry_point_names("editcritic.experts"):
        pytest.fail(f"{name} names the expert {model.expert}, which is not installed")
    expert = build(name, "editcritic.experts")
    assert type(expert) is entry_point_names("editcritic.experts")[model.expert].load()
    assert type(build(spec_of(expert), "editcritic.experts")) is type(expert)


def test_a_folder_says_itself_what_it_is_or_asks_for_its_expert(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "dinov2"}')
    assert isinstance(load_experts({"features": str(tmp_path)})["features"], Dino)
    (tmp_path / "config.json").write_text('{"model_type": "siglip2"}')
    assert isinstance(load_experts(f"features='{tmp_path}'")["features"], Clip)
    (tmp_path / "config.json").write_text('{"model_type": "qwen3_vl"}')
    assert isinstance(load_experts(f"judge={tmp_path}")["judge"], Vlm)
    assert isinstance(load_experts(f"judge=vlm:{tmp_path}?batch=2")["judge"], Vlm)
    (tmp_path / "config.json").write_text('{"model_type": "wav2vec2"}')
    with pytest.raises(SpecError, match=r"is a wav2vec2: name the expert"):
        load_experts(f"judge={tmp_path}")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(SpecError, match="cannot be read"):
        load_experts(f"judge={tmp_path}")
    weights = tmp_path / "some.pth"
    weights.write_bytes(b"")
    with pytest.raises(SpecError, match=r"is a file: name the expert"):
        load_experts(f"enhancer={weights}")
    (tmp_path / "config.json").unlink()
    with pytest.raises(SpecError, match=r"holds no config.json, .* there is some.pth"):
        load_experts(f"enhancer={tmp_path}")


@pytest.mark.parametrize(
    ("bindings", "message"),
    [
        ("detector=grounding-dyno-tiny", "did you mean grounding-dino-tiny"),
        ("judge=http://127.0.0.1:9/v1", "name the expert, as in openai:http"),
        ("judge=vlm:", "names no model"),
        ("judge=openai:", "names no model"),
        ("judge=served", "OpenAI has many models: name one"),
        ("judge=vlm?quantisation=q4", "quantisation is one of int8, nf4, fp4, got 'q4'"),
        ("judge=vlm?device_map=cuda", "device_map is one of auto"),
        ("judge=vlm?compiled=maybe", "compiled is true or false, got 'maybe'"),
        ("judge=vlm?max_memory=lots", "max_memory is a size such as 8GiB"),
        ("judge=vlm?dtpe=float16", "does not take dtpe: its options are"),
        ("grounding-dino-tiny", "expected experts as role=spec"),
        ("judge='vlm", "No closing quotation"),
        ({"judge": ""}, "begins with a name"),
        ({"judge": "?dtype=float32"}, "begins with a name"),
        ("shutil:copyfile", "takes arguments"),
        ("nowhere.toml", "cannot read nowhere.toml"),
        ("no.module:function", "cannot find no.module:function: No module named 'no', neither installed nor"),
        ("no.module:function", "in the working folder as no.py or"),
    ],
)
def test_nonsense_is_said_in_a_line(bindings, message):
    with pytest.raises(SpecError, match=message):
        load_experts(bindings)


@contextlib.contextmanager
def having(*models: str) -> Iterator[str]:
    """The address of a server with these models."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(
                {"object": "list", "data": [{"id": model, "object": "model"} for model in models]}
            ).encode()
            self.send_response(200 if self.path == "/v1/models" else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


def test_a_server_is_asked_for_the_only_model_it_has():
    with having("only-one") as url:
        judge = load_experts(f"judge=openai:{url}")["judge"]
        assert isinstance(judge, OpenAIJudge)
        assert judge.served == "only-one"
        assert "only-one" in judge.id
        assert spec_of(judge) == {"use": "openai", "base_url": url}
    with having("one", "two") as url, pytest.raises(ExpertDown, match="has one, two: name one"):
        _ = load_experts(f"judge=openai:{url}")["judge"].id
    with pytest.raises(ExpertDown, match="does not list its models"):
        _ = load_experts("judge=openai:http://127.0.0.1:9/v1?timeout_s=1")["judge"].id


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a = " + b"[" * 20_000], ids=["not UTF-8", "nested"])
def test_a_file_that_is_no_table_is_refused(content, tmp_path):
    path = tmp_path / "experts.toml"
    path.write_bytes(content)
    with pytest.raises(SpecError, match=r"experts\.toml is not"):
        load_experts(str(path))


@pytest.mark.parametrize("case", ODD_PARTS)
def test_a_part_of_another_type_is_named(case):
    spec, problem = ODD_PARTS[case]
    with pytest.raises(SpecError, match=problem):
        build(spec)


def test_an_option_of_any_type_is_built_or_refused():
    odd: Any = (None, True, -1, 1e308, "x", "\ud800", [], [1], {}, {"a": 1}, {"use": "any-edit"}, [[[]]], {"": {}})
    for point in {point.value: point for point in entry_points(group="editcritic.rewards")}.values():
        for option in inspect.signature(point.load()).parameters:
            for value in odd:
                with contextlib.suppress(ValueError):  # SpecError among them
                    build({"use": point.name, option: value})


def by_length(samples):
    return [float(len(sample.instruction)) for sample in samples]


def test_a_function_of_samples_is_told_what_a_reward_is():
    with pytest.raises(
        SpecError, match=r"is a function that takes samples: a reward is a metric.* only `editcritic audit`"
    ):
        Reward.of(f"{__name__}:by_length")
