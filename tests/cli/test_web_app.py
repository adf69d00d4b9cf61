"""`editcritic app`: what it prints, and mistakes on its command line."""

import http.client
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from editcritic.reward.installation import install_command

from ..benchmarks.conftest import Command
from ..default_signals import default_signals

COMMAND = [sys.executable, "-m", "editcritic.cli.main", "app"]


def test_with_json_the_address_is_a_document(tmp_path: Path) -> None:
    with default_signals():
        process = subprocess.Popen(
            [*COMMAND, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )  # fmt: skip
    assert process.stdout is not None
    document = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
    parts = urlsplit(document["address"])
    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 0, timeout=30)
    connection.request("GET", parts.path)
    assert connection.getresponse().status == 200
    connection.close()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert errors.startswith("editcritic: starting the page with any-edit, cpu\n")
    assert document["address"] in errors
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere does not exist: name files and folders that the page may open"),
        (["--reward", "no-such-reward"], "no-such-reward"),
        (["--experts", "no-such-bundle"], "no-such-bundle"),
        (["--port", "70000"], "65535"),
        (["--cache", "/nowhere/answers.db"], "/nowhere/answers.db"),
    ],
)
def test_a_mistake_is_said_before_the_page_is_opened(editcritic, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    run = editcritic("app", *arguments, code=2)
    assert message in " ".join(run.stderr.split())
    assert "http://" not in run.stdout
    assert [*tmp_path.iterdir()] == []


def test_without_gradio_the_extra_is_named(editcritic: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gradio", None)
    for name in [name for name in sys.modules if name.startswith("editcritic.benchmarks.web_app")]:
        monkeypatch.delitem(sys.modules, name)  # which may have it already
    run = editcritic("app", code=2)
    assert run.stderr == f"editcritic: this requires gradio, which is not installed: {install_command('app')}\n"
