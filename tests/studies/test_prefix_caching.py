"""Cached prompt tokens are counted as vLLM counts them, and the judge reports what its server counts."""

import pytest

from studies.performance.prefix_caching import BLOCK, PrefixCache, edits, measure, share_cached

PICTURE = 64
"""Tokens of a picture: four blocks."""


def test_whole_blocks_count_that_have_the_same_before_them_and_never_the_last_token():
    cache = PrefixCache()
    prompt = [str(number) for number in range(2 * BLOCK + 3)]
    assert cache.cached(prompt) == 0
    cache.add(prompt)
    assert cache.cached(prompt) == cache.cached([*prompt[:-1], "other"]) == 2 * BLOCK
    assert cache.cached(prompt[: 2 * BLOCK]) == BLOCK
    assert cache.cached(["other", *prompt[1:]]) == 0
    assert cache.cached([*prompt[: BLOCK + 1], "other", *prompt[BLOCK + 2 :]]) == BLOCK
    assert cache.cached([]) == 0


def test_requests_at_the_same_time_find_nothing_of_each_other_and_servers_nothing_of_others():
    prompts = [[str(number) for number in range(2 * BLOCK + 1)]] * 4
    whole = 2 * BLOCK / (2 * BLOCK + 1)
    assert share_cached(prompts) == pytest.approx(3 / 4 * whole)
    assert share_cached(prompts, in_flight=2) == share_cached(prompts, servers=2) == pytest.approx(2 / 4 * whole)
    assert share_cached(prompts, in_flight=4) == share_cached([]) == 0


def test_a_group_shares_its_source_and_two_servers_encode_each_picture_once():
    samples = edits(2)
    row = measure("judge-levels", samples, PICTURE)
    assert row["requests"] == len({sample.edited.digest for sample in samples}) == 32
    assert row["encoded"] == 1.0
    shared = 15 * 2 * PICTURE / row["prompt_tokens"]  # the source, and less than a block of words before it
    assert row["one"] == row["two"] == pytest.approx(shared, abs=15 * 2 * BLOCK / row["prompt_tokens"])
    assert row["in turn"] < row["two"]
