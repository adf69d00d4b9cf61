"""Ladders of rising damage: one photograph, one honest edit, and outside of it one fault more a rung, as people order
them: encoding, slight re-rendering, a faint and a deep shadow, a small object lost, a face changed, furniture lost,
another picture.

Each rung has one fault and not those below it, so that no area or difference gives the order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice, pairwise
from statistics import median
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from editcritic.benchmarks.common.markdown import table_lines
from editcritic.benchmarks.common.terminal import echo
from editcritic.reward import Box, EditSample, Image, Reward
from editcritic.reward.audit.whole_picture_changes import clipped, jpeg, moved
from editcritic.reward.bootstrap_intervals import bootstrap_interval

from .damages import Area, Generator, Pixels, blended, visibility
from .photographs import photograph
from .scenes import SCENES, Corners, Scene

Plane = NDArray[np.float32]

LADDERS = 8
"""Of each photograph."""

KINDS = ("encoded", "re-rendered", "faint shadow", "deep shadow", "small object", "face", "furniture", "other picture")

_MARGIN = 12  # pixels around the target within which nothing is damaged
_SLIGHT, _FAINT, _DEEP, _LOST = (0.8, 2.0), 3.5, 8.0, 6.0
"""Mean distance in CIE L*a*b* over the area: of slight re-rendering, and least ones of the others."""
_GAINS = {"faint shadow": 0.8, "deep shadow": 0.55}
_PASSAGES = {"jpeg 92": lambda pixels: jpeg(pixels, 92), "half a pixel": lambda pixels: moved(pixels, 1.0, 0.5, -0.5)}
_COLOURS = {"red": (60, 45), "green": (-50, 40), "blue": (15, -60)}
_ATTEMPTS = 40
_TILE, _RING = 16, 4
"""Pixels: sides of the tiles that fill the place of a lost object, and what is compared around them."""


@dataclass(frozen=True, slots=True)
class Rung:
    """kind: of `KINDS`. area: damaged share of the picture. visible: mean distance in CIE L*a*b* over it."""

    kind: str
    pixels: Pixels
    area: float = 0.0
    visible: float = 0.0


@dataclass(frozen=True, slots=True)
class Ladder:
    """scene: what it is of. colour: what the target becomes in all rungs. passage: what happens to all of them."""

    name: str
    scene: Scene
    noun: str
    target: Corners
    colour: str
    passage: str
    rungs: Sequence[Rung]

    @property
    def pairs(self) -> list[tuple[Rung, Rung]]:
        """Neighbouring rungs of which a person says without doubt that the second one is worse."""
        return [pair for pair in zip(self.rungs, self.rungs[1:], strict=False) if is_clear(*pair)]

    def samples(self) -> list[EditSample]:
        """One a rung, with the target's box."""
        source = Image.of(photograph(self.scene.photo))
        boxes = {self.noun: (Box.from_corners(*self.target, source.size),)}
        return [
            EditSample(
                f"{self.name}/{rung.kind}",
                f"Make the {self.noun} {self.colour}",
                (source,),
                Image.of(rung.pixels),
                boxes=boxes,
            )
            for rung in self.rungs
        ]


def is_clear(lower: Rung, upper: Rung) -> bool:
    """Whether a person is sure that the second of two neighbouring rungs is worse.

    A shadow that is more striking than a lost object, or much larger, may be worse than its loss; so may the face of a
    portrait be than furniture. A faint shadow has to be plainly stronger than a change of tone.
    """
    if upper.kind == "faint shadow":
        return upper.visible >= 1.5 * lower.visible
    if lower.kind == "deep shadow":
        return lower.area <= 4 * upper.area and lower.visible <= upper.visible
    if lower.kind == "small object" and upper.kind == "face":
        return upper.area >= 0.5 * lower.area
    if upper.kind == "furniture":
        return upper.area >= (1.5 if lower.kind == "face" else 3.0) * lower.area
    return True


def ladders(half: str, *, seed: int, photos: int | None = None) -> Iterator[Ladder]:
    """`LADDERS` of each photograph of a half; photos: of this many photographs, all by default."""
    for number, scene in enumerate(SCENES[half][:photos]):
        for index in range(LADDERS):
            yield _ladder(scene, SCENES[half], index, (seed, number, index))


