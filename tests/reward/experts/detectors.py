"""The tested detectors: tiny checkpoints, transformers' reference outputs, and their differences."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from editcritic.reward import Box, Image
from editcritic.reward.experts.grounding_dino import GroundingDino
from editcritic.reward.experts.owl import Owl
from editcritic.reward.experts.sam3 import Sam3
from editcritic.reward.queries import Detect, Detections

from . import tiny_detectors as tiny

PHRASES = [("cat",), ("a red cup",), ("dog", "the blue teapot on the table", "hat"), ("round table", "cat")]
DISTINCT = len(set(itertools.chain(*PHRASES)))

Answer = Callable[[Detect], Detections]
Phrases = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Detector:
    """A model type and its expert.

    make: writes a checkpoint to a folder. library: reference outputs of a folder's model, one sample at a time.
    options: of the expert. box_bias: parameter that shifts all boxes. stranger: writes a checkpoint of another type;
    refused: the error message. eight: usage for eight queries about two images. unaskable: invalid phrases by message.
    """

    expert: type[Any]
    make: Callable[[Path], Path]
    library: Callable[[Path], Answer]
    box_bias: Callable[[Any], Any]
    stranger: Callable[[Path], Path]
    refused: str
    eight: Mapping[str, int]
    unaskable: Mapping[str, Phrases]
    sizes: tuple[tuple[int, int], ...] = ((60, 40), (40, 60), (64, 64), (120, 50))
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def scenes(self) -> list[Image]:
        return [tiny.scene(n, size) for n, size in enumerate(self.sizes)]

    @cached_property
    def mixed(self) -> list[Detect]:
        """Every scene with every set of phrases."""
        return [Detect(image, phrases) for image, phrases in itertools.product(self.scenes, PHRASES)]


def _boxes(query: Detect, predictions: Iterable[tuple[Sequence[float], float, str]]) -> Detections:
    """Detections from corners in pixels, scores and labels."""
    boxes = []
    for (x0, y0, x1, y1), score, label in predictions:
        boxes.append(Box.from_corners(x0, y0, x1, y1, query.image.size, score=score, label=label))
    return Detections(tuple(boxes))


def _size(query: Detect) -> tuple[int, int]:
    width, height = query.image.size
    return height, width


def _owl(folder: Path) -> Answer:
    import torch
    import transformers

    model = transformers.AutoModelForZeroShotObjectDetection.from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)

    def answer(query: Detect) -> Detections:
        inputs = processor(images=query.image.pil(), text=[list(query.phrases)], return_tensors="pt")
        with torch.no_grad():
            outputs = model(**inputs)
        (prediction,) = processor.post_process_grounded_object_detection(
            outputs, threshold=0.0, target_sizes=[_size(query)], text_labels=[list(query.phrases)]
        )
        return _boxes(
            query,
            zip(prediction["boxes"].tolist(), prediction["scores"].tolist(), prediction["text_labels"], strict=True),
        )

    return answer


def _sam3(folder: Path) -> Answer:
    """One image and one phrase at a time, with masks."""
    import torch
    import transformers

    model = transformers.Sam3Model.from_pretrained(folder).eval()
    processor = transformers.Sam3Processor.from_pretrained(folder)

    def answer(query: Detect) -> Detections:
        predictions: list[Any] = []
        for phrase in query.phrases:
            inputs = processor(images=query.image.pil(), text=phrase, return_tensors="pt")
            with torch.no_grad():
                outputs = model(**inputs)
            (prediction,) = processor.post_process_instance_segmentation(
                outputs, threshold=0.0, target_sizes=[_size(query)]
            )
            scored = zip(prediction["boxes"].tolist(), prediction["scores"].tolist(), strict=True)
            predictions += [(corners, score, phrase) for corners, score in scored]
        return _boxes(query, predictions)

    return answer


def _grounding_dino(folder: Path) -> Answer:
    """Labels by transformers' own parsing of the caption."""
    import torch
    import transformers
    from transformers.models.grounding_dino.modeling_grounding_dino import build_label_maps

    model = transformers.AutoModelForZeroShotObjectDetection.from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)

    def answer(query: Detect) -> Detections:
        inputs = processor(images=query.image.pil(), text=[list(query.phrases)], return_tensors="pt")
        with torch.no_grad():
            outputs = model(**inputs)
        (prediction,) = processor.post_process_grounded_object_detection(
            outputs, threshold=0.0, target_sizes=[_size(query)]
        )
        (maps,) = build_label_maps(outputs.logits, inputs["input_ids"])
        fits = torch.stack([outputs.logits[0][:, tokens.bool()].max(1).values for tokens in maps], 1).argmax(1)
        labels = [query.phrases[fit] for fit in fits.tolist()]
        return _boxes(query, zip(prediction["boxes"].tolist(), prediction["scores"].tolist(), labels, strict=True))

    return answer


_OWL: dict[str, Any] = {
    "expert": Owl,
    "library": _owl,
    "box_bias": lambda model: model.box_head.dense2.bias,
    "stranger": tiny.grounding_dino,
    "refused": "is a grounding-dino: give a checkpoint of owlvit or owlv2",
    "eight": {"image_passes": 2, "text_passes": DISTINCT},
    "unaskable": {
        "no phrase to detect: give one or more": (),
        "is empty: name an object": ("cat", " \n"),
        "takes 17 tokens, the model reads 16: use fewer words": ("cat " * 15,),
    },
}
_GROUNDING_DINO: dict[str, Any] = {
    "expert": GroundingDino,
    "library": _grounding_dino,
    "box_bias": lambda model: model.bbox_embed[-1].layers[-1].bias,
    "stranger": tiny.owl,
    "refused": "is a owlvit: give a checkpoint of grounding-dino or mm-grounding-dino",
    "eight": {"image_passes": 2, "joint_passes": 8},
    "unaskable": {
        "no phrase to detect: give one or more": (),
        "phrase ' . ' has no word known to the model": ("cat", " . "),
        "has no word known to the model": ("\u732b",),
        "take 303 tokens together, the model reads 256: use fewer": ("cat " * 300,),
    },
    # 60 x 40 and 90 x 60 have equal size after preprocessing, the others do not.
    "sizes": ((60, 40), (90, 60), (60, 40), (40, 60), (64, 64), (120, 50)),
    "options": {"joint_batch": 64},
}
DETECTORS = {
    "OWL-ViT": Detector(make=tiny.owl, **_OWL),
    "OWLv2": Detector(make=partial(tiny.owl, v2=True), **_OWL),
    "SAM 3": Detector(
        expert=Sam3,
        make=tiny.sam3,
        library=_sam3,
        box_bias=lambda model: model.detr_decoder.box_head.layer3.bias,
        stranger=tiny.owl,
        refused="is a owlvit: give a checkpoint of sam3 or sam3_video",
        eight={"image_passes": 2, "text_passes": DISTINCT, "joint_passes": 2 * DISTINCT},
        unaskable={
            "no phrase to detect: give one or more": (),
            "is empty: name an object": ("cat", " \n"),
            "takes 33 tokens, the model reads 32: use fewer words": ("cat " * 31,),
        },
    ),
    "GroundingDINO": Detector(make=tiny.grounding_dino, **_GROUNDING_DINO),
    "MM-GroundingDINO": Detector(make=partial(tiny.grounding_dino, mm=True), **_GROUNDING_DINO),
}
