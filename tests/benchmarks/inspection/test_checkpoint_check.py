"""A model's scores compared with published ones."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.inspection import checkpoint_check
from editcritic.benchmarks.inspection.expert_probe import synthetic_image
from editcritic.benchmarks.run.run_settings import format_toml
from editcritic.reward import Image, load_experts
from editcritic.reward.experts.clip import Clip
from editcritic.reward.experts.clip_preference import PickScore
from editcritic.reward.queries import Detect, Embed, Rate, Region
from editcritic.reward.queries.kinds import EmbedText
from editcritic.reward.toml_files import tomllib
from studies.performance.random_models import random_models

from ...reward.experts import formats
from ...reward.experts.tiny_clips import SMALL, clip_config, saved_processor
from ..conftest import Command

PROMPTS = ("a cat", "two red boats")


@pytest.fixture(autouse=True)
def trusted(monkeypatch):
    """The folders of weights, and the experts, that files here name."""
    monkeypatch.setenv("EDITCRITIC_TRUST", f"tests {tempfile.gettempdir()}")


@pytest.fixture(scope="module")
def models() -> Iterator[Any]:
    """A detector and features."""
    with random_models("tiny", ["detector", "features"]) as experts:
        yield experts


@pytest.fixture(scope="module")
def rater(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One checkpoint for a rater and a CLIP."""
    folder = saved_processor(tmp_path_factory.mktemp("rater"))
    clip_config().save_pretrained(folder)
    weights = formats.load("pickscore").random(seed=3, **SMALL) | {"logit_scale": torch.tensor(np.log(100.0))}
    save_file(weights, Path(folder) / "model.safetensors", {"format": "pt"})
    return str(folder)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(2):
        small = PIL.Image.fromarray(synthetic_image(number).pixels[::8, ::8])
        small.save(folder / f"{number}.png")
    return folder


def reference(folder: Path, expert: str, *items: dict[str, Any], **more: Any) -> Path:
    head = {"model": "tiny", "expert": expert, "source": "made here", **more}
    path = folder / "reference.toml"
    path.write_text(format_toml({**head, "item": list(items)}))
    return path


def checked(reference: Path, images: Path, *experts: str) -> Any:
    return checkpoint_check.check_model(str(reference), images, experts)


def rated(rater: str, folder: Path, images: Path) -> Path:
    """A reference with the rater's scores of two images."""
    expert: Any = PickScore(rater, base=rater, device="cpu")
    items = [
        {"image": f"{n}.png", "prompt": prompt, "tolerance": 1e-3, "value": answer.value}
        for n, prompt in enumerate(PROMPTS)
        for answer in expert([Rate(Image.of(images / f"{n}.png"), prompt)])
    ]
    return reference(folder, spec(rater), *items)


def spec(rater: str) -> str:
    return f"editcritic.reward.experts.clip_preference:PickScore?name={rater}&base={rater}&device=cpu"


def changed(folder: str, place: Path) -> str:
    """The same model with one changed tensor."""
    shutil.copytree(folder, place)
    weights = load_file(place / "model.safetensors")
    name = "visual_projection.weight"
    save_file({**weights, name: 1.5 * weights[name] + 0.1}, place / "model.safetensors", {"format": "pt"})
    return str(place)


def test_what_one_load_answered_the_next_one_answers_and_a_changed_weight_is_seen(rater, tmp_path, images):
    path = rated(rater, tmp_path, images)
    check = checked(path, images)
    assert ([row.verdict for row in check.rows], check.exit_code) == (["agrees", "agrees"], 0)
    check = checked(path, images, f"model={spec(changed(rater, tmp_path / 'other'))}")
    assert ({row.verdict for row in check.rows}, check.exit_code) == ({"differs"}, 1)
    assert all(row.difference > row.tolerance for row in check.rows)


def test_boxes_and_features_and_nearness_are_compared_as_well(models, rater, tmp_path, images):
    image = Image.of(images / "0.png")
    options = "device=cpu&backend=pil"
    finder = f"grounding-dino:{models['detector'].name}?{options}&min_score=0"
    dino = f"dino:{models['features'].name}?{options}"
    experts: dict[str, Any] = dict(load_experts(f"detector='{finder}' features='{dino}'"))
    (detections,) = experts["detector"]([Detect(image, ("cup", "red cup"))])
    box = detections.boxes[-1]
    width, height = image.size
    corners = [box.x0 * width, box.y0 * height, box.x1 * width, box.y1 * height]
    item = {"image": "0.png", "query": "detect", "phrases": ["cup", "red cup"], "tolerance": 1e-4, "value": box.score}
    full_item = {**item, "label": box.label, "box": corners, "box_tolerance": 0.1}
    check = checked(reference(tmp_path, finder, full_item), images)
    assert [row.verdict for row in check.rows] == ["agrees", "agrees"]
    moved = {**full_item, "box": [side + 1 for side in corners]}
    check = checked(reference(tmp_path, finder, moved), images)
    assert (check.rows[1].difference, check.exit_code) == (pytest.approx(1, abs=0.2), 1)

    (vectors,) = experts["features"]([Embed(image, (Region("cls"),))])
    first = {"image": "0.png", "query": "embed", "values": vectors.values[0][:5].tolist(), "tolerance": 1e-4}
    assert checked(reference(tmp_path, dino, first), images).exit_code == 0

    clip: Any = Clip(rater, device="cpu")
    (image_embedding,), (text_embedding,) = clip([Embed(image, (Region("cls"),))]), clip([EmbedText("a cat")])
    a, b = image_embedding.values[0], text_embedding.values[0]
    cosine = float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    for value, code in ((cosine, 0), (cosine - 0.01, 1)):
        near = {"image": "0.png", "query": "similarity", "text": "a cat", "value": value, "tolerance": 1e-4}
        assert checked(reference(tmp_path, f"clip:{rater}?device=cpu", near), images).exit_code == code


