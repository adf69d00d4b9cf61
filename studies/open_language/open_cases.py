"""Cases in open language: samples of a source, an edited image and a sentence, nothing else, with their truth.

Each request has an honest edit and a flawed one of the same source, so that their order can be checked.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from editcritic.benchmarks.sceneedit.cases import Split, seeded_rng
from editcritic.benchmarks.sceneedit.ground_truth import GroundTruth
from editcritic.benchmarks.sceneedit.render import render
from editcritic.benchmarks.sceneedit.scene_generation import SceneConfig
from editcritic.reward import EditSample
from editcritic.reward.edit_plan import EditPlan

from .open_edits import OBJECT_FLAWS, OpenEdit, flawed_open_edit, honest_open_edit
from .open_requests import OBJECT_REQUEST_KINDS, OpenRequest, random_object_request
from .whole_picture import (
    LOOKS,
    WHOLE_PICTURE_FLAWS,
    WholePictureEdit,
    WholePictureRequest,
    flawed_whole_picture_edit,
    honest_whole_picture_edit,
    random_whole_picture_request,
)

IMAGE_SIZE = 96
"""Pixels a side: room for twins beside other objects."""
REQUEST_KINDS: tuple[str, ...] = (*OBJECT_REQUEST_KINDS, *LOOKS)
FLAWS: tuple[str, ...] = tuple(dict.fromkeys((*OBJECT_FLAWS, *WHOLE_PICTURE_FLAWS)))
LANGUAGE_FLAWS = ("wrong twin", "twin too", "only some of all", "not all operations", "kept thing changed")
"""Flaws that come from misreading the sentence: few requests allow each, so that they are tried first."""
_PREFERRED = 0.6
_MIN_LOSS = 0.04
"""What a flaw must cost of what is kept, where the request is followed: less is no flaw."""


@dataclass(frozen=True)
class OpenCase:
    """An edit in open language. sample: without task, pools, boxes, operations and plan. kind: of the request. flaw:
    empty for an honest edit. plan: made by hand.
    """

    sample: EditSample
    truth: GroundTruth
    kind: str
    flaw: str
    plan: EditPlan

    @property
    def request(self) -> str:
        """The same for the edits of one source by one sentence."""
        return self.sample.id.rpartition("/")[0]


def open_cases(
    count: int, *, seed: int = 0, first: int = 0, split: Split = "test", size: int = IMAGE_SIZE
) -> list[OpenCase]:
    """`count` edits (an even number), in pairs of an honest and a flawed one; kinds of requests in turn.

    Bit-identical for a seed. first: number of the first pair, so that a set can be made in parts.
    """
    cases: list[OpenCase] = []
    for number in range(first, first + count // 2):
        rng = seeded_rng(split, seed, "open language", number)
        name = f"{split}-{seed}-open-{number}"
        cases += open_pair(rng, REQUEST_KINDS[number % len(REQUEST_KINDS)], name, size)
    return cases


def open_pair(rng: random.Random, kind: str, name: str, size: int = IMAGE_SIZE) -> tuple[OpenCase, OpenCase]:
    """An honest and a flawed edit of one random request of this kind."""
    config = SceneConfig.for_size(size)
    look = next((one for one in LOOKS if one == kind), None)
    while True:
        pair: tuple[OpenEdit, OpenEdit] | tuple[WholePictureEdit, WholePictureEdit] | None
        if look is None:
            chosen = next(one for one in OBJECT_REQUEST_KINDS if one == kind)
            pair = _object_pair(rng, random_object_request(rng, config, chosen), config)
        else:
            pair = _whole_picture_pair(rng, random_whole_picture_request(rng, config, look))
        if pair is not None:
            honest, flawed = pair
            return _case(honest, f"{name}/0"), _case(flawed, f"{name}/1")


def _object_pair(rng: random.Random, request: OpenRequest, config: SceneConfig) -> tuple[OpenEdit, OpenEdit] | None:
    """None where the request cannot be followed, or no flaw applies."""
    honest = honest_open_edit(rng, request, config)
    if not honest.truth.followed:
        return None
    for flaw in _shuffled(rng, OBJECT_FLAWS, LANGUAGE_FLAWS):
        flawed = flawed_open_edit(rng, request, config, flaw)
        if flawed is not None and _is_worse(flawed.truth, honest.truth):
            return honest, flawed
    return None


def _whole_picture_pair(
    rng: random.Random, request: WholePictureRequest
) -> tuple[WholePictureEdit, WholePictureEdit] | None:
    honest = honest_whole_picture_edit(rng, request)
    for flaw in _shuffled(rng, WHOLE_PICTURE_FLAWS):
        flawed = flawed_whole_picture_edit(rng, request, flaw)
        if flawed is not None and _is_worse(flawed.truth, honest.truth):
            return honest, flawed
    return None


def _shuffled(rng: random.Random, names: Iterable[str], preferred: Sequence[str] = ()) -> list[str]:
    """The names in random order; with a probability of `_PREFERRED` the preferred ones first."""
    order = list(names)
    rng.shuffle(order)
    return sorted(order, key=lambda name: name not in preferred) if rng.random() < _PREFERRED else order


def _is_worse(flawed: GroundTruth, honest: GroundTruth) -> bool:
    return not flawed.followed or (flawed.kept or 0.0) <= (honest.kept or 0.0) - _MIN_LOSS


def _case(edit: OpenEdit | WholePictureEdit, name: str) -> OpenCase:
    if isinstance(edit, OpenEdit):
        request, picture, source = edit.request, edit.edit.picture, render(edit.request.before)
        sample = EditSample(name, request.sentence, (source,), picture)
        return OpenCase(sample, edit.truth, request.kind, edit.flaw, request.plan)
    sample = EditSample(name, edit.request.sentence, (edit.request.source,), edit.picture)
    return OpenCase(sample, edit.truth, edit.request.kind, edit.flaw, edit.request.plan)
