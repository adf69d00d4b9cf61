"""Cases: edits whose truth is known, by seed. What the validity report and later parts are measured on.

Splits are told apart by their seeds: `train`, `validation` and `test` never draw the same random numbers, and
`leaks` checks that no scene is in two of them all the same.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from ...reward import EditSample, Image, Pools
from ...reward.edival.pools import apply
from ...reward.sample import TASK_TYPES, TaskType
from . import annotation
from .editors import Edit, honest
from .failures import MODES, Mode
from .render import render
from .requests import Request, random_request
from .scene import Scene
from .scenes import SMALL, World, random_scene
from .truth import Truth

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

_HONEST = 0.4  # share of honest edits
_CHAINS = 0.15  # share of cases that are a second or third turn
_TURNS = 3
_CROWD = 16
_PATIENCE = 20  # scenes that are tried for a failure mode
_EVERY_TURN = ("background_drift", "exposure_drift")  # they add up
_STEPS = 9


@dataclass(frozen=True, slots=True)
class Case:
    """An edit whose truth is known.

    mode: the way in which it is flawed; empty for an honest one. severity: how far, in (0, 1]; 0 for an honest one.
    hack: whether the mode tries to please a scorer instead of doing the work. before, after: what there is
    to be seen in the source and in the edited picture. steps: of a compound instruction, which of its steps were
    followed; its task is "compound".
    """

    sample: EditSample
    truth: Truth
    task: TaskType | Literal["compound"]
    mode: str = ""
    severity: float = 0.0
    hack: bool = False
    before: Scene | None = None
    after: Scene | None = None
    steps: tuple[bool, ...] = ()


def cases(
    count: int,
    *,
    seed: int = 0,
    split: Split = "test",
    size: int = 64,
    turns: int | None = None,
    small: float = 0.05,
) -> list[Case]:
    """That many edits: all nine task types alike, two fifths honest, the others flawed in all modes alike.

    turns: every case is the last of so many; by default three in twenty are a second or third turn, the others a
    first. small: share of cases whose targets are below 1 % of the picture (at 128 px, whatever the size).
    """
    if turns is not None and not 1 <= turns <= len(TASK_TYPES):
        raise ValueError(f"a chain has 1 to {len(TASK_TYPES)} turns, each of another type, got {turns}")
    found: list[Case] = []
    for number in range(count):
        chance = chance_of(split, seed, "case", number)
        kind = TASK_TYPES[number % len(TASK_TYPES)]
        modes = [mode for mode in MODES if not mode.tasks or kind in mode.tasks]
        wanted = None if chance.random() < _HONEST else modes[(number // len(TASK_TYPES)) % len(modes)]
        drawn = chance.random()
        world = SMALL if drawn < small else World.of(size)
        some = chance.randint(2, _TURNS) if small <= drawn < small + _CHAINS else 1
        found.append(_one(chance, f"{split}-{seed}-{number}", world, kind, wanted, turns or some))
    return found


def _one(chance: random.Random, name: str, world: World, kind: TaskType, wanted: Mode | None, turns: int = 1) -> Case:
    """A case of this kind; in another mode where the wanted one cannot be had."""
    attempt = 0
    while True:
        made: list[Edit] = []
        scene = random_scene(chance, world)
        for turn in (*chance.sample([one for one in TASK_TYPES if one != kind], turns - 1), kind):
            edit = _turn(chance, scene, world, turn, wanted, of=turns, last=turn == kind)
            if edit is None:
                break
            made.append(edit)
            scene = edit.after
        else:
            return case_of(made, name)
        attempt += 1
        if wanted is not None and attempt % _PATIENCE == 0:
            wanted = chance.choice(MODES)


def _turn(
    chance: random.Random, scene: Scene, world: World, kind: TaskType, wanted: Mode | None, *, of: int, last: bool
) -> Edit | None:
    """One of so many turns, flawed if it is the last, or if the flaw adds up over them: then each has its share of it.

    None where there is no such turn.
    """
    request = random_request(chance, scene, world, kind)
    if request is None:
        return None
    if wanted is not None and wanted.name in _EVERY_TURN:
        edit = wanted.edit(chance, request, scene, world, severity=chance.uniform(wanted.least, 1.0) / of)
        return edit if edit is not None or last else honest(chance, request, scene, world)
    if wanted is not None and last:
        return wanted.edit(chance, request, scene, world)
    return honest(chance, request, scene, world)


def asked(chance: random.Random, world: World, kind: TaskType) -> tuple[Scene, Request]:
    """A random scene, and a request of this type about it."""
    while True:
        scene = random_scene(chance, world)
        request = random_request(chance, scene, world, kind)
        if request is not None:
            return scene, request


def case_of(turns: list[Edit], name: str, *, others: tuple[Image, ...] = (), annotated: bool = False) -> Case:
    """The last of these turns as a case. Each turn edits what the one before made. others: sources beside the first.

    Every sample says what its targets, text, hint and dimensions are; the last one also has the perfect edit for
    reference, and captions. annotated: it has the boxes of the base and a mask of what the edit may change besides,
    which metrics and experts use instead of looking for themselves.
    """
    base = turns[0].before
    pools = Pools(base.names, base.names, base.names)
    samples: list[EditSample] = []
    source = turns[0].source or render(base)
    for number, turn in enumerate(turns, start=1):
        pools = apply(pools, turn.request.task, foreground=turn.before.names)
        turn = replace(turn, source=source)
        samples.append(
            EditSample(
                name if number == len(turns) else f"{name}/{number}",
                turn.request.instruction,
                (source, *others),
                turn.picture,
                task=turn.request.task,
                pools=pools,
                earlier=tuple(samples),
                targets=annotation.targets(turn.request, turn.before),
                text=annotation.text([turn.request]),
                hint=annotation.hint([turn.request]),
                dimensions=annotation.dimensions([turn.request], 1 + len(others)),
            )
        )
        source = turn.picture
    last = turns[-1]
    ideal = last.request.carry_out(last.before)
    sample = replace(samples[-1], reference=render(ideal), metadata=annotation.captions(last.before, ideal))
    if annotated:
        sample = replace(sample, boxes=base.boxes(), mask=_mask(last.before, ideal))
    truth = last.truth(*(turn.request for turn in turns[:-1]), base=base)
    hack = any(one.name == last.mode and one.hack for one in MODES)
    return Case(sample, truth, last.request.task.type, last.mode, last.severity, hack, last.before, last.shown)


def _mask(before: Scene, ideal: Scene) -> Image:
    """White where a perfect edit changes anything, and one grain around it."""
    import cv2
    import numpy as np

    a, b = render(before, noise=False).pixels.astype(np.int16), render(ideal, noise=False).pixels.astype(np.int16)
    changed = (np.abs(a - b).max(axis=2) > 0).astype(np.uint8)
    wide = cv2.dilate(changed, np.ones((2 * before.grain + 1,) * 2, np.uint8))
    return Image.of(np.repeat(wide[..., None] * np.uint8(255), 3, axis=2))


def drift_series(count: int, *, seed: int = 0, size: int = 64) -> list[list[Case]]:
    """Series of nine edits each: one honest edit, with a backdrop that drifts further and further from the source's."""
    series: list[list[Case]] = []
    for number in range(count):
        chance = chance_of("test", seed, "drift", number)
        kind = chance.choice([one for one in TASK_TYPES if one != "background_change"])
        scene, request = asked(chance, World.of(size), kind)
        edit = honest(chance, request, scene, World.of(size))
        drift_seed = chance.randrange(2**31)
        steps = []
        for step in range(_STEPS):
            drift = step / (_STEPS - 1)
            ground = replace(scene.backdrop, drift=drift, drift_seed=drift_seed)
            after = replace(edit.after, backdrop=ground, noise_seed=chance.randrange(2**31))
            flawed = replace(edit, after=after, mode="background_drift" if step else "", severity=drift)
            steps.append(case_of([flawed], f"drift-{seed}-{number}-{step}"))
        series.append(steps)
    return series


