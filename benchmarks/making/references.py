"""DLEBench, step 2: the picture as it would be after a perfect edit, made by editing what is around the target alone.

The crop has as much of its surroundings as Eq. 1 says; an editor edits it, a judge looks at it, and it is pasted back.
Paper: section 3.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...reward import Asks, Box, EditSample, Engine, Expert, Image, Score, gather
from ...reward.dlebench.consistency import VisualConsistency
from ...reward.dlebench.crops import around, pixels_of
from ...reward.dlebench.following import SmallObjectFollowing
from ...reward.image import Corners
from ...verifiers import Editor, EditorFailed, Journal, Noise, Want, unedited
from ...verifiers.making import Maker
from .asking import TRIES, Notes

STAGE = "dlebench/reference"


@dataclass
class Wanted:
    """A reference that is to be made. round: 1, and one more each time that people turn one down. picture: so far."""

    id: str
    instruction: str
    boxes: tuple[Corners, ...]
    round: int
    picture: Image
    notes: Notes
    target: int = 0
    attempt: int = 0
    failed: str = ""
    given_up: bool = False

    @property
    def open(self) -> bool:
        """Whether there is more to do for it."""
        return self.target < len(self.boxes) and not self.failed and not self.given_up

    @property
    def crop(self) -> Corners:
        """What the editor is given of the picture now."""
        return around(self.boxes[self.target], self.picture.size)


@dataclass(frozen=True)
class Retoucher:
    """Makes references: an editor, and a judge with the metrics that accept what it makes.

    An edit is accepted with the best label of both, in the mode without tools, on the crops. Each target has three
    tries.
    """

    editor: Editor
    experts: dict[str, Expert]
    engine: Engine
    journal: Journal
    seed: int = 0

    def all(self, wanted: Sequence[Wanted]) -> Iterator[Wanted]:
        """Each as it ends, in their order; as many at a time as the editor takes."""
        maker = Maker(self.editor, self.journal, lambda cost, known: None)  # there is no budget to pay from
        size = max(1, self.editor.batch)
        for start in range(0, len(wanted), size):
            group = wanted[start : start + size]
            while working := [one for one in group if one.open]:
                try:
                    self._once(maker, working)
                except EditorFailed as error:
                    for one in working:
                        one.failed = str(error)
            yield from group

    def _once(self, maker: Maker, working: Sequence[Wanted]) -> None:
        """One try at the target that each is at."""
        crops = [one.picture.crop(*one.crop) for one in working]
        wants = []
        for one, crop in zip(working, crops, strict=True):
            sample = unedited(one.instruction, crop, id=one.id)
            seed = self.seed + (one.round - 1) * TRIES + one.attempt
            wants.append(Want(f"{one.target}/{one.round}/{one.attempt}", sample, sample, Noise(seed)))
        made = maker.whole(wants)
        judged: list[tuple[Wanted, Image, Image]] = []
        for one, crop, found in zip(working, crops, made, strict=True):
            if found.picture is None:  # no verdict on the edit: it is asked for again another time
                one.failed = found.problem
            else:
                judged.append((one, crop, found.picture.resized(*crop.size)))
        programs = ((_verdict(one.instruction, crop, edited), None) for one, crop, edited in judged)
        for (one, _, edited), score in zip(judged, self.engine.run(programs, self.experts), strict=True):
            if score.status != "scored":
                one.failed = score.reason
            elif score.value == 1.0:
                one.picture = pasted(one.picture, edited, one.crop)
                one.target, one.attempt = one.target + 1, 0
            else:
                self._again(one, score.reason)

    def _again(self, one: Wanted, reason: str) -> None:
        one.notes.note(STAGE, f"target {one.target + 1}: {reason}", one.attempt)
        one.attempt += 1
        if one.attempt == TRIES:
            one.given_up = True
            one.notes.note("given up", f"no reference in {TRIES} tries at target {one.target + 1}; the last: {reason}")


def _verdict(instruction: str, crop: Image, edited: Image) -> Asks[Score]:
    """1.0 where both metrics give their best label; the labels are the reason."""
    sample = EditSample("crop", instruction, (crop,), edited)
    parts = yield from gather([SmallObjectFollowing(mode="plain")(sample), VisualConsistency(mode="plain")(sample)])
    unclear = next((part for part in parts if part.status != "scored"), None)
    if unclear is not None:
        return unclear
    return Score.of(min(part.value or 0.0 for part in parts), "; ".join(part.reason for part in parts))


def pasted(picture: Image, part: Image, corners: Corners) -> Image:
    """The picture with a part of it replaced."""
    x0, y0, x1, y1 = corners
    pixels = np.array(picture.pixels)
    pixels[y0:y1, x0:x1] = part.pixels
    return Image.of(pixels)


def corners_of(boxes: Sequence[Box], size: tuple[int, int]) -> tuple[Corners, ...]:
    """Boxes as pixels of the picture. Raises ValueError for one outside of it."""
    found = [pixels_of(box, size) for box in boxes]
    if None in found:
        raise ValueError(f"box {found.index(None) + 1} lies outside of the picture")
    return tuple(one for one in found if one is not None)
