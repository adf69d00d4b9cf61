"""The study of real edits: figures of agreement, fills, the policy, the fit, and its commands on a small clone."""

import json
import re
import subprocess
from dataclasses import replace
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np
import PIL.Image
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.reward import EditSample, Image, Score
from studies.real_edits import real_edit
from studies.real_edits.__main__ import main
from studies.real_edits.agreement import (
    HandScore,
    Scored,
    agreement,
    baselines,
    hand_lines,
    part_quartiles,
    reader_agreement,
    separation,
)
from studies.real_edits.destroyed import Destroyed, Payment, Pool, course, payments
from studies.real_edits.fills import KINDS, LATER_KINDS, kinds_of
from studies.real_edits.hand_edits import HAND_EDITS
from studies.real_edits.real_edit import OPERATIONS, Clones, Place, RealEdit, read_edit, repository_rows, sentence_of

_BY_HAND = {
    "rocket-gone": "removal",
    "blue-tank": "recolour",
    "cup-for-box": "replacement",
    "coin-on-table": "addition",
    "full-moon": "text",
}
_README = '# Results\n\n[{"prompt": "Remove \\"the\\" rocket &amp; its pad"}]\n'
_SENTENCE = 'Remove "the" rocket & its pad'


@cache
def _edit(name="rocket-gone", **told):
    """An edit made by hand, as a reader would label it."""
    made = next(edit for edit in HAND_EDITS if edit.id == name)
    sample, operation = made.sample(boxed=True), _BY_HAND[name]
    values: dict[str, Any] = {
        "id": name,
        "instruction": made.instruction,
        "operation": operation,
        "boxes": made.boxes,
        "source": sample.source,
        "edited": sample.edited,
        "group": "g",
        "base": made.photo,
        "target": () if operation == "addition" else tuple(made.boxes),
        "followed": "yes",
        "preserved": "yes",
        "place": "clean",
    }
    return RealEdit(**{**values, **told})


def _labelled(name, good, base="p", group="g"):
    followed = {True: "yes", None: "partly", False: "no"}[good]
    return replace(_edit(), id=name, base=base, group=group, followed=followed)


@pytest.mark.parametrize(
    ("labels", "good", "kept"),
    [
        ({}, True, True),
        ({"preserved": "minor drift", "place": "traces"}, True, True),
        ({"place": "broken"}, False, True),
        ({"preserved": "damaged"}, False, False),
        ({"followed": "partly"}, None, None),
        ({"followed": "partly", "place": "broken"}, False, None),
        ({"followed": None}, None, None),
    ],
)
def test_good_is_followed_with_the_rest_and_the_place_intact(labels, good, kept):
    edit = replace(_edit(), **labels)
    assert (edit.is_good, edit.is_kept) == (good, kept)


def test_a_separation_counts_pairs():
    rows = [("a", True, "p", "1"), ("b", False, "p", "1"), ("c", True, "q", "2"), ("d", False, "q", "2")]
    edits = [_labelled(*row) for row in [*rows, ("e", None, "r", "3")]]
    one = separation(edits, [0.9, 0.2, 0.5, 0.5, 0.1])
    assert (one.good, one.bad, one.bases, one.auc) == (2, 2, 2, (1 + 1 + 1 + 0.5) / 4)
    assert separation(edits[:2], [0.9, None])[:4] == (1, 0, 1, None), "what has no value is left out"


def test_baselines_see_damage_outside_of_the_target_and_nothing_inside():
    edit = _edit()
    pixels = np.array(edit.source.pixels)
    pixels[150:200, 240:260] = 0
    inside = baselines(replace(edit, edited=Image.of(pixels)))
    pixels[:60, :90] = 255
    outside = baselines(replace(edit, edited=Image.of(pixels)))
    assert inside["-L1 outside of the target"] == 0
    assert all(outside[name] < inside[name] - 0.01 for name in inside)


def test_parts_are_reported_by_what_the_reader_says():
    def scored(name, good, value, **parts):
        inner = Score.of(1.0, parts={key: Score.of(number) for key, number in parts.items()})
        score = Score.abstained("unknown") if value is None else Score.of(value, parts={"edit": inner})
        return Scored(_labelled(name, good, name), score)

    rows = [scored("a", True, 0.9, following=0.9, region=0.7), scored("b", False, 0.2, following=0.1, region=0.2)]
    lines = list(part_quartiles(rows))
    assert any(re.match(r"following, honest edits \(below 0.75\) +n= *1 quartiles 0.90 .*; below: 0", x) for x in lines)
    assert any(re.match(r"region, honest edits \(below 0.8\) +n= *1 .*; below: 1", x) for x in lines)
    tables = agreement([*rows, scored("c", True, None)])
    assert tables["reward, all"].auc == tables["following, followed : not"].auc == 1.0
    assert tables["reward, all, missing as 0"].auc == 0.5


