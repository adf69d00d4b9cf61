"""A scorer for verl-omni.

    reward.custom_reward_function.path=pkg://editcritic.integrations.trainers.verl_omni
    reward.custom_reward_function.name=compute_score
    +reward.custom_reward_function.reward_kwargs.server_url=http://127.0.0.1:8321
    +reward.custom_reward_function.reward_kwargs.image_root=/data/edits/images

docs/trainers/verl_omni.md has all lines. Read: github.com/verl-project/verl-omni at a1139ba (2026-08-22), with verl at
8a69493, its pin. `VisualRewardManager` and `MultiVisualRewardManager` (`verl_omni/reward_loop/reward_manager`) call
`compute_score` by keyword, one sample at a time and many at once, in `reward.num_workers` processes; pictures are uint8
C x H x W, in versions before 1486d9c floats in [0, 1]. Keys of the configuration arrive as keywords: of `reward_kwargs`
with the first, of the entry in `reward.reward_functions` with the second.

Calls that come together are scored together. Sources: see `verl_omni_sources`. Groups are verl-omni's: the `uid` of a
dataset row, i.e. of prompt and picture.

An edit without a value raises `UnscoredError`, which ends the run. `MultiVisualRewardManager` makes 0.0 of exceptions
unless its entry has `required=true`, so that has to be set. `missing=nan` is for the estimator in
`verl_omni_advantages`: with verl-omni's own a NaN makes the advantages of its group NaN, with `global_std` of the whole
step, and the engine skips the update (`diffusers_impl.py`).

The other keys of the result are logged, as `critic/KEY/mean` or `critic/reward/NAME/KEY/mean`. They are the same and
numbers for every sample, or verl-omni drops them for the step, or stops.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...reward import EditSample
from ...reward.queries.specs import Spec
from .coalesced_calls import CoalescedCalls
from .trainer_batches import build_samples, images_from_batch, row_name
from .trainer_reward import (
    OnMissingScore,
    ScoreFn,
    TrainerReward,
    UnscoredError,
    checked_missing,
    describe_unscored,
    filled,
)
from .verl_omni_sources import SourcePictures


async def compute_score(
    data_source: str,
    solution_image: Any,
    ground_truth: str,
    extra_info: Mapping[str, Any] | None = None,
    *,
    reward: ScoreFn | Spec = "",
    server_url: str = "",
    image_root: str = "",
    image_size: int | str | None = None,
    missing: str | float = "raise",
    reward_router_address: str | None = None,
    reward_model_tokenizer: Any = None,
    model_name: str | None = None,
    **options: Any,
) -> dict[str, float]:
    """{"score": value, "unscored": 0 or 1, ...}: the `filled_columns` of `TrainerScores`, and `reward_scored`, the
    value filled in the same way: where one is missing, verl-omni's own mean of the rewards is NaN.

    solution_image: C x H x W, or N x C x H x W of which the first is scored; uint8, or floats in [0, 1]. ground_truth:
    the instruction, unless `extra_info` has one. server_url: of a judge server; or reward: see
    `trainer_reward.resolve_scorer`. image_root, image_size: see `verl_omni_sources`. missing and options: see
    `TrainerReward`; `nan` needs the estimator. One scorer is made for each set of these, and kept for the process.
    data_source and verl-omni's own reward model are not used.

    Raises ValueError without a source or for a wrong option, PixelFormatError for another scale of pixels,
    UnscoredError, and what the reward raises.
    """
    word = checked_missing(missing)
    # In a thread: building a reward may take long, and the event loop has the other calls.
    scorer = await asyncio.to_thread(
        _scorer, server_url or _plain(reward), image_root, image_size, word, _plain(options)
    )
    return await scorer.calls(_Row(solution_image, ground_truth, extra_info or {}))


@dataclass(frozen=True, slots=True)
class _Row:
    picture: Any
    prompt: str
    info: Mapping[str, Any]


class _Scorer:
    """Scores the samples of many calls at once."""

    def __init__(
        self, reward: ScoreFn | Spec, sources: SourcePictures, missing: OnMissingScore, options: Mapping[str, Any]
    ) -> None:
        self._raises = missing == "raise"
        self._reward = TrainerReward(reward, missing="nan", **options)  # a call raises for its own sample only
        self._sources = sources
        self.calls: CoalescedCalls[_Row, dict[str, float]] = CoalescedCalls(self._score)

    def _score(self, rows: Sequence[_Row]) -> list[dict[str, float] | Exception]:
        samples = [self._sample_or_error(position, row) for position, row in enumerate(rows)]
        usable = [sample for sample in samples if not isinstance(sample, Exception)]
        if not usable:
            return [sample for sample in samples if isinstance(sample, Exception)]
        scored = self._reward(usable)
        results: list[dict[str, float] | Exception] = []
        columns = {"reward_scored": filled(scored.values), **scored.filled_columns}
        for row, (sample, score, value) in enumerate(zip(usable, scored.scores, scored.values, strict=True)):
            if self._raises and math.isnan(value):
                results.append(UnscoredError(describe_unscored([sample], [score], [True]), [score]))
            else:
                results.append({"score": value, **{name: column[row] for name, column in columns.items()}})
        of_usable = iter(results)
        return [sample if isinstance(sample, Exception) else next(of_usable) for sample in samples]

    def _sample_or_error(self, position: int, row: _Row) -> EditSample | str | Exception:
        try:
            picture = row.picture[:1] if row.picture.ndim == 4 else row.picture[None]
            (edited,) = images_from_batch(picture)
            prompt = row.info.get("instruction") or row.prompt
            (sample,) = build_samples([prompt], [edited], [self._sources.of(row.info, edited)], [row.info])
        except Exception as error:  # noqa: BLE001  (its call raises it; the others are scored)
            return error
        return sample if isinstance(sample, str) else replace(sample, id=row_name(row.info, position))


_scorers: dict[str, tuple[object, _Scorer]] = {}
_scorers_lock = threading.Lock()


def _scorer(
    reward: Any, image_root: str, image_size: int | str | None, missing: OnMissingScore, options: Mapping[str, Any]
) -> _Scorer:
    built = None if isinstance(reward, str | Mapping) else reward
    key = json.dumps(
        [reward if built is None else id(built), image_root, image_size, missing, options], sort_keys=True, default=str
    )
    with _scorers_lock:
        if key not in _scorers:  # with what was built, so that no other has its id meanwhile
            _scorers[key] = built, _Scorer(reward, SourcePictures(image_root, image_size), missing, options)
        return _scorers[key][1]


def _plain(value: Any) -> Any:
    """Tables and lists of a configuration as those of Python; else the value as it is."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    return value
