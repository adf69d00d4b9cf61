"""What a judge on Ray is told: read as a config file has it, and refused in words before anything starts."""

import json
import re
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from editcritic.cli.serve import serve
from editcritic.integrations.serving.ray_serve import JudgeSettings, application
from editcritic.integrations.serving.ray_serve.proxy import SETTINGS_VARIABLE, middlewares
from editcritic.integrations.serving.server.middleware import AuthAndLimitsMiddleware

NEEDS = ("ray",)
RATED = "tests.reward.fakes:Rated"
FAKE = "preference=tests.reward.fakes:Fake"


def test_settings_are_what_json_and_yaml_can_say() -> None:
    settings = JudgeSettings.of(
        {"rewards": [RATED], "replicas": 2, "gpus": 0.5, "limits": {"max_samples": 8}, "router": "source"}
    )
    assert JudgeSettings.of(json.loads(json.dumps(settings.to_json()))) == settings
    assert settings.replica_range == (2, 2)
    assert settings.limits.max_samples == 8
    assert JudgeSettings.of({"replicas": "1-4"}).replica_range == (1, 4)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"reward": ["any-edit"]}, "unknown key reward: the keys are rewards"),
        ({"rewards": "any-edit"}, "rewards: input should be a valid tuple, got 'any-edit'"),
        ({"rewards": []}, "rewards: tuple should have at least 1 item"),
        ({"replicas": "many"}, "replicas: give a number, or least-most as in 1-4, got 'many'"),
        ({"replicas": "4-1"}, "the least is at least 1, and at most the other number, got '4-1'"),
        ({"replicas": 0}, "the least is at least 1"),
        ({"gpus": "0.5"}, "gpus: input should be a valid number"),
        ({"gpus": -1}, "gpus: input should be greater than or equal to 0"),
        ({"cpus": True}, "cpus: input should be a valid number"),
        ({"no_auth": "yes"}, "no_auth: input should be a valid boolean"),
        ({"router": "alpha"}, "router: input should be 'load' or 'source'"),
        ({"limits": {"max_sample": 1}}, "unknown key limits.max_sample: the keys are max_samples"),
        ({"limits": {"max_samples": "8"}}, "limits.max_samples: input should be a valid integer"),
        ({"limits": {"max_queued_samples": 8}}, "max_queued_samples=8 must be at least max_samples=1024"),
        ({"max_waiting": 0}, "max_waiting: input should be greater than or equal to 1"),
        ({"body_timeout_s": 0}, "body_timeout_s: input should be greater than 0"),
    ],
)
def test_settings_that_mean_nothing_are_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        JudgeSettings.of(arguments)


@pytest.mark.filterwarnings("ignore:Using extra keyword arguments on `Field`")
def test_an_application_has_the_resources_and_the_replicas_that_its_arguments_say() -> None:
    deployment = application({"rewards": [RATED], "replicas": "1-3", "cpus": 2, "gpus": 0.25})._bound_deployment
    assert deployment.name == "judge"
    assert (deployment.ray_actor_options["num_cpus"], deployment.ray_actor_options["num_gpus"]) == (2, 0.25)
    config = deployment._deployment_config
    assert (config.autoscaling_config.min_replicas, config.autoscaling_config.max_replicas) == (1, 3)
    assert application({"replicas": 2})._bound_deployment.num_replicas == 2
    routed = application({"router": "source"})._bound_deployment._deployment_config.request_router_config
    assert routed.request_router_class.endswith("ConsistentHashRouter")


def test_a_proxy_without_the_token_that_it_is_told_of_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTINGS_VARIABLE, json.dumps({"token_env": "NOBODY_SET_IT"}))
    with pytest.raises(ValueError, match="no token in NOBODY_SET_IT"):
        middlewares()


def test_a_proxy_has_the_token_and_the_limits_of_the_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    protocols = {"HTTP_PROTOCOLS": "http", "WS_PROTOCOLS": "ws"}
    for name in protocols:  # restored afterwards: this process is no proxy
        monkeypatch.setattr(f"uvicorn.config.{name}", {"auto": "none"})
    monkeypatch.setenv("RAY_JUDGE_TOKEN", "the-token-of-the-test")
    settings = {"token_env": "RAY_JUDGE_TOKEN", "limits": {"max_body_bytes": 1000}, "body_timeout_s": 3}
    monkeypatch.setenv(SETTINGS_VARIABLE, json.dumps(settings))
    *_, outermost = middlewares()
    options: dict[str, Any] = dict(outermost.kwargs)
    assert repr(outermost.cls) == repr(AuthAndLimitsMiddleware)
    assert options["token"] == "the-token-of-the-test"
    assert options["service"].limits.max_body_bytes == 1000
    assert options["body_timeout_s"] == 3


def refused(*options: str) -> str:
    app = typer.Typer()
    app.command()(serve)
    result = CliRunner().invoke(app, ["--ray", "--reward", RATED, "--experts", FAKE, "--port", "0", *options])
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


def test_what_cannot_be_served_on_ray_is_said_before_a_cluster_starts() -> None:
    assert "leave out --ray" in refused("--monitor", "8")
    assert "token" in refused("--host", "0.0.0.0")
    assert "no token in NOBODY_SET_IT" in refused("--token-env", "NOBODY_SET_IT")
    assert "nonsense" in refused("--reward", "nonsense")
    assert "serve one reward" in refused("--reward", f"b={RATED}", "--trainer-protocol", "edit-r1")
