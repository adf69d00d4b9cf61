"""A model's answers beside those that are published of it."""

import hashlib
import json
import shutil
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

from editcritic.benchmarks import check_model
from editcritic.benchmarks import reference as published
from editcritic.benchmarks.inputs import InputError
from editcritic.benchmarks.perf.models import random_models
from editcritic.benchmarks.probe import picture
from editcritic.reward import Detect, Embed, Image, Rate, Region, load_experts
from editcritic.reward.experts.clip import Clip
from editcritic.reward.experts.pickscore import PickScore
from editcritic.reward.query import EmbedText
from editcritic.reward.toml import tomllib

from ..reward.experts import formats
from ..reward.experts.tiny_clips import SMALL, clip_config, saved_processor
from .conftest import Command

PROMPTS = ("a cat", "two red boats")


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
    """A rater's and a CLIP's checkpoint in one."""
    folder = saved_processor(tmp_path_factory.mktemp("rater"))
    clip_config().save_pretrained(folder)
    weights = formats.load("pickscore").random(seed=3, **SMALL) | {"logit_scale": torch.tensor(np.log(100.0))}
    save_file(weights, Path(folder) / "model.safetensors", {"format": "pt"})
    return str(folder)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(2):
        small = PIL.Image.fromarray(picture(number).pixels[::8, ::8])
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


def rated(rater: str, folder: Path, pictures: Path) -> Path:
    """What the rater said of two pictures."""
    expert: Any = PickScore(rater, base=rater, device="cpu")
    items = [
        {"picture": f"{n}.png", "prompt": prompt, "tolerance": 1e-3, "value": answer.value}
        for n, prompt in enumerate(PROMPTS)
        for answer in expert([Rate(Image.of(pictures / f"{n}.png"), prompt)])
    ]
    return reference(folder, spec(rater), *items)


def spec(rater: str) -> str:
    return f"editcritic.reward.experts.pickscore:PickScore?name={rater}&base={rater}&device=cpu"


def changed(folder: str, place: Path) -> str:
    """The same model with one tensor that was trained on."""
    shutil.copytree(folder, place)
    weights = load_file(place / "model.safetensors")
    name = "visual_projection.weight"
    save_file({**weights, name: 1.5 * weights[name] + 0.1}, place / "model.safetensors", {"format": "pt"})
    return str(place)


def test_what_one_load_answered_the_next_one_answers(rater: str, tmp_path: Path, pictures: Path) -> None:
    checked = check_model.check(str(rated(rater, tmp_path, pictures)), pictures)
    assert [row.verdict for row in checked.rows] == ["agrees", "agrees"]
    assert checked.exit_code == 0


def test_a_changed_weight_is_seen(rater: str, tmp_path: Path, pictures: Path) -> None:
    name = str(rated(rater, tmp_path, pictures))
    other = changed(rater, tmp_path / "other")
    checked = check_model.check(name, pictures, [f"model={spec(other)}"])
    assert {row.verdict for row in checked.rows} == {"differs"}
    assert all(row.difference is not None and row.difference > row.allowed for row in checked.rows)
    assert checked.exit_code == 1


def test_boxes_and_features_and_nearness_are_compared_as_well(
    detector: str, features: str, rater: str, tmp_path: Path, pictures: Path
) -> None:
    seen = Image.of(pictures / "0.png")
    options = "device=cpu&backend=pil"
    finder = f"grounding-dino:{detector}?{options}&floor=0"
    experts: dict[str, Any] = dict(load_experts(f"detector='{finder}' features='dino:{features}?{options}'"))
    (found,) = experts["detector"]([Detect(seen, ("cup", "red cup"))])
    box = found.boxes[-1]
    width, height = seen.size
    corners = [box.x0 * width, box.y0 * height, box.x1 * width, box.y1 * height]
    item = {"picture": "0.png", "ask": "detect", "phrases": ["cup", "red cup"], "tolerance": 1e-4, "value": box.score}
    whole = {**item, "label": box.label, "box": corners, "box_tolerance": 0.1}
    path = reference(tmp_path, finder, whole)
    checked = check_model.check(str(path), pictures)
    assert [row.verdict for row in checked.rows] == ["agrees", "agrees"]
    moved = {**whole, "box": [side + 1 for side in corners]}
    checked = check_model.check(str(reference(tmp_path, finder, moved)), pictures)
    assert checked.rows[1].difference == pytest.approx(1, abs=0.2)
    assert checked.exit_code == 1

    (vectors,) = experts["features"]([Embed(seen, (Region("cls"),))])
    first = {"picture": "0.png", "ask": "features", "values": vectors.values[0][:5].tolist(), "tolerance": 1e-4}
    checked = check_model.check(str(reference(tmp_path, f"dino:{features}?{options}", first)), pictures)
    assert checked.exit_code == 0

    clip: Any = Clip(rater, device="cpu")
    (one,), (other,) = clip([Embed(seen, (Region("cls"),))]), clip([EmbedText("a cat")])
    cosine = float(one.values[0] @ other.values[0] / np.linalg.norm(one.values[0]) / np.linalg.norm(other.values[0]))
    near = {"picture": "0.png", "ask": "nearness", "text": "a cat", "value": cosine, "tolerance": 1e-4}
    assert check_model.check(str(reference(tmp_path, f"clip:{rater}?device=cpu", near)), pictures).exit_code == 0
    far = {**near, "value": cosine - 0.01}
    assert check_model.check(str(reference(tmp_path, f"clip:{rater}?device=cpu", far)), pictures).exit_code == 1


