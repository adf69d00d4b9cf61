"""docs/audit.md names every family and every installed reward, and sections of a document are replaced as wholes."""

import re
from pathlib import Path

import pytest

from editcritic.reward.audit import all_families
from studies.audit import docs_tables
from studies.audit.installed_rewards import COMPARED, audited_metrics
from studies.audit.stored_trials import PIXELS

PAGE = Path(__file__).parents[3] / "docs" / "audit.md"


def test_the_table_of_families_is_up_to_date() -> None:
    hint = "write it again: python -m studies.audit.docs_tables --write docs/audit.md"
    page = PAGE.read_text(encoding="utf-8")
    lines = list(docs_tables.families_lines(all_families()))
    assert docs_tables.replace_section(page, docs_tables.FAMILIES, lines) == page, hint


def section(name: str) -> str:
    return PAGE.read_text(encoding="utf-8").partition(f"<!-- {name} -->")[2].partition(f"<!-- end of {name} -->")[0]


def test_every_installed_reward_is_in_the_table_or_listed_with_a_reason() -> None:
    metrics, skipped = audited_metrics()
    rows = re.findall(r"^\| `?([^|`]+?)`? \|", section("installed rewards"), re.MULTILINE)
    listed = re.findall(r"^- `(.+?)`: \S", section("not audited"), re.MULTILINE)
    hint = "run python -m studies.audit.installed_rewards, or list it as not audited yet"
    without = [one.name for one in skipped]
    assert sorted([*rows[1:], *listed]) == sorted([*(metric.name for metric in metrics), *without]), hint
    assert set(without) <= set(listed)


def test_the_families_by_reward_are_known_and_of_the_rewards_compared() -> None:
    lines = [line for line in section("families by reward").splitlines() if line]
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert header[2:] == [name if name == PIXELS else f"`{name}`" for name in COMPARED]
    families = {f"`{family.name}`": family.damages or family.relation.replace("_", " ") for family in all_families()}
    assert [row[1] for row in rows] == [families.get(row[0]) for row in rows]
    assert len({row[0] for row in rows}) == len(rows) > 20


def test_a_section_is_replaced_whole_and_nothing_else() -> None:
    document = "# A\n\n<!-- x -->\n\nold \\1\n\n<!-- end of x -->\n\nafter\n"
    new = docs_tables.replace_section(document, "x", ["| a |", "", r"\g<0> b"])
    assert new == "# A\n\n<!-- x -->\n\n| a |\n\n\\g<0> b\n\n<!-- end of x -->\n\nafter\n"
    assert docs_tables.replace_section(new, "x", ["| a |", "", r"\g<0> b"]) == new


@pytest.mark.parametrize(
    "document", ["", "<!-- x -->", "<!-- end of x --> <!-- x -->", "<!-- x --><!-- x --><!-- end of x -->"]
)
def test_a_document_without_the_section_is_refused(document: str) -> None:
    with pytest.raises(ValueError, match="end of x"):
        docs_tables.replace_section(document, "x", [])


def test_the_command_writes_the_families(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "audit.md"
    copy.write_text("<!-- families -->\n<!-- end of families -->\n", encoding="utf-8")
    docs_tables.main(["--write", str(copy)])
    docs_tables.main([])
    printed = capsys.readouterr().out
    for family in all_families():
        assert f"| `{family.name}` |" in copy.read_text(encoding="utf-8")
        assert f"| `{family.name}` |" in printed
