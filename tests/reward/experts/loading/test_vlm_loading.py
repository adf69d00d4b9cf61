"""Vision-language models in published layouts: a LoRA on its base, and a subfolder of a hub repository."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from editcritic.reward import Image
from editcritic.reward.experts.loading.hub_files import split_repository
from editcritic.reward.experts.vlm import Vlm
from editcritic.reward.queries import ExpertDown, Judge, Message, YesNo
from editcritic.reward.queries.response_formats import Reply

from ..tiny_vlms import tiny_qwen2_5_vl, tiny_qwen3_vl

BASES = {"qwen2_5_vl": tiny_qwen2_5_vl, "qwen3_vl": tiny_qwen3_vl}
PICTURE = Image.of(np.random.default_rng(0).integers(0, 256, (56, 56, 3), dtype=np.uint8))
ASKED = Judge((Message((PICTURE, "Is it good?")),), YesNo())


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


def judge(folder: Path, **options: Any) -> Vlm:
    return Vlm(str(folder), device="cpu", min_option_mass=0.0, **options)


def yes(expert: Vlm) -> float:
    (reply,) = expert([ASKED])
    assert isinstance(reply, Reply)
    return reply.probabilities["yes"]


def copied(adapter: Path, to: Path, names: Any) -> Path:
    shutil.copy(adapter / "adapter_config.json", to)
    weights = load_file(adapter / "adapter_model.safetensors")
    save_file({names(name): value for name, value in weights.items()}, to / "adapter_model.safetensors")
    return to


def test_a_lora_answers_as_the_merged_model_does(base, adapter, tmp_path):
    plain = transformers.AutoModelForImageTextToText.from_pretrained(base)
    peft.PeftModel.from_pretrained(plain, adapter).merge_and_unload().save_pretrained(tmp_path)
    transformers.AutoProcessor.from_pretrained(base).save_pretrained(tmp_path)
    with_adapter, merged = yes(judge(base, lora=str(adapter))), yes(judge(tmp_path))
    assert with_adapter == pytest.approx(merged, abs=1e-5)
    assert abs(with_adapter - yes(judge(base))) > 1e-3  # the comparison detects a missing adapter


def test_the_id_holds_model_and_adapter(base, adapter, tmp_path):
    trained_on = tmp_path / adapter.name
    shutil.copytree(adapter, trained_on)
    weights = load_file(adapter / "adapter_model.safetensors")
    save_file({name: 1.01 * value for name, value in weights.items()}, trained_on / "adapter_model.safetensors")
    ids = [judge(base).id, judge(base, lora=str(adapter)).id, judge(base, lora=str(trained_on)).id]
    assert len(set(ids)) == 3
    assert ids[1].startswith(f"{ids[0]} lora={adapter.name}@")


def test_an_adapter_that_was_trained_further_is_read_again_by_all_who_share_it(base, adapter, tmp_path):
    trained = copied(adapter, tmp_path, lambda name: name)
    one, other = judge(base, lora=str(trained)), judge(base, lora=str(trained))
    before = (yes(one), one.id, other.id)
    weights = load_file(trained / "adapter_model.safetensors")
    save_file({name: 1.5 * value for name, value in weights.items()}, trained / "adapter_model.safetensors")
    one.unload()
    assert one.id == other.id != before[1] == before[2]
    assert yes(other) == yes(one)


def test_an_adapter_for_another_model_is_refused(base, adapter, tmp_path):
    other = copied(adapter, tmp_path, lambda name: name.replace("layers.1.self_attn", "layers.7.self_attn"))
    with pytest.raises(ExpertDown, match=r"the LoRA .* weights .*: it is for another model"):
        judge(base, lora=str(other)).load()


@pytest.mark.parametrize("base", ["qwen2_5_vl"], indirect=True)  # Qwen3-VL has only one layout
def test_names_of_older_libraries_are_known(adapter, base, tmp_path):
    old = copied(
        adapter,
        tmp_path,
        lambda name: name.replace("model.model.language_model.", "model.model.").replace(
            "model.model.visual", "model.visual"
        ),
    )
    assert yes(judge(base, lora=str(old))) == pytest.approx(yes(judge(base, lora=str(adapter))), abs=1e-6)


def test_an_adapter_alone_is_refused_and_says_for_what_it_is(adapter):
    with pytest.raises(ExpertDown, match=r"it is an adapter for .*: give that model .* as name, and this one as lora"):
        judge(adapter).load()


def test_a_base_that_lacks_weights_is_refused_with_an_adapter_too(base, adapter, tmp_path):
    shutil.copytree(base, tmp_path, dirs_exist_ok=True)
    weights = load_file(tmp_path / "model.safetensors")
    lacking = next(name for name in weights if "layers.0.mlp.up_proj" in name)
    save_file(
        {name: value for name, value in weights.items() if name != lacking},
        tmp_path / "model.safetensors",
        metadata={"format": "pt"},
    )
    with pytest.raises(ExpertDown, match="lacks 1 of its weights"):
        judge(tmp_path, lora=str(adapter)).load()


def test_a_folder_of_a_model_on_the_hub_is_a_model(base, tmp_path, monkeypatch):
    cache = tmp_path / "models--someone--family"
    (cache / "refs").mkdir(parents=True)
    (cache / "refs" / "main").write_text("c0ffee" * 6 + "abcd", encoding="utf-8")
    shutil.copytree(base, cache / "snapshots" / ("c0ffee" * 6 + "abcd") / "rating" / "large")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("transformers.utils.hub.TRANSFORMERS_CACHE", str(tmp_path), raising=False)
    expert = Vlm("someone/family/rating/large", device="cpu", min_option_mass=0.0)
    assert "someone/family/rating/large@c0ffeec0ffee" in expert.id
    assert yes(expert) == yes(judge(base))


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("owner/model", ("owner/model", "")),
        ("owner/model/a/b", ("owner/model", "a/b")),
        ("gpt2", ("gpt2", "")),
        ("/nowhere/of/mine", ("/nowhere/of/mine", "")),
    ],
)
def test_names_on_the_hub_and_folders_in_them(name, parts):
    assert split_repository(name) == parts
