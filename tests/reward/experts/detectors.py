"""The tested detectors: tiny checkpoints, transformers' reference outputs, and their differences."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.grounding_dino.modeling_grounding_dino import build_label_maps

from editcritic.reward import Box, Image
from editcritic.reward.experts.grounding_dino import GroundingDino
from editcritic.reward.experts.owl import Owl
from editcritic.reward.experts.sam3 import Sam3
from editcritic.reward.queries import Detect, Detections

from . import tiny_detectors as tiny

PHRASES = [("cat",), ("a red cup",), ("dog", "the blue teapot on the table", "hat"), ("round table", "cat")]
DISTINCT = len(set(itertools.chain(*PHRASES)))

Answer = Callable[[Detect], Detections]


@dataclass(frozen=True, eq=False)
class Detector:
    """A model type and its expert. make: writes a checkpoint to a folder. library: reference outputs of a folder's
    model, one sample at a time. options: of the expert. box_bias: parameter that shifts all boxes. stranger: writes a
    checkpoint of another type; refused: the error message. eight: usage for eight queries about two images; more: for
    those about the other images and a new phrase, after them. parts: modules by what passes through them. unaskable:
    invalid phrases by message."""

    expert: type[Any]
    make: Callable[[Path], Path]
    library: Callable[[Path], Answer]
    box_bias: str
    stranger: Callable[[Path], Path]
    refused: str
    eight: Mapping[str, int]
    more: Mapping[str, int]
    parts: Mapping[str, str]
    unaskable: Mapping[str, tuple[str, ...]]
    sizes: tuple[tuple[int, int], ...] = ((60, 40), (40, 60), (64, 64), (120, 50))
    options: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def scenes(self) -> list[Image]:
        return [tiny.scene(n, size) for n, size in enumerate(self.sizes)]

    @cached_property
    def mixed(self) -> list[Detect]:
        """Every scene with every set of phrases."""
        return [Detect(image, phrases) for image, phrases in itertools.product(self.scenes, PHRASES)]


def _library(folder: Path, model: str = "AutoModelForZeroShotObjectDetection", processor: str = "AutoProcessor") -> Any:
    """The processor, and transformers' call: an image and a text -> inputs and outputs."""

    loaded = getattr(transformers, model).from_pretrained(folder).eval()
    prepare = getattr(transformers, processor).from_pretrained(folder)

    def call(image: Image, text: Any) -> tuple[Any, Any]:
        inputs = prepare(images=image.pil(), text=text, return_tensors="pt")
        with torch.no_grad():
            return inputs, loaded(**inputs)

    return prepare, call


def _boxes(query: Detect, predictions: Any, labels: Any) -> list[Box]:
    """Of corners in pixels."""
    scored = zip(predictions["boxes"].tolist(), predictions["scores"].tolist(), labels, strict=True)
    size = query.image.size
    return [Box.from_corners(a, b, c, d, size, score=score, label=label) for (a, b, c, d), score, label in scored]


def _owl(folder: Path) -> Answer:
    processor, call = _library(folder)

    def answer(query: Detect) -> Detections:
        _, outputs = call(query.image, [list(query.phrases)])
        (prediction,) = processor.post_process_grounded_object_detection(
            outputs, threshold=0.0, target_sizes=[query.image.size[::-1]], text_labels=[list(query.phrases)]
        )
        return Detections(tuple(_boxes(query, prediction, prediction["text_labels"])))

    return answer


def sam3_instances(folder: Path) -> Callable[[Image, str], Any]:
    """An image and one phrase -> transformers' boxes, scores and masks."""
    processor, call = _library(folder, "Sam3Model", "Sam3Processor")

    def instances(image: Image, phrase: str) -> Any:
        _, outputs = call(image, phrase)
        sizes = [image.size[::-1]]
        return processor.post_process_instance_segmentation(outputs, threshold=0.0, target_sizes=sizes)[0]

    return instances


def _sam3(folder: Path) -> Answer:
    instances = sam3_instances(folder)

    def answer(query: Detect) -> Detections:
        boxes: list[Box] = []
        for phrase in query.phrases:
            prediction = instances(query.image, phrase)
            boxes += _boxes(query, prediction, [phrase] * len(prediction["scores"]))
        return Detections(tuple(boxes))

    return answer


