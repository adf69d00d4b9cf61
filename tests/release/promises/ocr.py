"""`ocr` reads text in pictures, which the default reward needs: it scores without further options."""

import cv2
import numpy as np

from editcritic.reward import Image
from editcritic.reward.experts.rapid_ocr import RapidOcr
from editcritic.reward.queries import ReadText

from .commands import BOXES, INSTRUCTION, draw, editcritic

page = np.full((120, 480, 3), 255, np.uint8)
cv2.putText(page, "OPEN DAILY", (30, 80), cv2.FONT_HERSHEY_SIMPLEX, 2.0, (0, 0, 0), 4)
reader = RapidOcr()
reader.load()
(read,) = reader([ReadText(Image.of(page))])
assert "OPEN" in str(read), read
draw()
editcritic("doctor", "--experts", "cpu")
assert "1.00" in editcritic("score", "before.png", "after.png", INSTRUCTION, "--boxes", BOXES)
