"""The settings in which two results differ: those that decide, and the many that only follow from them. A mode or a
protocol changes the digest of the data, the specs and signatures of all metrics and other options. Who compares two
results is told of the mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .suite import Suite

DifferingSettings = Mapping[str, tuple[Any, Any]]
"""Entry of the provenance, with a dotted name if it is nested -> its two values; None for an absent one."""

_LEVELS = (("suite",), ("protocol", "suite_options"), ("data_digest",), ("metrics",), ("metric_signatures",))
"""Entries that decide, with what they decide after them."""

_FOLLOWING = frozenset({"score_signatures"})
"""Entries that always follow from others."""


def flatten_provenance(provenance: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Entries of a provenance, nested ones under dotted names."""
    for name, value in provenance.items():
        if isinstance(value, Mapping) and value:
            yield from flatten_provenance(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def differing_provenance(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Entries in which two provenances differ; None for an absent entry."""
    first, second = dict(flatten_provenance(a)), dict(flatten_provenance(b))
    names = dict.fromkeys([*first, *second])
    return {name: (first.get(name), second.get(name)) for name in names if first.get(name) != second.get(name)}


def differing_settings(
    first: Mapping[str, Any], second: Mapping[str, Any], suite: Suite | None = None
) -> DifferingSettings:
    """The differing entries of two provenances. suite: its default protocol is no other than that of no name."""
    default = None if suite is None else next(iter(suite.protocols), None)
    if default is not None and all(one.get("protocol") in (None, default) for one in (first, second)):
        first, second = ({**provenance, "protocol": default} for provenance in (first, second))
    return differing_provenance(first, second)


def deciding_settings(differences: DifferingSettings, suite: Suite | None = None) -> DifferingSettings:
    """Those of the first level that differs, without options that follow other ones that differ."""
    followed = {} if suite is None else suite.dependent_options
    for level in _LEVELS:
        found = {name: pair for name, pair in differences.items() if name.partition(".")[0] in level}
        parents = {name: followed.get(name.partition(".")[2], "") for name in found}
        found = {
            name: pair
            for name, pair in found.items()
            if not {parents[name], f"suite_options.{parents[name]}"} & {*found}
        }
        if found:
            return found
    return {}


def following_settings(differences: DifferingSettings, suite: Suite | None = None) -> frozenset[str]:
    """Differing entries that follow from the deciding ones, or may."""
    deciding = deciding_settings(differences, suite)
    leveled = {name for name in differences if any(name.partition(".")[0] in level for level in _LEVELS)}
    always = {name for name in differences if name.partition(".")[0] in _FOLLOWING}
    return frozenset((leveled | always) - set(deciding)) if deciding else frozenset()


def settings_text(differences: DifferingSettings, suite: Suite | None = None) -> str:
    """The deciding settings in words, as in `mode is multipass and singlepass`."""
    deciding = deciding_settings(differences, suite)
    if all(name.startswith("metrics.") for name in deciding):
        sides = [dict.fromkeys(name.split(".")[1] for name, pair in deciding.items() if pair[side] is not None)
                 for side in (0, 1)]  # fmt: skip
        only = [", ".join(name for name in sides[side] if name not in sides[1 - side]) for side in (0, 1)]
        if any(only):
            return "; ".join(
                f"only the {place} has the metrics {names}"
                for place, names in zip(("first", "second"), only, strict=True)
                if names
            )
    default = None if suite is None else next(iter(suite.protocols), None)
    parts = []
    for name, (first, second) in deciding.items():
        missing = f"{default} (the default)" if name == "protocol" and default else "not given"
        words = (missing if value is None else f"{value}"[:80] for value in (first, second))
        parts.append(f"{name.removeprefix('suite_options.')} is {' and '.join(words)}")
    return "; ".join(parts)
