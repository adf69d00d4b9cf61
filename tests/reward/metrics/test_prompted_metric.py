"""What metrics that ask a judge share: options without meaning are refused, packs are asked and signed, one source."""

from functools import partial
from typing import Any

import pytest

from editcritic.reward import Task, build
from editcritic.reward.metrics.baselines.clip_similarity import ClipDirectional, ClipImage
from editcritic.reward.metrics.baselines.reward_models import (
    EditRewardScore,
    EditScore,
    JudgeLevels,
    JudgeQuality,
    JudgeRealism,
    JudgeYesNo,
)
from editcritic.reward.metrics.complexedit.metrics import (
    ComplexEditInstructionFollowing,
    ComplexEditOverall,
    IdentityPreservation,
    PerceptualQuality,
)
from editcritic.reward.metrics.dlebench.metrics import SmallObjectFollowing, VisualConsistency
from editcritic.reward.metrics.edival.consistency import BackgroundConsistency, ContentConsistency, ObjectConsistency
from editcritic.reward.metrics.edival.following import InstructionFollowing
from editcritic.reward.metrics.edival.overall import MultiTurnFollowing, VisualQuality
from editcritic.reward.metrics.i2ibench.overall import I2IBenchOverall
from editcritic.reward.metrics.imgedit.metrics import ImgEditScore, ImgEditUge
from editcritic.reward.metrics.pairwise import PairwiseJudge
from editcritic.reward.metrics.viescore.metrics import PerceptualQuality as VieQuality
from editcritic.reward.metrics.viescore.metrics import SemanticConsistency, VieScoreOverall
from editcritic.reward.queries import Failure, Judge

from ..fakes import picture, sample
from .scripted import heard, words

