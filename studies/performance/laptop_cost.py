"""What an edit costs on the bundle `laptop`, and what its detector costs beside others, on the processor.

    python -m studies.performance.laptop_cost [--side 1024] [--threads 2] [--detectors] [--json]

Random weights of the published shapes (`bundle_models`), so that nothing is downloaded: they take as long as trained
ones. The detector computes each answer, and then says where the objects of the edits are, so that no check ends early.
Each edit is scored by `any-edit` alone, as a group of one: a further edit of the same source costs one picture less.
Peak memory is that of the whole process. `--detectors`: seconds of one detection in a picture that is new, and of
other words in the same picture, for the detectors that were weighed, in turns; of OmDet-Turbo the model alone, since
its processor needs torchvision.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from editcritic.benchmarks.common.terminal import print_json
from editcritic.benchmarks.demo.photographs import PHOTOS, Pixels
from editcritic.reward import Box, EditSample, Expert, Image, Reward
from editcritic.reward.experts.annotated import Annotated
from editcritic.reward.queries import Detect, Detections, Failure

from .command import parser_of, show
from .random_models import Shapes, bundle_models, random_models

Corners = tuple[int, int, int, int]

_CAT, _FREE = (80, 90, 330, 310), (640, 90, 890, 310)  # corners of two places, in thousandths of the picture's sides
_CUP = Box(0.5, 0.4, 0.3, 0.5, 0.9)

Places = Mapping[str, Sequence[Box]]


def edits(side: int) -> Iterator[tuple[EditSample, dict[str, Places]]]:
    """An edit of each kind that a detector decides, and where the objects of its pictures are, by their digests."""
    photo = np.array(cv2.resize(PHOTOS["coffee"].pixels, (side, side), interpolation=cv2.INTER_CUBIC), np.uint8)
    cat, rocket = PHOTOS["cat"].pixels, PHOTOS["rocket"].pixels
    old, new = _box(_CAT), _box(_FREE)
    source = _with(photo, cat, _CAT)
    lettered = cv2.putText(photo.copy(), "OPEN", (60, 200), cv2.FONT_HERSHEY_SIMPLEX, side / 256, (255, 255, 255), 8)
    made: list[tuple[str, Pixels, Places]] = [
        ("Remove the cat", photo, {}),
        ("Make the cat blue", _with(photo, np.ascontiguousarray(cat[..., ::-1]), _CAT), {"cat": [old]}),
        ("Replace the cat with a rocket", _with(photo, rocket, _CAT), {"rocket": [old]}),
        ("Add a rocket to the right of the cup", _with(source, rocket, _FREE), {"cat": [old], "rocket": [new]}),
        ("Move the cat to the right of the cup", _with(photo, cat, _FREE), {"cat": [new]}),
        ("Change the count of cat to 2", _with(source, cat, _FREE), {"cat": [old, new]}),
        ('Write "OPEN" above the cup', np.asarray(lettered, np.uint8), {}),
    ]
    for words, pixels, shown in made:
        before, after = Image.of(source), Image.of(pixels)
        places: dict[str, Places] = {
            before.digest: {"cat": [old], "cup": [_CUP]},
            after.digest: {"cup": [_CUP], **shown},
        }
        yield EditSample(words, words, (before,), after), places


def _box(corners: Corners) -> Box:
    return Box.from_corners(*corners, (1000, 1000), score=0.9)


def _with(photo: Pixels, thing: Pixels, corners: Corners) -> Pixels:
    edited = photo.copy()
    x0, y0, x1, y1 = (round(corner * len(photo) / 1000) for corner in corners)
    edited[y0:y1, x0:x1] = cv2.resize(np.array(thing), (x1 - x0, y1 - y0), interpolation=cv2.INTER_AREA)
    return edited


class ToldDetector(Expert):
    """Computes each answer by a detector, and gives the one that it was told in its stead."""

    kinds = (Detect,)
    batch = 1
    id = "told detector"

    def __init__(self, detector: Expert, places: dict[str, Places]) -> None:
        self.detector = detector
        self.places = places
        self.asked = 0

    def __call__(self, queries: Sequence[Detect]) -> list[Detections]:
        _computed(self.detector, queries)
        self.asked += len(queries)
        return [
            Detections(
                tuple(
                    box.with_label(phrase)
                    for phrase in query.phrases
                    for box in self.places.get(query.image.digest, {}).get(phrase, ())
                ),
                0.05,
            )
            for query in queries
        ]


def _computed(detector: Expert, queries: Sequence[Detect]) -> None:
    failed = [outcome for outcome in detector(queries) if isinstance(outcome, Failure)]
    if failed:
        raise SystemExit(f"{detector.id}: {failed[0].reason}")


def edit_rows(side: int, *, shrunk: bool) -> list[dict[str, Any]]:
    """A row for each edit: seconds, those of all cores, detections, following. The first one loads the models, and
    comes twice."""
    rows: list[dict[str, Any]] = []
    with bundle_models("laptop", ("detector", "features"), shrunk=shrunk) as models:
        places: dict[str, Places] = {}
        told = ToldDetector(models["detector"], places)
        experts: dict[str, Any] = {
            "bundle": "laptop",
            "detector": Annotated(otherwise=told),
            "features": models["features"],
        }
        made = list(edits(side))
        for sample, of_pictures in [made[0], *made]:
            places.clear()
            places.update(of_pictures)
            reward, asked = Reward.of("any-edit", experts, on_failures="none"), told.asked
            with models["detector"].checkpoint.use():
                models["detector"].feature_cache.clear()
            start, cpu = time.perf_counter(), time.process_time()
            (score,) = reward([sample])
            seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
            if score.value is None:
                raise SystemExit(f"{sample.instruction}: {score.reason}")
            following = score.parts["reward"].parts["following"].value
            counted = {"detections": told.asked - asked, "following": following}
            rows.append({"edit": sample.id, "s": seconds, "CPU s": cpu, **counted})
    return rows[1:]


def detector_rows(side: int, repeats: int, *, shrunk: bool) -> list[dict[str, Any]]:
    """A row for each detector: seconds of a detection in a new picture, and of other words in it; the best of some."""
    shapes: Shapes = "tiny" if shrunk else "full"
    with (
        bundle_models("laptop", ("detector",), shrunk=shrunk) as ours,
        bundle_models("small", ("detector",), shrunk=shrunk) as large,
        random_models(shapes, ("detector",)) as grounding,
        random_models(shapes, ("detector",), detector="owlv2") as owl,
        tempfile.TemporaryDirectory() as folder,
    ):
        detectors: dict[str, Callable[[Image, str], None]] = {
            name: _asked(models["detector"])
            for name, models in {
                "MM-GroundingDINO tiny, 480": ours,
                "MM-GroundingDINO tiny, 800": large,
                "GroundingDINO tiny, 800": grounding,
                "OWLv2 base, 960": owl,
            }.items()
        }
        detectors["OmDet-Turbo tiny, 640"] = _omdet_turbo(Path(folder), shrunk=shrunk)
        best: dict[str, list[float]] = {name: [np.inf, np.inf] for name in detectors}
        photo = np.array(cv2.resize(PHOTOS["coffee"].pixels, (side, side)), np.uint8)
        for number in range(repeats + 1):
            photo[0, 0] = number
            for name, detect in detectors.items():
                for column, words in enumerate(("cup", "spoon")):
                    start = time.perf_counter()
                    detect(Image.of(photo), words)
                    if number:  # the first one loads
                        best[name][column] = min(best[name][column], time.perf_counter() - start)
    return [{"detector": name, "new picture s": new, "other words s": more} for name, (new, more) in best.items()]


def _asked(detector: Expert) -> Callable[[Image, str], None]:
    return lambda image, words: _computed(detector, [Detect(image, (words,))])


def _omdet_turbo(folder: Path, *, shrunk: bool) -> Callable[[Image, str], None]:
    """Its published backbone is timm's Swin tiny; that of transformers has the same shapes."""
    import torch
    import transformers

    depths, layers = ([1, 1, 1, 1], 1) if shrunk else ([2, 2, 6, 2], 6)
    swin = transformers.SwinConfig(image_size=640, embed_dim=96, depths=depths, out_indices=[2, 3, 4])
    config = transformers.OmDetTurboConfig(
        backbone_config=swin, apply_layernorm_after_vision_backbone=False, decoder_num_layers=layers
    )
    transformers.OmDetTurboForObjectDetection(config).save_pretrained(folder)
    model = transformers.OmDetTurboForObjectDetection.from_pretrained(folder).eval()

    def detect(image: Image, words: str) -> None:
        tokens = torch.full((1, 77), len(words))
        text = {f"{kind}_input_ids": tokens for kind in ("classes", "tasks")}
        text |= {f"{kind}_attention_mask": torch.ones_like(tokens) for kind in ("classes", "tasks")}
        pixels = torch.tensor(image.resized(640, 640).pixels).permute(2, 0, 1)[None] / 255
        with torch.inference_mode():
            model(pixel_values=pixels, classes_structure=torch.tensor([1]), **text)

    return detect


def main() -> None:
    """Measure and print."""
    parser = parser_of(__doc__)
    parser.add_argument("--side", type=int, default=1024, help="of the square pictures")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--detectors", action="store_true", help="compare detectors instead")
    parser.add_argument("--repeats", type=int, default=3, help="with --detectors")
    parser.add_argument("--shrunk", action="store_true", help="few and narrow layers, for tests")
    options = parser.parse_args()
    import torch

    torch.set_num_threads(options.threads)
    cv2.setNumThreads(options.threads)
    if options.detectors:
        rows = detector_rows(options.side, options.repeats, shrunk=options.shrunk)
    else:
        rows = edit_rows(options.side, shrunk=options.shrunk)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if options.json:
        print_json({"rows": rows, "peak MB": peak_mb})
    else:
        show(f"peak {peak_mb:,.0f} MB", rows)


if __name__ == "__main__":
    main()
