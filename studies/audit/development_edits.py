"""The development set: the demo's good edits, and further ones on photographs in the wheels of scikit-image and
matplotlib (`pip install 'editcritic[bench]'`). Families, tolerances and metrics may be chosen on it.

Photographs that the study of preservation holds out are not among them. Edits of whole pictures (brightness, crops,
black and white) are not either: only a judge can score them, and the experts `cpu` have none that looks at pictures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from editcritic.benchmarks.demo.candidate_edits import demo_tasks
from editcritic.benchmarks.demo.photographs import PHOTOS, AnnotatedPhoto, ellipse
from studies.audit.good_edits import PackagedPhoto

from .good_edits import Copy, GoodEdit, Move, Recolouring, Removal, Writing

_PHOTOS: Mapping[str, AnnotatedPhoto] = {
    # Its pad moves with the rocket, so it is in the box.
    "rocket": replace(
        PHOTOS["rocket"],
        boxes={"white rocket": ((208, 97, 302, 342),), "mast": ((131, 97, 164, 342), (351, 97, 384, 342))},
    ),
    "cockpit": AnnotatedPhoto(
        file="motorcycle_right.png",
        crop=(250, 0, 741, 345),
        boxes={
            "orange turn signal": ((153, 174, 180, 202), (260, 117, 281, 144)),
            "headlight": ((198, 122, 256, 190),),
        },
        outlines={"turn signals": (ellipse(166.5, 188, 12.9, 13.6), ellipse(270.4, 130.6, 9.8, 12.7))},
    ),
    "camera": AnnotatedPhoto(
        file="camera.png",
        boxes={"tall white tower": ((411, 114, 432, 194),), "camera": ((250, 136, 332, 190),)},
        outlines={
            "tower above the trees": (
                (
                    *((407, 193), (408, 128), (412, 120), (420, 112), (434, 112), (436, 128), (436, 187)),
                    *((430, 186.5), (422, 188), (416, 191), (412, 195)),
                ),
            ),
            "trees and domes": (
                (
                    *((300, 150), (380, 168), (398, 178), (406, 193), (412, 194.5), (418, 189), (428, 186.5)),
                    *((440, 191), (443, 175), (470, 170), (470, 215), (300, 215)),
                ),
            ),
        },
    ),
    "page": AnnotatedPhoto(
        file="page.png",
        boxes={"heading": ((5, 8, 297, 36),)},
        outlines={"last word of the heading": (((148, 9), (298, 9), (298, 34.5), (148, 34.5)),)},
    ),
    "grass": AnnotatedPhoto(file="grass.png", boxes={}, outlines={}),
    "gravel": AnnotatedPhoto(file="gravel.png", boxes={}, outlines={}),
    "clock": AnnotatedPhoto(file="clock_motion.png", boxes={"clock": ((140, 92, 284, 216),)}, outlines={}),
    "grace hopper": PackagedPhoto(
        package="matplotlib",
        file="sample_data/grace_hopper.jpg",
        boxes={"name tag": ((67, 412, 144, 442),), "ribbons": ((275, 416, 388, 449),), "cap": ((130, 19, 317, 149),)},
        outlines={
            "name tag": (((69, 412.5), (130, 417), (143, 430.5), (142.5, 441.5), (67, 436)),),
            "around the name tag": (((65, 408), (133, 412), (147, 428), (147, 446), (63, 440)),),
            "around the ribbons": (
                ((270, 452), (296, 424), (307, 413), (353, 413), (353, 424), (392, 424), (392, 453)),
            ),
        },
    ),
}

_DEMO = {scene.name: scene for scene in demo_tasks()}

_FURTHER = (
    GoodEdit(
        "rocket-aside",
        _PHOTOS["rocket"],
        "Move the white rocket to the right of the right mast",
        _DEMO["rocket-aside"].operation,
    ),
    GoodEdit(
        "liftoff", _PHOTOS["rocket"], "Add the text 'LIFTOFF' at the top", Writing("LIFTOFF", (257, 45), 24, rim=2)
    ),
    GoodEdit(
        "green-fender",
        PHOTOS["motorcycle"],
        "Could you paint the red front fender green?",
        Recolouring("metal red front fender", (60, 150, 60)),
    ),
    GoodEdit(
        "purple-bottle",
        PHOTOS["garage"],
        "The yellow bottle should be purple",
        Recolouring("plastic yellow bottle", (130, 50, 160)),
    ),
    GoodEdit(
        "blue-signals", _PHOTOS["cockpit"], "Make both turn signals blue", Recolouring("turn signals", (45, 90, 190))
    ),
    GoodEdit("green-nose", PHOTOS["cat"], "Make the orange nose green", Recolouring("orange nose", (60, 150, 60))),
    GoodEdit(
        "no-tower",
        _PHOTOS["camera"],
        "Get rid of the tall white tower",
        Removal("tower above the trees", donor=(0, -83), apart="trees and domes"),
    ),
    GoodEdit(
        "another-heading",
        _PHOTOS["page"],
        'Replace the word "segmentation" in the heading with "recognition"',
        Writing("recognition", (208, 22), 16, ink=(28, 28, 28), old=Removal("last word of the heading")),
    ),
    GoodEdit(
        "keep-off",
        _PHOTOS["grass"],
        "Put the text 'KEEP OFF' in the middle of the picture",
        Writing("KEEP OFF", (256, 256), 40, rim=4),
    ),
    GoodEdit(
        "caution",
        _PHOTOS["gravel"],
        "Write 'CAUTION' at the top",
        Writing("CAUTION", (256, 60), 44, ink=(240, 200, 30), rim=4),
    ),
    GoodEdit(
        "overtime",
        _PHOTOS["clock"],
        "Please write 'OVERTIME' at the bottom of the picture",
        Writing("OVERTIME", (212, 258), 18, rim=1.5),
    ),
    GoodEdit(
        "moved-tag",
        _PHOTOS["grace hopper"],
        "Move the name tag above the ribbons",
        Move(Removal("around the name tag"), Copy("name tag", (224, -38))),
    ),
    GoodEdit("no-ribbons", _PHOTOS["grace hopper"], "Take off the ribbons", Removal("around the ribbons")),
)


def development_edits() -> tuple[GoodEdit, ...]:
    """All of them, the demo's first: of the rocket with other boxes and words."""
    scenes = (scene for scene in _DEMO.values() if scene.name != "rocket-aside")
    return (*(GoodEdit(scene.name, scene.source, scene.instruction, scene.operation) for scene in scenes), *_FURTHER)
