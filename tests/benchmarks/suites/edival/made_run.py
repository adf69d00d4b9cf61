"""A made run in EdiVal's released layout: instruction file, pictures, and the answers of all models as a function. The
released code was run on it once, with these answers in place of its models (`tests/golden/README.md`); here they are
experts. Every picture has a corner of one colour, by which it is known at any size."""

import csv
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from editcritic.benchmarks.suites.edival.reader import COLUMNS, CSV
from editcritic.reward import Box, Expert, Image
from editcritic.reward.queries.answers import Detections, Measurement, Outcome, RecognizedText
from editcritic.reward.queries.kinds import Detect, Judge, Rate, ReadText
from editcritic.reward.queries.response_formats import Reply

Row = tuple[float, float, float, float, float]
"""A box: centre, size, score."""

READ = "  We are OPEN  "
"""What a reader reads in any picture."""


@dataclass(frozen=True)
class Turn:
    """A row of the instruction file. form: with slots in brackets. sentence: by default the form without brackets."""

    type: str
    form: str
    all: tuple[str, ...]
    unchanged: tuple[str, ...] = ()
    sentence: str = ""
    background: bool = True

    @property
    def instruction(self) -> str:
        return self.sentence or self.form.replace("[", "").replace("]", "")


_OBJECTS = ("red cup", "hatted bird", "dogs", "sign")


def _background(name: str, unchanged: str, sentence: str) -> Turn:
    whole = f"Change the background to {sentence} unchanged"
    return Turn(
        "background_change", f"Change the background to [{name}]", _OBJECTS, (unchanged,), whole, background=False
    )


RUN: dict[int, tuple[Turn, Turn, Turn]] = {
    0: (
        Turn("subject_add", "Add [a vase with flowers] on the [left] of [red cup]", _OBJECTS, ("red cup", "dogs")),
        Turn("subject_remove", "Remove [hatted bird]", _OBJECTS, ("dogs", "red cup", "sign")),
        Turn("position_change", '"Change the position of [red cup] to [right] of [the dogs]"', _OBJECTS, ("sign",)),
    ),
    1: (
        Turn("count_change", '"Change the count of [dogs] to [2]"', _OBJECTS, ("sign", "red cup")),
        Turn("subject_replace", "Replace [vase with flowers] with [red, blue]", _OBJECTS, ("dogs", "sign")),
        Turn("text_change", "Replace the text '[SALE]' on [sign] with '[open]'", _OBJECTS, ()),
    ),
    4: (
        Turn("color_alter", "Change the color of [red cup] to [light blue]", ()),
        Turn("text_change", "Add text '[are open ]' on the image", ("text",), ("red cup", "dogs")),
        Turn("material_alter", "Change the material of [dogs] to [metal]", _OBJECTS, ("red cup", "hatted bird")),
    ),
    7: (
        _background("beach", "dogs", "beach, remain the dogs, red cup"),
        _background("forest", "dogs", "[a dark, deep forest], remain the dogs"),
        Turn("subject_remove", "Remove [TV St. Stand]", _OBJECTS, ("dogs",), background=False),
    ),
    9: (
        _background("snow", "sign", "[snow], remain the [dogs]"),
        Turn("count_change", "Change the count of [red cup] to [0]", _OBJECTS, ("sign",), background=False),
        Turn("position_change", "Change the position of [dogs] to [above] of [sign]", _OBJECTS, background=False),
    ),
}
"""Chains by image index."""

_SIZES = {0: (512, 512), 1: (400, 300), 4: (512, 512), 7: (256, 384), 9: (512, 512)}


# -- files ------------------------------------------------------------------------------------------------------------


def write_run(folder: Path) -> tuple[Path, Path]:
    """Write instruction file, base pictures and outputs of both modes; the folders of the data and of the outputs."""
    data, outputs = folder / "data", folder / "outputs"
    data.mkdir(parents=True)
    with (data / CSV).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for index, turns in RUN.items():
            for number, turn in enumerate(turns, start=1):
                done = turns[:number]
                lists = [[one.type for one in done], [one.instruction for one in done], [one.form for one in done]]
                pools = [list(turn.unchanged), list(turn.all), list(turn.all)]
                writer.writerow([index, number, *lists, turn.background, *pools])
    for mode in ("multipass", "singlepass"):
        (outputs / mode).mkdir(parents=True)
    for index in RUN:
        for number in range(4):
            name = f"{index}_input_raw" + (f"_turn_{number}" if number else "")
            picture = PIL.Image.fromarray(pixels(index, number))
            for place in (outputs / "multipass", outputs / "singlepass", *([] if number else [data])):
                picture.save(place / f"{name}.png")
    return data, outputs