COMPLEX = [ComplexEditInstructionFollowing, IdentityPreservation, PerceptualQuality, ComplexEditOverall]
PROBABILITY = {"mode": "token_probability"}
TRANSFER, CONSISTENCY = "i2i-multi-cross-source-attribute", "i2i-multi-inter-subject-consistency"
ARTIFACTS, BLENDING, PHYSICAL = "i2i-editing-artifacts", "i2i-blending-naturalness", "i2i-physical-plausibility"
TEXT, IMAGE, IDENTITY = "i2i-text-content-style", "i2i-image-quality", "i2i-subject-identity"
SCALE = "scale must be the lowest and the highest rating"
REFUSED: list[tuple[Any, dict[str, Any], str]] = [  # a metric or its name, options, what is said
    (InstructionFollowing, {"protocol": "fixed"}, "edival-if has no protocol 'fixed': there are paper, official"),
    (InstructionFollowing, {"protocol": "official", "text_match": "substring"}, "in protocol official, got text_match"),
    *((InstructionFollowing, {"position_margin": value}, "position_margin") for value in (-0.1, 1.0)),
    *((InstructionFollowing, {"threshold": value}, "threshold") for value in (0.0, 1.0)),
    *((InstructionFollowing, {name: "half"}, name) for name in ("text_match", "attribute_view")),
    (InstructionFollowing, {"max_box_size": 0.0}, "max_box_size"),
    (InstructionFollowing, {"duplicate_iou": 1.5}, "duplicate_iou"),
    (InstructionFollowing, {"min_crop_size": -1}, "min_crop_size"),
    *((of, {"protocol": "paper"}, "fixed, official") for of in (ContentConsistency, ObjectConsistency)),
    (BackgroundConsistency, {"similarity": "ssim"}, "there are features, l1"),
    (MultiTurnFollowing, {"reduction": "median"}, "edival-chain has no reduction 'median': there are minimum, mean"),
    (ClipImage, {"threshold": float("nan")}, "finite"),
    (ClipDirectional, {"text": "both"}, "captions, instruction"),
    (VisualQuality, {"protocol": "fixed"}, "there are paper, official"),
    (VisualQuality, {"prompt": "caption"}, "there are instruction, empty"),
    (SemanticConsistency, {"protocol": "vibes"}, "viescore-sc has no protocol 'vibes': there are fixed, official"),
    (ImgEditScore, {"protocol": "paper"}, "imgedit has no protocol 'paper': there are fixed, official"),
    (ImgEditScore, {"edit_type": "hybrid"}, "no edit_type 'hybrid': there are None, add, adjust, extract"),
    (ImgEditScore, {"extract_source": "yes"}, "no extract_source 'yes': there are None, True, False"),
    (ImgEditUge, {"protocol": "paper"}, "imgedit-uge has no protocol 'paper': there are fixed, official"),
    *((EditScore, {"draws": draws}, "needs draws from 1") for draws in (0, 1001)),
    *((EditScore, {name: value}, "draw") for name, value in (("seed", -1), ("highest", 0), ("temperature", -1.0))),
    (EditScore, {"draws": 2, "temperature": 0.0}, "independent draws need a temperature"),
    *((of, {"mode": "guess"}, "complex-edit-.* has no mode 'guess': there are numeric, token_pro") for of in COMPLEX),
    *((of, {"n": 0}, "needs n >= 1") for of in COMPLEX),
    (COMPLEX[0], {"max_replacements": -1}, "max_replacements >= 0"),
    (COMPLEX[0], {"seed": -1}, "seed >= 0"),
    (COMPLEX[0], {"n": 999}, r"1000 draws per seed, got n \+ max_replacements = 1001: lower n"),
    (COMPLEX[1], {"mode": "expected", "n": 5}, "sends one query in mode expected, got n=5: leave it out"),
    (COMPLEX[1], {**PROBABILITY, "seed": 5, "max_replacements": 1}, "got seed=5, max_replacements=1: leave"),
    (COMPLEX[1], {"sampling": "greedy"}, "no sampling 'greedy'"),
    (COMPLEX[2], {"sampling": "deterministic", "n": 3}, "one query by deterministic sampling, got n=3: leave it out"),
    (COMPLEX[2], {"sampling": "deterministic", "mode": "expected"}, "in mode numeric only"),
    (COMPLEX[2], {"mode": "expected", "paper": True}, "system prompt in mode numeric only, not in expected"),
    (COMPLEX[3], {"mode": "expected", "reasoning": True}, "no reasoning in mode expected"),
    (COMPLEX[3], {**PROBABILITY, "rubric": False}, "no rubric in mode token_probability"),
    (COMPLEX[0], {"mode": "expected", "operations": "listed"}, "numeric with reasoning only"),
    (COMPLEX[1], {"reasoning": False, "operations": "listed"}, "numeric with reasoning only"),
    (COMPLEX[2], {**PROBABILITY, "instruction": True}, "no instruction in mode token"),
    (COMPLEX[3], {"mean": "harmonic"}, "complex-edit-o has no mean 'harmonic': there are arithmetic, geo"),
    (SmallObjectFollowing, {"mode": "human"}, "dlebench-if has no mode 'human': there are oracle, tools, plain"),
    (SmallObjectFollowing, {"max_turns": 3}, "does not use max_turns in mode oracle"),
    (SmallObjectFollowing, {"max_regions": 3}, "does not use max_regions in mode"),
    (SmallObjectFollowing, {"detection_threshold": 0.2}, "does not use detection_threshold in mode"),
    (SmallObjectFollowing, {"mode": "tools", "context": 1.0}, "does not use context in mode"),
    (SmallObjectFollowing, {"mode": "plain", "min_crop_side": 1}, "does not use min_crop_side in mode"),
    (SmallObjectFollowing, {"object_names": "words"}, "does not use object_names in mode"),
    (SmallObjectFollowing, {"context": "wide"}, "context must be `adaptive`"),
    (VisualConsistency, {"mode": "plain", "max_turns": 3}, "does not use max_turns in mode"),
    (VisualConsistency, {"mode": "plain", "paper": True}, "does not use paper in mode"),
    *((VisualConsistency, {n: 0}, f"{n} of at least 1") for n in ("max_turns", "max_regions", "max_tokens")),
    *((VisualConsistency, {"detection_threshold": p}, r"detection_threshold in \[0, 1\)") for p in (1.0, -0.1)),
    (VisualConsistency, {"min_crop_side": -1}, "min_crop_side of at least 0"),
    (VisualConsistency, {"min_crop_side": 100, "paper": True}, "leave out one of the two"),
    (VisualConsistency, {"object_names": "synonyms"}, "no object_names 'synonyms'"),
    (PHYSICAL, {"paper": True}, "no system prompt in the paper"),
    (ARTIFACTS, {"shown_images": "edited"}, "shown_images is for blending-naturalness"),
    (BLENDING, {"shown_images": "all"}, "no shown_images 'all': there are both, edited"),
    (PHYSICAL, {"protocol": "two_levels"}, "no protocol 'two_levels': there are questions"),
    (TRANSFER, {"protocol": "five_levels"}, "no protocol 'five_levels'"),
    (CONSISTENCY, {"protocol": "five_levels", "answering_view": "edited"}, "five_levels asks none"),
    (PHYSICAL, {"answering_view": "none"}, "no answering_view 'none': there are full, edited"),
    (PHYSICAL, {"judge_only": True, "answering_view": "edited"}, "takes no other options, got answering_view=edited"),
    *((name, {"inverted": True}, "inverted is for multi-") for name in (IDENTITY, "i2i-multi-detail-fidelity")),
    *((IMAGE, {"scale": ends}, SCALE) for ends in ((5, 1), (1, 1), (0, float("inf")), (float("nan"), 1), (1, 2, 3))),
    (TEXT, {"content": "some"}, "there are whole, part"),
    (TEXT, {"letters": "bare"}, "there are folded, exact"),
    (I2IBenchOverall, {"excluded_dimensions": ("beauty",)}, "no dimension of I2I-Bench is called 'beauty'"),
]


