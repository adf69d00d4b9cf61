"""Bundles end to end: tiny random models of the real classes, in a hub cache under the names that bundles have."""

import gc
import json
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import httpx2
import numpy as np
import pytest
import torch
import transformers
from huggingface_hub.errors import GatedRepoError
from safetensors.torch import load_file, save_file
from transformers.utils import hub as transformers_hub

from editcritic.benchmarks.inspection.model_requirements import model_requirements
from editcritic.reward import Box, EditSample, Image, Pools, Reward, load_experts, score
from editcritic.reward.experts.colour import ColourJudge
from editcritic.reward.experts.loading.local_expert import LocalExpert
from editcritic.reward.experts.loading.model_registry import bundles
from editcritic.reward.metrics.edival.task_parser import parse_task
from editcritic.reward.queries import ExpertDown

from . import tiny_detectors, tiny_rewarders, tiny_vlms
from .http_server import Answer, ReceivedRequest, completion, serving
from .tiny_dinos import tiny_dinov2, tiny_dinov3

# Random words never end a JSON list of differences.
REWARD = "any-edit?list_differences=false"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
INSTRUCTION = "Change the color of cup to blue"
TASK = parse_task(INSTRUCTION)


OWN = {name: bundle.own_roles.keys() for name, bundle in bundles().items()}
LOCAL = [name for name, roles in OWN.items() if {"judge", "detector", "features"} <= roles and name != "large"]


def tiny_hpsv3(folder: Path) -> None:
    """The weights of HPSv3, for the tokenizer of the base that `tiny_rewarders` writes."""
    tokenizer = tiny_rewarders.tiny_base(folder / "base", "qwen2_vl")
    tiny_rewarders.put(tiny_rewarders.tiny_weights("hpsv3", tokenizer), folder / "HPSv3.safetensors")


