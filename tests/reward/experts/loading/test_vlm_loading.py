"""Vision-language models in published layouts: InternVL's own, a LoRA on its base, and a subfolder of a repository."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.nn import functional

from editcritic.reward.experts.loading.vlm_loading import (
    VisionLanguageModel,
    VisionLanguageProcessor,
    make_config,
    rename_weights,
)
from editcritic.reward.experts.vlm import Vlm
from editcritic.reward.queries import Judge, Message, YesNo

from ...fakes import picture
from .. import formats, tiny_internvl_chat
from ..asking import assert_down
from ..checkpoints import without_weights
from ..tiny_vlms import tiny_qwen2_5_vl, tiny_qwen3_vl


def judge(folder: Path, **options: Any) -> Any:
    return Vlm(str(folder), device="cpu", min_option_mass=0.0, **options)


def yes(expert: Any, number: int = 0) -> float:
    query = Judge((Message((picture(number, 56, 56), "Is it good?")),), YesNo())
    (reply,) = expert([query])
    query.check(reply)
    return float(reply.probabilities["yes"])


def tensors(folder: Path) -> dict[str, torch.Tensor]:
    return {name: value for file in folder.glob("*.safetensors") for name, value in load_file(file).items()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    where = tmp_path_factory.mktemp("internvl_chat")
    tiny_internvl_chat.save(where)
    return where


@pytest.fixture
def copy(folder, tmp_path) -> Path:
    return Path(shutil.copytree(folder, tmp_path, dirs_exist_ok=True))


def by_hand(w: dict[str, torch.Tensor], pixels: torch.Tensor) -> torch.Tensor:
    """Outputs of vision tower and projector, computed from the published weights only."""
    v = {name.removeprefix("vision_model."): value for name, value in w.items() if name.startswith("vision_model.")}
    kernel, bias = (v[f"embeddings.patch_embedding.{name}"] for name in ("weight", "bias"))
    width = kernel.shape[0]
    x = functional.conv2d(pixels, kernel, bias, stride=kernel.shape[-1])
    n, side = x.shape[0], x.shape[-1]
    x = torch.cat([v["embeddings.class_embedding"].expand(n, 1, width), x.flatten(2).transpose(1, 2)], 1)
    x = x + v["embeddings.position_embedding"]
    for number in range(tiny_internvl_chat.SIZES["blocks"]):
        layer = {key.partition(f"layers.{number}.")[2]: value for key, value in v.items() if f"layers.{number}." in key}
        y = functional.layer_norm(x, (width,), layer["norm1.weight"], layer["norm1.bias"], 1e-6)
        y = functional.linear(y, layer["attn.qkv.weight"], layer["attn.qkv.bias"])
        q, k, value = y.reshape(n, -1, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, value).transpose(1, 2).reshape(n, -1, width)
        x = x + layer["ls1"] * functional.linear(y, layer["attn.proj.weight"], layer["attn.proj.bias"])
        y = functional.layer_norm(x, (width,), layer["norm2.weight"], layer["norm2.bias"], 1e-6)
        y = functional.gelu(functional.linear(y, layer["mlp.fc1.weight"], layer["mlp.fc1.bias"]))
        x = x + layer["ls2"] * functional.linear(y, layer["mlp.fc2.weight"], layer["mlp.fc2.bias"])
    x = x[:, 1:].reshape(n, side // 2, 2, side // 2, 2, width).permute(0, 1, 3, 2, 4, 5)
    x = x.reshape(n, -1, 4 * width)  # four patches in a square are one token
    x = functional.layer_norm(x, (4 * width,), w["mlp1.0.weight"], w["mlp1.0.bias"])
    x = functional.gelu(functional.linear(x, w["mlp1.1.weight"], w["mlp1.1.bias"]))
    return functional.linear(x, w["mlp1.3.weight"], w["mlp1.3.bias"])


def test_published_names_and_shapes_fill_the_model_at_full_size():
    table = formats.load("artimuse")
    chat_config = tiny_internvl_chat.config(table.sizes, (16, 28, 4))
    with torch.device("meta"):
        model = transformers.InternVLForConditionalGeneration(make_config(chat_config, image_token_id=151667))
        weights = {name: torch.empty(shape) for name, shape in table.shapes().items()}
    assert sum(value.numel() for value in weights.values()) == pytest.approx(7.94e9, rel=1e-3)
    own, renamed = model.state_dict(), rename_weights(weights)
    assert {name: value.shape for name, value in renamed.items()} == {name: value.shape for name, value in own.items()}


def test_both_sides_are_those_of_the_published_weights_and_pictures_are_prepared_as_config_says(folder):
    model, info = VisionLanguageModel.from_pretrained(str(folder), dtype=torch.float32, output_loading_info=True)
    assert not info["missing_keys"]
    weights = tensors(folder)
    tiles = torch.randn(3, 3, 56, 56, generator=torch.Generator().manual_seed(0))
    seen = torch.randn(1, 9, 32, generator=torch.Generator().manual_seed(1))
    plain = transformers.Qwen2ForCausalLM(model.config.text_config).eval()
    language = {name.partition(".")[2]: value for name, value in weights.items() if name.startswith("language_model.")}
    plain.load_state_dict(language)
    with torch.no_grad():
        pairs = [(model.get_image_features(pixel_values=tiles).pooler_output, by_hand(weights, tiles))]
        pairs += [(model(inputs_embeds=seen).logits, plain(inputs_embeds=seen).logits)]
    for ours, expected in pairs:
        assert expected.std() > 0.1
        assert (ours - expected).abs().max() < 1e-4
    assert model.generation_config.eos_token_id == [plain.config.vocab_size - 5]  # <|im_end|>
    processor = VisionLanguageProcessor.from_pretrained(str(folder))
    image = picture(0, 56, 56)
    content = [{"type": "image", "image": image.pil()}, {"type": "text", "text": "Good?"}]
    options: dict[str, Any] = {"tokenize": True, "return_dict": True, "return_tensors": "pt"}
    inputs = processor.apply_chat_template(
        [{"role": "user", "content": content}], add_generation_prompt=True, **options
    )
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    expected = ((image.pixels / 255.0 - mean) / std).transpose(2, 0, 1)
    assert np.abs(inputs["pixel_values"][0].numpy() - expected).max() < 1e-5
    shown = "<img>" + "<IMG_CONTEXT>" * 4 + "</img>\nGood?"
    message = processor.tokenizer.decode(inputs["input_ids"][0])
    assert message == f"<|im_start|>user\n{shown}<|im_end|>\n<|im_start|>assistant\n"


def test_vlm_answers_with_it_and_runs_none_of_its_code_and_a_tokenizer_without_the_marks_is_refused(copy):
    for file in ("configuration_internvl_chat.py", "modeling_internvl_chat.py"):
        (copy / file).write_text("raise SystemExit('this was run')", encoding="utf-8")
    expert = judge(copy)
    assert yes(expert) != yes(expert, 1)
    for file in ("tokenizer_config.json", "added_tokens.json"):
        text = (copy / file).read_text(encoding="utf-8")
        (copy / file).write_text(text.replace("<IMG_CONTEXT>", "<OTHER>"), encoding="utf-8")
    assert_down(judge(copy), "its tokenizer lacks <IMG_CONTEXT>")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"ps_version": "v1"}, r"ps_version = v1, only v2 is supported: convert it to the -hf format"),
        ({"select_layer": -4}, r"select_layer = -4"),
        ({"use_llm_lora": 16}, r"use_llm_lora = 16"),
        ({"llm_config": {"model_type": "internlm2"}}, r"llm_config.model_type = internlm2, only qwen2 or qwen3"),
        ({"force_image_size": 224}, r"force_image_size = 224, only 56"),
    ],
)
def test_variants_that_are_not_known_are_refused(copy, config, message):
    file = copy / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | config), encoding="utf-8")
    assert_down(judge(copy), message)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mlp1.3.bias", r"lacks 1 of its weights \(model.multi_modal_projector.linear_2.bias\)"),
        ("language_model.base_model.x.lora_A.weight", "merge a LoRA"),
        ("vision_model.encoder.layers.0.attn.new.weight", "unknown to this format"),
        ("language_model.model.layers.7.mlp.up_proj.weight", "InternVL does not have"),
    ],
)
def test_weights_that_are_lacking_or_have_no_place_are_refused(copy, name, message):
    weights = tensors(copy)
    if weights.pop(name, None) is None:
        weights[name] = torch.zeros(2)
    for file in [*copy.glob("*.safetensors"), copy / "model.safetensors.index.json"]:
        file.unlink()
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    assert_down(judge(copy), message)


BASES = {"qwen2_5_vl": tiny_qwen2_5_vl, "qwen3_vl": tiny_qwen3_vl}


@pytest.fixture(scope="module", params=BASES)
def base(request, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp(request.param)
    BASES[request.param](path)
    return path


@pytest.fixture(scope="module")
def adapter(base, tmp_path_factory) -> Path:
    """As trainers save one: on the language model and, as EditScore's for Qwen3-VL, on the vision tower."""
    path = tmp_path_factory.mktemp("lora")
    torch.manual_seed(0)
    model = transformers.AutoModelForImageTextToText.from_pretrained(base)
    settings = peft.LoraConfig(r=2, target_modules=["q_proj", "v_proj", "down_proj", "qkv"], init_lora_weights=False)
    peft.get_peft_model(model, settings).save_pretrained(path)
    return path


