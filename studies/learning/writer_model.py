"""The writer: a language model of 0.2 million weights with SceneEdit's vocabulary, trained to split instructions in a
minute.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM, get_linear_schedule_with_warmup

from editcritic.benchmarks.sceneedit.vocabulary import BACKDROPS, COLOURS, MATERIALS, SHAPES, SIGN, TEXT, TEXTS

from .writer_tasks import SYNONYMS, demonstrations

MAX_LENGTH = 56
"""Most tokens of a completion; two steps take about thirty at most."""

_PAD, _END, _UNKNOWN = "<pad>", "<end>", "<unknown>"
_VOCABULARY = (
    "Add Change Remove Replace add change remove replace and the to of on with left right above below background"
)
_VOCABULARY += " color count material position 1 2 3 4 5 , :"


def tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of words, punctuation and line ends."""
    names = (word for name in (*COLOURS, *SHAPES, *SYNONYMS.values(), *MATERIALS, *BACKDROPS) for word in name.split())
    texts = (f'"{word}"' for word in TEXTS)
    vocabulary = dict.fromkeys((_PAD, _END, _UNKNOWN, "\n", *_VOCABULARY.split(), *names, SIGN, TEXT, *texts))
    tokenizer_model = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(vocabulary)}, unk_token=_UNKNOWN)
    )
    tokenizer_model.pre_tokenizer = pre_tokenizers.Split(Regex(r"\n|,|[^\s,]+"), "removed", invert=True)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer_model, pad_token=_PAD, eos_token=_END, unk_token=_UNKNOWN, padding_side="left",
        clean_up_tokenization_spaces=False,
    )  # fmt: skip


def untrained_writer(words: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """An untrained writer."""
    width, heads = 96, 4
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(
            Qwen3Config(
                vocab_size=len(words), hidden_size=width, intermediate_size=2 * width, num_hidden_layers=2,
                num_attention_heads=heads, num_key_value_heads=heads, head_dim=width // heads,
                max_position_embeddings=256, tie_word_embeddings=True, rope_theta=1000.0, bos_token_id=None,
                eos_token_id=words.eos_token_id, pad_token_id=words.pad_token_id,
            )
        )  # fmt: skip


def warm_start(
    model: Qwen3ForCausalLM, words: PreTrainedTokenizerFast, *, seed: int, steps: int = 700, batch: int = 32
) -> list[float]:
    """Supervised training on the teacher's demonstrations (`writer_tasks.demonstrations`). Returns the loss of every
    step.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    examples = demonstrations(min(2000, steps * batch), seed=seed)
    losses = []
    model.train()
    for _ in range(steps):
        numbers, labels = _batch(list(islice(examples, batch)), words)
        loss = model(input_ids=numbers, attention_mask=(numbers != words.pad_token_id).long(), labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    model.eval()
    return losses


def _batch(pairs: Sequence[tuple[str, str]], words: PreTrainedTokenizerFast) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and labels, (N, longest) each; prompts are masked."""
    numbers, labels = [], []
    for prompt, completion in pairs:
        prompt_ids, completion_ids = words(prompt)["input_ids"], [*words(completion)["input_ids"], words.eos_token_id]
        numbers.append(torch.tensor([*prompt_ids, *completion_ids]))
        labels.append(torch.tensor([-100] * len(prompt_ids) + completion_ids))
    return pad_sequence(numbers, True, words.pad_token_id), pad_sequence(labels, True, -100)


def sample_completions(model: Any, words: PreTrainedTokenizerFast, prompts: Sequence[str], seed: int) -> list[str]:
    """A completion of each prompt at temperature 1. Seeds torch's global generator."""
    torch.manual_seed(seed)
    inputs = words(list(prompts), return_tensors="pt", padding=True)
    with torch.no_grad():
        outputs = model.generate(
            **inputs, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=MAX_LENGTH
        )
    return words.batch_decode(outputs[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
