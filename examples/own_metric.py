"""A custom metric combined with a built-in one: does the edit preserve the brightness of highlights?

python examples/own_metric.py
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from skimage import data

from editcritic.reward import Card, EditSample, Image, Pools, Program, Reward, Score, ask
from editcritic.reward.metrics import GeometricMean
from editcritic.reward.metrics.edival.consistency import ContentConsistency
from editcritic.reward.queries import Measure


@dataclass(frozen=True)
class SameExposure:
    """1.0 if the 99 % quantile of luminance equals the source's; 0.0 if it differs by `range` or more."""

    range: float = 0.25
    card: ClassVar[Card] = Card(
        "same-exposure",
        1,
        "highlights are as bright as in the source",
        kinds={"pixels": ("measure",)},
        failure_modes="A copy has 1.0.",
    )

    def __call__(self, sample: EditSample) -> Program[Score]:
        before, after = yield from ask(Measure("luma99", (sample.source,)), Measure("luma99", (sample.edited,)))
        drift = abs((after.value or 0.0) - (before.value or 0.0))
        return Score.of(max(0.0, 1 - drift / self.range), f"highlights drift by {drift:.3f}")


source = Image.of(data.coffee())
reward = Reward(GeometricMean({"exposure": SameExposure(), "consistency": ContentConsistency()}, name="faithful"))
samples = [
    EditSample(
        id=f"exposure x {gain}",
        instruction="Remove spoon",
        sources=(source,),
        edited=Image.of(np.clip(data.coffee() * gain, 0, 255).astype(np.uint8)),
        pools=Pools(),  # without named objects the whole image is background
    )
    for gain in (1.0, 0.9, 0.7)
]
scores = reward(samples)
for sample, score in zip(samples, scores, strict=True):
    print(sample.id, score.value, score.reason)
print(scores.stats)
