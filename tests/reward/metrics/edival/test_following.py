"""The metric as a whole: protocols, options, prompts, and scores without a value."""

import pickle
from pathlib import Path
from string import Formatter

import pytest

from editcritic.reward.metrics.edival.following import InstructionFollowing
from editcritic.reward.queries.kinds import Judge
from editcritic.reward.queries.outcomes import Abstention, Failure
from editcritic.reward.queries.prompts import Prompts
from editcritic.reward.queries.response_formats import Reply
from editcritic.reward.sample import Task

BOX = (0.5, 0.5, 0.2, 0.2, 0.9)
RECOLOUR = Task("color_alter", object="cup", value="blue")
PROMPTS = Path(__file__).resolve().parents[4] / "reward" / "metrics" / "edival" / "prompts"


def test_a_protocol_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(ValueError, match="unknown protocol 'fixed': edival-if has paper and official"):
        InstructionFollowing("fixed")


@pytest.mark.parametrize(
    "options",
    [
        {"position_margin": -0.1},
        {"position_margin": 1.0},
        {"text_match": "fuzzy"},
        {"attribute_view": "half"},
        {"threshold": 0.0},
        {"threshold": 1.0},
        {"max_box_size": 0.0},
        {"duplicate_iou": 1.5},
        {"min_crop_size": -1},
    ],
)
def test_options_that_mean_nothing_are_refused(options) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=name):
        InstructionFollowing(**options)


def test_the_official_protocol_takes_no_options() -> None:
    with pytest.raises(ValueError, match="no options, got text_match=substring"):
        InstructionFollowing("official", text_match="substring")


def test_the_signature_names_protocol_options_and_prompts(tmp_path: Path) -> None:
    assert InstructionFollowing().signature == "edival-if@3/paper"
    assert InstructionFollowing("official", dense=True).signature == "edival-if@3/official[dense]"
    (tmp_path / "color.txt").write_text("Is the {object} {value}?", encoding="utf-8")
    packed = InstructionFollowing(position_margin=0.0, prompts=str(tmp_path))
    assert packed.signature.startswith("edival-if@3/paper[position_margin=0.0, prompts=")
    (tmp_path / "color.txt").write_text("Is it {value}?", encoding="utf-8")
    assert InstructionFollowing(position_margin=0.0, prompts=str(tmp_path)).signature != packed.signature
    assert pickle.loads(pickle.dumps(packed)) == packed


def test_an_instruction_of_no_known_form_is_not_applicable(follow, scene) -> None:
    for protocol in ("paper", "official"):
        judge_evidence = scene()
        score = follow("Make it pop", judge_evidence, protocol=protocol)
        assert (score.status, score.value) == ("not_applicable", None)
        assert "'Make it pop' is none of EdiVal's nine forms" in score.reason
        assert "task=Task(" in score.reason
        assert score.metric == f"edival-if@3/{protocol}"
        assert not judge_evidence.queries


def test_what_experts_cannot_know_or_do_is_no_number(follow, scene) -> None:
    removal = Task("subject_remove", object="cup")
    for protocol in ("paper", "official"):
        for dense in (False, True):
            blind = follow(removal, scene(unknown=("cup",)), protocol=protocol, dense=dense)
            assert (blind.status, blind.value, blind.reason) == ("abstained", None, "cannot look for cup")
            down = follow(removal, scene(broken=("cup",)), protocol=protocol, dense=dense)
            assert (down.status, down.value) == ("failed", None)
            assert "crashed on cup" in down.reason
    shy = scene(edited={"cup": [BOX]}, judge=Abstention("colours only"))
    assert follow(RECOLOUR, shy).status == "abstained"
    assert follow(RECOLOUR, scene(edited={"cup": [BOX]}, judge=Failure("timed out"))).status == "failed"


def test_evidence_tells_what_was_looked_at_and_how_it_was_weighed(follow, scene) -> None:
    score = follow(
        RECOLOUR, scene(edited={"cup": [BOX, (*BOX[:4], 0.2)]}, judge=Reply("Yes!", {"yes": 0.8, "no": 0.2}))
    )
    looked, judge_evidence, there, judged, verdict = score.evidence
    assert (looked.what, looked.text, looked.image) == ("detect edited", "cup", "b" * 64)
    assert [box.score for box in looked.boxes] == [0.9]
    assert looked.numbers == {"threshold": 0.35, "strongest": 0.9}
    assert (judge_evidence.what, judge_evidence.text, judge_evidence.numbers) == (
        "judge color",
        "Yes!",
        {"yes": 0.8, "no": 0.2},
    )
    assert there.text == "cup is in the edited image (0.90 > 0.35)"
    assert judged.numbers == {"holds": 1.0, "degree": pytest.approx(0.8)}
    assert verdict.what == "verdict"
    assert verdict.numbers["degree"] == pytest.approx((judged.numbers["degree"] + there.numbers["degree"]) / 2)
    assert score.reason == f"{there.text}; {judged.text}"


# -- prompts -----------------------------------------------------------------------------------------------------------

SLOTS = {
    "color": {"object", "value"},
    "color_pair": {"object", "value"},
    "material": {"object", "value"},
    "material_pair": {"object", "value"},
    "background": {"value"},
    "replaced": {"object", "new"},
    "added": {"new"},
    "edit_success": {"type", "object", "value"},
    "core_name": {"object"},
}


def test_every_prompt_uses_exactly_the_slots_it_is_given() -> None:
    assert {file.stem for file in PROMPTS.glob("*.txt")} == set(SLOTS)
    for name, slots in SLOTS.items():
        text = (PROMPTS / f"{name}.txt").read_text(encoding="utf-8")
        assert {slot for _, slot, _, _ in Formatter().parse(text) if slot is not None} == slots


def test_yes_no_prompts_ask_for_one_word() -> None:
    for name in SLOTS.keys() - {"core_name"}:
        assert (
            Prompts("editcritic.reward.metrics.edival")
            .render(name, **dict.fromkeys(SLOTS[name], "x"))
            .endswith("Answer with one word: yes or no.")
        )


def test_a_prompt_pack_replaces_what_it_holds(follow, scene, tmp_path: Path) -> None:
    (tmp_path / "color.txt").write_text("Is the {object} {value}?\n", encoding="utf-8")
    pack = str(tmp_path)
    packed = scene(edited={"cup": [BOX]})
    follow(RECOLOUR, packed, prompts=pack)
    (question,) = [query for query in packed.queries if isinstance(query, Judge)]
    assert question.messages[0].content[-1] == "Is the cup blue?"
    ours = scene()
    follow(Task("background_change", value="beach"), ours, prompts=pack)
    assert "Answer with one word" in str(ours.queries[0].messages[0].content[-1])
    with pytest.raises(ValueError, match="is not a folder"):
        InstructionFollowing(prompts=str(tmp_path / "none"))
