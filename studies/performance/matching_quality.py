"""Quality of `reward.experts.matching` by kind of edit, and the cost of a query.

    python -m studies.performance.matching_quality [--every 1]

57 boxes drawn on six photographs of scikit-image's wheel. An instance counts as matched where the score exceeds 0.30
and the boxes overlap by 0.5 or more (intersection over union); every other box above 0.30 is a false positive. The
constants of the expert were tuned on these boxes: the figures are not held out.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import resources

import cv2
import numpy as np
from numpy.typing import NDArray

from editcritic.reward import Image
from editcritic.reward.experts.matching.edge_structure import Pyramid
from editcritic.reward.experts.matching.object_matching import ObjectMatch, ObjectTemplate

Pixels = NDArray[np.uint8]
Corners = tuple[int, int, int, int]
RefindCase = tuple[str, Pixels, list[Corners]]

PRESENT = 0.30
BOXES: dict[str, list[Corners]] = {
    "astronaut.png": [
        *((153, 14, 302, 190), (185, 75, 265, 185), (353, 0, 460, 288), (132, 347, 210, 425), (277, 338, 330, 380)),
        *((277, 343, 500, 512), (0, 0, 64, 160), (200, 135, 248, 158), (150, 460, 196, 512), (225, 295, 280, 512)),
        *((113, 148, 306, 295), (345, 422, 372, 460)),
    ],
    "coffee.png": [
        *((173, 17, 410, 285), (77, 50, 480, 390), (325, 235, 407, 326), (203, 95, 370, 195), (195, 228, 260, 310)),
        (395, 66, 425, 120),
    ],
    "chelsea.png": [
        *((134, 83, 208, 150), (295, 107, 345, 165), (230, 223, 293, 268), (40, 0, 365, 290), (320, 0, 400, 75))
    ],
    "rocket.jpg": [
        *((308, 125, 336, 410), (0, 0, 90, 427), (168, 122, 206, 400), (436, 122, 482, 400), (345, 375, 385, 415)),
        *((90, 395, 130, 427), (555, 0, 640, 427), (312, 140, 334, 160)),
    ],
    "motorcycle_left.png": [
        *((95, 60, 690, 455), (120, 238, 282, 405), (510, 290, 690, 455), (498, 122, 563, 192), (330, 235, 480, 375)),
        *((150, 160, 360, 245), (330, 155, 495, 250), (398, 190, 450, 212), (398, 55, 420, 92), (528, 180, 618, 255)),
        *((530, 30, 600, 100), (595, 62, 640, 102), (560, 115, 582, 145), (330, 110, 376, 142), (45, 105, 285, 310)),
        *((335, 305, 390, 355), (615, 180, 680, 275), (560, 138, 625, 168)),
    ],
    "camera.png": [
        *((258, 138, 326, 190), (155, 62, 272, 200), (410, 115, 436, 190), (335, 163, 405, 195), (230, 310, 410, 512)),
        *((275, 298, 340, 350), (165, 205, 245, 265), (450, 162, 472, 196)),
    ],
}
UNRELATED = ("brick.png", "grass.png", "gravel.png", "ihc.png", "hubble_deep_field.jpg", "moon.png", "page.png")


@dataclass
class MatchStats:
    """Statistics of one kind of edit."""

    queries: int = 0
    counted: int = 0
    false: int = 0
    scores: list[float] = field(default_factory=list)
    strays: list[float] = field(default_factory=list)

    def add(self, matches: list[ObjectMatch], truth: list[Corners]) -> None:
        """Add the best score at every true place; 0 without a match."""
        hits: dict[int, float] = {}
        strays = []
        for match in matches:
            index = next((i for i, box in enumerate(truth) if overlap(match, box) >= 0.5), None)
            if index is None or index in hits:
                strays.append(match.score)
            else:
                hits[index] = match.score
        self.queries += 1
        self.scores += [hits.get(i, 0.0) for i in range(len(truth))]
        self.strays.append(max(strays, default=0.0))
        self.false += sum(score > PRESENT for score in strays)
        self.counted += sum(match.score > PRESENT for match in matches) == len(truth)

    def row(self, name: str) -> str:
        """One line of the table."""
        cells = "       -       -       -"
        if self.scores:
            scores = np.array(self.scores)
            cells = f"{np.mean(scores > PRESENT):8.3f}{np.quantile(scores, 0.05):8.2f}{np.median(scores):8.2f}"
        count = self.counted / self.queries
        return f"{name:<22}{self.queries:5d}{cells}{count:8.3f}{self.false:8d}{max(self.strays):8.2f}\n"


def overlap(match: ObjectMatch, box: Corners) -> float:
    """Intersection over union."""
    w = min(match.x1, box[2]) - max(match.x0, box[0])
    h = min(match.y1, box[3]) - max(match.y0, box[1])
    shared = max(0.0, w) * max(0.0, h)
    return shared / ((match.x1 - match.x0) * (match.y1 - match.y0) + (box[2] - box[0]) * (box[3] - box[1]) - shared)


def photograph(name: str) -> Pixels:
    """RGB, from scikit-image's wheel."""
    with resources.files("skimage").joinpath(f"data/{name}").open("rb") as file:
        return np.array(Image.of(file.read()).pixels)


