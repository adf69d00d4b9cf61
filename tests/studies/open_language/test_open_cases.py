"""Cases in open language: nothing but source, edit and sentence; bit-identical for a seed."""

from collections import Counter

import pytest

from studies.open_language.open_cases import FLAWS, LANGUAGE_FLAWS, REQUEST_KINDS, open_cases
from studies.open_language.open_sheet import draw_open_sheet


@pytest.fixture(scope="module")
def cases():
    return open_cases(240, seed=3)


def test_a_sample_has_no_annotation(cases):
    for case in cases:
        sample = case.sample
        assert (sample.task, sample.pools, sample.plan, sample.reference, sample.mask) == (None,) * 5
        fields = ("operations", "boxes", "targets", "history", "metadata", "hint", "target_text", "dimensions")
        assert [name for name in fields if getattr(sample, name)] == []


def test_every_request_has_an_honest_and_a_flawed_edit_of_one_source(cases):
    for honest, flawed in zip(cases[::2], cases[1::2], strict=True):
        assert honest.request == flawed.request
        assert honest.sample.sources == flawed.sample.sources
        assert honest.sample.instruction == flawed.sample.instruction
        assert (honest.flaw, honest.truth.followed) == ("", True)
        assert flawed.flaw in FLAWS
        assert not flawed.truth.followed or flawed.truth.kept < honest.truth.kept


def test_kinds_take_turns_and_flaws_of_language_are_common(cases):
    assert Counter(case.kind for case in cases) == dict.fromkeys(REQUEST_KINDS, 12)
    flaws = Counter(case.flaw for case in cases)
    assert len(flaws) > 15
    assert sum(flaws[flaw] for flaw in LANGUAGE_FLAWS) >= 20


def test_a_seed_gives_the_same_cases_in_one_go_or_in_parts(cases):
    again = [*open_cases(40, seed=3), *open_cases(40, seed=3, first=20)]
    assert [case.sample for case in again] == [case.sample for case in cases[:80]]
    assert [case.truth for case in again] == [case.truth for case in cases[:80]]
    assert open_cases(2, seed=4)[0].sample != cases[0].sample


def test_an_odd_number_is_refused():
    with pytest.raises(ValueError, match="ask for an even number, not 3"):
        open_cases(3)


def test_the_sheet_is_drawn():
    sheet = draw_open_sheet()
    assert sheet.width > 1000
    assert len(sheet.getcolors(maxcolors=2**24) or ()) > 1000
