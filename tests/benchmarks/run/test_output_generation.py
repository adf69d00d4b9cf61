"""Outputs are generated turn by turn, kept, and retried after failures; by functions, selectors and servers."""

import base64
import io
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import PIL.Image
import pytest

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.run.editor_outputs import Outputs
from editcritic.benchmarks.run.http_editor import HttpEditor
from editcritic.benchmarks.run.output_generation import (
    SelectionConfig,
    generate_outputs,
    item_seed,
    read_generation_records,
)
from editcritic.benchmarks.suites.suite import SuiteItem
from editcritic.reward import Image, Operation, Reward
from editcritic.verifiers import BestOfN, edit_request

from ..suites.tiny_suite import Toy, picture


class Brighter:
    """Adds one grey level to its input, and one more per earlier turn; fails for the instructions in `fails`."""

    nfe = 2

    def __init__(self, name="brighter", *, batch_size=3, fails=()):
        self.id, self.batch_size, self.fails = name, batch_size, fails
        self.requests: list[tuple[str, int]] = []

    def edit(self, images, instructions, seeds, *, history=None):
        self.requests += list(zip(instructions, seeds, strict=True))
        if any(words in self.fails for words in instructions):
            raise RuntimeError("it is too bright")
        before = [len(turns) for turns in history or [()] * len(images)]
        return [brighter(sources[0], 1 + turns) for sources, turns in zip(images, before, strict=True)]


def brighter(image: Image, levels: int) -> Image:
    return Image.of((np.minimum(image.pixels.astype(int) + levels, 255)).astype(np.uint8))


def test_a_turn_starts_from_what_was_made_at_the_one_before(tmp_path):
    suite, editor = Toy(count=3), Brighter()
    report = generate_outputs(suite, tmp_path, editor, seed=5)
    assert (len(report.generated), report.failed, report.exit_code) == (6, [], 0)
    assert [words for words, _ in editor.requests] == ["Make it number 1"] * 3 + ["Make it number 2"] * 3
    first, second = (Outputs(suite, tmp_path).picture(suite.by_id[name]) for name in ("1/1", "1/2"))
    assert first == brighter(picture(1), 1)
    assert second == brighter(first, 2)
    rows = read_generation_records(tmp_path)
    assert (rows["1/2"]["file"], rows["1/2"]["seed"]) == ("1_turn_2.png", item_seed("1/2", 5))
    assert {seed for _, seed in editor.requests} == {row["seed"] for row in rows.values()}
    assert all(row["nfe"] == 2 and row["seconds"] >= 0 for row in rows.values())


def test_what_is_there_is_kept_and_what_failed_is_tried_again(tmp_path):
    suite, made, torn = Toy(count=2), tmp_path / "made", tmp_path / "torn"
    report = generate_outputs(suite, made, Brighter(fails=["Make it number 2"]))
    assert [row.item for row in report.failed] == ["0/2", "1/2"]
    assert "it is too bright" in report.failed[0].error
    assert "it is too bright" in read_generation_records(made)["0/2"]["error"]
    editor = Brighter()
    report = generate_outputs(suite, made, editor)
    assert (report.existing, len(report.generated), len(editor.requests)) == (["0/1", "1/1"], 2, 2)
    torn.mkdir()
    (torn / "0_turn_1.png").write_bytes(b"torn")
    report = generate_outputs(suite, torn, editor)
    assert [(row.item, row.error.split(":")[0]) for row in report.failed] == [("0/2", "it starts from 0/1")]
    assert len(editor.requests) == 2 + 2
    editor = Brighter(batch_size=1, fails=["Make it number 1"])  # it makes nothing, and is given up
    report = generate_outputs(Toy(count=9), tmp_path / "nothing", editor)
    assert len(editor.requests) == 3
    assert "it is too bright" in report.stop_reason
    generate_outputs(Toy(count=1), tmp_path / "one", Brighter("one"))
    for editor, seed, message in (
        (Brighter("two"), 0, 'editor: "one" before, "two" now'),
        (Brighter("one"), 1, "seed"),
    ):
        with pytest.raises(InputError, match=message):
            generate_outputs(Toy(count=1), tmp_path / "one", editor, seed=seed)


