"""Cases: seeded edits whose ground truth is known. The validity report and other studies are measured on them.

Splits differ in their seeds: `train`, `validation` and `test` never draw the same random numbers, and `split_leaks`
checks that no scene occurs in two of them.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from ...reward import EditSample, Image, Pools
from ...reward.metrics.edival.task_parser import update_pools
from ...reward.sample import TASK_TYPES, TaskType
from .failure_modes import FAILURE_MODES, FailureMode
from .ground_truth import GroundTruth, captions, dimensions, expected_state, target_boxes, target_text
from .render import render
from .scene_generation import SMALL_OBJECT_SCENES, SceneConfig, random_scene
from .scene_graph import Scene
from .scene_requests import SceneRequest, random_request
from .simulated_edits import SimulatedEdit, honest_edit

Split = Literal["train", "validation", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)

_HONEST_SHARE = 0.4  # share of honest edits
_MULTI_TURN_SHARE = 0.15  # share of cases that are a second or third turn
_MAX_TURNS = 3
_GROUP_SIZE = 16
_ATTEMPTS_PER_MODE = 20  # scenes that are tried for a failure mode
_CUMULATIVE_MODES = ("background_drift", "exposure_drift")  # they add up
_DRIFT_STEPS = 9


@dataclass(frozen=True, slots=True)
class Case:
    """An edit whose ground truth is known.

    Args:
        mode: Its failure mode; empty for an honest edit.
        severity: In (0, 1]; 0 for an honest edit.
        is_hack: Whether the mode games a scorer instead of doing the edit.
        before: The visible scenes of the source and of the edited image.
        after: The visible scenes of the source and of the edited image.
        steps_followed: Of a compound instruction, whose task is "compound": which steps were followed.
    """

    sample: EditSample
    truth: GroundTruth
    task: TaskType | Literal["compound"]
    mode: str = ""
    severity: float = 0.0
    is_hack: bool = False
    before: Scene | None = None
    after: Scene | None = None
    steps_followed: tuple[bool, ...] = ()


def cases(
    count: int,
    *,
    seed: int = 0,
    split: Split = "test",
    size: int = 64,
    turns: int | None = None,
    small_share: float = 0.05,
) -> list[Case]:
    """`count` edits: task types in turn, two fifths honest, the others with failure modes in turn.

    Args:
        turns: Every case is the last of a chain of this length; by default three in twenty are a second or third turn,
            the others a first.
        small_share: Share of cases whose targets are below 1 % of the image (at 128 px, whatever the size).
    """
    if turns is not None and not 1 <= turns <= len(TASK_TYPES):
        raise ValueError(f"a chain has 1 to {len(TASK_TYPES)} turns, each of another type, got {turns}")
    edits: list[Case] = []
    for number in range(count):
        rng = seeded_rng(split, seed, "case", number)
        task_type = TASK_TYPES[number % len(TASK_TYPES)]
        modes = [mode for mode in FAILURE_MODES if not mode.task_types or task_type in mode.task_types]
        planned_mode = None if rng.random() < _HONEST_SHARE else modes[(number // len(TASK_TYPES)) % len(modes)]
        draw = rng.random()
        config = SMALL_OBJECT_SCENES if draw < small_share else SceneConfig.for_size(size)
        turn_count = rng.randint(2, _MAX_TURNS) if small_share <= draw < small_share + _MULTI_TURN_SHARE else 1
        edits.append(
            _random_case(rng, f"{split}-{seed}-{number}", config, task_type, planned_mode, turns or turn_count)
        )
    return edits


def _random_case(
    rng: random.Random, name: str, config: SceneConfig, task_type: TaskType, mode: FailureMode | None, turns: int = 1
) -> Case:
    """A case of this task type; in another mode where the requested one is not possible."""
    attempt = 0
    while True:
        edits: list[SimulatedEdit] = []
        scene = random_scene(rng, config)
        for turn in (*rng.sample([one for one in TASK_TYPES if one != task_type], turns - 1), task_type):
            edit = _random_turn(rng, scene, config, turn, mode, of=turns, last=turn == task_type)
            if edit is None:
                break
            edits.append(edit)
            scene = edit.after
        else:
            return case_of(edits, name)
        attempt += 1
        if mode is not None and attempt % _ATTEMPTS_PER_MODE == 0:
            mode = rng.choice(FAILURE_MODES)


def _random_turn(
    rng: random.Random,
    scene: Scene,
    config: SceneConfig,
    task_type: TaskType,
    mode: FailureMode | None,
    *,
    of: int,
    last: bool,
) -> SimulatedEdit | None:
    """One of `of` turns. The last is flawed; of a cumulative mode each turn has its share of the severity.

    None where the scene allows no such turn.
    """
    request = random_request(rng, scene, config, task_type)
    if request is None:
        return None
    if mode is not None and mode.name in _CUMULATIVE_MODES:
        edit = mode.edit(rng, request, scene, config, severity=rng.uniform(mode.min_severity, 1.0) / of)
        return edit if edit is not None or last else honest_edit(rng, request, scene, config)
    if mode is not None and last:
        return mode.edit(rng, request, scene, config)
    return honest_edit(rng, request, scene, config)


def random_scene_request(rng: random.Random, config: SceneConfig, task_type: TaskType) -> tuple[Scene, SceneRequest]:
    """A random scene, and a request of this type about it."""
    while True:
        scene = random_scene(rng, config)
        request = random_request(rng, scene, config, task_type)
        if request is not None:
            return scene, request


def case_of(
    turns: list[SimulatedEdit], name: str, *, extra_sources: tuple[Image, ...] = (), with_annotations: bool = False
) -> Case:
    """The last of these turns as a case. Each turn edits the result of the one before. extra_sources: beside the first.

    Every sample has targets, a target text, a hint and dimensions; the last one also has captions, and the perfect edit
    as its reference. with_annotations: it has the boxes of the base and a mask of what the edit may change too, which
    metrics and experts use instead of detections.
    """
    base = turns[0].before
    pools = Pools(base.names, base.names, base.names)
    samples: list[EditSample] = []
    source = turns[0].source or render(base)
    for number, turn in enumerate(turns, start=1):
        pools = update_pools(pools, turn.request.task, foreground=turn.before.names)
        turn = replace(turn, source=source)
        samples.append(
            EditSample(
                name if number == len(turns) else f"{name}/{number}",
                turn.request.instruction,
                (source, *extra_sources),
                turn.picture,
                task=turn.request.task,
                pools=pools,
                history=tuple(samples),
                targets=target_boxes(turn.request, turn.before),
                target_text=target_text([turn.request]),
                hint=expected_state([turn.request]),
                dimensions=dimensions([turn.request], 1 + len(extra_sources)),
            )
        )
        source = turn.picture
    last = turns[-1]
    ideal = last.request.apply(last.before)
    sample = replace(samples[-1], reference=render(ideal), metadata=captions(last.before, ideal))
    if with_annotations:
        sample = replace(sample, boxes=base.boxes(), mask=_change_mask(last.before, ideal))
    truth = last.truth(*(turn.request for turn in turns[:-1]), base=base)
    is_hack = any(mode.name == last.mode and mode.hack for mode in FAILURE_MODES)
    return Case(
        sample, truth, last.request.task.type, last.mode, last.severity, is_hack, last.before, last.visible_scene
    )


def _change_mask(before: Scene, ideal: Scene) -> Image:
    """White where a perfect edit changes pixels, and one grain around it."""
    import cv2
    import numpy as np

    a, b = render(before, noise=False).pixels.astype(np.int16), render(ideal, noise=False).pixels.astype(np.int16)
    changed = (np.abs(a - b).max(axis=2) > 0).astype(np.uint8)
    wide = cv2.dilate(changed, np.ones((2 * before.grain + 1,) * 2, np.uint8))
    return Image.of(np.repeat(wide[..., None] * np.uint8(255), 3, axis=2))


def drift_series(count: int, *, seed: int = 0, size: int = 64) -> list[list[Case]]:
    """Series of nine copies of one honest edit, whose backdrop drifts further and further from the source's."""
    series: list[list[Case]] = []
    for number in range(count):
        rng = seeded_rng("test", seed, "drift", number)
        task_type = rng.choice([one for one in TASK_TYPES if one != "background_change"])
        scene, request = random_scene_request(rng, SceneConfig.for_size(size), task_type)
        edit = honest_edit(rng, request, scene, SceneConfig.for_size(size))
        drift_seed = rng.randrange(2**31)
        steps = []
        for step in range(_DRIFT_STEPS):
            drift = step / (_DRIFT_STEPS - 1)
            ground = replace(scene.backdrop, drift=drift, drift_seed=drift_seed)
            after = replace(edit.after, backdrop=ground, noise_seed=rng.randrange(2**31))
            flawed = replace(edit, after=after, mode="background_drift" if step else "", severity=drift)
            steps.append(case_of([flawed], f"drift-{seed}-{number}-{step}"))
        series.append(steps)
    return series


