"""Running `editcritic` as it is installed beside this Python, on drawn pictures."""

import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np

PROGRAM = str(Path(sys.executable).with_name("editcritic"))
INSTRUCTION = "Make the box blue"
BOXES = '{"box": [80, 60, 160, 120]}'
WITHOUT_OCR = "any-edit?text_guard=false"
START_S = 120.0


def editcritic(*arguments: str, code: int = 0) -> str:
    """Run a command; what it printed, on both streams. Raises AssertionError on another exit code."""
    return _run([PROGRAM, *arguments], code)


def run_module(name: str, *arguments: str) -> str:
    """Run `python -m name`; what it printed. Raises AssertionError if it fails."""
    return _run([sys.executable, "-m", name, *arguments], 0)


def draw() -> None:
    """Write `before.png` with a red box, `after.png` with a blue one, `inverted.png`, and `samples.jsonl` of them."""
    source = np.random.default_rng(0).integers(175, 185, (200, 300, 3), dtype=np.uint8)
    source[60:120, 80:160] = (200, 30, 30)
    edited = source.copy()
    edited[60:120, 80:160] = (30, 60, 200)
    for name, pixels in {"before": source, "after": edited, "inverted": 255 - edited}.items():
        cv2.imwrite(f"{name}.png", pixels[..., ::-1])
    sample = f'"source": "before.png", "edited": "after.png", "instruction": "{INSTRUCTION}", "boxes": {BOXES}'
    Path("samples.jsonl").write_text(f'{{"id": "1", {sample}}}\n', encoding="utf-8")


@contextmanager
def running(*arguments: str, probe: str = "", printed: str = "") -> Iterator[str]:
    """A command that serves until SIGTERM; yields its address once it answers there, and expects a clean end.

    probe: the address; or else printed: a pattern of it in what the command prints.
    """
    command = [PROGRAM, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        lines: list[str] = []
        assert process.stdout is not None
        reader = threading.Thread(target=lines.extend, args=(iter(process.stdout.readline, ""),), daemon=True)
        reader.start()
        try:
            yield _address(process, lines, probe, printed)
        finally:
            process.terminate()
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            reader.join(10)
        assert process.returncode in {0, 143}, f"{' '.join(command)} ended with {process.returncode}:\n{''.join(lines)}"
        assert "Traceback" not in "".join(lines), "".join(lines)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def _address(process: subprocess.Popen[str], lines: list[str], probe: str, printed: str) -> str:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        said = "".join(list(lines))
        assert process.poll() is None, f"it ended with {process.returncode}:\n{said}"
        found = re.search(printed, said) if printed else None
        if address := found[0] if found else probe:
            try:
                with urllib.request.urlopen(address, timeout=5):
                    return address
            except OSError:
                pass
        time.sleep(0.2)
    raise AssertionError(f"nothing answers after {START_S:g} s:\n{''.join(lines)}")


def _run(command: list[str], code: int) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    said = done.stdout + done.stderr
    assert done.returncode == code, f"{' '.join(command)}: exit code {done.returncode}, expected {code}\n{said}"
    return said
