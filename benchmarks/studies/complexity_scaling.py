"""Outputs for the study of scaling: each compound instruction edited at once and step by step, with and without choice.

Complex-Edit (arXiv 2504.13143), section 5.4. Of sequential editing with a choice, candidate i of step k is judged as an
edit of the original picture by the compound of the first k operations (`verifiers.sequential`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...reward import Reward
from ...verifiers import BestOf, Budget, Editor, Journal, Selector, Sequential, select
from .suite import Item, found_at

CANDIDATES = 4
AT_ONCE = 16
"""Items between two times that pictures are written."""


@dataclass(frozen=True)
class Made:
    """Of one way. made: pictures that are there. failed: id of an item -> why there is none."""

    folder: Path
    made: int
    failed: Mapping[str, str] = field(default_factory=dict)


def ways_of(n: int = CANDIDATES) -> dict[str, Selector]:
    """The four ways of editing: `people.scaling.WAYS`. n: candidates where there is a choice, at each step."""
    return {
        "direct": BestOf(1),
        "sequential": Sequential(1),
        "direct best": BestOf(n),
        "sequential best": Sequential(n),
    }


def make_outputs(
    items: Sequence[Item],
    editor: Editor,
    reward: Reward,
    folder: Path,
    *,
    ways: Mapping[str, Selector] | None = None,
    budget: Budget | None = None,
    journal: Journal | None = None,
    seed: int = 0,
    tell: Callable[[str, int], None] = lambda way, made: None,
) -> dict[str, Made]:
    """Pictures of every item by every way, in `folder/<way>` with spaces as hyphens, where a suite looks for them.

    items: whose samples have operations. reward: by which candidates are chosen; also scores where there is but one.
    budget: of each lot of items. journal: what is known from before; ways share their candidates through it, and what
    an earlier call has written is not made again. tell: after each lot. Raises what `verifiers.select` raises; what was
    written until then stays.
    """
    known = journal or Journal()
    found = {}
    for way, selector in (ways or ways_of()).items():
        place = folder / way.replace(" ", "-")
        waiting = [item for item in items if found_at(place / item.place) is None]
        made, failed = len(items) - len(waiting), {}
        for start in range(0, len(waiting), AT_ONCE):
            lot = waiting[start : start + AT_ONCE]
            samples = [item.sample for item in lot]
            chosen = select(selector, samples, editor=editor, reward=reward, budget=budget, journal=known, seed=seed)
            for item, one in zip(lot, chosen, strict=True):
                if one.picture is None:
                    failed[item.id] = one.why
                    continue
                path = place / f"{item.place}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                one.picture.pil().save(path)
                made += 1
            tell(way, made)
        found[way] = Made(place, made, failed)
    return found
