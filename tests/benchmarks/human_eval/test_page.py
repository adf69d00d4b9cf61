"""The annotation page: requests and replies on this machine, and the page in a browser."""

import http.client
import io
import json
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from urllib.parse import urlsplit

import numpy as np
import PIL.Image
import pytest

from editcritic.benchmarks.human_eval.annotation_plan import QuestionPool, QuestionType
from editcritic.benchmarks.human_eval.annotation_server import MAX_BODY_BYTES, LabelServer
from editcritic.benchmarks.human_eval.annotation_session import AnnotationSession
from editcritic.benchmarks.human_eval.annotator_checks import known_answers
from editcritic.benchmarks.suites.human_labels import effective_labels, read_labels

from .. import chromium
from ..suites.tiny_suite import Toy, outputs

SIDES = {"left": "right", "right": "left", "tie": "tie"}


class Page:
    """A server, and the requests of a browser."""

    def __init__(self, session: AnnotationSession) -> None:
        self.session = session
        self.server = LabelServer(session)
        self.root = urlsplit(self.server.url).path
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def ask(self, path, body=None, *, method=None, root=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_port, timeout=10)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        try:
            connection.request(method or ("GET" if body is None else "POST"), (root or self.root) + path, data, sent)
            response = connection.getresponse()
            return response.status, response.read(), dict(response.headers)
        finally:
            connection.close()

    def json(self, path, body=None):
        status, reply, _ = self.ask(path, body)
        assert status == 200, reply
        return json.loads(reply)

    def question(self, annotator="ann", number=None):
        return self.json(f"question?annotator={annotator}" + ("" if number is None else f"&number={number}"))

    def say(self, label, number, annotator="ann", **more):
        return self.json("answer", {"annotator": annotator, "number": number, "label": label, "seconds": 1.0, **more})

    def all(self, choose, annotator="ann"):
        """Answer every question; returns them and the final reply."""
        questions = []
        while not (question := self.question(annotator))["finished"]:
            questions.append(question)
            assert len(questions) < 500
            self.say(choose(question), question["number"], annotator)
        return questions, question

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def opened(tmp_path):
    """Opens a page about three editors' images of four chains."""
    suite = Toy(count=4)
    folders = {name: outputs(tmp_path / name, suite) for name in ("one", "two", "three")}
    for name, folder in folders.items():  # so that editors differ
        for path in folder.glob("*.png"):
            shade = {"one": 10, "two": 120, "three": 240}[name]
            PIL.Image.new("RGB", (32, 32), (shade, int(path.stem[0]), int(path.stem[-1]))).save(path)
    pages = []

    def make(*abouts, editors=("one", "two"), **options):
        pool = QuestionPool(suite, {name: folders[name] for name in editors})
        about = [QuestionType.parse(text) for text in abouts or ("pair:overall",)]
        session = AnnotationSession(pool, pool.questions(about), tmp_path / "labels.jsonl", **options)
        pages.append(Page(session))
        return pages[-1]

    yield make
    for page in pages:
        page.close()


def test_an_annotator_goes_through_to_the_end_and_every_answer_is_in_the_file(opened, tmp_path):
    page = opened(practice_questions=2, clock=lambda: datetime(2026, 3, 1, tzinfo=timezone.utc))
    questions, end = page.all(lambda question: "left")
    assert [question["phase"] for question in questions] == ["trial"] * 2 + [
        "main"
    ] * 7  # 6 of 8, and a fifth of them again
    labels = read_labels([tmp_path / "labels.jsonl"])
    assert len(labels) == 9
    assert {label.phase for label in labels} == {"trial", "main", "recheck"}
    assert all(label.label == ("B" if label.swapped else "A") for label in labels)
    assert {label.swapped for label in labels} == {True, False}
    assert (end["finished"], len(end["checks"])) == (True, 1)


def test_which_editor_is_on_which_side_is_not_told_and_the_label_knows(opened, tmp_path):
    page = opened(practice_questions=0)

    def darker(question):
        shades = {
            one["role"]: np.asarray(PIL.Image.open(io.BytesIO(page.ask(f"image/{one['key']}")[1])))[0, 0, 0]
            for one in question["images"]
        }
        assert not {"one", "two"} & set(json.dumps(question).replace('"', " ").split())
        return "left" if shades["left"] < shades["right"] else "right"

    page.all(darker)
    assert {label.label for label in read_labels([tmp_path / "labels.jsonl"])} == {"A"}  # `one` is the darker editor


