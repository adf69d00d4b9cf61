"""Requests about one source go to one replica, if Ray's router is told to; and the client names the source."""

from pathlib import Path

import pytest

from editcritic.integrations.serving.client.remote_reward import RemoteReward
from editcritic.reward.queries import Rate
from studies.load_test.synthetic_reward import synthetic_samples

from .ray_judge import notes
from .routing import judge

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


def test_each_source_is_asked_about_once_by_one_of_two_replicas(tmp_path: Path) -> None:
    samples = synthetic_samples(128, size=8, group=8)
    with judge(tmp_path, "source") as url:
        scores = RemoteReward(url, chunk_size=2, max_concurrency=8)(samples)
    assert scores.values == [float(number - number % 8 + number) for number in range(128)]
    sources = {Rate(sample.sources[0]).digest for sample in samples}
    asked = notes(tmp_path, "asked")
    assert sorted(digest for digest in asked if digest in sources) == sorted(sources)
    assert len(list(tmp_path.glob("asked-*"))) == 2
