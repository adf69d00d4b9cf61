"""`editcritic serve`: what it is told by options and by a file, and what it refuses to start with."""

import json
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest
import typer
from typer.testing import CliRunner

from editcritic.benchmarks.common.errors import InputError
from editcritic.benchmarks.run.run_settings import format_toml
from editcritic.cli.serve import load_rewards, serve
from editcritic.cli.serve_settings import read_serve_settings
from editcritic.integrations.serving.http_protocol import attach_images, images_by_digest, request_json
from editcritic.reward import Engine, SpecError

from ...reward.fakes import picture, sample
from .processes import judge

RATED = "tests.reward.fakes:Rated"
SLOW = "preference=tests.integrations.serving.judge_server_process:Slow"


def refused(
    *options: str, settings: dict[str, Any] | None = None, tmp_path: Path | None = None, **environment: str
) -> str:
    """What the command says when it does not start. settings: of a file in the folder, which is not trusted."""
    app = typer.Typer()
    app.command()(serve)
    words = ["--reward", RATED, "--experts", SLOW, "--port", "0", *options]
    if tmp_path is not None:
        (tmp_path / "serve.toml").write_text(format_toml(settings or {}))
        words += ["--config", str(tmp_path / "serve.toml")]
    result = CliRunner().invoke(app, words, env=environment)
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


def test_the_token_comes_from_where_nobody_sees_it_and_has_to_be_there(tmp_path: Path) -> None:
    assert "token" in refused("--host", "0.0.0.0")
    assert "no token in NOBODY_SET_IT" in refused("--token-env", "NOBODY_SET_IT")
    assert "at least 16" in refused("--token-env", "SHORT", SHORT="abc")
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff" * 32)
    for file, says in (
        (tmp_path / "empty", "no token"),
        (tmp_path / "missing", "No such file"),
        (tmp_path / "binary", "is no text"),
        (Path("/dev/zero"), "16 printable"),
    ):
        assert says in refused("--token-file", str(file))
    assert "give either" in refused("--token-file", str(tmp_path / "empty"), "--token-env", "SHORT")


@pytest.mark.parametrize(
    ("options", "settings", "says"),
    [
        (["--reward", "nonsense"], {}, "nonsense"),
        (["--experts", "preference=nonsense"], {}, "nonsense"),
        (["--port", "65536"], {}, "port: input should be less than or equal to 65535"),
        ([], {"limits": {"max_queued_samples": 3}}, "max_queued_samples=3 must be at least max_samples=1024"),
        ([], {"limits": {"max_sample": 3}}, "unknown key limits.max_sample: the keys are max_samples, max_body_bytes"),
        ([], {"reward": RATED}, "unknown key reward: the keys are rewards, experts"),
        ([], {"heldout": "guards"}, "give --monitor 64 with them"),
        ([], {"monitor_state": "."}, "give --monitor 64 with them"),
        ([], {"monitor_probe": "every=10"}, "give --monitor 64 with them"),
        (["--monitor", "8"], {"monitor_probe": "10"}, "as in every=10&samples=4, got '10'"),
        (["--monitor", "2"], {}, "at least 8 samples, got 2"),
        (["--monitor", "8"], {"heldout": "nonsense"}, "nonsense"),
        (["--monitor", "8"], {"monitor_state": "none"}, "there is no folder"),
        ([], {"replicas": "2"}, "replicas: of Ray Serve only: give --ray with it"),
        ([], {"ray_address": "auto"}, "ray_address: of Ray Serve only"),
    ],
)
def test_settings_that_mean_nothing_are_refused(options, settings, says, tmp_path):
    assert says in refused(*options, settings=settings, tmp_path=tmp_path)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"no_auth": True, "host": "0.0.0.0"}, "a file cannot decide no_auth: give --no-auth"),
        ({"trust": ["os"]}, "a file cannot decide trust"),
        ({"rewards": ["a=os:path"]}, "names the module os"),
        ({"heldout": "http://10.0.0.1"}, "names the address http://10.0.0.1"),
        ({"ray_address": "10.0.0.1:6379"}, "names the address 10.0.0.1:6379"),
        ({"experts": ["judge=openai:http://10.0.0.1/v1"]}, "names the address http://10.0.0.1/v1"),
        ({"token_env": "HOME"}, "names the environment variable HOME"),
        ({"cache": "../answers.sqlite"}, "would write cache to"),
        ({"monitor_state": "/tmp"}, "would write monitor_state to /tmp"),
        ({"token_file": "/etc/hostname"}, "would read token_file from /etc/hostname"),
        ({"cache": "a\0"}, "cache: a path has no null character"),
    ],
)
def test_a_file_of_a_stranger_runs_no_code_contacts_nobody_and_opens_no_door(settings, says, tmp_path):
    file = tmp_path / "serve.toml"
    file.write_text(format_toml(settings))
    with pytest.raises((InputError, SpecError), match=says):
        read_serve_settings(file, {})