MM_DINO = partial(tiny_detectors.grounding_dino, mm=True)
MODELS: dict[str, Callable[[Path], Any]] = {
    "Qwen/Qwen3-VL-2B-Instruct": tiny_vlms.tiny_qwen3_vl,
    "Qwen/Qwen3-VL-8B-Instruct": tiny_vlms.tiny_qwen3_vl,
    "Qwen/Qwen2-VL-7B-Instruct": partial(tiny_vlms.tiny_qwen, kind="Qwen2VL", mlp_ratio=4),
    "Qwen/Qwen2.5-VL-7B-Instruct": tiny_vlms.tiny_qwen2_5_vl,
    "openmmlab-community/mm_grounding_dino_tiny_o365v1_goldg_v3det": MM_DINO,
    "openmmlab-community/mm_grounding_dino_base_all": MM_DINO,
    "IDEA-Research/grounding-dino-tiny": tiny_detectors.grounding_dino,
    "facebook/sam3": tiny_detectors.sam3,
    **{f"facebook/dinov2-{size}": tiny_dinov2 for size in ("small", "base", "large")},
    **{f"facebook/dinov3-{size}-pretrain-lvd1689m": tiny_dinov3 for size in ("vitb16", "vitl16")},
    "MizzenAI/HPSv3": tiny_hpsv3,
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hub cache as after a download of all models of all bundles."""
    root = tmp_path_factory.mktemp("home") / "hub"
    for name, write in MODELS.items():
        model = root / f"models--{name.replace('/', '--')}"
        (model / "refs").mkdir(parents=True)
        (model / "refs" / "main").write_text(COMMIT)
        snapshot = model / "snapshots" / COMMIT
        write(snapshot)
        if name.startswith("Qwen/"):
            make_decisive(snapshot)
    return root


def make_decisive(folder: Path, context: int = 16384) -> None:
    """Of a tiny judge: yes and no are its most probable words, and its context holds questions with pictures."""
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["max_position_embeddings"] = context
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    head = torch.zeros_like(weights["lm_head.weight"])
    (yes,), (no,) = (tokenizer.encode(word, add_special_tokens=False) for word in ("yes", "no"))
    head[yes] = torch.randn(head.shape[1], generator=torch.Generator().manual_seed(0))
    head[no] = -head[yes]
    save_file({**weights, "lm_head.weight": head}, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.fixture(autouse=True)
def hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformers_hub.constants, "HF_HUB_CACHE", str(cache))


def picture(colour: tuple[int, int, int]) -> Image:
    """A cup of a colour on a shaded table."""
    rows = np.linspace(90, 170, 96)[:, None, None] + np.random.default_rng(0).normal(0, 4, (96, 128, 3))
    rows[30:70, 40:80] = np.array(colour) + np.linspace(-12, 12, 40)[:, None, None]
    return Image.of(np.clip(rows, 0, 255).astype(np.uint8))


SOURCE, EDITED = picture((190, 40, 40)), picture((40, 40, 190))
CUP = Box.from_corners(40, 30, 80, 70, SOURCE.size)


@pytest.mark.parametrize("name", LOCAL)
def test_a_bundle_scores_with_the_models_it_names(name: str) -> None:
    reward = Reward.of(REWARD, name)
    (result,) = reward([EditSample("a", INSTRUCTION, (SOURCE,), EDITED, task=TASK)])
    assert result.status in ("scored", "not_applicable"), result.reason
    models = {role: expert for role, expert in reward.experts.items() if isinstance(expert, LocalExpert)}
    assert set(models) >= {"judge", "detector", "features"}
    for expert in models.values():
        assert expert.name in MODELS
        assert COMMIT[:12] in expert.id  # of the cache, not of somewhere else
    assert reward.experts["detector"].usage()["joint_passes"] > 0
    assert reward.experts["judge"].usage()["image_passes"] > 0


def test_laptop_looks_at_each_picture_once_asks_no_judge_and_its_detector_about_what_has_no_box_only() -> None:
    """With random weights it finds something or not; where it finds nothing in the source, it looks at no edit."""
    reward = Reward.of("any-edit", "laptop", on_failures="none")
    detector = reward.experts["detector"]
    edits = [picture((40, 40, 190 + number)) for number in range(4)]
    results = reward([EditSample(str(number), "Remove the cup", (SOURCE,), edit) for number, edit in enumerate(edits)])
    assert {result.status for result in results} <= {"scored", "not_applicable"}, results[0].reason
    found = any(result.status == "scored" for result in results)
    assert detector.usage() == dict.fromkeys(("image_passes", "joint_passes"), 1 + len(edits) * found)
    (open_result,) = reward([EditSample("a", "Change the background to a beach", (SOURCE,), EDITED)])
    assert open_result.status == "abstained"
    assert isinstance(reward.experts["judge"], ColourJudge)
    assert COMMIT[:12] in detector.id
    reward = Reward.of("any-edit-following", "laptop", on_failures="none")
    (result,) = reward([EditSample("a", "Make the cup blue", (SOURCE,), EDITED, boxes={"cup": (CUP,)})])
    assert (result.value or 0.0) >= 0.75
    assert reward.experts["detector"].usage()["joint_passes"] == 0


@pytest.mark.parametrize("name", [*LOCAL, "laptop"])
def test_the_features_of_a_bundle_answer_edivals_consistency(name: str) -> None:
    reward = Reward.of("edival-cc", name)
    pools = Pools(all=("cup", "dog"), unchanged=("dog",))
    boxes = {"dog": (CUP,), "cup": (CUP,)}  # the random detector of `laptop` finds no dog
    (result,) = reward([EditSample("a", INSTRUCTION, (SOURCE,), EDITED, pools=pools, boxes=boxes)])
    assert result.status == "scored", result.reason
    assert reward.experts["features"].usage()["image_passes"] >= 2  # and of crops


def test_edival_has_the_papers_preference_model_and_a_gated_model_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reward = Reward.of("edival-vq", "edival")
    (result,) = reward([EditSample("a", INSTRUCTION, (SOURCE,), EDITED)])
    assert result.status == "scored", result.reason
    assert reward.experts["preference"].usage()["image_passes"] == 2  # the source, too
    response = httpx2.Response(403, request=httpx2.Request("GET", "http://127.0.0.1/"))
    refuse = Mock(side_effect=GatedRepoError("403: the terms are not accepted", response=response))
    monkeypatch.setattr(transformers_hub, "hf_hub_download", refuse)
    monkeypatch.setattr(transformers_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    features = load_experts("edival")["features"]
    with pytest.raises(ExpertDown, match=r"dinov3-vitb16.* is gated: accept its terms .* `hf auth login`"):
        _ = features.id


def test_score_takes_a_bundle_and_one_that_replaces_another_lets_go_of_its_weights() -> None:
    found = [score(SOURCE, EDITED, INSTRUCTION, reward=REWARD, experts="small", task=TASK) for _ in range(2)]
    assert found[0].status in ("scored", "not_applicable"), found[0].reason
    assert found[0].metric.startswith("any-edit@")
    assert found[0] == found[1]
    score(SOURCE, EDITED, INSTRUCTION, reward=REWARD, experts="small", task=TASK)
    judge = load_experts("small")["judge"]
    assert isinstance(judge, LocalExpert)
    weights = weakref.ref(judge.checkpoint.shared_weights)
    del judge
    assert weights() is not None
    score(SOURCE, EDITED, INSTRUCTION, reward=REWARD, experts="cpu")
    gc.collect()
    assert weights() is None


@pytest.mark.parametrize("name", ["laptop", "small"])
def test_the_requirements_of_a_downloaded_bundle_are_exact(name: str) -> None:
    plan = model_requirements([name])
    assert [bundle.name for bundle in plan.bundles] == [name]
    assert plan.downloads == {}
    local = [entry for entry in plan.entries if entry.model]
    assert {entry.source for entry in local} == {"hub cache"}
    assert {entry.revision for entry in local} == {COMMIT[:12]}
    assert all(entry.is_exact and not entry.problem for entry in local)
    assert plan.exit_code == 0


def instance(schema: dict[str, Any]) -> Any:
    """The smallest JSON of a schema."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        return {key: instance(schema["properties"][key]) for key in schema.get("required", ())}
    return {"array": [], "string": "", "integer": schema.get("minimum", 0), "boolean": False}.get(str(kind))


def yes(request: ReceivedRequest, _: int) -> Answer:
    """Of a server with one model, which answers yes to everything."""
    if request.path.endswith("/models"):
        return Answer({"object": "list", "data": [{"id": "judge-27b", "object": "model"}]})
    form = request.body.get("response_format", {}).get("json_schema", {}).get("schema")
    return Answer(completion("Yes" if form is None else json.dumps(instance(form))))


def test_large_queries_the_served_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(yes) as server:
        monkeypatch.setenv("EDITCRITIC_JUDGE_URL", server.url)
        reward = Reward.of("any-edit", "large")
        (result,) = reward([EditSample("a", INSTRUCTION, (SOURCE,), EDITED)])
    assert result.status in ("scored", "not_applicable"), result.reason
    requests = [request.body for request in server.requests if request.body]
    assert {request["model"] for request in requests} == {"judge-27b"}
    assert all(request["chat_template_kwargs"] == {"enable_thinking": False} for request in requests)
    assert reward.experts["detector"] is reward.experts["segmenter"]
    assert reward.experts["detector"].usage()["image_passes"] > 0