def _grounding_dino(folder: Path) -> Answer:
    """Labels by transformers' own parsing of the caption."""

    processor, call = _library(folder)

    def answer(query: Detect) -> Detections:
        inputs, outputs = call(query.image, [list(query.phrases)])
        (prediction,) = processor.post_process_grounded_object_detection(
            outputs, threshold=0.0, target_sizes=[query.image.size[::-1]]
        )
        (maps,) = build_label_maps(outputs.logits, inputs["input_ids"])
        fits = torch.stack([outputs.logits[0][:, tokens.bool()].max(1).values for tokens in maps], 1).argmax(1)
        return Detections(tuple(_boxes(query, prediction, [query.phrases[fit] for fit in fits.tolist()])))

    return answer


_NO_PHRASE: Mapping[str, tuple[str, ...]] = {"no phrase to detect: give one or more": ()}
_EMPTY: Mapping[str, tuple[str, ...]] = {"is empty: name an object": ("cat", " \n")}
_OWL: dict[str, Any] = {
    "expert": Owl,
    "library": _owl,
    "box_bias": "box_head.dense2",
    "stranger": tiny.grounding_dino,
    "refused": "is a grounding-dino: give a checkpoint of owlvit or owlv2",
    "eight": {"image_passes": 2, "text_passes": DISTINCT},
    "more": {"image_passes": 2, "text_passes": 1},
    "unaskable": {**_NO_PHRASE, **_EMPTY, "takes 17 tokens, the model reads 16: use fewer words": ("cat " * 15,)},
}
_GROUNDING_DINO: dict[str, Any] = {
    "expert": GroundingDino,
    "library": _grounding_dino,
    "box_bias": "bbox_embed.0.layers.2",
    "stranger": tiny.owl,
    "refused": "is a owlvit: give a checkpoint of grounding-dino or mm-grounding-dino",
    "eight": {"image_passes": 2, "joint_passes": 8},
    "more": {"image_passes": 4, "joint_passes": 21},
    "parts": {"image_passes": "model.backbone.conv_encoder.model"},
    "unaskable": {
        **_NO_PHRASE,
        "phrase ' . ' has no word known to the model": ("cat", " . "),
        "has no word known to the model": ("\u732b",),
        "take 303 tokens together, the model reads 256: use fewer": ("cat " * 300,),
    },
    # 60 x 40 and 90 x 60 have equal size after preprocessing, the others do not.
    "sizes": ((60, 40), (90, 60), (60, 40), (40, 60), (64, 64), (120, 50)),
    "options": {"joint_batch": 64},
}
_SAM3: dict[str, Any] = {
    "expert": Sam3,
    "library": _sam3,
    "box_bias": "detr_decoder.box_head.layer3",
    "stranger": tiny.owl,
    "refused": "is a owlvit: give a checkpoint of sam3 or sam3_video",
    "eight": {"image_passes": 2, "text_passes": DISTINCT, "joint_passes": 2 * DISTINCT},
    "more": {"image_passes": 2, "text_passes": 1, "joint_passes": 3 * DISTINCT + 1},
    "parts": {"image_passes": "vision_encoder.backbone", "text_passes": "text_encoder"},
    "unaskable": {**_NO_PHRASE, **_EMPTY, "takes 33 tokens, the model reads 32: use fewer words": ("cat " * 31,)},
}


def _owl_parts(kind: str) -> dict[str, str]:
    return {"image_passes": f"{kind}.vision_model.encoder", "text_passes": f"{kind}.text_model.encoder"}


DETECTORS = {
    "OWL-ViT": Detector(make=tiny.owl, parts=_owl_parts("owlvit"), **_OWL),
    "OWLv2": Detector(make=partial(tiny.owl, v2=True), parts=_owl_parts("owlv2"), **_OWL),
    "SAM 3": Detector(make=tiny.sam3, **_SAM3),
    "GroundingDINO": Detector(make=tiny.grounding_dino, **_GROUNDING_DINO),
    "MM-GroundingDINO": Detector(make=partial(tiny.grounding_dino, mm=True), **_GROUNDING_DINO),
}
