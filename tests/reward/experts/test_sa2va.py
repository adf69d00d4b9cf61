"""Sa2va runs remote code only if allowed; the predicted masks become one mask."""

import json
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
from .asking import assert_down, assert_failed
from .tiny_sa2va import WIDTH, expected, tiny_sa2va

SCENES = [tiny.scene(n, size) for n, size in enumerate([(40, 30), (24, 24), (17, 50)])]
COMMANDS = ("Please segment the cat", "the red dog", "a cat on the dog left of a cup", "Please segment the teapot.")
CAT = Segment(SCENES[0], "cat")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
REWARD = Path(__file__).parents[3] / "reward"


@pytest.fixture(autouse=True)
def modules(tmp_path_factory, monkeypatch):
    """transformers' folder for remote code."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path_factory.mktemp("modules")))
    monkeypatch.setattr("builtins.input", lambda *_: "y")  # by default transformers asks for confirmation
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("transformers_modules"):
            del sys.modules[name]


@pytest.fixture
def diary(tmp_path):
    return tmp_path / "diary"


@pytest.fixture
def old(tmp_path, diary):
    return tiny_sa2va(tmp_path / "tiny-sa2va", diary)


def trusted(folder, **options) -> Any:
    return Sa2va(str(folder), trust_remote_code=True, **{"device": "cpu", "dtype": "float32", **options})


def predicting(expert: Any, monkeypatch, predict: Any) -> Any:
    """The expert with this `predict_forward`."""
    with expert.checkpoint.use() as loaded:
        monkeypatch.setattr(loaded.model, "predict_forward", lambda image, text, tokenizer: predict(text))
    return expert


def test_without_permission_nothing_is_run_and_it_says_what_would_be(old, diary):
    expert = Sa2va(str(old), device="cpu", dtype="float32")
    assert "tiny-sa2va@" in expert.id
    parts = ["configuration_tiny_sa2va.TinySa2vaConfig for AutoConfig", "modeling_tiny_sa2va.TinySa2va for AutoModel"]
    parts += [f"from the folder {old}", "None of it was run", "allow it: trust_remote_code=True"]
    for run in (expert.load, lambda: expert([CAT])):
        with pytest.raises(ExpertDown) as down:
            run()
        assert all(part in str(down.value) for part in parts)
    assert not diary.exists()
    allowed = trusted(old)
    allowed.load()
    assert set(diary.read_text().split()) == {"configuration", "drawing", "modeling"}
    with pytest.raises(ExpertDown, match="None of it was run"):  # permission for one is none for another
        expert.load()


def test_permission_is_true_or_false_and_written_down_with_the_expert_which_is_loaded_whole():
    for value in ("true", 1, None):
        with pytest.raises(ValueError, match="trust_remote_code is true or false"):
            Sa2va("someone/model", trust_remote_code=value)  # type: ignore[arg-type]
    expert = build(f"editcritic.reward.experts.sa2va:Sa2va?trust_remote_code=true&revision={COMMIT}")
    assert (expert.trust_remote_code, expert.revision) == (True, COMMIT)
    assert spec_of(expert)["trust_remote_code"] is True
    assert "trust_remote_code" not in spec_of(Sa2va())
    for option in ({"device_map": "auto"}, {"quantisation": "nf4"}):
        with pytest.raises(ValueError, match="without device_map and quantisation: leave them out"):
            Sa2va("someone/model", **option)  # type: ignore[arg-type]


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


def test_the_code_of_a_pinned_commit_is_run_and_no_other(tmp_path, monkeypatch):
    model, newest = tmp_path / "cache" / "models--someone--tiny", "f" * 40
    for commit in (newest, COMMIT):
        tiny_sa2va(model / "snapshots" / commit, tmp_path / f"diary-{commit[0]}")
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(newest)
    monkeypatch.setattr("transformers.utils.hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    message = rf"commit {newest} of someone/tiny on the hub \(its newest\).*revision='fff"
    assert_down(Sa2va("someone/tiny", device="cpu"), message)
    expert = trusted("someone/tiny", revision=COMMIT)
    (answer,) = expert([CAT])
    np.testing.assert_array_equal(answer.values, expected(SCENES[0], "cat"))
    assert (tmp_path / "diary-0").exists()
    assert not (tmp_path / "diary-f").exists()
    assert expert.id.startswith(f"Sa2va@1 someone/tiny@{COMMIT[:12]}")


def test_code_from_elsewhere_is_refused_even_with_permission(old, diary):
    file = old / "config.json"
    elsewhere = {"AutoConfig": "else/where--configuration.Config", "AutoModel": "else/where--modeling.Model"}
    file.write_text(json.dumps({**json.loads(file.read_text()), "auto_map": elsewhere}))
    assert_down(trusted(old), "uses code from else/where, whose revision cannot be pinned")
    assert not diary.exists()


def test_no_other_expert_runs_code_of_a_checkpoint(old, diary):
    named: list[Any] = [point.load() for point in entry_points(group="editcritic.experts")]
    local = [kind for kind in named if isinstance(kind, type) and issubclass(kind, LocalExpert) and kind is not Sa2va]
    assert len(local) > 10
    for kind in local:
        with pytest.raises(ExpertDown):
            kind(str(old), device="cpu").prepare()  # type: ignore[call-arg]
        assert not diary.exists(), kind
    patience = transformers.dynamic_module_utils.TIME_OUT_REMOTE_CODE
    assert_down(Clip(str(old), device="cpu"), "needs Python code of its own, and AutoModel runs transformers' code")
    assert transformers.dynamic_module_utils.TIME_OUT_REMOTE_CODE == patience > 0


def test_only_one_file_allows_code_of_checkpoints():
    root = REWARD.parent
    parts = [root / part for part in ("reward", "verifiers", "integrations", "benchmarks")]
    texts = {path: path.read_text(encoding="utf-8").replace(" ", "") for part in parts for path in part.rglob("*.py")}
    allowing = [path for path, text in texts.items() if "trust_remote_code=True" in text]
    assert allowing == [root / "reward/experts/loading/remote_code.py"]


@pytest.mark.parametrize("made", [{}, {"new": True}, {"processor": True}], ids=str)
def test_masks_are_the_union_of_what_is_drawn(tmp_path, diary, made):
    folder = tiny_sa2va(tmp_path / "tiny", diary, **made)
    queries = [Segment(scene, command) for scene in SCENES for command in COMMANDS]
    expert = trusted(folder)
    answers = expert(queries)
    for query, answer in zip(queries, answers, strict=True):
        query.check(answer)
        np.testing.assert_array_equal(answer.values, expected(query.image, query.command))
        assert answer.score == 1.0
    assert len({float(answer.values.mean()) for answer in answers}) > 6
    assert expert.usage() == {"empty_masks": 3}  # of the teapot, where nothing is drawn
    one, two, three = (expected(SCENES[0], words) for words in ("cat", "dog", "cat dog cup"))
    assert three.sum() > max(one.sum(), two.sum())
    if made == {"new": True}:  # transformers' own loading works, and says the same
        model = transformers.AutoModel.from_pretrained(folder, trust_remote_code=True).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
        for query, answer in zip(queries[:3], answers, strict=False):
            text = f"<image>{query.command}"
            output = model.predict_forward(image=query.image.pil(), text=text, tokenizer=tokenizer)
            np.testing.assert_array_equal(answer.values, np.concatenate(output["prediction_masks"]).any(0))


def test_what_is_computed_when_the_model_is_made_is_no_garbage_and_it_runs_in_bfloat16(old):
    """transformers' own loading leaves such tensors uninitialised, for code written for version 4."""
    with trusted(old).checkpoint.use() as loaded:
        model = loaded.model
    torch.testing.assert_close(model.rates, torch.linspace(0.5, 1.5, WIDTH))
    torch.testing.assert_close(model.language_model.model.rotary_emb.inv_freq, 10000.0 ** -(torch.arange(3) / 3))
    assert model.language_model.lm_head.weight is model.language_model.model.embed_tokens.weight
    assert not model.training
    expert: Any = Sa2va(str(old), trust_remote_code=True, device="cpu")
    (answer,) = expert([CAT])
    assert "bfloat16" in expert.id
    assert (answer.values != expected(SCENES[0], "cat")).mean() < 0.1


