"""`bench prompts`: what two prompt packs change, by a judge that goes by their words."""

import json
from collections import Counter
from collections.abc import Sequence

import pytest

from editcritic.benchmarks.suites.i2ibench.suite import I2IBench
from editcritic.reward import Expert
from editcritic.reward.queries import Judge, Reply

from ..suites.i2ibench import layout
from ..suites.tiny_suite import outputs

ASKED: Counter[str] = Counter()


class Reads(Expert):
    """Says yes; no about scene 0, and to strict words about scene 1, too."""

    id, kinds = "reads@1", (Judge,)

    def __call__(self, queries: Sequence[Judge]) -> list[Reply]:
        ASKED.update(query.topic for query in queries)
        return [self._reply(query) for query in queries]

    def _reply(self, query: Judge) -> Reply:
        scene = int(dict(query.slots)["instruction"][-1])
        is_strict = "strict judge" in str([message.content for message in query.messages])
        said = ("yes", "no") if query.topic == "i2i/success" else ("excellent", "bad")
        return Reply(said[scene == 0 or (scene == 1 and is_strict)])


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setenv("EDITCRITIC_TRUST", "tests")
    rows = [{**layout.row(number % 3, "object-manipulation"), "id": f"{number}"} for number in range(4)]
    for number, row in enumerate(rows):
        row["instruction"] = f"Do it to scene {number}"
    data = layout.written(tmp_path / "data", rows)
    outputs(tmp_path / "made", I2IBench(data))
    (tmp_path / "strict").mkdir()
    text = "You are a strict judge.\n=== user ===\n{instruction}\nIs it done?"
    (tmp_path / "strict" / "success.txt").write_text(text, encoding="utf-8")
    experts = f"judge={__name__}:Reads"
    return "--data", data, "--outputs", tmp_path / "made", "--experts", experts, "-o", tmp_path / "out"


def test_the_differences_of_two_packs_by_dimension(editcritic, made, tmp_path):
    ASKED.clear()
    command = ("bench", "prompts", "i2ibench", *made, "--prompts", "-", "--prompts", tmp_path / "strict")
    ran = editcritic(*command, "--json", "--by", "category", code=0)
    document = json.loads(ran.stdout)
    found = {one["metric"]: (one["before"], one["after"], one["difference"]["value"]) for one in document["metrics"]}
    # Yes to 3 of 4 by our words, and to 2 of 4 by the pack's, which has nothing about following.
    assert found["object-manipulation"] == (0.75, 0.5, -0.25)
    assert found["object-manipulation, category object-manipulation"] == (0.75, 0.5, -0.25)
    assert found["instruction-following"] == (0.75, 0.75, 0.0)
    (changed,) = (one for one in document["metrics"] if one["metric"] == "object-manipulation")
    assert [item["id"] for item in changed["crossed_down"]] == ["1"]
    assert "suite_options.prompts" in document["provenance"]
    assert ASKED == {"i2i/success": 8, "i2i/following": 4}  # what no pack changes is asked once
    editcritic(*command, code=0, shows="-0.250")
    assert ASKED["i2i/success"] == 8


def test_packs_that_cannot_differ_are_refused(editcritic, made, tmp_path):
    strict, toy = tmp_path / "strict", "tests.benchmarks.suites.tiny_suite:Toy"
    for suite, packs, more, says in (
        ("i2ibench", ["-"], (), "give two packs, A and B"),
        ("i2ibench", ["-", "-"], (), "A and B are the same prompts"),
        ("i2ibench?prompts=x", ["-", strict], (), "has prompts: give both packs by --prompts"),
        (toy, ["-", strict], (), "does not take prompts"),
        ("i2ibench", ["-", strict], ("--by", "colour"), "no item has the label 'colour': they have category, half"),
    ):
        options = [word for pack in packs for word in ("--prompts", pack)]
        editcritic("bench", "prompts", suite, *made, *options, *more, code=2, says=says)
    assert not (tmp_path / "out" / "a").exists()  # nothing was asked