def test_the_best_of_several_is_chosen_and_known_candidates_are_not_made_again(tmp_path):
    selection = SelectionConfig(BestOfN(n=3), Reward.of("guard-not-a-copy"))
    editor = Brighter()
    report = generate_outputs(Toy(count=2), tmp_path, editor, selection=selection)
    assert [row.candidates for row in report.generated] == [3] * 4
    assert len(editor.requests) == 12
    (tmp_path / "1_turn_2.png").unlink()
    generate_outputs(Toy(count=2), tmp_path, editor, selection=selection)
    assert len(editor.requests) == 12
    selector = read_generation_records(tmp_path)["1/2"]["selection"]["selector"]
    assert selector == {"use": "best-of", "n": 3}


def test_operations_are_made_one_after_the_other(tmp_path):
    editor, suite, words = Brighter(), Toy(count=1), ["Remove the cat", "Make it night", "Add a hat"]
    operations = tuple(Operation(one) for one in words)
    suite.items = [SuiteItem("c", "c", "c", edit_request(", ".join(words), picture(7), operations=operations))]
    report = generate_outputs(suite, tmp_path, editor, selection=SelectionConfig.sequential_operations())
    assert [asked for asked, _ in editor.requests] == words
    assert report.generated[0].nfe == 6
    assert Image.open(tmp_path / "c.png") == brighter(picture(7), 3)


# -- an editor behind HTTP --------------------------------------------------------------------------------------------


Handle = Callable[[BaseHTTPRequestHandler], object]


