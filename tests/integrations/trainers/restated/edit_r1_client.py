"""`mllm_score_continue` and `multi_score` of `flow_grpo/rewards.py` of github.com/PKU-YuanGroup/Edit-R1 (4217f25,
2026-01-24), restated, read 2026-11-23: the client of its own reward server. Of the other rewards there is none here.
"""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import requests
import torch
from PIL import Image
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry


def mllm_score_continue(device: Any) -> Callable[..., Any]:
    batch_size = 64
    url = f"http://{os.getenv('REWARD_SERVER', 'localhost:12341')}/mode/logits_non_cot"
    session = requests.Session()
    retries = Retry(total=1000, backoff_factor=1, status_forcelist=[500], allowed_methods=False)  # type: ignore[arg-type]  # as it is there
    session.mount("http://", HTTPAdapter(max_retries=retries))

    def _fn(ref_images: Any, images: Any, prompts: Any, metadatas: Any) -> Any:
        if isinstance(images, torch.Tensor):
            images = (images * 255).round().clamp(0, 255).to(torch.uint8).cpu().numpy().transpose(0, 2, 3, 1)
            image_parts = np.array_split(images, int(np.ceil(len(images) / batch_size)))
        if not isinstance(ref_images, torch.Tensor):
            ref_images = np.array([np.array(image) for image in ref_images])
            source_parts = np.array_split(ref_images, int(np.ceil(len(ref_images) / batch_size)))
        all_scores: list[float] = []
        for image_part, source_part in zip(image_parts, source_parts, strict=False):  # type: ignore[possibly-undefined]
            data = {
                "ref_images": [_jpeg(source) for source in source_part],
                "images": [_jpeg(image) for image in image_part],
                "prompts": prompts,
                "metadatas": metadatas,
            }
            response = session.post(url, data=pickle.dumps(data), timeout=360)
            all_scores += pickle.loads(response.content)["scores"]
        return all_scores, {}

    return _fn


def _jpeg(pixels: Any) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="JPEG")
    return buffer.getvalue()


def multi_score(device: Any, score_dict: dict[str, float]) -> Callable[..., Any]:
    functions = {name: {"mllm_score_continue": mllm_score_continue}[name](device) for name in score_dict}

    def _fn(
        images: Any, prompts: Any, metadata: Any, ref_images: Any = None, only_strict: bool = True
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        total: list[float] = []
        details: dict[str, Any] = {}
        for name, weight in score_dict.items():
            scores, _ = functions[name](ref_images, images, prompts, metadata)
            details[name] = scores
            weighted = [weight * score for score in scores]
            total = [one + other for one, other in zip(total, weighted, strict=True)] if total else weighted
        details["avg"] = total
        return details, {}

    return _fn
