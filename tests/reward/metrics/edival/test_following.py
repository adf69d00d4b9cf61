"""The metric as a whole: protocols, options, prompts, and scores without a value."""

import json
import pickle
from pathlib import Path
from string import Formatter

import pytest

from editcritic.benchmarks.run.replay import GoldenExpert, detector_calls, read_cases, replay_cases
from editcritic.reward.engine.program import Ask
from editcritic.reward.metrics.edival.following import InstructionFollowing
from editcritic.reward.queries.kinds import Detect, Judge, Query
from editcritic.reward.queries.outcomes import Abstention, Failure
from editcritic.reward.queries.prompts import Prompts
from editcritic.reward.queries.response_formats import Reply
from editcritic.reward.sample import Task

BOX = (0.5, 0.5, 0.2, 0.2, 0.9)
RECOLOUR = Task("color_alter", object="cup", value="blue")
PROMPTS = Path(__file__).resolve().parents[4] / "reward" / "metrics" / "edival" / "prompts"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"protocol": "fixed"}, "edival-if has no protocol 'fixed': there are paper, official"),
        (
            {"protocol": "official", "text_match": "substring"},
            "no options in protocol official, got text_match=substring",
        ),
        *(({"position_margin": value}, "position_margin") for value in (-0.1, 1.0)),
        *(({"threshold": value}, "threshold") for value in (0.0, 1.0)),
        *(({name: value}, name) for name, value in (("text_match", "fuzzy"), ("attribute_view", "half"))),
        *(
            ({name: value}, name)
            for name, value in (("max_box_size", 0.0), ("duplicate_iou", 1.5), ("min_crop_size", -1))
        ),
    ],
)
def test_options_that_mean_nothing_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        InstructionFollowing(**options)


def test_the_signature_names_protocol_options_and_prompts(tmp_path):
    assert InstructionFollowing().signature == "edival-if@3/paper"
    assert InstructionFollowing("official", dense=True).signature == "edival-if@3/official[dense]"
    (tmp_path / "color.txt").write_text("Is the {object} {value}?", encoding="utf-8")
    packed = InstructionFollowing(position_margin=0.0, prompts=str(tmp_path))
    assert packed.signature.startswith("edival-if@3/paper[position_margin=0.0, prompts=")
    (tmp_path / "color.txt").write_text("Is it {value}?", encoding="utf-8")
    assert InstructionFollowing(position_margin=0.0, prompts=str(tmp_path)).signature != packed.signature
    assert pickle.loads(pickle.dumps(packed)) == packed


@pytest.mark.parametrize("protocol", ["paper", "official"])
def test_an_unknown_form_and_what_experts_cannot_know_or_do_is_no_number(follow, scene, protocol):
    seen = scene()
    score = follow("Make it pop", seen, protocol=protocol)
    assert (score.status, score.value, score.metric) == ("not_applicable", None, f"edival-if@3/{protocol}")
    assert "'Make it pop' is none of EdiVal's nine forms" in score.reason
    assert "task=Task(" in score.reason
    assert not seen.queries
    removal = Task("subject_remove", object="cup")
    for dense in (False, True):
        blind = follow(removal, scene(unknown=("cup",)), protocol=protocol, dense=dense)
        assert (blind.status, blind.value, blind.reason) == ("abstained", None, "cannot look for cup")
        down = follow(removal, scene(broken=("cup",)), protocol=protocol, dense=dense)
        assert (down.status, down.value, "crashed on cup" in down.reason) == ("failed", None, True)
    for outcome, status in ((Abstention("colours only"), "abstained"), (Failure("timed out"), "failed")):
        assert follow(RECOLOUR, scene(edited={"cup": [BOX]}, judge=outcome)).status == status


def test_evidence_tells_what_was_looked_at_and_how_it_was_weighed(follow, scene):
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


def test_every_prompt_uses_exactly_the_slots_it_is_given():
    assert {file.stem for file in PROMPTS.glob("*.txt")} == set(SLOTS)
    for name, slots in SLOTS.items():
        text = (PROMPTS / f"{name}.txt").read_text(encoding="utf-8")
        assert {slot for _, slot, _, _ in Formatter().parse(text) if slot is not None} == slots


