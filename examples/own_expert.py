"""A custom expert: scikit-image's face detector as the detector of EdiVal's instruction following.

python examples/own_expert.py
"""

from collections.abc import Sequence

import cv2
from skimage import data
from skimage.feature import Cascade

from editcritic.reward import Box, EditSample, Expert, Image, Reward, default_experts
from editcritic.reward.queries import Abstention, Detect, Detections


class Faces(Expert):
    """Detects faces, and abstains on other phrases."""

    id = "skimage-lbp-faces@1"
    kinds = (Detect,)

    def load(self) -> None:
        """Called once, in the thread that runs the queries."""
        self.cascade = Cascade(data.lbp_frontal_face_cascade_filename())

    def __call__(self, queries: Sequence[Detect]) -> list[Detections | Abstention]:
        """One reply per query, in order."""
        return [self.detect_faces(query) for query in queries]

    def detect_faces(self, query: Detect) -> Detections | Abstention:
        """Boxes in fractions of the image. The cascade has no scores, so each box has score 1."""
        if query.phrases != ("face",):
            return Abstention(f"a face detector cannot find {query.phrases}")
        faces = self.cascade.detect_multi_scale(
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
                    face["c"],
                    face["r"],
                    face["c"] + face["width"],
                    face["r"] + face["height"],
                    query.image.size,
                    label="face",
                )
                for face in faces
            )
        )


source = data.astronaut()
hidden = source.copy()
hidden[40:210, 140:310] = cv2.GaussianBlur(source[40:210, 140:310], (0, 0), 25)

reward = Reward.of("edival-if", {**default_experts(), "detector": Faces()})
for name, edited in {"hidden": hidden, "unchanged": source}.items():
    (score,) = reward([EditSample(name, "Remove face", (Image.of(source),), Image.of(edited))])
    print(f"{name}: {score.value}  {score.reason}")