def _ladder(scene: Scene, scenes: Sequence[Scene], index: int, seed: Sequence[int]) -> Ladder:
    generator = np.random.default_rng(seed)
    before = photograph(scene.photo)
    noun, target = scene.targets[index % len(scene.targets)]
    turn = sum(seed) // len(scene.targets)  # of what is chosen by hand each has its turn
    colour = str(generator.choice(list(_COLOURS)))
    edited = _recoloured(before, target, _COLOURS[colour])
    rungs = [Rung("encoded", edited), *_rerendered(edited, target, generator), *_shadows(edited, scene, target, turn)]
    for kind, groups in (("small object", [(box,) for box in scene.small]), ("furniture", scene.large)):
        free = [group for group in groups if not any(_touch(box, target) for box in group)]
        losses = [_seen(kind, edited, _lost(edited, scene, group), group) for group in free]
        noticed = [rung for rung in losses if rung.visible >= _LOST]
        rungs += noticed[turn % len(noticed) :][:1] if noticed else []
    rungs += _face(edited, scene, scenes, target, generator)
    others = [other.photo for other in scenes if other is not scene]
    other = cv2.resize(photograph(others[turn % len(others)]), before.shape[1::-1], interpolation=cv2.INTER_AREA)
    rungs.append(_seen("other picture", edited, np.asarray(other, np.uint8), ((0, 0, *before.shape[1::-1]),)))
    passage = str(generator.choice(list(_PASSAGES)))
    rungs = [replace(rung, pixels=_PASSAGES[passage](rung.pixels)) for rung in rungs]
    rungs.sort(key=lambda rung: KINDS.index(rung.kind))
    return Ladder(f"{scene.photo}/{index}", scene, noun, target, colour, passage, rungs)


# -- faults -----------------------------------------------------------------------------------------------------------