def test_what_the_expert_cannot_answer_is_failed_and_not_a_number(rater: str, tmp_path: Path, pictures: Path) -> None:
    item = {"picture": "0.png", "prompt": "a cat", "quality": "blur", "value": 1.0, "tolerance": 0.1}
    checked = check_model.check(str(reference(tmp_path, spec(rater), item)), pictures)
    assert [row.verdict for row in checked.rows] == ["failed"]
    assert "preference only" in checked.rows[0].got
    assert checked.exit_code == 1


def test_missing_pictures_are_named_with_where_they_are_from(
    rater: str, tmp_path: Path, pictures: Path, editcritic: Command
) -> None:
    item = {"prompt": "a cat", "value": 1.0, "tolerance": 0.1}
    path = reference(
        tmp_path,
        spec(rater),
        {"picture": "0.png", **item},
        {"picture": "7.png", **item},
        {"picture": "8.png", "where": "https://elsewhere.test/8", **item},
        pictures="https://there.test/data/",
    )
    refused = editcritic("doctor", "--check", path, "--pictures", pictures)
    assert refused.exit_code == 2
    assert "7.png from https://there.test/data/7.png, 8.png from https://elsewhere.test/8" in refused.stderr
    assert "0.png" not in refused.stderr


def test_missing_weights_are_named_with_how_to_get_them(
    tmp_path: Path, pictures: Path, editcritic: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    shutil.copy(pictures / "0.png", pictures / "000000077595.jpg")
    refused = editcritic("doctor", "--check", "sam3", "--pictures", pictures)
    assert refused.exit_code == 2
    assert "hf download facebook/sam3 (SAM License, gated: accept its terms there first)" in refused.stderr
    assert "pictures" not in refused.stderr
    refused = editcritic("doctor", "--check", "sam3", "--pictures", pictures, "--experts", f"x=sam3:{tmp_path}")
    assert f"{tmp_path} lacks model.safetensors" in refused.stderr


def test_another_picture_of_that_name_is_refused(rater: str, tmp_path: Path, pictures: Path) -> None:
    item = {"picture": "0.png", "prompt": "a cat", "value": 1.0, "tolerance": 1e6}
    right = hashlib.sha256((pictures / "0.png").read_bytes()).hexdigest()
    path = reference(tmp_path, spec(rater), {**item, "sha256": right})
    assert check_model.check(str(path), pictures).exit_code == 0
    path = reference(tmp_path, spec(rater), {**item, "sha256": "0" * 64})
    with pytest.raises(InputError, match=f"another picture .* its sha256 is {right}"):
        check_model.check(str(path), pictures)


def test_the_picture_may_lie_there_in_another_format(rater: str, tmp_path: Path, pictures: Path) -> None:
    item = {"picture": "0.webp", "prompt": "a cat", "value": 1.0, "tolerance": 1e6}
    assert check_model.check(str(reference(tmp_path, spec(rater), item)), pictures).exit_code == 0


def test_the_command_prints_what_was_expected_and_got(
    rater: str, tmp_path: Path, pictures: Path, editcritic: Command
) -> None:
    path = rated(rater, tmp_path, pictures)
    shown = editcritic("doctor", "--check", path, "--pictures", pictures)
    assert shown.exit_code == 0
    for said in ["0.png", "1.png", "preference", "agrees", "PickScore@", "Published: made here"]:
        assert said in shown.stdout
    told = json.loads(editcritic("doctor", "--check", path, "--pictures", pictures, "--json").stdout)
    assert [row["verdict"] for row in told["rows"]] == ["agrees", "agrees"]


@pytest.mark.parametrize(
    ("name", "experts", "says"),
    [
        ("nothing", [], "nothing is published here of 'nothing': there are clip-vit-base-patch32"),
        ("nowhere.toml", [], "cannot read nowhere.toml"),
        ("sam3", ["--experts", "a=pixels b=colour"], "--check compares one expert, got 2"),
        ("sam3", ["--experts", "a=pixxels"], "did you mean pixels"),
    ],
)
def test_nonsense_is_told_in_one_line(name: str, experts: list[str], says: str, editcritic: Command) -> None:
    refused = editcritic("doctor", "--check", name, *experts)
    assert refused.exit_code == 2
    assert says in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ({}, "needs value"),
        ({"value": 1.0, "tolerance": 0.0}, "greater than 0"),
        ({"value": 1.0, "colour": "red"}, "Extra inputs"),
        ({"ask": "detect", "value": 1.0}, "needs phrases"),
        ({"ask": "detect", "value": 1.0, "phrases": ["a"], "label": "b"}, "none of the phrases"),
        ({"ask": "nearness", "value": 1.0}, "needs text"),
        ({"ask": "features"}, "needs values"),
    ],
)
def test_a_reference_that_means_nothing_is_refused(item: dict[str, Any], says: str, tmp_path: Path) -> None:
    path = reference(tmp_path, "pixels", {"picture": "0.png", "tolerance": 0.1, **item})
    with pytest.raises(InputError, match=says):
        published.read(str(path))


def test_those_that_come_with_the_package_can_be_asked() -> None:
    for name, text in published.references().items():
        told = published.read(name)
        assert told.source.startswith("https://"), name
        (expert,) = load_experts(f"x={told.expert}").values()
        asked = {"rate": Rate, "detect": Detect, "nearness": EmbedText, "features": Embed}
        assert {asked[item.ask] for item in told.item} <= set(expert.kinds), name
        assert all(item.where or told.pictures for item in told.item), name
        assert tomllib.loads(text)


def test_the_names_of_references_are_listed(editcritic: Command) -> None:
    assert editcritic("doctor", "--check", "list").stdout.split() == list(published.references())
    assert json.loads(editcritic("doctor", "--check", "list", "--json").stdout) == list(published.references())


def test_a_reference_is_not_changed_by_who_reads_it() -> None:
    told = published.read("sam3")
    with pytest.raises(ValidationError):
        told.model = "other"
