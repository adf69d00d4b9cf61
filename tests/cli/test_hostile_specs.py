"""Files from somebody else name modules, addresses, variables and paths: nothing is run, sent or read without --trust.

Each file is a real one, written by a command, in which one spec is exchanged for an attack. What the attack would run
leaves a marker.
"""

import gc
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from editcritic.benchmarks.run.run_journal import RowJournal
from editcritic.benchmarks.run.run_settings import format_toml
from editcritic.reward import AnswerLog
from editcritic.reward.toml_files import tomllib
from editcritic.reward.trust import VARIABLE

from ..benchmarks.conftest import Command, Folder, three_edits
from ..reward.experts.http_server import Answer, completion, serving

SUITE = "sceneedit?prompts=1"


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where an attack leaves its trace; `evil` is a module that does so on import, with a metric and experts in it."""
    path = tmp_path / "was-run"
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "evil.py").write_text(
        f"import os\nopen({str(path)!r}, 'w').close()\n"
        "from editcritic.reward.metrics.guards import NotBlank as Mine\n"
        "def experts():\n    from editcritic.reward import default_experts\n    return default_experts()\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "modules")
    yield path
    sys.modules.pop("evil", None)


def attacks(marker: Path) -> dict[str, Any]:
    """Specs that run something when they are built."""
    command = f"touch {marker}"
    return {
        "os:system": {"use": "os:system", "command": command},
        "with options": f"os:system?command={command}",
        "subprocess:run": {"use": "subprocess:run", "args": ["touch", str(marker)]},
        "through our module": {"use": "editcritic.benchmarks.run.run_journal:os.system", "command": command},
        "nested": {"use": "weighted-mean", "parts": {"a": {"use": "os:system", "command": command}}},
        "in a list": {"use": "clip-image", "thresholds": [{"use": "os:system", "command": command}]},
        "in an option": 'artimuse?judge={"use":"os:system","command":"' + command + '"}',
        "an option": {"use": "artimuse", "judge": f"os:system?command={command}"},
        "a module": "evil:Mine",
        "of a class": {"use": "evil:Mine.__init__"},
    }


ATTACKS = list(attacks(Path()))


def refused(result: Result, marker: Path) -> None:
    """Exit code 2 and one line that says what to type, and nothing was run."""
    assert not marker.exists()
    assert result.exit_code == 2, result.output
    *opened, line = result.stderr.strip().splitlines()
    assert all(one.startswith("editcritic: opening ") for one in opened)
    assert "files run no code, contact nobody and read nothing by themselves" in line
    assert "add `--trust " in line


@pytest.fixture(scope="module")
def first_run(editcritic: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording, a lock, and results with their settings."""
    folder = Folder(tmp_path_factory.mktemp("first-run"))
    three_edits(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder.path)
        score = ("score", "samples.jsonl", "--reward", "guard-not-a-copy", "--record", "run.db")
        assert editcritic(*score).exit_code == 0
        assert editcritic("bench", "run", SUITE, "--metric", "any-edit", "--write-lock", "lock.toml").exit_code == 0
        Path("outputs").mkdir()
        run = ("bench", "run", SUITE, "--metric", "any-edit", "--outputs", "outputs", "-o", "results")
        assert editcritic(*run).exit_code == 1  # its one image is missing
    return folder.path


