"""An editor made of numpy whose pictures carry how good they are, and the reward that reads it off them.

The only fakes of these tests: the editor, and the expert that looks (`Fake` of `tests/reward`).
"""

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from editcritic.reward import Asks, Card, EditSample, Image, Measured, Rate, Reward, Score, ask_each
from editcritic.verifiers import Draft, Noise, unedited

from ..reward.fakes import Fake

Images = Sequence[tuple[Image, ...]]
History = Sequence[tuple[EditSample, ...]] | None
Vector = NDArray[np.float32]

QUALITIES = ("following", "consistency", "second")
"""What a picture can be read for, each uniform in [0, 1] over seeds; the first one is what it is worth."""


def read(picture: Image, quality: str = "following") -> float:
    """How good it is, of its first pixels, to 16 bits."""
    high, low, _ = picture.pixels[0, QUALITIES.index(quality)]
    return (256 * int(high) + int(low)) / 65535


@dataclass
class Painter:
    """Paints 8 x 8 pictures of (sources, instruction, earlier turns, noise, step); a stepwise editor.

    `near` noise makes a picture of nearly the same worth, `back` the nearer the later it goes back to, and a preview
    is the nearer the picture the later it is. levels: how many worths there are (many candidates tie where there are
    few). heeds: word -> how much better pictures are whose instruction has it, in standard deviations.

    Fails for `bad_seeds`, in calls with a number in `bad_calls` (from 1), for more than `most` pictures at once, and
    always when `broken`. calls: how many pictures each call asked for. evaluated: evaluations of pictures that were
    made. asked: the (instruction, seed) of each picture that was begun, in order.
    """

    evaluations: int = 8
    batch: int = 4
    levels: int = 65536
    heeds: Mapping[str, float] = field(default_factory=dict)
    bad_seeds: Collection[int] = ()
    bad_calls: Collection[int] = ()
    most: int = 1_000_000
    broken: bool = False
    calls: list[int] = field(default_factory=list)
    evaluated: int = 0
    asked: list[tuple[str, int]] = field(default_factory=list)

    @property
    def id(self) -> str:
        return f"painter {self.evaluations} {self.levels} {sorted(self.heeds.items())}"

    def edit(
        self, images: Images, instructions: Sequence[str], seeds: Sequence[int], *, history: History = None
    ) -> list[Image]:
        begun = self.begin(images, instructions, [Noise(seed) for seed in seeds], history=history)
        return [picture for _, picture in self.advance(begun, self.evaluations)]

    def begin(
        self, images: Images, instructions: Sequence[str], noises: Sequence[Noise], *, history: History = None
    ) -> list[Draft]:
        earlier: Sequence[tuple[EditSample, ...]] = history or [()] * len(images)
        self.asked += [(words, noise.seed) for words, noise in zip(instructions, noises, strict=True)]
        return [
            Draft(sources, words, noise, 0, {"latents": _drawn(noise)}, turns)
            for sources, words, noise, turns in zip(images, instructions, noises, earlier, strict=True)
        ]

    def advance(self, drafts: Sequence[Draft], until: int) -> list[tuple[Draft, Image]]:
        assert len({draft.step for draft in drafts}) == 1
        assert drafts[0].step < until <= self.evaluations
        self.calls.append(len(drafts))
        bad = [draft.noise.seed for draft in drafts if draft.noise.seed in self.bad_seeds]
        if self.broken or bad or len(self.calls) in self.bad_calls or len(drafts) > self.most:
            raise RuntimeError(f"no paint for {bad or len(drafts)}")
        self.evaluated += sum(until - draft.step for draft in drafts)
        moved = [replace(draft, step=until) for draft in drafts]
        return [(draft, self._painted(draft)) for draft in moved]

    def back(self, drafts: Sequence[Draft], to: int, seeds: Sequence[int]) -> list[Draft]:
        found = []
        for draft, seed in zip(drafts, seeds, strict=True):
            latents = _mixed(self._expected(draft), _fresh("noise", seed), self._left(to))
            noise = draft.noise.again(seed, seen=draft.step, back=to)
            found.append(replace(draft, noise=noise, step=to, arrays={"latents": latents}))
        return found

    def _expected(self, draft: Draft) -> Vector:
        return _mixed(draft.arrays["latents"], _fresh("blur", draft.noise.describe()), self._left(draft.step))

    def _left(self, step: int) -> float:
        return 1 - step / self.evaluations

    def _painted(self, draft: Draft) -> Image:
        turns = [(turn.instruction, turn.edited.digest) for turn in draft.history]
        scene = [[image.digest for image in draft.images], draft.instruction, turns]
        pixels = _random(scene, draft.noise.describe(), draft.step).integers(0, 256, (8, 8, 3), np.uint8)
        better = sum(much for word, much in self.heeds.items() if word in draft.instruction)
        for number, quality in enumerate(QUALITIES):
            liked = _fresh("liked", scene, quality).astype(float)  # a direction in which this scene gets better
            worth = NormalDist().cdf(float(liked @ self._expected(draft)) / float(np.linalg.norm(liked)) + better)
            if quality == "following":
                worth = min(math.floor(worth * self.levels) / max(self.levels - 1, 1), 1.0)
            pixels[0, number, :2] = divmod(round(worth * 65535), 256)
        return Image.of(pixels)


class Plain:
    """What a painter makes, by one who cannot stop half-way."""

    def __init__(self, painter: Painter) -> None:
        self.id, self.evaluations, self.batch = f"plain {painter.id}", painter.evaluations, painter.batch
        self.edit = painter.edit


@dataclass(frozen=True)
class Graded:
    """What the expert of a role reads off the edited picture: the first quality is the value, all of them are parts."""

    qualities: tuple[str, ...] = ("following",)
    role: str = "judge"

    @property
    def card(self) -> Card:
        return Card("graded", 1, "as good as can be", roles=(self.role,))

    def __call__(self, sample: EditSample) -> Asks[Score]:
        answers = yield from ask_each([Rate(sample.edited, name) for name in self.qualities], role=self.role)
        parts = {name: Score.of(answer.value or 0.0) for name, answer in zip(self.qualities, answers, strict=True)}
        return Score.of(parts[self.qualities[0]].value or 0.0, parts=parts)


def judge(**how: Any) -> Fake:
    """Reads the quality that is asked for. `seen` and `calls` count the questions; `rule` replaces what it says."""
    return Fake(**{"rule": lambda query: Measured(read(query.image, query.prompt)), "name": "reader", **how})


def graded(expert: Fake | None = None, *qualities: str, role: str = "judge", **options: Any) -> Reward:
    """A reward of `Graded`: one judge call a quality (default: following), where the role is a judge's."""
    return Reward(Graded(qualities or ("following",), role), {role: expert or judge()}, **options)


def scenes(count: int, **fields: Any) -> list[EditSample]:
    """So many different pictures to edit."""
    pixels = [_random("scene", number).integers(0, 256, (8, 8, 3), np.uint8) for number in range(count)]
    return [unedited("make it blue", one, id=f"s{number}", **fields) for number, one in enumerate(pixels)]


def _random(*said: Any) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(hashlib.sha256(repr(said).encode()).digest()[:8], "big"))


def _fresh(*said: Any) -> Vector:
    return _random(*said).standard_normal(4, np.float32)


def _drawn(noise: Noise) -> Vector:
    fresh = _fresh("noise", noise.seed)
    return fresh if noise.parent is None else _mixed(_drawn(noise.parent), fresh, noise.radius)


def _mixed(old: Vector, new: Vector, share: float) -> Vector:
    return (math.sqrt(1 - share**2) * old + share * new).astype(np.float32)