def test_what_the_expert_cannot_answer_is_failed_and_not_a_number(rater: str, tmp_path: Path, images: Path) -> None:
    item = {"image": "0.png", "prompt": "a cat", "quality": "blur", "value": 1.0, "tolerance": 0.1}
    check = checked(reference(tmp_path, spec(rater), item), images)
    assert ([row.verdict for row in check.rows], check.exit_code) == (["failed"], 1)
    assert "preference only" in check.rows[0].actual


def test_missing_pictures_are_named_with_where_they_are_from(rater, tmp_path, images, editcritic):
    item = {"prompt": "a cat", "value": 1.0, "tolerance": 0.1}
    items = [{"image": "0.png"}, {"image": "7.png"}, {"image": "8.png", "url": "https://elsewhere.test/8"}]
    where = "https://there.test/data/"
    path = reference(tmp_path, spec(rater), *({**one, **item} for one in items), images_url=where)
    missing = f"7.png from {where}7.png, 8.png from https://elsewhere.test/8"
    refused = editcritic("doctor", "--check-model", path, "--images", images, code=2, says=missing)
    assert "0.png" not in refused.stderr


def test_missing_weights_are_named_with_how_to_get_them(tmp_path, images, editcritic, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    shutil.copy(images / "0.png", images / "000000077595.jpg")
    command = ("doctor", "--check-model", "sam3", "--images", images)
    advice = "hf download facebook/sam3 (SAM License, gated: accept its terms there first)"
    assert "images are missing" not in editcritic(*command, code=2, says=advice).stderr
    editcritic(*command, "--experts", f"x=sam3:{tmp_path}", says=f"{tmp_path} lacks model.safetensors")


def test_a_picture_may_have_another_format_but_no_other_content(rater: str, tmp_path: Path, images: Path) -> None:
    item = {"prompt": "a cat", "value": 1.0, "tolerance": 1e6}
    right = hashlib.sha256((images / "0.png").read_bytes()).hexdigest()
    for known in ({"image": "0.webp"}, {"image": "0.png", "sha256": right}):
        assert checked(reference(tmp_path, spec(rater), {**known, **item}), images).exit_code == 0
    path = reference(tmp_path, spec(rater), {"image": "0.png", "sha256": "0" * 64, **item})
    with pytest.raises(InputError, match=f"differs from the scored image: its sha256 is {right}"):
        checked(path, images)


def test_the_command_prints_what_was_expected_and_got(rater, tmp_path, images, editcritic):
    path = rated(rater, tmp_path, images)
    shown = editcritic("doctor", "--check-model", path, "--images", images, code=0)
    for text in ["0.png", "1.png", "preference", "agrees", "PickScore@", "Published: made here"]:
        assert text in shown.stdout
    document = json.loads(editcritic("doctor", "--check-model", path, "--images", images, "--json").stdout)
    assert [row["verdict"] for row in document["rows"]] == ["agrees", "agrees"]


@pytest.mark.parametrize(
    ("name", "experts", "message"),
    [
        ("nothing", [], "there is no reference 'nothing': there are clip-vit-base-patch32"),
        ("nowhere.toml", [], "cannot read nowhere.toml"),
        ("sam3", ["--experts", "a=pixels b=colour"], "--check-model compares one expert, got 2"),
        ("sam3", ["--experts", "a=pixxels"], "did you mean pixels"),
    ],
)
def test_nonsense_is_told_in_one_line(name: str, experts: list[str], message: str, editcritic: Command) -> None:
    refused = editcritic("doctor", "--check-model", name, *experts, code=2, says=message)
    assert len(refused.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({}, "needs value"),
        ({"value": 1.0, "tolerance": 0.0}, "greater than 0"),
        ({"value": 1.0, "colour": "red"}, "Extra inputs"),
        ({"query": "detect", "value": 1.0}, "needs phrases"),
        ({"query": "detect", "value": 1.0, "phrases": ["a"], "label": "b"}, "not one of the phrases"),
        ({"query": "similarity", "value": 1.0}, "needs text"),
        ({"query": "embed"}, "needs values"),
    ],
)
def test_a_reference_that_means_nothing_is_refused(item: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = reference(tmp_path, "pixels", {"image": "0.png", "tolerance": 0.1, **item})
    with pytest.raises(InputError, match=message):
        checkpoint_check.read_reference(str(path))


def test_those_that_come_with_the_package_can_be_asked() -> None:
    for name, text in checkpoint_check.references().items():
        entry = checkpoint_check.read_reference(name)
        assert entry.source.startswith("https://"), name
        (expert,) = load_experts(f"x={entry.expert}").values()
        query_types = {"rate": Rate, "detect": Detect, "similarity": EmbedText, "embed": Embed}
        assert {query_types[item.query] for item in entry.item} <= set(expert.kinds), name
        assert all(item.url or entry.images_url for item in entry.item), name
        assert tomllib.loads(text)


def test_the_names_of_references_are_listed(editcritic: Command) -> None:
    assert editcritic("doctor", "--check-model", "list").stdout.split() == list(checkpoint_check.references())
    assert json.loads(editcritic("doctor", "--check-model", "list", "--json").stdout) == list(
        checkpoint_check.references()
    )
