"""The photographs of the demo, and their hand-drawn annotations.

All are in scikit-image's wheel, so nothing is downloaded. The longest side is 512 px at most: a larger one is
area-averaged down to that, or a part of it is taken at full resolution. Boxes and outlines are in pixels of the result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.util import find_spec

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from ...reward import Image
from ...reward.installation import install_command
from ..common.errors import InputError

Pixels = NDArray[np.uint8]  # H x W x 3, RGB
Corners = tuple[int, int, int, int]  # x0, y0, x1, y1 in pixels; x1 and y1 are outside
Polygon = tuple[tuple[float, float], ...]  # corners (x, y) in pixels, in order
MAX_SIDE = 512  # longest side in pixels


@dataclass(frozen=True)
class AnnotatedPhoto:
    """A photograph with its annotations. file: its name in `skimage/data`. crop: the part that is used, in pixels of
    the file; the whole where None. boxes: objects that can be seen, each with a box an instance. outlines: what edits
    cut along, by names of their own where it is not an object's outline."""

    file: str
    boxes: Mapping[str, tuple[Corners, ...]]
    outlines: Mapping[str, tuple[Polygon, ...]]
    crop: Corners | None = None

    @property
    def pixels(self) -> Pixels:
        """The picture; the array is shared and read-only."""
        return _load(self.file, self.crop)


@cache
def _load(file: str, crop: Corners | None) -> Pixels:
    if find_spec("skimage") is None:
        raise InputError(f"the photographs come with scikit-image: {install_command('bench')}")
    with resources.files("skimage").joinpath(f"data/{file}").open("rb") as opened:
        return fitted(Image.of(opened.read()).pil(), crop)


def fitted(picture: PIL.Image.Image, crop: Corners | None = None) -> Pixels:
    """A picture, or a part of it, averaged down to `MAX_SIDE`. Read-only."""
    if crop is not None:
        picture = picture.crop(crop)
    shrink = MAX_SIDE / max(picture.size)
    if shrink < 1:
        size = (round(picture.width * shrink), round(picture.height * shrink))
        picture = picture.resize(size, PIL.Image.Resampling.BOX)
    pixels = np.array(picture)
    pixels.setflags(write=False)
    return pixels


def ellipse(cx: float, cy: float, rx: float, ry: float) -> Polygon:
    """An outline by centre and radii."""
    steps = [2 * math.pi * step / 48 for step in range(48)]
    return tuple((cx + rx * math.cos(turn), cy + ry * math.sin(turn)) for turn in steps)


