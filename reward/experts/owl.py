"""Owl: boxes for phrases, by OWL-ViT (Minderer et al., 2022) or OWLv2 (Minderer et al., 2023).

Image and phrase embeddings are combined only in the class head. So each image and each phrase is encoded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from typing_extensions import Unpack

from ..image import Image
from ..queries.answers import Detections
from ..queries.kinds import Detect
from ..queries.outcomes import Failure
from .loading.checkpoint import LoadedModel, LoadOptions
from .loading.detection import check_scores, clip_tokens, group_by_image, make_detections, max_phrase_tokens
from .loading.local_expert import LocalExpert


class Owl(LocalExpert[Detections | Failure]):
    """Answers `Detect`. Every patch of the image predicts one box, labelled with its best matching phrase.

    A box's score is the sigmoid of the phrase's logit, as in transformers' `post_process_grounded_object_detection`.
    Overlapping boxes are not suppressed, and boxes may extend beyond the image. Without torchvision OWLv2's processor
    needs scipy. A query fails if a phrase is empty, or longer than the model's limit (16 tokens).

    `usage`: `image_passes` counts images encoded, `text_passes` phrases encoded.

    Args:
        name: A folder or a model on the hub, such as `google/owlv2-large-patch14-ensemble` or
            `google/owlvit-base-patch32`. revision, dtype, device, backend: see `Checkpoint`.
        min_score: Boxes with a lower score are left out, in [0, 1].
        batch: Maximum queries per call, and images or phrases in one pass.
        cache_bytes: For the features of recent images and phrases, about 11 MB per image for the default model in
            float32.
    """

    loader = "AutoModelForZeroShotObjectDetection"
    version = 2
    kinds = (Detect,)
    model_types = ("owlvit", "owlv2")
    counters = ("image_passes", "text_passes")
    default_load_options: ClassVar[LoadOptions] = {"dtype": "float32"}

    def __init__(
        self,
        name: str = "google/owlv2-base-patch16-ensemble",
        *,
        min_score: float = 0.1,
        batch: int = 16,
        cache_bytes: int = 512 * 2**20,
        **loading: Unpack[LoadOptions],
    ) -> None:
        check_scores(min_score=min_score)
        super().__init__(name, batch=batch, cache_bytes=cache_bytes, **loading)
        self.min_score = min_score

    def options_id(self) -> str:
        return f"floor={self.min_score}"

    def answer_batch(self, queries: Sequence[Detect]) -> list[Detections | Failure]:
        with self.checkpoint.use() as loaded:
            by_image, failed = group_by_image(queries, loaded.processor.tokenizer, max_phrase_tokens(loaded))
            outcomes: dict[int, Detections | Failure] = {**failed}
            phrases = {f"phrase {p}": p for indices in by_image.values() for n in indices for p in queries[n].phrases}
            texts = self.cached(self._encode_phrases, loaded, phrases)
            images = list(by_image)
            for start in range(0, len(images), self.batch):
                batch = {f"picture {image.digest}": image for image in images[start : start + self.batch]}
                features = self.cached(self._encode_images, loaded, batch)
                for key, image in batch.items():
                    asked = {index: queries[index].phrases for index in by_image[image]}
                    outcomes |= self._answer(loaded, image, features[key], asked, texts)
        return [outcomes[index] for index in range(len(queries))]

    def _encode_phrases(self, loaded: LoadedModel, phrases: Sequence[str]) -> list[Any]:
        """The embedding of each phrase, of length 1."""
        tokens = clip_tokens(loaded.processor.tokenizer, phrases, max_phrase_tokens(loaded)).to(loaded.device)
        embeddings = loaded.model.base_model.get_text_features(**tokens).pooler_output
        self.counts["text_passes"] += len(phrases)
        return [row.clone() for row in embeddings / embeddings.norm(dim=-1, keepdim=True)]

    def _encode_images(self, loaded: LoadedModel, images: Sequence[Image]) -> list[tuple[Any, Any]]:
        """Patch embeddings of each image, n x d, and their boxes, n x 4: centre and size, in fractions."""
        prepared = loaded.processor.image_processor([image.pil() for image in images], return_tensors="pt")
        maps = loaded.model.image_embedder(prepared["pixel_values"].to(loaded.device, loaded.dtype))[0]
        patches = maps.flatten(1, 2)
        boxes = loaded.model.box_predictor(patches, maps)
        self.counts["image_passes"] += len(images)
        return [(embeddings.clone(), corners.clone()) for embeddings, corners in zip(patches, boxes, strict=True)]

    def _answer(
        self, loaded: LoadedModel, image: Image, features: Any, asked: dict[int, tuple[str, ...]], texts: dict[str, Any]
    ) -> dict[int, Detections | Failure]:
        """Detections of one image by query index; all its phrases go through the class head together."""
        import torch

        patches, boxes = features
        columns = {
            phrase: n for n, phrase in enumerate(dict.fromkeys(p for phrases in asked.values() for p in phrases))
        }
        embeddings = torch.stack([texts[f"phrase {phrase}"] for phrase in columns])
        logits, _ = loaded.model.class_predictor(patches[None], embeddings[None])
        probabilities = logits[0].float().sigmoid().cpu().numpy()
        image_boxes = boxes.float().cpu().numpy()
        if loaded.model.config.model_type == "owlv2":
            # Images are padded to a square on the right and bottom; boxes are fractions of the square.
            width, height = image.size
            image_boxes = image_boxes * np.array([max(image.size) / width, max(image.size) / height] * 2)
        outcomes: dict[int, Detections | Failure] = {}
        for index, phrases in asked.items():
            selected = probabilities[:, [columns[phrase] for phrase in phrases]]
            labels = [phrases[n] for n in selected.argmax(1)]
            outcomes[index] = make_detections(image_boxes, selected.max(1), labels, self.min_score)
        return outcomes
