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
from pydantic import ValidationError
from safetensors.torch import load_file, save_file

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.inspection import checkpoint_check
from editcritic.benchmarks.inspection import checkpoint_check as published
from editcritic.benchmarks.inspection.expert_probe import synthetic_image
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
def detector() -> Iterator[str]:
    with random_models("tiny", ["detector", "features"]) as experts:
        yield experts["detector"].name


@pytest.fixture(scope="module")
def features() -> Iterator[str]:
    with random_models("tiny", ["features"]) as experts:
        yield experts["features"].name


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


def toml(value: Any) -> str:
    return json.dumps(value)  # texts, numbers and lists of them are written alike


def reference(folder: Path, expert: str, *items: dict[str, Any], **more: Any) -> Path:
    head = {"model": "tiny", "expert": expert, "source": "made here", **more}
    lines = [f"{key} = {toml(value)}" for key, value in head.items()]
    for item in items:
        lines += ["[[item]]", *(f"{key} = {toml(value)}" for key, value in item.items())]
    path = folder / "reference.toml"
    path.write_text("\n".join(lines))
    return path


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


def test_what_one_load_answered_the_next_one_answers(rater: str, tmp_path: Path, images: Path) -> None:
    check = checkpoint_check.check_model(str(rated(rater, tmp_path, images)), images)
    assert ([row.verdict for row in check.rows], check.exit_code) == (["agrees", "agrees"], 0)


def test_a_changed_weight_is_seen(rater: str, tmp_path: Path, images: Path) -> None:
    name = str(rated(rater, tmp_path, images))
    other = changed(rater, tmp_path / "other")
    check = checkpoint_check.check_model(name, images, [f"model={spec(other)}"])
    assert {row.verdict for row in check.rows} == {"differs"}
    assert all(row.difference is not None and row.difference > row.tolerance for row in check.rows)
    assert check.exit_code == 1


def test_boxes_and_features_and_nearness_are_compared_as_well(detector, features, rater, tmp_path, images):
    image = Image.of(images / "0.png")
    options = "device=cpu&backend=pil"
    finder = f"grounding-dino:{detector}?{options}&min_score=0"
    experts: dict[str, Any] = dict(load_experts(f"detector='{finder}' features='dino:{features}?{options}'"))
    (detections,) = experts["detector"]([Detect(image, ("cup", "red cup"))])
    box = detections.boxes[-1]
    width, height = image.size
    corners = [box.x0 * width, box.y0 * height, box.x1 * width, box.y1 * height]
    item = {"image": "0.png", "query": "detect", "phrases": ["cup", "red cup"], "tolerance": 1e-4, "value": box.score}
    full_item = {**item, "label": box.label, "box": corners, "box_tolerance": 0.1}
    path = reference(tmp_path, finder, full_item)
    check = checkpoint_check.check_model(str(path), images)
    assert [row.verdict for row in check.rows] == ["agrees", "agrees"]
    moved = {**full_item, "box": [side + 1 for side in corners]}
    check = checkpoint_check.check_model(str(reference(tmp_path, finder, moved)), images)
    assert check.rows[1].difference == pytest.approx(1, abs=0.2)
    assert check.exit_code == 1

    (vectors,) = experts["features"]([Embed(image, (Region("cls"),))])
    first = {"image": "0.png", "query": "embed", "values": vectors.values[0][:5].tolist(), "tolerance": 1e-4}
    check = checkpoint_check.check_model(str(reference(tmp_path, f"dino:{features}?{options}", first)), images)
    assert check.exit_code == 0

    clip: Any = Clip(rater, device="cpu")
    (image_embedding,), (text_embedding,) = clip([Embed(image, (Region("cls"),))]), clip([EmbedText("a cat")])
    a, b = image_embedding.values[0], text_embedding.values[0]
    cosine = float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    near = {"image": "0.png", "query": "similarity", "text": "a cat", "value": cosine, "tolerance": 1e-4}
    assert (
        checkpoint_check.check_model(str(reference(tmp_path, f"clip:{rater}?device=cpu", near)), images).exit_code == 0
    )
    far = {**near, "value": cosine - 0.01}
    assert (
        checkpoint_check.check_model(str(reference(tmp_path, f"clip:{rater}?device=cpu", far)), images).exit_code == 1
    )


