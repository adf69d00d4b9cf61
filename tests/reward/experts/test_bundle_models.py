"""Bundles end to end: tiny random models of the real classes, in a hub cache under the names that bundles have."""

import gc
import json
import threading
import weakref
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
import torch
import transformers
from huggingface_hub.errors import GatedRepoError
from safetensors.torch import load_file, save_file
from transformers.utils import hub as transformers_hub

from editcritic.benchmarks.inspection.load_plan import plan_load
from editcritic.reward import Box, EditSample, Image, Pools, Reward, load_experts, score
from editcritic.reward.experts.colour import ColourJudge
from editcritic.reward.experts.loading.local_expert import LocalExpert
from editcritic.reward.experts.loading.model_registry import bundles
from editcritic.reward.metrics.edival.task_parser import parse_task
from editcritic.reward.queries import ExpertDown

from . import tiny_detectors, tiny_rewarders, tiny_vlms

# Random words never end a JSON list of differences.
REWARD = "any-edit?list_differences=false"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
INSTRUCTION = "Change the color of cup to blue"


LOCAL = [
    name
    for name, bundle in bundles().items()
    if {"judge", "detector", "features"} <= bundle.own_roles.keys() and name != "large"
]


def tiny_dinov2(folder: Path) -> None:
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    transformers.Dinov2Model(transformers.Dinov2Config(image_size=56, patch_size=14, **shape)).save_pretrained(folder)
    size = {"height": 56, "width": 56}
    transformers.BitImageProcessorPil(size={"shortest_edge": 64}, crop_size=size).save_pretrained(folder)


def tiny_dinov3(folder: Path) -> None:
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.DINOv3ViTConfig(patch_size=16, image_size=64, num_register_tokens=4, **shape)
    transformers.DINOv3ViTModel(config).save_pretrained(folder)
    transformers.ViTImageProcessorPil(size={"height": 64, "width": 64}).save_pretrained(folder)


def tiny_hpsv3(folder: Path) -> None:
    """The weights of HPSv3, for the tokenizer of the base that `tiny_rewarders` writes."""
    tokenizer = tiny_rewarders.tiny_base(folder / "base", "qwen2_vl")
    tiny_rewarders.put(tiny_rewarders.tiny_weights("hpsv3", tokenizer), folder / "HPSv3.safetensors")


