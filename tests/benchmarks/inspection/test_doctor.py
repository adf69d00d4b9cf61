import importlib.util
import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from editcritic.benchmarks.inspection import doctor
from editcritic.benchmarks.inspection.expert_probe import synthetic_image
from editcritic.reward import default_experts
from editcritic.reward.installation import install_command
from editcritic.reward.queries.specs import entry_point_names

NOT_RUN = {"clip", "openai", "no-segmenter", "vlm"}
"""Some that need weights, a server, or do nothing: each of the others starts a process that says the same."""


@pytest.fixture(scope="module")
def report() -> doctor.DoctorReport:
    with pytest.MonkeyPatch.context() as patch:
        all_names = entry_point_names("editcritic.experts")
        default_types = {type(expert) for expert in default_experts().values()}
        chosen = {name: one for name, one in all_names.items() if name in NOT_RUN or one.load() in default_types}
        patch.setattr(doctor, "entry_point_names", lambda group: chosen)
        return doctor.run_diagnostics()


def test_every_expert_without_a_download_really_runs(report: doctor.DoctorReport) -> None:
    ran = {one.name: one for one in report.experts if one.status == "runs"}
    assert set(ran) >= {"annotated", "colour", "pixels", "rapidocr"}
    for one in ran.values():
        assert one.id
        assert all(0 < milliseconds < 60_000 for milliseconds in one.milliseconds.values())
        assert None not in (one.load_seconds, one.memory_mib)
    assert set(ran["pixels"].milliseconds) == {"embed", "measure"}
    assert (ran["rapidocr"].memory_mib or 0) > 20  # three models and their runtime
    assert {one.name for one in report.experts if one.status == "not_tested"} == NOT_RUN


def test_versions_and_what_is_lacking_are_told(report: doctor.DoctorReport) -> None:
    packages = {(one.extra, one.name): one.version for one in report.packages}
    assert packages["", "numpy"] == version("numpy")
    assert ("ocr", "rapidocr") in packages
    assert (("", "tomli") in packages) == (sys.version_info < (3, 11))
    for extra, missing in report.missing_packages.items():
        assert all(packages[extra, name] is None for name in missing)
        assert report.to_json()["install"][extra] == install_command(extra)
    assert report.exit_code == 0


def distribution(folder: Path, name: str) -> Path:
    """What is known of an installed distribution."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    return info


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        ('{"url": "file:///clone", "dir_info": {"editable": true}}', "pip install -e '.[ocr]'"),
        ('{"url": "file:///clone", "dir_info": {}}', "pip install 'editcritic[ocr]'"),
        (None, "pip install 'editcritic[ocr]'"),
    ],
)
def test_advice_is_to_install_as_this_was_installed(
    origin: str | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = distribution(tmp_path, "editcritic")
    (info / "INSTALLER").write_text("pip\n")
    left_by_setuptools = tmp_path / "editcritic.egg-info"
    left_by_setuptools.mkdir()
    (left_by_setuptools / "PKG-INFO").write_text((info / "METADATA").read_text())
    if origin is not None:
        (info / "direct_url.json").write_text(origin)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert install_command("ocr") == said


def test_all_advice_on_our_extras_is_of_one_function() -> None:
    root = Path(doctor.__file__).parents[2]
    folders = ("benchmarks", "cli", "integrations", "reward", "verifiers")
    texts = {path: path.read_text(encoding="utf-8") for name in folders for path in (root / name).rglob("*.py")}
    assert len(texts) > 300
    assert [path.name for path, text in texts.items() if "editcritic[" in text] == ["installation.py"]


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "torch" else find(name))
    assert doctor.torch_report() == {"installed": False, "device": None, "install": install_command("hf")}


def test_who_lacks_torchvision_is_told_who_will_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    (note,) = doctor.environment_notes()
    assert "Qwen-VL" in note
    assert "InternVL" in note
    monkeypatch.setattr(doctor, "find_spec", lambda name: object())
    assert list(doctor.environment_notes()) == []


EXPERT = (
    "from editcritic.reward.queries import AsyncExpert, Expert\n"
    "class Theirs(Expert):\n"
    "    id, kinds = 'theirs', ()\n"
    "    def __init__(self, weights): ...\n"
    "    def __call__(self, queries): return []\n"
)


@pytest.mark.parametrize(
    ("module", "status", "message", "install"),
    [
        (EXPERT, "not_tested", "needs weights", ""),
        (EXPERT.replace("(Expert)", "(AsyncExpert)"), "not_tested", "queries a server", ""),
        ("import openai\n" + EXPERT, "not_installed", "openai is not installed", install_command("judge")),
        ("import theirs_nowhere\n", "not_installed", "theirs_nowhere is not installed", ""),
        ("raise RuntimeError('out of order')\n", "failed", "RuntimeError: out of order", ""),
    ],
)
def test_what_cannot_run_is_told_with_what_to_install(module, status, message, install, tmp_path, monkeypatch):
    info = distribution(tmp_path, "theirs")  # an expert of another distribution
    (info / "entry_points.txt").write_text("[editcritic.experts]\ntheirs = theirs:Theirs\n")
    (tmp_path / "theirs.py").write_text(module)
    (tmp_path / "openai.py").write_text("raise ModuleNotFoundError('No module named openai', name='openai')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    result = doctor.check_expert("theirs", tuple(doctor.packages()))
    assert (result.status, result.install_command) == (status, install)
    assert message in result.problem


def test_modules_of_the_working_folder_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("editcritic", "json", "numpy", "runpy"):
        (tmp_path / f"{name}.py").write_text(f"open('was-run', 'w').close()\nraise ImportError({name!r})")
    monkeypatch.chdir(tmp_path)
    assert doctor.check_expert("pixels", ()).status != "failed"
    assert not Path("was-run").exists()


def test_a_missing_package_of_ours_is_told_by_the_expert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rapidocr.py").write_text("raise ModuleNotFoundError('No module named rapidocr', name='rapidocr')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    result = doctor.check_expert("rapidocr", ())
    assert result.status == "not_installed"
    assert install_command("ocr") in result.problem


def test_an_expert_that_hangs_does_not_hang_the_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("probe", doctor.TIMEOUT_S)

    monkeypatch.setattr(subprocess, "run", hang)
    result = doctor.check_expert("pixels", ())
    assert (result.status, result.problem) == ("failed", "not finished after 180 s")


def test_the_synthetic_pictures_differ_and_are_the_same_every_time() -> None:
    assert len({synthetic_image(number).digest for number in range(7)}) == 7
    assert synthetic_image(3) == synthetic_image(3)
    assert synthetic_image(0).size == (512, 512)


def test_the_command_prints_the_report(editcritic, report, monkeypatch):
    monkeypatch.setattr(doctor, "run_diagnostics", lambda: report)
    shown = editcritic("doctor", code=0)
    for text in ["numpy", "rapidocr", "ms per query at 512 x 512", "torch", "read_text"]:
        assert text in shown.stdout
    document = json.loads(editcritic("doctor", "--json").stdout)
    assert {one["name"] for one in document["experts"]} == {one.name for one in report.experts}
    assert document["system"]["python"] in shown.stdout


def test_torch_and_its_device_are_told() -> None:
    torch = pytest.importorskip("torch")
    report = doctor.torch_report()
    assert report["installed"]
    assert report["version"] == torch.__version__
    assert report["device"].startswith("cuda" if torch.cuda.is_available() else ("cpu", "mps"))