def test_what_the_expert_cannot_answer_is_failed_and_not_a_number(rater: str, tmp_path: Path, images: Path) -> None:
    item = {"image": "0.png", "prompt": "a cat", "quality": "blur", "value": 1.0, "tolerance": 0.1}
    check = checkpoint_check.check_model(str(reference(tmp_path, spec(rater), item)), images)
    assert [row.verdict for row in check.rows] == ["failed"]
    assert "preference only" in check.rows[0].actual
    assert check.exit_code == 1


def test_missing_pictures_are_named_with_where_they_are_from(rater, tmp_path, images, editcritic):
    item = {"prompt": "a cat", "value": 1.0, "tolerance": 0.1}
    path = reference(
        tmp_path,
        spec(rater),
        {"image": "0.png", **item},
        {"image": "7.png", **item},
        {"image": "8.png", "url": "https://elsewhere.test/8", **item},
        images_url="https://there.test/data/",
    )
    refused = editcritic("doctor", "--check-model", path, "--images", images)
    assert refused.exit_code == 2
    assert "7.png from https://there.test/data/7.png, 8.png from https://elsewhere.test/8" in refused.stderr
    assert "0.png" not in refused.stderr


def test_missing_weights_are_named_with_how_to_get_them(tmp_path, images, editcritic, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    shutil.copy(images / "0.png", images / "000000077595.jpg")
    refused = editcritic("doctor", "--check-model", "sam3", "--images", images)
    assert refused.exit_code == 2
    assert "hf download facebook/sam3 (SAM License, gated: accept its terms there first)" in refused.stderr
    assert "images are missing" not in refused.stderr
    refused = editcritic("doctor", "--check-model", "sam3", "--images", images, "--experts", f"x=sam3:{tmp_path}")
    assert f"{tmp_path} lacks model.safetensors" in refused.stderr


def test_another_picture_of_that_name_is_refused(rater: str, tmp_path: Path, images: Path) -> None:
    item = {"image": "0.png", "prompt": "a cat", "value": 1.0, "tolerance": 1e6}
    right = hashlib.sha256((images / "0.png").read_bytes()).hexdigest()
    path = reference(tmp_path, spec(rater), {**item, "sha256": right})
    assert checkpoint_check.check_model(str(path), images).exit_code == 0
    path = reference(tmp_path, spec(rater), {**item, "sha256": "0" * 64})
    with pytest.raises(InputError, match=f"differs from the scored image: its sha256 is {right}"):
        checkpoint_check.check_model(str(path), images)


def test_the_picture_may_lie_there_in_another_format(rater: str, tmp_path: Path, images: Path) -> None:
    item = {"image": "0.webp", "prompt": "a cat", "value": 1.0, "tolerance": 1e6}
    assert checkpoint_check.check_model(str(reference(tmp_path, spec(rater), item)), images).exit_code == 0


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
        published.read_reference(str(path))


def test_those_that_come_with_the_package_can_be_asked() -> None:
    for name, text in published.references().items():
        entry = published.read_reference(name)
        assert entry.source.startswith("https://"), name
        (expert,) = load_experts(f"x={entry.expert}").values()
        query_types = {"rate": Rate, "detect": Detect, "similarity": EmbedText, "embed": Embed}
        assert {query_types[item.query] for item in entry.item} <= set(expert.kinds), name
        assert all(item.url or entry.images_url for item in entry.item), name
        assert tomllib.loads(text)


def test_the_names_of_references_are_listed(editcritic: Command) -> None:
    assert editcritic("doctor", "--check-model", "list").stdout.split() == list(published.references())
    assert json.loads(editcritic("doctor", "--check-model", "list", "--json").stdout) == list(published.references())


def test_a_reference_is_not_changed_by_who_reads_it() -> None:
    entry = published.read_reference("sam3")
    with pytest.raises(ValidationError):
        entry.model = "other"