@pytest.mark.parametrize("name", sorted(SLOTS.keys() - {"core_name"}))
def test_yes_no_prompts_ask_for_one_word(name):
    words = Prompts("editcritic.reward.metrics.edival").render(name, **dict.fromkeys(SLOTS[name], "x"))
    assert words.endswith("Answer with one word: yes or no.")


def test_a_prompt_pack_replaces_what_it_holds(follow, scene, tmp_path):
    (tmp_path / "color.txt").write_text("Is the {object} {value}?\n", encoding="utf-8")
    pack = str(tmp_path)
    packed = scene(edited={"cup": [BOX]})
    follow(RECOLOUR, packed, prompts=pack)
    (question,) = packed.of_kind(Judge)
    assert question.messages[0].content[-1] == "Is the cup blue?"
    ours = scene()
    follow(Task("background_change", value="beach"), ours, prompts=pack)
    assert "Answer with one word" in str(ours.queries[0].messages[0].content[-1])
    with pytest.raises(ValueError, match="is not a folder"):
        InstructionFollowing(prompts=str(tmp_path / "none"))


GOLDEN = Path(__file__).parents[3] / "golden" / "edival_instruction_following.jsonl"


def test_all_golden_cases_agree_in_verdict_and_detector_calls_which_do_not_count_for_other_protocols():
    agree, total, disagreements = replay_cases(GOLDEN, "official")
    assert (agree, total) == (2730, 2730), "\n".join(map(str, disagreements[:20]))
    agree, total, disagreements = replay_cases(GOLDEN, "paper")
    assert (total, agree + len(disagreements)) == (2730, 2730)
    assert not any("detector calls" in line for line in disagreements)


def test_the_detector_is_asked_in_the_order_of_the_released_code_and_the_dense_form_agrees_with_every_verdict():
    """What the evidence says was asked is what was asked: the program is stepped through by hand."""
    cases, degrees = list(read_cases(GOLDEN)), set()
    recorded = GoldenExpert(cases)
    for case in cases:
        score, queries = by_hand(InstructionFollowing("official"), case, recorded)
        names = {case.picture(name).digest: name for name in ("source", "edited")}
        assert [(names[query.image.digest], *query.phrases) for query in queries] == [call[:2] for call in case.calls]
        assert (detector_calls(score, case), score.value) == (case.calls, case.expected)
        dense, _ = by_hand(InstructionFollowing("official", dense=True), case, recorded)
        assert (dense.value >= 0.5) == bool(case.expected)
        degrees.add(dense.value)
    assert len(degrees) > 1000  # judge-only verdicts tie where the judge gives no probability


def by_hand(metric, case, recorded):
    program, answers, queries = metric(case.sample), None, []
    try:
        while True:
            request = program.send(answers)
            assert isinstance(request, Ask)
            queries += [query for query in request.queries if isinstance(query, Detect)]
            adapted = [recorded.rewrite_query(query, case.sample) for query in request.queries]
            answers = tuple(recorded([query for query in adapted if isinstance(query, Query)]))
    except StopIteration as stop:
        return stop.value, queries


def test_a_case_that_comes_out_otherwise_is_told_and_a_line_that_is_no_case_is_named(tmp_path):
    wrong, shuffled, silent = (json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()[:3])
    wrong["expected"] = 1 - wrong["expected"]
    shuffled["detector_calls"].reverse()
    silent["vlm"] = {}
    file = tmp_path / "cases.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in (wrong, shuffled, silent)), encoding="utf-8")
    agree, total, disagreements = replay_cases(file, "official")
    assert (agree, total) == (0, 3)
    lines = disagreements
    assert lines[0].startswith(f"{wrong['id']}: expected {wrong['expected']}, got {1 - wrong['expected']}")
    assert "expected detector calls" in lines[1]
    assert "got failed (golden edival-if: no answer is recorded for 'added')" in lines[2]
    file.write_text('{"id": "1"}\n', encoding="utf-8")
    for protocol, says in (("official", "line 1: not a golden case"), ("fixed", "there are paper, official")):
        with pytest.raises(ValueError, match=says):
            replay_cases(file, protocol)
