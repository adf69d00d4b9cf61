"""Which of several scores of one edit request may be the best."""

from __future__ import annotations

from collections.abc import Sequence

from ...reward import Score


def contenders(scores: Sequence[Score], lowest: float | None) -> tuple[list[int], str]:
    """Indices of the scores that may be the best, in order; without any, why, unless no score has a value.

    lowest: the lower bound of the reward's range. Scores of edits that a guard rejected contend only if there are no
    other values. Nothing contends if all contenders were rejected or have the lowest value while others have no value:
    a known bad edit is not preferred to an unknown one.
    """
    valued = [index for index, score in enumerate(scores) if score.value is not None]
    standing = [index for index in valued if not scores[index].rejected] or valued
    unknown = [score for score in scores if score.value is None]
    if standing and unknown and all(scores[index].rejected or scores[index].value == lowest for index in standing):
        reason = f"{len(valued)} of {len(scores)} candidates were rejected, and the others could not be judged"
        return [], f"{reason}: {unknown[0].reason}"
    return standing, ""