MODELS = {
    "Qwen/Qwen3-VL-2B-Instruct": tiny_vlms.tiny_qwen3_vl,
    "Qwen/Qwen3-VL-8B-Instruct": tiny_vlms.tiny_qwen3_vl,
    "Qwen/Qwen2-VL-7B-Instruct": lambda folder: tiny_vlms.tiny_qwen2_vl(folder, mlp_ratio=4),
    "Qwen/Qwen2.5-VL-7B-Instruct": tiny_vlms.tiny_qwen2_5_vl,
    "openmmlab-community/mm_grounding_dino_tiny_o365v1_goldg_v3det": lambda folder: tiny_detectors.grounding_dino(
        folder, mm=True
    ),
    "openmmlab-community/mm_grounding_dino_base_all": lambda folder: tiny_detectors.grounding_dino(folder, mm=True),
    "IDEA-Research/grounding-dino-tiny": tiny_detectors.grounding_dino,
    "facebook/sam3": tiny_detectors.sam3,
    "facebook/dinov2-small": tiny_dinov2,
    "facebook/dinov2-base": tiny_dinov2,
    "facebook/dinov2-large": tiny_dinov2,
    "facebook/dinov3-vitb16-pretrain-lvd1689m": tiny_dinov3,
    "facebook/dinov3-vitl16-pretrain-lvd1689m": tiny_dinov3,
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


def local_experts(reward: Reward) -> dict[str, LocalExpert[Any]]:
    return {role: expert for role, expert in reward.experts.items() if isinstance(expert, LocalExpert)}


@pytest.mark.parametrize("name", LOCAL)
def test_a_bundle_scores_with_the_models_it_names(name: str) -> None:
    reward = Reward.of(REWARD, name)
    (result,) = reward([EditSample("a", INSTRUCTION, (SOURCE,), EDITED, task=parse_task(INSTRUCTION))])
    assert result.status in ("scored", "not_applicable"), result.reason
    models = local_experts(reward)
    assert set(models) >= {"judge", "detector", "features"}
    for expert in models.values():
        assert expert.name in MODELS
        assert COMMIT[:12] in expert.id  # of the cache, not of somewhere else
    assert reward.experts["detector"].usage()["joint_passes"] > 0
    assert reward.experts["judge"].usage()["image_passes"] > 0


def test_laptop_looks_at_each_picture_once_and_asks_no_judge() -> None:
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


def test_laptop_asks_its_detector_about_what_has_no_box_only() -> None:
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


def test_edival_has_the_papers_preference_model() -> None:
    reward = Reward.of("edival-vq", "edival")
    (result,) = reward([EditSample("a", INSTRUCTION, (SOURCE,), EDITED)])
    assert result.status == "scored", result.reason
    assert reward.experts["preference"].usage()["image_passes"] == 2  # the source, too


def test_score_takes_a_bundle() -> None:
    found = [
        score(SOURCE, EDITED, INSTRUCTION, reward=REWARD, experts="small", task=parse_task(INSTRUCTION))
        for _ in range(2)
    ]
    assert found[0].status in ("scored", "not_applicable"), found[0].reason
    assert found[0].metric.startswith("any-edit@")
    assert found[0] == found[1]


def test_a_bundle_that_replaces_another_lets_go_of_its_weights() -> None:
    score(SOURCE, EDITED, INSTRUCTION, reward=REWARD, experts="small", task=parse_task(INSTRUCTION))
    judge = load_experts("small")["judge"]
    assert isinstance(judge, LocalExpert)
    weights = weakref.ref(judge.checkpoint.shared_weights)
    del judge
    assert weights() is not None
    score(SOURCE, EDITED, INSTRUCTION, reward=REWARD, experts="cpu")
    gc.collect()
    assert weights() is None


@pytest.mark.parametrize("name", ["laptop", "small"])
def test_the_load_plan_of_a_downloaded_bundle_is_exact(name: str) -> None:
    plan = plan_load([name])
    assert [bundle.name for bundle in plan.bundles] == [name]
    assert plan.downloads == {}
    local = [entry for entry in plan.entries if entry.model]
    assert {entry.source for entry in local} == {"hub cache"}
    assert {entry.revision for entry in local} == {COMMIT[:12]}
    assert all(entry.is_exact and not entry.problem for entry in local)
    assert plan.exit_code == 0


def test_a_gated_model_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the hub's client answers who has not accepted the terms."""
    response = httpx2.Response(403, request=httpx2.Request("GET", "http://127.0.0.1/"))

    def refuse(*_: object, **__: object) -> None:
        raise GatedRepoError("403: the terms are not accepted", response=response)

    monkeypatch.setattr(transformers_hub, "hf_hub_download", refuse)
    monkeypatch.setattr(transformers_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    features = load_experts("edival")["features"]
    with pytest.raises(ExpertDown, match=r"dinov3-vitb16.* is gated: accept its terms .* `hf auth login`"):
        _ = features.id


# -- a served judge ----------------------------------------------------------------------------------------------------


def instance(schema: dict[str, Any]) -> Any:
    """The smallest JSON of a schema."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        return {key: instance(schema["properties"][key]) for key in schema.get("required", ())}
    return {"array": [], "string": "", "integer": schema.get("minimum", 0), "boolean": False}.get(str(kind))


@pytest.fixture
def served() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The address of a server with one model, which answers yes to everything, and the requests it gets."""
    requests: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply({"object": "list", "data": [{"id": "judge-27b", "object": "model"}]})

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append(request)
            form = request.get("response_format", {}).get("json_schema", {}).get("schema")
            text = "Yes" if form is None else json.dumps(instance(form))
            message = {"role": "assistant", "content": text}
            choices = [{"index": 0, "finish_reason": "stop", "message": message}]
            self.reply({"id": "1", "object": "chat.completion", "choices": choices, "usage": None})

        def reply(self, document: Any) -> None:
            body = json.dumps(document).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", requests
        server.shutdown()


def test_large_queries_the_served_judge(
    served: tuple[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, requests = served
    monkeypatch.setenv("EDITCRITIC_JUDGE_URL", address)
    reward = Reward.of("any-edit", "large")
    (result,) = reward([EditSample("a", INSTRUCTION, (SOURCE,), EDITED)])
    assert result.status in ("scored", "not_applicable"), result.reason
    assert {request["model"] for request in requests} == {"judge-27b"}
    assert all(request["chat_template_kwargs"] == {"enable_thinking": False} for request in requests)
    assert reward.experts["detector"] is reward.experts["segmenter"]
    assert reward.experts["detector"].usage()["image_passes"] > 0
