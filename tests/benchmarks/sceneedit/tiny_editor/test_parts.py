"""The parts that are ours: an autoencoder that loses nothing, a transformer whose velocity leads to its image."""

import torch

from editcritic.benchmarks.sceneedit.tiny_editor.pipeline import tokenizer, untrained_pipeline
from editcritic.benchmarks.sceneedit.tiny_editor.pixel_autoencoder import PixelAutoencoder
from editcritic.benchmarks.sceneedit.tiny_editor.transformer import SceneEditTransformer


def test_pixels_come_back_to_the_bit(tmp_path):
    PixelAutoencoder().save_pretrained(tmp_path)
    made = PixelAutoencoder.from_pretrained(tmp_path)
    pictures = torch.rand(2, 3, 32, 32)
    latents = made.encode(pictures).latents
    assert latents.shape == (2, made.config.latent_channels, 8, 8)
    assert torch.equal(made.decode(latents, return_dict=False)[0], pictures)
    assert torch.equal(made.decode(made.encode(pictures, return_dict=False)[0]).sample, pictures)


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
    assert read == [
        "Replace",
        "the",
        "text",
        '"',
        "Z",
        "O",
        "O",
        '"',
        "on",
        "blue",
        "sign",
        "with",
        '"',
        "H",
        "O",
        "T",
        '"',
    ]
    assert (
        words.unk_token_id
        not in words("Change the background to brick wall, remain the wood teal heart unchanged").input_ids
    )
    assert words.convert_ids_to_tokens(words("Add elephant").input_ids) == ["Add", "<unk>", "</s>"]
