"""GroundingDino: boxes for phrases, by GroundingDINO (Liu et al., 2023) or MM-GroundingDINO (Zhao et al., 2024).

Picture and phrases are fused early, so every question takes a pass of encoder and decoder. The backbone before them
knows nothing of the phrases: it runs once a picture, and its features are kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from typing_extensions import Unpack

from ..expert import ExpertDown
from ..image import Image
from ..models.checkpoint import Loaded, Loading
from ..models.detecting import detections
from ..models.local import LocalExpert
from ..outcomes import Failure
from ..query import Detect, Detections

_KNOWN = ("grounding-dino", "mm-grounding-dino")

Levels = list[Any]
"""Tensors d x rows x columns, the finest first: what the encoder is given of one picture."""


@dataclass(frozen=True, slots=True)
class _Caption:
    """Phrases as the model reads them. owners: for each token the phrase it belongs to, -1 for none."""

    ids: list[int]
    owners: list[int]


@dataclass(frozen=True, slots=True)
class _Pair:
    """A question on its way: where its answer goes, what is asked, the picture's features."""

    place: int
    phrases: tuple[str, ...]
    caption: _Caption
    levels: Levels


class GroundingDino(LocalExpert[Detections | Failure]):
    """Answers `Detect`. The phrases of a query are one caption; a box is labelled with the phrase it fits best.

    name: a folder or a model on the hub, such as `IDEA-Research/grounding-dino-base` or
    `openmmlab-community/mm_grounding_dino_tiny_o365v1_goldg_v3det`. revision, dtype, device, backend: see `Checkpoint`.
    floor: boxes with a lower score are left out, in [0, 1]. batch: most queries in one call, and pictures in one pass
    of the backbone. together: most pairs of picture and phrases in one pass of the rest; None is one on a CPU, else as
    many as `batch`. limit_bytes: for the features of recent pictures, about 23 MB each at 800 x 1333 in float32.

    A box's score is the highest of its tokens' probabilities, the end marks' included, as in transformers'
    `post_process_grounded_object_detection`. Phrases are lower-cased, and dots in them become spaces, since the dot is
    what parts them. A query fails when a phrase holds no word the model knows, when the caption is longer than the
    model reads, and when the picture is so narrow that the model has fewer places than boxes.

    `meter`: `image_passes` counts pictures put through the backbone, `joint_passes` questions put through the rest.
    """

    loader = "AutoModelForZeroShotObjectDetection"
    kinds = (Detect,)
    usual: ClassVar[Loading] = {"dtype": "float32"}

    def __init__(
        self,
        name: str = "IDEA-Research/grounding-dino-tiny",
        *,
        floor: float = 0.1,
        batch: int = 8,
        together: int | None = None,
        limit_bytes: int = 1024 * 2**20,
        **loading: Unpack[Loading],
    ) -> None:
        if not 0 <= floor <= 1:
            raise ValueError(f"floor is a score in [0, 1], got {floor}")
        super().__init__(name, batch=batch, limit_bytes=limit_bytes, **loading)
        self.floor = floor
        self.together = together
        self._joint_passes = 0

    def options_id(self) -> str:
        return f"floor={self.floor}"

    def prepare(self) -> None:
        """Load the model. Raises `ExpertDown` where it is not of this kind."""
        with self.checkpoint.use() as loaded:
            self._core(loaded)

    def meter(self) -> dict[str, float]:
        return {"image_passes": self.remembered.computed, "joint_passes": self._joint_passes}

    def answers(self, queries: Sequence[Detect]) -> list[Detections | Failure]:
        outcomes: dict[int, Detections | Failure] = {}
        with self.checkpoint.use() as loaded:
            about: dict[Image, list[tuple[int, _Caption]]] = {}
            for place, query in enumerate(queries):
                caption = _caption(loaded, query.phrases)
                if isinstance(caption, Failure):
                    outcomes[place] = caption
                else:
                    about.setdefault(query.image, []).append((place, caption))
            images = sorted(about, key=lambda image: image.size)
            for start in range(0, len(images), self.batch):
                some = {image.digest: image for image in images[start : start + self.batch]}
                known = self.remembered.of(some, lambda missing: self._features(loaded, missing))
                pairs = [
                    _Pair(place, queries[place].phrases, caption, known[image.digest])
                    for image in some.values()
                    for place, caption in about[image]
                ]
                # On a CPU several pairs at once take longer than one after the other: their maps outgrow its caches.
                most = self.together or (1 if loaded.device.type == "cpu" else self.passes.size)
                for together in _of_one_size(pairs, most):
                    with self.passes.watched(len(together), loaded.device):
                        outcomes |= self._answer(loaded, together)
        return [outcomes[place] for place in range(len(queries))]

    def _core(self, loaded: Loaded) -> Any:
        """The model below the heads."""
        kind = loaded.model.config.model_type
        if kind not in _KNOWN:
            raise ExpertDown(f"{self.name} is a {kind}: give a checkpoint of {' or '.join(_KNOWN)}")
        return loaded.model.model

    def _features(self, loaded: Loaded, images: Sequence[Image]) -> list[Levels]:
        """What the encoder is to be given of each picture. Only pictures that come out equally large share a pass."""
        prepared: dict[tuple[int, ...], list[tuple[int, Any]]] = {}
        for number, image in enumerate(images):
            pixels = loaded.processor.image_processor(image.pil(), do_pad=False, return_tensors="pt")["pixel_values"]
            prepared.setdefault(tuple(pixels.shape), []).append((number, pixels))
        features: dict[int, Levels] = {}
        for alike in prepared.values():
            numbers, pixels = zip(*alike, strict=True)
            features |= dict(zip(numbers, self.in_passes(self._levels, loaded, pixels), strict=True))
        return [features[number] for number in range(len(images))]

    def _levels(self, loaded: Loaded, pixels: Sequence[Any]) -> list[Levels]:
        import torch

        levels = _levels(self._core(loaded), torch.cat(list(pixels)).to(loaded.device, loaded.dtype))
        return [[level[row].clone() for level in levels] for row in range(len(pixels))]

    def _answer(self, loaded: Loaded, pairs: Sequence[_Pair]) -> dict[int, Detections | Failure]:
        """The answers of pairs whose pictures are equally large, by place."""
        import torch

        levels = [torch.stack(level) for level in zip(*(pair.levels for pair in pairs), strict=True)]
        config = loaded.model.config
        places = sum(level.shape[-2] * level.shape[-1] for level in levels)
        if config.two_stage and places < config.num_queries:
            narrow = Failure(
                f"the picture is so narrow that the model sees {places} places in it, and needs {config.num_queries}: "
                "crop it to a squarer shape"
            )
            return {pair.place: narrow for pair in pairs}
        longest = max(len(pair.caption.ids) for pair in pairs)
        ids = torch.full((len(pairs), longest), loaded.processor.tokenizer.pad_token_id)
        mask = torch.zeros_like(ids)
        for row, pair in enumerate(pairs):
            ids[row, : len(pair.caption.ids)] = torch.tensor(pair.caption.ids)
            mask[row, : len(pair.caption.ids)] = 1
        ids, mask = ids.to(loaded.device), mask.to(loaded.device)
        with _given(self._core(loaded), levels):
            # Of the pixels, only how many pictures there are is looked at any more.
            found = loaded.model(pixel_values=levels[0], input_ids=ids, attention_mask=mask)
        self._joint_passes += len(pairs)
        chances = found.logits.float().sigmoid().cpu().numpy()
        boxes = found.pred_boxes.float().cpu().numpy()
        return {pair.place: self._detections(pair, *made) for pair, *made in zip(pairs, chances, boxes, strict=True)}

    def _detections(self, pair: _Pair, chances: Any, boxes: Any) -> Detections | Failure:
        """chances: boxes x tokens, in [0, 1]. boxes: n x 4, fractions, centre and size."""
        owners = np.array(pair.caption.owners)
        fits = np.stack([chances[:, : len(owners)][:, owners == n].max(1) for n in range(len(pair.phrases))], 1)
        return detections(boxes, chances.max(1), [pair.phrases[n] for n in fits.argmax(1)], self.floor)


