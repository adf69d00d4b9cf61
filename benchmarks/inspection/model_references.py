"""References: published scores of a model, as TOML files in `references` or of the user."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ...reward.file_specs import require_trusted
from ...reward.toml_files import read_toml, tomllib
from ..common.errors import InputError

_FOLDER = "references"
Tolerance = Annotated[float, Field(gt=0)]


class ReferenceItem(BaseModel):
    """One query and its published result.

    query: `rate` (value: the rating of `quality` for `prompt`), `detect` (value: the score of the box for `label`, one
    of `phrases`, at `box`: left, top, right, bottom in pixels), `similarity` (value: the cosine of image and `text`) or
    `embed` (values: the first numbers of the class token). tolerance: maximum difference; box_tolerance: the same for
    the sides of a box, in pixels. url: of the image, if it is not below `images_url`. sha256: of its file, if known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    image: str
    query: Literal["rate", "detect", "similarity", "embed"] = "rate"
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
    url: str = ""
    sha256: str = ""

    @model_validator(mode="after")
    def _whole(self) -> ReferenceItem:
        missing = {
            "rate": self.value is None and "value",
            "detect": (not self.phrases and "phrases") or (self.value is None and "value"),
            "similarity": (not self.text and "text") or (self.value is None and "value"),
            "embed": not self.values and "values",
        }[self.query]
        if missing:
            raise ValueError(f"an item of {self.image} with the query {self.query} needs {missing}")
        if self.label and self.label not in self.phrases:
            raise ValueError(f"the label {self.label!r} is not one of the phrases {list(self.phrases)}")
        return self


class ModelReference(BaseModel):
    """Published scores of a model. expert: its spec. source: of the numbers.

    images_url: URL prefix of the image names. note: known reasons of differences.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    expert: str
    source: str
    images_url: str = ""
    note: str = ""
    item: tuple[ReferenceItem, ...] = Field(min_length=1)


def references() -> dict[str, str]:
    """Texts of the package's references by name."""
    folder = files(__package__ or "") / _FOLDER
    return {
        file.name.removesuffix(".toml"): file.read_text(encoding="utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".toml")
    }


def read_reference(name: str) -> ModelReference:
    """A reference by its name, or from a TOML file. Raises `InputError`, and `SpecError` for a file whose expert names
    what is neither installed nor trusted (see `file_specs`)."""
    if name.endswith(".toml"):
        try:
            table = read_toml(name)
        except OSError as error:
            raise InputError(f"cannot read {name}: {error.strerror}") from None
        except ValueError as error:
            raise InputError(f"{name} is not TOML: {error}") from None
    else:
        available = references()
        if name not in available:
            raise InputError(
                f"there is no reference {name!r}: there are {', '.join(available)}; or give your own TOML file"
            )
        table = tomllib.loads(available[name])
    try:
        reference = ModelReference.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join(map(str, first["loc"]))
        raise InputError(f"{name} is not a reference: {f'{location}: ' if location else ''}{first['msg']}") from None
    if name.endswith(".toml"):
        require_trusted(f"checked={reference.expert}", name, inside="experts")
    return reference