def test_two_readers_are_compared_label_by_label():
    told = [("yes", "yes"), ("yes", "no"), ("no", "no"), ("partly", "partly")]
    edits = [replace(_edit(), followed=one, second=(other, "yes", "clean")) for one, other in told]
    found = reader_agreement([*edits, _edit()])
    assert found == {"followed": (3, 4), "preserved": (4, 4), "place": (4, 4)}


# -- fills ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", _BY_HAND)
def test_every_fill_leaves_what_is_far_from_the_place_and_spoils_the_place(name):
    edit = _edit(name)
    place: Any = Place.of(edit)
    near = np.zeros(place.source.shape[:2], bool)
    for x0, y0, x1, y1 in place.boxes:
        by = round(0.25 * min(x1 - x0, y1 - y0)) + 1
        near[max(0, y0 - by) : y1 + by, max(0, x0 - by) : x1 + by] = True
    kinds = kinds_of(edit.operation, (*KINDS, *LATER_KINDS))
    assert len(kinds) >= 3
    for kind in kinds:
        made = kind.fill(place)
        assert kind.fill(place) == made
        under = place.honest if kind.over_honest else place.source
        assert np.abs(made.pixels - under)[~near].max(initial=0) <= 0.5, kind.name
        assert np.abs(made.pixels - place.honest)[place.object > 0.5].mean() > 4, kind.name


def test_places_and_what_is_painted_follow_the_edit():
    tank: Any
    addition, text, tank = (Place.of(_edit(name)) for name in ("coin-on-table", "full-moon", "blue-tank"))
    assert addition is not None
    assert text is not None
    (box,) = addition.boxes
    assert np.abs(np.array(box) - (430, 180, 493, 239)).max() <= 12, "an addition's place is where the edit differs"
    assert text.text == "FULL MOON"
    assert tank.new_colour[2] > tank.new_colour[0] + 30
    painted = next(kind for kind in KINDS if kind.name == "object painted flat").fill(tank).pixels
    assert np.ptp(painted[tank.object > 0.99].astype(int), axis=0).max() <= 3
    assert (painted[tank.object == 0] == tank.source[tank.object == 0]).all()
    edit = replace(
        _edit("coin-on-table"), boxes={"saucer": [(65, 55, 410, 333)], "coin": [(430, 180, 493, 239)]}, target=("coin",)
    )
    assert (edit.target_boxes, set(edit.sample().boxes)) == ([(430, 180, 493, 239)], {"saucer"})


def test_payments_are_by_kind_and_operation_and_a_missing_value_pays_nothing():
    def row(value, honest):
        scores = [Score.abstained("unknown") if number is None else Score.of(number) for number in (value, honest)]
        return Destroyed(_edit(), KINDS[0], _edit().source, *scores)

    cases = [(0.5, 0.505, True), (0.5, 0.6, False), (0.0, None, True), (None, None, False), (None, 0.0, False)]
    assert [row(value, honest).pays for value, honest, _ in cases] == [pays for _, _, pays in cases]
    rows = [row(1.0, 0.9), row(None, 0.9), row(0.2, 0.9)]
    (line,) = payments(rows)["operation and kind"]
    assert line == Payment("removal: flat grey", 3, 1, 1, 0.2, line.high)
    assert line.high == pytest.approx(0.92)


def test_edits_made_by_hand_are_what_they_say_and_right_on_the_side_of_their_fault():
    assert len(HAND_EDITS) == len({edit.id for edit in HAND_EDITS}) == 40
    assert (len({edit.instruction for edit in HAND_EDITS}), sum(edit.is_honest for edit in HAND_EDITS)) == (30, 20)
    for edit in HAND_EDITS:
        sample = edit.sample(boxed=True)
        assert sample.edited != sample.source
        corners = [box.corners(sample.source.size) for boxes in sample.boxes.values() for box in boxes]
        assert all(0 <= x0 < x1 <= sample.source.width and 0 <= y0 < y1 for x0, y0, x1, y1 in corners)
    honest, wrong = (next(edit for edit in HAND_EDITS if edit.is_honest == right) for right in (True, False))
    rows = [HandScore(edit, True, Score.of(value)) for edit, value in ((honest, 0.5), (wrong, 0.5), (wrong, 0.49))]
    *_, without, boxed = hand_lines([*rows, HandScore(honest, False, Score.abstained("unknown"))])
    assert boxed == "with boxes: 3 of 3 have a score, 2 of 3 a right one (1 of 1 honest ones)"
    assert without.startswith("without boxes: 0 of 1 have")


