"""The load generator."""

import json
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from editcritic.benchmarks.serve import add_to
from editcritic.integrations.serving.client import RemoteError
from editcritic.integrations.serving.load import Load, bench
from editcritic.integrations.serving.rehearsal import Server, reward, samples
from editcritic.integrations.serving.server import running
from editcritic.integrations.serving.service import Service


def test_it_counts_what_it_puts_on_a_server_and_checks_every_score():
    found = bench(load=Load(clients=4, samples=50, group=4, size=16, chunk=2))
    assert (found.samples, found.failed, found.wrong, found.judged) == (50, 0, 0, 50)
    assert 0 < found.latency_s["p50"] <= found.latency_s["p95"] <= found.latency_s["p99"] <= found.seconds
    assert found.per_second == pytest.approx(50 / found.seconds)
    assert found.client_cpu_ms > 0
    assert (found.server_cpu_ms or 0) > 0
    assert "50 samples" in found.lines()


def test_two_hundred_clients_and_ten_thousand_samples_lose_nothing_and_mix_nothing_up():
    found = bench(load=Load(clients=200, samples=10_000, group=10, size=8, chunk=10))
    assert (found.samples, found.failed, found.wrong) == (10_000, 0, 0)
    assert found.judged == 10_000  # none twice


def test_wrong_scores_show():
    class Off(type(reward().experts["preference"])):  # type: ignore[misc]
        def __call__(self, queries):
            return super().__call__(queries[::-1])

    wrong = reward()
    wrong.experts["preference"] = Off()
    with running(Service(wrong)) as url:
        found = bench([url], Load(clients=1, samples=16, group=16, size=8))
    assert (found.wrong or 0) > 0


def test_it_takes_real_samples():
    with Server(life=60) as server:
        found = bench([server.url], Load(clients=2, samples=20, group=4), samples=samples(3, size=8))
    assert (found.samples, found.failed, found.wrong) == (20, 0, None)


@pytest.mark.parametrize("url", ["http://192.0.2.1:80", "http://example.org", "http://127.0.0.1.example.org"])
def test_a_load_is_put_on_no_other_machine(url):
    with pytest.raises(ValueError, match="is not this machine"):
        bench([url])


@pytest.mark.parametrize("wrong", [{"clients": 0}, {"samples": 10**9}, {"seconds": 10**6}])
def test_it_is_bounded(wrong):
    with pytest.raises(ValueError, match="got"):
        Load(**wrong)


def test_nobody_there_is_said_at_once():
    with pytest.raises(RemoteError, match=r"no judge server at http://127\.0\.0\.1:9"):
        bench(["http://127.0.0.1:9"])


def test_proxies_are_for_other_machines(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with Server(life=60) as server:
        found = bench([server.url], Load(clients=1, samples=8, size=8, group=8))
    assert (found.samples, found.wrong) == (8, 0)
    assert found.judged == 8  # as /metrics says


def test_as_a_part_of_editcritic_serve(tmp_path):
    app = typer.Typer()
    add_to(app)
    with Server(life=60) as server:
        ran = CliRunner().invoke(app, ["--bench", server.url, "--samples", "6", "--size", "8", "--json"])
        assert (ran.exit_code, json.loads(ran.stdout)["wrong"]) == (0, 0)
        bad = tmp_path / "samples.jsonl"
        bad.write_text("{}\n")
        assert CliRunner().invoke(app, ["--bench", server.url, "--sample-file", str(bad)]).exit_code == 2
    assert CliRunner().invoke(app, ["--bench", "http://192.0.2.1"]).exit_code == 2


def test_as_a_command():
    given = ["--clients", "2", "--samples", "8", "--size", "8", "--json"]
    ran = subprocess.run(
        [sys.executable, "-m", "editcritic.integrations.serving.load", *given],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["samples"] == 8
