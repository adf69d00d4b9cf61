"""Where text stands in an image."""

from __future__ import annotations

from ..engine.program import Failed, Program, ask
from ..image import Image
from ..queries.kinds import ReadText, TextLine
from ..queries.outcomes import Failure

READER = "reader.boxes"
"""The role of a reader that localises what it reads. A vision-language model, which reads best, does not."""


def read_places(image: Image) -> Program[tuple[TextLine, ...]]:
    """The lines of text in an image, each with its box.

    Raises `Failed` for lines of a reader that does not localise text: the box of each is the whole image, and nothing
    could be said about the rest of it.
    """
    reading = yield from ask(ReadText(image), role=READER)
    if not reading.is_localised:
        reason = (
            f"the text is needed with its places, and the reader gives none: bind one that does to {READER}, such as "
            f"{READER}=rapidocr"
        )
        raise Failed(reason, (Failure(reason, infrastructure=True),))
    return reading.lines
