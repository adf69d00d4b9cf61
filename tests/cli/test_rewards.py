"""`editcritic rewards`: the list, and cards."""

import json
from importlib.metadata import entry_points

from ..benchmarks.conftest import Command


def test_the_list_has_every_reward_and_says_what_needs_no_download_and_what_needs_parts(editcritic: Command) -> None:
    editcritic("rewards", code=0, shows=entry_points(group="editcritic.rewards").names)
    rewards = {entry["name"]: entry for entry in json.loads(editcritic("rewards", "--json").stdout)}
    following, gate = rewards["edival-if"], rewards["gate"]
    assert following["available_without_download"]
    assert not following["is_composition"]
    assert following["partially_served_roles"] == {"detector": "drawn objects", "judge": "colours"}
    assert rewards["guard-not-a-copy"]["partially_served_roles"] == {}
    assert rewards["edival-vq"]["unserved_roles"] == ["preference"]
    assert (gate["is_composition"], gate["card"]) == (True, None)
    assert gate["summary"].startswith("The reward if the guard scores 1")


def test_a_card_says_how_to_use_a_reward_and_how_it_is_gamed(editcritic: Command) -> None:
    texts = ["edival-if@3", "0 to 1", "paper (default), official", "EdiVal-Agent", "how it can be gamed", "aspect"]
    editcritic("rewards", "edival-if", code=0, shows=[*texts, 'protocol = "paper"'])
    assert json.loads(editcritic("rewards", "edival-if", "--json").stdout)["card"]["protocols"] == ["paper", "official"]
    editcritic("rewards", "gate", shows='guard = "required"')


def test_an_unknown_reward_gets_the_nearest_names(editcritic: Command) -> None:
    for result in (editcritic("rewards", "edvial-if"), editcritic("rewards", "edvial-if", "--json")):
        assert result.exit_code == 2
        assert "did you mean edival-if" in result.stderr
    assert "did you mean edival-if" in json.loads(result.stdout)["error"]


def test_rewards_of_other_distributions_are_listed_and_broken_ones_named(editcritic, tmp_path, monkeypatch):
    info = tmp_path / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[editcritic.rewards]\ntheirs = theirs:Theirs\nlost = theirs_lost:Lost\n")
    (tmp_path / "theirs.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from editcritic.reward import Card, Score\n"
        "@dataclass(frozen=True)\n"
        "class Theirs:\n"
        "    card: ClassVar = Card('theirs', 1, 'it is theirs', roles=('judge', 'oracle'))\n"
        "    def __call__(self, sample):\n"
        "        return Score.of(1.0)\n"
        "        yield\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    result = editcritic("rewards", "--json", code=1)
    rewards = {entry["name"]: entry for entry in json.loads(result.stdout)}
    assert (rewards["theirs"]["summary"], rewards["theirs"]["unserved_roles"]) == ("it is theirs", ["oracle"])
    assert "theirs_lost" in rewards["lost"]["problem"]
    assert "no expert for oracle" in editcritic("rewards").stdout
