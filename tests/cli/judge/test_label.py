"""`judge label` as a user runs it: a process that serves the page until it is interrupted, and labels as files."""

import csv
import http.client
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import PIL.Image
import pytest

from editcritic.benchmarks.suites.human_labels import read_labels
from editcritic.benchmarks.suites.results import RUN_FILE
from editcritic.reward.installation import install_command

from ...benchmarks.human_eval import label_files
from ...benchmarks.human_eval.label_files import make_label, results, row
from ...benchmarks.suites.tiny_suite import Toy, outputs, picture

TOY = "tests.benchmarks.suites.tiny_suite:Toy?count=3"
COMMAND = [sys.executable, "-m", "editcritic.cli.main", "judge", "label"]
PLAIN = "practice_questions = 0\nrecheck_share = 0.0\n"


def started(*arguments):
    """The command in a process of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores interrupts
    try:
        return subprocess.Popen(
            [*COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    finally:
        signal.signal(signal.SIGINT, before)


def page_status(url: str) -> int:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 0, timeout=60)
    connection.request("GET", parts.path)
    status = connection.getresponse().status
    connection.close()
    return status


def study(folder: Path, settings: str = PLAIN, name: str = "study.toml") -> list[str]:
    (folder / name).write_text(settings, encoding="utf-8")
    return ["--config", str(folder / name)]


def editors(folder: Path, *names: str) -> list[str]:
    suite = Toy(count=3)
    return [f"--outputs={name}={outputs(folder / name, suite)}" for name in names]


def two_editors(folder: Path) -> list[str]:
    return [TOY, *editors(folder, "one", "two"), *study(folder), "-o", str(folder / "labels.jsonl")]


def answered_sheet(folder: Path, answer: str) -> Path:
    """The sheet in the folder with this answer in every row."""
    path = folder / "questions.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    column = rows[0].index("answer")
    for cells in rows[1:]:
        cells[column] = answer
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=";").writerows(rows)  # as a spreadsheet of some countries saves it
    return path


@pytest.mark.parametrize("as_json", [False, True])
def test_the_page_is_served_until_an_interrupt(tmp_path, as_json):
    label_files.labels_file(tmp_path / "labels.jsonl", [make_label("A", (("one", "0/1"), ("two", "0/1")), "pair")])
    process = started(*two_editors(tmp_path), *["--json"][: int(as_json)])
    told = process.stderr if as_json else process.stdout  # the document is alone on standard output, and comes last
    assert told is not None
    if as_json:
        starts = (f"opening {TOY}", "starting the page with any-edit, cpu")
        assert tuple(told.readline().strip() for _ in starts) == tuple(f"editcritic: {text}" for text in starts)
    assert told.readline().removeprefix("editcritic: ").startswith("6 questions")
    assert page_status(told.readline().strip().rpartition(" ")[2]) == 200
    process.send_signal(signal.SIGINT)
    output, problems = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in problems) == (0, False)
    assert json.loads(output)["labels"] == 1 if as_json else "no checks" in output
    assert len(read_labels([tmp_path / "labels.jsonl"])) == 1


def test_a_sheet_is_written_answered_and_read_back_and_again_adds_nothing(editcritic, tmp_path):
    command = ("judge", "label", *two_editors(tmp_path))
    sheet = tmp_path / "sheet"
    editcritic(*command, "--sheet", sheet, "--annotator", "ann", code=0, shows="6 questions are in")
    with (sheet / "questions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    assert not {"one", "two"} & set((sheet / "questions.csv").read_text(encoding="utf-8").replace(",", " ").split())
    for line in rows:
        with PIL.Image.open(sheet / line["picture"]) as shown:
            assert shown.width == 3 * 32 + 2 * 12
    path = answered_sheet(sheet, "Tie")
    for added in (6, 0):
        assert json.loads(editcritic(*command, "--import", path, "--json", code=0).stdout)["added"] == added
    labels = read_labels([tmp_path / "labels.jsonl"])
    assert [(label.label, label.annotator) for label in labels] == [("tie", "ann")] * 6
    more = ("--sheet", tmp_path / "more", "--annotator", "ann")
    editcritic(*command, *more, shows="0 questions are in")  # all are answered
    (tmp_path / "two" / "1_turn_2.png").rename(tmp_path / "two" / "1-2.png")
    third = (*study(tmp_path, "practice_questions = 3\n"), "--sheet", tmp_path / "third", "--annotator", "bob")
    messages = editcritic(*command, *third).stderr
    assert "editcritic: no practice questions: " in messages
    assert "editcritic: two: 1 picture among the outputs is of no item that is looked for: 1-2.png" in messages
    assert "editcritic: one:" not in messages


def test_others_answer_a_fifth_of_the_labels_without_seeing_them(editcritic, tmp_path):
    command = ("judge", "label", *two_editors(tmp_path)[:-1])
    pairs = [(("one", f"{n}/{turn}"), ("two", f"{n}/{turn}")) for n in range(3) for turn in (1, 2)]
    labels = label_files.labels_file(
        tmp_path / "labels.jsonl", [make_label("A", pair, "pair", dimension="overall") for pair in pairs]
    )
    sheet, share = ("--sheet", tmp_path / "sheet", "--annotator", "us"), study(tmp_path, "", "check.toml")
    editcritic(*command, tmp_path / "checked.jsonl", "--check", labels, *share, *sheet, shows="2 questions are in")
    path = answered_sheet(tmp_path / "sheet", "Tie")
    editcritic(*command, tmp_path / "checked.jsonl", "--check", labels, *share, "--import", path)
    assert [label.label for label in read_labels([tmp_path / "checked.jsonl"])] == ["tie"] * 2
    editcritic(
        *(*command, labels, "--gold-labels", tmp_path / "checked.jsonl", "--export", tmp_path / "all.csv"),
        shows="2 of 2 differ from the known answer (100% errors, above 10%: void, another annotator",
    )


def test_an_odd_row_is_one_message_and_the_others_are_read(editcritic, tmp_path):
    command = ("judge", "label", *two_editors(tmp_path))
    editcritic(*command, "--sheet", tmp_path / "sheet", "--annotator", "ann")
    path = answered_sheet(tmp_path / "sheet", "left")
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[2] = lines[2].replace(";left;", ";=HYPERLINK(1);")
    lines[3] = lines[3].rsplit(";", 1)[0] + ";q0000"
    path.write_text("\n".join(lines), encoding="utf-8")
    odd = (
        "questions.csv:3: the answer is left, tie, right; got '=HYPERLINK(1)'",
        "questions.csv:4: this question is not",
    )
    editcritic(*command, "--import", path, code=2, says=odd)
    assert len(read_labels([tmp_path / "labels.jsonl"])) == 4


def test_labels_go_out_and_in_as_csv_and_jsonl(editcritic, tmp_path):
    command = ("judge", "label", *two_editors(tmp_path)[:-1])
    pair = (("=one", "0/1"), ("two", "0/1"))
    label_files.labels_file(tmp_path / "labels.jsonl", [make_label("A", pair, "pair", note="=1+1")])
    for name in ("out.csv", "out.jsonl"):
        editcritic(*command, tmp_path / "labels.jsonl", "--export", tmp_path / name, code=0)
        again = (tmp_path / f"again {name}.jsonl", "--import", tmp_path / name)
        editcritic(*command, *again, code=0, shows="1 labels added")
        assert read_labels([tmp_path / f"again {name}.jsonl"]) == read_labels([tmp_path / "labels.jsonl"])
    assert "'=one" in (tmp_path / "out.csv").read_text(encoding="utf-8")


def test_a_study_is_in_a_file_and_options_come_first(editcritic, tmp_path):
    gold = label_files.labels_file(
        tmp_path / "gold.jsonl", [make_label("yes", f"{n}/{turn}", editor="one") for n in range(3) for turn in (1, 2)]
    )
    label_files.labels_file(tmp_path / "labels.jsonl", [make_label("no", f"{n}/1", editor="one") for n in range(3)])
    other = label_files.labels_file(tmp_path / "other.jsonl", [make_label("no", "0/1", editor="one")])
    command = ("judge", "label", TOY, *editors(tmp_path, "one", "two", "three"), "--annotator", "new", "--json")
    design = f'questions = ["yes-no:following", "pair:overall"]\ngold_labels = "{gold.name}"\n'
    sheets = 0

    def asked(settings: str, *options: object) -> tuple[list[dict[str, str]], dict[str, Any]]:
        nonlocal sheets
        sheets += 1
        sheet = tmp_path / f"sheet{sheets}"
        words = ("-o", tmp_path / "labels.jsonl", "--sheet", sheet, *study(tmp_path, settings), *options)
        document = json.loads(editcritic(*command, *words, code=0).stdout)
        with (sheet / "questions.csv").open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file)), document

    def count(settings: str, *options: object) -> int:
        return len(asked(settings, *options)[0])

    every = PLAIN + design
    assert count(every) == 6 * 3 + 6 * 3  # six items: each of three editors, and their pairs
    assert count(every + "num_items = 2\n") == 2 * 3 + 2 * 3
    assert count(every + "num_items = 2\n", "--num-items", 1) == 3 + 3
    assert count(every + "num_items = 2\n", "--question", "pair:overall") == 2 * 3
    assert count(every + "editors_per_dimension = 2\n") == 6 * 3 + 6
    assert count(design + "num_items = 1\npractice_questions = 0\nrecheck_share = 1.0\n") == 2 * 6
    # Of the six questions one has a known answer.
    assert count(design + "num_items = 1\npractice_questions = 2\nrecheck_share = 1.0\n") == 1 + 2 * 5
    rows, document = asked(every + 'num_items = 1\ndefinitions = {following = "Seen by eye?"}\n')
    assert {row["definition"] for row in rows if row["dimension"] == "following"} == {"Seen by eye?"}
    assert document["checks"][0]["error_rate"] == 1.0
    assert not asked(every, "--gold-labels", other)[1]["checks"][0]["error_rate"]
    chosen = [{row["question"] for row in asked(f"{every}num_items = 1\nseed = {seed}\n")[0]} for seed in (0, 0, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2] != chosen[3]


def test_edits_of_ones_own_are_labelled_in_pairs_of_a_source(editcritic, tmp_path):
    folder = tmp_path / "edits"
    folder.mkdir()
    for number in range(3):
        for role in ("source", "edited"):
            same_source = 0 if number < 2 else 2  # two edits of one source, and one of another
            picture(same_source if role == "source" else 100 + number).pil().save(folder / f"{number}_{role}.png")
    plain, sheet = (
        ("judge", "label", folder, "-o", tmp_path / "l.jsonl"),
        ("--sheet", tmp_path / "s", "--annotator", "ann"),
    )
    editcritic(*plain, *sheet, code=2)  # no instruction anywhere
    for number in range(3):
        (folder / f"{number}.txt").write_text("Make it blue", encoding="utf-8")
    command = (*plain, *study(tmp_path))
    editcritic(*command, *sheet, code=0)
    editcritic(*command, "--import", answered_sheet(tmp_path / "s", "left"), code=0)
    (label,) = read_labels([tmp_path / "l.jsonl"])
    assert (set(label.id), label.editor) == ({"0", "1"}, "")


def test_a_folder_of_results_says_where_its_pictures_are(editcritic, tmp_path):
    folder = label_files.write(tmp_path / "results", results("mine", [row("0/1")]))
    outputs(tmp_path / "outputs", Toy(count=3))
    (folder / RUN_FILE).write_text(json.dumps({"invocation": {"suite": TOY, "data": None, "outputs": "../outputs"}}))
    command = ("judge", "label", folder, "--question", "yes-no:following", "-o", tmp_path / "labels.jsonl")
    sheet = ("--sheet", tmp_path / "sheet", "--annotator", "ann")
    editcritic(*command, *sheet, code=2)  # the suite is code that the results name
    trust = ("--trust", TOY.partition(":")[0])
    editcritic(*command, *sheet, *trust, code=0)
    editcritic(*command, "--import", answered_sheet(tmp_path / "sheet", "yes"), *trust, code=0)
    assert read_labels([tmp_path / "labels.jsonl"])[0].editor == "mine"


def test_without_gradio_sheets_work_and_the_page_names_the_extra(tmp_path):
    code = "import sys; sys.modules['gradio'] = None; from editcritic.cli.main import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", code, "judge", "label", *two_editors(tmp_path)], capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert run.returncode == 2
    assert run.stderr == f"editcritic: this requires gradio, which is not installed: {install_command('app')}\n"
    assert not (tmp_path / "labels.jsonl").exists()
    command = [sys.executable, "-c", code, "judge", "label", *two_editors(tmp_path)]
    command += ["--sheet", str(tmp_path / "sheet"), "--annotator", "ann"]
    assert subprocess.run(command, capture_output=True, timeout=120, check=False).returncode == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--outputs", "elsewhere"], "NAME=FOLDER"),
        (["--outputs", "one=elsewhere"], "does not exist"),
        (["--question", "pairs:overall"], "KIND:DIMENSION"),
        (["--question", "reference:reference"], "nothing to ask"),
        (["--gold-labels", "labels.jsonl"], "use different files"),
        (["--export", "labels.jsonl"], "use different files"),
        (["--export", "labels.xlsx"], "neither .csv nor .jsonl"),
        (["--sheet", "sheet"], "go together"),
        (["--sheet", "sheet", "--annotator", " "], "1 to 100 printable characters"),
        (["--sheet", ".", "--annotator", "ann"], "give a new folder"),
        (["--import", "nowhere.csv"], "cannot read nowhere.csv"),
        (["-o", "nowhere/labels.jsonl"], "no folder nowhere"),
    ],
)
def test_what_a_user_gets_wrong_is_said(editcritic, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    editcritic("judge", "label", TOY, "-o", "labels.jsonl", *options, code=2, says=message)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("recheck = 0.1", "study.toml: unknown key recheck: the keys are questions, num_items, seed, editors_per"),
        ("num_items = 0", "study.toml: num_items: input should be greater than 0, got 0"),
        ('definitions = "yes"', "study.toml: definitions: input should be a valid dictionary, got 'yes'"),
        ("questions = ['pairs:overall']", "KIND:DIMENSION"),
        ("gold_labels = 'labels.jsonl'", "use different files"),
        ("gold_labels = '../gold.jsonl'", "would read gold_labels from"),
        ("questions = [", "study.toml is not TOML"),
    ],
)
def test_what_a_study_gets_wrong_is_said(editcritic, tmp_path, monkeypatch, settings, message):
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(settings)
    editcritic("judge", "label", TOY, "-o", "labels.jsonl", "--config", "study.toml", code=2, says=message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "its first row has no names"),
        (b"a,b\n1,2\n", "its first row has a, b"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"kind,kind\n", "two columns of one name"),
        (b"kind,label\n" + b"x" * 200_000 + b",\n", "field larger than field limit"),
    ],
)
def test_what_is_no_sheet_is_said(editcritic, tmp_path, monkeypatch, content, message):
    monkeypatch.chdir(tmp_path)
    Path("in.csv").write_bytes(content)
    editcritic("judge", "label", TOY, "-o", "labels.jsonl", "--import", "in.csv", code=2, says=message)
