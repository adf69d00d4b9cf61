"""Rewards that are plain functions, as users have them, with known faults."""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from editcritic.reward import EditSample, ImageError, Score


def contrast(samples: Sequence[EditSample]) -> list[float]:
    """Pays what has more contrast."""
    return [float(sample.edited.pixels.std()) / 128 for sample in samples]


def talkative(samples: Sequence[EditSample]) -> list[float]:
    """`contrast`, which prints what it does."""
    print(f"scoring {len(samples)} samples")  # noqa: T201
    return contrast(samples)


def contrast_of_pictures(sources: list[Any], edits: list[Any], instructions: list[str]) -> list[float]:
    """The same, of PIL images."""
    assert all(edit.mode == "RGB" for edit in edits)
    assert len(sources) == len(edits) == len(instructions)
    return [float(np.asarray(edit).std()) / 128 for edit in edits]


def slow_contrast(samples: Sequence[EditSample], calls: list[int] = []) -> list[float]:  # noqa: B006
    """`contrast`, which says on standard output when it is called for the third time, and sleeps then."""
    calls.append(len(samples))
    if len(calls) == 3:
        sys.stdout.write("third call\n")
        sys.stdout.flush()
        time.sleep(20)
    return contrast(samples)


def broken(samples: Sequence[EditSample]) -> list[float]:
    raise RuntimeError("no GPU is left \x1b[2J <script>alert(1)</script>")


def unplugged(samples: Sequence[EditSample]) -> list[float]:
    """As of a server of the user's that went down after the edits."""
    if any("/" in sample.id for sample in samples):
        raise ConnectionError("nobody is there")
    return contrast(samples)


def posted(samples: Sequence[EditSample]) -> list[float]:
    """As of a client of the user's that takes a picture that cannot be read for an outage."""
    try:
        return contrast(samples)
    except ImageError as error:
        raise ConnectionError("the upload ended early") from error


def down_in_the_search(samples: Sequence[EditSample]) -> list[float]:
    """As of a server of the user's that cannot be reached for some pictures after the audit."""
    if any(sample.id.endswith(("/search/1", "/search/7")) for sample in samples):
        raise ConnectionError("nobody is there")
    return contrast(samples)


def lowest(samples: Sequence[EditSample]) -> list[Score]:
    """Pays the lowest for all, as a guard that rejects everything."""
    return [replace(Score.of(0.0), cause="guard") for _ in samples]


NUMBER = 3