def test_paths_of_a_file_are_relative_to_it_and_options_come_first(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    table = {
        "rewards": ["mine=own.toml"],
        "token_file": "token",
        "cache": "a.sqlite",
        "port": 1,
        "gpus": 0.5,
        "ray": True,
    }
    file.write_text(format_toml(table))
    settings = read_serve_settings(file, {"port": 2, "experts": ["cpu"]})
    assert settings.rewards == (f"mine={tmp_path}/own.toml",)
    assert (settings.token_file, settings.cache) == (f"{tmp_path}/token", f"{tmp_path}/a.sqlite")
    assert (settings.port, settings.experts, settings.gpus) == (2, ("cpu",), 0.5)
    (tmp_path / "broken.toml").write_text("rewards = [")
    for name, says in (("broken.toml", "broken.toml is not TOML: "), ("missing.toml", "cannot read")):
        with pytest.raises(InputError, match=says):
            read_serve_settings(tmp_path / name, {})


def test_a_port_that_is_taken_is_said_to_be() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "in use" in refused("--port", str(taken.getsockname()[1]))


def test_rewards_share_experts_and_engine_and_are_told_apart_by_name() -> None:
    with Engine() as engine:
        rewards = load_rewards([RATED, f"half={RATED}?weights=[0.5]"], [SLOW], engine)
        assert list(rewards) == ["rated", "half"]
        assert rewards["rated"].experts["preference"] is rewards["half"].experts["preference"]
        assert rewards["rated"].engine is rewards["half"].engine is engine
        with pytest.raises(InputError, match="two rewards have the name rated"):
            load_rewards([RATED, RATED], [SLOW], engine)


def test_it_serves_two_rewards_to_who_has_the_token_and_names_them_with_json(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("a-token-nobody-guesses\n")
    samples = [sample("a", edited=picture(1))]
    options = ("--reward", f"other={RATED}?prompt=other", "--token-file", str(token), "--json")
    with judge(*options, stdout=subprocess.PIPE) as (url, process):
        client = httpx2.Client(base_url=url, headers={"authorization": "Bearer a-token-nobody-guesses"})
        replies = [
            client.post(
                "/v1/score", json=attach_images(request_json(samples, reward=name), images_by_digest(samples))
            ).json()
            for name in ("rated", "other")
        ]
        assert httpx2.get(f"{url}/metrics").status_code == 401
        assert client.get("/v1/reward", params={"name": "other"}).json()["spec"]["experts"]
        client.close()
        process.send_signal(signal.SIGTERM)
        stdout, _ = process.communicate(timeout=60)
    assert json.loads(stdout) == {"address": url, "rewards": ["rated", "other"]}
    assert replies[0]["scores"][0]["value"] != replies[1]["scores"][0]["value"]


def test_a_monitor_keeps_its_baseline_over_a_restart_and_sees_the_held_out_reward(tmp_path: Path) -> None:
    settings = {
        "heldout": f"{RATED}?prompt=other",
        "monitor_probe": "every=1&samples=1",
        "monitor_state": str(tmp_path),
    }
    values = []
    for first in (0, 100):
        samples = [sample(str(row), edited=picture(first + row)) for row in range(8)]
        with judge("--monitor", "8", settings=settings) as (url, process):
            body = attach_images(request_json(samples, reward="rated"), images_by_digest(samples))
            assert httpx2.post(f"{url}/v1/score", json=body).status_code == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        state = json.loads((tmp_path / "rated.json").read_text())
        values.append([numbers for _, numbers in state["history"]])
    assert [len(history) for history in values] == [1, 2]
    assert values[0] == values[1][:1]
    assert all(0 < numbers["heldout"] < 1 and numbers["heldout"] != numbers["reward"] for numbers in values[1])
    assert all(-1 <= numbers["hack/best"] <= 1 for numbers in values[1])
    other = refused("--monitor", "16", settings={"monitor_state": "."}, tmp_path=tmp_path)
    assert "with step_samples 8, and this one has 16" in other
