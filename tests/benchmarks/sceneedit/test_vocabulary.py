"""Letters are distinct, and names are unambiguous."""

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


def test_letters_and_digits_are_distinct_and_fill_their_box() -> None:
    assert set(LETTERS) == set("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
    assert len(set(LETTERS.values())) == len(LETTERS)
    for rows in LETTERS.values():
        assert len(rows) == LETTER_HEIGHT
        assert all(len(row) == LETTER_WIDTH and set(row) <= {"#", "."} for row in rows)
        columns = [*map("".join, zip(*rows, strict=True))]
        assert all("#" in side for side in (rows[0], rows[-1], columns[0], columns[-1]))


def test_a_name_stands_for_one_thing_and_texts_can_be_written() -> None:
    words = [*COLOURS, *SHAPES, *MATERIALS, SIGN, TEXT, *BACKDROPS]
    assert len(set(words)) == len(words)
    assert "" not in words
    assert len(set(TEXTS)) == len(TEXTS)
    assert all(2 <= len(text) <= 4 and set(text) <= set(LETTERS) for text in TEXTS)
