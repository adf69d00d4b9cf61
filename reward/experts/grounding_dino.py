"""GroundingDino: boxes for phrases, by GroundingDINO (Liu et al., 2023) or MM-GroundingDINO (Zhao et al., 2024).

Image and phrases are fused early, so every query needs a pass of encoder and decoder. The backbone does not depend on
the phrases: it runs once per image, and its features are cached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from typing_extensions import Unpack

from ..image import Image
from ..queries.answers import Detections
from ..queries.kinds import Detect
from ..queries.outcomes import Failure
from .loading.checkpoint import LoadedModel, LoadOptions
from .loading.detection import check_scores, make_detections
from .loading.local_expert import LocalExpert, as_module, patched_parts

FeatureMaps = list[Any]
"""Tensors d x rows x columns, the finest first: the encoder's input for one image."""


@dataclass(frozen=True, slots=True)
class _Caption:
    """Phrases as model input. owners: for each token the index of its phrase, -1 for none."""

    ids: list[int]
    owners: list[int]


@dataclass(frozen=True, slots=True)
class _DetectionRequest:
    """A query in progress: index, phrases, and the image's features."""

    index: int
    phrases: tuple[str, ...]
    caption: _Caption
    levels: FeatureMaps


class GroundingDino(LocalExpert[Detections | Failure]):
    """Answers `Detect`. The phrases of a query are one caption; a box is labelled with the phrase it fits best.

    A box's score is the highest of its tokens' probabilities, end tokens included, as in transformers'
    `post_process_grounded_object_detection`. Phrases are lower-cased, and dots in them become spaces, since dots
    separate phrases. A query fails if a phrase has no word known to the model, if the caption is longer than the
    model's limit, and if the image is so narrow that the model has fewer positions than queries.

    `usage`: `image_passes` counts images encoded by the backbone, `joint_passes` queries through encoder and decoder.

    Args:
        name: A folder or a model on the hub, such as `IDEA-Research/grounding-dino-base` or
            `openmmlab-community/mm_grounding_dino_tiny_o365v1_goldg_v3det`. revision, dtype, device, backend: see
            `Checkpoint`.
        min_score: Boxes with a lower score are left out, in [0, 1].
        size: The shorter side in pixels that images are resized to, the longer one at most 5/3 of it; None uses the
            processor's, 800 and 1333 for the published models. Both kinds were trained on shorter sides from 480 to 800
            (`data_aug_scales` of GroundingDINO, `RandomChoiceResize` of MM-GroundingDINO in MMDetection).
        batch: Maximum queries per call, and images in one pass of the backbone.
        joint_batch: Maximum pairs of image and phrases in one pass of encoder and decoder; None is 1 on a CPU, else
            `batch`.
        cache_bytes: For the features of recent images, about 23 MB each at 800 x 1333 in float32.
    """

    loader = "AutoModelForZeroShotObjectDetection"
    version = 2
    kinds = (Detect,)
    model_types = ("grounding-dino", "mm-grounding-dino")
    counters = ("joint_passes",)
    default_load_options: ClassVar[LoadOptions] = {"dtype": "float32"}

    def __init__(
        self,
        name: str = "IDEA-Research/grounding-dino-tiny",
        *,
        min_score: float = 0.1,
        size: int | None = None,
        batch: int = 8,
        joint_batch: int | None = None,
        cache_bytes: int = 1024 * 2**20,
        **loading: Unpack[LoadOptions],
    ) -> None:
        check_scores(min_score=min_score)
        if size is not None and size < 1:
            raise ValueError(f"size must be a side in pixels, got {size}")
        super().__init__(name, batch=batch, cache_bytes=cache_bytes, **loading)
        self.min_score = min_score
        self.size = size
        self.joint_batch = joint_batch

    def options_id(self) -> str:
        return f"floor={self.min_score}" + (f" size={self.size}" if self.size else "")

    def answer_batch(self, queries: Sequence[Detect]) -> list[Detections | Failure]:
        outcomes: dict[int, Detections | Failure] = {}
        with self.checkpoint.use() as loaded:
            captions: dict[Image, list[tuple[int, _Caption]]] = {}
            for index, query in enumerate(queries):
                caption = _caption(loaded, query.phrases)
                if isinstance(caption, Failure):
                    outcomes[index] = caption
                else:
                    captions.setdefault(query.image, []).append((index, caption))
            images = sorted(captions, key=lambda image: image.size)
            for start in range(0, len(images), self.batch):
                batch = {image.digest: image for image in images[start : start + self.batch]}
                features = self.feature_cache.get_or_compute(batch, lambda missing: self._features(loaded, missing))
                pairs = [
                    _DetectionRequest(index, queries[index].phrases, caption, features[image.digest])
                    for image in batch.values()
                    for index, caption in captions[image]
                ]
                # On a CPU larger batches are slower per pair: their feature maps exceed the caches.
                joint_batch = self.joint_batch or (1 if loaded.device.type == "cpu" else self.microbatcher.size)
                for group in _of_one_size(pairs, joint_batch):
                    with self.microbatcher.track_memory(len(group), loaded.device):
                        outcomes |= self._answer(loaded, group)
        return [outcomes[index] for index in range(len(queries))]

    def _features(self, loaded: LoadedModel, images: Sequence[Image]) -> list[FeatureMaps]:
        """The encoder inputs of each image. Only images of equal size after preprocessing share a pass."""
        resize = {"size": {"shortest_edge": self.size, "longest_edge": self.size * 5 // 3}} if self.size else {}
        prepare = partial(loaded.processor.image_processor, do_pad=False, return_tensors="pt", **resize)
        pixels = [prepare(image.pil())["pixel_values"] for image in images]
        return self.run_alike(self._levels, loaded, pixels, lambda one: one.shape)

    def _levels(self, loaded: LoadedModel, pixels: Sequence[Any]) -> list[FeatureMaps]:
        """The encoder's inputs, d x rows x columns each: backbone, then projections."""
        import torch

        core, batch = loaded.model.model, torch.cat(list(pixels)).to(loaded.device, loaded.dtype)
        mask = batch.new_ones((len(batch), *batch.shape[-2:]))
        maps = [features for features, _ in core.backbone.conv_encoder(batch, mask)]
        levels: list[Any] = []
        for number, project in enumerate(core.input_proj_vision):
            # Levels coarser than the backbone's are computed from each other, the first from the backbone's last map.
            source = maps[number] if number < len(maps) else maps[-1] if number == len(maps) else levels[-1]
            levels.append(project(source))
        return [[level[row].clone() for level in levels] for row in range(len(pixels))]

    def _answer(self, loaded: LoadedModel, pairs: Sequence[_DetectionRequest]) -> dict[int, Detections | Failure]:
        """The detections of pairs whose images have equal size, by query index."""
        import torch

        levels = [torch.stack(level) for level in zip(*(pair.levels for pair in pairs), strict=True)]
        config = loaded.model.config
        positions = sum(level.shape[-2] * level.shape[-1] for level in levels)
        if config.two_stage and positions < config.num_queries:
            failure = Failure(
                f"the image is so narrow that it has {positions} positions, the model needs {config.num_queries}: "
                "crop it to a squarer shape"
            )
            return {pair.index: failure for pair in pairs}
        length = max(len(pair.caption.ids) for pair in pairs)
        ids = torch.full((len(pairs), length), loaded.processor.tokenizer.pad_token_id)
        mask = torch.zeros_like(ids)
        for row, pair in enumerate(pairs):
            ids[row, : len(pair.caption.ids)] = torch.tensor(pair.caption.ids)
            mask[row, : len(pair.caption.ids)] = 1
        ids, mask = ids.to(loaded.device), mask.to(loaded.device)
        # The forward starts from these levels instead of the pixels, of which only the batch size is used.
        masks = [level.new_ones((len(level), *level.shape[-2:]), dtype=torch.bool) for level in levels]
        start = as_module(lambda pixels, mask: list(zip(levels, masks, strict=True)))
        core, identities = loaded.model.model, torch.nn.ModuleList(torch.nn.Identity() for _ in levels)
        with (
            patched_parts(core.backbone, conv_encoder=start),
            patched_parts(core, input_proj_vision=identities),
        ):
            outputs = loaded.model(pixel_values=levels[0], input_ids=ids, attention_mask=mask)
        self.counts["joint_passes"] += len(pairs)
        probabilities = outputs.logits.float().sigmoid().cpu().numpy()
        boxes = outputs.pred_boxes.float().cpu().numpy()
        outcomes = {}
        for pair, by_token, pair_boxes in zip(pairs, probabilities, boxes, strict=True):
            owners = np.array(pair.caption.owners)
            of_phrases = [by_token[:, : len(owners)][:, owners == n].max(1) for n in range(len(pair.phrases))]
            labels = [pair.phrases[n] for n in np.stack(of_phrases, 1).argmax(1)]
            outcomes[pair.index] = make_detections(pair_boxes, by_token.max(1), labels, self.min_score)
        return outcomes


def _caption(loaded: LoadedModel, phrases: tuple[str, ...]) -> _Caption | Failure:
    tokenizer, max_tokens = loaded.processor.tokenizer, loaded.model.config.max_text_len
    if not phrases:
        return Failure("there is no phrase to detect: give one or more")
    cleaned = [" ".join(phrase.lower().replace(".", " ").split()) for phrase in phrases]
    ids = tokenizer(" ".join(f"{phrase} ." for phrase in cleaned))["input_ids"]
    if len(ids) > max_tokens:
        taken = f"the phrases take {len(ids)} tokens together, the model reads {max_tokens}"
        return Failure(f"{taken}: use fewer per query")
    dot, owners, phrase = tokenizer.convert_tokens_to_ids("."), [], 0
    separators = {dot, tokenizer.cls_token_id, tokenizer.sep_token_id}
    for token in ids:
        owners.append(-1 if token in separators else phrase)
        phrase += token == dot
    known = {owner for owner, token in zip(owners, ids, strict=True) if token != tokenizer.unk_token_id}
    for number, original in enumerate(phrases):
        if number not in known:
            return Failure(f"the phrase {original!r} has no word known to the model: use English")
    return _Caption(ids, owners)


def _of_one_size(pairs: Sequence[_DetectionRequest], max_pairs: int) -> Iterator[list[_DetectionRequest]]:
    """Batches of up to `max_pairs` pairs with equal feature shapes, sorted by caption length."""
    groups: dict[tuple[Any, ...], list[_DetectionRequest]] = {}
    for pair in pairs:
        groups.setdefault(tuple(level.shape for level in pair.levels), []).append(pair)
    for group in groups.values():
        group.sort(key=lambda pair: len(pair.caption.ids))
        for start in range(0, len(group), max_pairs):
            yield group[start : start + max_pairs]