def test_a_bare_name_becomes_a_sentence_and_a_command_stays(old, monkeypatch):
    prompts: list[str] = []

    def heard(text):
        prompts.append(text)
        return {"prediction": "no", "prediction_masks": []}

    commands = ("the red circle.", " Please segment the cup ", "Give me its mask")
    predicting(trusted(old), monkeypatch, heard)([Segment(SCENES[0], command) for command in commands])
    sentences = ("Please segment the red circle.", "Please segment the cup", "Give me its mask")
    assert prompts == [f"<image>\n{sentence}" for sentence in sentences]
    empty, good, marked = trusted(old)([Segment(SCENES[0], command) for command in (" . ", "cat", "<image> cat")])
    assert isinstance(good, Mask)
    for failed, reason in ((empty, "is empty: name what to segment"), (marked, "leave it out")):
        assert_failed(failed, reason)


PIXELS = np.ones((1, 30, 40), bool)


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ({"prediction": "<|im_end|>", "prediction_masks": []}, "its output is empty"),
        ({"prediction": "Sure, [SEG].", "prediction_masks": []}, "1 [SEG] and 0 masks"),
        ({"prediction": "Sure.", "prediction_masks": [PIXELS]}, "0 [SEG] and 1 masks"),
        ({"prediction": "[SEG]", "prediction_masks": [PIXELS[:, :9]]}, "masks of (1, 9, 40) for an image of 30 x 40"),
        (("Sure.", []), "no prediction and prediction_masks, but tuple"),
    ],
)
def test_answers_that_make_no_sense_fail_with_what_was_said(old, monkeypatch, output, reason):
    (answer,) = predicting(trusted(old), monkeypatch, lambda _: output)([CAT])
    assert isinstance(answer, Failure)
    assert answer.raw == (output["prediction"] if isinstance(output, dict) else str(output))
    assert reason in answer.reason


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (AttributeError("no generate"), ExpertDown, rf"AttributeError: no generate.*{transformers.__version__}"),
        (RuntimeError("No CUDA GPUs are available"), ExpertDown, "works on CUDA only, and the model is on cpu"),
        (AssertionError("Torch not compiled with CUDA enabled"), ExpertDown, "works on CUDA only"),
        (RuntimeError("sizes of tensors must match"), RuntimeError, "sizes of tensors"),  # of one picture
    ],
)
def test_code_that_does_not_fit_this_machine_says_so(old, monkeypatch, error, raised, message):
    def predict(text):
        raise error

    with pytest.raises(raised, match=message):
        predicting(trusted(old), monkeypatch, predict)([CAT])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda code: code.replace("predict_forward", "answer"), "is a TinySa2va without Sa2VA's predict_forward"),
        (lambda code: "import no_such_package\n" + code, r"ImportError: .*not found in your environment: no_such"),
    ],
)
def test_code_of_another_kind_or_that_lacks_a_package_is_refused(old, tmp_path, change, message):
    code = old / "modeling_tiny_sa2va.py"
    code.write_text(change(code.read_text()))
    assert_down(trusted(old), message)
    assert_down(trusted(tiny.owl(tmp_path / "owl")), "has no model class of its own")


BIAS = "text_hidden_fcs.2.bias"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({BIAS: None}, rf"lacks 1 of its weights \({BIAS}\)"),
        ({"more": torch.zeros(2)}, r"has no parameters for 1 of its weights \(more\)"),
        ({BIAS: torch.zeros(4)}, r"is \(4,\) in the file and \(3,\)"),
    ],
)
def test_weights_that_do_not_fit_are_refused(old, change, message):
    weights: dict[str, Any] = {}
    for shard in sorted(old.glob("*.safetensors")):
        weights |= load_file(shard)
        shard.unlink()
    (old / "model.safetensors.index.json").unlink()
    kept = {name: value for name, value in (weights | change).items() if value is not None}
    save_file(kept, old / "model.safetensors")
    assert_down(trusted(old), message)