def rounded(values: NDArray[np.floating]) -> Pixels:
    """To uint8."""
    clipped: NDArray[np.floating] = np.clip(np.rint(values), 0, 255)
    return clipped.astype(np.uint8)


def ellipse(size: tuple[int, int], box: Corners, part: float = 0.9) -> NDArray[np.float32]:
    """Soft cover, H x W x 1, of the middle `part` of a box."""
    cover = np.zeros(size, np.float32)
    centre = ((box[0] + box[2]) // 2, (box[1] + box[3]) // 2)
    axes = (int((box[2] - box[0]) * part / 2), int((box[3] - box[1]) * part / 2))
    cv2.ellipse(cover, centre, axes, 0, 0, 360, 1, -1)
    return np.asarray(cv2.GaussianBlur(cover, (0, 0), 0.8), np.float32)[..., None]


def degraded_copy(photo: Pixels, box: Corners, rng: np.random.Generator) -> Iterator[RefindCase]:
    """The object untouched, the whole image slightly degraded."""
    plain = photo.astype(np.float32)
    noisy = rounded(plain + rng.normal(0, 8, photo.shape))
    yield "noise", noisy, [box]
    for name, picture in (("JPEG 40", photo), ("noise, JPEG 40", noisy)):
        _, data = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 40])
        yield name, np.asarray(cv2.imdecode(data, cv2.IMREAD_COLOR), np.uint8), [box]
    yield "brighter, flatter", rounded((plain - 128) * 0.85 + 128 * 1.15), [box]
    yield "darker, harder", rounded((plain - 128) * 1.15 + 128 * 0.85), [box]
    yield "blurred", np.asarray(cv2.GaussianBlur(photo, (0, 0), 1.2), np.uint8), [box]
    yield "sharpened", rounded(2 * plain - np.asarray(cv2.GaussianBlur(plain, (0, 0), 1.5))), [box]
    small = np.asarray(cv2.resize(photo, None, fx=0.8, fy=0.8, interpolation=cv2.INTER_AREA), np.uint8)
    yield "resized", small, [(round(box[0] * 0.8), round(box[1] * 0.8), round(box[2] * 0.8), round(box[3] * 0.8))]
    x, y = round(0.03 * photo.shape[1]), round(0.04 * photo.shape[0])
    yield "cropped", photo[y:, x:], [(box[0] - x, box[1] - y, box[2] - x, box[3] - y)]


