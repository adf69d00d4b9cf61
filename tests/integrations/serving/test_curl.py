"""The commands of docs/serving.md, as they are printed there."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from editcritic.reward import Image

from .served import TOKEN, serving

PAGE = (Path(__file__).parents[3] / "docs" / "serving.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^```text\n(curl .*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def ask(command: str, url: str, folder: Path) -> dict[str, Any]:
    assert "http://127.0.0.1:8321" in command
    for name, value in (("before", 90), ("after", 200)):
        Image.of(np.full((12, 16, 3), value, np.uint8)).pil().save(folder / f"{name}.png")
    script = command.replace("http://127.0.0.1:8321", url)
    ran = subprocess.run(
        ["bash", "-c", script], cwd=folder, env={"PATH": "/usr/bin:/bin", "JUDGE_TOKEN": TOKEN}, timeout=60,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


@pytest.mark.parametrize(("number", "token"), [(0, ""), (1, TOKEN)])
def test_the_page_has_a_command_without_and_one_with_a_token(number: int, token: str, tmp_path: Path) -> None:
    with serving(token=token) as (url, _):
        answer = ask(COMMANDS[number], url, tmp_path)
        (score,) = answer["scores"]
        assert (score["id"], score["status"]) == ("a", "scored")
        if token:
            assert "error" in ask(COMMANDS[0], url, tmp_path)
