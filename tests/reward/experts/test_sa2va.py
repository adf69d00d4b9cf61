"""Sa2va runs remote code only if allowed; the predicted masks become one mask."""

import json
import shutil
import sys
import warnings
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from editcritic.reward.config import build
from editcritic.reward.experts.clip import Clip
from editcritic.reward.experts.loading.local_expert import LocalExpert
from editcritic.reward.experts.sa2va import Sa2va
from editcritic.reward.queries import ExpertDown, Failure, Mask, Segment
from editcritic.reward.queries.specs import spec_of

from . import tiny_detectors as tiny
from .tiny_sa2va import WIDTH, expected, tiny_sa2va

SCENES = [tiny.scene(n, size) for n, size in enumerate([(40, 30), (24, 24), (17, 50)])]
COMMANDS = ("Please segment the cat", "the red dog", "a cat on the dog left of a cup", "Please segment the teapot.")
COMMIT = "0123456789abcdef0123456789abcdef01234567"

REWARD = Path(__file__).parents[3] / "reward"


@pytest.fixture(autouse=True)
def modules(tmp_path_factory, monkeypatch):
    """transformers' folder for remote code."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path_factory.mktemp("modules")))
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("transformers_modules"):
            del sys.modules[name]


@pytest.fixture
def diary(tmp_path):
    return tmp_path / "diary"


@pytest.fixture(params=[False, True], ids=["for transformers 4", "for transformers 5"])
def folder(request, tmp_path, diary):
    return tiny_sa2va(tmp_path / "tiny-sa2va", diary, new=request.param)


@pytest.fixture
def old(tmp_path, diary):
    return tiny_sa2va(tmp_path / "tiny-sa2va", diary)


def trusted(folder, **options) -> Any:
    return Sa2va(str(folder), trust_remote_code=True, device="cpu", dtype="float32", **options)


# -- permission --------------------------------------------------------------------------------------------------------


def test_without_permission_nothing_is_run_and_it_says_what_would_be(old, diary, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    expert = Sa2va(str(old), device="cpu")
    assert "tiny-sa2va@" in expert.id
    for run in (expert.load, lambda: expert([Segment(SCENES[0], "cat")])):
        with pytest.raises(ExpertDown) as down:
            run()
        for part in (
            "configuration_tiny_sa2va.TinySa2vaConfig for AutoConfig",
            "modeling_tiny_sa2va.TinySa2va for AutoModel",
            f"from the folder {old}",
            "None of it was run",
            "allow it: trust_remote_code=True",
        ):
            assert part in str(down.value)
    assert not diary.exists()
    trusted(old).load()
    assert set(diary.read_text().split()) == {"configuration", "drawing", "modeling"}


def test_permission_for_one_is_none_for_another(old, diary):
    allowed = trusted(old)
    allowed.load()
    with pytest.raises(ExpertDown, match="None of it was run"):
        Sa2va(str(old), device="cpu", dtype="float32").load()


@pytest.mark.parametrize("value", ["true", 1, None])
def test_permission_is_true_or_false(value):
    with pytest.raises(ValueError, match="trust_remote_code is true or false"):
        Sa2va("someone/model", trust_remote_code=value)


def test_permission_is_written_down_with_the_expert():
    expert = build(f"editcritic.reward.experts.sa2va:Sa2va?trust_remote_code=true&revision={COMMIT}")
    assert (expert.trust_remote_code, expert.revision) == (True, COMMIT)
    assert spec_of(expert)["trust_remote_code"] is True
    assert "trust_remote_code" not in spec_of(Sa2va())


@pytest.mark.parametrize(
    ("name", "options", "warned"),
    [
        ("someone/model", {"trust_remote_code": True}, True),
        ("someone/model", {"trust_remote_code": True, "revision": "main"}, True),
        ("someone/model", {"trust_remote_code": True, "revision": COMMIT}, False),
        ("someone/model", {}, False),
        (str(REWARD), {"trust_remote_code": True}, False),
    ],
)
def test_code_that_may_change_is_warned_of(name, options, warned):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Sa2va(name, **options)
    messages = [str(warning.message) for warning in caught if "may change and would be run" in str(warning.message)]
    assert len(messages) == warned
    assert all("pin the code you have read with a full commit hash as revision=" in message for message in messages)


def on_the_hub(cache, monkeypatch, **snapshots):
    """A hub cache after a download: snapshots by commit; the first is the newest."""
    model = cache / "models--someone--tiny"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text(next(iter(snapshots)).removeprefix("c"))
    for commit, folder in snapshots.items():
        shutil.copytree(folder, model / "snapshots" / commit.removeprefix("c"))
    monkeypatch.setattr("transformers.utils.hub.constants.HF_HUB_CACHE", str(cache))


def test_the_code_of_a_pinned_commit_is_run_and_no_other(tmp_path, monkeypatch):
    good = tiny_sa2va(tmp_path / "good", tmp_path / "good-diary")
    newest = tiny_sa2va(tmp_path / "newest", tmp_path / "newest-diary")
    on_the_hub(tmp_path / "cache", monkeypatch, **{"c" + "f" * 40: newest, "c" + COMMIT: good})
    with pytest.raises(
        ExpertDown, match=rf"commit {'f' * 40} of someone/tiny on the hub \(its newest\).*revision='fff"
    ):
        Sa2va("someone/tiny", device="cpu").load()
    expert: Any = Sa2va("someone/tiny", revision=COMMIT, device="cpu", dtype="float32", trust_remote_code=True)
    (answer,) = expert([Segment(SCENES[0], "cat")])
    np.testing.assert_array_equal(answer.values, expected(SCENES[0], "cat"))
    assert (tmp_path / "good-diary").exists()
    assert not (tmp_path / "newest-diary").exists()
    assert expert.id.startswith(f"Sa2va@1 someone/tiny@{COMMIT[:12]}")


def test_code_from_elsewhere_is_refused_even_with_permission(old, diary):
    changed(old, auto_map={"AutoConfig": "else/where--configuration.Config", "AutoModel": "else/where--modeling.Model"})
    with pytest.raises(ExpertDown, match="uses code from else/where, whose revision cannot be pinned"):
        trusted(old).load()
    assert not diary.exists()


# -- masks -------------------------------------------------------------------------------------------------------------


def test_masks_are_the_union_of_what_is_drawn(folder):
    expert = trusted(folder)
    queries = [Segment(scene, command) for scene in SCENES for command in COMMANDS]
    shares = []
    for query, answer in zip(queries, expert(queries), strict=True):
        query.check(answer)
        np.testing.assert_array_equal(answer.values, expected(query.image, query.command))
        assert answer.score == 1.0
        shares.append(float(answer.values.mean()))
    assert len(set(shares)) > 6
    one, two, three = (expected(SCENES[0], words) for words in ("cat", "dog", "cat dog cup"))
    assert three.sum() > max(one.sum(), two.sum())


def test_where_nothing_is_drawn_the_mask_is_empty_and_counted(old):
    expert = trusted(old)
    answers = expert([Segment(scene, "the blue teapot") for scene in SCENES])
    assert not any(answer.values.any() for answer in answers)
    assert expert.usage() == {"empty_masks": 3}


def test_what_is_computed_when_the_model_is_made_is_no_garbage(old):
    """transformers' own loading leaves such tensors uninitialised, for code written for version 4."""
    with trusted(old).checkpoint.use() as loaded:
        model = loaded.model
    torch.testing.assert_close(model.rates, torch.linspace(0.5, 1.5, WIDTH))
    torch.testing.assert_close(model.language_model.model.rotary_emb.inv_freq, 10000.0 ** -(torch.arange(3) / 3))
    assert model.language_model.lm_head.weight is model.language_model.model.embed_tokens.weight
    assert not model.training


