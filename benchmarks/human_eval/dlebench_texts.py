"""What annotators of DLEBench read (paper, section 7): both criteria, their labels and the steps, in our words.

Where the document for annotators differs from the judge's prompts (another time of day, an edit that reaches beyond the
target) this follows the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

CRITERIA: Mapping[str, str] = MappingProxyType(
    {
        "following": "Was the right object edited, was it the edit that was asked for, and has the object kept all "
        "that the instruction does not name? The reference is one example of a right edit; the instruction decides.",
        "consistency": "Are the kind of place, the style and all objects but the target as in the source? Changes of "
        "the target do not count, and neither does what lies over the whole picture, such as a filter, other light or "
        "grain.",
    }
)
"""Dimension -> the question (section 7.1)."""

GUIDES: Mapping[str, str] = MappingProxyType(
    {
        "following": """\
Flawless Execution (4): the right object, the edit that was asked for, and all else about the object (shape, surface, \
build) as in the source.
Over Modification (3): edited as asked, but details of the object that nobody named are lost or different, or a new \
object does not go with the picture's style or cannot be recognised.
Wrong Action (2): the right object, but another kind of edit, the opposite of what was asked for, or a wrong number of \
objects.
Localization Failure (1): the object has not undergone the edit, or is too blurred to tell.

1. Was it the right place? Differing pixels prove nothing: where the intended edit has not come about, where blur \
hides whether it has, where the edit plainly reaches beyond the target, or where only a wrong part of the object was \
edited: Localization Failure.
2. Was it the right action? Go by the words, with the reference as a help. Where objects are to become fewer or more, \
not exactly the number that was named is Wrong Action. A removed object's place may be filled in.
3. Has the object kept the rest? If it is distorted or changed in ways that nobody asked for: Over Modification. \
Neighbours that went with a removed object, or changed around a recognisable replacement, do not count. Where the edit \
can be seen, but blur hides whether the rest was kept, it is Over Modification, too.
Several targets: judge each by itself; the worst label counts.
Example: a kiosk was to turn from green to blue. It is blue, and its sign has other letters now: Over Modification.""",
        "consistency": """\
Perfect Consistency (4): the same picture but for the target.
Single Anomaly (3): exactly one other object or detail is changed, missing, distorted or new.
Multiple Anomalies (2): two or more are.
Scene Collapse (1): another kind of place or another style altogether.

1. Leave the target out. If it looks like another place, another time of day or another medium: Scene Collapse. \
Changed objects or a changed layout alone are none.
2. Go over the rest and count what is missing, distorted, changed or new: none is Perfect Consistency, one Single \
Anomaly, two or more Multiple Anomalies.
Example: beside a recoloured hat, one passer-by wears another coat and another has no face: Multiple Anomalies.""",
    }
)
"""Dimension -> labels (tables 3 and 5), and steps, notes and an example (section 7.3, figure 9)."""
