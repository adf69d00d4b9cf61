"""InternVL in its authors' format: published names at full size, and outputs checked at a small size."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.nn import functional

from editcritic.reward import Image
from editcritic.reward.experts.loading.vlm_loading import (
    VisionLanguageModel,
    VisionLanguageProcessor,
    make_config,
    rename_weights,
)
from editcritic.reward.experts.vlm import Vlm
from editcritic.reward.queries import ExpertDown, Judge, Message, YesNo
from editcritic.reward.queries.response_formats import Reply

from .. import formats, tiny_internvl_chat


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    where = tmp_path_factory.mktemp("internvl_chat")
    tiny_internvl_chat.save(where)
    return where


def picture(seed: int, width: int, height: int) -> Image:
    return Image.of(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def loaded(folder: Path) -> tuple[Any, Any]:
    return VisionLanguageModel.from_pretrained(str(folder), dtype=torch.float32, output_loading_info=True)


def published(folder: Path) -> dict[str, torch.Tensor]:
    return {name: value for file in folder.glob("*.safetensors") for name, value in load_file(file).items()}


def by_hand(w: dict[str, torch.Tensor], pixels: torch.Tensor) -> torch.Tensor:
    """Outputs of vision tower and projector, computed from the published weights only."""
    v = {name.removeprefix("vision_model."): value for name, value in w.items() if name.startswith("vision_model.")}
    width, patch = v["embeddings.patch_embedding.weight"].shape[0], v["embeddings.patch_embedding.weight"].shape[-1]
    x = functional.conv2d(
        pixels, v["embeddings.patch_embedding.weight"], v["embeddings.patch_embedding.bias"], stride=patch
    )
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
    assert {name: value.shape for name, value in rename_weights(weights).items()} == {
        name: value.shape for name, value in model.state_dict().items()
    }


def test_the_vision_side_is_that_of_the_published_weights(folder):
    model, info = loaded(folder)
    assert not info["missing_keys"]
    tiles = torch.randn(3, 3, 56, 56, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        features = model.get_image_features(pixel_values=tiles).pooler_output
    expected = by_hand(published(folder), tiles)
    assert expected.std() > 0.1
    assert (features - expected).abs().max() < 1e-4


def test_the_language_side_is_that_of_the_published_weights(folder):
    model, _ = loaded(folder)
    own = {
        name.removeprefix("language_model."): value
        for name, value in published(folder).items()
        if name.startswith("language_model.")
    }
    plain = transformers.Qwen2ForCausalLM(model.config.text_config).eval()
    plain.load_state_dict(own)
    seen = torch.randn(1, 9, 32, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = plain(inputs_embeds=seen).logits
        assert (model(inputs_embeds=seen).logits - expected).abs().max() < 1e-4
    assert expected.std() > 0.1
    assert model.generation_config.eos_token_id == [plain.config.vocab_size - 5]  # <|im_end|>


def test_pictures_are_prepared_as_config_says(folder):
    processor = VisionLanguageProcessor.from_pretrained(str(folder))
    image = picture(0, 56, 56)
    queries = [
        {"role": "user", "content": [{"type": "image", "image": image.pil()}, {"type": "text", "text": "Good?"}]}
    ]
    inputs = processor.apply_chat_template(
        queries, tokenize=True, return_dict=True, return_tensors="pt", add_generation_prompt=True
    )
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    expected = ((image.pixels / 255.0 - mean) / std).transpose(2, 0, 1)
    assert np.abs(inputs["pixel_values"][0].numpy() - expected).max() < 1e-5
    message = processor.tokenizer.decode(inputs["input_ids"][0])
    shown = "<img>" + "<IMG_CONTEXT>" * 4 + "</img>\nGood?"
    assert message == f"<|im_start|>user\n{shown}<|im_end|>\n<|im_start|>assistant\n"


def test_vlm_answers_with_it_and_runs_none_of_its_code(folder):
    for file in ("configuration_internvl_chat.py", "modeling_internvl_chat.py"):
        (folder / file).write_text("raise SystemExit('this was run')", encoding="utf-8")
    judge = Vlm(str(folder), device="cpu", min_option_mass=0.0)
    queries = [Judge((Message((picture(n, 60, 40), "Is it good?")),), YesNo()) for n in range(2)]
    replies = judge(queries)
    for query, reply in zip(queries, replies, strict=True):
        query.check(reply)
    first, second = (reply.probabilities["yes"] for reply in replies if isinstance(reply, Reply))
    assert first != second
    assert judge.id.startswith("Vlm@2 internvl_chat")


def changed(folder: Path, to: Path, **config: Any) -> Path:
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    chat_config = json.loads((to / "config.json").read_text(encoding="utf-8"))
    (to / "config.json").write_text(json.dumps(chat_config | config), encoding="utf-8")
    return to


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
def test_variants_that_are_not_known_are_refused(folder, tmp_path, config, message):
    with pytest.raises(ExpertDown, match=message):
        Vlm(str(changed(folder, tmp_path, **config)), device="cpu").load()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w.pop("mlp1.3.bias"), r"lacks 1 of its weights \(model.multi_modal_projector.linear_2.bias\)"),
        (lambda w: w.update({"language_model.base_model.x.lora_A.weight": torch.zeros(2)}), "merge a LoRA"),
        (
            lambda w: w.update({"vision_model.encoder.layers.0.attn.new.weight": torch.zeros(2)}),
            "unknown to this format",
        ),
        (
            lambda w: w.update({"language_model.model.layers.7.mlp.up_proj.weight": torch.zeros(2)}),
            "InternVL does not have",
        ),
    ],
)
def test_weights_that_are_lacking_or_have_no_place_are_refused(folder, tmp_path, change, message):
    changed(folder, tmp_path)
    weights = published(tmp_path)
    change(weights)
    for file in [*tmp_path.glob("*.safetensors"), tmp_path / "model.safetensors.index.json"]:
        file.unlink()
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ExpertDown, match=message):
        Vlm(str(tmp_path), device="cpu").load()


def test_a_tokenizer_without_the_marks_is_refused(folder, tmp_path):
    changed(folder, tmp_path)
    for file in ("tokenizer_config.json", "added_tokens.json"):
        text = (tmp_path / file).read_text(encoding="utf-8")
        (tmp_path / file).write_text(text.replace("<IMG_CONTEXT>", "<OTHER>"), encoding="utf-8")
    with pytest.raises(ExpertDown, match="its tokenizer lacks <IMG_CONTEXT>"):
        Vlm(str(tmp_path), device="cpu").load()
