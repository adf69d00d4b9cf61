"""References: scores that are published of a model, as TOML files in `references` and of one's own."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ..reward.toml import tomllib
from .inputs import InputError

_FOLDER = "references"
Tolerance = Annotated[float, Field(gt=0)]


class Item(BaseModel):
    """One question, and what is published as its answer.

    ask: `rate` (value: the rating of `quality` for `prompt`), `detect` (value: the score of the box for `label`, one of
    `phrases`, that lies at `box`: left, top, right, bottom in pixels), `nearness` (value: the cosine between picture
    and `text`) or `features` (values: the first numbers of the class token). tolerance: how far off is still the same;
    box_tolerance: likewise of a box's sides, in pixels. where: the address of the picture, if it is not with the
    others. sha256: of its file, where it is known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    picture: str
    ask: Literal["rate", "detect", "nearness", "features"] = "rate"
    sources: tuple[str, ...] = ()
    prompt: str = ""
    quality: str = "preference"
    phrases: tuple[str, ...] = ()
    label: str = ""
    box: tuple[float, float, float, float] | None = None
    box_tolerance: Tolerance = 2.0
    text: str = ""
    value: float | None = None
    values: tuple[float, ...] = ()
    tolerance: Tolerance
    where: str = ""
    sha256: str = ""

    @model_validator(mode="after")
    def _whole(self) -> Item:
        lacking = {
            "rate": self.value is None and "value",
            "detect": (not self.phrases and "phrases") or (self.value is None and "value"),
            "nearness": (not self.text and "text") or (self.value is None and "value"),
            "features": not self.values and "values",
        }[self.ask]
        if lacking:
            raise ValueError(f"an item of {self.picture} that asks {self.ask} needs {lacking}")
        if self.label and self.label not in self.phrases:
            raise ValueError(f"the label {self.label!r} is none of the phrases {list(self.phrases)}")
        return self


class Reference(BaseModel):
    """What is published of a model. expert: the spec that it is asked by. source: where the numbers stand.

    pictures: the address that the names of pictures are added to. note: what to know before a difference is worried
    about.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    expert: str
    source: str
    pictures: str = ""
    note: str = ""
    item: tuple[Item, ...] = Field(min_length=1)


def references() -> dict[str, str]:
    """Text of those that come with the package, by name."""
    folder = files(__package__ or "") / _FOLDER
    return {
        one.name.removesuffix(".toml"): one.read_text(encoding="utf-8")
        for one in sorted(folder.iterdir(), key=lambda one: one.name)
        if one.name.endswith(".toml")
    }


def read(name: str) -> Reference:
    """A reference by its name, or from a TOML file. Raises `InputError`."""
    if name.endswith(".toml"):
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read {name}: {getattr(error, 'strerror', None) or error}") from None
    else:
        known = references()
        if name not in known:
            raise InputError(
                f"nothing is published here of {name!r}: there are {', '.join(known)}; a TOML file of your own will do"
            )
        text = known[name]
    try:
        return Reference.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name} is not TOML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"]))
        raise InputError(f"{name} is no reference: {f'{at}: ' if at else ''}{first['msg']}") from None
