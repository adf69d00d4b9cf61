"""The 30 cases of the released code: `ContentConsistency(protocol="official")` agrees on every number."""

import json
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from editcritic.reward import Box, EditSample, Expert, Image, Pools
from editcritic.reward.experts.loading.pooling import guess_grid, pool_query
from editcritic.reward.experts.pixel_features import PixelFeatures
from editcritic.reward.metrics.edival.consistency import ContentConsistency
from editcritic.reward.queries import Embed

from ..scripted import Finds, run

GOLDEN = Path(__file__).parents[3] / "golden" / "edival_consistency"
CASES = [json.loads(line) for line in (GOLDEN / "cases.jsonl").read_text().splitlines()]


class StandIn(Expert):
    """The feature extractor the cases were made with: means and deviations of colours, and four constant registers."""

    id = "stand-in features"
    kinds = (Embed,)

    def __call__(self, queries):
        return [pool_query(token_map(query.image), 4, (14, 14), query) for query in queries]


def token_map(image):
    pixels = np.asarray(image.pil().resize((224, 224), PIL.Image.Resampling.BICUBIC)) / 255
    registers = [np.full(8, 0.1) + 0.5 * np.eye(8)[place] for place in range(4)]
    patches = pixels.reshape(14, 16, 14, 16, 3).swapaxes(1, 2).reshape(196, 16, 16, 3)
    return np.array([described(pixels), *registers, *map(described, patches)], np.float32)


def described(region):
    return np.concatenate([region.mean((0, 1)), region.std((0, 1)), [1.0, 0.5]])


def scored(case):
    source = Image.of(GOLDEN / f"{case['id']}_source.png")
    edited = Image.of(GOLDEN / f"{case['id']}_edited.png")
    if edited == source:
        # Some edits are copies, for which other detections are recorded than for the source. One bit of one pixel, far
        # below the tolerance, makes two images of them again.
        pixels = source.pixels.copy()
        pixels[0, 0, 0] ^= 1
        edited = Image.of(pixels)
    pools = Pools(all=tuple(case["all_objects"]), unchanged=tuple(case["unchanged_objects"]))
    sample = EditSample(case["id"], "", (source,), edited, pools=pools)
    found = {
        picture: {name: tuple(Box(*numbers) for numbers in boxes) for name, boxes in case["detections"][which].items()}
        for which, picture in (("source", source), ("edited", edited))
    }
    experts = {"detector": Finds(only=found), "features": StandIn(), "pixels": PixelFeatures()}
    return run(ContentConsistency(protocol="official"), sample, experts)


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_agrees_with_the_released_code(case):
    expected, score = case["expected"], scored(case)
    objects, background = score.parts["objects"], score.parts["background"]
    objects_l1, background_l1 = score.parts["objects_l1"], score.parts["background_l1"]

    def close(value):
        return value if value is None else pytest.approx(value, abs=1e-5, rel=0)

    assert [part.value for part in objects.parts.values()] == close(expected["object_dino"])
    assert [part.value for part in objects_l1.parts.values()] == close(expected["object_l1"])
    assert objects.value == close(expected["object_dino_mean"])
    assert objects_l1.value == close(expected["object_l1_mean"])
    assert background.value == close(expected["background_dino"])
    assert background_l1.value == close(expected["background_l1"])
    patches = next(item.numbers["patches"] for item in background.evidence if "patches" in item.numbers)
    assert (patches, list(guess_grid(200))) == (expected["background_patches"], expected["grid"])
    halves = [half.value for half in (objects, background) if half.value is not None]
    assert score.value == pytest.approx(sum(halves) / len(halves))