def _recoloured(pixels: Pixels, box: Corners, colour: tuple[int, int]) -> Pixels:
    """The honest edit: another hue in an ellipse, light and dark as before."""
    x, y, w, h = area = _area(box)
    lab = cv2.cvtColor(pixels[y : y + h, x : x + w].astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    lab[..., 1:] = 0.3 * lab[..., 1:] + 0.7 * np.array(colour, np.float32)
    return blended(pixels, area, cv2.cvtColor(lab, cv2.COLOR_LAB2RGB) * 255)


def _rerendered(pixels: Pixels, target: Corners, generator: Generator) -> list[Rung]:
    """Smoothed texture or another tone in 8 to 20 % of the picture, where that is seen, but only just."""
    height, width = pixels.shape[:2]
    smooth = generator.random() < 0.5
    for _ in range(_ATTEMPTS):
        w, h = (round(side * np.sqrt(generator.uniform(0.08, 0.2))) for side in (width, height))
        area = (int(generator.integers(width - w)), int(generator.integers(height - h)), w, h)
        content = cv2.GaussianBlur(pixels, (0, 0), generator.uniform(0.8, 1.4)).astype(np.float32)
        if not smooth:
            warm = generator.choice([-1, 1])
            content = pixels * (1 + np.array([0.035, 0.02, -0.01]) * warm)
        after = blended(pixels, area, _cut(content, _corners(area)), soft=0.2 * min(w, h))
        seen = visibility(pixels, after, area)
        if _SLIGHT[0] <= seen <= _SLIGHT[1] and not _touch(_corners(area), target):
            return [Rung("re-rendered", after, w * h / (width * height), seen)]
    return []


def _shadows(pixels: Pixels, scene: Scene, target: Corners, turn: int) -> list[Rung]:
    """A faint and a deep shadow in one place, or one that goes in part and goes altogether; where they are seen."""
    candidates = [(box, 1) for box in scene.places] + [(box, -1) for box in scene.lit]
    free = [(box, sign) for box, sign in candidates if not _touch(box, target)]
    for index in range(len(free)):
        box, sign = free[(turn + index) % len(free)]
        area = _area(box)
        result = []
        for kind, gain in _GAINS.items():
            gains = np.array([gain, gain, gain**0.9]) ** sign  # a shadow is lit by the sky
            after = blended(pixels, area, _cut(pixels, box) * gains, soft=0.5 * min(area[2:]))
            result.append(_seen(kind, pixels, after, (box,)))
        if result[0].visible >= _FAINT and result[1].visible >= max(_DEEP, 1.5 * result[0].visible):
            return result
    return []


@cache
def _without(scene: Scene, boxes: tuple[Corners, ...]) -> Pixels:
    """The photograph without what stands in the boxes: filled tile by tile, those with most known around them first,
    from where the scene's plain places are most like what is around the tile, in the tile's light. Read-only."""
    photo = photograph(scene.photo).astype(np.float32)
    result, known = photo.copy(), np.ones(photo.shape[:2], np.float32)
    for box in boxes:
        _cut(known, box)[:] = 0
    tiles = [tile for box in boxes for tile in _tiles(box)]
    while tiles:
        tile = max(tiles, key=lambda tile: float(_cut(known, _around(tile, known, _RING)).mean()))
        tiles.remove(tile)
        around = _around(tile, known, _RING)
        weight = _cut(known, around)[..., None].copy()
        template = _cut(result, around)
        donor = min((_best(_cut(photo, box), template, weight) for box in scene.plain), key=lambda found: found[0])[1]
        if donor is None:
            raise ValueError(f"{scene.photo} has no plain place as large as {around}")
        blur = partial(cv2.GaussianBlur, ksize=(0, 0), sigmaX=_TILE / 2, borderType=cv2.BORDER_CONSTANT)
        light = blur((template - donor) * weight) / np.maximum(blur(weight), 1e-6)[..., None]
        new = np.maximum(cv2.GaussianBlur(1 - weight, (0, 0), _RING / 2)[..., None], 1 - weight)
        template[:] = template * (1 - new) + np.clip(donor + light, 0, 255) * new
        _cut(known, tile)[:] = 1
    filled = clipped(result)
    filled.setflags(write=False)
    return filled


def _best(place: Plane, template: Plane, weight: Plane) -> tuple[float, Plane | None]:
    h, w = template.shape[:2]
    if place.shape[0] < h or place.shape[1] < w:
        return np.inf, None
    costs = cv2.matchTemplate(place, template, cv2.TM_SQDIFF, mask=np.repeat(weight, 3, axis=2))
    row, column = np.unravel_index(int(np.argmin(costs)), costs.shape)
    return float(costs[row, column]), place[row : row + h, column : column + w]


def _tiles(box: Corners) -> list[Corners]:
    """A box in parts of at most `_TILE` pixels a side."""
    columns, rows = (
        np.linspace(box[i], box[i + 2], -(-(box[i + 2] - box[i]) // _TILE) + 1).astype(int) for i in (0, 1)
    )
    return [(int(x0), int(y0), int(x1), int(y1)) for y0, y1 in pairwise(rows) for x0, x1 in pairwise(columns)]


def _around(box: Corners, picture: NDArray[Any], margin: int) -> Corners:
    """A box and its margin, within the picture."""
    height, width = picture.shape[:2]
    x0, y0, x1, y1 = box
    return max(0, x0 - margin), max(0, y0 - margin), min(width, x1 + margin), min(height, y1 + margin)


def _lost(pixels: Pixels, scene: Scene, boxes: Sequence[Corners]) -> Pixels:
    result = pixels.copy()
    for box in boxes:
        around = _around(box, pixels, _RING)
        _cut(result, around)[:] = _cut(_without(scene, tuple(boxes)), around)
    return result


def _face(pixels: Pixels, scene: Scene, scenes: Sequence[Scene], target: Corners, generator: Generator) -> list[Rung]:
    """Another person's face in the colours of the first one, or features out of shape."""
    free = [box for box in scene.faces if not _touch(box, target)]
    if not free:
        return []
    box = free[int(generator.integers(len(free)))]
    area = _area(box)
    donors = [(other, face) for other in scenes if other is not scene and other.frontal for face in other.faces]
    if scene.frontal and donors and generator.random() < 0.6:
        other, face = donors[int(generator.integers(len(donors)))]
        content = cv2.resize(_cut(photograph(other.photo), face), area[2:], interpolation=cv2.INTER_AREA)
        own, new = (
            cv2.cvtColor(part.astype(np.float32) / 255, cv2.COLOR_RGB2LAB) for part in (_cut(pixels, box), content)
        )
        new = (new - new.mean((0, 1))) / new.std((0, 1)) * own.std((0, 1)) + own.mean((0, 1))
        rgb = cv2.cvtColor(np.asarray(new, np.float32), cv2.COLOR_LAB2RGB) * 255
        after = blended(pixels, area, rgb, soft=0.12 * min(area[2:]))
    else:
        after = blended(pixels, area, _cut(_warped(pixels, 0.07 * np.sqrt(area[2] * area[3]), generator), box), soft=4)
    return [_seen("face", pixels, after, (box,))]


def _warped(pixels: Pixels, reach: float, generator: Generator) -> Pixels:
    """Features moved smoothly by about `reach` pixels."""
    height, width = pixels.shape[:2]
    waves = [cv2.GaussianBlur(generator.standard_normal((height, width)), (0, 0), 2.0 * reach) for _ in "xy"]
    moves = [wave / wave.std() * reach for wave in waves]
    rows, columns = np.mgrid[0:height, 0:width]
    to_x, to_y = ((grid + move).astype(np.float32) for grid, move in zip((columns, rows), moves, strict=True))
    return np.asarray(cv2.remap(pixels, to_x, to_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT), np.uint8)


def _seen(kind: str, before: Pixels, after: Pixels, boxes: Sequence[Corners]) -> Rung:
    areas = [_area(box) for box in boxes]
    sizes = [w * h for _, _, w, h in areas]
    seen = np.average([visibility(before, after, area) for area in areas], weights=sizes)
    return Rung(kind, after, sum(sizes) / before[..., 0].size, float(seen))


def _area(box: Corners) -> Area:
    return box[0], box[1], box[2] - box[0], box[3] - box[1]


def _corners(area: Area) -> Corners:
    return area[0], area[1], area[0] + area[2], area[1] + area[3]


def _cut(pixels: NDArray[Any], box: Corners) -> NDArray[Any]:
    return pixels[box[1] : box[3], box[0] : box[2]]


def _touch(one: Corners, target: Corners) -> bool:
    return all(one[i] < target[i + 2] + _MARGIN and target[i] - _MARGIN < one[i + 2] for i in (0, 1))


BIN = 0.05
"""Width of the bins in which values between `BIN` and 1 - `BIN` are counted."""

_AGAIN = 4  # ladders that are made and scored twice

Climbed = tuple[Ladder, Mapping[str, float]]
"""A ladder, and the value of each rung by its kind."""


def climb(half: str, seed: int, photos: int | None) -> None:
    """Score the ladders of a half and print tables."""
    made = list(ladders(half, seed=seed, photos=photos))
    climbed = [(ladder, values_of(ladder)) for ladder in made]
    again = [values_of(ladder) for ladder in islice(ladders(half, seed=seed, photos=photos), _AGAIN)]
    lines = [*summary(half, climbed), f"Equal in a second run: {again == [values for _, values in climbed[:_AGAIN]]}"]
    echo("\n".join(lines), stderr=False)


def values_of(ladder: Ladder) -> dict[str, float]:
    """The preservation part of `any-edit` of each rung. Raises ValueError for a rung without one."""
    scores = Reward.of("any-edit-preservation", "cpu")(ladder.samples())
    for name, score in zip(scores.ids, scores, strict=True):
        if score.value is None:
            raise ValueError(f"{name} has no value: {score.reason}")
    return {rung.kind: value for rung, value in zip(ladder.rungs, scores.values, strict=True) if value is not None}


def summary(half: str, climbed: Sequence[Climbed]) -> Iterator[str]:
    """Neighbouring pairs in order, of all and by kind, with 95 % intervals over photographs; medians by rung; the
    fullest bin; and the pairs that are out of order."""
    rows = [
        (ladder.scene.photo, f"{lower.kind} > {upper.kind}", values[lower.kind] > values[upper.kind])
        for ladder, values in climbed
        for lower, upper in ladder.pairs
    ]
    kinds = sorted({kind for _, kind, _ in rows}, key=lambda kind: [KINDS.index(part) for part in kind.split(" > ")])
    photographs = len({ladder.scene.photo for ladder, _ in climbed})
    yield f"\n## {half}: {len(climbed)} ladders of {photographs} photographs, {LADDERS} each\n"
    groups = {"all": rows, **{kind: [row for row in rows if row[1] == kind] for kind in kinds}}
    yield from table_lines(
        ("neighbouring pairs", "in order", "pairs"),
        [(kind, _share(some), str(len(some))) for kind, some in groups.items()],
    )
    by_kind = {kind: [rungs[kind] for _, rungs in climbed if kind in rungs] for kind in KINDS}
    medians = [f"{kind} {median(some):.4f}" for kind, some in by_kind.items() if some]
    yield f"\nMedian by rung: {', '.join(medians)}"
    values = [value for _, rungs in climbed for value in rungs.values()]
    inside = Counter(int(value / BIN) for value in values if BIN <= value < 1 - BIN)
    fullest, count = max(inside.items(), key=lambda item: item[1], default=(0, 0))
    share = count / max(1, inside.total())
    yield f"Fullest bin of {BIN}: {share:.1%} of {inside.total()} values, from {fullest * BIN:.2f}"
    yield "Out of order:"
    for ladder, rungs in climbed:
        for lower, upper in ladder.pairs:
            if rungs[lower.kind] <= rungs[upper.kind]:
                values_of_pair = f"{rungs[lower.kind]:.4f} {rungs[upper.kind]:.4f}"
                yield f"{ladder.name} {lower.kind} {upper.kind} {values_of_pair}"


def _share(rows: Sequence[tuple[str, str, bool]]) -> str:
    photos = sorted({photo for photo, _, _ in rows})
    kept = [sum(right for name, _, right in rows if name == photo) for photo in photos]
    pairs = [sum(name == photo for name, _, _ in rows) for photo in photos]
    interval = bootstrap_interval(lambda right, all_: right.sum(-1) / all_.sum(-1), kept, pairs)
    bounds = "" if interval is None else " ({:.1%} to {:.1%})".format(*interval)
    return f"{np.mean([right for _, _, right in rows]):.1%}{bounds}"
