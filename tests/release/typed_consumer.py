"""What a user writes: mypy sees the types of every part of the installed package."""

from typing_extensions import assert_type

from editcritic.benchmarks import run_suite
from editcritic.cli.main import main
from editcritic.integrations.serving.client import RemoteReward
from editcritic.reward import EditSample, Image, Reward, score
from editcritic.verifiers import BestOfN


def typed() -> None:
    """Never called: an error is one of types."""
    assert_type(score("before.png", "after.png", "Make the box blue").value, float | None)
    assert_type(Reward.of("guards")([]).values, list[float | None])
    assert_type(RemoteReward("http://127.0.0.1:8321").card.name, str)
    assert_type(EditSample("1", "Make it blue", (Image.of("a.png"),), Image.of("b.png")).instruction, str)
    assert_type(BestOfN(8).n, int)
    assert_type(main(), None)
    run_suite(3)  # type: ignore[call-arg, arg-type]
    score("before.png", "after.png", 3)  # type: ignore[arg-type]
