"""The image in the documents can be made again."""

from editcritic.benchmarks.sceneedit.contact_sheet import draw_sheet


def test_the_sheet_is_drawn_and_the_same_twice():
    first = draw_sheet(3)
    assert first.width > 1000
    assert first.height > 1000
    assert first.tobytes() == draw_sheet(3).tobytes()
