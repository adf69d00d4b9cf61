"""Which of the settings that differ are told."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import pytest

from editcritic.benchmarks.suites.setting_differences import (
    deciding_settings,
    differing_settings,
    following_settings,
    settings_text,
)

from .tiny_suite import Toy


class Modes(Toy):
    dependent_options: ClassVar[Mapping[str, str]] = MappingProxyType({"join": "mode", "reading": "protocol"})

    @property
    def protocols(self) -> Mapping[str, str]:
        return {"paper": "as in the paper", "official": "as released"}


def provenance(**changes: Any) -> dict[str, Any]:
    """Of a run, with options and metrics as tables."""
    return {
        "suite": "toy",
        "protocol": None,
        "suite_options": {"mode": "one"},
        "data_digest": "aaaa",
        "metrics": {"if": {"use": "a"}, "cc": {"use": "b"}},
        "metric_signatures": {"if": "a@1", "cc": "b@1"},
        "score_signatures": {"if": ["a@1"], "cc": ["b@1"]},
        "experts": {"judge": {"id": "j@1"}},
        **changes,
    }


ONE = provenance()
OTHER_MODE: dict[str, Any] = {
    "suite_options": {"mode": "many", "join": "and"}, "data_digest": "bbbb", "metrics": {"if": {"use": "each"}},
    "metric_signatures": {"if": "each@1"},
}  # fmt: skip
OFFICIAL: dict[str, Any] = {
    "protocol": "official", "suite_options": {"mode": "one", "reading": "stored"}, "data_digest": "cccc",
}  # fmt: skip


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (OTHER_MODE, "mode is one and many"),
        (OFFICIAL, "protocol is paper (the default) and official"),
        ({"suite_options": {"mode": "one", "reading": "stored"}}, "reading is not given and stored"),
        ({**OTHER_MODE, "protocol": "official"}, "mode is one and many; protocol is paper (the default) and official"),
        ({"data_digest": "dddd"}, "data_digest is aaaa and dddd"),
        ({"data_digest": "dddd", "metrics": {"if": {"use": "a"}}}, "data_digest is aaaa and dddd"),
        ({"metrics": {"if": {"use": "a"}, "vq": {"use": "c"}}},
         "only the first has the metrics cc; only the second has the metrics vq"),
        ({"metrics": {"if": {"use": "z"}, "cc": {"use": "b"}}}, "metrics.if.use is a and z"),
        ({"suite": "other", "data_digest": "dddd"}, "suite is toy and other"),
        ({"experts": {"judge": {"id": "j@2"}}}, ""),
        ({"protocol": "paper"}, ""),
        ({}, ""),
    ],
)  # fmt: skip
def test_the_setting_that_decides_is_told(other, told):
    differences = differing_settings(ONE, provenance(**other), Modes())
    assert sorted(settings_text(differences, Modes()).split("; ")) == sorted(told.split("; "))


def test_the_rest_follows_but_experts_do_not():
    differences = differing_settings(ONE, provenance(**OTHER_MODE, experts={"judge": {"id": "j@2"}}), Modes())
    assert set(deciding_settings(differences, Modes())) == {"suite_options.mode"}
    following = following_settings(differences, Modes())
    assert {"suite_options.join", "data_digest", "metrics.if.use", "metric_signatures.if"} <= following
    assert differences.keys() - following == {"suite_options.mode", "experts.judge.id"}


def test_without_the_suite_no_option_follows_from_another():
    differences = differing_settings(ONE, provenance(**OFFICIAL))
    assert settings_text(differences) == "protocol is not given and official; reading is not given and stored"


def test_a_default_protocol_by_its_name_is_no_difference():
    assert differing_settings(ONE, provenance(protocol="paper"), Modes()) == {}
    assert differing_settings(ONE, provenance(protocol="official"), Modes()) == {"protocol": (None, "official")}
