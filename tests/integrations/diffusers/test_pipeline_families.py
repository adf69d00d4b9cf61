"""OmniGen and LEDITS++ as editors: prompts and concepts of instructions, pieces, the way to noise and back."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from diffusers import DDIMScheduler

from editcritic.integrations.diffusers import make_editor, pipeline_families
from editcritic.integrations.diffusers.pipeline_families import LEDITS, concepts, ledits_arguments
from editcritic.reward import Image
from editcritic.verifiers.selection.editor import NoiseSpec, StepwiseEditor
from tests import pipelines_epsilon
from tests.integrations.diffusers.editing import (
    SEEDS,
    STEPS,
    WISHES,
    apart,
    generators,
    in_pieces,
    picture,
    rows_seen,
    sources,
    steps_seen,
    stepwise,
)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    names = ("ledits", "ledits_xl")
    return {name: getattr(pipelines_epsilon, name)(tmp_path_factory.mktemp(name)) for name in names}


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("Remove the red cup", [("red cup", True)]),
        ("Add a dog on the left of the tree", [("dog", False)]),
        ("Replace the cat with a dog.", [("cat", True), ("dog", False)]),
        ("Change the color of cup to blue", [("blue cup", False)]),
        ("Change the background to a beach", [("beach", False)]),
        ("Change the count of cup to 3", [("Change the count of cup to 3", False)]),
        ("Make it look like a watercolour", [("Make it look like a watercolour", False)]),
        ("Get rid of the fog in the valley", [("fog in the valley", True)]),
        ("Remove the cup and add a vase. Then change the color of wall to red",
         [("cup", True), ("vase", False), ("red wall", False)]),
        ("Remove salt and pepper", [("salt and pepper", True)]),
        ("erase the cup, then erase the cup", [("cup", True)]),
    ],
)  # fmt: skip
def test_instructions_are_read_as_concepts(instruction, expected):
    assert concepts(instruction) == expected


def test_an_empty_instruction_has_no_concepts():
    with pytest.raises(ValueError, match="the instruction must not be empty"):
        concepts(" . ")


def with_ddim(pipeline):
    solver = DDIMScheduler.from_config(pipeline.scheduler.config, clip_sample=False)
    return type(pipeline)(**{**pipeline.components, "scheduler": solver})


SETTINGS: dict[str, Any] = {"num_inversion_steps": 3, "skip": 0.34, "edit_guidance_scale": 4.0}


# DDIM's way to noise on Stable Diffusion raises in diffusers 0.42: its add_noise wants timesteps that are whole.
@pytest.mark.parametrize(("name", "solver"), [("ledits", "dpm"), ("ledits_xl", "dpm"), ("ledits_xl", "ddim")])
def test_ledits_goes_to_noise_and_back(loaded, name, solver):
    pipeline = loaded[name] if solver == "dpm" else with_ddim(loaded[name])
    editor = make_editor(pipeline, use_intersect_mask=False, **SETTINGS)
    edited = editor.edit(sources(2), WISHES[:2], SEEDS[:2])
    for row, (words, away) in enumerate([("Make it winter", False), ("red cup", True)]):
        pipeline.invert(image=sources()[row][0].pil(), num_inversion_steps=3, skip=0.34, generator=generators()[row])
        plain = pipeline(
            editing_prompt=[words], reverse_editing_direction=[away], edit_guidance_scale=4.0, use_intersect_mask=False
        ).images
        assert edited[row] == Image.of(plain[0])
    assert edited[0] != editor.edit(sources(1), WISHES[:1], [9])[0]


@pytest.mark.parametrize("name", ["ledits", "ledits_xl"])
def test_ledits_pays_for_the_way_there_too(loaded, name, monkeypatch):
    pipeline = loaded[name]
    calls = rows_seen(pipeline.unet, monkeypatch)
    editor: Any = make_editor(pipeline, **SETTINGS)
    editor.edit(sources(2), ["Replace the cup with a vase", "Remove the cup"], SEEDS[:2])
    assert calls == [1, 1, 1, 3, 3, 3, 1, 1, 1, 2, 2, 2]  # a branch without words, and one a concept
    assert editor.nfe == 6
    assert not isinstance(editor, StepwiseEditor)
    with pytest.raises(AttributeError, match="reuses the noise"):
        editor.advance([], 1)


@pytest.mark.parametrize("name", ["ledits", "ledits_xl"])
def test_ledits_looks_where_the_words_are_looked_at_not_their_padding(loaded, name):
    pipeline = loaded[name]
    pipeline.batch_size = 1
    named = {"device": "cpu", "num_images_per_prompt": 1, "enable_edit_guidance": True}
    named["editing_prompt"] = ["cup", "red vase"]
    *_, counts = pipeline_families._with_token_counts(pipeline, pipeline.encode_prompt, named)
    assert counts.tolist() == [3, 7]  # letters: the tiny tokenizer knows no words
    assert pipeline.encode_prompt(**named)[-1].tolist() == [75, 75]


@pytest.mark.parametrize("name", ["ledits", "ledits_xl"])
def test_ledits_with_the_attention_mask_makes_the_same_picture_again(loaded, name):
    editor = make_editor(loaded[name], use_intersect_mask=True, **SETTINGS)
    first = editor.edit(sources(1), WISHES[1:2], [3])
    assert (first[0].width, first[0].height) == (32, 32)
    editor.edit(sources(1), WISHES[:1], [4])
    assert first == editor.edit(sources(1), WISHES[1:2], [3])


def test_ledits_rounds_sides_down_to_what_it_can_edit(loaded):
    editor = make_editor(loaded["ledits"], **SETTINGS)
    assert editor.edit([(picture(0, 70),)], WISHES[:1], [3])[0].width == 64


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_inference_steps": 3}, "takes no num_inference_steps here; it takes .*num_inversion_steps"),
        ({"editing_prompt": ["cup"]}, "takes no editing_prompt here"),
        ({"num_inversion_steps": 0}, "must be an integer of at least 1, got 0"),
    ],
)
def test_ledits_refuses_settings_it_does_not_know(loaded, settings, message):
    with pytest.raises(ValueError, match=message):
        make_editor(loaded["ledits"], **settings)


def test_instructions_can_be_read_otherwise(loaded):
    read = replace(LEDITS, arguments=partial(ledits_arguments, parse_concepts=lambda words: [("snow", False)]))
    editor = make_editor(loaded["ledits"], family=read, id="snow", **SETTINGS)
    edited = editor.edit(sources(1) * 2, WISHES[:2], [3, 3])
    assert edited[0] == edited[1]


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    return pipelines_epsilon.omnigen(tmp_path_factory.mktemp("omnigen"))


def test_omnigens_prompt_has_a_mark_for_each_picture():
    first, second = "<img><|image_1|></img>", "<img><|image_2|></img>"
    assert pipeline_families.omnigen_prompt("Add snow", 1) == f"{first} Add snow"
    assert pipeline_families.omnigen_prompt("Put the cup in", 2) == f"{first} {second} Put the cup in"
    placed = f"Put the cup of {second} into the room of {first}"
    assert pipeline_families.omnigen_prompt(placed, 2) == placed
    assert pipeline_families.omnigen_prompt(f"Add the cup of {second}", 2) == f"{first} Add the cup of {second}"


@pytest.mark.parametrize("images", [((0, 32),), ((0, 32), (1, 48))], ids=["one source", "two sources"])
def test_omnigen_in_pieces_makes_what_one_go_and_the_plain_call_make(pipeline, images):
    editor = stepwise(pipeline)
    sources = tuple(picture(seed, size) for seed, size in images)
    plain = pipeline(
        [pipeline_families.omnigen_prompt(WISHES[0], len(sources))] * 2, [[image.pil() for image in sources]] * 2,
        use_input_image_size_as_output=True, generator=generators(SEEDS[:2]), num_inference_steps=STEPS,
    ).images  # fmt: skip
    whole = editor.edit([sources] * 2, WISHES[:1] * 2, SEEDS[:2])
    _, pieces = in_pieces(editor, [NoiseSpec(seed) for seed in SEEDS[:2]], [sources] * 2, WISHES[:1] * 2)
    assert pieces == whole
    assert whole[0] != whole[1]
    assert apart(whole, [Image.of(one) for one in plain]) <= 1  # it draws sources, and draws them close to the mean
    assert (whole[0].width, whole[0].height) == (32, 32)


def test_omnigens_previews_show_where_the_straight_line_ends(pipeline, monkeypatch):
    steps = steps_seen(pipeline.scheduler, monkeypatch)
    editor = stepwise(pipeline)
    ((draft, _),) = editor.advance(editor.begin(sources(1), WISHES[:1], [NoiseSpec(3)]), 3)
    output, _, sample = steps[-1]
    time = pipeline.scheduler.sigmas[2]
    assert 0 < time < 1
    assert np.abs(draft.arrays["clean"] - (sample + (1 - time) * output)[0].numpy()).max() < 1e-5
    assert draft.arrays["noise"][0] == 1
    assert draft.arrays["noise"][2] == pytest.approx(1 - float(time))
    ((whole, _),) = editor.advance(editor.renoise([draft], 1, [7]), STEPS)
    assert np.isfinite(whole.arrays["clean"]).all()


def test_omnigen_is_asked_for_one_prompt_at_a_time(pipeline, monkeypatch):
    calls = rows_seen(pipeline.transformer, monkeypatch)
    editor = stepwise(pipeline, 1)
    images, wishes, seeds = [*sources(2), *sources(1)], [*WISHES[:2], WISHES[0]], list(SEEDS)
    edited = editor.edit(images, wishes, seeds)
    assert sorted(calls) == [3, 6]  # guidance has three branches; the first and the last want the same
    for row in range(3):
        one = slice(row, row + 1)
        assert apart(editor.edit(images[one], wishes[one], seeds[one]), edited[one]) <= 1
