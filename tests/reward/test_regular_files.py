"""Files of strangers: what is no regular file, too large or elsewhere is refused, and nothing is waited for."""

from __future__ import annotations

import io
import os
import socket
import unicodedata
from pathlib import Path

import pytest

from editcritic.reward import Image, ImageError
from editcritic.reward.regular_files import bounded_lines, open_appended, open_regular, read_regular, read_text
from editcritic.reward.trust import trusting

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no FIFOs or device files")
COMPOSED, DECOMPOSED = (unicodedata.normalize(form, "café/thé.txt") for form in ("NFC", "NFD"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file, and a secret beside the folder."""
    (tmp_path / "secret.txt").write_text("secret")
    inner = tmp_path / "data"
    inner.mkdir()
    (inner / "a.txt").write_bytes(b"one\r\ntwo\rthree\n")
    return inner


def test_a_regular_file_is_read_up_to_its_limit(folder):
    assert read_regular(folder / "a.txt", 15) == b"one\r\ntwo\rthree\n"
    assert read_text(folder / "a.txt") == "one\ntwo\nthree\n"
    assert read_regular(folder / "a.txt", 15, inside=folder) == b"one\r\ntwo\rthree\n"
    with pytest.raises(OSError, match="15 bytes, more than 14"):
        read_regular(folder / "a.txt", 14)
    with pytest.raises(OSError, match="more than 10"):
        read_regular("/proc/self/status", 10)  # its size is said to be 0


def test_only_regular_files_are_appended_to_and_no_links(folder: Path) -> None:
    for _ in range(2):
        with open_appended(folder / "new.txt") as file:
            file.write(b"line\n")
    with open_appended(folder / "new.txt") as file:
        file.seek(0)
        assert file.read() == b"line\nline\n"
    os.mkfifo(folder / "fifo")
    (folder / "link").symlink_to(folder / "new.txt")
    (folder / "dangling").symlink_to(folder / "none.txt")
    for name in ("fifo", "link", "dangling"):
        with pytest.raises(OSError, match="it is a"):
            open_appended(folder / name)
    assert not (folder / "none.txt").exists()


def test_devices_fifos_sockets_and_directories_are_refused(folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
        for name, kind in (("fifo", "a FIFO"), ("socket", "a socket"), (".", "a directory")):
            with pytest.raises(OSError, match=f"it is {kind}: give a regular file"):
                read_regular(folder / name, 100)
    for device in ("/dev/zero", "/dev/null", "/dev/tty"):
        with pytest.raises(OSError, match="it is a device"):
            read_regular(device, 100)
    (folder / "link").symlink_to("/dev/zero")
    with pytest.raises(OSError, match="it is a device"):
        read_regular(folder / "link", 100)


def test_what_became_a_fifo_after_it_was_looked_at_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(folder / "fifo")
    regular = (folder / "a.txt").stat()
    monkeypatch.setattr(Path, "stat", lambda path: regular)
    with pytest.raises(OSError, match="it is a FIFO"):  # opened without waiting for a writer
        read_regular(folder / "fifo", 100)


def test_links_and_folders_that_are_links(folder, tmp_path):
    (folder / "inner").symlink_to("a.txt")
    (folder / "outer").symlink_to("../secret.txt")
    (folder / "above").symlink_to("..")
    assert read_regular(folder / "inner", 100, inside=folder).startswith(b"one")
    for name in ("outer", "../secret.txt", "above/secret.txt", str(tmp_path / "secret.txt")):
        with pytest.raises(OSError, match=r"leads out of .*add `--trust "):
            read_regular(folder / name, 100, inside=folder)
        with trusting(str(tmp_path)):
            assert read_regular(folder / name, 100, inside=folder) == b"secret"
    (tmp_path / "link").symlink_to("data")
    assert read_regular(tmp_path / "link" / "a.txt", 100, inside=tmp_path / "link")
    assert read_regular(folder / "a.txt", 100, inside=tmp_path / "link")


def test_snapshots_of_the_hubs_cache_are_links_to_its_blobs(tmp_path: Path) -> None:
    snapshot = tmp_path / "datasets--someone--set" / "snapshots" / "abc"
    (snapshot / "data").mkdir(parents=True)
    blobs = tmp_path / "datasets--someone--set" / "blobs"
    blobs.mkdir()
    (blobs / "0123").write_bytes(b"x")
    (snapshot / "data" / "a.txt").symlink_to("../../../blobs/0123")
    (blobs / "4567").symlink_to("/etc/passwd")
    (snapshot / "data" / "b.txt").symlink_to("../../../blobs/4567")
    assert read_regular(snapshot / "data" / "a.txt", 10, inside=snapshot) == b"x"
    assert read_regular(snapshot / "data" / "a.txt", 10, inside=snapshot / "data") == b"x"
    with pytest.raises(OSError, match="leads out of"):
        read_regular(snapshot / "data" / "b.txt", 10_000, inside=snapshot)


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b", "loop", "x" * 5_000])
def test_paths_that_name_nothing_are_errors_of_the_file(folder: Path, name: str) -> None:
    (folder / "loop").symlink_to("loop")
    for inside in (None, folder, folder / "other"):
        with (
            trusting("/nowhere"),
            pytest.raises(OSError, match=r"null|surrogate|encode|loop|symbolic|too long|No such|leads out"),
        ):
            open_regular(folder / name, inside=inside)


def test_backslashes_lines_and_images(folder):
    file = io.BytesIO(b"one\n" + b"x" * 50 + b"\ntwo\n" + b"y" * 50)
    assert list(bounded_lines(file, 10)) == [b"one\n", None, b"two\n", None]
    assert list(bounded_lines(io.BytesIO(b"0123456789\n0123456789"), 10)) == [None, b"0123456789"]
    os.mkfifo(folder / "fifo.png")
    for name in ("/dev/zero", folder / "fifo.png", folder):
        with pytest.raises(ImageError, match=r"cannot read image .*: it is a .*: give a regular file"):
            Image.open(name)
    with pytest.raises(ImageError, match=r"cannot read image .*leads out of"):
        Image.open(folder / ".." / "secret.txt", inside=folder)
    (folder / "inner").mkdir()
    (folder / "inner" / "a.txt").write_bytes(b"below")
    with pytest.raises(FileNotFoundError, match=r"a backslash separates no folders here.*write `/`"):
        read_regular(folder / "inner\\a.txt", 100, inside=folder)
    (folder / "inner\\a.txt").write_bytes(b"a name with a backslash")
    assert read_regular(folder / "inner\\a.txt", 100, inside=folder) == b"a name with a backslash"


@pytest.mark.parametrize(("written", "named"), [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED)])
def test_a_file_is_found_under_the_other_unicode_form_of_its_name(folder: Path, written: str, named: str) -> None:
    (folder / written).parent.mkdir()
    (folder / written).write_bytes(b"the file")
    assert read_regular(folder / named, 100, inside=folder) == b"the file"
    (folder / named).parent.mkdir()
    (folder / named).write_bytes(b"another")  # which the name names as it stands
    assert read_regular(folder / named, 100, inside=folder) == b"another"
    with pytest.raises(FileNotFoundError):
        read_regular(folder / named.replace("t", "s"), 100, inside=folder)


def test_another_form_of_a_name_leads_no_further_than_the_name(folder: Path) -> None:
    (folder / DECOMPOSED).parent.mkdir()
    (folder / DECOMPOSED).symlink_to(folder.parent / "secret.txt")
    outside = folder.parent / unicodedata.normalize("NFD", "né.txt")
    outside.write_text("secret")
    for name in (COMPOSED, f"../{unicodedata.normalize('NFC', outside.name)}"):
        with pytest.raises(OSError, match="it leads out of"):
            read_regular(folder / name, 100, inside=folder)
    os.mkfifo(folder / unicodedata.normalize("NFD", "é"))
    with pytest.raises(OSError, match="it is a FIFO"):
        read_regular(folder / unicodedata.normalize("NFC", "é"), 100, inside=folder)