def pixels(index: int, turn: int) -> NDArray[np.uint8]:
    """Stripes and a bright disc, which an editor changed a little more in each turn."""
    width, height = _SIZES[index]
    y, x = np.mgrid[:height, :width]
    wave = np.sin(x / (9 + index)) + np.cos(y / (13 + turn))
    disc = (x - width / 2) ** 2 + (y - height / 2) ** 2 < (20 + 30 * turn) ** 2
    planes = [128 + 40 * wave + 9 * turn, 100 + 10 * index + 30 * np.cos(x / 31), 60 + 5 * wave]
    drawn = np.stack([np.where(disc, 251 - 7 * turn, plane) for plane in planes], axis=2).clip(0, 255).astype(np.uint8)
    drawn[: height // 4, : width // 4] = _CORNER * (index + 1), 60 * turn, 10
    return drawn


_CORNER = 25


def known_as(corner: Sequence[int]) -> str:
    """The picture whose first pixel this is, as `index/turn`; JPEG may have changed it a little."""
    return f"{round(corner[0] / _CORNER) - 1}/{round(corner[1] / 60)}"


# -- answers ----------------------------------------------------------------------------------------------------------


def _draws(text: str) -> list[int]:
    return list(hashlib.sha512(text.encode()).digest())


def rows(picture: str, phrase: str) -> list[Row]:
    """The boxes of a phrase, (cx, cy, w, h, score) in 1/1024, some nearly alike, in no order of scores."""
    draws = _draws(f"{picture.partition('/')[0]} {phrase}")  # much is where it was in the picture before
    moved = _draws(f"{picture} {phrase}")
    found: list[Row] = []
    for number in range(draws[0] % 4):
        a, b, c, d, e, *_ = draws[8 * number + 1 :]
        if moved[number] % 7 == 0:
            continue
        x = 200 + moved[number + 8] if moved[number] % 3 == 0 else 300 + a
        near = ((x, 300 + 2 * e), (x + 12, 400 + c), (x + 24, 330 + d))
        found += [
            (cx / 1024, (300 + b) / 1024, (160 + c) / 1024, (160 + d) / 1024, score / 1024)
            for cx, score in (near if e % 2 else near[:1])
        ]
    return found


def labelled_rows(picture: str, names: Sequence[str]) -> list[tuple[str, Row]]:
    """The boxes of a prompt of one or several names; those of several are mixed."""
    labelled = [(name, row) for name in names for row in rows(picture, name)]
    return labelled if len(names) == 1 else sorted(labelled, key=lambda one: _draws(f"{one}"))


def verdict(topic: str, picture: str) -> str:
    """The judge's answer about an edited picture."""
    return ("Yes.", "yes", "No", "It is: YES", "Yesterday", "no")[_draws(f"{topic} {picture}")[0] % 6]


def core_name(name: str) -> str:
    return {"red cup": '["Cup"]', "the dogs": "  ", "dogs": "'Dogs'"}.get(name, name)


def rating(prompt: str, picture: str) -> float:
    return len(prompt) / 7 + _draws(picture)[0] / 300


# -- as experts -------------------------------------------------------------------------------------------------------


class MadeAnswers(Expert):
    """Detector, judge, reader and preference expert of the run."""

    id = "answers of a made run"
    kinds: ClassVar[tuple[Any, ...]] = (Detect, Judge, ReadText, Rate)

    def __call__(self, queries: Sequence[Any]) -> list[Outcome]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Any) -> Outcome:
        match query:
            case Detect(image, names):
                return _detections(labelled_rows(_picture(image), names))
            case Judge() if query.images:
                return Reply(verdict(query.topic.removeprefix("edival/"), _picture(query.images[-1])))
            case Judge():
                return Reply(core_name(dict(query.slots)["object"]))
            case ReadText():
                return RecognizedText.without_boxes(READ)
            case Rate(image, prompt):
                return Measurement(rating(prompt, _picture(image)))
            case _:
                raise AssertionError(f"nobody is to ask {query}")


def _detections(labelled: Sequence[tuple[str, Row]]) -> Detections:
    return Detections(tuple(Box(*row, name) for name, row in labelled))


def _picture(image: Image) -> str:
    return known_as([int(value) for value in image.pixels[0, 0]])