def test_it_says_what_transformers_own_loading_says_where_that_works(tmp_path, diary):
    folder = tiny_sa2va(tmp_path / "tiny", diary, new=True)
    model = transformers.AutoModel.from_pretrained(folder, trust_remote_code=True).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    for command in COMMANDS[:3]:
        output = model.predict_forward(image=SCENES[1].pil(), text=f"<image>{command}", tokenizer=tokenizer)
        (answer,) = trusted(folder)([Segment(SCENES[1], command)])
        np.testing.assert_array_equal(answer.values, np.concatenate(output["prediction_masks"]).any(0))


def test_a_model_that_wants_a_processor_gets_one(tmp_path, diary):
    folder = tiny_sa2va(tmp_path / "tiny", diary, processor=True)
    (answer,) = trusted(folder)([Segment(SCENES[0], "cat")])
    np.testing.assert_array_equal(answer.values, expected(SCENES[0], "cat"))


def test_it_runs_in_bfloat16_unless_told_otherwise(old):
    expert: Any = Sa2va(str(old), trust_remote_code=True, device="cpu")
    (answer,) = expert([Segment(SCENES[0], "cat")])
    assert "bfloat16" in expert.id
    assert (answer.values != expected(SCENES[0], "cat")).mean() < 0.1


def test_a_bare_name_becomes_a_sentence_and_a_command_stays(old, monkeypatch):
    expert, prompts = trusted(old), []

    def heard(image, text, tokenizer):
        prompts.append(text)
        return {"prediction": "no", "prediction_masks": []}

    with expert.checkpoint.use() as loaded:
        monkeypatch.setattr(loaded.model, "predict_forward", heard)
    expert(
        [Segment(SCENES[0], command) for command in ("the red circle.", " Please segment the cup ", "Give me its mask")]
    )
    assert prompts == [
        "<image>\nPlease segment the red circle.",
        "<image>\nPlease segment the cup",
        "<image>\nGive me its mask",
    ]


