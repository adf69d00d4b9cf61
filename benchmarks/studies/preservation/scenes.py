"""What stands where on the photographs of the ladders: chosen by hand, before any score was seen.

All boxes are corners (x0, y0, x1, y1) in pixels of `photograph(name)`, right and lower edges outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Corners = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Scene:
    """photo: its name. targets: objects that an edit may recolour, by name. small: objects whose loss is noticed, 0.5
    to 2.5 % of the picture. large: pieces of furniture and the like, 4 to 15 %, in one or more boxes. plain: background
    that may show where something is lost. places: where a shadow may fall. lit: where one is. faces: from the eyebrows
    to the chin; frontal: seen from the front.
    """

    photo: str
    targets: tuple[tuple[str, Corners], ...]
    small: tuple[Corners, ...]
    large: tuple[tuple[Corners, ...], ...]
    plain: tuple[Corners, ...]
    places: tuple[Corners, ...] = ()
    lit: tuple[Corners, ...] = ()
    faces: tuple[Corners, ...] = ()
    frontal: bool = False


_DEVELOPMENT = (
    Scene(
        "skimage/astronaut.png",
        targets=(("patch", (128, 343, 212, 432)), ("badge", (274, 336, 332, 384))),
        small=((274, 336, 332, 384), (148, 458, 200, 510), (234, 425, 270, 480), (240, 296, 270, 345)),
        large=(((350, 4, 478, 284),), ((280, 342, 510, 510),), ((0, 0, 100, 330),)),
        plain=((95, 0, 158, 110), (300, 5, 362, 235), (60, 250, 130, 340), (30, 350, 122, 450), (140, 300, 225, 340)),
        places=((55, 265, 180, 350), (290, 20, 365, 150), (100, 5, 170, 110), (30, 380, 125, 470)),
        faces=((183, 75, 260, 180),),
        frontal=True,
    ),
    Scene(
        "matplotlib/grace_hopper.jpg",
        targets=(("name plate", (64, 408, 144, 446)), ("ribbons", (272, 412, 386, 454))),
        small=((64, 408, 144, 446), (272, 412, 386, 454), (182, 22, 250, 72), (30, 48, 80, 98)),
        large=(((0, 0, 112, 285),), ((128, 14, 316, 150),), ((140, 290, 300, 450),)),
        plain=(
            (325, 20, 432, 270),
            (30, 330, 185, 400),
            (20, 450, 185, 512),
            (240, 465, 430, 512),
            (330, 330, 420, 405),
        ),
        places=((320, 50, 425, 130), (325, 160, 425, 260), (330, 200, 425, 290)),
        faces=((160, 140, 300, 262),),
        frontal=True,
    ),
    Scene(
        "skimage/camera.png",
        targets=(("tower", (408, 112, 438, 195)), ("camera", (256, 132, 328, 188))),
        small=((408, 112, 438, 195), (338, 158, 402, 196), (444, 158, 500, 198), (286, 288, 342, 330)),
        large=(((225, 315, 410, 510),), ((336, 110, 510, 236),)),
        plain=((300, 5, 512, 105), (5, 5, 150, 90), (420, 245, 512, 512), (160, 360, 228, 500)),
        places=((370, 260, 500, 340), (400, 350, 510, 430), (160, 330, 230, 440), (420, 430, 510, 500)),
        faces=((205, 105, 262, 200),),
    ),
    Scene(
        "skimage/coffee.png",
        targets=(("handle", (164, 194, 222, 262)), ("coffee", (184, 78, 316, 164))),
        small=((164, 194, 222, 262), (346, 52, 368, 106)),
        large=(((164, 194, 222, 262), (270, 198, 350, 280)), ((346, 52, 368, 106), (270, 198, 350, 280))),
        plain=((405, 100, 512, 330), (72, 130, 145, 250), (200, 272, 300, 312)),
        places=((415, 60, 500, 140), (420, 190, 506, 280), (80, 205, 165, 280), (230, 5, 330, 60)),
        lit=((90, 210, 165, 285),),
    ),
    Scene(
        "skimage/rocket.jpg",
        targets=(("rocket", (236, 96, 280, 318)), ("mast", (346, 94, 380, 285))),
        small=(
            (96, 272, 144, 318),
            (268, 290, 316, 334),
            (134, 292, 178, 330),
            (324, 288, 364, 330),
        ),
        large=(((444, 0, 512, 300),), ((0, 0, 78, 262),), ((138, 92, 176, 280), (346, 92, 382, 280))),
        plain=((180, 10, 235, 250), (290, 10, 340, 260), (385, 20, 440, 240), (80, 30, 138, 180), (182, 262, 232, 310)),
    ),
    Scene(
        "skimage/motorcycle_left.png",
        targets=(("fuel tank", (268, 100, 358, 182)), ("crate", (356, 124, 428, 188))),
        small=((268, 34, 346, 66), (364, 14, 404, 62), (400, 84, 452, 122), (62, 134, 102, 164), (0, 74, 36, 158)),
        large=(((68, 68, 196, 152),), ((250, 8, 400, 66), (402, 8, 500, 66)), ((356, 84, 508, 190),)),
        plain=((10, 230, 110, 330), (250, 285, 380, 340), (180, 4, 228, 68), (6, 4, 110, 60)),
        places=((20, 230, 110, 310), (250, 285, 350, 336), (0, 165, 85, 235), (180, 4, 228, 70)),
    ),
    Scene(
        "skimage/coins.png",
        targets=(("coin", (306, 14, 368, 74)), ("coin", (316, 150, 380, 214)), ("coin", (20, 226, 76, 284))),
        small=(
            (130, 26, 182, 74),
            (84, 100, 124, 142),
            (316, 100, 358, 142),
            (80, 168, 124, 214),
        ),
        large=(
            ((20, 96, 66, 144), (84, 100, 124, 142), (132, 102, 174, 144), (184, 100, 228, 142)),
            ((22, 170, 64, 212), (80, 168, 124, 214), (134, 170, 176, 214)),
            ((142, 228, 202, 284), (216, 230, 270, 284), (274, 230, 328, 282)),
        ),
        plain=((0, 0, 300, 26), (0, 75, 240, 99), (0, 145, 320, 169)),
        places=((20, 10, 120, 80), (180, 90, 300, 150), (20, 160, 130, 220), (210, 220, 340, 290)),
    ),
    Scene(
        "skimage/page.png",
        targets=(("word", (170, 6, 294, 36)), ("word", (170, 164, 242, 184))),
        small=((104, 46, 178, 64), (278, 46, 320, 64), (334, 62, 378, 80), (86, 62, 136, 80), (116, 114, 172, 134)),
        large=(((0, 78, 378, 98),), ((0, 4, 168, 36),), ((14, 158, 168, 184),)),
        plain=((195, 112, 384, 160), (0, 134, 200, 160), (300, 0, 384, 44)),
        places=((205, 116, 300, 158), (296, 0, 384, 44), (30, 134, 150, 162)),
        lit=((300, 130, 384, 184),),
    ),
)

SCENES: Mapping[str, Sequence[Scene]] = {"development": _DEVELOPMENT}
