"""The writer: a language model of 0.2 million weights whose words are SceneEdit's, taught to split in a minute."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM, get_linear_schedule_with_warmup

from ..sceneedit.words import BACKDROPS, COLOURS, MATERIALS, SHAPES, SIGN, TEXT, TEXTS
from .writer_world import SECOND, lessons

LONGEST = 56
"""Words that the writer may write; two steps take about thirty at most."""

_PAD, _END, _UNKNOWN = "<pad>", "<end>", "<unknown>"
_SPOKEN = "Add Change Remove Replace add change remove replace and the to of on with left right above below background"
_SPOKEN += " color count material position 1 2 3 4 5 , :"


def tokenizer() -> PreTrainedTokenizerFast:
    """Words, signs of punctuation, and the ends of lines."""
    named = (word for name in (*COLOURS, *SHAPES, *SECOND.values(), *MATERIALS, *BACKDROPS) for word in name.split())
    written = (f'"{word}"' for word in TEXTS)
    known = dict.fromkeys((_PAD, _END, _UNKNOWN, "\n", *_SPOKEN.split(), *named, SIGN, TEXT, *written))
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(known)}, unk_token=_UNKNOWN))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"\n|,|[^\s,]+"), "removed", invert=True)
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token=_PAD, eos_token=_END, unk_token=_UNKNOWN, padding_side="left",
        clean_up_tokenization_spaces=False,
    )  # fmt: skip


def untaught(words: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """A writer that knows nothing yet."""
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
    """Show it what the teacher writes (see `writer_world.lessons`). Returns the loss of every step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    shown = lessons(min(2000, steps * batch), seed=seed)
    losses = []
    model.train()
    for _ in range(steps):
        numbers, labels = _batch(list(islice(shown, batch)), words)
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
    """Words and what is to be learned of them, (N, longest) each."""
    numbers, labels = [], []
    for prompt, written in pairs:
        asked, said = words(prompt)["input_ids"], [*words(written)["input_ids"], words.eos_token_id]
        numbers.append(torch.tensor([*asked, *said]))
        labels.append(torch.tensor([-100] * len(asked) + said))
    return pad_sequence(numbers, True, words.pad_token_id), pad_sequence(labels, True, -100)


def sampled(model: Any, words: PreTrainedTokenizerFast, prompts: Sequence[str], seed: int) -> list[str]:
    """What the writer says to each prompt, at temperature 1. Sets torch's random numbers."""
    torch.manual_seed(seed)
    asked = words(list(prompts), return_tensors="pt", padding=True)
    with torch.no_grad():
        said = model.generate(**asked, do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=LONGEST)
    return words.batch_decode(said[:, asked["input_ids"].shape[1] :], skip_special_tokens=True)
