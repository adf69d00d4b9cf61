"""Score edits of a photograph with the experts that need no download.

pip install 'editcritic[ocr,bench]'
python examples/score_an_edit.py
"""

import cv2
import numpy as np
from skimage import data

from editcritic.reward import score

source = data.coffee()
cup = {"coffee": [(205, 95, 370, 195)], "spoon": [(316, 67, 425, 326)]}

# One edit turns only the coffee green; the other one turns the whole image green.
mask = cv2.ellipse(np.zeros(source.shape[:2], np.uint8), (286, 145), (82, 50), 0, 0, 360, 255, -1)
lab = cv2.cvtColor(source, cv2.COLOR_RGB2LAB)
lab[..., 1:] = (85, 165)
green = cv2.cvtColor(lab, cv2.COLOR_LAB2RGB)
careful = np.where(mask[..., None] > 0, green, source)

for name, edited in {"careful": careful, "careless": green, "a copy": source}.items():
    result = score(source, edited, "Change the color of coffee to green", boxes=cup)
    print(f"{name:>8}: {result.value:.3f}  {result.reason}")
