"""`judge label` as a user runs it: a process that serves the page until it is interrupted."""

import json
import signal
import subprocess
import sys
import urllib.request

import pytest

from editcritic.benchmarks.suites.human_labels import read_labels
from editcritic.benchmarks.suites.results import RUN_FILE

from ...benchmarks.human_eval import label_files
from ...benchmarks.human_eval.label_files import results, row
from ...benchmarks.suites.tiny_suite import Toy, outputs

TOY = "tests.benchmarks.suites.tiny_suite:Toy?count=3"


class Served:
    """The command in a process of its own; `url` is what it prints."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "editcritic.cli.main", "judge", "label", *map(str, arguments)]
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores interrupts
        try:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        finally:
            signal.signal(signal.SIGINT, before)
        assert self.process.stdout is not None
        self.first_line = self.process.stdout.readline()
        self.url = self.process.stdout.readline().strip()

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"} if data else {})
        with urllib.request.urlopen(request, timeout=20) as response:
            return json.load(response)

    def interrupted(self):
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@pytest.fixture
def serve():
    started = []

    def start(*arguments):
        started.append(Served(*arguments))
        return started[-1]

    yield start
    for served in started:
        served.process.kill()
        served.process.communicate()


def test_labels_are_collected_until_an_interrupt_and_the_same_command_goes_on(serve, tmp_path):
    suite = Toy(count=3)
    folders = [f"{name}={outputs(tmp_path / name, suite)}" for name in ("one", "two")]
    out = tmp_path / "labels.jsonl"
    command = (
        TOY,
        "--outputs",
        folders[0],
        "--outputs",
        folders[1],
        "--practice-questions",
        0,
        "--recheck-share",
        0,
        "-o",
        out,
    )
    page = serve(*command)
    assert page.first_line.startswith("6 questions")
    for number in range(6):
        assert page.ask("question?annotator=ann")["number"] == number
        page.ask("answer", {"annotator": "ann", "number": number, "label": "tie", "seconds": 1})
    code, output, problems = page.interrupted()
    assert (code, "no checks" in output, "Traceback" in problems) == (0, True, False)
    assert [label.label for label in read_labels([out])] == ["tie"] * 6
    again = serve(*command)
    assert again.ask("question?annotator=ann")["finished"]
    assert again.interrupted()[0] == 0


def test_a_folder_of_results_says_where_its_pictures_are(serve, tmp_path):
    folder = label_files.write(tmp_path / "results", results("mine", [row("0/1")]))
    outputs(tmp_path / "outputs", Toy(count=3))
    (folder / RUN_FILE).write_text(json.dumps({"invocation": {"suite": TOY, "data": None, "outputs": "../outputs"}}))
    trust = ("--trust", TOY.partition(":")[0])
    page = serve(
        folder, *trust, "--question", "yes-no:following", "--practice-questions", 0, "-o", tmp_path / "labels.jsonl"
    )
    page.ask("answer", {"annotator": "ann", "number": 0, "label": "yes", "seconds": 1})
    assert page.interrupted()[0] == 0
    assert read_labels([tmp_path / "labels.jsonl"])[0].editor == "mine"


def test_with_json_the_address_is_an_error_line_and_the_document_comes_at_the_end(tmp_path):
    made, out = outputs(tmp_path / "one", Toy(count=3)), tmp_path / "labels.jsonl"
    command = [sys.executable, "-m", "editcritic.cli.main", "judge", "label", TOY, "--outputs", f"one={made}"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            [*command, "-o", str(out), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.stderr is not None
    assert "questions" in process.stderr.readline()
    url = process.stderr.readline().strip()
    with urllib.request.urlopen(f"{url}question?annotator=ann", timeout=20) as response:
        assert json.load(response)["number"] == 0
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate(timeout=60)
    assert (process.returncode, json.loads(stdout)["labels"]) == (0, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--outputs", "elsewhere"], "NAME=FOLDER"),
        (["--outputs", "one=elsewhere"], "does not exist"),
        (["--question", "pairs:overall"], "KIND:DIMENSION"),
        (["--question", "reference:reference"], "nothing to ask"),
        (["--definition", "overall"], "DIMENSION=TEXT"),
        (["--gold-labels", "labels.jsonl"], "use different files"),
        (["-o", "nowhere/labels.jsonl"], "no folder nowhere"),
    ],
)
def test_what_a_user_gets_wrong_is_said(editcritic, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    ran = editcritic("judge", "label", TOY, "-o", "labels.jsonl", *options)
    assert ran.exit_code == 2
    assert message in ran.stderr