def crowds(count: int, *, seed: int = 0, size: int = 64) -> list[list[Case]]:
    """Groups of 16 edits of one request with the same truth, alternately all followed and all not, no two pictures
    alike. Task types take turns.
    """
    groups: list[list[Case]] = []
    for number in range(count):
        chance = chance_of("test", seed, "crowd", number)
        kind, good = TASK_TYPES[(number // 2) % len(TASK_TYPES)], number % 2 == 0
        group: list[Case] = []
        while len(group) < _CROWD:
            scene, request = asked(chance, World.of(size), kind)
            group = _crowd(chance, scene, request, World.of(size), good, f"crowd-{seed}-{number}")
        groups.append(group)
    return groups


def _crowd(chance: random.Random, scene: Scene, request: Request, world: World, good: bool, name: str) -> list[Case]:
    group: dict[str, Case] = {}
    for attempt in range(20 * _CROWD):
        chosen = None if good and attempt % 2 == 0 else chance.choice(MODES)
        edit = honest(chance, request, scene, world) if chosen is None else chosen.edit(chance, request, scene, world)
        if edit is None or edit.picture == render(scene):
            continue
        case = case_of([edit], f"{name}-{len(group)}")
        if case.truth.followed == good:
            group.setdefault(case.sample.edited.digest, case)
        if len(group) == _CROWD:
            break
    return list(group.values())


def chance_of(split: Split, seed: int, what: str, number: int) -> random.Random:
    """Random numbers of its own for everything that is drawn: what is asked for beside it changes nothing."""
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}: expected one of {', '.join(SPLITS)}")
    return random.Random(f"sceneedit {split} {seed} {what} {number}")


# -- what a data set is known by --------------------------------------------------------------------------------------


def digest(found: Iterable[Case]) -> str:
    """sha256 over samples, pictures and truths, hex: equal exactly where two data sets are."""
    sha = hashlib.sha256()
    for case in found:
        sample, truth = case.sample, case.truth
        row = [sample.id, sample.instruction, sample.group, case.mode, case.severity, case.hack]
        row += [image.digest for image in (*sample.sources, sample.edited)]
        row += [truth.followed, truth.objects, truth.background]
        sha.update(json.dumps(row).encode())
    return sha.hexdigest()


def leaks(splits: Mapping[str, Collection[Case]]) -> list[str]:
    """Where two splits share a picture, or a scene that differs in light, noise and place of the backdrop's texture
    only; in words, empty if nowhere.
    """
    owners: dict[str, tuple[str, str]] = {}
    found = []
    for split, members in splits.items():
        for case in members:
            for key in _keys(case):
                owner, first = owners.setdefault(key, (split, case.sample.id))
                if owner != split:
                    found.append(f"{case.sample.id} of {split} has a picture or scene of {first} in {owner}")
                    break
    return found


def _keys(case: Case) -> Iterator[str]:
    for turn in case.sample.turns:
        yield from (image.digest for image in (*turn.sources, turn.edited))
    if case.before is not None:
        things = sorted((*thing.like, round(thing.x, 2), round(thing.y, 2)) for thing in case.before.things)
        yield json.dumps([case.before.backdrop.kind, things])
