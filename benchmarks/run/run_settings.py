"""The settings of `bench run`: read from a TOML file, overridden by options, and written beside the results.

Paths in a file are relative to it. The file that a run writes has every setting as it was used, so that
`editcritic bench run --config OUT/run.toml` repeats the run.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl

from pydantic import AfterValidator, BeforeValidator, Field

from ...reward.atomic_files import write_atomically
from ...reward.file_specs import require_own_folder, require_trusted
from ...reward.reward import OnFailures
from ...reward.strict_json import MAX_INTEGER
from ..common.defaults import BOOTSTRAP_SAMPLES
from ..common.settings_files import Settings, read_table, settings_of
from .ray_cluster import RayCluster
from .run_budget import BudgetLimits
from .run_journal import JOURNAL_FOLDER


def format_toml(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> str:
    """A table as TOML, nested tables below. None is omitted: TOML has no null."""
    entries = "".join(
        f"{_key(name)} = {_value(value)}\n"
        for name, value in table.items()
        if value is not None and not isinstance(value, Mapping)
    )
    tables = [(name, value) for name, value in table.items() if isinstance(value, Mapping)]
    head = f"[{'.'.join(map(_key, path))}]\n" if path and (entries or not tables) else ""
    blocks = [format_toml(value, (*path, name)) for name, value in tables]
    return "\n".join(filter(None, [head + entries, *blocks]))


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            "{"
            + ", ".join(f"{_key(name)} = {_value(element)}" for name, element in value.items() if element is not None)
            + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(element) for element in value) + "]"
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if name and name.isascii() and name.replace("_", "").replace("-", "").isalnum() else _text(name)


MAX_BOOTSTRAP_SAMPLES = 100_000
"""Ten million numbers for a hundred cases."""

SETTINGS_FILE = "run.toml"
_HEAD = """# The settings of a run as used. Repeat it: editcritic bench run --config THIS
# Paths are relative to this file. docs/suites.md describes the keys.
"""

DECIDED_BY_LOCK = ("suite", "experts", "protocol", "metrics", "reproducible", "bootstrap_samples", "seed")
"""Settings that a locked protocol contains: a run under a lock takes none of them."""

_PATHS = ("data", "outputs", "out", "lock", "journal")
_WRITTEN = ("out", "journal")


class BudgetSettings(Settings):
    """Limits of the run; see `BudgetLimits`."""

    judge_calls: int | None = Field(default=None, gt=0, description="Queries to judges, over all runs of the journal.")
    seconds: float | None = Field(default=None, gt=0, description="Seconds of this run.")
    cost: float | None = Field(
        default=None, gt=0, description="Cost in the unit of `prices`, over all runs of the journal."
    )


def _one_or_many(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _path_of(path: Path) -> Path:
    if "\0" in str(path):
        raise ValueError("a path has no null character")
    return path


_Path = Annotated[Path, AfterValidator(_path_of)]


class RunSettings(Settings):
    """All settings of a run, by their keys in the file. None: not given. suite, data, outputs, editor_name, experts,
    protocol, metrics, reproducible, bootstrap_samples and seed decide the numbers; the others say how and where they
    are made."""

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
    bootstrap_samples: int = Field(
        default=BOOTSTRAP_SAMPLES, ge=0, le=MAX_BOOTSTRAP_SAMPLES, description="For the intervals; 0 disables them."
    )
    seed: int = Field(default=0, ge=0, le=MAX_INTEGER, description="Seed of the bootstrap.")
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
    ray: RayCluster | None = Field(default=None, description="Score on a Ray cluster with Ray Data.")

    @property
    def limits(self) -> BudgetLimits:
        return BudgetLimits(**self.budget.model_dump())

    @property
    def editor(self) -> str:
        """The editor's name in tables; empty without outputs."""
        return self.editor_name or ("" if self.outputs is None else self.outputs.resolve().name)

    @property
    def journal_folder(self) -> Path | None:
        return self.journal or (None if self.out is None else self.out / JOURNAL_FOLDER)

    def overridden(self, options: Mapping[str, Any], location: str = "bench run") -> RunSettings:
        """These settings with others in their place. Raises `InputError`, which names the location."""
        own = {name: getattr(self, name) for name in self.model_fields_set}
        return settings_of(RunSettings, {**own, **options}, location)

    def invocation(self, out: Path) -> dict[str, Any]:
        """The `invocation` of `run.json`: paths are relative to the result folder. Empty for a suite without a spec."""
        if self.suite is None:
            return {}
        paths = {name: getattr(self, name) for name in ("data", "outputs")}
        return {
            "suite": self.suite,
            **{name: None if path is None else relative_path(path, out) for name, path in paths.items()},
            "experts": self.experts if isinstance(self.experts, Mapping) else list(self.experts),
            "metrics": list(self.metrics),
        }

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

    Those that count may name only what is installed or trusted; results and journal lie in the file's folder or a
    trusted one. Raises `InputError` or `SpecError`.
    """
    settings = settings_of(RunSettings, read_table(path), str(path))
    _require_trusted(settings, path, typed)
    moved: dict[str, Any] = {
        name: path.parent / getattr(settings, name) for name in _PATHS if getattr(settings, name) is not None
    }
    if not isinstance(settings.experts, Mapping) and settings.experts:
        moved["experts"] = _move_files(settings.experts, lambda file: str(path.parent / file))
    return settings.overridden(moved)


def option_tables(metrics: Sequence[Any]) -> list[dict[str, str]]:
    """The options of metrics from a file, as `require_trusted` reads them."""
    texts = [text.partition("?")[2] for text in metrics if isinstance(text, str)]
    return [{"use": "", **dict(parse_qsl(query))} for query in texts]


def relative_path(path: Path, start: Path) -> str:
    """A path relative to a folder; absolute if there is none, as between drives."""
    try:
        return Path(os.path.relpath(path.resolve(), start.resolve())).as_posix()
    except ValueError:
        return str(path.resolve())


def _require_trusted(settings: RunSettings, path: Path, typed: Collection[str]) -> None:
    specs = {name: getattr(settings, name) for name in ("suite", "experts") if name not in typed}
    specs["metrics"] = [] if "metrics" in typed else option_tables(settings.metrics)
    specs["ray"] = {} if settings.ray is None else settings.ray.foreign
    require_trusted(specs, path)
    written = {name: None if name in typed else getattr(settings, name) for name in _WRITTEN}
    if written["out"] is not None and settings.journal is None and "journal" not in typed:
        written["journal"] = written["out"] / JOURNAL_FOLDER  # may be a link
    for name, folder in written.items():
        if folder is not None:
            require_own_folder(name, folder, path)


def write_run_settings(settings: RunSettings, folder: Path) -> None:
    """Write the settings as used to `run.toml`. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / SETTINGS_FILE, settings.overridden({"editor_name": settings.editor}).to_toml(folder))


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