@pytest.fixture
def written(first_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the first run in the working directory."""
    shutil.copytree(first_run, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def in_recording(spec: Any) -> tuple[object, ...]:
    with AnswerLog("run.db") as log:
        log.meta("spec", json.dumps({**json.loads(log.meta("spec") or ""), "reward": spec}))
    return "dev", "replay", "-", "run.db"


def in_lock(change: Callable[[dict[str, Any]], None]) -> tuple[object, ...]:
    locked = tomllib.loads(Path("lock.toml").read_text(encoding="utf-8"))
    change(locked)
    Path("lock.toml").write_text(format_toml(locked), encoding="utf-8")
    return "bench", "run", "--lock", "lock.toml", "--outputs", "outputs", "-o", "again"


def in_results(name: str, change: Callable[[dict[str, Any]], None]) -> None:
    path = Path("results") / name
    table = json.loads(path.read_text(encoding="utf-8"))
    change(table)
    path.write_text(json.dumps(table), encoding="utf-8")


def verify(name: str, change: Callable[[dict[str, Any]], None]) -> tuple[object, ...]:
    in_results(name, change)
    return "bench", "verify", "results"


def report(change: Callable[[dict[str, Any]], None]) -> tuple[object, ...]:
    in_results("result.json", change)
    return "bench", "report", "results"


def label(spec: Any) -> tuple[object, ...]:
    in_results("run.json", lambda run: run["invocation"].update(suite=spec))
    return "judge", "label", "results", "-o", "labels.jsonl"


def binding(spec: Any) -> str:
    return f"'judge={spec}'" if isinstance(spec, str) else "evil:experts"


def module_of(spec: Any) -> str:
    return spec["use"] if isinstance(spec, dict) and ":" in spec["use"] else "evil:Mine"


def in_settings(change: Callable[[dict[str, Any]], None]) -> tuple[object, ...]:
    path = Path("results/run.toml")
    settings = tomllib.loads(path.read_text(encoding="utf-8"))
    change(settings)
    path.write_text(format_toml(settings), encoding="utf-8")
    return "bench", "run", "--config", path


def of_experts_file(spec: Any) -> tuple[object, ...]:
    Path("experts.toml").write_text(format_toml({"experts": {"judge": {"quality": spec}}}), encoding="utf-8")
    return "score", "samples.jsonl", "--reward", "judge-yes-no", "--experts", "experts.toml"


def of_reward_file(spec: Any) -> tuple[object, ...]:
    Path("reward.toml").write_text(format_toml({"reward": spec}), encoding="utf-8")
    return "rank", "samples.jsonl", "--reward", "reward.toml"


def of_selector_file(spec: Any) -> tuple[object, ...]:
    table = {"use": "knock-out", "n": 2, "comparison": spec}
    Path("selector.toml").write_text(format_toml(table), encoding="utf-8")
    return (
        *("edit", "source.png", "--instruction", "Remove helmet", "--pipeline", "sceneedit", "-o", "edited"),
        *("--reward", "guard-not-a-copy", "--selector", "selector.toml"),
    )


def of_judge_file(spec: Any) -> tuple[object, ...]:
    Path("judge.toml").write_text(format_toml({"experts": {"judge": spec}}), encoding="utf-8")
    return "bench", "build", "edival", ".", "-o", "built", "--judge", "judge.toml"


def of_reference_file(spec: Any) -> tuple[object, ...]:
    text = f"'{spec}'" if isinstance(spec, str) else "evil:Mine"
    item = {"image": "source.png", "query": "embed", "values": [0.5], "tolerance": 0.1}
    table = format_toml({"model": "m", "source": "s", "expert": f"colour {text}"})
    Path("reference.toml").write_text(f"{table}\n[[item]]\n{format_toml(item)}", encoding="utf-8")
    return "doctor", "--check-model", "reference.toml", "--images", "."


PLACES: dict[str, Callable[[Any], tuple[object, ...]]] = {
    "recording": in_recording,
    "experts of a lock": lambda spec: in_lock(lambda locked: locked["experts"]["judge"].update(spec=spec)),
    "suite of a lock": lambda spec: in_lock(lambda locked: locked.update(suite_spec=spec)),
    "bindings of a lock": lambda spec: in_lock(lambda locked: locked.update(expert_bindings=[binding(spec)])),
    "experts of results": lambda spec: verify(
        "result.json", lambda result: result["provenance"]["experts"]["judge"].update(spec=spec)
    ),
    "suite of a run": lambda spec: verify("run.json", lambda run: run["invocation"].update(suite=spec)),
    "suite of results": lambda spec: report(lambda result: result["provenance"].update(suite=module_of(spec))),
    "options of results": lambda spec: report(lambda result: result["provenance"]["suite_options"].update(seed=spec)),
    "suite to label": label,
    "suite of settings": lambda spec: in_settings(lambda settings: settings.update(suite=spec)),
    "experts of settings": lambda spec: in_settings(
        lambda settings: settings.update(experts=[binding(spec)] if isinstance(spec, str) else {"judge": spec})
    ),
    "experts file": of_experts_file,
    "reward file": of_reward_file,
    "selector file": of_selector_file,
    "judge file": of_judge_file,
    "reference file": of_reference_file,
}


@pytest.mark.parametrize("place", PLACES)
def test_no_file_runs_code(editcritic: Command, written: Path, marker: Path, place: str) -> None:
    """Every attack in every kind of file."""
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file() and path.suffix != ".pyc"}
    for name, spec in attacks(marker).items():
        for path, content in before.items():
            path.write_bytes(content)
        try:
            refused(editcritic(*PLACES[place](spec)), marker)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error
    assert "evil" not in sys.modules


SECRET = "a-key-of-the-user"


def test_no_file_contacts_a_server_or_sends_it_a_key(editcritic, three, tmp_path, monkeypatch):
    """A registered expert with a foreign address sends pictures and a secret there once both are trusted, and nothing
    before."""
    monkeypatch.setenv("THEIR_CLOUD_KEY", SECRET)
    experts = tmp_path / "experts.toml"
    score = ("score", three, "--reward", "judge-yes-no", "--experts", experts, "-o", tmp_path / "scores.jsonl")
    with serving(lambda *_: Answer(completion("Yes"))) as server:
        table = {"use": "openai", "model": "m", "base_url": server.url, "api_key_env": "THEIR_CLOUD_KEY"}
        for spec in (table, f"openai:{server.url}?model=m&api_key_env=THEIR_CLOUD_KEY"):
            experts.write_text(format_toml({"experts": {"judge": spec}}), encoding="utf-8")
            for trusted in ((), (server.url,), ("THEIR_CLOUD_KEY",), ("openai",), (f"{server.url}/",), ("http",)):
                result = editcritic(*score, *(word for name in trusted for word in ("--trust", name)), code=2)
                (line,) = result.stderr.strip().splitlines()
                assert ("THEIR_CLOUD_KEY (at " in line) == ("THEIR_CLOUD_KEY" not in trusted)
                assert (f"the address {server.url} (at " in line) == (server.url not in trusted)
            assert server.requests == []
        assert editcritic(*score, "--trust", server.url, "--trust", "THEIR_CLOUD_KEY").exit_code == 0
        assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {SECRET}"}
        monkeypatch.setenv("EDITCRITIC_TRUST", str(experts))
        assert editcritic(*score).exit_code == 0  # the file, with all that it names


def test_no_settings_write_elsewhere(editcritic: Command, written: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    for name in ("out", "journal"):
        paths = {"out": ".", name: "../elsewhere"}
        command = in_settings(lambda settings, paths=paths: settings.update(paths))  # type: ignore[misc]
        says = f"would write {name} to results/../elsewhere: files write in their own folder only"
        editcritic(*command, code=2, says=says)
        assert not elsewhere.exists()
    command = in_settings(lambda settings: settings.update(journal="../elsewhere"))
    assert editcritic(*command, "--journal", "mine").exit_code == 1  # its image is missing
    command = in_settings(lambda settings: settings.update(journal="../elsewhere"))
    assert editcritic(*command, "--trust", "elsewhere").exit_code == 1
    assert (elsewhere / "settings.json").exists()


@pytest.mark.parametrize(
    "name", ["process-0.lock", "rendezvous.lock", "answers.sqlite", "answers.sqlite-wal", "answers.sqlite-shm"]
)
def test_a_run_writes_through_no_link(editcritic: Command, written: Path, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    link = Path("results/journal") / name
    link.unlink(missing_ok=True)
    link.symlink_to(victim)
    says = f"{link}: it is a link, and nothing is written through links"
    editcritic(*in_settings(lambda settings: None), code=2, says=says)
    assert victim.read_text() == "precious\n"


def test_rows_are_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "rows-0.jsonl").symlink_to(tmp_path / "victim")
    with RowJournal(tmp_path) as journal, pytest.raises(OSError, match="it is a link"):
        journal.append("key", {"id": "$(touch was-run)"})
    assert not (tmp_path / "victim").exists()


def test_a_run_writes_no_journal_through_a_link_of_its_settings(editcritic, written, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    Path("results/journal").rename("journal-before")
    Path("results/journal").symlink_to(tmp_path / "elsewhere")
    says = "would write journal to results/journal: files write in their own folder only"
    editcritic(*in_settings(lambda settings: None), code=2, says=says)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_odd_files_in_a_journal_are_no_errors(editcritic: Command, written: Path) -> None:
    for name in ("process-x.lock", f"process-{'9' * 99}.lock", "usage-x.json"):
        (Path("results/journal") / name).write_text("[]")
    assert editcritic(*in_settings(lambda settings: None)).exit_code == 1  # its image is missing


def test_what_is_trusted_is_built(editcritic: Command, written: Path, marker: Path) -> None:
    """By the module, the package it is in, or the file; in the option, or in the environment."""
    Path("reward.toml").write_text('use = "evil:Mine"\n', encoding="utf-8")
    score = ("score", "samples.jsonl", "--reward", "reward.toml", "-o", "scores.jsonl")
    refused(editcritic(*score), marker)
    refused(editcritic(*score, "--trust", "evi"), marker)
    refused(editcritic(*score, "--trust", "evil.Mine"), marker)
    assert editcritic(*score, "--trust", "evil").exit_code == 0
    assert marker.exists()
    assert editcritic(*score, "--trust", "reward.toml").exit_code == 0
    assert editcritic("score", "samples.jsonl", "--reward", "evil:Mine", "-o", "scores.jsonl").exit_code == 0  # typed


def test_files_of_earlier_versions_need_no_trust(editcritic: Command, written: Path) -> None:
    """`module:Name` of what is registered is as good as its name."""
    of_ours = {"use": "editcritic.reward.metrics.guards:NotACopy"}
    assert "3/3 agree" in editcritic(*in_recording(of_ours)).output
    pixels = {"use": "editcritic.reward.experts.pixel_features:PixelFeatures"}
    assert editcritic(*in_lock(lambda locked: locked["experts"]["pixels"].update(spec=pixels))).exit_code == 1
    in_results("result.json", lambda result: result["provenance"]["experts"]["pixels"].update(spec=pixels))
    assert "files that differ: result.json\n" in editcritic("bench", "verify", "results").output


@pytest.mark.parametrize("role", ["experts", "expert_bindings"])
def test_a_role_of_any_name_runs_no_code(editcritic: Command, written: Path, marker: Path, role: str) -> None:
    Path("mine.toml").write_text(f"[experts]\n{role} = 'os:system?command=touch%20{marker};:%20.toml'\n")
    refused(editcritic("score", written / "samples.jsonl", "--experts", "mine.toml"), marker)


def test_experts_of_a_reward_run_no_code(editcritic: Command, written: Path, marker: Path) -> None:
    experts = f"experts = 'judge=os:system?command=touch%20{marker}'\n"
    for reward, options in (("use = 'x'\nreward = 'guards'\n", ()), ("use = 'guards'\n", ("--experts", "cpu"))):
        Path("mine.toml").write_text(reward + experts)
        refused(editcritic("score", written / "samples.jsonl", "--reward", "mine.toml", *options), marker)


def test_a_recorded_path_that_is_none_is_said(editcritic: Command, written: Path) -> None:
    in_results("run.json", lambda run: run["invocation"].update(outputs="a\0"))
    editcritic("bench", "verify", "results", code=2, says="a path with a null character")


@pytest.mark.parametrize(
    ("metrics", "says"),
    [
        *((metrics, "metrics.0: input should be a valid string") for metrics in ([["following"]], [{"use": "x"}], [7])),
        (["nothing"], "has no metric"),
    ],
)
def test_recorded_metrics_that_are_none_are_said(editcritic, written, metrics, says):
    in_results("run.json", lambda run: run["invocation"].update(metrics=metrics))
    editcritic("bench", "verify", "results", "--trust", "results", code=2, says=says)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has this device")
def test_output_that_cannot_be_written_is_said_in_a_line() -> None:
    script = "from editcritic.cli.main import main; main()"
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-uc", script, "bench", "report", "none", "--json"], stdout=full, stderr=subprocess.PIPE
        )
    assert (ran.returncode, len(ran.stderr.splitlines())) == (2, 1)


def test_trust_that_cannot_be_read_is_said(editcritic: Command, written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITCRITIC_TRUST", "'")
    editcritic("score", written / "samples.jsonl", code=2, says="EDITCRITIC_TRUST cannot be")


def test_trust_is_an_option_of_every_command_that_reads_such_files(editcritic: Command) -> None:
    commands = (
        *("score", "rank", "edit", "serve", "doctor", "dev replay", "judge agreement", "judge label", "judge variance"),
        *("judge calibrate fit", "bench run", "bench verify", "bench generate", "bench report", "bench compare"),
        *("bench build edival", "bench build complex-edit", "bench build dlebench", "bench build i2ibench"),
    )
    for command in commands:
        shown = editcritic(*command.split(), "--help").output
        assert shown.count("--trust") == 1, command


def test_scores_and_sheets_are_not_written_over_pictures(editcritic: Command, written: Path) -> None:
    picture = sorted(written.glob("*.png"))[0]
    before = picture.read_bytes()
    samples = written / "samples.jsonl"
    for command in (
        ("score", samples),
        ("rank", samples),
        ("rank", picture, "--source", picture, "--instruction", "x"),
    ):
        editcritic(*command, "-o", picture, code=2, says="over a picture")
        assert picture.read_bytes() == before


@pytest.mark.parametrize("experts", ["5", "[5]", "[['cpu']]", "true", "1979-01-01"])
def test_experts_of_another_type_are_said(editcritic: Command, written: Path, experts: str) -> None:
    Path("mine.toml").write_text(f"reward = 'guards'\nexperts = {experts}\n")
    for options in ((), ("--experts", "cpu")):
        editcritic(
            *("score", written / "samples.jsonl", "--reward", "mine.toml", *options),
            code=2,
            says="experts are a text, a list of texts or a table of role = spec",
        )


@pytest.mark.parametrize("option", ["[" * 50_000, "1" * 5000])
def test_options_that_are_no_values_are_texts(editcritic: Command, written: Path, option: str) -> None:
    experts = ("--experts", "cpu", "--experts", f"judge=clip?batch={option}")
    result = editcritic("score", written / "samples.jsonl", *experts, code=2, says="batch is an integer")
    assert len(result.stderr) < 1000


def test_what_is_trusted_changes_with_no_command_that_ended_before(editcritic, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert editcritic("score", "a.png", "--max-failure-rate", "7").exit_code == 2  # click leaves its context open
    monkeypatch.setenv(VARIABLE, "theirs")
    gc.collect()
    assert os.environ[VARIABLE] == "theirs"