def changed(adapter: Path, to: Path, names: Any = lambda name: name, factor: float = 1.0) -> Path:
    """A copy with other names or values of weights."""
    weights = load_file(adapter / "adapter_model.safetensors")
    if to != adapter:
        shutil.copy(adapter / "adapter_config.json", to)
    save_file({names(name): factor * value for name, value in weights.items()}, to / "adapter_model.safetensors")
    return to


def test_a_lora_answers_as_the_merged_model_does_and_is_in_the_id(base, adapter, tmp_path):
    plain = transformers.AutoModelForImageTextToText.from_pretrained(base)
    peft.PeftModel.from_pretrained(plain, adapter).merge_and_unload().save_pretrained(tmp_path)
    transformers.AutoProcessor.from_pretrained(base).save_pretrained(tmp_path)
    alone, with_adapter = judge(base), judge(base, lora=str(adapter))
    assert yes(with_adapter) == pytest.approx(yes(judge(tmp_path)), abs=1e-5)
    assert abs(yes(with_adapter) - yes(alone)) > 1e-3  # the comparison detects a missing adapter
    assert with_adapter.id.startswith(f"{alone.id} lora={adapter.name}@")


def test_an_adapter_that_was_trained_further_is_read_again_by_all_who_share_it(base, adapter, tmp_path):
    trained = changed(adapter, tmp_path)
    one, other = judge(base, lora=str(trained)), judge(base, lora=str(trained))
    before, yes_before = one.id, yes(one)
    assert other.id == before
    changed(trained, trained, factor=1.5)
    one.unload()
    assert one.id == other.id != before
    assert yes(other) == yes(one) != yes_before


