"""The file of labels: what is read, what is refused, what a crash leaves, and which labels count."""

import json

import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.suites.human_labels import Label, append_labels, effective_labels, read_labels

from ..human_eval.label_files import labels_file, make_label

PAIR = (("one", "7/C3"), ("two", "7/C3"))


@pytest.mark.parametrize(
    "label",
    [
        make_label("B", PAIR, "pair", dimension="overall", swapped=True, seconds=2.5),
        make_label("no", "12/multipass/2", editor="omnigen"),
        make_label(4, "a", "four-level", phase="recheck", round=2),
        make_label(5, "a", "stars", dimension="realism"),
        make_label(((0, 0, 10, 5), (3, 4, 5, 6)), "a", "boxes", dimension="target", note="two of them"),
        make_label((), "a", "boxes", dimension="target"),
        make_label("regenerate", "a", "reference", dimension="reference"),
    ],
)
def test_what_is_written_is_read_again(tmp_path, label):
    path = tmp_path / "labels.jsonl"
    append_labels(path, [label])
    assert read_labels([path]) == [label]


def test_a_label_as_a_number_is_about_the_first_of_the_two():
    assert [make_label(one, PAIR, "pair").value for one in ("A", "tie", "B")] == [1.0, 0.0, -1.0]
    assert [make_label(one, "a", "four-level").value for one in (1, 2, 3, 4)] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert [make_label(one, "a", "stars").value for one in (1, 2, 3, 4, 5)] == [0, 0.25, 0.5, 0.75, 1]
    assert [make_label("yes", "a").value, make_label("no", "a").value] == [1.0, 0.0]
    assert make_label((), "a", "boxes").value is None


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
        ({"kind": "pair", "label": "A", "id": ["a", "a"], "editor": ["x", "x"]}, "an image with itself"),
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
    with pytest.raises(InputError, match=r"labels\.jsonl:2 is not a label") as refused:
        read_labels([path])
    assert why in str(refused.value)


def test_a_line_that_a_crash_has_cut_is_no_label_and_nothing_is_written_behind_it(tmp_path):
    path = tmp_path / "labels.jsonl"
    append_labels(path, [make_label("yes", "a")])
    whole = path.read_text()
    for cut in (whole[:-1][: len(whole) // 2], whole[:-2]):
        path.write_text(whole + cut)
        assert [one.id for one in read_labels([path])] == ["a"]
        append_labels(path, [make_label("no", "b")])
        assert [one.id for one in read_labels([path])] == ["a", "b"]
    path.write_text(whole[:-1])  # a whole line that lacks its end
    append_labels(path, [make_label("no", "b")])
    assert [one.id for one in read_labels([path])] == ["a", "b"]


def test_the_later_of_two_labels_counts_and_an_annotators_last_round():
    first, again = make_label("yes", "a"), make_label("no", "a", minute=1)
    assert effective_labels([first, again]) == [again]
    assert effective_labels([first, make_label("no", "a", by="bob")])[0] == first
    turned = make_label("A", PAIR[::-1], "pair", minute=1)
    assert effective_labels([make_label("A", PAIR, "pair"), turned]) == [turned]
    anew = make_label("no", "b", round=2, minute=2)
    assert effective_labels([first, make_label("yes", "a", by="bob"), anew]) == [make_label("yes", "a", by="bob"), anew]


def test_labels_of_several_files_are_read_in_order(tmp_path):
    paths = [labels_file(tmp_path / f"{name}.jsonl", [make_label("yes", name)]) for name in ("one", "two")]
    assert [label.id for label in read_labels(paths)] == ["one", "two"]
    assert isinstance(read_labels(paths)[0], Label)
