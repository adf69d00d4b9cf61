"""The numbers of a training step that are monitored, and what a drift of each may mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MonitoredQuantity:
    """A monitored number. side: 1 where only a rise alarms, -1 where only a fall does, 0 for both.

    min_drift: the smallest drift that can alarm, in the number's units (for `LOGARITHMIC` ones as a natural logarithm).
    rise_meaning, fall_meaning: the possible cause of a rise or fall.
    """

    description: str
    min_drift: float
    side: int = 0
    rise_meaning: str = ""
    fall_meaning: str = ""


_BLURRED, _SHARPENED = "images are blurred, or empty", "images are sharpened, or noisy"
_COPIED, _REDRAWN = "the source is copied", "more of the image is changed than before"
_UNSCORED_EDITS = "an expert is down, or the rows are no edits"
_ABSTAINED_EDITS = "edits that nobody can judge, such as unrecognisable ones"
_LOST_SIGNAL = "the policy has lost its diversity, or this reward has no signal left"
_ALIKE = "the edits of a group look alike: the policy has lost its diversity"
_GAMED = "the policy looks for what the reward pays and guards do not allow"
_HELDOUT_DISAGREES = "the held-out reward ranks the edits of a group differently"

MONITORED: Mapping[str, MonitoredQuantity] = {
    "edge_density": MonitoredQuantity("edge density beyond the source's", 0.02, 0, _SHARPENED, _BLURRED),
    "saturation": MonitoredQuantity(
        "saturation beyond the source's", 0.02, 0, "colours are exaggerated", "colours fade"
    ),
    "exposure_1": MonitoredQuantity(
        "the 1 % quantile of luminance beyond the source's", 0.03, 0, "haze", "crushed shadows"
    ),
    "exposure_50": MonitoredQuantity(
        "median luminance beyond the source's", 0.03, 0, "images get lighter", "images get darker"
    ),
    "exposure_99": MonitoredQuantity(
        "the 99 % quantile of luminance beyond the source's", 0.03, 0, "blown highlights", "haze"
    ),
    "difference": MonitoredQuantity("the difference to the source", 0.5, 0, _REDRAWN, _COPIED),
    "unscored": MonitoredQuantity("the fraction of edits that could not be scored", 0.15, 1, _UNSCORED_EDITS),
    "abstained": MonitoredQuantity("the fraction of edits that nobody could judge", 0.15, 1, _ABSTAINED_EDITS),
    "degenerate": MonitoredQuantity("the fraction of degenerate groups", 0.2, 1, _LOST_SIGNAL),
    "rejected": MonitoredQuantity("the fraction of edits that a guard rejects", 0.15, 1, _GAMED),
    "heldout_rejected": MonitoredQuantity(
        "the fraction of edits that a guard of the held-out reward rejects", 0.15, 1, _GAMED
    ),
    "diversity": MonitoredQuantity("the difference between edits of a group", 0.7, -1, "", _ALIKE),
    "agreement": MonitoredQuantity(
        "agreement with the held-out reward (Kendall's tau)", 0.2, -1, "", _HELDOUT_DISAGREES
    ),
}
"""By name; `divergence` is monitored in addition."""

LOGARITHMIC = ("difference", "diversity")
"""Numbers that are compared as natural logarithms."""
