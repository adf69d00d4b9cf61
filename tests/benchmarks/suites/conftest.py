"""Suites keep what they extract in a cache of the test module."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def cached_here(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield
