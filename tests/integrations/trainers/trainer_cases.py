"""Edits as trainers hand them over, a judge with faults, and the lines of docs/trainers/."""

import contextlib
import math
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editcritic.reward import Card, EditSample, Image, Program, Reward, Score, ask
from editcritic.reward.queries import Abstention, Failure, Rate
from editcritic.reward.queries.answers import Outcome

from ...reward.fakes import Fake, known, picture
from ..serving.served import serving

REWARD = "parted"
PARTS = ("following", "preservation", "guard")
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
    images that it never knows about. parts: whether its reward has any.
    """

    failing: dict[str, float] = field(default_factory=dict)
    abstaining: set[str] = field(default_factory=set)
    parts: bool = True
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
        return self.expert.calls

    def reward(self, **options: Any) -> Reward:
        return Reward(Parted(self.parts), {"preference": self.expert}, **options)

    @staticmethod
    def always(*images: Image) -> dict[str, float]:
        """`failing` for images that are never rated."""
        return {image.digest: math.inf for image in images}


@dataclass(frozen=True)
class Parted:
    """The rating of the edited image, with the parts that adapters log, or none."""

    parts: bool = True

    @property
    def card(self) -> Card:
        return Card(REWARD, 1, "rated", roles=("preference",), parts=PARTS if self.parts else ())

    def __call__(self, sample: EditSample) -> Program[Score]:
        answer = yield from ask(Rate(sample.edited, sample.instruction), role="preference")
        value = answer.value or 0.0
        parts = zip(PARTS, (Score.of(value), Score.of(1 - value), Score.of(1.0)), strict=True)
        return Score.of(value, parts=dict(parts) if self.parts else {})


@contextlib.contextmanager
def served(
    reward: Reward | Mapping[str, Reward],
    protocol: str = "",
    *,
    token: str = "",
    on_unscored: str = "refuse",
    **limits: int,
) -> Iterator[str]:
    """The URL of a judge server, with the protocol of a trainer's own client."""
    with serving(reward, protocol, token=token, on_unscored=on_unscored, limits=limits) as (url, _):
        yield url


def values(edits: Batch) -> list[float]:
    """What the expert of a `Judge` says of them."""
    pairs = zip(edits.edited, edits.prompts, strict=True)
    return [known(Rate(edited, prompt)).value or 0.0 for edited, prompt in pairs]


def advantages_without(
    rewards: Sequence[float], lacking: Sequence[int], of_group: bool | None, ddof: float, epsilon: float
) -> list[float]:
    """As if those that lack a reward were not there; 0 for them. of_group: whose deviation divides; None: none does."""
    known = np.array([row not in lacking for row in range(len(rewards))])
    values, groups = np.array(rewards), np.arange(len(rewards)) // 4
    result = np.zeros(len(rewards))
    for group in np.unique(groups[known]):
        rows = known & (groups == group)
        over = values[rows] if of_group else values[known]
        result[rows] = values[rows] - values[rows].mean()
        if of_group is not None:
            result[rows] /= over.std(ddof=ddof) + epsilon
    return result.tolist()


def check_log(trainer: str, log: Mapping[str, Any], *, parts: bool = True, share: float = 1 / 16) -> None:
    """Ours in a log are the names that docs/trainers.md has for the trainer, without those of parts if the reward has
    none, and they are finite. share: the fraction of unscored edits, and of abstained ones.
    """
    text = (PAGES.parent / "trainers.md").read_text(encoding="utf-8").partition("\n## Names in the log\n")[2]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.partition("\n## ")[0].splitlines()]
    coded = re.compile(r"`([^`]*)`").findall
    columns = [name for row in rows if len(row) == 3 for name in coded(row[0])]
    ((_, logged_as, of_reward, beside),) = (row for row in rows if len(row) == 4 and row[0] == trainer)
    pattern, *other_name = coded(logged_as)  # another name in place of one, if any
    prefix, suffix = pattern.replace("<reward>", REWARD).split("NAME")
    others = [name.replace("<reward>", REWARD) for cell in (of_reward, beside) for name in coded(cell.split(": ")[0])]
    columns = [name for name in columns if name not in (() if parts else PARTS) and name not in other_name]
    names = {*others, *other_name[:1], *(f"{prefix}{name}{suffix}" for name in columns)}
    ours = (*columns, *PARTS, REWARD, "editcritic", "scored", "frac_")  # a trainer has names of its own
    found = {
        name for name in log if name.startswith(prefix) and name.endswith(suffix) and any(word in name for word in ours)
    }
    assert found | set(others) | set(other_name[:1]) == names
    assert names <= set(log)
    assert all(math.isfinite(log[name]) for name in names)
    assert log[f"{prefix}unscored{suffix}"] == log[f"{prefix}abstained{suffix}"] == pytest.approx(share)


def documented(title: str, language: str) -> list[str]:
    """The fenced blocks of a language on the page of that title, in order. Fails if there are none."""
    texts = [page.read_text(encoding="utf-8") for page in PAGES.glob("*.md")]
    (text,) = (text for text in texts if text.startswith(f"# {title}\n"))
    found = re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert found, f"no {language} block on the page {title}"
    return found
