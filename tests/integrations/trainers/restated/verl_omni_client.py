"""`verl_omni/utils/reward_score/http_scorer_client.py` of github.com/verl-project/verl-omni (a1139ba, 2026-08-22),
restated, read 2026-11-23, with httpx2 in place of aiohttp: its requests, what it repeats, and what it raises.
"""

from __future__ import annotations

import asyncio
import io
import pickle
from typing import Any

import httpx2
from PIL import Image

TIMEOUT_S = 120.0


def _error_detail(content: bytes) -> str:
    try:
        data = pickle.loads(content)
    except (pickle.UnpicklingError, EOFError):
        return content.decode("utf-8", errors="replace")
    if isinstance(data, dict) and "error" in data:
        return str(data["error"])
    return content.decode("utf-8", errors="replace")


async def compute_score(
    solution_image: Any,
    ground_truth: str,
    server_url: str,
    max_retries: int = 2,
    retry_backoff: float = 0.5,
    **kwargs: Any,
) -> dict[str, float]:
    """solution_image: uint8 C x H x W. kwargs: sent as `metadata`, which is what the original does not: {}."""
    buffer = io.BytesIO()
    Image.fromarray(solution_image.permute(1, 2, 0).cpu().numpy()).save(buffer, format="JPEG")
    payload = pickle.dumps(
        {"images": [buffer.getvalue()], "prompts": [ground_truth], "metadata": kwargs.get("metadata", {})}
    )
    last: Exception | None = None
    async with httpx2.AsyncClient(timeout=TIMEOUT_S) as session:
        for attempt in range(max_retries + 1):
            try:
                response = await session.post(server_url, content=payload)
                if response.status_code == 200:
                    data = pickle.loads(response.content)
                    break
                error = RuntimeError(
                    f"Scorer server returned HTTP {response.status_code}: {_error_detail(response.content)}"
                )
                if response.status_code not in {408, 429} and not 500 <= response.status_code < 600:
                    raise error
                last = error
            except httpx2.TransportError as error:
                last = error
            if attempt < max_retries:
                await asyncio.sleep(retry_backoff * 2**attempt)
        else:
            raise RuntimeError(f"HTTP scoring failed after {max_retries + 1} attempts: {last}") from last
    if "error" in data:
        raise RuntimeError(f"Scorer server error: {data['error']}")
    scores = data.get("scores")
    if not scores:
        raise RuntimeError("Scorer server returned no scores")
    return {"score": float(scores[0])}
