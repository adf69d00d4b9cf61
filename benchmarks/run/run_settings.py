"""The settings of `bench run`: read from a TOML file, overridden by options, and written beside the results.

Paths in a file are relative to it. The file that a run writes has every setting as it was used, so that
`editcritic bench run --config OUT/run.toml` repeats the run.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ...reward.atomic_files import write_atomically
from ...reward.file_specs import require_trusted
from ...reward.reward import OnFailures
from ...reward.toml_files import read_toml
from ...reward.trust import is_trusted_file, is_trusted_path
from ..common.defaults import BOOTSTRAP_SAMPLES
from ..common.errors import InputError
from ..common.toml_format import format_toml
from .run_journal import JOURNAL_FOLDER
from .run_spec import option_tables, relative_path

SETTINGS_FILE = "run.toml"
_HEAD = """# The settings of a run as used. Repeat it: editcritic bench run --config THIS
# Paths are relative to this file. docs/suites.md describes the keys.
"""

DECIDED_BY_LOCK = ("suite", "experts", "protocol", "metrics", "reproducible", "bootstrap_samples", "seed")
"""Settings that a locked protocol contains: a run under a lock takes none of them."""

_PATHS = ("data", "outputs", "out", "lock", "journal")
_WRITTEN = ("out", "journal")
OWN_CLUSTERS = (None, "auto", "local")
"""Addresses by which Ray finds or starts a cluster of the user's own."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class BudgetSettings(_Table):
    """Limits of the run; see `BudgetLimits`."""

    judge_calls: int | None = Field(default=None, gt=0, description="Queries to judges, over all runs of the journal.")
    seconds: float | None = Field(default=None, gt=0, description="Seconds of this run.")
    cost: float | None = Field(
        default=None, gt=0, description="Cost in the unit of `prices`, over all runs of the journal."
    )


class RaySettings(_Table):
    """Scoring on a Ray cluster; see `RayCluster`."""

    address: str | None = Field(
        default=None, description="Address of the cluster; by default this machine's, or a new one."
    )
    workers: int = Field(default=2, gt=0, description="Number of scoring actors.")
    cpus: float = Field(default=1.0, ge=0, description="CPUs per actor.")
    gpus: float = Field(default=0.0, ge=0, description="GPUs per actor.")


