"""Sam3: boxes and masks for phrases, by SAM 3 (Carion et al., 2025), which segments all instances of a phrase.

Its image encoder is by far its largest part and does not depend on the phrases: it runs once per image. Masks and
their features are computed only for `Segment`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from typing_extensions import Unpack

from ..image import Image
from ..queries.answers import Detections, Mask
from ..queries.kinds import Detect, Segment
from ..queries.outcomes import Failure
from .loading.checkpoint import LoadedModel, LoadOptions
from .loading.detection import NOT_FINITE, check_scores, clip_tokens, group_by_image, make_detections, max_phrase_tokens
from .loading.local_expert import LocalExpert, as_module, patched_parts

_COMMAND_PREFIX = re.compile(r"\W*(?:please\s+)?segment\s+(?:out\s+)?", re.IGNORECASE)

ImagePhrase = tuple[str, str]
"""Digest of an image, and a phrase."""


class Sam3(LocalExpert[Detections | Mask | Failure]):
    """Answers `Detect` and `Segment`. Every phrase is processed by itself; a query of several gets the boxes of each.

    A box's score is the probability that it matches the phrase, times the probability that the image contains the
    concept at all, as in transformers' `post_process_instance_segmentation`. Boxes may extend beyond the image. A mask
    is the union of all instances of the phrase. Its score is their highest score; an empty mask's score is one minus
    the highest score of any instance.

    A segmentation command is reduced to the noun phrase that SAM 3 expects: `Please segment` and the full stop are
    removed. A query fails if a phrase is empty, or longer than the model's limit (32 tokens), as sentences are.

    An image that was encoded for boxes only is encoded again for its first mask. `usage`: `image_passes` counts images
    encoded, `text_passes` phrases encoded, `joint_passes` pairs of them.

    Args:
        name: A folder or a model on the hub.
        min_score: Boxes with a lower score are left out, in [0, 1].
        min_detection_score: Instances with a higher score are part of the mask (0.5, as in the authors' own processor).
        mask_threshold: Pixels with a higher probability are part of it; both in [0, 1].
        batch: Maximum queries per call, and images, phrases or pairs in one pass.
        cache_bytes: For the features of recent images and phrases, in float32 about 5 MB per image, and 106 MB more for
            its masks.
        loading: See `LoadOptions`; backend must stay `auto`, since the processor needs torchvision.
    """

    loader = "Sam3Model"
    processor = "Sam3Processor"
    version = 2
    kinds = (Detect, Segment)
    model_types = ("sam3", "sam3_video")
    counters = ("image_passes", "text_passes", "joint_passes")
    default_load_options: ClassVar[LoadOptions] = {"dtype": "float32"}

    def __init__(
        self,
        name: str = "facebook/sam3",
        *,
        min_score: float = 0.1,
        min_detection_score: float = 0.5,
        mask_threshold: float = 0.5,
        batch: int = 8,
        cache_bytes: int = 512 * 2**20,
        **loading: Unpack[LoadOptions],
    ) -> None:
        check_scores(min_score=min_score, min_detection_score=min_detection_score, mask_threshold=mask_threshold)
        super().__init__(name, batch=batch, cache_bytes=cache_bytes, **loading)
        self.min_score = min_score
        self.min_detection_score = min_detection_score
        self.mask_threshold = mask_threshold

    def options_id(self) -> str:
        return f"floor={self.min_score} least={self.min_detection_score} mask_threshold={self.mask_threshold}"

    def answer_batch(self, queries: Sequence[Detect | Segment]) -> list[Detections | Mask | Failure]:
        masks = any(isinstance(query, Segment) for query in queries)  # all queries of a call are of one kind
        asked = [Detect(q.image, (_phrase(q.command),)) if isinstance(q, Segment) else q for q in queries]
        with self.checkpoint.use() as loaded:
            by_image, failed = group_by_image(asked, loaded.processor.tokenizer, max_phrase_tokens(loaded))
            outcomes: dict[int, Detections | Mask | Failure] = {**failed}
            phrases = {f"phrase {p}": p for indices in by_image.values() for n in indices for p in asked[n].phrases}
            texts = self.cached(self._encode_phrases, loaded, phrases)
            images = list(by_image)
            # Mask features are large, and held until the masks are computed.
            step = self.microbatcher.size if masks else self.batch
            for start in range(0, len(images), step):
                batch = {image.digest: image for image in images[start : start + step]}
                features = self._image_features(loaded, batch, masks)
                indices = [index for image in batch.values() for index in by_image[image]]
                pairs = list(dict.fromkeys((asked[n].image.digest, p) for n in indices for p in asked[n].phrases))
                inputs = [(features[f"picture {digest}"], texts[f"phrase {phrase}"]) for digest, phrase in pairs]
                if masks:
                    finer = [(features[f"finer {digest}"], batch[digest].size) for digest, _ in pairs]
                    drawn = self.run_microbatched(self._masks, loaded, list(zip(inputs, finer, strict=True)))
                    by_pair = dict(zip(pairs, drawn, strict=True))
                    outcomes |= {n: by_pair[asked[n].image.digest, asked[n].phrases[0]] for n in indices}
                else:
                    joint_outputs = dict(zip(pairs, self.run_microbatched(self._joint, loaded, inputs), strict=True))
                    outcomes |= {index: self._detections(asked[index], joint_outputs) for index in indices}
        return [outcomes[index] for index in range(len(queries))]

    def _image_features(self, loaded: LoadedModel, images: Mapping[str, Image], masks: bool) -> dict[str, Any]:
        """The feature map of each image for detection, and, for masks, the two finer ones."""
        # Finer maps first: they are evicted first, and they are twenty times as large.
        parts = ("finer", "picture") if masks else ("picture",)
        keys = {f"{part} {digest}": (part, image) for part in parts for digest, image in images.items()}

        def compute(missing: Sequence[tuple[str, Image]]) -> list[Any]:
            distinct = list(dict.fromkeys(image for _, image in missing))
            passes = self.run_microbatched(functools.partial(self._encode_images, masks=masks), loaded, distinct)
            maps = dict(zip(distinct, passes, strict=True))
            return [maps[image][-1] if part == "picture" else maps[image][:-1] for part, image in missing]

        return self.feature_cache.get_or_compute(keys, compute)

    def _encode_phrases(self, loaded: LoadedModel, phrases: Sequence[str]) -> list[tuple[Any, Any]]:
        """Token features of each phrase, n x d, and its attention mask, n."""
        tokens = clip_tokens(loaded.processor.tokenizer, phrases, max_phrase_tokens(loaded)).to(loaded.device)
        features = loaded.model.get_text_features(**tokens).pooler_output
        self.counts["text_passes"] += len(phrases)
        return [(row.clone(), mask) for row, mask in zip(features, tokens["attention_mask"], strict=True)]

    def _encode_images(self, loaded: LoadedModel, images: Sequence[Image], masks: bool) -> list[tuple[Any, ...]]:
        """Feature maps, d x rows x columns each: the finer ones if `masks`, then the one for detection."""
        import torch

        prepared = loaded.processor.image_processor([image.pil() for image in images], return_tensors="pt")
        encoder = loaded.model.vision_encoder
        # Finer maps are for masks, and the last one is unused. Positions would stay in transformers' cache.
        layers = encoder.neck.fpn_layers
        used_layers = torch.nn.ModuleList(layers[:-1] if masks else [layers[-2]])
        with patched_parts(encoder.neck, fpn_layers=used_layers, position_encoding=as_module(lambda *_: None)):
            maps = encoder(prepared["pixel_values"].to(loaded.device, loaded.dtype)).fpn_hidden_states
        self.counts["image_passes"] += len(images)
        return [tuple(level.clone() for level in levels) for levels in zip(*maps, strict=True)]

    def _detect(
        self, loaded: LoadedModel, pairs: Sequence[tuple[Any, tuple[Any, Any]]]
    ) -> tuple[Any, Any, dict[str, Any]]:
        """Scores of each pair, n, boxes, n x 4: corners in fractions; and the inputs of the mask decoder."""
        import torch
        from transformers.modeling_outputs import BaseModelOutputWithPooling
        from transformers.models.sam3.modeling_sam3 import Sam3VisionEncoderOutput

        model = loaded.model
        maps = torch.stack([image_map for image_map, _ in pairs])
        positions = model.vision_encoder.neck.position_encoding(maps[:1].shape, maps.device, maps.dtype).expand_as(maps)
        text = BaseModelOutputWithPooling(pooler_output=torch.stack([features for _, (features, _) in pairs]))
        attention_mask = torch.stack([mask for _, (_, mask) in pairs])
        # The model skips the last of several maps.
        vision = Sam3VisionEncoderOutput(fpn_hidden_states=(maps, maps), fpn_position_encoding=(positions, positions))
        decoder_inputs: dict[str, Any] = {}

        def capture(**arguments: Any) -> Any:
            decoder_inputs.update(arguments)
            return SimpleNamespace(pred_masks=None, semantic_seg=None, attentions=None)

        # transformers' cache on this method would keep the decoder's weights alive after unloading.
        coordinates = functools.partial(type(model.detr_decoder)._get_coords.__wrapped__, model.detr_decoder)
        with (
            patched_parts(model, mask_decoder=as_module(capture)),
            patched_parts(model.detr_decoder, _get_coords=coordinates),
        ):
            outputs = model(vision_embeds=vision, text_embeds=text, attention_mask=attention_mask)
        self.counts["joint_passes"] += len(pairs)
        scores = outputs.pred_logits.float().sigmoid() * outputs.presence_logits.float().sigmoid()
        return scores, outputs.pred_boxes.float(), decoder_inputs

    def _joint(self, loaded: LoadedModel, pairs: Sequence[tuple[Any, tuple[Any, Any]]]) -> list[tuple[Any, Any]]:
        """Scores and boxes of each pair."""
        scores, boxes, _ = self._detect(loaded, pairs)
        return list(zip(scores.cpu().numpy(), boxes.cpu().numpy(), strict=True))

    def _masks(self, loaded: LoadedModel, inputs: Sequence[tuple[Any, Any]]) -> list[Mask | Failure]:
        """The mask of each pair, given with the finer maps and the image's width and height."""
        import torch

        scores, _, decoder_inputs = self._detect(loaded, [pair for pair, _ in inputs])
        is_instance = scores > self.min_detection_score
        rows = is_instance.any(1).nonzero()[:, 0].tolist()
        any_instance = is_instance[rows].any(0)  # only these instances are decoded
        masks: dict[int, Any] = {}
        if rows:
            levels = zip(*([*inputs[row][1][0], inputs[row][0][0]] for row in rows), strict=True)
            decoded = loaded.model.mask_decoder(
                decoder_queries=decoder_inputs["decoder_queries"][rows][:, any_instance],
                backbone_features=[torch.stack(level) for level in levels],
                encoder_hidden_states=decoder_inputs["encoder_hidden_states"][rows],
                prompt_features=decoder_inputs["prompt_features"][rows],
                prompt_mask=decoder_inputs["prompt_mask"][rows],
            )
            masks = dict(zip(rows, decoded.pred_masks.float().sigmoid(), strict=True))
        outcomes: list[Mask | Failure] = []
        for row, (_, (_, (width, height))) in enumerate(inputs):
            union = torch.zeros(height, width, dtype=torch.bool, device=scores.device)
            finite = bool(scores[row].isfinite().all())
            for mask in masks[row][is_instance[row][any_instance]] if row in masks else ():
                finite = finite and bool(mask.isfinite().all())
                # One by one: all masks at image size would need much memory.
                resized = torch.nn.functional.interpolate(mask[None, None], size=(height, width), mode="bilinear")
                union |= resized[0, 0] > self.mask_threshold
            best_score = float(scores[row].max())
            score = best_score if bool(union.any()) else 1 - best_score
            outcomes.append(Mask(union.cpu().numpy(), score) if finite else Failure(NOT_FINITE))
        return outcomes

    def _detections(self, query: Detect, joint_outputs: dict[ImagePhrase, tuple[Any, Any]]) -> Detections | Failure:
        phrases = dict.fromkeys(query.phrases)
        scores, corners = zip(*(joint_outputs[query.image.digest, phrase] for phrase in phrases), strict=True)
        low, high = np.split(np.concatenate(corners), 2, axis=1)
        labels = [phrase for phrase, instance_scores in zip(phrases, scores, strict=True) for _ in instance_scores]
        boxes = np.hstack([(low + high) / 2, high - low])
        return make_detections(boxes, np.concatenate(scores), labels, self.min_score)


def _phrase(command: str) -> str:
    """The noun phrase of a segmentation command, without command words and full stop."""
    lead = _COMMAND_PREFIX.match(command)
    return command[lead.end() if lead else 0 :].strip().rstrip(".!").rstrip()