def same_truth_groups(count: int, *, seed: int = 0, size: int = 64) -> list[list[Case]]:
    """Groups of 16 edits of one request with the same truth, alternately all followed and all not, no two images
    alike. Task types take turns.
    """
    groups: list[list[Case]] = []
    for number in range(count):
        rng = seeded_rng("test", seed, "crowd", number)
        task_type, good = TASK_TYPES[(number // 2) % len(TASK_TYPES)], number % 2 == 0
        group: list[Case] = []
        while len(group) < _GROUP_SIZE:
            scene, request = random_scene_request(rng, SceneConfig.for_size(size), task_type)
            group = _same_truth_group(rng, scene, request, SceneConfig.for_size(size), good, f"crowd-{seed}-{number}")
        groups.append(group)
    return groups


def _same_truth_group(
    rng: random.Random, scene: Scene, request: SceneRequest, config: SceneConfig, good: bool, name: str
) -> list[Case]:
    group: dict[str, Case] = {}
    for attempt in range(20 * _GROUP_SIZE):
        chosen = None if good and attempt % 2 == 0 else rng.choice(FAILURE_MODES)
        edit = honest_edit(rng, request, scene, config) if chosen is None else chosen.edit(rng, request, scene, config)
        if edit is None or edit.picture == render(scene):
            continue
        case = case_of([edit], f"{name}-{len(group)}")
        if case.truth.followed == good:
            group.setdefault(case.sample.edited.digest, case)
        if len(group) == _GROUP_SIZE:
            break
    return list(group.values())


def seeded_rng(split: Split, seed: int, stream: str, number: int) -> random.Random:
    """An independent generator for each number of each stream: results do not depend on what else is drawn."""
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}: expected one of {', '.join(SPLITS)}")
    return random.Random(f"sceneedit {split} {seed} {stream} {number}")


# -- digest and leaks -------------------------------------------------------------------------------------------------


def dataset_digest(cases: Iterable[Case]) -> str:
    """sha256, hex, over samples, images and truths: equal exactly for equal data sets."""
    sha = hashlib.sha256()
    for case in cases:
        sample, truth = case.sample, case.truth
        row = [sample.id, sample.instruction, sample.group, case.mode, case.severity, case.is_hack]
        row += [image.digest for image in (*sample.sources, sample.edited)]
        row += [truth.followed, truth.objects, truth.background]
        sha.update(json.dumps(row).encode())
    return sha.hexdigest()


def split_leaks(splits: Mapping[str, Collection[Case]]) -> list[str]:
    """Messages on images that two splits share, or scenes that differ only in light, noise and place of the backdrop's
    texture.
    """
    owners: dict[str, tuple[str, str]] = {}
    leaks = []
    for split, members in splits.items():
        for case in members:
            for key in _leak_keys(case):
                owner, first = owners.setdefault(key, (split, case.sample.id))
                if owner != split:
                    leaks.append(f"{case.sample.id} of {split} has an image or scene of {first} in {owner}")
                    break
    return leaks


def _leak_keys(case: Case) -> Iterator[str]:
    for turn in case.sample.turns:
        yield from (image.digest for image in (*turn.sources, turn.edited))
    if case.before is not None:
        objects = sorted((*obj.appearance, round(obj.x, 2), round(obj.y, 2)) for obj in case.before.objects)
        yield json.dumps([case.before.backdrop.kind, objects])
