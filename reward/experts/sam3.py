"""Sam3: boxes for phrases, by SAM 3 (Carion et al., 2025), made to draw masks of all that a phrase names.

Its image encoder is by far its largest part and knows nothing of the phrases: it runs once a picture. Masks, and what
only they need, are not computed.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar, Unpack

import numpy as np

from ..image import Image
from ..models.checkpoint import Loaded, Loading
from ..models.detecting import by_picture, clip_tokens, detections
from ..models.local import LocalExpert
from ..outcomes import Failure
from ..query import Detect, Detections

_KNOWN = ("sam3", "sam3_video")

Pair = tuple[str, str]
"""A picture's digest, and a phrase."""


class Sam3Weights:
    """Loads a `Sam3Model`, with the loading info. Of another kind's checkpoint transformers would take what fits."""

    @staticmethod
    def from_pretrained(name: str, **options: Any) -> Any:
        import transformers

        kind = transformers.AutoConfig.from_pretrained(name, revision=options.get("revision")).model_type
        if kind not in _KNOWN:
            raise ValueError(f"it is a {kind}, give a checkpoint of SAM 3")
        return transformers.Sam3Model.from_pretrained(name, **options)


class Sam3(LocalExpert[Detections | Failure]):
    """Answers `Detect`. Every phrase is asked by itself; a query of several gets the boxes of each, with its label.

    name: a folder or a model on the hub. revision, dtype, device: see `Checkpoint`. backend: `auto`, since its
    processor works with torchvision only. floor: boxes with a lower score are left out, in [0, 1]. batch: most queries
    in one call, and pictures, phrases or pairs in one pass. limit_bytes: for what was computed of recent pictures and
    phrases, about 5 MB a picture in float32.

    A box's score is the probability that it is what the phrase says, times the probability that the picture holds such
    a thing at all, as in transformers' `post_process_instance_segmentation`. Boxes may reach beyond the picture. A
    query fails when a phrase is empty, or longer than the model reads (32 tokens).

    `meter`: `image_passes` counts pictures encoded, `text_passes` phrases encoded, `joint_passes` pairs of them.
    """

    loader = Sam3Weights
    processor = "Sam3Processor"
    kinds = (Detect,)
    usual: ClassVar[Loading] = {"dtype": "float32"}

    def __init__(
        self,
        name: str = "facebook/sam3",
        *,
        floor: float = 0.1,
        batch: int = 8,
        limit_bytes: int = 512 * 2**20,
        **loading: Unpack[Loading],
    ) -> None:
        if not 0 <= floor <= 1:
            raise ValueError(f"floor is a score in [0, 1], got {floor}")
        super().__init__(name, batch=batch, limit_bytes=limit_bytes, **loading)
        self.floor = floor
        self._image_passes = 0
        self._text_passes = 0
        self._joint_passes = 0

    def options_id(self) -> str:
        return f"floor={self.floor}"

    def meter(self) -> dict[str, float]:
        return {
            "image_passes": self._image_passes,
            "text_passes": self._text_passes,
            "joint_passes": self._joint_passes,
        }

    def answers(self, queries: Sequence[Detect]) -> list[Detections | Failure]:
        with self.checkpoint.use() as loaded:
            about, failed = by_picture(queries, loaded.processor.tokenizer, self._reads(loaded))
            outcomes: dict[int, Detections | Failure] = {**failed}
            phrases = {f"phrase {p}": p for places in about.values() for n in places for p in queries[n].phrases}
            texts = self.remembered.of(phrases, lambda missing: self.in_passes(self._texts, loaded, missing))
            images = list(about)
            for start in range(0, len(images), self.batch):
                some = {f"picture {image.digest}": image for image in images[start : start + self.batch]}
                seen = self.remembered.of(some, lambda missing: self.in_passes(self._pictures, loaded, missing))
                places = [place for image in some.values() for place in about[image]]
                pairs = dict.fromkeys(
                    (queries[n].image.digest, phrase) for n in places for phrase in queries[n].phrases
                )
                wanted = [(seen[f"picture {digest}"], texts[f"phrase {phrase}"]) for digest, phrase in pairs]
                found = dict(zip(pairs, self.in_passes(self._joint, loaded, wanted), strict=True))
                outcomes |= {place: self._detections(queries[place], found) for place in places}
        return [outcomes[place] for place in range(len(queries))]

    def _texts(self, loaded: Loaded, phrases: Sequence[str]) -> list[tuple[Any, Any]]:
        """Of each phrase its tokens' features, n x d, and which of them are words, n."""
        tokens = clip_tokens(loaded.processor.tokenizer, phrases, self._reads(loaded)).to(loaded.device)
        features = loaded.model.get_text_features(**tokens).pooler_output
        self._text_passes += len(phrases)
        return [(row.clone(), mask) for row, mask in zip(features, tokens["attention_mask"], strict=True)]

    def _pictures(self, loaded: Loaded, images: Sequence[Image]) -> list[Any]:
        """The feature map that boxes are found in, d x rows x columns each."""
        import torch

        prepared = loaded.processor.image_processor([image.pil() for image in images], return_tensors="pt")
        encoder = loaded.model.vision_encoder
        # Finer maps are for masks, and the last one is for nothing. Positions would stay in transformers' cache.
        only = torch.nn.ModuleList([encoder.neck.fpn_layers[-2]])
        with _standing_in(encoder.neck, fpn_layers=only, position_encoding=_module(lambda *_: None)):
            (maps,) = encoder(prepared["pixel_values"].to(loaded.device, loaded.dtype)).fpn_hidden_states
        self._image_passes += len(images)
        return [one.clone() for one in maps]

    def _joint(self, loaded: Loaded, pairs: Sequence[tuple[Any, tuple[Any, Any]]]) -> list[tuple[Any, Any]]:
        """Of each pair the scores, n, and the boxes, n x 4: corners in fractions."""
        import torch
        from transformers.modeling_outputs import BaseModelOutputWithPooling
        from transformers.models.sam3.modeling_sam3 import Sam3VisionEncoderOutput

        model = loaded.model
        maps = torch.stack([one for one, _ in pairs])
        place = model.vision_encoder.neck.position_encoding(maps[:1].shape, maps.device, maps.dtype).expand_as(maps)
        text = BaseModelOutputWithPooling(pooler_output=torch.stack([features for _, (features, _) in pairs]))
        words = torch.stack([mask for _, (_, mask) in pairs])
        # Of several maps the model leaves out the last.
        seen = Sam3VisionEncoderOutput(fpn_hidden_states=(maps, maps), fpn_position_encoding=(place, place))
        maskless = _module(lambda **_: SimpleNamespace(pred_masks=None, semantic_seg=None, attentions=None))
        # Cached by transformers, it would keep the decoder's weights alive when the model is dropped.
        coordinates = functools.partial(type(model.detr_decoder)._get_coords.__wrapped__, model.detr_decoder)
        with _standing_in(model, mask_decoder=maskless), _standing_in(model.detr_decoder, _get_coords=coordinates):
            found = model(vision_embeds=seen, text_embeds=text, attention_mask=words)
        self._joint_passes += len(pairs)
        scores = found.pred_logits.float().sigmoid() * found.presence_logits.float().sigmoid()
        return list(zip(scores.cpu().numpy(), found.pred_boxes.float().cpu().numpy(), strict=True))

    def _detections(self, query: Detect, found: dict[Pair, tuple[Any, Any]]) -> Detections | Failure:
        phrases = dict.fromkeys(query.phrases)
        scores, corners = zip(*(found[query.image.digest, phrase] for phrase in phrases), strict=True)
        low, high = np.split(np.concatenate(corners), 2, axis=1)
        labels = [phrase for phrase, one in zip(phrases, scores, strict=True) for _ in one]
        return detections(np.hstack([(low + high) / 2, high - low]), np.concatenate(scores), labels, self.floor)

    def _reads(self, loaded: Loaded) -> int:
        """How many tokens of a phrase."""
        return int(loaded.model.config.text_config.max_position_embeddings)


def _module(forward: Any) -> Any:
    import torch

    made: Any = torch.nn.Module()
    made.forward = forward
    return made


@contextlib.contextmanager
def _standing_in(owner: Any, **parts: Any) -> Iterator[None]:
    """Within, these parts take the place of the owner's own."""
    own = {name: getattr(owner, name) for name in parts}
    for name, part in parts.items():
        setattr(owner, name, part)
    try:
        yield
    finally:
        for name, part in own.items():
            setattr(owner, name, part)
