"""A hub name is bound by its cached config."""

from editcritic.reward import load_experts
from editcritic.reward.experts.clip import Clip

NEEDS = ("transformers",)


def test_a_name_on_the_hub_is_looked_at_where_it_is_kept(tmp_path, monkeypatch):
    commit = "0123456789abcdef0123456789abcdef01234567"
    snapshot = tmp_path / "models--someone--tiny" / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text('{"model_type": "clip"}')
    (tmp_path / "models--someone--tiny" / "refs").mkdir()
    (tmp_path / "models--someone--tiny" / "refs" / "main").write_text(commit)
    monkeypatch.setattr("transformers.utils.hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert isinstance(load_experts("features=someone/tiny")["features"], Clip)