PHOTOS: Mapping[str, AnnotatedPhoto] = {
    "astronaut": AnnotatedPhoto(
        file="astronaut.png",
        boxes={
            "embroidered purple patch": ((133, 347, 209, 424),),
            "fabric blue name tag": ((277, 338, 331, 378),),
            "plastic white space shuttle model": ((354, 0, 472, 292),),
            "black helmet": ((277, 343, 512, 512),),
        },
        outlines={
            "embroidered purple patch": (ellipse(170.7, 385.2, 37.6, 37.6),),
            "patch and its seam": (ellipse(170.7, 385.4, 40.5, 40.5),),
            "fabric blue name tag": (((278, 339), (328, 347), (330, 358), (321, 368), (314, 377.5), (282, 373)),),
        },
    ),
    "coffee": AnnotatedPhoto(
        file="coffee.png",
        boxes={
            "brown coffee": ((174, 81, 316, 165),),
            "ceramic cup": ((148, 14, 349, 262),),
            "ceramic red saucer": ((65, 55, 410, 333),),
            "metal silver spoon": ((270, 57, 363, 278),),
        },
        outlines={
            "brown coffee": (
                (
                    *((172, 120), (177, 111), (184, 102), (191, 91.5), (199, 87), (212, 83), (225, 80.5), (240, 79.5)),
                    *((256, 80.5), (271, 82.5), (284, 87), (297, 94.5), (306, 104), (312, 115), (316, 128), (317, 140)),
                    *((308, 148.5), (296, 156), (281, 162), (262, 165.5), (245, 166), (227, 164), (209, 158)),
                    *((194, 150), (183, 140), (176, 130)),
                ),
            ),
            "ceramic red saucer": (
                (
                    *((355, 95), (372, 108), (388, 127), (400, 152), (408, 180), (409, 205), (403, 235), (390, 260)),
                    *((370, 285), (340, 305), (300, 322), (260, 331), (225, 332), (190, 327), (150, 312), (115, 288)),
                    *((88, 258), (72, 228), (66, 195), (68, 165), (76, 135), (90, 110), (110, 85), (130, 70)),
                    *((148, 62), (148, 95), (152, 135), (160, 165), (176, 197), (167, 225), (163, 245), (170, 260)),
                    *((185, 266), (199, 262), (216, 242), (250, 246), (266, 230), (270, 220), (276, 222), (274, 245)),
                    *((282, 268), (300, 279), (320, 276), (340, 260), (349, 235), (346, 220), (336, 208), (329, 195)),
                    *((340, 160), (350, 112)),
                ),
            ),
            "ceramic cup": (
                (
                    *((149, 88), (152, 68), (162, 48), (180, 31), (205, 19), (235, 15), (265, 16), (295, 24)),
                    *((320, 38), (338, 58), (347, 80), (349, 100), (346, 118), (337, 148), (325, 178), (305, 203)),
                    *((275, 205), (270, 228), (255, 242), (230, 243), (218, 236), (205, 252), (197, 260), (185, 261)),
                    *((172, 256), (167, 245), (172, 225), (180, 200), (165, 180), (152, 145), (149, 115)),
                ),
            ),
        },
    ),
    "cat": AnnotatedPhoto(
        file="chelsea.png",
        boxes={
            "green eye": ((134, 85, 208, 148), (294, 109, 342, 165)),
            "orange nose": ((229, 223, 294, 268),),
            "striped forehead": ((190, 0, 310, 85),),
        },
        outlines={
            "green eye": (
                (
                    *((139, 108), (141, 98), (147, 91.5), (156, 87.5), (166, 86.5), (179, 88), (190, 93), (198, 101)),
                    *((202, 112), (203, 121), (200, 130), (192, 137), (179, 142), (166, 143), (155, 138), (146, 129)),
                    (140, 118),
                ),
                (
                    *((296, 144), (295.5, 133), (299, 125), (305, 118), (314, 113), (324, 110.5), (333, 112)),
                    *((338.5, 118), (340, 128), (338.5, 140), (333, 149), (325, 156), (314, 160.5), (306, 159.5)),
                    (299, 154),
                ),
            ),
            "orange nose": (
                (
                    *((239, 229), (250, 229), (262, 231), (275, 233), (288, 231), (291, 235), (284, 242), (273, 251)),
                    *((266, 258), (257, 260), (251, 253), (249, 246), (243, 238)),
                ),
            ),
        },
    ),
    "rocket": AnnotatedPhoto(
        file="rocket.jpg",
        boxes={
            "white rocket": ((245, 100, 271, 327),),
            "metal left mast": ((131, 97, 164, 342),),
            "metal right mast": ((351, 97, 384, 342),),
        },
        outlines={
            "rocket on its pad": (
                (
                    *((257, 100), (262, 104), (266, 112), (267.5, 125), (267.5, 140), (270, 145), (270, 326.5)),
                    *((292, 326.5), (292, 342), (220, 342), (220, 326.5), (245, 326.5), (246, 150), (246.5, 128)),
                    *((249, 115), (252, 106)),
                ),
            ),
            "all that stands at the pad": (
                (
                    *((257, 97), (264, 102), (269, 111), (270, 140), (273, 145), (276, 270), (288, 286), (290, 322)),
                    *((304, 323), (305, 342), (205, 342), (208, 324), (224, 322), (225, 288), (238, 276), (240, 250)),
                    *((243, 150), (243, 128), (246, 114), (250, 103)),
                ),
            ),
            "floodlight at the pad": (ellipse(291, 318, 13, 13),),
            "metal left mast": (
                ((157, 97), (164, 98), (164, 180), (162, 342), (131, 342), (137, 270), (150, 180), (151, 150)),
            ),
        },
    ),
    "motorcycle": AnnotatedPhoto(
        file="motorcycle_left.png",
        boxes={
            "metal red fuel tank": ((224, 107, 332, 173),),
            "metal red front fender": ((349, 181, 446, 229),),
            "glass headlight": ((353, 84, 389, 130),),
            "rubber black rear wheel": ((84, 163, 194, 279),),
        },
        outlines={
            "metal red fuel tank": (
                (
                    *((224.5, 157), (240, 144), (246, 136), (256, 127), (266, 121), (280, 115), (293, 110), (305, 108)),
                    *((318, 108), (330, 116), (322, 121), (319, 129), (322, 136), (332, 140), (329, 148), (323, 158)),
                    *((316, 166), (311, 168), (300, 167.5), (285, 165.5), (270, 165.5), (258, 167), (250, 169)),
                    *((241, 172), (233, 165)),
                ),
            ),
            "metal red front fender": (
                (
                    *((371, 190), (378, 185), (390, 182), (402, 182.5), (415, 187), (428, 194), (438, 203), (445, 209)),
                    *((441, 213), (434, 218), (422, 215), (412, 209), (402, 203), (393, 202), (388, 204), (389, 218)),
                    *((386, 215), (384, 200), (376, 196)),
                ),
            ),
        },
    ),
    "garage": AnnotatedPhoto(
        file="motorcycle_left.png",
        crop=(310, 0, 741, 290),
        boxes={
            "metal red fuel tank": ((15, 156, 174, 249),),
            "cardboard small box": ((279, 61, 332, 101),),
            "wooden white crate": ((324, 76, 369, 103),),
            "plastic yellow bottle": ((90, 51, 110, 92),),
        },
        outlines={
            "cardboard small box": (
                ((279, 100), (281, 67), (288, 63), (332, 62), (331, 66), (326, 70), (324, 81), (323, 101)),
            ),
            "small box and its lid": (
                ((277, 99.5), (279, 64), (284, 59), (334, 58), (333, 66), (328, 72), (325, 100)),
            ),
            "wooden white crate": (
                ((324, 100), (327, 79), (333, 78), (334, 81), (360, 82), (360, 79), (367, 79.5), (367, 83), (364, 102)),
            ),
            "crate and its lid": (((323, 102), (326, 75), (344, 74), (369, 74), (370, 84), (366, 103)),),
            "around the small box": (
                ((216, 28), (279, 30), (277, 103), (345, 101), (345, 116), (216, 116)),
                ((322, 72), (371, 72), (371, 105), (322, 105)),
            ),
            "around the crate": (
                ((278, 60), (334, 58), (329, 67), (325, 72), (324, 101), (375, 101), (375, 116), (278, 116)),
                ((367, 74), (392, 74), (392, 104), (365, 104)),
            ),
            "plastic yellow bottle": (
                ((90, 91), (91, 60), (96, 57), (97, 51), (102, 51), (103, 57), (108, 60), (109, 91)),
            ),
            "brand on the tank": (((90, 199), (132, 191.5), (138, 204), (95, 212.5)),),
        },
    ),
}
"""By name."""
