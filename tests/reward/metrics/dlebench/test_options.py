"""Options, cards, signatures, prompts and prompt packs of both metrics."""

import pickle
import re
from pathlib import Path
from string import Formatter

import pytest

from editcritic.reward.config import build
from editcritic.reward.metrics.dlebench.metrics import PACKAGE, SmallObjectFollowing, VisualConsistency
from editcritic.reward.queries.prompts import Prompts
from editcritic.reward.queries.specs import spec_of

from .scripted_dlebench import INSTRUCTION, Experts, edit, says, words

ROOT = Path(__file__).resolve().parents[4]
FOLDER = ROOT / "reward" / "metrics" / "dlebench" / "prompts"
METRICS = [SmallObjectFollowing, VisualConsistency]
MODES = ["oracle", "tools", "plain"]


@pytest.mark.parametrize("metric", METRICS)
def test_a_mode_that_does_not_exist_is_refused_with_those_that_do(metric):
    with pytest.raises(ValueError, match=r"unknown mode 'human': dlebench-.. has oracle, tools, plain"):
        metric(mode="human")


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        (SmallObjectFollowing, {"max_turns": 3}),
        (SmallObjectFollowing, {"max_regions": 3}),
        (SmallObjectFollowing, {"detection_threshold": 0.2}),
        (SmallObjectFollowing, {"mode": "tools", "context": 1.0}),
        (SmallObjectFollowing, {"mode": "plain", "min_crop_side": 1}),
        (VisualConsistency, {"mode": "plain", "max_turns": 3}),
        (VisualConsistency, {"mode": "plain", "paper": True}),
        (SmallObjectFollowing, {"object_names": "words"}),
    ],
)
def test_an_option_that_the_mode_does_not_use_is_refused(metric, options):
    name = next(option for option in options if option != "mode")
    with pytest.raises(ValueError, match=f"does not use {name} in mode"):
        metric(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"max_turns": 0},
        {"max_regions": 0},
        {"max_tokens": 0},
        {"detection_threshold": 1.0},
        {"detection_threshold": -0.1},
        {"min_crop_side": -1},
        {"min_crop_side": 100, "paper": True},
        {"object_names": "synonyms"},
        {"prompts": "/nowhere/at/all"},
    ],
)
def test_options_that_mean_nothing_are_refused(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))}|not a folder"):
        VisualConsistency(**options)


@pytest.mark.parametrize("metric", METRICS)
def test_the_card_asks_for_what_the_mode_needs(metric):
    oracle, tools, plain = (metric(mode=mode).card for mode in MODES)
    assert oracle.modes == ("oracle", "tools", "plain")
    assert {"targets", "reference"} <= set(oracle.requires)
    assert tools.requires == plain.requires == ("sources", "edited", "instruction")
    assert set(tools.roles) == {"judge", "differences", "detector", "enhancer"}
    assert plain.roles == ("judge",)
    assert oracle.failure_modes
    assert oracle.is_unit_range
    assert oracle.aspect == {"dlebench-if": "following", "dlebench-vc": "consistency"}[oracle.name]


def test_only_the_oracles_consistency_asks_for_tools():
    assert SmallObjectFollowing().card.roles == ("judge", "enhancer")
    assert set(VisualConsistency().card.roles) == {"judge", "differences", "detector", "enhancer"}


@pytest.mark.parametrize("metric", METRICS)
def test_a_metric_is_rebuilt_from_its_spec_and_travels(metric):
    made = metric(mode="tools", max_turns=3, max_regions=2, detection_threshold=0.2)
    assert build(spec_of(made)) == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert made.signature == f"{made.card.signature}/tools[max_turns=3, max_regions=2, detection_threshold=0.2]"


def test_all_there_is_to_it_reaches_the_judge():
    experts = Experts(says("Wrong Action"))
    experts.score(SmallObjectFollowing(mode="tools", max_tokens=99))
    assert experts.judge_queries[0].form.max_tokens == 99


# -- prompts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("mode", MODES)
def test_a_prompt_has_the_instruction_the_labels_and_no_slot_left(metric, mode):
    made = metric(mode=mode)
    (message,) = made.question((), edit(instruction="paint {the} cup"), (64, 48)).messages
    text = message.content[-1]
    assert "paint {the} cup" in text
    for label in made.label_scale.labels:
        assert text.count(label) >= 2
    assert not re.search(r"\{[a-z_]+\}", text.replace("{the}", ""))
    assert ("<tool_call>" in text) == (mode == "tools" or (mode, made.card.name) == ("oracle", "dlebench-vc"))
    assert ("Reference Image" in text) == (mode == "oracle")


def test_a_prompt_pack_replaces_what_it_has_and_is_signed(tmp_path):
    (tmp_path / "following_plain.txt").write_text("Judge this: {instruction}", encoding="utf-8")
    (tmp_path / "consistency_labels.txt").write_text("Perfect or not.", encoding="utf-8")
    packed = SmallObjectFollowing(mode="plain", prompts=str(tmp_path))
    experts = Experts(says("Wrong Action"), says("Single Anomaly"))
    score = experts.score(packed)
    assert words(experts.judge_queries[0]) == f"Judge this: {INSTRUCTION}"
    digest = Prompts(PACKAGE, str(tmp_path)).digest
    assert score.metric == f"dlebench-if@2/plain[prompts={digest}]"
    other = VisualConsistency(mode="plain", prompts=str(tmp_path))
    experts.score(other)
    assert "Perfect or not." in words(experts.judge_queries[1])
    assert "You judge edits" in words(experts.judge_queries[1])


def rows():
    table = (ROOT / "docs" / "prompts" / "dlebench.md").read_text(encoding="utf-8").splitlines()
    cells = [line.strip("|").split(" | ") for line in table if line.startswith("| `")]
    return [(prompt.strip(" `"), sentence.strip()) for prompt, _, _, sentence in cells]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_every_word_of_a_prompt_is_in_the_table_of_criteria(path):
    text = " ".join(re.sub(r"=== (system|user) ===", "", path.read_text(encoding="utf-8")).split())
    assert "|" not in text
    for sentence in sorted((sentence for prompt, sentence in rows() if prompt == path.stem), key=len, reverse=True):
        assert sentence in text
        text = text.replace(sentence, "", 1)
    assert not re.search(r"[A-Za-z]", re.sub(r"\{[a-z]+\}", "", text)), text


def test_the_table_is_about_prompts_that_exist_and_their_slots_are_known():
    known = {"instruction", "size", "labels", "checks", "examples", "answer", "tools", "left"}
    assert {prompt for prompt, _ in rows()} == {path.stem for path in FOLDER.glob("*.txt")}
    for path in FOLDER.glob("*.txt"):
        slots = {slot for _, slot, _, _ in Formatter().parse(path.read_text(encoding="utf-8")) if slot is not None}
        assert slots <= known
