"""`editcritic serve`: what it is given, and what it refuses to start with."""

import inspect
import json
import signal
import socket
import subprocess
from pathlib import Path

import httpx2
import pytest
import typer
from typer.testing import CliRunner

from editcritic.benchmarks.common.errors import InputError
from editcritic.cli.serve import load_rewards, serve
from editcritic.integrations.serving.http_protocol import attach_images, images_by_digest, request_json
from editcritic.integrations.serving.server.limits import MIB, ServerLimits
from editcritic.reward import Engine

from ...reward.fakes import picture, sample
from .processes import judge

RATED = "tests.reward.fakes:Rated"
SLOW = "preference=tests.integrations.serving.judge_server_process:Slow"


def refused(*options: str, **environment: str) -> str:
    """What the command says when it does not start."""
    app = typer.Typer()
    app.command()(serve)
    result = CliRunner().invoke(app, ["--reward", RATED, "--experts", SLOW, "--port", "0", *options], env=environment)
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


def test_a_server_for_others_starts_with_a_token_only() -> None:
    assert "token" in refused("--host", "0.0.0.0")


def test_the_token_comes_from_where_nobody_sees_it_and_has_to_be_there(tmp_path: Path) -> None:
    assert "no token in NOBODY_SET_IT" in refused("--token-env", "NOBODY_SET_IT")
    assert "at least 16" in refused("--token-env", "SHORT", SHORT="abc")
    empty = tmp_path / "empty"
    empty.write_text("\n")
    assert "no token" in refused("--token-file", str(empty))
    assert "No such file" in refused("--token-file", str(tmp_path / "missing"))
    (tmp_path / "binary").write_bytes(b"\xff" * 32)
    assert "is no text" in refused("--token-file", str(tmp_path / "binary"))
    assert "16 printable" in refused("--token-file", "/dev/zero")
    assert "give either" in refused("--token-file", str(empty), "--token-env", "SHORT")


def test_limits_that_contradict_each_other_are_refused() -> None:
    assert "max_queued_samples" in refused("--max-queued-samples", "3")


def test_rewards_and_experts_that_are_none_are_refused() -> None:
    assert "nonsense" in refused("--reward", "nonsense")
    assert "nonsense" in refused("--experts", "preference=nonsense")


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


def test_the_options_have_the_defaults_of_the_limits() -> None:
    defaults = {name: parameter.default for name, parameter in inspect.signature(serve).parameters.items()}
    assert ServerLimits() == ServerLimits(
        max_samples=defaults["max_samples"],
        max_body_bytes=defaults["max_body_mib"] * MIB,
        max_pixels=defaults["max_request_megapixels"] * 1_000_000,
        max_image_pixels=defaults["max_image_megapixels"] * 1_000_000,
        max_queued_samples=defaults["max_queued_samples"],
        max_queued_bytes=defaults["max_queued_mib"] * MIB,
        max_in_flight=defaults["window"],
        decode_threads=defaults["decode_threads"],
    )


def test_a_monitor_keeps_its_baseline_over_a_restart_and_sees_the_held_out_reward(tmp_path: Path) -> None:
    options = (
        *("--monitor", "8", "--heldout", f"{RATED}?prompt=other", "--monitor-probe", "every=1&samples=1"),
        *("--monitor-state", str(tmp_path)),
    )
    values = []
    for first in (0, 100):
        samples = [sample(str(row), edited=picture(first + row)) for row in range(8)]
        with judge(*options) as (url, process):
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
    assert "with step_samples 8, and this one has 16" in refused("--monitor", "16", "--monitor-state", str(tmp_path))


def test_options_of_a_monitor_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    assert "give --monitor 64 with them" in refused("--heldout", RATED)
    assert "give --monitor 64 with them" in refused("--monitor-state", str(tmp_path))
    assert "give --monitor 64 with them" in refused("--monitor-probe", "every=10")
    assert "as in every=10&samples=4, got '10'" in refused("--monitor", "8", "--monitor-probe", "10")
    assert "at least 8 samples, got 2" in refused("--monitor", "2")
    assert "nonsense" in refused("--monitor", "8", "--heldout", "nonsense")
    assert "there is no folder" in refused("--monitor", "8", "--monitor-state", str(tmp_path / "none"))