def test_the_same_file_goes_on_where_it_was_left(opened):
    page = opened(practice_questions=0)
    for _ in range(3):
        page.say("tie", page.question()["number"])
    again = opened(practice_questions=0)
    assert again.question()["number"] == 3
    assert again.json("session")["annotators"] == ["ann"]
    assert again.question("bob")["number"] == 0


def test_a_question_can_be_answered_anew_and_the_last_answer_counts(opened, tmp_path):
    page = opened("yes-no:following", editors=("one",), practice_questions=0)
    page.say("yes", 0)
    page.say("yes", 1)
    assert page.question(number=0)["previous_label"] == "yes"
    page.say("no", 0, note="a slip")
    assert page.question()["number"] == 2
    assert [label.label for label in effective_labels(read_labels([tmp_path / "labels.jsonl"]))] == ["yes", "no"]


def test_pairs_asked_twice_are_shown_the_other_way_round_and_not_as_a_second_time(opened):
    page = opened(practice_questions=0, recheck_share=1.0)
    questions, end = page.all(lambda question: "left")
    assert {question["phase"] for question in questions} == {"main"}
    shown = [{p["role"]: p["key"] for p in question["images"]} for question in questions]
    assert sum(a["left"] == b["right"] and a["right"] == b["left"] for a in shown for b in shown) == 16
    (check,) = end["checks"]
    assert (check["num_repeated"], check["num_inconsistent"], check["needs_repeat"]) == (
        8,
        8,
        True,
    )  # always left: never the same editor


def test_a_dimension_with_many_errors_is_asked_anew_and_only_the_last_round_counts(opened, tmp_path):
    page = opened(practice_questions=0, recheck_share=0.5)
    body = {"annotator": "ann", "kind": "pair", "dimension": "overall"}
    page.say("left", 0)
    assert page.ask("repeat", body)[0] == 409
    page.all(lambda question: "left")
    assert page.json("repeat", body) == {"round": 2}
    _, end = page.all(lambda question: "tie")
    assert end["checks"][0]["needs_repeat"] is False
    labels = effective_labels(read_labels([tmp_path / "labels.jsonl"]))
    assert {(label.label, label.round) for label in labels} == {("tie", 2)}
    assert opened(practice_questions=0, recheck_share=0.5).question()[
        "finished"
    ]  # the second round, too, is known from the file


def test_practice_is_held_against_the_known_answer_or_against_others(opened, tmp_path):
    page = opened("yes-no:following", editors=("one",), practice_questions=2)
    number = page.question()["number"]
    assert page.say("yes", number)["feedback"] == {
        "is_correct": None,
        "known": None,
        "note": "",
        "source": "none",
    }
    page.all(lambda question: "yes")
    known = known_answers(read_labels([tmp_path / "labels.jsonl"]))
    assert known
    right = opened("yes-no:following", editors=("one",), practice_questions=2, known_answers=known)
    feedback = right.say("no", right.question("bob")["number"], "bob")["feedback"]
    assert (feedback["is_correct"], feedback["known"], feedback["source"]) == (False, "yes", "gold")
    assert right.say("yes", right.question("bob")["number"], "bob")["feedback"]["is_correct"] is True


def test_boxes_are_kept_in_pixels_of_the_source_and_refused_outside_of_it(opened, tmp_path):
    page = opened("boxes:target", editors=(), practice_questions=0)
    question = page.question()
    assert [one["role"] for one in question["images"]] == ["source"]
    page.say([[1, 2, 30, 32]], 0)
    page.say([], 1)
    status, reply, _ = page.ask("answer", {"annotator": "ann", "number": 2, "label": [[0, 0, 33, 5]], "seconds": 1})
    assert (status, "outside" in reply.decode()) == (409, True)
    assert [label.label for label in read_labels([tmp_path / "labels.jsonl"])] == [((1.0, 2.0, 30.0, 32.0),), ()]


def test_several_annotators_at_once_lose_nothing(opened, tmp_path):
    page = opened(practice_questions=0, recheck_share=0)
    with ThreadPoolExecutor(4) as people:
        list(people.map(lambda name: page.all(lambda question: "tie", name), ["a", "b", "c", "d"]))
    labels = read_labels([tmp_path / "labels.jsonl"])
    assert {name: sum(label.annotator == name for label in labels) for name in "abcd"} == dict.fromkeys("abcd", 8)


# -- what is refused ---------------------------------------------------------------------------------------------------

