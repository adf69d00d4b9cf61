"""The file of labels: what is read, what is refused, what a crash leaves, and which labels count."""

import json

import pytest

from editcritic.benchmarks.inputs import InputError
from editcritic.benchmarks.people.labels import Label, append, read, standing

from .made import labels_file, said

PAIR = (("one", "7/C3"), ("two", "7/C3"))


@pytest.mark.parametrize(
    "label",
    [
        said("B", PAIR, "pair", dimension="overall", swapped=True, seconds=2.5),
        said("no", "12/multipass/2", editor="omnigen"),
        said(4, "a", "four-level", phase="recheck", round=2),
        said(((0, 0, 10, 5), (3, 4, 5, 6)), "a", "boxes", dimension="target", note="two of them"),
        said((), "a", "boxes", dimension="target"),
        said("regenerate", "a", "reference", dimension="reference"),
    ],
)
def test_what_is_written_is_read_again(tmp_path, label):
    path = tmp_path / "labels.jsonl"
    append(path, label)
    assert read([path]) == [label]


def test_a_label_as_a_number_is_about_the_first_of_the_two():
    assert [said(one, PAIR, "pair").value for one in ("A", "tie", "B")] == [1.0, 0.0, -1.0]
    assert [said(one, "a", "four-level").value for one in (1, 2, 3, 4)] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert [said("yes", "a").value, said("no", "a").value] == [1.0, 0.0]
    assert said((), "a", "boxes").value is None


GOOD = {"schema": 1, "kind": "yes-no", "id": "a", "dimension": "d", "label": "yes", "annotator": "ann"}
GOOD["time"] = "2026-03-01T09:30:00Z"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"label": "maybe"}, "yes-no is no, yes, got 'maybe'"),
        ({"label": 1}, "yes-no is no, yes"),
        ({"kind": "four-level", "label": 5}, "1, 2, 3, 4, got 5"),
        ({"kind": "four-level", "label": 2.5}, "label"),
        ({"kind": "pair", "label": "A"}, "two ids and two editors"),
        ({"kind": "pair", "label": "A", "id": ["a", "a"], "editor": ["x", "x"]}, "one picture with itself"),
        ({"id": ["a", "b"]}, "one id and one editor"),
        ({"kind": "boxes", "label": [[5, 5, 5, 9]]}, "empty or outside"),
        ({"kind": "boxes", "label": "yes"}, "x0, y0, x1, y1"),
        ({"time": "2026-03-01T09:30:00"}, "zone"),
        ({"schema": 2}, "another version"),
        ({"annotator": ""}, "annotator"),
        ({"labelled": 1}, "Extra inputs"),
        ({"seconds": -1}, "seconds"),
    ],
)
def test_what_is_no_label_is_refused_with_its_line(tmp_path, change, why):
    path = tmp_path / "labels.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + json.dumps(GOOD | change) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"labels\.jsonl:2 is no label") as refused:
        read([path])
    assert why in str(refused.value)


def test_a_line_that_a_crash_has_cut_is_no_label_and_nothing_is_written_behind_it(tmp_path):
    path = tmp_path / "labels.jsonl"
    append(path, said("yes", "a"))
    whole = path.read_text()
    for cut in (whole[:-1][: len(whole) // 2], whole[:-2]):
        path.write_text(whole + cut)
        assert [one.id for one in read([path])] == ["a"]
        append(path, said("no", "b"))
        assert [one.id for one in read([path])] == ["a", "b"]
    path.write_text(whole[:-1])  # a whole line that lacks its end
    append(path, said("no", "b"))
    assert [one.id for one in read([path])] == ["a", "b"]


def test_the_later_of_two_labels_counts_and_an_annotators_last_round():
    first, again = said("yes", "a"), said("no", "a", minute=1)
    assert standing([first, again]) == [again]
    assert standing([first, said("no", "a", by="bob")])[0] == first
    turned = said("A", PAIR[::-1], "pair", minute=1)
    assert standing([said("A", PAIR, "pair"), turned]) == [turned]
    anew = said("no", "b", round=2, minute=2)
    assert standing([first, said("yes", "a", by="bob"), anew]) == [said("yes", "a", by="bob"), anew]


def test_labels_of_several_files_are_read_in_order(tmp_path):
    paths = [labels_file(tmp_path / f"{name}.jsonl", [said("yes", name)]) for name in ("one", "two")]
    assert [label.id for label in read(paths)] == ["one", "two"]
    assert isinstance(read(paths)[0], Label)
