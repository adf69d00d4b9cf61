"""Prompts are files; a prompt pack replaces some of them, and has a digest."""

import pytest

from editcritic.reward.queries.prompts import Prompts

OURS = "editcritic.reward.metrics.edival"


@pytest.fixture
def pack(tmp_path):
    (tmp_path / "color.txt").write_text("  Ist {object} nun {value}? {{ja/nein}}\n", encoding="utf-8")
    return tmp_path


def test_slots_are_filled_with_what_is_given_and_nothing_is_read_into_it():
    text = Prompts(OURS).render("color", object="{value} cup", value="blue", unused="x")
    assert "{value} cup" in text
    assert "blue" in text


def test_a_pack_replaces_the_files_that_it_has(pack):
    ours, theirs = Prompts(OURS), Prompts(OURS, str(pack))
    assert theirs.render("color", object="Tasse", value="blau") == "Ist Tasse nun blau? {ja/nein}"
    assert theirs.render("material", object="cup", value="wood") == ours.render("material", object="cup", value="wood")


def test_the_digest_follows_the_words_of_the_pack(pack):
    assert Prompts(OURS).digest == ""
    first = Prompts(OURS, str(pack)).digest
    assert len(first) == 12
    assert Prompts(OURS, str(pack)).digest == first
    (pack / "color.txt").write_text("Is it?", encoding="utf-8")
    second = Prompts(OURS, str(pack)).digest
    (pack / "color.txt").rename(pack / "material.txt")
    assert len({first, second, Prompts(OURS, str(pack)).digest}) == 3


@pytest.mark.parametrize(
    "text",
    [
        "{colour}",
        "{}",
        "{object.__class__}",
        "{object[0]}",
        "{object",
        "object}",
        "{object:{width}}",
        "{object:>9999}",
        "{object!r}",
    ],
)
def test_a_prompt_that_cannot_be_filled_is_named(text, tmp_path):
    (tmp_path / "color.txt").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"prompt 'color' (uses|is no template)"):
        Prompts(OURS, str(tmp_path)).render("color", object="cup", value="blue")


def test_a_pack_that_is_no_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"is not a folder: give a folder of <name>\.txt files"):
        Prompts(OURS, str(tmp_path / "nowhere"))
