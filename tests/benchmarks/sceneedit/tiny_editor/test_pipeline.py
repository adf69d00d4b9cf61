"""The pipeline: which pictures it takes, which it refuses, and where it is loaded from."""

import numpy as np
import PIL.Image
import pytest
import torch

from editcritic.benchmarks.sceneedit.learned.pipeline import load


@pytest.fixture(scope="module")
def taught():
    return load()


def pixels(width=32, height=32, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def array(found):
    return found.astype(np.float32) / 255


def tensor(found):
    return torch.from_numpy(array(found)).permute(2, 0, 1)


FORMS = {
    "PIL": PIL.Image.fromarray,
    "array": array,
    "arrays": lambda found: array(found)[None],
    "tensor": tensor,
    "tensors": lambda found: tensor(found)[None],
}


@pytest.mark.parametrize("size", [(33, 32), (32, 39), (64, 48), (24, 32)])
@pytest.mark.parametrize("form", FORMS)
def test_a_picture_of_another_size_is_refused_wherever_it_stands(taught, form, size):
    right, wrong = (FORMS[form](pixels(*one)) for one in ((32, 32), size))
    for given in (wrong, [wrong], [right, wrong]):
        with pytest.raises(ValueError, match=f"32 x 32 and got {size[0]} x {size[1]}"):
            taught(given, "Remove red star")


@pytest.mark.parametrize("given", [[], np.zeros((0, 32, 32, 3)), [torch.zeros(0, 3, 32, 32)]], ids=repr)
def test_without_a_picture_there_is_nothing_to_edit(taught, given):
    with pytest.raises(ValueError, match="image= holds none"):
        taught(given, "Remove red star")
    with pytest.raises(ValueError, match="pass image="):
        taught(prompt="Remove red star")


@pytest.mark.parametrize(
    ("given", "got"), [("star.png", "str"), (np.zeros((32, 32)), r"ndarray \(32, 32\)"), ([None], "NoneType")]
)
def test_what_is_no_picture_is_refused(taught, given, got):
    with pytest.raises(ValueError, match=rf"expected PIL pictures, arrays \(…, 32, 32, 3\) or tensors .*, got {got}"):
        taught(given, "Remove red star")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_pictures(taught, form):
    def made(form, *found):
        generators = [torch.Generator().manual_seed(seed) for seed in range(len(found))]
        given = [FORMS[form](one) for one in found]
        return taught(given, ["Remove red star"] * len(found), generator=generators, num_inference_steps=2).images

    both = pixels(), pixels(seed=1)
    assert [one.tobytes() for one in made(form, *both)] == [one.tobytes() for one in made("PIL", *both)]
    (alone,) = taught(FORMS[form](both[0]), "Remove red star", generator=torch.Generator().manual_seed(0)).images
    assert alone.size == (32, 32)


def test_what_is_no_folder_of_a_pipeline_is_not_looked_for_on_a_hub(tmp_path):
    for path in (tmp_path, tmp_path / "missing", "somebody/editor"):
        with pytest.raises(FileNotFoundError, match=f"no pipeline in {path}: expected a folder with model_index.json"):
            load(path)


def test_the_transformer_takes_as_many_patches_as_it_was_made_for(taught):
    with pytest.raises(ValueError, match="16 noisy ones and 16 of the source"):
        taught.transformer(torch.zeros(1, 16, 192), torch.zeros(1, 24, 128), torch.zeros(1, 64), torch.ones(1))