@contextmanager
def serving(handle: Handle, get: Handle = lambda request: None) -> Iterator[str]:
    """A server on loopback, by what it does with a POST and a GET."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            handle(self)

        def do_GET(self) -> None:
            get(self)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/edit"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def body(request: BaseHTTPRequestHandler) -> bytes:
    return request.rfile.read(int(request.headers["Content-Length"]))


def answering(answer: Callable[[dict[str, Any]], tuple[int, str, bytes]]) -> Handle:
    """What was posted -> status, content type, body."""

    def handle(request: BaseHTTPRequestHandler) -> None:
        status, kind, data = answer(json.loads(body(request)))
        request.send_response(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    return handle


def asked(url: str, **options: Any) -> Sequence[Image]:
    return HttpEditor(url, **options).edit([(picture(1),)], ["Make it so"], [1])


def edited(request: dict[str, Any]) -> bytes:
    sent = PIL.Image.open(io.BytesIO(base64.b64decode(request["images"][0])))
    out = io.BytesIO()
    brighter(Image.of(sent), 1 + len(request.get("history", ()))).pil().save(out, "PNG")
    return out.getvalue()


def test_a_served_editor_makes_what_one_in_the_process_makes(tmp_path):
    suite, heard = Toy(count=2), []

    def answer(request: dict[str, Any]) -> tuple[int, str, bytes]:
        heard.append(request)
        picture = edited(request)
        if "history" not in request:
            return 200, "image/png", picture
        return 200, "application/json", json.dumps({"image": base64.b64encode(picture).decode()}).encode()

    with serving(answering(answer)) as url:
        report = generate_outputs(suite, tmp_path / "served", HttpEditor(url, name="mine"))
    generate_outputs(suite, tmp_path / "here", Brighter())
    assert not report.failed
    assert {row["editor"] for row in read_generation_records(tmp_path / "served").values()} == {"mine"}
    for item in suite.items:
        assert Outputs(suite, tmp_path / "served").picture(item) == Outputs(suite, tmp_path / "here").picture(item)
    assert [request.get("history") for request in heard] == [None, None, ["Make it number 1"], ["Make it number 1"]]
    assert {request["seed"] for request in heard} == {item_seed(item.id) for item in suite.items}


def test_one_request_that_is_refused_fails_alone_with_the_servers_words(tmp_path):
    suite, asked_for = Toy(count=3), []
    refused = item_seed("1/1")

    def answer(request: dict[str, Any]) -> tuple[int, str, bytes]:
        asked_for.append(request["seed"])
        if request["seed"] == refused:
            return 422, "text/plain", b"not that picture"
        return 200, "image/png", edited(request)

    with serving(answering(answer)) as url:
        report = generate_outputs(suite, tmp_path, HttpEditor(url))
    assert {row.item: row.error for row in report.failed} == {
        "1/1": "the editor failed: RuntimeError: HTTP 422: not that picture",
        "1/2": "it starts from 1/1: there is no image 1_turn_1",
    }
    made = [seed for seed in asked_for if seed != refused]
    assert len(made) == len(set(made)) == 4


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([(500, "text/plain", b"busy"), (200, "image/png", b"")], "contains no image"),
        ([(500, "text/plain", b"busy")], "HTTP 500: busy"),
        ([(200, "application/json", b'{"picture": 1}')], "contains no image"),
        ([(200, "text/html", b"<p>hello</p>")], "contains no image"),
    ],
)
def test_answers_that_are_no_picture_are_told(answers, message):
    responses = iter([*answers, *[answers[-1]] * 9])
    with serving(answering(lambda _: next(responses))) as url, pytest.raises(RuntimeError, match=message):
        asked(url, pause_s=0.0)


def test_a_redirect_gets_neither_pictures_nor_the_key(monkeypatch):
    monkeypatch.setenv("EDITOR_KEY", "secret")
    heard: list[str] = []

    def listen(request: BaseHTTPRequestHandler) -> None:
        heard.append(str(request.headers))
        request.send_error(404)

    with serving(listen, listen) as foreign:

        def redirect(request: BaseHTTPRequestHandler) -> None:
            body(request)
            request.send_response(302)
            request.send_header("Location", foreign)
            request.end_headers()

        with serving(redirect) as url, pytest.raises(RuntimeError, match="HTTP 302"):
            asked(url, key_env="EDITOR_KEY", retries=0)
    assert not heard


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nx-header: ", b"x"),
        (b"HTTP/1.1 400 No\r\nContent-Length: 200\r\n\r\n", b"x"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n"),
    ],
    ids=["body", "header", "error", "continue", "chunk", "trailer"],
)
def test_a_response_that_drips_ends_at_the_timeout(head, piece):
    def drip(request: BaseHTTPRequestHandler) -> None:
        request.wfile.write(head)
        with suppress(OSError):  # until the client is gone
            for _ in range(150):
                request.wfile.write(piece)
                time.sleep(0.1)

    with serving(drip) as url, pytest.raises(RuntimeError, match="took too long"):
        asked(url, retries=0, timeout_s=1.0)


@pytest.mark.parametrize(
    "response",
    [
        b"what?\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\na: " + b"b" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nx",
        b"HTTP/1.1 400 \x1b[2Jcleared\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 400 No\r\nContent-Length: 6\r\n\r\n\x1b[2J\r\n",
        *(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + body
            for body in (
                b'{"image": 5}',
                b'{"image": null}',
                b'{"image": ["a"]}',
                b"[" * 100_000,
                b"[" + b"{}," * 9_999 + b"{}]",
            )
        ),
    ],
)
def test_whatever_a_server_sends_is_an_error_of_one_line(response):
    def answer(request: BaseHTTPRequestHandler) -> None:
        body(request)
        request.wfile.write(response)

    with serving(answer) as url, pytest.raises(RuntimeError) as refused:
        asked(url, retries=0)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("url", ["nowhere", "ftp://a/b", "http://me:secret@host/edit", "http://host/edit?key=secret"])
def test_urls_that_are_none_or_hold_secrets_are_refused(url):
    with pytest.raises(InputError) as refused:
        HttpEditor(url)
    assert "secret" not in str(refused.value)
    with serving(lambda _: None) as closed:
        pass
    with pytest.raises(RuntimeError, match="refused"):
        asked(closed, pause_s=0.0)


def test_the_command_makes_outputs_with_an_editor_of_the_users(editcritic, tmp_path):
    own = f"{__name__}:Brighter"
    command = ("bench", "generate", "tests.benchmarks.suites.tiny_suite:Toy?count=1", "--pipeline", own, "-o", tmp_path)
    first = editcritic(*command, "--json", code=0)
    assert json.loads(first.stdout)["generated"] == 2
    assert json.loads(editcritic(*command, "--json").stdout)["existing"] == 2
    assert "either --pipeline or --editor-url" in editcritic(*command, "--editor-url", "http://127.0.0.1:1/").stderr