def test_adapters_for_another_model_or_alone_and_bases_that_lack_weights_are_refused(base, adapter, tmp_path):
    other = changed(adapter, tmp_path, lambda name: name.replace("layers.1.self_attn", "layers.7.self_attn"))
    lacking, _ = without_weights(base, tmp_path / "base", "layers.0.mlp.up_proj")
    cases = [
        (judge(base, lora=str(other)), r"the LoRA .* weights .*: it is for another model"),
        (judge(adapter), r"it is an adapter for .*: give that model .* as name, and this one as lora"),
        (judge(lacking, lora=str(adapter)), "lacks 1 of its weights"),
    ]
    for expert, message in cases:
        assert_down(expert, message)


@pytest.mark.parametrize("base", ["qwen2_5_vl"], indirect=True)  # Qwen3-VL has only one layout
def test_names_of_older_libraries_are_known(adapter, base, tmp_path):
    def older(name: str) -> str:
        name = name.replace("model.model.language_model.", "model.model.")
        return name.replace("model.model.visual", "model.visual")

    old = changed(adapter, tmp_path, older)
    assert yes(judge(base, lora=str(old))) == pytest.approx(yes(judge(base, lora=str(adapter))), abs=1e-6)


def test_a_folder_of_a_model_on_the_hub_is_a_model(base, tmp_path, monkeypatch):
    cache, commit = tmp_path / "models--someone--family", "c0ffee" * 6 + "abcd"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text(commit, encoding="utf-8")
    shutil.copytree(base, cache / "snapshots" / commit / "rating" / "large")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("transformers.utils.hub.TRANSFORMERS_CACHE", str(tmp_path), raising=False)
    expert = judge(Path("someone/family/rating/large"))
    assert "someone/family/rating/large@c0ffeec0ffee" in expert.id
    assert yes(expert) == yes(judge(base))
