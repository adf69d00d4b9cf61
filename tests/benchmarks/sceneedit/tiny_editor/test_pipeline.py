"""The pipeline: which images it takes, which it refuses, and where it is loaded from."""

import subprocess
import sys

import numpy as np
import PIL.Image
import pytest
import torch

from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import load_pretrained, tokenizer, untrained_pipeline
from editcritic.benchmarks.sceneedit.tiny_editor.transformer import SceneEditTransformer
from editcritic.reward.installation import install_command

NEEDS = ("torch", "transformers", "diffusers")


@pytest.fixture(scope="module")
def pretrained():
    return load_pretrained()


def pixels(width=32, height=32, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def array(values):
    return values.astype(np.float32) / 255


def tensor(values):
    return torch.from_numpy(array(values)).permute(2, 0, 1)


FORMS = {
    "PIL": PIL.Image.fromarray,
    "array": array,
    "arrays": lambda values: array(values)[None],
    "tensor": tensor,
    "tensors": lambda values: tensor(values)[None],
}


@pytest.mark.parametrize("size", [(33, 32), (32, 39), (64, 48), (24, 32)])
@pytest.mark.parametrize("form", FORMS)
def test_a_picture_of_another_size_is_refused_wherever_it_stands(pretrained, form, size):
    right, wrong = (FORMS[form](pixels(*one)) for one in ((32, 32), size))
    for image in (wrong, [wrong], [right, wrong]):
        with pytest.raises(ValueError, match=f"32 x 32, got {size[0]} x {size[1]}"):
            pretrained(image, "Remove red star")


@pytest.mark.parametrize("image", [[], np.zeros((0, 32, 32, 3)), [torch.zeros(0, 3, 32, 32)]], ids=repr)
def test_without_a_picture_there_is_nothing_to_edit(pretrained, image):
    with pytest.raises(ValueError, match="image= holds none"):
        pretrained(image, "Remove red star")
    with pytest.raises(ValueError, match="pass image="):
        pretrained(prompt="Remove red star")


@pytest.mark.parametrize(
    ("image", "got"), [("star.png", "str"), (np.zeros((32, 32)), r"ndarray \(32, 32\)"), ([None], "NoneType")]
)
def test_what_is_no_picture_is_refused(pretrained, image, got):
    with pytest.raises(ValueError, match=rf"expected PIL images, arrays \(…, 32, 32, 3\) or tensors .*, got {got}"):
        pretrained(image, "Remove red star")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_pictures(pretrained, form):
    def made(form, *images):
        generators = [torch.Generator().manual_seed(seed) for seed in range(len(images))]
        image = [FORMS[form](one) for one in images]
        return pretrained(image, ["Remove red star"] * len(images), generator=generators, num_inference_steps=2).images

    both = pixels(), pixels(seed=1)
    assert [one.tobytes() for one in made(form, *both)] == [one.tobytes() for one in made("PIL", *both)]
    (alone,) = pretrained(FORMS[form](both[0]), "Remove red star", generator=torch.Generator().manual_seed(0)).images
    assert alone.size == (32, 32)


def test_what_is_no_folder_of_a_pipeline_is_not_looked_for_on_a_hub(tmp_path):
    for path in (tmp_path, tmp_path / "missing", "somebody/editor"):
        with pytest.raises(FileNotFoundError, match=f"no pipeline in {path}: expected a folder with model_index.json"):
            load_pretrained(path)


def test_the_transformer_takes_as_many_patches_as_it_was_made_for(pretrained):
    with pytest.raises(ValueError, match="16 noisy ones and 16 of the source"):
        pretrained.transformer(torch.zeros(1, 16, 192), torch.zeros(1, 24, 128), torch.zeros(1, 64), torch.ones(1))


# -- its parts ---------------------------------------------------------------------------------------------------------


def test_the_velocity_leads_from_the_noisy_picture_to_the_clean_one(tmp_path):
    torch.manual_seed(0)
    made = SceneEditTransformer()
    torch.nn.init.normal_(made.out.weight)
    made.save_pretrained(tmp_path)
    made = SceneEditTransformer.from_pretrained(tmp_path)
    noisy, source, words, pooled = (torch.randn(3, *shape) for shape in ((16, 192), (16, 192), (24, 128), (64,)))
    for sigma in (1.0, 0.6, 0.1):
        level = torch.full((3,), sigma)
        velocity = made(torch.cat([noisy, source], 1), words, pooled, level, return_dict=False)[0]
        assert torch.allclose(noisy - sigma * velocity, made.clean(noisy, source, words, pooled, level), atol=1e-4)


def test_an_editor_that_knows_nothing_gives_the_source_back():
    source = torch.randint(0, 256, (1, 32, 32, 3)).float() / 255
    made = untrained_pipeline()
    made.set_progress_bar_config(disable=True)
    decoded = made(source.permute(0, 3, 1, 2), "Remove red star", output_type="pt").images
    assert torch.allclose(decoded.permute(0, 2, 3, 1), source, atol=1e-4)


def test_instructions_are_read_word_by_word_and_what_is_written_letter_by_letter():
    words = tokenizer()
    read = words.tokenize('Replace the text "ZOO" on blue sign with "HOT"')
    assert " ".join(read) == 'Replace the text " Z O O " on blue sign with " H O T "'
    assert (
        words.unk_token_id
        not in words("Change the background to brick wall, remain the wood teal heart unchanged").input_ids
    )
    assert words.convert_ids_to_tokens(words("Add elephant").input_ids) == ["Add", "<unk>", "</s>"]


# -- without the extra `diffusers` ------------------------------------------------------------------------------------

WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from {module} import main
main([])
"""


def test_it_says_in_a_line_what_to_install():
    script = WITHOUT_TORCH.format(module="editcritic.benchmarks.sceneedit.tiny_editor.editor_evaluation")
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert process.returncode == 2
    assert f"this requires torch, which is not installed: {install_command('diffusers')}" in process.stderr
    assert process.stderr.count("\n") == 1
