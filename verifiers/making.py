"""How a run makes pictures: in batches that the editor can take, each once, and none lost to another's failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ..reward import EditSample, Image
from .budget import Cost
from .candidate import Look
from .editor import Draft, Editor, EditorFailed, Noise, StepwiseEditor
from .journal import Journal
from .scoring import digest

T = TypeVar("T")

_HOPELESS = 3  # pictures in a row, each asked for alone, after which an editor that has made none is given up


@dataclass(frozen=True, slots=True)
class Want:
    """A candidate that is to be made.

    asked: what the editor is told (instruction, sources, earlier turns). judged: what the reward is told; the picture
    is put into it. Both are samples whose `edited` is of no account, as `unedited` makes them.
    """

    id: str
    asked: EditSample
    judged: EditSample
    noise: Noise
    step: int = 1
    parent: str = ""

    def with_picture(self, picture: Image) -> EditSample:
        """The sample as the reward sees it."""
        return replace(self.judged, id=f"{self.judged.id}/{self.id}", group=self.judged.group, edited=picture)


@dataclass(frozen=True, slots=True)
class Staged:
    """A candidate on its way: `step` evaluations are done (counted from the start of the denoising), and paid by
    `cost`. problem: why the editor failed, where it did.
    """

    want: Want
    step: int = 0
    cost: Cost = field(default_factory=Cost)
    looks: tuple[Look, ...] = ()
    problem: str = ""

    @property
    def value(self) -> float | None:
        """What its last preview was worth; None without one, or where it has no value."""
        return self.looks[-1].score.value if self.looks and not self.problem else None


@dataclass(frozen=True, slots=True)
class Made:
    """A picture, or the problem of the editor; what it took, and whether the journal had it."""

    picture: Image | None
    cost: Cost
    problem: str = ""
    known: bool = False


class Maker:
    """An editor and a journal. pay: told of each cost as it comes up, and whether it was known already."""

    def __init__(self, editor: Editor, journal: Journal, pay: Callable[[Cost, bool], None]) -> None:
        self.editor = editor
        self.journal = journal
        self._pay = pay
        self._has_made = False
        self._in_vain = 0

    def whole(self, wants: Sequence[Want]) -> list[Made]:
        """Their pictures, finished."""
        keys = [self._key(want, self.editor.evaluations) for want in wants]
        plain = [number for number, want in enumerate(wants) if want.noise.parent is None]
        found = self._all(keys, plain, lambda numbers: self._edit([wants[n] for n in numbers]), self.editor.evaluations)
        other = [number for number in range(len(wants)) if number not in found]
        if other:
            self.needs_steps()
        for start in sorted({wants[number].noise.start for number in other}):
            part = [number for number in other if wants[number].noise.start == start]
            staged = [Staged(wants[number], start) for number in part]
            found |= dict(zip(part, self.advanced(staged, self.editor.evaluations), strict=True))
        return [found[number] for number in range(len(wants))]

    def needs_steps(self) -> None:
        """Raise TypeError for an editor that cannot stop half-way."""
        if not isinstance(self.editor, StepwiseEditor):
            raise TypeError(f"{self.editor.id} cannot stop half-way: use a selector that makes whole pictures")

    def _edit(self, wants: Sequence[Want]) -> list[tuple[Image, Any]]:
        pictures = self.editor.edit(
            [want.asked.sources for want in wants],
            [want.asked.instruction for want in wants],
            [want.noise.seed for want in wants],
            history=[want.asked.earlier for want in wants],
        )
        return [(picture, None) for picture in _as_many(pictures, wants, self.editor)]

    def advanced(self, staged: Sequence[Staged], until: int) -> list[Made]:
        """What these, all at one step, are expected to become at step `until`."""
        keys = [self._key(one.want, until) for one in staged]
        found = self._all(
            keys, range(len(staged)), lambda numbers: self._drafts([staged[n] for n in numbers], until),
            until - staged[0].step,
        )  # fmt: skip
        return [found[number] for number in range(len(staged))]

    def _drafts(self, staged: Sequence[Staged], until: int) -> list[tuple[Image, Any]]:
        assert isinstance(self.editor, StepwiseEditor)
        drafts = [self._draft(one.want, one.step) for one in staged]
        advanced = _as_many(self.editor.advance(drafts, until), staged, self.editor)
        return [(picture, draft.arrays if until < self.editor.evaluations else None) for draft, picture in advanced]

    def _draft(self, want: Want, step: int) -> Draft:
        """The draft at a step it has been at. What a journal has lost is made again, and not charged again."""
        assert isinstance(self.editor, StepwiseEditor)
        asked, noise = want.asked, want.noise
        arrays = self.journal.draft(self._key(want, step))
        if arrays is not None:
            return Draft(asked.sources, asked.instruction, noise, step, arrays, asked.earlier)
        if noise.parent is not None and not noise.radius:
            parent = self._draft(replace(want, noise=noise.parent), noise.seen)
            draft = self.editor.back([parent], noise.back, [noise.seed])[0]
        else:
            draft = self.editor.begin([asked.sources], [asked.instruction], [noise], history=[asked.earlier])[0]
        if draft.step < step:
            draft = self.editor.advance([draft], step)[0][0]
        return draft

    def _all(
        self,
        keys: Sequence[str],
        numbers: Sequence[int],
        make: Callable[[Sequence[int]], list[tuple[Image, Any]]],
        evaluations: int,
    ) -> dict[int, Made]:
        """Those of `numbers`, by number: known, or made and kept, or failed."""
        found: dict[int, Made] = {}
        for number in numbers:
            known = self.journal.made(keys[number])
            if known is not None:  # perhaps made in other pieces, by another selector: charged as it would be here
                cost = Cost(evaluations, 0, known[1].seconds)
                found[number] = Made(known[0], cost, known=True)
                self._pay(cost, True)
                self._has_made = True
        waiting = [[number for number in numbers if number not in found]]
        while waiting:
            part = waiting.pop()
            if not part:
                continue
            began = time.perf_counter()
            try:
                made = make(part)
            except Exception as error:  # the editor is somebody else's: whatever it raises is a failed candidate
                if len(part) > 1:  # one picture may have spoilt the batch, or it was too large
                    half = len(part) // 2
                    waiting += [part[half:], part[:half]]
                    continue
                problem = f"the editor failed: {type(error).__name__}: {error}"
                found[part[0]] = Made(None, Cost(evaluations, 0, time.perf_counter() - began), problem)
                self._pay(found[part[0]].cost, False)
                self._in_vain += 1
                if not self._has_made and self._in_vain >= _HOPELESS:
                    raise EditorFailed(problem) from error
                continue
            self._has_made = True
            each = Cost(evaluations, 0, (time.perf_counter() - began) / len(part))
            for number, (picture, arrays) in zip(part, made, strict=True):
                self.journal.keep_made(keys[number], picture, each, arrays)
                found[number] = Made(picture, each)
                self._pay(each, False)
        return found

    def _key(self, want: Want, step: int) -> str:
        asked = want.asked
        earlier = [
            [turn.instruction, turn.edited.digest, [one.digest for one in turn.sources]] for turn in asked.earlier
        ]
        sources = [image.digest for image in asked.sources]
        return digest(["made", self.editor.id, sources, asked.instruction, earlier, want.noise.describe(), step])


def _as_many(made: Sequence[T], asked: Sequence[Any], editor: Editor) -> Sequence[T]:
    if len(made) != len(asked):
        raise ValueError(f"{editor.id} was asked for {len(asked)} pictures and made {len(made)}")
    return made
