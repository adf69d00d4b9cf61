"""Matching letters: those that difflib finds, in bounded time."""

from difflib import SequenceMatcher

from hypothesis import given
from hypothesis import strategies as st

from editcritic.reward.metrics.i2ibench.specialists import edit_distance
from editcritic.reward.metrics.new_text import is_part_of
from editcritic.reward.metrics.text_matching import PIECE, _runs, matching_letters, similarity

from ..test_linear_parsing import at_most

FEW_LETTERS = st.text("ab", max_size=60) | st.text("abcdé中\U0001f600\ud800", max_size=40)


@given(FEW_LETTERS, FEW_LETTERS, st.integers(1, 3))
def test_letters_match_as_in_difflib(one, other, least):
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    sizes = [block.size for block in matcher.get_matching_blocks() if block.size]
    assert sorted(_runs(one, other)) == sorted(sizes)
    assert matching_letters(one, other, least=least) == sum(size for size in sizes if size >= least)
    assert similarity(one, other) == matcher.ratio()


def test_a_long_text_is_compared_in_pieces_and_a_repetitive_one_in_seconds():
    text = "all work and no play " * 50
    assert len(text) > 2 * PIECE
    assert matching_letters(text, text[:PIECE]) == PIECE  # of two, only one has to be short
    assert (matching_letters(text[:PIECE], text), similarity(text, text)) == (PIECE, 1.0)
    text = "aabb" * 625
    for line in ("ab" * 250, "abc" * 200):
        assert len(line) > PIECE
        with at_most(5, "is_part_of", text):
            is_part_of(line, text)
    with at_most(5, "edit_distance", text):
        edit_distance("ab" * 250, text)
