"""Sam3: boxes and masks for phrases, by SAM 3 (Carion et al., 2025), made to draw masks of all that a phrase names.

Its image encoder is by far its largest part and knows nothing of the phrases: it runs once a picture. Masks, and what
only they need, are computed only for who asks for them.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from typing_extensions import Unpack

from ..image import Image
from ..models.checkpoint import Loaded, Loading
from ..models.detecting import NOT_FINITE, by_picture, clip_tokens, detections
from ..models.local import LocalExpert
from ..outcomes import Failure
from ..query import Detect, Detections, Mask, Segment

_KNOWN = ("sam3", "sam3_video")
_LEAD = re.compile(r"\W*(?:please\s+)?segment\s+(?:out\s+)?", re.IGNORECASE)

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


class Sam3(LocalExpert[Detections | Mask | Failure]):
    """Answers `Detect` and `Segment`. Every phrase is asked by itself; a query of several gets the boxes of each.

    name: a folder or a model on the hub. loading: see `Loading`; backend is to stay `auto`, since the processor works
    with torchvision only. floor: boxes with a lower score are left out, in [0, 1]. least, mask_threshold: drawn is what
    scores more than `least` (0.5, as in the authors' own processor), with the pixels whose probability is above
    `mask_threshold`; both in [0, 1]. batch: most queries in one call, and pictures, phrases or pairs in one pass.
    limit_bytes: for what was computed of recent pictures and phrases, in float32 about 5 MB a picture, and 106 MB more
    for its masks.

    A box's score is the probability that it is what the phrase says, times the probability that the picture holds such
    a thing at all, as in transformers' `post_process_instance_segmentation`. Boxes may reach beyond the picture. A mask
    is the union of all that the phrase names, as drawn there. Its score is the highest of theirs; that of an empty mask
    is one minus the highest score of anything.

    A command to segment is read as one noun phrase, which is what SAM 3 knows: `Please segment` and the stop are left
    out. A query fails when a phrase is empty, or longer than the model reads (32 tokens), as sentences are.

    A picture that was encoded for boxes alone is encoded again for its first mask. `meter`: `image_passes` counts
    pictures encoded, `text_passes` phrases encoded, `joint_passes` pairs of them.
    """

    loader = Sam3Weights
    processor = "Sam3Processor"
    kinds = (Detect, Segment)
    usual: ClassVar[Loading] = {"dtype": "float32"}

    def __init__(
        self,
        name: str = "facebook/sam3",
        *,
        floor: float = 0.1,
        least: float = 0.5,
        mask_threshold: float = 0.5,
        batch: int = 8,
        limit_bytes: int = 512 * 2**20,
        **loading: Unpack[Loading],
    ) -> None:
        for option, value in (("floor", floor), ("least", least), ("mask_threshold", mask_threshold)):
            if not 0 <= value <= 1:
                raise ValueError(f"{option} is a score in [0, 1], got {value}")
        super().__init__(name, batch=batch, limit_bytes=limit_bytes, **loading)
        self.floor = floor
        self.least = least
        self.mask_threshold = mask_threshold
        self._image_passes = 0
        self._text_passes = 0
        self._joint_passes = 0

    def options_id(self) -> str:
        return f"floor={self.floor} least={self.least} mask_threshold={self.mask_threshold}"

    def meter(self) -> dict[str, float]:
        return {
            "image_passes": self._image_passes,
            "text_passes": self._text_passes,
            "joint_passes": self._joint_passes,
        }

    def answers(self, queries: Sequence[Detect | Segment]) -> list[Detections | Mask | Failure]:
        masks = any(isinstance(query, Segment) for query in queries)  # they are all of one kind
        asked = [Detect(q.image, (_phrase(q.command),)) if isinstance(q, Segment) else q for q in queries]
        with self.checkpoint.use() as loaded:
            about, failed = by_picture(asked, loaded.processor.tokenizer, self._reads(loaded))
            outcomes: dict[int, Detections | Mask | Failure] = {**failed}
            phrases = {f"phrase {p}": p for places in about.values() for n in places for p in asked[n].phrases}
            texts = self.remembered.of(phrases, lambda missing: self.in_passes(self._texts, loaded, missing))
            images = list(about)
            step = self.passes.size if masks else self.batch  # what masks need is large, and held until they are drawn
            for start in range(0, len(images), step):
                some = {image.digest: image for image in images[start : start + step]}
                seen = self._seen(loaded, some, masks)
                places = [place for image in some.values() for place in about[image]]
                pairs = dict.fromkeys((asked[n].image.digest, phrase) for n in places for phrase in asked[n].phrases)
                wanted = [(seen[f"picture {digest}"], texts[f"phrase {phrase}"]) for digest, phrase in pairs]
                if masks:
                    finer = [(seen[f"finer {digest}"], some[digest].size) for digest, _ in pairs]
                    drawn = self.in_passes(self._drawn, loaded, list(zip(wanted, finer, strict=True)))
                    by_pair = dict(zip(pairs, drawn, strict=True))
                    outcomes |= {n: by_pair[asked[n].image.digest, asked[n].phrases[0]] for n in places}
                else:
                    found = dict(zip(pairs, self.in_passes(self._joint, loaded, wanted), strict=True))
                    outcomes |= {place: self._detections(asked[place], found) for place in places}
        return [outcomes[place] for place in range(len(queries))]

    def _seen(self, loaded: Loaded, images: Mapping[str, Image], masks: bool) -> dict[str, Any]:
        """Of each picture the map that things are found in, and, if masks are to be drawn, the two finer ones."""
        # Finer ones first: so they are forgotten first, and they are twenty times as large.
        parts = ("finer", "picture") if masks else ("picture",)
        wanted = {f"{part} {digest}": (part, image) for part in parts for digest, image in images.items()}

        def made(missing: Sequence[tuple[str, Image]]) -> list[Any]:
            distinct = list(dict.fromkeys(image for _, image in missing))
            passes = self.in_passes(functools.partial(self._pictures, masks=masks), loaded, distinct)
            maps = dict(zip(distinct, passes, strict=True))
            return [maps[image][-1] if part == "picture" else maps[image][:-1] for part, image in missing]

        return self.remembered.of(wanted, made)

    def _texts(self, loaded: Loaded, phrases: Sequence[str]) -> list[tuple[Any, Any]]:
        """Of each phrase its tokens' features, n x d, and which of them are words, n."""
        tokens = clip_tokens(loaded.processor.tokenizer, phrases, self._reads(loaded)).to(loaded.device)
        features = loaded.model.get_text_features(**tokens).pooler_output
        self._text_passes += len(phrases)
        return [(row.clone(), mask) for row, mask in zip(features, tokens["attention_mask"], strict=True)]

    def _pictures(self, loaded: Loaded, images: Sequence[Image], masks: bool) -> list[tuple[Any, ...]]:
        """Feature maps, d x rows x columns each: the finer ones if asked, and the one that things are found in."""
        import torch

        prepared = loaded.processor.image_processor([image.pil() for image in images], return_tensors="pt")
        encoder = loaded.model.vision_encoder
        # Finer maps are for masks, and the last one is for nothing. Positions would stay in transformers' cache.
        layers = encoder.neck.fpn_layers
        only = torch.nn.ModuleList(layers[:-1] if masks else [layers[-2]])
        with _standing_in(encoder.neck, fpn_layers=only, position_encoding=_module(lambda *_: None)):
            maps = encoder(prepared["pixel_values"].to(loaded.device, loaded.dtype)).fpn_hidden_states
        self._image_passes += len(images)
        return [tuple(one.clone() for one in level) for level in zip(*maps, strict=True)]

    def _found(self, loaded: Loaded, pairs: Sequence[tuple[Any, tuple[Any, Any]]]) -> tuple[Any, Any, dict[str, Any]]:
        """Of each pair the scores, n, and the boxes, n x 4: corners in fractions; and what masks are drawn from."""
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
        handed: dict[str, Any] = {}

        def later(**given: Any) -> Any:
            handed.update(given)
            return SimpleNamespace(pred_masks=None, semantic_seg=None, attentions=None)

        # Cached by transformers, it would keep the decoder's weights alive when the model is dropped.
        coordinates = functools.partial(type(model.detr_decoder)._get_coords.__wrapped__, model.detr_decoder)
        with (
            _standing_in(model, mask_decoder=_module(later)),
            _standing_in(model.detr_decoder, _get_coords=coordinates),
        ):
            found = model(vision_embeds=seen, text_embeds=text, attention_mask=words)
        self._joint_passes += len(pairs)
        scores = found.pred_logits.float().sigmoid() * found.presence_logits.float().sigmoid()
        return scores, found.pred_boxes.float(), handed

    def _joint(self, loaded: Loaded, pairs: Sequence[tuple[Any, tuple[Any, Any]]]) -> list[tuple[Any, Any]]:
        """Of each pair the scores and the boxes."""
        scores, boxes, _ = self._found(loaded, pairs)
        return list(zip(scores.cpu().numpy(), boxes.cpu().numpy(), strict=True))

    def _drawn(self, loaded: Loaded, wanted: Sequence[tuple[Any, Any]]) -> list[Mask | Failure]:
        """Of each pair, given with the finer maps and the picture's width and height, the mask."""
        import torch

        scores, _, handed = self._found(loaded, [pair for pair, _ in wanted])
        kept = scores > self.least
        rows = kept.any(1).nonzero()[:, 0].tolist()
        some = kept[rows].any(0)  # no other instance is drawn, and nothing where there is none
        masks: dict[int, Any] = {}
        if rows:
            levels = zip(*([*wanted[row][1][0], wanted[row][0][0]] for row in rows), strict=True)
            drawn = loaded.model.mask_decoder(
                decoder_queries=handed["decoder_queries"][rows][:, some],
                backbone_features=[torch.stack(level) for level in levels],
                encoder_hidden_states=handed["encoder_hidden_states"][rows],
                prompt_features=handed["prompt_features"][rows],
                prompt_mask=handed["prompt_mask"][rows],
            )
            masks = dict(zip(rows, drawn.pred_masks.float().sigmoid(), strict=True))
        outcomes: list[Mask | Failure] = []
        for row, (_, (_, (width, height))) in enumerate(wanted):
            union = torch.zeros(height, width, dtype=torch.bool, device=scores.device)
            finite = bool(scores[row].isfinite().all())
            for mask in masks[row][kept[row][some]] if row in masks else ():
                finite = finite and bool(mask.isfinite().all())
                # One by one: together they would be large at the picture's size.
                large = torch.nn.functional.interpolate(mask[None, None], size=(height, width), mode="bilinear")
                union |= large[0, 0] > self.mask_threshold
            sure = float(scores[row].max())
            score = sure if bool(union.any()) else 1 - sure
            outcomes.append(Mask(union.cpu().numpy(), score) if finite else Failure(NOT_FINITE))
        return outcomes

    def _detections(self, query: Detect, found: dict[Pair, tuple[Any, Any]]) -> Detections | Failure:
        phrases = dict.fromkeys(query.phrases)
        scores, corners = zip(*(found[query.image.digest, phrase] for phrase in phrases), strict=True)
        low, high = np.split(np.concatenate(corners), 2, axis=1)
        labels = [phrase for phrase, one in zip(phrases, scores, strict=True) for _ in one]
        return detections(np.hstack([(low + high) / 2, high - low]), np.concatenate(scores), labels, self.floor)

    def _reads(self, loaded: Loaded) -> int:
        """How many tokens of a phrase."""
        return int(loaded.model.config.text_config.max_position_embeddings)


def _phrase(command: str) -> str:
    """What a command to segment names: without the words of a command, and without the stop."""
    lead = _LEAD.match(command)
    return command[lead.end() if lead else 0 :].strip().rstrip(".!").rstrip()


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
