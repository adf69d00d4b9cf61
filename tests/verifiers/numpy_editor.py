"""An editor made of numpy whose images carry how good they are, and the reward that reads it off them.

The only fakes of these tests: the editor, and the expert that looks (`Fake` of `tests/reward`).
"""

import hashlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from editcritic.reward import Card, EditSample, Image, Program, Reward, Score
from editcritic.reward.engine import ask_many
from editcritic.reward.metrics import Gate
from editcritic.reward.queries import Measurement, Rate
from editcritic.verifiers import Candidate, Selection, edit_request, select
from editcritic.verifiers.selection import DenoisingState, NoiseSpec, Selections, Selector
from editcritic.verifiers.selection.candidate import Cost

from ..reward.fakes import Fake, Says

Images = Sequence[tuple[Image, ...]]
History = Sequence[tuple[EditSample, ...]] | None
Vector = NDArray[np.float32]

QUALITIES = ("following", "consistency", "second")
"""What an image can be read for, each uniform in [0, 1] over seeds; the first one is what it is worth."""


def read(picture: Image, quality: str = "following") -> float:
    """How good it is, of its first pixels, to 16 bits."""
    high, low, _ = picture.pixels[0, QUALITIES.index(quality)]
    return (256 * int(high) + int(low)) / 65535


def same_cost(cost: Cost, other: Cost) -> bool:
    """Whether two runs cost the same. Threads add seconds in any order, so that their last digits may differ."""
    return replace(cost, seconds=0.0) == replace(other, seconds=0.0) and math.isclose(cost.seconds, other.seconds)


@dataclass
class Painter:
    """Paints 8 x 8 images of (sources, instruction, earlier turns, noise, step); a stepwise editor.

    `near` noise makes an image of nearly the same worth, `renoise` the nearer the later it goes back to, and a preview
    is the nearer the image the later it is. levels: how many worths there are (many candidates tie where there are
    few). heeds: word -> how much better images are whose instruction has it, in standard deviations.

    Fails for `bad_seeds`, in calls with a number in `bad_calls` (from 1), for more than `most` images at once, and
    always when `broken`. calls: how many images each call asked for. evaluated: evaluations of images that were
    made. requests: the (instruction, seed) of each image that was begun, in order.
    """

    nfe: int = 8
    batch_size: int = 4
    levels: int = 65536
    heeds: Mapping[str, float] = field(default_factory=dict)
    bad_seeds: Collection[int] = ()
    bad_calls: Collection[int] = ()
    most: int = 1_000_000
    broken: bool = False
    calls: list[int] = field(default_factory=list)
    evaluated: int = 0
    requests: list[tuple[str, int]] = field(default_factory=list)

    @property
    def id(self) -> str:
        return f"painter {self.nfe} {self.levels} {sorted(self.heeds.items())}"

    def edit(
        self, images: Images, instructions: Sequence[str], seeds: Sequence[int], *, history: History = None
    ) -> list[Image]:
        begun = self.begin(images, instructions, [NoiseSpec(seed) for seed in seeds], history=history)
        return [picture for _, picture in self.advance(begun, self.nfe)]

    def begin(
        self, images: Images, instructions: Sequence[str], noise_specs: Sequence[NoiseSpec], *, history: History = None
    ) -> list[DenoisingState]:
        earlier: Sequence[tuple[EditSample, ...]] = history or [()] * len(images)
        self.requests += [(words, noise.seed) for words, noise in zip(instructions, noise_specs, strict=True)]
        return [
            DenoisingState(sources, words, noise, 0, {"latents": _drawn(noise)}, turns)
            for sources, words, noise, turns in zip(images, instructions, noise_specs, earlier, strict=True)
        ]

    def advance(self, drafts: Sequence[DenoisingState], until_step: int) -> list[tuple[DenoisingState, Image]]:
        assert len({draft.step for draft in drafts}) == 1
        assert drafts[0].step < until_step <= self.nfe
        self.calls.append(len(drafts))
        bad = [draft.noise.seed for draft in drafts if draft.noise.seed in self.bad_seeds]
        if self.broken or bad or len(self.calls) in self.bad_calls or len(drafts) > self.most:
            raise RuntimeError(f"no paint for {bad or len(drafts)}")
        self.evaluated += sum(until_step - draft.step for draft in drafts)
        moved = [replace(draft, step=until_step) for draft in drafts]
        return [(draft, self._painted(draft)) for draft in moved]

    def renoise(self, drafts: Sequence[DenoisingState], to: int, seeds: Sequence[int]) -> list[DenoisingState]:
        renoised = []
        for draft, seed in zip(drafts, seeds, strict=True):
            latents = _mixed(self._expected(draft), _fresh("noise", seed), self._left(to))
            noise = draft.noise.renoised(seed, preview_step=draft.step, restart_step=to)
            renoised.append(replace(draft, noise=noise, step=to, arrays={"latents": latents}))
        return renoised

    def _expected(self, draft: DenoisingState) -> Vector:
        return _mixed(draft.arrays["latents"], _fresh("blur", draft.noise.describe()), self._left(draft.step))

    def _left(self, step: int) -> float:
        return 1 - step / self.nfe

    def _painted(self, draft: DenoisingState) -> Image:
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
        self.id, self.nfe, self.batch_size = f"plain {painter.id}", painter.nfe, painter.batch_size
        self.edit = painter.edit