def recoloured(photo: Pixels, box: Corners, rng: np.random.Generator) -> Iterator[RefindCase]:
    """Other colours in an ellipse; text over a third of the box."""
    cover = ellipse(photo.shape[:2], box)
    grey = np.asarray(cv2.cvtColor(photo, cv2.COLOR_RGB2GRAY), np.float32)[..., None]
    hsv = np.asarray(cv2.cvtColor(photo, cv2.COLOR_RGB2HSV), np.int32)
    turned = np.dstack([(hsv[..., 0] + 110) % 180, np.minimum(hsv[..., 1] + 80, 255), hsv[..., 2]]).astype(np.uint8)
    colours: dict[str, NDArray[np.floating]] = {
        "hue turned": np.asarray(cv2.cvtColor(turned, cv2.COLOR_HSV2RGB), np.float32),
        "blue": grey * np.array([0.3, 0.4, 1.2], np.float32),
        "half as bright": photo * np.float32(0.5),
        "nearly white": np.repeat(200 + 0.22 * grey, 3, axis=2),
        "nearly black": np.repeat(5 + 0.22 * grey, 3, axis=2),
    }
    for name, colour in colours.items():
        yield name, rounded(photo * (1 - cover) + colour * cover), [box]
    x0, y0, x1, y1 = box
    third = max(4, round((y1 - y0) / 3))
    top = y0 + int(rng.integers(third // 2, y1 - y0 - third - third // 2 + 1))
    written = photo.copy()
    written[top : top + third, x0:x1] = np.median(photo[top : top + third, x0:x1].reshape(-1, 3), axis=0)
    text = "".join(rng.choice(list("ABCDEFGHKLMNPRSTX"), max(2, round((x1 - x0) / third * 1.3))))
    ink = tuple(int(c) for c in rng.integers(0, 255, 3))
    foot = (x0 + 1, top + third - max(1, third // 5))
    cv2.putText(written, text, foot, cv2.FONT_HERSHEY_SIMPLEX, third / 32, ink, max(1, third // 14), cv2.LINE_AA)
    yield "other text", written, [box]


def removed(photo: Pixels, box: Corners) -> Iterator[RefindCase]:
    """The object removed, in five ways."""
    height, width = photo.shape[:2]
    x0, y0, x1, y1 = box
    w, h = x1 - x0, y1 - y0
    area = np.zeros((height, width), np.uint8)
    area[max(0, y0 - 3) : y1 + 3, max(0, x0 - 3) : x1 + 3] = 255
    oval = (ellipse((height, width), box, 1.0)[..., 0] > 0.5).astype(np.uint8) * 255
    if w * h < 0.4 * width * height:
        yield "inpainted", np.asarray(cv2.inpaint(photo, area, 3, cv2.INPAINT_TELEA), np.uint8), []
        yield "inpainted, an oval", np.asarray(cv2.inpaint(photo, oval, 3, cv2.INPAINT_TELEA), np.uint8), []
    smear = np.asarray(cv2.GaussianBlur(photo, (0, 0), 0.25 * float(np.sqrt(w * h))), np.uint8)
    yield "smeared", np.where(area[..., None] > 0, smear, photo), []
    flat = photo.copy()
    flat[area > 0] = np.median(photo[area == 0], axis=0)
    yield "flat", flat, []
    for x, y in ((w, 0), (-w, 0), (0, h), (0, -h)):
        if x0 + x >= 0 and y0 + y >= 0 and x1 + x <= width and y1 + y <= height:
            cloned = photo.copy()
            cloned[y0:y1, x0:x1] = photo[y0 + y : y1 + y, x0 + x : x1 + x]
            yield "cloned over", cloned, []
            break


def copied(photo: Pixels, box: Corners, rng: np.random.Generator) -> Iterator[RefindCase]:
    """The object elsewhere, once or several times."""
    x0, y0, x1, y1 = box
    if (x1 - x0) * (y1 - y0) > 0.25 * photo.shape[0] * photo.shape[1]:
        return
    area = np.zeros(photo.shape[:2], np.uint8)
    area[max(0, y0 - 3) : y1 + 3, max(0, x0 - 3) : x1 + 3] = 255
    without = np.asarray(cv2.inpaint(photo, area, 3, cv2.INPAINT_TELEA), np.uint8)
    cases = [("moved", without, 1, (1.0, 1.0), False), ("copies", photo, 4, (1.0, 1.0), False)]
    cases += [("scaled copies", photo, 4, (0.5, 1.6), False), ("mirrored copies", photo, 4, (0.7, 1.4), True)]
    for name, ground, most, scales, mirror in cases:
        picture, places = ground.copy(), [box]
        for _ in range(int(rng.integers(1, most + 1))):
            place = free_place(photo.shape[:2], box, float(np.exp(rng.uniform(*np.log(scales)))), places, rng)
            if place is None:
                continue
            size = (place[2] - place[0], place[3] - place[1])
            piece = np.asarray(cv2.resize(photo[y0:y1, x0:x1], size, interpolation=cv2.INTER_AREA), np.uint8)
            if mirror and rng.random() < 0.5:
                piece = np.ascontiguousarray(piece[:, ::-1])
            cover = ellipse((size[1], size[0]), (0, 0, *size), 0.98)
            under = picture[place[1] : place[3], place[0] : place[2]]
            picture[place[1] : place[3], place[0] : place[2]] = rounded(under * (1 - cover) + piece * cover)
            places.append(place)
        if len(places) > 1:
            yield name, picture, places[1:] if name == "moved" else places


def free_place(
    size: tuple[int, int], box: Corners, scale: float, occupied: list[Corners], rng: np.random.Generator
) -> Corners | None:
    """A free place for a copy."""
    w, h = max(12, round((box[2] - box[0]) * scale)), max(12, round((box[3] - box[1]) * scale))
    for _ in range(200):
        if w >= size[1] or h >= size[0]:
            return None
        x, y = int(rng.integers(0, size[1] - w)), int(rng.integers(0, size[0] - h))
        if all(x + w <= t[0] or t[2] <= x or y + h <= t[1] or t[3] <= y for t in occupied):
            return x, y, x + w, y + h
    return None


def replaced(photo: Pixels, box: Corners, others: list[tuple[Pixels, Corners]]) -> Iterator[RefindCase]:
    """Another photograph's object in its place."""
    for other, (x0, y0, x1, y1) in others:
        piece = cv2.resize(other[y0:y1, x0:x1], (box[2] - box[0], box[3] - box[1]), interpolation=cv2.INTER_AREA)
        pasted = photo.copy()
        pasted[box[1] : box[3], box[0] : box[2]] = piece
        yield "another object", pasted, []


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="use every n-th box only")
    options = parser.parse_args()
    cv2.setNumThreads(1)
    photos = {name: photograph(name) for name in BOXES}
    textures = [np.ascontiguousarray(photograph(name)[:512, :512]) for name in UNRELATED]
    boxes = [(name, box) for name, drawn in BOXES.items() for box in drawn]
    tallies: dict[str, MatchStats] = defaultdict(MatchStats)
    seconds = {"template": 0.0, "picture, once for all boxes": 0.0, "template and picture": 0.0}
    queries = 0
    for number, (name, box) in enumerate(boxes):
        if number % options.every:
            continue
        rng, photo = np.random.default_rng(number), photos[name]
        foreign = [(photos[n], b) for n, b in boxes if n != name]
        others = [foreign[int(i)] for i in rng.choice(len(foreign), 3, replace=False)]
        start = time.perf_counter()
        template = ObjectTemplate(photo, box)
        template.find(photo)
        seconds["template"] += time.perf_counter() - start
        cases = [*degraded_copy(photo, box, rng), *recoloured(photo, box, rng), *removed(photo, box)]
        cases += [*copied(photo, box, rng), *replaced(photo, box, others)]
        cases += [("another photograph", textures[int(i)], []) for i in rng.choice(len(textures), 3, replace=False)]
        for kind, picture, truth in cases:
            pyramid, start = Pyramid(picture), time.perf_counter()
            matches = template.find(pyramid)
            first_done = time.perf_counter()
            template.find(pyramid)
            repeated = time.perf_counter()
            seconds["template and picture"] += repeated - first_done
            seconds["picture, once for all boxes"] += (first_done - start) - (repeated - first_done)
            tallies[kind].add(matches, truth)
            queries += 1
    sys.stdout.write(f"{'edit':<22}{'n':>5}{'recall':>8}{'5 %':>8}{'median':>8}{'count':>8}{'false':>8}{'worst':>8}\n")
    for kind, tally in tallies.items():
        sys.stdout.write(tally.row(kind))
    number = sum(len(drawn) for drawn in BOXES.values()) // options.every
    for stage, total in seconds.items():
        sys.stdout.write(f"{stage}: {1000 * total / (number if stage == 'template' else queries):.0f} ms\n")


if __name__ == "__main__":
    main()
