"""An edit of a photograph by a real editor, with what a reader says of it, and the place that it was to change.

The project's own set has addresses, hashes and labels; pictures and sentences are read from clones. A row of
`edits.jsonl` has `id`, `group`, `base`, `repo`, `commit`, `source` and `edited` (`path`, `sha256` of the file, `crop`:
a rectangle or null), `instruction` (`path`, `start`, `end` in bytes, `sha256` of the sentence; or `text`, where it is
ours), `editor`, `operation`, `half`, and `labels`: `followed`, `preserved`, `place`, `boxes` (in pixels of the cropped
source, by name), `target` (names) and `note`. Some have `second`: the first three labels as another reader says.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, get_args

import cv2
import numpy as np
from numpy.typing import NDArray

from editcritic.benchmarks.common.errors import InputError
from editcritic.reward import Box, EditSample, Image, ImageError
from editcritic.reward.regular_files import read_regular
from studies.preservation.photographs import photograph

Operation = Literal["removal", "recolour", "replacement", "addition", "text", "material", "other"]
Followed = Literal["yes", "partly", "no"]
Preserved = Literal["yes", "minor drift", "damaged"]
State = Literal["clean", "traces", "broken"]
Half = Literal["development", "held-back"]

OPERATIONS: tuple[Operation, ...] = get_args(Operation)
FOLLOWED: tuple[Followed, ...] = get_args(Followed)
PRESERVED: tuple[Preserved, ...] = get_args(Preserved)
STATES: tuple[State, ...] = get_args(State)
HALVES: tuple[Half, ...] = get_args(Half)

Labels = tuple[Followed, Preserved, State]
"""What a reader says of an edit."""

Corners = tuple[int, int, int, int]
"""Left, upper, right and lower edge in pixels; right and lower ones are outside."""


@dataclass(frozen=True)
class RealEdit:
    """One edit and its labels.

    group: edits of one source by one instruction. base: the photograph that sources come from. followed, preserved (all
    but the target), place (artefacts where the change was to be): the reader's; None where nothing is said. boxes: by
    name, in pixels of the source. target: the names of those that are to change. second: what another reader says, who
    saw a few.
    """

    id: str
    group: str
    base: str
    instruction: str
    source: Image
    edited: Image
    operation: Operation
    followed: Followed | None
    preserved: Preserved | None
    place: State | None = None
    boxes: Mapping[str, Sequence[Corners]] = field(default_factory=dict)
    target: Sequence[str] = ()
    editor: str = ""
    half: Half | None = None
    second: Labels | None = None

    @property
    def is_good(self) -> bool | None:
        """Followed, the rest not damaged and the place not broken; False: not followed, or one of these. None: between
        the two, or without labels."""
        if self.followed is None:
            return None
        if self.followed == "no" or self.preserved == "damaged" or self.place == "broken":
            return False
        return True if self.followed == "yes" else None

    @property
    def is_kept(self) -> bool | None:
        """As `is_good`, whatever the place looks like."""
        return replace(self, place=None).is_good

    @cached_property
    def target_boxes(self) -> list[Corners]:
        """The boxes of what is to change, as corners within the source."""
        width, height = self.source.size
        inside = [
            (max(0, x0), max(0, y0), min(width, x1), min(height, y1))
            for name in self.target
            for x0, y0, x1, y1 in self.boxes.get(name, ())
        ]
        return [box for box in inside if box[0] < box[2] and box[1] < box[3]]

    def sample(self, edited: Image | None = None, name: str = "", *, boxed: bool = True) -> EditSample:
        """What a reward gets: the edit, or another picture under a name of its own.

        boxed: with the boxes. Those of an addition's target are the reader's: nothing is there in the source yet.
        """
        given = {
            name: tuple(Box.from_corners(*corners, self.source.size) for corners in boxes)
            for name, boxes in self.boxes.items()
            if boxed and not (self.operation == "addition" and name in self.target)
        }
        shown = self.edited if edited is None else edited
        return EditSample(
            f"{self.id}/{name}" if name else self.id, self.instruction, (self.source,), shown, boxes=given
        )


Plane = NDArray[np.float32]
"""H x W x 3, grey levels 0 to 255."""

Mask = NDArray[np.float32]
"""H x W, in [0, 1]."""

_CHANGED = 24.0  # grey levels, after smoothing, from which on an editor has changed a pixel
_LEAST_OBJECT = 0.05  # of the boxes: an object that changed less of them is not found, and an ellipse stands for it
_MOST_PLACES = 4
_QUOTED = re.compile(r"[\"“”«»]([^\"“”«»]+)[\"“”«»]|(?<!\w)['\u2018]([^'\u2018\u2019]+)['\u2019](?!\w)")
_OTHER_PHOTOGRAPHS = ("skimage/chelsea.png", "skimage/coffee.png", "skimage/rocket.jpg", "skimage/motorcycle_left.png")


@dataclass(frozen=True)
class Place:
    """A source with boxes, and an honest edit of it.

    source: H x W x 3. honest: of the same size, or None. boxes: within the source, each at least 2 px wide and high.
    text: what an edit is to write.
    """

    source: Plane
    honest: Plane | None
    boxes: Sequence[Corners]
    text: str = ""

    @staticmethod
    def of(edit: RealEdit) -> Place | None:
        """The place of an edit that is taken to be honest. Without boxes of the target, it is where the edit differs
        most from its source. None where there is no such place, or none of at least 2 px."""
        source = np.asarray(edit.source.pixels, np.float32)
        honest = np.asarray(edit.edited.resized(*edit.source.size).pixels, np.float32)
        boxes = edit.target_boxes or _changed_boxes(source, honest)
        boxes = [box for box in boxes if box[2] - box[0] >= 2 and box[3] - box[1] >= 2]
        quoted = [first or second for first, second in _QUOTED.findall(edit.instruction)]
        return Place(source, honest, boxes, quoted[-1] if quoted else "TEXT") if boxes else None

    @cached_property
    def inside(self) -> NDArray[np.bool_]:
        """H x W: the insides of the boxes."""
        area = np.zeros(self.source.shape[:2], bool)
        for x0, y0, x1, y1 in self.boxes:
            area[y0:y1, x0:x1] = True
        return area

    @cached_property
    def object(self) -> Mask:
        """H x W: what the honest edit changed inside of the boxes; ellipses where that is next to nothing."""
        if self.honest is not None:
            changed = _difference(self.source, self.honest) > _CHANGED
            kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (5, 5))
            closed = cv2.morphologyEx(changed.astype(np.uint8), cv2.MORPH_CLOSE, kernel) > 0
            found = closed & self.inside
            if found.sum() >= _LEAST_OBJECT * self.inside.sum():
                return np.asarray(cv2.GaussianBlur(found.astype(np.float32), (0, 0), 1.0), np.float32)
        area = np.zeros(self.source.shape[:2], np.float32)
        for x0, y0, x1, y1 in self.boxes:
            centre, axes = ((x0 + x1) // 2, (y0 + y1) // 2), (max(1, (x1 - x0) // 2), max(1, (y1 - y0) // 2))
            cv2.ellipse(area, centre, axes, 0, 0, 360, 1.0, -1)
        return area

    @cached_property
    def new_colour(self) -> NDArray[np.float32]:
        """(3,): the mean colour of what the honest edit made of the object, weighed by how much it changed it; of the
        source without one."""
        shown = self.source if self.honest is None else self.honest
        weight = (self.object * self.inside * (1 + _difference(self.source, shown)))[..., None]
        return np.asarray((shown * weight).sum((0, 1)) / max(1e-6, float(weight.sum())), np.float32)

    def ring(self, box: Corners) -> NDArray[np.float32]:
        """N x 3: the pixels around a box that are in no box; all of the source where there are none."""
        x0, y0, x1, y1 = box
        by = max(3, round(0.08 * min(x1 - x0, y1 - y0)))
        near = np.zeros(self.source.shape[:2], bool)
        near[max(0, y0 - by) : y1 + by, max(0, x0 - by) : x1 + by] = True
        near[y0:y1, x0:x1] = False
        outside = near & ~self.inside
        return np.asarray(self.source[outside] if outside.any() else self.source.reshape(-1, 3), np.float32)

    def grain(self, box: Corners) -> float:
        """Strength of the finest detail around a box, in grey levels: a standard deviation."""
        x0, y0, x1, y1 = box
        by = max(6, round(0.15 * min(x1 - x0, y1 - y0)))
        top, left = max(0, y0 - by), max(0, x0 - by)
        near = self.source[top : y1 + by, left : x1 + by]
        fine = (near - cv2.GaussianBlur(near, (0, 0), 1.2)).mean(axis=2)
        outside = ~self.inside[top : y1 + by, left : x1 + by]
        return 1.48 * float(np.median(np.abs(fine[outside]))) if outside.any() else 2.0

    def sides(self, box: Corners) -> tuple[Plane, Plane, Plane, Plane]:
        """What lies along the upper, lower (w x 3), left and right (h x 3) side of a box, just outside of it.

        A side at the border of the picture has what lies opposite; a box over the whole height or width the mean of
        the picture.
        """
        height, width = self.source.shape[:2]
        x0, y0, x1, y1 = box
        above = self.source[max(0, y0 - 3) : y0, x0:x1].mean(axis=0) if y0 else None
        below = self.source[y1 : y1 + 3, x0:x1].mean(axis=0) if y1 < height else None
        before = self.source[y0:y1, max(0, x0 - 3) : x0].mean(axis=1) if x0 else None
        after = self.source[y0:y1, x1 : x1 + 3].mean(axis=1) if x1 < width else None
        mean = self.ring(box).mean(axis=0)
        rows, columns = np.tile(mean, (x1 - x0, 1)), np.tile(mean, (y1 - y0, 1))
        return (*_either(above, below, rows), *_either(before, after, columns))


def other_photograph(number: int) -> Plane:
    """A photograph that has nothing to do with any edit, one of four. Needs the extra `bench`."""
    return np.asarray(photograph(_OTHER_PHOTOGRAPHS[number % len(_OTHER_PHOTOGRAPHS)]), np.float32)


def as_image(plane: Plane) -> Image:
    """Rounded to whole grey levels."""
    return Image.of(np.clip(np.rint(plane), 0, 255).astype(np.uint8))


def _either(first: Plane | None, second: Plane | None, neither: Plane) -> tuple[Plane, Plane]:
    one = first if first is not None else second if second is not None else neither
    return one, (second if second is not None else one)


def _difference(source: Plane, honest: Plane) -> NDArray[np.float32]:
    """H x W: of the channel that differs most, after a 3 x 3 mean."""
    return np.asarray(np.abs(cv2.blur(source, (3, 3)) - cv2.blur(honest, (3, 3))).max(axis=2), np.float32)


def _changed_boxes(source: Plane, honest: Plane) -> list[Corners]:
    """Around the largest areas that differ: those of at least a third of the largest one."""
    changed = (_difference(source, honest) > _CHANGED).astype(np.uint8)
    side = max(3, round(0.02 * max(source.shape[:2])) | 1)
    opened = cv2.morphologyEx(changed, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    merged = cv2.dilate(opened, np.ones((side, side), np.uint8))
    _, _, stats, _ = cv2.connectedComponentsWithStats(merged)
    areas = sorted(stats[1:], key=lambda row: -int(row[4]))[:_MOST_PLACES]
    kept = [row for row in areas if row[4] * 3 >= areas[0][4]]
    return [(int(x), int(y), int(x + w), int(y + h)) for x, y, w, h, _ in kept]


MAX_BYTES = 64 * 2**20
"""Of one file."""

_ENVIRONMENT = {"GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
"""Nothing is fetched: what is missing is said."""
_LFS = b"version https://git-lfs.github.com/spec/"


@dataclass(frozen=True)
class Clones:
    """A folder of clones, bare or with a work tree, as `owner+name` or `owner/name`; also with `.git`, or with the
    repository in a folder `repo` of it."""

    folder: Path
    _read: dict[tuple[str, str, str], bytes] = field(default_factory=dict)

    def read(self, repo: str, commit: str, path: str, digest: str = "") -> bytes:
        """A file's bytes: of that commit, or else of the current one, or of the work tree.

        digest: their SHA-256, hex; without one, who reads them checks what it takes from them. Raises `InputError` with
        the command that makes the clone where there is none or it lacks the file, and where all has other bytes.
        """
        key = (repo, path, digest)
        if key not in self._read:
            self._read[key] = self._found(repo, commit, path, digest)
        return self._read[key]

    def _found(self, repo: str, commit: str, path: str, digest: str) -> bytes:
        clone = self._clone(repo, commit)
        found = [_blob(clone, f"{commit}:{path}")]
        if digest:
            found.append(_blob(clone, f"HEAD:{path}"))
        if not (clone / "HEAD").is_file():  # it is not bare
            found.append(_of_work_tree(clone, path))
        known = [data for data in found if data is not None]
        for data in known:
            if not digest or sha256(data).hexdigest() == digest:
                return data
        if not known:
            raise InputError(f"{clone} has no {path} at {commit}: {self._command(repo, commit)}")
        pointer = " (a pointer of Git LFS: `git lfs pull` in the clone)" if known[0].startswith(_LFS) else ""
        raise InputError(f"{path} of {repo} at {commit} has other bytes than expected{pointer}")

    def _clone(self, repo: str, commit: str) -> Path:
        for place in (repo.replace("/", "+"), repo):
            for clone in (self.folder / f"{place}{end}" for end in ("", "/repo", ".git", ".git/repo")):
                if (clone / "HEAD").is_file() or (clone / ".git").exists():
                    return clone
        raise InputError(f"{self.folder} has no clone of {repo}: {self._command(repo, commit)}")

    def _command(self, repo: str, commit: str) -> str:
        place = self.folder / repo.replace("/", "+")
        return (
            f"git init -q {place} && git -C {place} fetch --depth 1 https://github.com/{repo} {commit} && "
            f"git -C {place} checkout -q {commit}"
        )


def _of_work_tree(clone: Path, path: str) -> bytes | None:
    try:
        return read_regular(clone / path, MAX_BYTES, inside=clone)
    except OSError:
        return None


def _blob(clone: Path, name: str) -> bytes | None:
    """The file of a name like `commit:path`; None where there is none, or one above `MAX_BYTES`."""
    header = _git(clone, ["cat-file", "--batch-check"], name).split()
    if len(header) != 3 or header[1] != b"blob" or int(header[2]) > MAX_BYTES:
        return None
    return _git(clone, ["cat-file", "blob", header[0].decode("ascii")])


def _git(clone: Path, arguments: Sequence[str], line: str = "") -> bytes:
    """What git writes; nothing where it fails. The clone may belong to somebody else: nothing of it is run."""
    command = ["git", "-C", str(clone), "-c", "safe.directory=*", "-c", "core.fsmonitor=false", *arguments]
    environment = {**os.environ, **_ENVIRONMENT}
    done = subprocess.run(command, input=f"{line}\n".encode(), capture_output=True, check=False, env=environment)
    return done.stdout if done.returncode == 0 else b""


ROWS = Path(__file__).with_name("edits.jsonl")
_QUOTES = "\"'`\u2018\u2019\u201c\u201d "


def repository_rows() -> list[dict[str, Any]]:
    """All rows of the set."""
    return [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]


def read_edit(row: Mapping[str, Any], clones: Clones) -> RealEdit:
    """The edit of a row with its pictures and its sentence. Raises `InputError` as `Clones.read`, for a picture that is
    none, and for a sentence that is another one."""
    labels, second = row["labels"], row.get("second")
    try:
        source, edited = (_picture(row, row[side], clones) for side in ("source", "edited"))
    except ImageError as error:
        raise InputError(f"{row['id']}: {error}") from None
    return RealEdit(
        **{name: row[name] for name in ("id", "group", "base", "editor", "operation", "half")},
        **{name: labels[name] for name in ("followed", "preserved", "place")},
        instruction=_sentence(row, clones),
        source=source,
        edited=edited,
        boxes={name: tuple(map(tuple, boxes)) for name, boxes in (labels["boxes"] or {}).items()},
        target=tuple(labels["target"] or ()),
        second=second and (second["followed"], second["preserved"], second["place"]),
    )


def _picture(row: Mapping[str, Any], file: Mapping[str, Any], clones: Clones) -> Image:
    image = Image.from_encoded(clones.read(row["repo"], row["commit"], file["path"], file["sha256"]))
    return image if file.get("crop") is None else image.crop(*file["crop"])


def _sentence(row: Mapping[str, Any], clones: Clones) -> str:
    at = row["instruction"]
    if "text" in at:
        return str(at["text"])
    data = clones.read(row["repo"], row["commit"], at["path"])[at["start"] : at["end"]]
    try:
        sentence = sentence_of(data)
    except ValueError:
        sentence = ""
    if sha256(sentence.encode()).hexdigest() != at["sha256"]:
        raise InputError(f"{row['id']}: bytes {at['start']} to {at['end']} of {at['path']} are another sentence")
    return sentence


def sentence_of(data: bytes) -> str:
    """The sentence that bytes of a text file hold, without spaces and quotes around it, without escapes of JSON and
    HTML. Raises ValueError for what is no text."""
    text = data.decode("utf-8").strip().strip(_QUOTES)
    if "\\" in text:
        text = json.loads(f'"{text}"')
    return html.unescape(text).strip().strip(_QUOTES)