# -- the policy -------------------------------------------------------------------------------------------------------


def _pool(name):
    """A failure, a good edit, and two fills."""
    source = Image.of(np.random.default_rng(ord(name)).integers(0, 256, (16, 16, 3), np.uint8))
    pictures = [source, *(Image.of(np.full((16, 16, 3), level, np.uint8)) for level in (40, 120, 200))]
    samples = [EditSample(f"{name}/{row}", name, (source,), picture) for row, picture in enumerate(pictures)]
    return Pool(samples, np.array([False, True, False, False]), np.array([False, False, True, True]))


def _scores(*values):
    return [Score.failed("broken") if value is None else Score.of(value) for value in values]


def test_a_step_makes_an_image_likelier_by_its_reward():
    made = course("it", [_pool("a")], [_scores(0.0, 1.0, 1.0, None)], [_scores(0, 1, 0, 0)], [], steps=11)
    e = np.exp(1.0)  # ten steps of 0.1 in 1 / beta
    total = (0.9 + 0.025) + 0.05 * e + 0.025 * e
    assert made.good[0] == pytest.approx(0.05)
    assert made.good[10] == pytest.approx(0.05 * e / total)
    assert made.fills[10] == pytest.approx((0.025 * e + 0.025) / total)  # one without a score pays 0
    assert made.paid[10] == pytest.approx(0.075 * e / total)


def test_the_monitor_sees_what_is_drawn():
    made = [_pool(name) for name in "abcdefgh"]
    heldout = [_scores(0.5, 0.9, 0.0, 0.0)] * 8
    hacked = course("fills pay", made, [_scores(0.1, 0.2, 1.0, 1.0)] * 8, heldout, [0, 1])
    honest = course("good edits pay", made, [_scores(0.1, 1.0, 0.1, 0.1)] * 8, heldout, [0])
    assert hacked.fills[-1] > 0.9 > 0.1 > honest.fills[-1]
    assert len(hacked.first_alarms()["divergence"]) == 2
    assert "divergence" not in honest.first_alarms()
    told_twice = replace(hacked, alarms=[(0, 30, "agreement"), (1, 25, "agreement"), (0, 28, "agreement")])
    assert told_twice.first_alarms() == {"agreement": [28, 25]}


# -- the set and the commands -----------------------------------------------------------------------------------------


