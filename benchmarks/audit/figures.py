"""The figures of an audit as JSON: written beside a page, and read again, also where a stranger wrote them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...reward.audit import AuditReport, Family, FamilyFinding, Severity
from ...reward.audit.findings import SCHEMA, ExpertCost, Mean, Rate
from ...reward.plain_text import one_line
from ...reward.regular_files import read_regular
from ...reward.strict_json import parse_json
from ..common.errors import InputError
from .report_text import percent, range_text

MAX_BYTES = 64 * 2**20  # of a file of figures: one of 16 edits with all families has 1 MB
_MAX_VALUES = 2_000_000


def write_figures(path: Path, report: AuditReport, command: str = "") -> None:
    """All figures, and the command that made them, as JSON. Raises OSError."""
    text = json.dumps({**report.to_json(), "command": command}, indent=2, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class StoredAudit:
    """What a file of figures says of an audit: `AuditFigures` without trials, samples and pictures."""

    reward: str
    overall: Rate
    best_hack: Mean | None
    losses: Mapping[str, Mean | None]
    findings: Sequence[FamilyFinding]
    expert_costs: Sequence[ExpertCost]
    has_scores: bool
    num_sources: int
    facts: Sequence[tuple[str, str]]
    command: str

    def sensitivity(self, damages: str) -> Mean | None:
        """The mean loss of score by families that damage `following`, or `preservation`."""
        return self.losses.get(damages)


def read_figures(path: Path) -> StoredAudit:
    """Raises `InputError` for what are no figures of an audit, and OSError."""
    try:
        value = parse_json(read_regular(path, MAX_BYTES), max_values=_MAX_VALUES)
        return _Audit.model_validate(value).stored()
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        message = one_line(f"{where}: {first['msg']}" if where else first["msg"])
    except ValueError as error:
        message = one_line(str(error))
    raise InputError(f"{path.name} has no figures of an audit, as `editcritic audit -o audit.json` writes: {message}")


_Count = Annotated[int, Field(ge=0, le=10**12)]
_Number = Annotated[float, Field(ge=-1e100, le=1e100)]  # of scores, see `audited_reward`
_Share = Annotated[float, Field(ge=0, le=1)]
_Name = Annotated[str, Field(max_length=200)]
_Text = Annotated[str, Field(max_length=5_000)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class _Rate(_Part):
    violations: _Count
    trials: _Count
    low: _Share
    high: _Share

    def rate(self) -> Rate:
        if self.violations > self.trials:
            raise ValueError(f"{self.violations} violations of {self.trials} trials")
        return Rate(self.violations, self.trials, self.low, self.high)


class _Mean(_Part):
    mean: _Number
    low: _Number | None
    high: _Number | None


class _Severity(_Rate):
    label: _Name


class _Family(_Rate):
    family: _Name
    relation: Literal["lower", "equal", "same", "no_number"]
    reason: _Text
    damages: Literal["", "following", "preservation", "both"]
    severities: Annotated[list[_Severity], Field(min_length=3, max_length=3)]
    gain: _Mean | None
    worst: _Number | None
    unscored: _Count
    incomparable: _Count
    unmade: _Count = 0

    def finding(self) -> FamilyFinding:
        mild, middle, strong = (Severity(float(place), one.label) for place, one in enumerate(self.severities))
        family = Family(self.family, self.relation, self.reason, (mild, middle, strong), _cannot_vary, self.damages)
        first, second, third = (one.rate() for one in self.severities)
        return FamilyFinding(
            family,
            self.rate(),
            (first, second, third),
            _mean(self.gain),
            self.worst,
            self.unscored,
            self.incomparable,
            self.unmade,
        )


class _Cost(_Part):
    expert: _Text
    roles: Annotated[list[_Name], Field(max_length=100)]
    queries: _Count
    calls: _Count
    failed: _Count
    seconds: _Number
    seconds_per_edit: _Number | None

    def cost(self) -> ExpertCost:
        return ExpertCost(**{**dict(self), "roles": tuple(self.roles)})


class _Audit(_Part):
    version: Annotated[int, Field(alias="schema", ge=SCHEMA, le=SCHEMA)]
    reward: _Name
    identity: _Text
    range: Annotated[list[_Number | None], Field(min_length=2, max_length=2)]
    scale: _Number
    tolerance: _Share
    seed: int
    edits: _Count
    sources: _Count
    unscored_edits: _Count
    infrastructure_failures: _Count
    stopped: _Text
    overall: _Rate
    best_hack: _Mean | None
    sensitivity: Annotated[dict[_Name, _Mean | None], Field(max_length=10)]
    families: Annotated[list[_Family], Field(min_length=1, max_length=500)]
    expert_costs: Annotated[list[_Cost], Field(max_length=100)]
    seconds: _Number
    trials: list[Any]
    command: _Text = ""

    def stored(self) -> StoredAudit:
        return StoredAudit(
            self.reward,
            self.overall.rate(),
            _mean(self.best_hack),
            {name: _mean(mean) for name, mean in self.sensitivity.items()},
            [one.finding() for one in self.families],
            [one.cost() for one in self.expert_costs],
            self.edits > self.unscored_edits,
            self.sources,
            list(self.facts()),
            self.command,
        )

    def facts(self) -> list[tuple[str, str]]:
        low, high = self.range
        unmade = sum(one.unmade for one in self.families)
        rows = [
            ("reward", self.identity or self.reward),
            ("edits", f"{self.edits:,} of {self.sources:,} sources"),
            ("edits without a score", f"{self.unscored_edits:,}, not compared" if self.unscored_edits else ""),
            ("variants", f"{len(self.trials):,} of {len(self.families)} families, seed {self.seed}"),
            ("range", range_text((low, high), self.scale)),
            ("tolerance", f"{percent(self.tolerance)} of the scale, where a variant must score as the edit does"),
            ("seconds", f"{self.seconds:.0f}"),
            ("failures of infrastructure", f"{self.infrastructure_failures:,}" if self.infrastructure_failures else ""),
            ("variants left out", f"{unmade:,}, which failed to be made" if unmade else ""),
            ("incomplete", f"{self.stopped}; what was scored by then is reported" if self.stopped else ""),
        ]
        return [(name, text) for name, text in rows if text]


def _mean(given: _Mean | None) -> Mean | None:
    return None if given is None else Mean(given.mean, given.low, given.high)


def _cannot_vary(*_: object) -> NoReturn:
    raise RuntimeError("a family that was read from a file makes no variants")
