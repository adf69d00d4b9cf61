"""`editcritic dev diff`: its output, its sheet, and invalid input."""

import json
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from ...benchmarks.conftest import Command

PLACE = (40, 60, 80, 90)
SMALL = (200, 20, 212, 30)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A grey image, and the same image with two blue areas."""
    pixels = np.full((200, 300, 3), 128, np.uint8)
    PIL.Image.fromarray(pixels).save(tmp_path / "before.png")
    for x0, y0, x1, y1 in (PLACE, SMALL):
        pixels[y0:y1, x0:x1] = (0, 0, 255)
    PIL.Image.fromarray(pixels).save(tmp_path / "after.png")
    return tmp_path / "before.png", tmp_path / "after.png"


def test_regions_are_told_in_pixels_the_largest_first(editcritic: Command, pair) -> None:
    ran = editcritic("dev", "diff", *pair, "--json", code=0)
    document = json.loads(ran.stdout)
    assert document["size"] == [300, 200]
    assert document["resized_from"] is document["sheet"] is None
    first, second = document["regions"]
    assert (first["box"], second["box"]) == (pytest.approx(PLACE, abs=2), pytest.approx(SMALL, abs=2))
    assert first["share"] == pytest.approx(40 * 30 / 60_000, rel=0.3)
    assert 0.2 < first["strength"] < 0.6


def test_regions_are_a_table_of_at_most_so_many_and_none_of_a_picture_and_itself(editcritic, pair, tmp_path):
    assert editcritic("dev", "diff", *pair, shows="share of the image").stdout.count("%") == 2
    assert len(json.loads(editcritic("dev", "diff", *pair, "--max-regions", 1, "--json").stdout)["regions"]) == 1
    editcritic("dev", "diff", *pair, "--threshold", 200, code=0, shows="no region differs")
    editcritic("dev", "diff", pair[0], pair[0], "--out", tmp_path / "sheet.png", code=0, shows="no region differs")
    assert PIL.Image.open(tmp_path / "sheet.png").width > 1000


def test_the_sheet_shows_both_pictures_with_red_outlines_and_a_pair_a_region(editcritic, pair, tmp_path):
    sheet = tmp_path / "sheet.png"
    assert json.loads(editcritic("dev", "diff", *pair, "--out", sheet, "--json").stdout)["sheet"] == str(sheet)
    drawn = np.asarray(PIL.Image.open(sheet).convert("RGB")).astype(int)
    red = (drawn[..., 0] > 230) & (drawn[..., 1:].max(axis=2) < 30)
    blue = (drawn[..., 2] > 230) & (drawn[..., :2].max(axis=2) < 30)
    half, below = drawn.shape[1] // 2, 12 + 22 + 400 + 12
    assert red[:below, :half].any()  # outlines on the first image
    assert red[:below, half:].any()
    assert not blue[:below, :half].any()
    assert blue[:below, half:].any()
    for pairs in (slice(0, half), slice(half, None)):  # a pair in each column of the second row
        assert red[below:, pairs].any()
        assert blue[below:, pairs].any()


def test_another_size_is_brought_to_the_first_ones(editcritic: Command, pair, tmp_path) -> None:
    PIL.Image.open(pair[1]).resize((600, 400), PIL.Image.Resampling.BOX).save(tmp_path / "large.png")
    document = json.loads(editcritic("dev", "diff", pair[0], tmp_path / "large.png", "--json").stdout)
    assert document["resized_from"] == [600, 400]
    assert document["regions"][0]["box"] == pytest.approx(PLACE, abs=3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--out", "sheet.html"], "expected a PNG file"),
        (["--threshold", "255"], "from 0 to 254"),
        (["--threshold", "-1"], "from 0 to 254"),
    ],
)
def test_what_cannot_be_is_refused(editcritic: Command, pair, options, message) -> None:
    editcritic("dev", "diff", *pair, *options, code=2, says=message)
    before = pair[1].read_bytes()
    editcritic("dev", "diff", *pair, "--out", pair[1], code=2, says="use different files")
    assert pair[1].read_bytes() == before
    editcritic("dev", "diff", pair[0], "nowhere.png", code=2, says="nowhere.png")
