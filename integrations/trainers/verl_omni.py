"""A scorer for verl-omni: docs/trainers/verl_omni.md has the lines. Read: github.com/verl-project/verl-omni at a1139ba
(2026-08-22), with verl at 8a69493, its pin.

Its reward managers call `compute_score` by keyword, one sample at a time and many at once, in several processes; calls
that come together are scored together. Keys of the configuration arrive as keywords. Groups are the `uid` of a dataset
row. The recipe writes the name of the source's file into `extra_info`: it is read again and fitted as there.

An edit without a value raises `UnscoredError`, of which `MultiVisualRewardManager` makes 0.0 unless `required=true` is
set. `missing=nan` is for the estimator in `verl_omni_advantages`. The other keys of the result are logged: they are the
same and numbers for every sample, or verl-omni drops them for the step, or stops."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PureWindowsPath
from time import monotonic, sleep
from typing import Any, Generic, TypeVar

import numpy as np
import PIL.Image
import PIL.ImageOps

from ...reward import EditSample, Image, ImageError
from ...reward.image_decoding import decode, image_errors, read_bytes
from ...reward.queries.specs import Spec
from ..dataset_rows import build_samples, image_or_reason, images_from_batch, row_name
from .trainer_reward import (
    OnMissingScore,
    ScoreFn,
    TrainerReward,
    UnscoredError,
    checked_missing,
    describe_unscored,
    filled,
)

Row = TypeVar("Row")
Result = TypeVar("Result")


class CoalescedCalls(Generic[Row, Result]):
    """Gathers calls until none has come for `quiet_s`, or for `longest_s` in all, and runs them together in a thread.

    run: rows to a result, or an exception, for each; what it raises is raised by all calls. concurrency: of `run`;
    while all are under way, calls wait. A call that is cancelled before it is run is left out."""

    def __init__(
        self,
        run: Callable[[list[Row]], Sequence[Result | Exception]],
        *,
        quiet_s: float = 0.01,
        longest_s: float = 0.1,
        concurrency: int = 4,
    ) -> None:
        self._run = run
        self._quiet_s = quiet_s
        self._longest_s = longest_s
        self._lock = threading.Lock()
        self._waiting: list[tuple[Row, Future[Result]]] = []
        self._pool = ThreadPoolExecutor(concurrency, "coalesced-calls")

    async def __call__(self, row: Row) -> Result:
        future: Future[Result] = Future()
        with self._lock:
            if not self._waiting:  # what is submitted takes all that wait by then
                self._pool.submit(self._run_waiting)
            self._waiting.append((row, future))
        return await asyncio.wrap_future(future)

    def _run_waiting(self) -> None:
        until, seen = monotonic() + self._longest_s, -1
        while len(self._waiting) > seen and monotonic() < until:
            seen = len(self._waiting)
            sleep(self._quiet_s)
        with self._lock:
            calls, self._waiting = self._waiting, []
        calls = [call for call in calls if call[1].set_running_or_notify_cancel()]
        if not calls:
            return
        try:
            results = list(zip(calls, self._run([row for row, _ in calls]), strict=True))
        except BaseException as error:  # noqa: BLE001  (it is the callers', who would wait for ever)
            for _, future in calls:
                future.set_exception(error)
            return
        for (_, future), result in results:
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)


_KEPT_SOURCES = 32  # a group of rollouts shares one


class SourcePictures:
    """Finds the sources of a sample. image_root: `INPUT_DIR/images` of `prepare_data.py`, or empty if `extra_info` has
    `source_img`. image_size: its `--image_size`; default: the side of the generated picture, which has to be
    square. Raises ValueError for a folder that is none."""

    def __init__(self, image_root: str = "", image_size: int | str | None = None) -> None:
        self._root = Path(image_root).expanduser() if image_root else None
        if self._root is not None and not self._root.is_dir():
            raise ValueError(f"image_root is the folder `images` of the recipe's --input_dir, got {image_root!r:.200}")
        try:
            self._size = None if image_size is None else int(image_size)
        except (TypeError, ValueError):
            self._size = 0
        if self._size is not None and not 1 <= self._size <= 8192:
            raise ValueError(f"image_size is a number of pixels from 1 to 8192, got {image_size!r:.80}")

    def of(self, extra_info: Mapping[str, Any], edited: Image | str) -> list[Image | str]:
        """The sources, each an image or the reason why it is none: `source_img` of extra_info, as `Image.of` takes it
        or as a list, else the file `image` in `image_root`. Raises ValueError if it has neither, or the file cannot be
        read or is elsewhere."""
        given = extra_info.get("source_img")
        if isinstance(given, np.ndarray) and given.dtype == object:  # a list, as pandas reads it
            given = given.tolist()
        if given is not None:
            return [image_or_reason(one) for one in (given if isinstance(given, list | tuple) else [given])]
        if self._root is None or extra_info.get("image") is None:
            raise ValueError(
                "an edit is scored against its source, and extra_info has no source_img: for data sets of "
                "prepare_data.py give image_root=INPUT_DIR/images (the file is extra_info['image']), or add source_img "
                "with `python -m editcritic.integrations.trainers.verl_omni_rows TRAIN.parquet OUT.parquet`"
            )
        if isinstance(edited, str):
            return []  # that is the reason, whatever the source
        size = self._size or (edited.width if edited.width == edited.height else None)
        if size is None:
            raise ValueError(
                f"the recipe fits sources into a square, and the generated picture has {edited.width} x "
                f"{edited.height} pixels: give image_size=SIDE, the --image_size of prepare_data.py"
            )
        return [_fitted_source(self._root, extra_info["image"], size)]


@lru_cache(_KEPT_SOURCES)
def _fitted_source(root: Path, name: Any, size: int) -> Image | str:
    if not isinstance(name, str) or not _is_below(name):
        raise ValueError(f"extra_info['image'] is the name of a file below image_root, got {name!r:.200}")
    try:
        data = read_bytes(root / name, inside=root)
    except ImageError as error:
        raise ValueError(f"the source that extra_info['image'] names in image_root: {error}") from None
    try:
        pixels = decode(data, name, reading="stored")
        with image_errors(name):  # of a strip of 1 x 10,000 nothing is left
            fitted = PIL.ImageOps.contain(
                PIL.Image.fromarray(pixels), (size, size), method=PIL.Image.Resampling.LANCZOS
            )
    except ImageError as error:
        return str(error)
    canvas = PIL.Image.new("RGB", (size, size), (255, 255, 255))
    canvas.paste(fitted, ((size - fitted.width) // 2, (size - fitted.height) // 2))
    return Image.of(canvas)


def _is_below(name: str) -> bool:
    """Whether a name leads neither up nor elsewhere, on any system. Links are followed later."""
    path = PureWindowsPath(name)  # it splits at both kinds of slashes
    return bool(path.name) and not path.anchor and ".." not in path.parts


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

    Raises ValueError without a source or for a wrong option, PixelFormatError for another scale of pixels,
    UnscoredError, and what the reward raises.

    Args:
        solution_image: C x H x W, or N x C x H x W of which the first is scored; uint8, or floats in [0, 1].
        ground_truth: The instruction, unless `extra_info` has one.
        server_url: Of a judge server; or reward: see `trainer_reward.resolve_scorer`.
        image_root: See `SourcePictures`.
        image_size: See `SourcePictures`.
        missing: See `TrainerReward`; `nan` needs the estimator. One scorer is made for each set of these, and kept for
            the process. data_source and verl-omni's own reward model are not used.
        options: See `missing`.
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
