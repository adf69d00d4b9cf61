"""Outputs for the study of scaling: direct and sequential editing of compound instructions, with and without selection.

Complex-Edit (arXiv 2504.13143), section 5.4. In sequential editing with selection, candidate i of step k is scored as
an edit of the original image by the compound of the first k operations (`verifiers.selectors.sequential`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...reward import Reward
from ...verifiers import BestOfN, Budget, Editor, Journal, Selector, SequentialEditing, select
from ..suites.suite import SuiteItem, find_image

CANDIDATES_PER_STEP = 4
CONCURRENT_ITEMS = 16
"""Items per batch; images are written after each batch."""


@dataclass(frozen=True)
class StrategyOutputs:
    """Outputs of one strategy. made: number of images. failed: id of an item -> the reason."""

    folder: Path
    made: int
    failed: Mapping[str, str] = field(default_factory=dict)


def scaling_strategies(n: int = CANDIDATES_PER_STEP) -> dict[str, Selector]:
    """The four strategies: those of `human_eval.scaling_tables`. n: candidates of best-of-N, at each step."""
    return {
        "direct": BestOfN(1),
        "sequential": SequentialEditing(1),
        "direct best": BestOfN(n),
        "sequential best": SequentialEditing(n),
    }


def make_outputs(
    items: Sequence[SuiteItem],
    editor: Editor,
    reward: Reward,
    folder: Path,
    *,
    ways: Mapping[str, Selector] | None = None,
    budget: Budget | None = None,
    journal: Journal | None = None,
    seed: int = 0,
    tell: Callable[[str, int], None] = lambda strategy, made: None,
) -> dict[str, StrategyOutputs]:
    """Images of every item by every strategy, in `folder/<strategy>` with spaces as hyphens, where a suite reads them.

    items: their samples need operations. reward: selects candidates; it also scores single ones. budget: of each batch
    of items. journal: shared by the strategies, so that candidates are reused; existing outputs are not made again.
    tell: called after each batch. Raises what `verifiers.select` raises; outputs written before stay.
    """
    shared_journal = journal or Journal()
    outputs = {}
    for strategy, selector in (ways or scaling_strategies()).items():
        output_folder = folder / strategy.replace(" ", "-")
        pending = [item for item in items if find_image(output_folder / item.output_path) is None]
        made, failed = len(items) - len(pending), {}
        for start in range(0, len(pending), CONCURRENT_ITEMS):
            batch = pending[start : start + CONCURRENT_ITEMS]
            samples = [item.sample for item in batch]
            selections = select(
                selector, samples, editor=editor, reward=reward, budget=budget, journal=shared_journal, seed=seed
            )
            for item, selection in zip(batch, selections, strict=True):
                if selection.picture is None:
                    failed[item.id] = selection.reason
                    continue
                path = output_folder / f"{item.output_path}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                selection.picture.pil().save(path)
                made += 1
            tell(strategy, made)
        outputs[strategy] = StrategyOutputs(output_folder, made, failed)
    return outputs