@dataclass(frozen=True)
class Graded:
    """What the expert of a role reads off the edited image: the first quality is the value, all of them are parts."""

    qualities: tuple[str, ...] = ("following",)
    role: str = "judge"

    @property
    def card(self) -> Card:
        return Card("graded", 1, "as good as can be", roles=(self.role,))

    def __call__(self, sample: EditSample) -> Program[Score]:
        answers = yield from ask_many([Rate(sample.edited, name) for name in self.qualities], role=self.role)
        parts = {name: Score.of(answer.value or 0.0) for name, answer in zip(self.qualities, answers, strict=True)}
        return Score.of(parts[self.qualities[0]].value or 0.0, parts=parts)


def judge(**how: Any) -> Fake:
    """Reads the quality that is asked for. `seen` and `calls` count the questions; `rule` replaces what it says."""
    return Fake(**{"rule": lambda query: Measurement(read(query.image, query.prompt)), "name": "reader", **how})


def graded(expert: Fake | None = None, *qualities: str, role: str = "judge", **options: Any) -> Reward:
    """A reward of `Graded`: one judge call a quality (default: following), where the role is a judge's."""
    return Reward(Graded(qualities or ("following",), role), {role: expert or judge()}, **options)


@dataclass(frozen=True)
class Guard:
    rejects: Callable[[Image], bool]

    @property
    def card(self) -> Card:
        return Card("guard", 1, "nothing wrong")

    def __call__(self, sample: EditSample) -> Program[Score]:
        yield from ()
        return Score.of(0.0, "a copy of the source") if self.rejects(sample.edited) else Score.of(1.0)


def gated(rejects: Callable[[Image], bool], expert: Fake | None = None, *qualities: str, **options: Any) -> Reward:
    return Reward(Gate(Guard(rejects), Graded(qualities or ("following",))), {"judge": expert or judge()}, **options)


@cache
def rejection() -> Score:
    gate = Gate(Says(Score.of(0.0, "a copy of the source")), Says(Score.of(1.0)))
    return Reward(gate, {})(scenes(1))[0]


def scenes(count: int, **fields: Any) -> list[EditSample]:
    pixels = [_random("scene", number).integers(0, 256, (8, 8, 3), np.uint8) for number in range(count)]
    return [edit_request("make it blue", one, id=f"s{number}", **fields) for number, one in enumerate(pixels)]


def pick(selector: Selector, samples: int | EditSample | Sequence[EditSample] = 1, **options: Any) -> Selections:
    """`select` for so many scenes or these samples, with a painter and `graded` unless others are given."""
    some = scenes(samples) if isinstance(samples, int) else samples
    return select(selector, some, **{"editor": Painter(), "reward": graded(), **options})


def won(selection: Selection) -> Candidate:
    assert selection.winner is not None
    return selection.winner


def worth(one: Candidate | Selection) -> float:
    assert one.value is not None
    return one.value


def shown(candidate: Candidate) -> Image:
    assert candidate.picture is not None
    return candidate.picture


def without_time(data: Any) -> Any:
    """A report without what differs from run to run: seconds, and how much was known."""
    if isinstance(data, dict):
        return {name: without_time(value) for name, value in data.items() if name not in ("seconds", "cached_cost")}
    return [without_time(item) for item in data] if isinstance(data, list) else data


def _random(*parts: Any) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big"))


def _fresh(*parts: Any) -> Vector:
    return _random(*parts).standard_normal(4, np.float32)


def _drawn(noise: NoiseSpec) -> Vector:
    fresh = _fresh("noise", noise.seed)
    return fresh if noise.parent is None else _mixed(_drawn(noise.parent), fresh, noise.radius)


def _mixed(old: Vector, new: Vector, share: float) -> Vector:
    return (math.sqrt(1 - share**2) * old + share * new).astype(np.float32)
