"""The desk where labels are given: what is asked next, what was said, and what to tell the annotator about it.

Every judgement is on the disk before it is acknowledged, and the same file is all there is to going on.
"""

from __future__ import annotations

import hashlib
import io
import random
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...reward import EditSample, Image
from .checks import Known, alike, checks
from .labels import Answer, Kind, Label, append, plainly, read, standing
from .questions import RECHECKED, TRIAL, About, Asked, Pool, Question, block, key_of, order
from .words import choices, definition_of


class Refused(ValueError):
    """What was sent cannot be taken; the message says why."""


def _now() -> datetime:
    return datetime.now(timezone.utc).replace(microsecond=0)


@dataclass
class _Seat:
    """One annotator's place: what is asked of them, and the labels they have given."""

    plan: list[Asked]
    given: dict[tuple[object, ...], Label]

    def label(self, asked: Asked) -> Label | None:
        return self.given.get(_place(asked))

    @property
    def next(self) -> int | None:
        """The first that is not answered yet."""
        return next((number for number, asked in enumerate(self.plan) if self.label(asked) is None), None)


def _section(asked: Asked) -> tuple[object, ...]:
    """Equal for questions that are counted together: those for practice, or a round of a dimension."""
    return () if asked.phase == "trial" else (asked.question.about, asked.round)


def _place(asked: Asked) -> tuple[object, ...]:
    return (*asked.question.key, asked.phase, asked.round)