def _git(folder, *arguments):
    command = ["git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@localhost", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _committed(folder):
    _git(folder, "init", "-q")
    _git(folder, "add", "-A")
    _git(folder, "commit", "-qm", "Results")
    return _git(folder, "rev-parse", "HEAD")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a clone, and the row of its edit."""
    folder = tmp_path_factory.mktemp("clones")
    clone = folder / "some+editor"
    clone.mkdir()
    files = {}
    for side in ("source", "edited"):
        _edit_picture(clone / f"{side}.png", getattr(_edit(), side))
        digest = sha256((clone / f"{side}.png").read_bytes()).hexdigest()
        files[side] = {"path": f"{side}.png", "sha256": digest, "crop": [100, 40, 400, 340]}
    (clone / "README.md").write_text(_README, encoding="utf-8")
    start, end = _README.encode().index(b'"Remove'), len(_README.encode()) - 3
    digest = sha256(_SENTENCE.encode()).hexdigest()
    return folder, {
        "id": "done",
        "group": "rocket",
        "base": "rocket",
        "repo": "some/editor",
        "commit": _committed(clone),
        **files,
        "instruction": {"path": "README.md", "start": start, "end": end, "sha256": digest},
        "editor": "a person",
        "operation": "removal",
        "half": "development",
        "labels": {
            "followed": "yes",
            "preserved": "minor drift",
            "place": "clean",
            "note": "",
            "boxes": {"rocket": [[114, 57, 200, 302]]},
            "target": ["rocket"],
        },
    }


def _edit_picture(path, image):
    PIL.Image.fromarray(np.array(image.pixels)).save(path)


def test_an_edit_is_read_from_a_clone_and_what_is_missing_is_said(made, tmp_path):
    folder, row = made
    edit = read_edit({**row, "second": {"followed": "yes", "preserved": "yes", "place": "traces"}}, Clones(folder))
    assert (edit.source.pixels == _edit().source.pixels[40:340, 100:400]).all()
    assert (edit.instruction, edit.is_good, edit.second) == (_SENTENCE, True, ("yes", "yes", "traces"))
    assert edit.target_boxes == [(114, 57, 200, 300)], "within the crop"
    _git(tmp_path, "clone", "-q", str(folder / "some+editor"), "work")
    (tmp_path / "work/source.png").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    _git(tmp_path / "work", "commit", "-qam", "Pointers")
    pointers = _git(tmp_path / "work", "rev-parse", "HEAD")
    (tmp_path / "some").mkdir()
    _git(tmp_path, "clone", "-q", "--bare", "work", "some/editor")
    assert read_edit(row, Clones(tmp_path)).source == edit.source, "a bare clone, at an older commit"
    unknown = {**row, "commit": "0" * 40, "instruction": {"text": "Remove the rocket"}}
    assert read_edit(unknown, Clones(folder)).instruction == "Remove the rocket"
    lost, other = ({**row["source"], **change} for change in ({"path": "lost.png"}, {"sha256": "0" * 64}))
    shifted = {**row["instruction"], "start": row["instruction"]["start"] + 4}
    text = {**row["source"], "path": "README.md", "sha256": sha256(_README.encode()).hexdigest()}
    for clones, change, message in (
        (folder, {"source": lost}, r"has no lost\.png.*fetch --depth 1"),
        (folder, {"source": other}, "other bytes"),
        (folder, {"source": text}, "done"),
        (folder, {"instruction": shifted}, "another sentence"),
        (tmp_path, {"commit": pointers, "source": other}, "git lfs pull"),
        (tmp_path / "none", {}, f"no clone of some/editor.*https://github.com/some/editor {row['commit']}"),
    ):
        with pytest.raises(InputError, match=message):
            read_edit({**row, **change}, Clones(clones))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b' "Make it \\u00e9cru"\n', "Make it écru"),
        (b"<b>not undone</b>", "<b>not undone</b>"),
        (b"a &quot;red&quot; car", 'a "red" car'),
        ("\u201cMake it green\u201d".encode(), "Make it green"),
    ],
)
def test_a_sentence_is_without_quotes_and_escapes(data, sentence):
    assert sentence_of(data) == sentence


def test_the_projects_own_set_is_as_the_documents_say():
    rows = repository_rows()
    assert (len(rows), len({row["id"] for row in rows}), len({row["base"] for row in rows})) == (320, 320, 198)
    assert {row["operation"] for row in rows} <= set(OPERATIONS)
    halves = {(row["base"], row["half"]) for row in rows}
    assert len(halves) == 198, "no photograph is in both halves"
    assert sum("second" in row for row in rows) == 42
    assert all(set(row["labels"]["target"]) <= set(row["labels"]["boxes"] or ()) for row in rows)


def test_commands_print_figures(made, tmp_path, capsys, monkeypatch):
    folder, row = made
    row = {**row, "instruction": {"text": "Remove the rocket"}}
    not_done = {**row, "id": "not done", "edited": row["source"], "labels": {**row["labels"], "followed": "no"}}
    (tmp_path / "edits.jsonl").write_text(f"{json.dumps(row)}\n{json.dumps(not_done)}\n", encoding="utf-8")
    monkeypatch.setattr(real_edit, "ROWS", tmp_path / "edits.jsonl")
    options = ["--clones", str(folder), "--boxed", "--half", "development"]

    def printed(*arguments):
        main(list(arguments))
        return capsys.readouterr().out

    text = printed("agreement", *options)
    assert "with boxes: 2 of 2 have a value" in text
    assert "reward, with boxes, missing as 0               AUC 1.000" in text
    text = printed("fills", *options, "--kinds", "ghost")
    assert "removal: ghost" in text
    assert "flat grey" not in text
    assert re.match(
        r"1 pools: 4 images, 1 of them fills\nany-edit: good 5 % to",
        printed("policy", *options, "--kinds", "ghost", "--rewards", "any-edit", "--plot", str(tmp_path / "plot.png")),
    )
    monkeypatch.setattr("studies.real_edits.agreement.HAND_EDITS", HAND_EDITS[:1])
    assert "with boxes: 1 of 1 have a score" in printed("hand")
    assert PIL.Image.open(tmp_path / "plot.png").width > 500
    with pytest.raises(InputError, match="no fill is named fog"):
        main(["fills", *options, "--kinds", "fog"])
    with pytest.raises(InputError, match="could be destroyed"):
        main(["fills", *options, "--operations", "text"])
