"""A tiny language model with random weights and a newly trained tokenizer, saved like users' checkpoints."""

from collections.abc import Iterable
from pathlib import Path

import tokenizers
import torch
import transformers

from .reward.experts.tiny_vlms import TEMPLATE


def tiny_language_model(folder: Path, texts: Iterable[str], seed: int = 0) -> Path:
    """A Qwen3 of two layers whose words are those of the texts `said`, and the letters, for all other words.

    It loads as `AutoModelForCausalLM`, and as `AutoModelForSequenceClassification` with a fresh head.
    """
    trained = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<unk>", "<pad>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    trained.train_from_iterator([*texts, "system user assistant tool"] * 4, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=trained, unk_token="<unk>", pad_token="<pad>", eos_token="<|im_end|>", model_max_length=512
    )
    tokenizer.chat_template = TEMPLATE
    config = transformers.Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=512, bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = transformers.Qwen3ForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