ANSWER = {"annotator": "ann", "number": 0, "label": "left", "seconds": 1}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[]", 400),
        (b"\xff\xfe", 400),
        ({**ANSWER, "number": -1}, 400),
        ({**ANSWER, "number": "first"}, 400),
        ({**ANSWER, "seconds": -1}, 400),
        ({**ANSWER, "annotator": " "}, 400),
        ({**ANSWER, "annotator": "a\nb"}, 400),
        ({**ANSWER, "phase": "answer"}, 400),
        ({**ANSWER, "label": {"left": 1}}, 400),
        ({**ANSWER, "label": "yes"}, 409),
        ({**ANSWER, "number": 5}, 409),
        (b" " * (MAX_BODY_BYTES + 1), 413),
    ],
)
def test_what_is_no_answer_is_refused_and_nothing_is_written(opened, tmp_path, body, status):
    page = opened(practice_questions=0)
    code, reply, _ = page.ask("answer", body)
    assert code == status, reply
    assert json.loads(reply)["error"]
    assert read_labels([tmp_path / "labels.jsonl"]) == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "example.org"},
        {"Host": "127.0.0.1.example.org:80"},
        {"Origin": "http://example.org"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_other_origins_and_other_names_for_this_machine_are_refused(opened, headers):
    page = opened()
    assert page.ask("", **headers)[0] == 403
    assert page.ask("answer", ANSWER, **headers)[0] == 403


def test_a_form_of_another_page_is_no_answer(opened):
    assert opened().ask("answer", ANSWER, Content_Type="text/plain")[0] == 415


@pytest.mark.parametrize("path", ["../labels.jsonl", "%2e%2e/labels.jsonl", "image/../page.css", "image/0"])
def test_there_is_nothing_but_the_page_and_pictures_that_were_shown(opened, path):
    assert opened().ask(path)[0] == 404


@pytest.mark.parametrize("root", ["/", "/wrong/", "/page.css", "//"])
def test_without_the_token_there_is_nothing(opened, root):
    page = opened()
    status, body, _ = page.ask("", root=root)
    assert (status, page.server.token.encode() in body) == (404, False)


@pytest.mark.parametrize("query", ["", "annotator=", "annotator=ann&number=x", "annotator=ann&number=-1"])
def test_questions_without_a_name_or_a_number_are_refused(opened, query):
    assert opened().ask(f"question?{query}")[0] == 400


@pytest.mark.parametrize(
    ("target", "length", "status"), [("http://[::1", "0", b"404"), ("/{token}/answer", "9" * 5000, b"413")]
)
def test_odd_requests_are_refused_and_print_nothing(opened, capfd, target, length, status):
    server = opened().server
    head = (
        f"POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"
    )
    with socket.create_connection(server.server_address, timeout=10) as client:
        client.sendall(head.replace("{token}", server.token).encode() + b"\r\n")
        assert client.recv(1000).split()[1] == status
    assert "Traceback" not in capfd.readouterr().err


def test_a_client_that_is_gone_prints_nothing(opened, capfd):
    server = opened().server
    for _ in range(5):
        with socket.create_connection(server.server_address, timeout=10) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed by a reset
            client.sendall(f"GET /{server.token}/page.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() * 200)
    assert opened().ask("")[0] == 200
    try:
        raise BrokenPipeError
    except OSError:
        server.handle_error(None, None)
    assert "Traceback" not in capfd.readouterr().err


def test_other_methods_are_refused_and_only_this_machine_is_listened_to(opened):
    page = opened()
    assert page.ask("", method="PUT")[0] == 501
    assert page.server.server_address[0] == "127.0.0.1"


def test_the_page_takes_nothing_from_the_network(opened):
    page = opened()
    status, body, headers = page.ask("")
    assert status == 200
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    text = b"".join([body, page.ask("page.js")[1], page.ask("page.css")[1]])
    assert b"http://" not in text
    assert b"https://" not in text


# -- in a browser ------------------------------------------------------------------------------------------------------


@chromium.needed
def test_a_question_as_a_browser_shows_it(opened, tmp_path):
    page = opened(practice_questions=0)
    shown = chromium.opened(page.server.url, "#annotator=ann", profile=tmp_path / "browser").dom
    assert "Make it number" in shown
    assert shown.count('<img src="image/') == 3
    assert "Left is better" in shown
    assert '<p id="problem" role="alert" hidden="">' in shown