# -- failures ----------------------------------------------------------------------------------------------------------

PIXELS = np.ones((1, 30, 40), bool)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ({"prediction": "<|im_end|>", "prediction_masks": []}, "its output is empty"),
        ({"prediction": "Sure, [SEG].", "prediction_masks": []}, r"1 \[SEG\] and 0 masks"),
        ({"prediction": "Sure.", "prediction_masks": [PIXELS]}, r"0 \[SEG\] and 1 masks"),
        (
            {"prediction": "[SEG]", "prediction_masks": [PIXELS[:, :9]]},
            r"masks of \(1, 9, 40\) for an image of 30 x 40",
        ),
        (("Sure.", []), "no prediction and prediction_masks, but tuple"),
    ],
)
def test_answers_that_make_no_sense_fail_with_what_was_said(old, monkeypatch, output, reason):
    expert = trusted(old)
    with expert.checkpoint.use() as loaded:
        monkeypatch.setattr(loaded.model, "predict_forward", lambda image, text, tokenizer: output)
    (answer,) = expert([Segment(SCENES[0], "cat")])
    assert isinstance(answer, Failure)
    assert answer.raw == (output["prediction"] if isinstance(output, dict) else str(output))
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(answer.reason)


def test_commands_that_cannot_be_told_fail_by_themselves(old):
    empty, good, marked = trusted(old)([Segment(SCENES[0], command) for command in (" . ", "cat", "<image> cat")])
    assert isinstance(good, Mask)
    assert isinstance(empty, Failure)
    assert isinstance(marked, Failure)
    assert "is empty: name what to segment" in empty.reason
    assert "leave it out" in marked.reason


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (AttributeError("no generate"), rf"does not run here: AttributeError: no generate.*{transformers.__version__}"),
        (RuntimeError("No CUDA GPUs are available"), "works on CUDA only, and the model is on cpu"),
        (AssertionError("Torch not compiled with CUDA enabled"), "works on CUDA only"),
    ],
)
def test_code_that_does_not_fit_this_machine_says_so(old, monkeypatch, error, message):
    def predict_forward(image, text, tokenizer):
        raise error

    expert = trusted(old)
    with expert.checkpoint.use() as loaded:
        monkeypatch.setattr(loaded.model, "predict_forward", predict_forward)
    with pytest.raises(ExpertDown, match=message):
        expert([Segment(SCENES[0], "cat")])


