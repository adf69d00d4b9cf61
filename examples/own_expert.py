"""An expert of one's own: scikit-image's face detector as the detector of EdiVal's instruction following.

python examples/own_expert.py
"""

from collections.abc import Sequence

import cv2
from skimage import data
from skimage.feature import Cascade

from editcritic.reward import Abstention, Box, Detect, Detections, EditSample, Expert, Image, Reward, no_download


class Faces(Expert):
    """Finds faces, and abstains on everything else."""

    id = "skimage-lbp-faces@1"
    kinds = (Detect,)

    def load(self) -> None:
        """Called once, in the thread that will ask."""
        self.cascade = Cascade(data.lbp_frontal_face_cascade_filename())

    def __call__(self, queries: Sequence[Detect]) -> list[Detections | Abstention]:
        """One answer a query, in order."""
        return [self.faces(query) for query in queries]

    def faces(self, query: Detect) -> Detections | Abstention:
        """Boxes in fractions of the picture. The cascade gives no scores, so what it finds is certain."""
        if query.phrases != ("face",):
            return Abstention(f"a face detector cannot find {query.phrases}")
        found = self.cascade.detect_multi_scale(
            query.image.pixels,
            scale_factor=1.2,
            step_ratio=1,
            min_size=(70, 70),
            max_size=(110, 110),
            min_neighbor_number=6,
        )
        return Detections(
            tuple(
                Box.from_corners(
                    f["c"], f["r"], f["c"] + f["width"], f["r"] + f["height"], query.image.size, label="face"
                )
                for f in found
            )
        )


source = data.astronaut()
hidden = source.copy()
hidden[40:210, 140:310] = cv2.GaussianBlur(source[40:210, 140:310], (0, 0), 25)

reward = Reward.of("edival-if", {**no_download(), "detector": Faces()})
for name, edited in {"hidden": hidden, "left as it is": source}.items():
    (score,) = reward([EditSample(name, "Remove face", (Image.of(source),), Image.of(edited))])
    print(f"{name}: {score.value}  {score.reason}")
