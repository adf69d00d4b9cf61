"""Letters are distinct, and names are unambiguous."""

from itertools import combinations

from editcritic.benchmarks.sceneedit.vocabulary import (
    BACKDROPS,
    COLOURS,
    LETTER_HEIGHT,
    LETTER_WIDTH,
    LETTERS,
    MATERIALS,
    SHAPES,
    SIGN,
    TEXT,
    TEXTS,
)


def test_letters_are_as_large_as_said_and_made_of_dots_and_blanks() -> None:
    for rows in LETTERS.values():
        assert len(rows) == LETTER_HEIGHT
        assert all(len(row) == LETTER_WIDTH and set(row) <= {"#", "."} for row in rows)


def test_no_two_letters_are_alike() -> None:
    assert all(one != other for one, other in combinations(LETTERS.values(), 2))


def test_there_are_all_letters_and_digits() -> None:
    assert set(LETTERS) == set("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


def test_letters_reach_every_side_of_their_box_so_that_a_text_is_as_wide_as_its_ink() -> None:
    for rows in LETTERS.values():
        assert "#" in rows[0]
        assert "#" in rows[-1]
        assert any(row[0] == "#" for row in rows)
        assert any(row[-1] == "#" for row in rows)


def test_a_name_stands_for_one_thing() -> None:
    words = [*COLOURS, *SHAPES, *MATERIALS, SIGN, TEXT, *BACKDROPS]
    assert len(set(words)) == len(words)
    assert "" not in words


def test_texts_are_short_different_and_can_be_written() -> None:
    assert len(set(TEXTS)) == len(TEXTS)
    assert all(2 <= len(text) <= 4 and set(text) <= set(LETTERS) for text in TEXTS)
