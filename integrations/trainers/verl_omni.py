"""A scorer for verl-omni.

    reward.reward_manager.name=MultiVisualRewardManager
    +reward.reward_functions.edits.path=pkg://editcritic.integrations.verl_omni
    +reward.reward_functions.edits.name=compute_score
    +reward.reward_functions.edits.weight=1.0
    +reward.reward_functions.edits.required=true
    +reward.reward_functions.edits.server_url=http://127.0.0.1:8321

The signature is that of scorers, github.com/verl-project/verl-omni, `.agents/rules/reward.md` (a7f4824): called by
keyword, a sample at a time; extra keys of the settings arrive as keywords. The calls are in
`verl_omni/reward_loop/reward_manager/visual.py` (1486d9c: uint8 C x H x W; before, floats in [0, 1]) and `multi.py`
(061f8b9). `extra_info` has the source as its datasets for editors do, `source_img` (`instruction` and `target_img` are
optional): `examples/flowgrpo_trainer/data_process/qwenimageedit_image.py` (42e798f). Its own HTTP client sends no
source picture, so that no edit can be judged through it.

Groups are verl-omni's: the `uid` of a row of the dataset, hence of prompt and picture.

Edits without a score are NaN, and `unscored` is 1. `MultiVisualRewardManager` turns an exception into 0.0 unless
`required=true` is set, and a 0 that nobody gave is what must not be: a NaN stays one. With `global_std`, the default of
`compute_flow_grpo_outcome_advantage`, it makes every advantage of the step NaN, else those of its group; and the engine
skips an update whose gradient is not finite (`diffusers_impl.py`, 04e7572), so that a step is lost, not the weights.
`missing=raise` raises `Unscored` instead. What the reward itself raises (no judge answers, too many failures) stays an
exception: `required=true`, and the run ends there.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

from ..reward import EditSample, Score
from ..reward.spec import Spec
from .columns import picture_of
from .rollouts import Scorer, edits_of, missing_of, numbers_of, pictures_in, scored, scorer_of

_made: dict[str, Scorer] = {}
_making = threading.Lock()


async def compute_score(
    data_source: str,
    solution_image: Any,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    *,
    reward: Scorer | Spec = "",
    server_url: str = "",
    missing: str = "nan",
    **kwargs: Any,
) -> dict[str, float]:
    """{"score": value, "unscored": 0 or 1}.

    solution_image: C x H x W, or N x C x H x W of which the first is judged; uint8, or floats in [0, 1]. ground_truth:
    the instruction, unless `extra_info` has one. server_url: of a judge server; or reward: see `rollouts.scorer_of`;
    one is made for each text and kept as long as the process lives. Raises ValueError without a source.
    """
    info = extra_info or {}
    source = info.get("source_img")
    if source is None:
        raise ValueError(
            "an edit is judged against its source: extra_info['source_img'] is missing, which the preprocessing of "
            "verl-omni's datasets for editors writes"
        )
    scorer = _scorer(server_url or reward)
    sample = await asyncio.to_thread(_sample, solution_image, ground_truth, source, info)
    score = await _score(scorer, sample)
    (value,) = numbers_of([sample], [score], missing_of(missing))
    return {"score": value, "unscored": float(score.value is None)}


async def _score(scorer: Scorer, sample: EditSample) -> Score:
    """In a thread; a `RemoteReward` in its own, so that any number of calls may wait at a time."""
    remote = getattr(scorer, "score", None)
    if asyncio.iscoroutinefunction(remote):
        return (await remote([sample]))[0]
    return (await asyncio.to_thread(scored, scorer, [sample]))[0]


def _sample(picture: Any, prompt: str, source: Any, info: Mapping[str, Any]) -> EditSample:
    (edited,) = pictures_in(picture[:1] if picture.ndim == 4 else picture[None])
    sources = source if isinstance(source, list | tuple) else [source]
    (found,) = edits_of([info.get("instruction") or prompt], [edited], [[picture_of(one) for one in sources]], [info])
    return found


def _scorer(reward: Scorer | Spec) -> Scorer:
    if not isinstance(reward, str):
        return scorer_of(reward)
    with _making:
        if reward not in _made:
            _made[reward] = scorer_of(reward)
        return _made[reward]
