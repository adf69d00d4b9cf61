"""No selector chooses a candidate, or goes on with it, because it has no value or because a guard rejected it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.reward import Image, Reward
from editcritic.reward.queries import Abstention, Failure, Measurement
from editcritic.verifiers import BestOfN, select
from editcritic.verifiers.selection import Selection, Selector
from editcritic.verifiers.selectors.adaptive import AdaptiveBestOfN
from editcritic.verifiers.selectors.beam import BeamSearch
from editcritic.verifiers.selectors.fk_steering import FKSteering
from editcritic.verifiers.selectors.halving import SuccessiveHalving
from editcritic.verifiers.selectors.noise_search import SearchOverPaths, ZeroOrderSearch
from editcritic.verifiers.selectors.retry import RetryUntilAccepted
from editcritic.verifiers.selectors.sequential import MultiTurnEditing, SequentialEditing
from editcritic.verifiers.selectors.tournament import KnockoutTournament, RoundRobinTournament

from ..numpy_editor import Painter, gated, graded, judge, read
from .test_sequential import compounds

SELECTORS: list[Selector] = [
    BestOfN(6),
    AdaptiveBestOfN(6),
    SuccessiveHalving(6, (1, 3)),
    FKSteering(4),
    ZeroOrderSearch(2, 2, num_starts=2),
    SearchOverPaths(2, 2, (2, 4)),
    RetryUntilAccepted(0.7, 4),
    KnockoutTournament(6),
    RoundRobinTournament(5),
    BeamSearch(2, 4),
    SequentialEditing(4),
    MultiTurnEditing(4),
]
ON_FINAL_IMAGES = (BestOfN, KnockoutTournament, RoundRobinTournament)
"""Selectors whose candidates do not depend on scores."""


def without(hidden: Any, how: str) -> Reward:
    """The reward of the worth of images, of which the hidden ones have none, or are rejected."""
    if how == "rejected":
        return gated(hidden)
    answer = Abstention("cannot tell") if how == "abstained" else Failure("no answer")

    def rule(query: Any) -> Any:
        return answer if hidden(query.image) else Measurement(read(query.image, query.prompt))

    return graded(judge(rule=rule), on_failures="none")


def chosen_images(selection: Selection) -> list[Image]:
    """Those of the winner and of the steps that led to it."""
    candidates = [*selection.steps, *([] if selection.winner is None else [selection.winner])]
    return [candidate.picture for candidate in candidates if candidate.picture is not None]


@pytest.mark.parametrize("how", ["abstained", "failed", "rejected"])
@pytest.mark.parametrize("selector", SELECTORS, ids=lambda selector: type(selector).__name__)
@settings(max_examples=8, deadline=None)  # each is a run or two
@given(seed=st.integers(0, 1000), below=st.floats(0.1, 1.0), salt=st.integers(0, 7))
def test_no_bad_candidate_is_chosen_for_having_no_value_or_a_rejection(
    selector: Selector, how: str, seed: int, below: float, salt: int
) -> None:
    def hidden(picture: Image) -> bool:
        return read(picture) < below and bool(int(picture.digest[salt], 16) & 1)

    options: dict[str, Any] = {"editor": Painter(), "seed": seed}
    (one,) = select(selector, compounds(1), reward=without(hidden, how), **options)
    images = chosen_images(one)
    others = [
        candidate
        for candidate in one.candidates
        if candidate.value is not None and candidate.picture is not None and not hidden(candidate.picture)
    ]
    if how != "rejected" or (others and one.winner is not None and not one.steps):
        assert not [picture for picture in images if hidden(picture)]
    if isinstance(selector, ON_FINAL_IMAGES):
        (known,) = select(selector, compounds(1), reward=graded(), **options)
        (best,) = chosen_images(known)
        if not hidden(best):
            assert images == [best]
