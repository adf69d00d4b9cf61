"""Licences of what each extra installs, from installed metadata, as the table of docs/licences.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from .distributions import ROOT

PYTHON = (3, 11)
"""The one of the table: the oldest that constraints.txt is for."""

PAGE = ROOT / "docs" / "licences.md"
_BEGIN, _END = "<!-- table: written by `make release-check ARGS=--write-licences` -->", "<!-- end of the table -->"

# Classifiers and the texts that packages write, as SPDX has them.
_SPDX = {
    **dict.fromkeys(("Apache Software License", "Apache 2.0", "Apache 2.0 License", "Apache"), "Apache-2.0"),
    **dict.fromkeys(("Apache License 2.0", "Apache License, Version 2.0", "Apache-2"), "Apache-2.0"),
    "BSD License": "BSD",
    "BSD 3-Clause License": "BSD-3-Clause",
    "3-Clause BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "The Unlicense (Unlicense)": "Unlicense",
}

# What a torch for CUDA brings beside itself: the table is of a torch for CPUs.
_OF_CUDA = re.compile(r"nvidia-|cuda-|triton$")

# A name, and not the first line of a licence's text.
_NAME = re.compile(r"[\w.+-]+(?: (?:AND|OR|WITH) [\w.+-]+)*|(?!Copyright).*\bLicen[cs]e\b.*")

_STRONG = re.compile(r"\bA?GPL|General Public License", re.IGNORECASE)
_WEAK = re.compile(r"LGPL|Lesser General|MPL|Mozilla|EPL|Eclipse|CDDL|EUPL", re.IGNORECASE)
# Not strong, though the name is in it: the lesser licence, and exceptions for what is linked with a library.
_WEAKER = re.compile(r"LGPL[\w.-]*|[\w ]*Lesser General Public License[^,;]*|\S*GPL-\S+ WITH \S+", re.IGNORECASE)

# A licence of each kind, to stand for an expression in parentheses.
_OF_KIND = {"": "MIT", "weak": "MPL-2.0", "strong": "GPL-3.0"}


def licence_of(metadata: Mapping[str, Any]) -> str:
    """The licence that a distribution's metadata names: its expression, its classifiers, or its field."""
    if expression := metadata.get("license_expression"):
        return str(expression)
    classifiers = [text.split(" :: ")[-1] for text in metadata.get("classifier", []) if text.startswith("License ::")]
    named = [_SPDX.get(text, text) for text in classifiers if text != "OSI Approved"]
    line = str(metadata.get("license") or "").strip().split("\n")[0].strip(" .")
    line = _SPDX.get(line, line)
    if _NAME.fullmatch(line) and len(line) < 60 and named in ([], ["BSD"]):  # a classifier says BSD, and not which
        return line
    return " AND ".join(dict.fromkeys(named)) or "not stated"


def copyleft(licence: str) -> str:
    """`strong` where whoever distributes a work with it has to license it alike, `weak` for its files only, or empty.

    Of alternatives (`OR`) the most permissive one counts, of what holds together (`AND`) the strictest.
    """
    while group := re.search(r"\(([^()]*)\)", licence):
        licence = licence.replace(group[0], _OF_KIND[copyleft(group[1])])
    kinds = [_kind(choice) for choice in re.split(r"\s+OR\s+", licence)]
    return min(kinds, key=[*_OF_KIND].index)


def _kind(licence: str) -> str:
    if _STRONG.search(_WEAKER.sub("", licence)):
        return "strong"
    return "weak" if _WEAK.search(licence) else ""


def table(installed: Mapping[str, Iterable[Mapping[str, Any]]]) -> str:
    """The Markdown table of licences. installed: extra (empty for none) -> metadata of what it installs alone.

    Without what comes with CUDA, of which another machine has other packages.
    """
    extras: dict[str, list[str]] = {}
    licences: dict[str, str] = {}
    base = {metadata["name"].lower() for metadata in installed.get("", [])}
    for extra, distributions in installed.items():
        for metadata in distributions:
            name = metadata["name"].lower().replace("_", "-")
            if _OF_CUDA.match(name):
                continue
            licences[name] = licence_of(metadata)
            if not extra or metadata["name"].lower() not in base:
                extras.setdefault(name, []).append(extra or "base")
    lines = ["| package | licence | copyleft | installed by |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {licences[name].replace('|', '/')} | {copyleft(licences[name])} | {', '.join(extras[name])} |"
        for name in sorted(licences)
    ]
    return "\n".join(lines)


def on_page() -> str:
    """The table that docs/licences.md has."""
    return PAGE.read_text(encoding="utf-8").split(_BEGIN)[1].split(_END)[0].strip()


def write_page(written: str) -> None:
    """Replace the table of docs/licences.md."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(_BEGIN)
    PAGE.write_text(f"{before}{_BEGIN}\n\n{written}\n\n{_END}{rest.split(_END)[1]}", encoding="utf-8")