def _one_or_many(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _path_of(path: Path) -> Path:
    if "\0" in str(path):
        raise ValueError("a path has no null character")
    return path


_Path = Annotated[Path, AfterValidator(_path_of)]


class RunSettings(_Table):
    """All settings of a run, by their keys in the file. None: not given."""

    suite: str | dict[str, Any] | None = Field(default=None, description="The suite, with options as in `SUITE`.")
    data: _Path | None = Field(default=None, description="Folder of the suite's data.")
    outputs: _Path | None = Field(default=None, description="Folder of the editor's outputs.")
    out: _Path | None = Field(default=None, description="Result folder.")
    editor_name: str | None = Field(default=None, description="Name in tables; by default that of the outputs folder.")
    lock: _Path | None = Field(default=None, description="Locked protocol; it decides the settings marked with L.")
    experts: Annotated[tuple[str, ...] | dict[str, Any], BeforeValidator(_one_or_many)] = Field(
        default=(), description="As `--experts`: a text, a list of texts, or a table that binds these roles only."
    )
    protocol: str | None = Field(default=None, description="Named variant of the suite's metrics.")
    metrics: tuple[str, ...] = Field(default=(), description="Only these metrics; by default all.")
    reproducible: bool = Field(default=False, description="One query per call of a local model.")
    bootstrap_samples: int = Field(default=BOOTSTRAP_SAMPLES, ge=0, description="For the intervals; 0 disables them.")
    seed: int = Field(default=0, description="Seed of the bootstrap.")
    journal: _Path | None = Field(
        default=None, description="Folder of rows and answers; by default `journal` in `out`."
    )
    max_in_flight: int = Field(default=256, gt=0, description="Items in flight; bounds memory.")
    max_failure_rate: float = Field(default=0.5, ge=0, le=1, description="Maximum tolerated fraction of failed scores.")
    on_failures: OnFailures = Field(
        default="raise", description="Above that rate: raise (stop), none (continue) or wait."
    )
    outage_timeout_s: float = Field(default=3600.0, gt=0, description="Seconds that `wait` waits for the experts.")
    allow_partial: bool = Field(
        default=False, description="Write results even if the run ends early, marked as partial."
    )
    budget: BudgetSettings = Field(default=BudgetSettings(), description="Limits.")
    prices: dict[str, Annotated[float, Field(ge=0, le=1e9)]] = Field(
        default={}, description="Role -> price of one call."
    )
    ray: RaySettings | None = Field(default=None, description="Score on a Ray cluster with Ray Data.")

    def overridden(self, options: Mapping[str, Any]) -> RunSettings:
        """These settings with others in their place. Raises `InputError`."""
        own = {name: getattr(self, name) for name in self.model_fields_set}
        return _validated({**own, **options}, "bench run")

    def require_nothing_locked(self) -> None:
        """Raise `InputError` if a setting is given that the lock decides."""
        if conflicting := [name for name in DECIDED_BY_LOCK if name in self.model_fields_set]:
            raise InputError(
                f"the lock decides {', '.join(conflicting)}: leave {'them' if len(conflicting) > 1 else 'it'} out of "
                "options and configuration, or run without the lock"
            )

    def to_toml(self, folder: Path) -> str:
        """The settings as used, for a file in the folder."""
        table = self.model_dump(exclude=set(DECIDED_BY_LOCK) if self.lock is not None else None)
        texts: dict[str, Any] = {name: relative_path(table[name], folder) for name in _PATHS if table[name] is not None}
        experts = table.get("experts")
        if isinstance(experts, tuple):
            texts["experts"] = _move_files(experts, lambda file: relative_path(file, folder))
        return _HEAD + "\n" + format_toml({**table, **texts})


def read_run_settings(path: Path, typed: Collection[str] = ()) -> RunSettings:
    """Settings of a file, with its paths made relative to the working directory. typed: settings that are overridden.

    Those that count may name only what is installed or trusted (see `file_specs`). Of the paths, data, outputs and lock
    are only read, each as what it is; results and journal are written, and lie in the file's folder or a trusted one.
    Raises `InputError` or `SpecError`.
    """
    try:
        table = read_toml(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path} is not TOML: {error}") from None
    settings = _validated(table, str(path))
    _require_trusted(settings, path, typed)
    moved: dict[str, Any] = {
        name: path.parent / getattr(settings, name) for name in _PATHS if getattr(settings, name) is not None
    }
    if not isinstance(settings.experts, Mapping) and settings.experts:
        moved["experts"] = _move_files(settings.experts, lambda file: str(path.parent / file))
    return settings.overridden(moved)


def _require_trusted(settings: RunSettings, path: Path, typed: Collection[str]) -> None:
    specs = {name: getattr(settings, name) for name in ("suite", "experts") if name not in typed}
    specs["metrics"] = [] if "metrics" in typed else option_tables(settings.metrics)
    address = None if settings.ray is None else settings.ray.address
    if address not in OWN_CLUSTERS:
        specs["ray"] = {"address": address}
    require_trusted(specs, path)
    written = {name: None if name in typed else getattr(settings, name) for name in _WRITTEN}
    if written["out"] is not None and settings.journal is None and "journal" not in typed:
        written["journal"] = written["out"] / JOURNAL_FOLDER  # may be a link
    for name, folder in written.items():
        if folder is None or is_trusted_file(path) or is_trusted_path(path.parent / folder):
            continue
        if not (path.parent / folder).resolve().is_relative_to(path.parent.resolve()):
            raise InputError(
                f"{path} would write {name} to {path.parent / folder}: files write in their own folder only; if you "
                f"trust that, add `--trust {shlex.quote(str(path.parent / folder))}`, or give another --{name}"
            )


def write_run_settings(settings: RunSettings, folder: Path) -> None:
    """Write the settings as used to `run.toml`. Raises OSError."""
    write_atomically(folder / SETTINGS_FILE, settings.to_toml(folder))


def _move_files(experts: tuple[str, ...], move: Callable[[Path], str]) -> tuple[str, ...]:
    """The texts of `experts`, with the TOML files among their words named from another folder."""
    moved = []
    for text in experts:
        try:
            words = shlex.split(text)
        except ValueError:  # refused with a reason where experts are bound
            words = []
        if any(map(_is_file, words)):
            text = shlex.join(move(Path(word)) if _is_file(word) else word for word in words)
        moved.append(text)
    return tuple(moved)


def _is_file(word: str) -> bool:
    return word.endswith(".toml") and "=" not in word


def _validated(table: Mapping[str, Any], location: str) -> RunSettings:
    try:
        return RunSettings.model_validate(table)
    except ValidationError as error:
        problems = [_problem(one["loc"], one["type"], one["msg"], one["input"]) for one in error.errors()]
        raise InputError(f"{location}: {'; '.join(dict.fromkeys(problems))}") from None


def _problem(location: tuple[int | str, ...], kind: str, message: str, value: object) -> str:
    path = location[:1] if location[0] in ("suite", "experts") else location  # below stand the types of the union
    name = ".".join(map(str, path))
    if kind != "extra_forbidden":
        return f"{name}: {message[:1].lower()}{message[1:]}, got {value!r}"
    tables: dict[str, type[BaseModel]] = {"budget": BudgetSettings, "ray": RaySettings}
    known = RunSettings if len(location) == 1 else tables[str(location[0])]
    return f"unknown key {name}: the keys are {', '.join(known.model_fields)}"
