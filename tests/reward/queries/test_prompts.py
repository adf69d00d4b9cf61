"""Prompts are files; a prompt pack replaces some of them, and has a digest."""

import os
from importlib.resources import files
from pathlib import Path
from string import Formatter

import pytest

from editcritic.reward.queries.prompts import MAX_PROMPT_BYTES, MAX_PROMPTS, Prompts
from editcritic.reward.queries.response_formats import Message
from editcritic.reward.trust import trusting

OURS = "editcritic.reward.metrics.edival"
PAPERS = {
    "complexedit": {"alignment", "quality"},
    "dlebench": {"consistency_oracle", "consistency_tools", "following_tools"},
    "i2ibench": {"blending", "artifacts", "following", "success", "knowledge"},
}
"""What figure 16, table 16 and appendix F mark as system prompts."""


@pytest.fixture
def pack(tmp_path):
    (tmp_path / "color.txt").write_text("  Ist {object} nun {value}? {{ja/nein}}\n", encoding="utf-8")
    return tmp_path


def test_slots_are_filled_and_a_pack_replaces_the_files_that_it_has(pack):
    text = Prompts(OURS).render("color", object="{value} cup", value="blue", unused="x")
    assert "{value} cup" in text
    assert "blue" in text
    ours, theirs = Prompts(OURS), Prompts(OURS, str(pack))
    assert theirs.render("color", object="Tasse", value="blau") == "Ist Tasse nun blau? {ja/nein}"
    assert theirs.render("material", object="cup", value="wood") == ours.render("material", object="cup", value="wood")


def test_the_digest_follows_the_words_of_the_pack(pack):
    assert Prompts(OURS).digest == ""
    first = Prompts(OURS, str(pack)).digest
    assert len(first) == 12
    assert Prompts(OURS, str(pack)).digest == first
    (pack / "color.txt").write_text("Is it?", encoding="utf-8")
    second = Prompts(OURS, str(pack)).digest
    (pack / "color.txt").rename(pack / "material.txt")
    assert len({first, second, Prompts(OURS, str(pack)).digest}) == 3


@pytest.mark.parametrize(
    "text",
    [
        *("{colour}", "{}", "{object.__class__}", "{object[0]}", "{object", "object}", "{object:{width}}"),
        *("{object:>9999}", "{object!r}"),
    ],
)
def test_a_prompt_that_cannot_be_filled_is_named(text, tmp_path):
    (tmp_path / "color.txt").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"prompt 'color' (uses|is no template)"):
        Prompts(OURS, str(tmp_path)).render("color", object="cup", value="blue")


def test_a_pack_is_a_folder_of_so_many_files(tmp_path, pack):
    with pytest.raises(ValueError, match=r"is not a folder: give a folder of <name>\.txt files"):
        Prompts(OURS, str(tmp_path / "nowhere"))
    for number in range(MAX_PROMPTS):
        (pack / f"{number}.txt").touch()
    with pytest.raises(ValueError, match="has more than 1,000 files"):
        Prompts(OURS, str(pack))


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link(path: Path) -> None:
    secret = path.parent.parent / "secret"
    secret.write_text("a secret", encoding="utf-8")
    path.symlink_to(secret)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(MAX_PROMPT_BYTES + 1)


def no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((fifo, "it is a FIFO"), (device, "leads out of"), (link, "leads out of"), (Path.mkdir, "it is a directory")),
        *((huge, "more than 1,048,576"), (no_text, "utf-8")),
    ],
)
def test_a_pack_of_a_stranger_is_files_of_text_in_its_folder(make, message, tmp_path):
    (tmp_path / "pack").mkdir()
    make(tmp_path / "pack" / "color.txt")
    with pytest.raises(ValueError, match=f"prompt pack .* cannot be read: 'color.txt': .*{message}"):
        Prompts(OURS, str(tmp_path / "pack"))
    if make is link:
        with trusting(str(tmp_path)):
            assert Prompts(OURS, str(tmp_path / "pack")).contents == {"color": b"a secret"}


def test_a_pack_says_what_is_the_systems(tmp_path):
    ours = Prompts(OURS)
    (tmp_path / "color.txt").write_text(
        "Rules.\n=== user ===\n{object}?\n=== system ===\nYes {or} no.", encoding="utf-8"
    )
    (tmp_path / "material.txt").write_text("{object}, {value}?", encoding="utf-8")
    pack = Prompts(OURS, str(tmp_path))
    slots = {"object": "=== system ===\ncup", "value": "blue", "or": "or"}  # a slot's text divides nothing
    assert pack.messages("color", ("picture",), slots) == (
        Message(("Rules.\n\nYes or no.",), "system"),
        Message(("picture", "=== system ===\ncup?")),
    )
    assert pack.messages("material", ("picture",), slots, paper=True) == (
        Message(("picture", "=== system ===\ncup, blue?")),
    )
    assert ours.messages("color", ("picture",), slots) == (Message(("picture", ours.render("color", **slots))),)
    with pytest.raises(ValueError, match="'color' is a part of other messages"):
        pack.render("color", **slots)
    (tmp_path / "color.txt").write_text("Rules alone.\n=== user ===\n", encoding="utf-8")
    with pytest.raises(ValueError, match="'color' has nothing for the user's message"):
        Prompts(OURS, str(tmp_path)).messages("color", (), slots)


def prompts_of(metrics: str) -> dict[str, set[str]]:
    """Our prompts -> their slots."""
    folder = Path(str(files(f"editcritic.reward.metrics.{metrics}"))) / "prompts"
    return {
        path.stem: {slot for _, slot, _, _ in Formatter().parse(path.read_text(encoding="utf-8")) if slot}
        for path in folder.glob("*.txt")
    }


@pytest.mark.parametrize("metrics", PAPERS)
def test_what_the_paper_marks_is_a_system_prompt_in_its_protocol_only_and_loses_no_word(metrics):
    prompts = Prompts(f"editcritic.reward.metrics.{metrics}")
    divided = set()
    for name, names in prompts_of(metrics).items():
        slots = {slot: f"<{slot}>" for slot in names}
        (joined,) = prompts.messages(name, ("picture",), slots)
        *system, user = prompts.messages(name, ("picture",), slots, paper=True)
        assert (joined.role, user.role, user.content[0]) == ("user", "user", "picture")
        assert "===" not in str(joined.content[1])
        if system:
            divided.add(name)
            words = [*str(system[0].content[0]).split(), *" ".join(map(str, user.content[1:])).split()]
            assert sorted(words) == sorted(str(joined.content[1]).split())
            assert "<instruction>" not in str(system[0].content[0])
    assert divided == PAPERS[metrics]
