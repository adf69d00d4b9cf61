"""Cards of the families of the audit: what each does to an edit, where it does not apply, whom it catches."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache

from editcritic.reward.audit import Family, all_families, requested_changes
from editcritic.reward.audit.family import RELATIONS
from editcritic.reward.audit.requested_changes import RequestedChange

from .api import ROOT
from .docstring_markdown import docstring_markdown


def audit_family_pages() -> dict[str, str]:
    """The page, below reference/cards."""
    about = (
        "`editcritic audit` changes good edits in these ways and compares the scores: [how it is "
        "read](../../audit.md#reading-a-report). `--family NAME` takes one of them; [one of your "
        "own](../../audit.md#a-family-of-your-own) is a few lines."
    )
    lines = ["# Families of the audit", about]
    for relation, meaning in RELATIONS.items():
        families = [family for family in all_families() if family.relation == relation]
        links = ", ".join(f"[`{family.name}`](#{family.name})" for family in families)
        lines += [f"## {meaning[0].upper()}{meaning[1:]}", links, *map(_section, families)]
    return {"reference/cards/audit-families.md": "\n\n".join(lines) + "\n"}


def _section(family: Family) -> str:
    about = inspect.getdoc(family.vary) or ""
    return "\n\n".join([f"### {family.name}", docstring_markdown(about), "\n".join(_facts(family))])


def _facts(family: Family) -> Iterator[str]:
    yield f"- **Why**: {family.reason}"
    if family.damages:
        yield f"- **Damages**: {'following and preservation' if family.damages == 'both' else family.damages}"
    yield f"- **Severities**: {'; '.join(severity.label for severity in family.severities)}"
    if family.needs_good_edit:
        yield "- **Needs** an edit that does what it was asked for"
    if family.unless_requested:
        kinds = ", ".join(map(_kind, family.unless_requested))
        yield f"- **Left out** where the instruction may ask for it: {kinds}"
    if rates := {reward: rate for reward, rate in violations().get(family.name, {}).items() if rate > 0}:
        worst = sorted(rates.items(), key=lambda item: -item[1])
        text = ", ".join(f"`{reward}` {rate} %" for reward, rate in worst)
        yield f"- **Violated** on [drawn scenes](../../audit_figures.md#installed-rewards) by {text}"


@cache
def _kinds() -> dict[RequestedChange, str]:
    names = vars(requested_changes)
    return {one: name.lower().replace("_", " ") for name, one in names.items() if isinstance(one, RequestedChange)}


def _kind(change: RequestedChange) -> str:
    return _kinds()[change]


@cache
def violations() -> dict[str, dict[str, int]]:
    """Family -> reward -> rate of violations in percent, from the table of docs/audit_figures.md."""
    text = (ROOT / "docs" / "audit_figures.md").read_text(encoding="utf-8")
    table = text.partition("<!-- families by reward -->")[2].partition("<!-- end of families by reward -->")[0]
    header, _, *rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")
    ]
    rewards = [name.strip("`") for name in header[2:]]
    return {
        family.strip("`"): {
            reward: int(rate) for reward, rate in zip(rewards, rates, strict=True) if rate.isdigit() and "-" in reward
        }
        for family, _, *rates in rows
    }
