"""A tiny judge that was taught its answers: a real model whose faults are known."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers

from editcritic.reward.queries import Judge

BATCH = 8


def teach(
    folder: Path, queries: Sequence[Judge], answer: Callable[[Judge, random.Random], str], *, steps: int = 240
) -> None:
    """Train the model of `folder` (a tiny LLaVA) to answer such queries so, and save it there. answer: a right answer
    to a query; where it differs from call to call, the model learns its distribution. It has to be one token. The saved
    model samples at temperatures above 0, as checkpoints of chat models do."""
    processor = transformers.AutoProcessor.from_pretrained(folder)
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder)
    processor.tokenizer.padding_side = "left"
    asked = [(query, _prompt(processor, query)) for query in queries]
    rng = random.Random(0)
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(steps):
        batch = rng.sample(asked, min(BATCH, len(asked)))
        answers = [answer(query, rng) for query, _ in batch]
        assert all(len(processor.tokenizer.tokenize(text)) == 1 for text in answers), answers
        texts = [f"{prompt}{text}<|im_end|>" for (_, prompt), text in zip(batch, answers, strict=True)]
        pictures = [[image.pil() for image in query.images] for query, _ in batch]
        inputs = processor(text=texts, images=pictures, return_tensors="pt", padding=True)
        logits = model(**inputs, logits_to_keep=3).logits[:, :-1]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), inputs["input_ids"][:, -2:].flatten())
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    model.generation_config.do_sample = True
    model.save_pretrained(folder)


def _prompt(processor: Any, query: Judge) -> str:
    messages = [
        {
            "role": message.role,
            "content": [
                {"type": "text", "text": part} if isinstance(part, str) else {"type": "image"}
                for part in message.content
            ],
        }
        for message in query.messages
    ]
    return str(processor.apply_chat_template(messages, add_generation_prompt=True))
