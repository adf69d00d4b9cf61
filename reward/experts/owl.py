"""Owl: boxes for phrases, by OWL-ViT (Minderer et al., 2022) or OWLv2 (Minderer et al., 2023).

Picture and phrase meet only at the very end, in a product of two embeddings. So a picture is encoded once and a phrase
is encoded once, whatever is asked of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from typing_extensions import Unpack

from ..expert import ExpertDown
from ..image import Image
from ..models.checkpoint import Loaded, Loading
from ..models.detecting import by_picture, clip_tokens, detections
from ..models.local import LocalExpert
from ..outcomes import Failure
from ..query import Detect, Detections

_KNOWN = ("owlvit", "owlv2")


class Owl(LocalExpert[Detections | Failure]):
    """Answers `Detect`. Every patch of the picture gives one box, labelled with the phrase that it fits best.

    name: a folder or a model on the hub, such as `google/owlv2-large-patch14-ensemble` or `google/owlvit-base-patch32`.
    revision, dtype, device, backend: see `Checkpoint`. floor: boxes with a lower score are left out, in [0, 1]. batch:
    most queries in one call, and pictures or phrases in one pass. limit_bytes: for what was computed of recent pictures
    and phrases, about 11 MB a picture for the default model in float32.

    A box's score is the sigmoid of the phrase's logit, as in transformers' `post_process_grounded_object_detection`.
    Boxes that overlap are all given, and boxes may reach beyond the picture. OWLv2's processor needs scipy where it
    works without torchvision. A query fails when a phrase is empty, or longer than the model reads (16 tokens).

    `meter`: `image_passes` counts pictures encoded, `text_passes` phrases encoded.
    """

    loader = "AutoModelForZeroShotObjectDetection"
    kinds = (Detect,)
    usual: ClassVar[Loading] = {"dtype": "float32"}

    def __init__(
        self,
        name: str = "google/owlv2-base-patch16-ensemble",
        *,
        floor: float = 0.1,
        batch: int = 16,
        limit_bytes: int = 512 * 2**20,
        **loading: Unpack[Loading],
    ) -> None:
        if not 0 <= floor <= 1:
            raise ValueError(f"floor is a score in [0, 1], got {floor}")
        super().__init__(name, batch=batch, limit_bytes=limit_bytes, **loading)
        self.floor = floor
        self._image_passes = 0
        self._text_passes = 0

    def options_id(self) -> str:
        return f"floor={self.floor}"

    def prepare(self) -> None:
        """Load the model. Raises `ExpertDown` where it is not of this kind."""
        with self.checkpoint.use() as loaded:
            self._kind(loaded)

    def meter(self) -> dict[str, float]:
        return {"image_passes": self._image_passes, "text_passes": self._text_passes}

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
                for key, image in some.items():
                    asked = {place: queries[place].phrases for place in about[image]}
                    outcomes |= self._answer(loaded, image, seen[key], asked, texts)
        return [outcomes[place] for place in range(len(queries))]

    def _texts(self, loaded: Loaded, phrases: Sequence[str]) -> list[Any]:
        """The embedding of each phrase, of length 1."""
        tokens = clip_tokens(loaded.processor.tokenizer, phrases, self._reads(loaded)).to(loaded.device)
        found = loaded.model.base_model.get_text_features(**tokens).pooler_output
        self._text_passes += len(phrases)
        return [row.clone() for row in found / found.norm(dim=-1, keepdim=True)]

    def _pictures(self, loaded: Loaded, images: Sequence[Image]) -> list[tuple[Any, Any]]:
        """Of each picture its patches' embeddings, n x d, and their boxes, n x 4: centre and size, in fractions."""
        self._kind(loaded)
        prepared = loaded.processor.image_processor([image.pil() for image in images], return_tensors="pt")
        maps = loaded.model.image_embedder(prepared["pixel_values"].to(loaded.device, loaded.dtype))[0]
        patches = maps.flatten(1, 2)
        boxes = loaded.model.box_predictor(patches, maps)
        self._image_passes += len(images)
        return [(one.clone(), where.clone()) for one, where in zip(patches, boxes, strict=True)]

    def _answer(
        self,
        loaded: Loaded,
        image: Image,
        seen: tuple[Any, Any],
        asked: dict[int, tuple[str, ...]],
        texts: dict[str, Any],
    ) -> dict[int, Detections | Failure]:
        """What is to be said of one picture, by place; all its phrases go through the class head together."""
        import torch

        patches, boxes = seen
        columns = {
            phrase: n for n, phrase in enumerate(dict.fromkeys(p for phrases in asked.values() for p in phrases))
        }
        embeddings = torch.stack([texts[f"phrase {phrase}"] for phrase in columns])
        logits, _ = loaded.model.class_predictor(patches[None], embeddings[None])
        chances = logits[0].float().sigmoid().cpu().numpy()
        where = boxes.float().cpu().numpy()
        if self._kind(loaded) == "owlv2":
            # Its pictures lie in the upper left of a square, and its boxes are fractions of that.
            width, height = image.size
            where = where * np.array([max(image.size) / width, max(image.size) / height] * 2)
        answers: dict[int, Detections | Failure] = {}
        for place, phrases in asked.items():
            of = chances[:, [columns[phrase] for phrase in phrases]]
            answers[place] = detections(where, of.max(1), [phrases[n] for n in of.argmax(1)], self.floor)
        return answers

    def _reads(self, loaded: Loaded) -> int:
        """How many tokens of a phrase."""
        return int(loaded.model.config.text_config.max_position_embeddings)

    def _kind(self, loaded: Loaded) -> str:
        kind = str(loaded.model.config.model_type)
        if kind not in _KNOWN:
            raise ExpertDown(f"{self.name} is a {kind}: give a checkpoint of {' or '.join(_KNOWN)}")
        return kind
