"""`editcritic score` of one edit: two images and a sentence; what is known is shown, what nobody knows is said."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import skimage.data

from ..benchmarks.conftest import Command

SENTENCE = "Change the color of coffee to green"
BOXES = '{"coffee": [[205, 95, 370, 195]]}'
BLUE, ORANGE = np.array([0, 114, 178]), np.array([213, 94, 0])


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A photograph, and an edit of it: green coffee, and a patch of the table that nobody asked for."""
    folder = tmp_path_factory.mktemp("pair")
    source = skimage.data.coffee()
    rows, columns = np.ogrid[: source.shape[0], : source.shape[1]]
    inside = ((columns - 286) / 82) ** 2 + ((rows - 145) / 50) ** 2 <= 1
    edited = np.where(inside[..., None], source[..., [1, 0, 2]], source)
    edited[300:340, 450:520] = (40, 90, 50)
    paths = folder / "a.png", folder / "b.png"
    for path, pixels in zip(paths, (source, edited), strict=True):
        PIL.Image.fromarray(pixels).save(path)
    return paths


def test_what_is_known_without_a_judge(pair: tuple[Path, Path], editcritic: Command) -> None:
    result = editcritic("score", *pair, SENTENCE)
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line.strip()}
    assert result.exit_code == 0
    assert "none: abstained" in lines["score"]
    assert "color_alter: coffee -> green" in lines["plan"]
    assert "passed" in lines["guards"]
    words = " ".join(result.stdout.split())
    assert (
        "there is no box of 'coffee' in the source: give --boxes '{\"coffee\": [[x0, y0, x1, y1]]}' in pixels" in words
    )
    assert "--experts laptop" in words
    assert "the largest change is taken for what was asked for" in words
    preserved = float(lines["preservation"].split()[1])
    assert 0 < preserved < 0.8
    bound = float(lines["known"].split()[-1])
    assert 0 < bound <= preserved


@pytest.mark.parametrize("command", ["score", "rank"])
def test_boxes_in_fractions_are_refused_with_their_pixels(command, pair, editcritic):
    boxes = ("--boxes", '{"coffee": [[0.34, 0.24, 0.62, 0.49]]}')
    source, edited = pair
    words = (
        (source, edited, SENTENCE) if command == "score" else (edited, "--source", source, "--instruction", SENTENCE)
    )
    result = editcritic(command, *words, *boxes, code=2)
    assert "is in fractions of its 600 x 400 image: in pixels it is [204, 96, 372, 196]" in " ".join(
        result.stderr.split()
    )


def test_with_a_box_the_colour_is_judged(pair: tuple[Path, Path], editcritic: Command) -> None:
    result = editcritic("score", *pair, SENTENCE, "--boxes", BOXES, "--json")
    (row,) = json.loads(result.stdout)["scores"]
    assert row["id"] == "b"
    following = row["parts"]["reward"]["parts"]["following"]
    assert following["value"] > 0.9
    assert 0 < row["value"] < following["value"]
    one_pair = editcritic("score", *pair, SENTENCE, "--boxes", '{"coffee": [205, 95, 370, 195]}')
    lines = {line.split()[0]: line for line in one_pair.stdout.splitlines() if line.strip()}
    assert lines["operation"].split()[:2] == ["operation", "1"]
    assert "every operation is done" in " ".join(one_pair.stdout.split())
    copy = editcritic("score", pair[0], pair[0], SENTENCE, "--boxes", BOXES, shows=("0.00", "guards"))
    assert "passed" not in copy.stdout


def test_what_is_lacking_is_told_for_a_row_and_a_plan_that_keeps_nothing_lacks_nothing(pair, editcritic):
    rows, flipped = pair[0].parent / "rows.jsonl", pair[0].parent / "flipped.png"
    rows.write_text(json.dumps({"source": "a.png", "edited": "b.png", "instruction": SENTENCE}))
    words = " ".join(editcritic("score", rows).stdout.split())
    assert 'give the row "boxes": {"coffee": [[x0, y0, x1, y1]]} in pixels' in words
    PIL.Image.fromarray(skimage.data.coffee()[:, ::-1]).save(flipped)
    result = editcritic("score", pair[0], flipped, "Flip the image horizontally and keep everything else", code=0)
    assert "problems with the input" not in result.stderr


def test_the_picture_shows_where_something_changed_and_is_bounded(pair, editcritic, tmp_path):
    picture = tmp_path / "result.png"
    editcritic("score", *pair, SENTENCE, "--boxes", BOXES, "--picture", picture, says=f"drawn in {picture}")
    pixels = np.asarray(PIL.Image.open(picture)).astype(int)
    heat, outline = pixels[:, 2 * pixels.shape[1] // 3 :], pixels[:, : pixels.shape[1] // 3]
    assert (np.abs(heat - ORANGE).sum(axis=2) < 30).sum() > 500  # the patch
    assert (np.abs(outline - BLUE).sum(axis=2) < 30).sum() > 200  # the target
    tall = np.random.default_rng(0).integers(0, 256, (2000, 16, 3), np.uint8)
    for name, shown in (("a", tall), ("b", 255 - tall)):
        PIL.Image.fromarray(shown).save(tmp_path / f"{name}.png")
    editcritic("score", tmp_path / "a.png", tmp_path / "b.png", SENTENCE, "--picture", picture)
    with PIL.Image.open(picture) as drawn:
        assert drawn.height < 2000


@pytest.mark.parametrize("over", [0, 1], ids=["source", "edited"])
def test_a_picture_does_not_overwrite_an_input(over: int, pair: Any, editcritic: Command) -> None:
    before = pair[over].read_bytes()
    editcritic(
        *("score", *pair, SENTENCE, "--picture", pair[over]),
        code=2,
        says=f"is both {('source', 'edited')[over]} and picture",
    )
    assert pair[over].read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("a.png",), 'a.png b.png "make the mug blue"'),
        (("a.png", "b.png"), "a.png and b.png alone cannot be scored"),
        (("a.png", "none.png", "Remove cup"), "none.png"),
        (("samples.jsonl", "--picture", "out.png"), "--boxes and --picture are for one edit"),
        (("a.png", "b.png", "Remove cup", "--boxes", "{"), "--boxes is not JSON"),
        (("a.png", "b.png", "Remove cup", "--boxes", "boxes.json"), '{"cup": [[120, 80, 260, 240]]}, got [1]'),
    ],
)
def test_mistakes(words: tuple[str, ...], message: str, pair: Any, editcritic: Command, monkeypatch: Any) -> None:
    monkeypatch.chdir(pair[0].parent)
    Path("boxes.json").write_text("[1]")
    result = editcritic("score", *words, code=2)
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