def _caption(loaded: Loaded, phrases: tuple[str, ...]) -> _Caption | Failure:
    tokenizer, most = loaded.processor.tokenizer, loaded.model.config.max_text_len
    if not phrases:
        return Failure("there is no phrase to look for: give one or more")
    cleaned = [" ".join(phrase.lower().replace(".", " ").split()) for phrase in phrases]
    ids = tokenizer(" ".join(f"{phrase} ." for phrase in cleaned))["input_ids"]
    if len(ids) > most:
        return Failure(f"the phrases take {len(ids)} tokens together, the model reads {most}: ask for fewer at a time")
    dot, owners, phrase = tokenizer.convert_tokens_to_ids("."), [], 0
    marks = {dot, tokenizer.cls_token_id, tokenizer.sep_token_id}
    for token in ids:
        owners.append(-1 if token in marks else phrase)
        phrase += token == dot
    for number, asked in enumerate(phrases):
        if not any(
            owner == number and token != tokenizer.unk_token_id for owner, token in zip(owners, ids, strict=True)
        ):
            return Failure(f"the phrase {asked!r} holds no word that the model knows: say in English what to look for")
    return _Caption(ids, owners)


def _of_one_size(pairs: Sequence[_Pair], most: int) -> Iterator[list[_Pair]]:
    """Pairs whose features have one shape, `most` or fewer at a time, captions of similar length together."""
    alike: dict[tuple[Any, ...], list[_Pair]] = {}
    for pair in pairs:
        alike.setdefault(tuple(level.shape for level in pair.levels), []).append(pair)
    for group in alike.values():
        group.sort(key=lambda pair: len(pair.caption.ids))
        for start in range(0, len(group), most):
            yield group[start : start + most]


def _levels(core: Any, pixels: Any) -> list[Any]:
    """Feature maps of n pictures as the encoder takes them, n x d x rows x columns: backbone, then projections."""
    whole = pixels.new_ones((len(pixels), *pixels.shape[-2:]))
    maps = [features for features, _ in core.backbone.conv_encoder(pixels, whole)]
    levels: list[Any] = []
    for number, project in enumerate(core.input_proj_vision):
        # Coarser levels than the backbone has are made one from the other, the first of them from its last map.
        source = maps[number] if number < len(maps) else maps[-1] if number == len(maps) else levels[-1]
        levels.append(project(source))
    return levels


@contextlib.contextmanager
def _given(core: Any, levels: Sequence[Any]) -> Iterator[None]:
    """Within, the model's own forward begins with these levels in place of what it would make of the pixels."""
    import torch

    backbone, projections = core.backbone.conv_encoder, core.input_proj_vision
    whole = [level.new_ones((len(level), *level.shape[-2:]), dtype=torch.bool) for level in levels]
    kept = torch.nn.Module()
    kept.forward = lambda pixels, mask: list(zip(levels, whole, strict=True))
    core.backbone.conv_encoder = kept
    core.input_proj_vision = torch.nn.ModuleList(torch.nn.Identity() for _ in levels)
    try:
        yield
    finally:
        core.backbone.conv_encoder, core.input_proj_vision = backbone, projections
