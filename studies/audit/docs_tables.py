"""Tables of docs/audit.md that are made from the code or by a study.

`python -m studies.audit.docs_tables --write docs/audit.md` writes the table of families again.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from editcritic.benchmarks.common.markdown import markdown_text, table_lines
from editcritic.reward.audit import Family, all_families
from editcritic.reward.audit.family import RELATIONS

FAMILIES = "families"
"""Name of the section."""


def families_lines(families: Sequence[Family]) -> Iterator[str]:
    """Tables in Markdown: a heading and a table for each relation."""
    for relation, members in groupby(families, key=lambda family: family.relation):
        rows = list(members)
        yield f"**{RELATIONS[relation].capitalize()}** ({len(rows)})"
        yield ""
        columns = ("family", *(["damages"] if relation == "lower" else []), "severities", "why")
        yield from table_lines(columns, [_row(family) for family in rows])
        yield ""


def _row(family: Family) -> list[str]:
    severities = "; ".join(markdown_text(severity.label) for severity in family.severities)
    damages = [family.damages] if family.damages else []
    return [f"`{family.name}`", *damages, severities, markdown_text(family.reason)]


def replace_section(document: str, name: str, lines: Sequence[str]) -> str:
    """The document with these lines between the comments `<!-- NAME -->` and `<!-- end of NAME -->`.

    Raises ValueError unless each occurs once, in this order.
    """
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    if (document.count(begin), document.count(end)) != (1, 1):
        raise ValueError(f"the document needs {begin} and {end}, once each")
    pattern = f"{re.escape(begin)}.*{re.escape(end)}"
    text = "\n".join([begin, "", *lines, "", end]).replace("\n\n\n", "\n\n")
    replaced, count = re.subn(pattern, lambda _: text, document, flags=re.DOTALL)
    if not count:
        raise ValueError(f"the document has {end} before {begin}")
    return replaced


def write_section(path: Path, name: str, lines: Sequence[str]) -> None:
    """Replace a section of a file."""
    path.write_text(replace_section(path.read_text(encoding="utf-8"), name, lines), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print or write the table of families."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="a document whose section is replaced; default: print the table")
    options = parser.parse_args(arguments)
    lines = list(families_lines(all_families()))
    if options.write is None:
        sys.stdout.write("\n".join([*lines, ""]))
    else:
        write_section(options.write, FAMILIES, lines)


if __name__ == "__main__":
    main()