def test_what_goes_wrong_with_one_picture_stays_its_own(old, monkeypatch):
    def predict_forward(image, text, tokenizer):
        raise RuntimeError("sizes of tensors must match")

    expert = trusted(old)
    with expert.checkpoint.use() as loaded:
        monkeypatch.setattr(loaded.model, "predict_forward", predict_forward)
    with pytest.raises(RuntimeError, match="sizes of tensors"):
        expert([Segment(SCENES[0], "cat")])


def changed(folder, **entries):
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **entries}))


def test_checkpoints_of_other_kinds_are_refused(old, tmp_path):
    with pytest.raises(ExpertDown, match="has no model class of its own"):
        trusted(tiny.owl(tmp_path / "owl")).load()
    code = old / "modeling_tiny_sa2va.py"
    code.write_text(code.read_text().replace("predict_forward", "answer"))
    with pytest.raises(ExpertDown, match="is a TinySa2va without Sa2VA's predict_forward"):
        trusted(old).load()


def test_code_that_lacks_a_package_says_which(old):
    code = old / "modeling_tiny_sa2va.py"
    code.write_text("import no_such_package\n" + code.read_text())
    with pytest.raises(ExpertDown, match=r"ImportError: .*not found in your environment: no_such"):
        trusted(old).load()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weights: weights.pop("text_hidden_fcs.2.bias"), r"lacks 1 of its weights \(text_hidden_fcs.2.bias\)"),
        (lambda weights: weights.update(more=torch.zeros(2)), r"has no parameters for 1 of its weights \(more\)"),
        (
            lambda weights: weights.update({"text_hidden_fcs.2.bias": torch.zeros(4)}),
            r"is \(4,\) in the file and \(3,\)",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused(old, change, message):
    weights: dict[str, torch.Tensor] = {}
    for shard in sorted(old.glob("*.safetensors")):
        weights |= load_file(shard)
        shard.unlink()
    (old / "model.safetensors.index.json").unlink()
    change(weights)
    save_file(weights, old / "model.safetensors")
    with pytest.raises(ExpertDown, match=message):
        trusted(old).load()


@pytest.mark.parametrize("option", [{"device_map": "auto"}, {"quantisation": "nf4"}])
def test_it_is_loaded_whole(option):
    with pytest.raises(ValueError, match="without device_map and quantisation: leave them out"):
        Sa2va("someone/model", **option)


# -- other experts -----------------------------------------------------------------------------------------------------


def test_no_other_expert_runs_code_of_a_checkpoint(old, diary, monkeypatch):
    monkeypatch.setattr(
        "builtins.input", lambda *_: "y"
    )  # by default transformers asks for confirmation in the main thread
    named: list[Any] = [point.load() for point in entry_points(group="editcritic.experts")]
    local: list[Any] = [
        kind for kind in named if isinstance(kind, type) and issubclass(kind, LocalExpert) and kind is not Sa2va
    ]
    assert len(local) > 10
    for kind in local:
        with pytest.raises(ExpertDown):
            kind(str(old), device="cpu").prepare()
        assert not diary.exists(), kind


def test_the_refusal_names_no_option_that_there_is_not(old):
    patience = transformers.dynamic_module_utils.TIME_OUT_REMOTE_CODE
    with pytest.raises(ExpertDown, match="needs Python code of its own, and AutoModel runs transformers' code only"):
        Clip(str(old), device="cpu").load()
    assert transformers.dynamic_module_utils.TIME_OUT_REMOTE_CODE == patience > 0


def test_only_one_file_allows_code_of_checkpoints():
    allowing = [
        path.relative_to(REWARD.parent).as_posix()
        for folder in ("reward", "verifiers", "integrations", "benchmarks")
        for path in (REWARD.parent / folder).rglob("*.py")
        if "trust_remote_code=True" in path.read_text(encoding="utf-8").replace(" ", "")
    ]
    assert allowing == ["reward/experts/loading/remote_code.py"]