@dataclass
class Desk:
    """Annotators, their questions and the file of labels. Safe to use from several threads.

    path: what was said before is read from it. known: answers that are right, for feedback and checks. definitions:
    dimension -> what to look at, over ours. clock: what time a judgement has. Raises `InputError` for a file that holds
    something else.
    """

    pool: Pool
    questions: Sequence[Question]
    path: Path
    known: Known = field(default_factory=dict)
    seed: int = 0
    trial: int = TRIAL
    rechecked: float = RECHECKED
    definitions: Mapping[str, str] = field(default_factory=dict)
    clock: Callable[[], datetime] = _now

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._labels = read([self.path]) if self.path.exists() else []
        self._seats: dict[str, _Seat] = {}
        self._pictures: dict[str, Image] = {}
        self._secret = secrets.token_bytes(16)
        self.path.touch()  # before anybody works, not after it

    @property
    def annotators(self) -> list[str]:
        """Who has said something, in the order they began."""
        return list(dict.fromkeys(label.annotator for label in self._labels if label.phase != "answer"))

    # -- asking -------------------------------------------------------------------------------------------------------

    def shown(self, annotator: str, number: int | None = None) -> dict[str, Any]:
        """What the page shows: the next question, or one that was answered before; what is left once all are.

        Raises `Refused` for a question that is not there yet, and `MissingPicture` and `ImageError`.
        """
        with self._lock:
            seat = self._seat(annotator)
            following = seat.next
            if number is None and following is None:
                return self._finished(annotator, seat)
            at = following if number is None else number
            assert at is not None
            if not 0 <= at < len(seat.plan) or (following is not None and at > following):
                raise Refused(f"there is no question {at} for {annotator} yet: the next is {following}")
            return self._asked(seat, at)

    def _asked(self, seat: _Seat, number: int) -> dict[str, Any]:
        asked = seat.plan[number]
        about = asked.question.about
        samples = [self.pool.sample(editor, name) for editor, name in asked.question.on]
        first = samples[0]
        before = seat.label(asked)
        phase = "trial" if asked.phase == "trial" else "main"  # a recheck looks like any other
        section = [one for one in seat.plan if _section(one) == _section(asked)]
        return {
            "finished": False,
            "number": number,
            "total": len(seat.plan),
            "answered": sum(seat.label(one) is not None for one in seat.plan),
            "block": {"at": section.index(asked) + 1, "of": len(section)},
            "phase": phase,
            "kind": about.kind,
            "dimension": about.dimension,
            "definition": self.definitions.get(about.dimension) or definition_of(about),
            "instruction": "" if about.kind == "boxes" and not first.instruction else first.instruction,
            "hint": first.hint,
            "pictures": self._shown_pictures(asked, samples),
            "size": list(first.source.size),
            "choices": choices(about, self.pool.suite.name),
            "said": None if before is None else _as_shown(before.label, asked, before),
            "note": "" if before is None else before.note,
        }

    def _shown_pictures(self, asked: Asked, samples: Sequence[EditSample]) -> list[dict[str, Any]]:
        sources = samples[0].sources
        names = ["source"] if len(sources) == 1 else [f"source {number}" for number in range(1, len(sources) + 1)]
        shown = list(zip(names, sources, strict=True))
        match asked.question.about.kind:
            case "pair":
                left, right = (samples[1], samples[0]) if asked.swapped else (samples[0], samples[1])
                shown += [("left", left.edited), ("right", right.edited)]
            case "reference":
                reference = samples[0].reference
                assert reference is not None
                shown.append(("reference", reference))
            case "boxes":
                shown = shown[:1]
            case _:
                shown.append(("edited", samples[0].edited))
        return [{"role": role, "key": self._kept(image), "size": list(image.size)} for role, image in shown]

    def _kept(self, image: Image) -> str:
        key = hashlib.blake2b(image.digest.encode(), key=self._secret, digest_size=12).hexdigest()
        self._pictures[key] = image
        return key

    def picture(self, key: str) -> bytes | None:
        """PNG of a picture that was shown; None for any other key. Raises `ImageError`."""
        with self._lock:
            image = self._pictures.get(key)
        if image is None:
            return None
        out = io.BytesIO()
        image.pil().save(out, "PNG", compress_level=1)
        return out.getvalue()

    # -- being told ---------------------------------------------------------------------------------------------------

    def answer(self, annotator: str, number: int, said: Answer, seconds: float, note: str = "") -> dict[str, Any]:
        """Take a judgement: it is on the disk when this returns. Says what is known about it, in the trial.

        said: left, right or tie for a pair; else as in a label. Raises `Refused` for what is no answer, or no question
        that was asked; OSError.
        """
        with self._lock:
            seat = self._seat(annotator)
            following = seat.next
            if not 0 <= number < len(seat.plan) or (following is not None and number > following):
                raise Refused(f"there is no question {number} for {annotator} yet: the next is {following}")
            asked = seat.plan[number]
            label = self._label(annotator, asked, said, seconds, note)
            append(self.path, label)
            self._labels.append(label)
            seat.given[_place(asked)] = label
            return {"saved": True, "feedback": self._feedback(asked, label) if asked.phase == "trial" else None}

    def _label(self, annotator: str, asked: Asked, said: Answer, seconds: float, note: str) -> Label:
        about, on = asked.question.about, asked.question.on
        two = len(on) == 2
        if two:
            sides = {"left": "B" if asked.swapped else "A", "right": "A" if asked.swapped else "B", "tie": "tie"}
            if said not in sides:
                raise Refused(f"a pair is left, right or tie, got {said!r}")
            said = sides[str(said)]
        if isinstance(said, tuple):
            width, height = self.pool.sample(*on[0]).source.size
            if any(x1 > width or y1 > height for _, _, x1, y1 in said):
                raise Refused(f"a box lies outside of its {width} x {height} picture")
        try:
            return Label(
                kind=about.kind,
                id=(on[0][1], on[1][1]) if two else on[0][1],
                editor=(on[0][0], on[1][0]) if two else on[0][0],
                dimension=about.dimension,
                label=said,
                annotator=annotator,
                time=self.clock(),
                seconds=round(seconds, 1),
                swapped=asked.swapped and two,
                note=note,
                phase=asked.phase,
                round=asked.round,
            )
        except ValidationError as error:
            raise Refused(plainly(error)) from None

    def _feedback(self, asked: Asked, label: Label) -> dict[str, Any]:
        """What others say of a question of the trial: the known answer, else what most people have said."""
        key = asked.question.key
        right = self.known.get(key)
        if right is not None:
            return {
                "right": alike(right, label),
                "known": _as_shown(right.label, asked, right),
                "note": right.note,
                "by": "known",
            }
        others = [one for one in self._labels if key_of(one) == key and one.annotator != label.annotator]
        said = Counter(str(_as_shown(one.label, asked, one)) for one in standing(others) if one.kind != "boxes")
        if not said:
            return {"right": None, "known": None, "note": "", "by": "nobody"}
        most, _ = said.most_common(1)[0]
        return {"right": str(_as_shown(label.label, asked, label)) == most, "known": most, "note": "", "by": "people"}

    # -- a dimension anew ---------------------------------------------------------------------------------------------

    def again(self, annotator: str, kind: Kind, dimension: str) -> dict[str, Any]:
        """Ask a dimension anew, all of it. Raises `Refused` before its last round is over."""
        with self._lock:
            seat = self._seat(annotator)
            about = About(kind, dimension)
            last = [one for one in seat.plan if one.phase != "trial" and one.question.about == about]
            if not last:
                raise Refused(f"nothing is asked about {dimension} ({kind})")
            if any(seat.label(one) is None for one in last):
                raise Refused(f"{dimension} is not judged to its end yet: go on first")
            seat.plan += self._round(annotator, about, last, max(one.round for one in last) + 1)
            return {"round": seat.plan[-1].round}

    def _round(self, annotator: str, about: About, last: Sequence[Asked], number: int) -> list[Asked]:
        questions = list(dict.fromkeys(one.question for one in last))
        chance = random.Random(f"{self.seed} {annotator} {about.kind} {about.dimension} {number}")
        return block(questions, chance, self.rechecked, frozenset(self.known), number)

    # -- where somebody is --------------------------------------------------------------------------------------------

    def _seat(self, annotator: str) -> _Seat:
        if annotator not in self._seats:
            ours = [one for one in self._labels if one.annotator == annotator and one.phase != "answer"]
            known = frozenset(self.known)
            plan = order(
                self.questions, annotator, seed=self.seed, trial=self.trial, rechecked=self.rechecked, known=known
            )
            for about in dict.fromkeys(one.question.about for one in plan):
                last = [one for one in plan if one.phase != "trial" and one.question.about == about]
                rounds = [one.round for one in ours if (one.kind, one.dimension) == (about.kind, about.dimension)]
                for number in range(2, max(rounds, default=1) + 1):
                    plan += self._round(annotator, about, last, number)
            given = {(*key_of(one), one.phase, one.round): one for one in ours}
            self._seats[annotator] = _Seat(plan, given)
        return self._seats[annotator]

    def _finished(self, annotator: str, seat: _Seat) -> dict[str, Any]:
        ours = [one for one in self._labels if one.annotator == annotator]
        found = checks(ours, self.known)
        return {
            "finished": True,
            "total": len(seat.plan),
            "answered": len(seat.plan),
            "checks": [{**one.to_json(), "said": str(one)} for one in found],
        }


def _as_shown(said: Answer, asked: Asked, label: Label) -> Any:
    """What was said of a pair, in sides as this question shows them."""
    if label.kind != "pair":
        return said
    if said == "tie":
        return "tie"
    first = (said == "A") == (label.on == asked.question.on)  # whether the first of this question is the better one
    return "left" if first != asked.swapped else "right"