@pytest.mark.parametrize(("metric", "options", "says"), REFUSED)
def test_options_that_mean_nothing_are_refused(metric, options, says):
    with pytest.raises(ValueError, match=says):
        (partial(build, metric) if isinstance(metric, str) else metric)(**options)


ADD, BEACH = {"edit_type": "add"}, Task("background_change", value="beach")
PACKED: list[tuple[Any, dict[str, Any], str]] = [  # a metric, options, the prompt that it asks
    (InstructionFollowing, {}, "background"),
    (SemanticConsistency, {}, "semantic_consistency"),
    (VieScoreOverall, {}, "perceptual_quality"),
    (ImgEditScore, ADD, "add"),
    (EditScore, {}, "edit_score"),
    *((of, {}, of.topic) for of in list[Any]([JudgeYesNo, JudgeQuality, JudgeLevels, JudgeRealism])),
    *((of, PROBABILITY, f"{of.topic}_yes_no") for of in list[Any](COMPLEX[:2])),
    *((of, PROBABILITY, "quality_yes_no") for of in COMPLEX[2:]),
    (SmallObjectFollowing, {"mode": "plain"}, "following_plain"),
    (VisualConsistency, {"mode": "tools"}, "consistency_tools"),
    (partial(build, "i2i-object-manipulation"), {}, "success"),
    (I2IBenchOverall, {}, "success"),
]


@pytest.mark.parametrize(("metric", "options", "name"), PACKED)
def test_a_prompt_pack_is_asked_signed_and_read_once(metric, options, name, tmp_path):
    (tmp_path / f"{name}.txt").write_text("Just say it.", encoding="utf-8")
    packed, plain = metric(**options, prompts=str(tmp_path)), metric(**options)
    signatures = [packed.signature]
    (tmp_path / f"{name}.txt").write_text("Say it twice.", encoding="utf-8")
    _, queries = heard(packed, Failure("enough"), task=BEACH)
    assert any(words(query).endswith("Just say it.") for query in queries if isinstance(query, Judge))
    assert plain.signature.removesuffix("]") in packed.signature
    signatures.append(metric(**options, prompts=str(tmp_path)).signature)
    assert ["prompts=" in each for each in signatures] == [True, True]
    assert signatures[0] != signatures[1]
    with pytest.raises(ValueError, match="prompt pack '/nowhere' is not a folder"):
        metric(**options, prompts="/nowhere")


SINGLE = [SemanticConsistency(), VieQuality(), VieScoreOverall(), ImgEditScore(), ImgEditUge(), EditScore()]


@pytest.mark.parametrize("metric", [*SINGLE, EditRewardScore(), *(of() for of in COMPLEX[:2])])
def test_an_edit_of_several_pictures_is_not_applicable_and_asks_nobody(metric):
    score, queries = heard(metric, Failure("asked"), sample(sources=(picture(0), picture(2))))
    assert (score.status, queries, score.metric) == ("not_applicable", [], getattr(metric, "signature", score.metric))
    assert "2" in score.reason


def test_a_pack_of_a_comparison_is_a_folder():
    with pytest.raises(ValueError, match="not a folder"):
        PairwiseJudge(prompts="/nowhere")
