"""OmniGen as an editor: its prompt, its pieces, one prompt a call."""

import numpy as np
import pytest

from editcritic.integrations.diffusers import omnigen
from editcritic.reward import Image
from editcritic.verifiers.selection.editor import NoiseSpec

from ... import pipelines_epsilon
from .editing import (
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
def pipeline(tmp_path_factory):
    return pipelines_epsilon.omnigen(tmp_path_factory.mktemp("omnigen"))


def test_omnigens_prompt_has_a_mark_for_each_picture():
    first, second = "<img><|image_1|></img>", "<img><|image_2|></img>"
    assert omnigen.prompt("Add snow", 1) == f"{first} Add snow"
    assert omnigen.prompt("Put the cup in", 2) == f"{first} {second} Put the cup in"
    placed = f"Put the cup of {second} into the room of {first}"
    assert omnigen.prompt(placed, 2) == placed
    assert omnigen.prompt(f"Add the cup of {second}", 2) == f"{first} Add the cup of {second}"


@pytest.mark.parametrize("images", [((0, 32),), ((0, 32), (1, 48))], ids=["one source", "two sources"])
def test_omnigen_in_pieces_makes_what_one_go_and_the_plain_call_make(pipeline, images):
    editor = stepwise(pipeline)
    sources = tuple(picture(seed, size) for seed, size in images)
    plain = pipeline(
        [omnigen.prompt(WISHES[0], len(sources))] * 2, [[image.pil() for image in sources]] * 2,
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
