"""Edits as trainers hand them over, a judge with faults, and the lines of docs/trainers/."""

import math
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from editcritic.reward import Card, EditSample, Image, Program, Reward, Score, ask
from editcritic.reward.queries import Abstention, Failure, Rate
from editcritic.reward.queries.kinds import Outcome

from ...reward.fakes import Fake, known, picture

PAGES = Path(__file__).parents[3] / "docs" / "trainers"


@dataclass(frozen=True)
class Batch:
    """Edits in groups: the same source and prompt in each. group_size: images of each."""

    prompts: list[str]
    sources: list[Image]
    edited: list[Image]
    group_size: int

    @property
    def tensor(self) -> np.ndarray[Any, Any]:
        """uint8, N x H x W x C."""
        return np.stack([image.pixels for image in self.edited])


def batch(groups: int = 4, group_size: int = 4, first: int = 100) -> Batch:
    """groups x group_size edits, all of different images."""
    count = groups * group_size
    return Batch(
        [f"make it {('blue', 'red', 'green', 'old')[row // group_size % 4]}" for row in range(count)],
        [picture(row // group_size) for row in range(count)],
        [picture(first + row) for row in range(count)],
        group_size,
    )


@dataclass
class Judge:
    """An expert that rates edited images, and the images on which it does not.

    failing: digest -> how often it fails there for reasons of infrastructure (math.inf: always). abstaining: digests of
    images that it never knows about.
    """

    failing: dict[str, float] = field(default_factory=dict)
    abstaining: set[str] = field(default_factory=set)
    expert: Fake = field(init=False)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self.expert = Fake(self._answer)

    def _answer(self, query: Rate) -> Outcome:
        digest = query.image.digest
        with self._lock:
            if self.failing.get(digest, 0) > 0:
                self.failing[digest] -= 1
                return Failure("the judge did not answer", infrastructure=True)
        return Abstention("nobody could know") if digest in self.abstaining else known(query)

    @property
    def batches(self) -> list[int]:
        """The sizes of the batches it was asked."""
        return self.expert.calls

    def reward(self, **options: Any) -> Reward:
        return Reward(Parted(), {"preference": self.expert}, **options)

    @staticmethod
    def always(*images: Image) -> dict[str, float]:
        """`failing` for images that are never rated."""
        return {image.digest: math.inf for image in images}


@dataclass(frozen=True)
class Parted:
    """The rating of the edited image, with the parts that adapters log."""

    @property
    def card(self) -> Card:
        return Card("parted", 1, "rated", roles=("preference",), parts=("following", "preservation", "guard"))

    def __call__(self, sample: EditSample) -> Program[Score]:
        answer = yield from ask(Rate(sample.edited, sample.instruction), role="preference")
        value = answer.value or 0.0
        parts = {"following": Score.of(value), "preservation": Score.of(1 - value), "guard": Score.of(1.0)}
        return Score.of(value, parts=parts)


def values(edits: Batch) -> list[float]:
    """What a judge without faults gives, in order."""
    samples = [
        EditSample(id=str(row), instruction=prompt, sources=(source,), edited=edited)
        for row, (prompt, source, edited) in enumerate(zip(edits.prompts, edits.sources, edits.edited, strict=True))
    ]
    scores: Sequence[Score] = Judge().reward()(samples)
    return [score.value for score in scores if score.value is not None]


def documented(title: str, language: str) -> list[str]:
    """The fenced blocks of a language on the page of that title, in order. Fails if there are none."""
    texts = [page.read_text(encoding="utf-8") for page in PAGES.glob("*.md")]
    (text,) = (text for text in texts if text.startswith(f"# {title}\n"))
    found = re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert found, f"no {language} block on the page {title}"
    return found
