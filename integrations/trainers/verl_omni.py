"""A scorer for verl-omni.

    reward.reward_manager.name=MultiVisualRewardManager
    +reward.reward_functions.edits.path=pkg://editcritic.integrations.trainers.verl_omni
    +reward.reward_functions.edits.name=compute_score
    +reward.reward_functions.edits.weight=1.0
    +reward.reward_functions.edits.required=true
    +reward.reward_functions.edits.server_url=http://127.0.0.1:8321

The signature is that of scorers, github.com/verl-project/verl-omni, `.agents/rules/reward.md` (a7f4824): called by
keyword, one sample at a time; extra configuration keys arrive as keywords. The calls are in
`verl_omni/reward_loop/reward_manager/visual.py` (1486d9c: uint8 C x H x W; before, floats in [0, 1]) and `multi.py`
(061f8b9). `extra_info` has the source in `source_img`, as in its datasets for editors (`instruction` and `target_img`
are optional): `examples/flowgrpo_trainer/data_process/qwenimageedit_image.py` (42e798f). Its own HTTP client sends no
source image, so it cannot be used to score edits.

Groups are verl-omni's: the `uid` of a dataset row, i.e. of prompt and image.

Edits without a score are NaN, and `unscored` is 1. `MultiVisualRewardManager` turns an exception into 0.0 unless
`required=true` is set, which would be a made-up score; NaN stays NaN. With `global_std`, the default of
`compute_flow_grpo_outcome_advantage`, it makes every advantage of the step NaN, else those of its group; the engine
skips an update whose gradient is not finite (`diffusers_impl.py`, 04e7572), so the step is lost, but not the weights.
`missing=raise` raises `UnscoredError` instead. Exceptions of the reward itself (no judge server, too many failures)
stay exceptions: with `required=true` they end the run.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

from ...reward import EditSample
from ...reward.queries.specs import Spec
from ..unusable_rows import image_or_reason
from .trainer_batches import build_samples, images_from_batch
from .trainer_reward import ScoreFn, TrainerReward

_scorers: dict[tuple[str, str], TrainerReward] = {}
_scorers_lock = threading.Lock()


async def compute_score(
    data_source: str,
    solution_image: Any,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    *,
    reward: ScoreFn | Spec = "",
    server_url: str = "",
    missing: str = "nan",
    **kwargs: Any,
) -> dict[str, float]:
    """{"score": value, "unscored": 0 or 1}.

    solution_image: C x H x W, or N x C x H x W of which the first is scored; uint8, or floats in [0, 1]. ground_truth:
    the instruction, unless `extra_info` has one. server_url: of a judge server; or reward: see
    `trainer_reward.resolve_scorer`; one scorer is created per string and kept for the process. Raises ValueError
    without a source.
    """
    info = extra_info or {}
    source = info.get("source_img")
    if source is None:
        raise ValueError(
            "an edit is scored against its source: extra_info['source_img'] is missing, which the preprocessing of "
            "verl-omni's datasets for editors writes"
        )
    scorer = _scorer(server_url or reward, missing)
    sample = await asyncio.to_thread(_sample, solution_image, ground_truth, source, info)
    scores = await asyncio.to_thread(scorer, [sample])
    return {"score": scores.values[0], "unscored": scores.columns["unscored"][0]}


def _sample(image: Any, prompt: str, source: Any, info: Mapping[str, Any]) -> EditSample | str:
    (edited,) = images_from_batch(image[:1] if image.ndim == 4 else image[None])
    sources = source if isinstance(source, list | tuple) else [source]
    (sample,) = build_samples(
        [info.get("instruction") or prompt], [edited], [[image_or_reason(one) for one in sources]], [info]
    )
    return sample


def _scorer(reward: ScoreFn | Spec, missing: str) -> TrainerReward:
    if not isinstance(reward, str):
        return TrainerReward(reward, missing=missing)
    with _scorers_lock:
        if (reward, missing) not in _scorers:
            _scorers[reward, missing] = TrainerReward(reward, missing=missing)
        return _scorers[reward, missing]
