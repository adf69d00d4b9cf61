"""The cache is bounded by the size of answers."""

import numpy as np

from editcritic.reward.engine.answer_cache import AnswerCache
from editcritic.reward.queries import Mask, UpscaledImage

from ..fakes import known, picture, question


def test_pictures_and_masks_count_by_their_pixels():
    for answer in (UpscaledImage(picture(1, 100, 100)), Mask(np.ones((200, 150), bool))):
        memory = AnswerCache(80_000)
        for number in range(4):
            memory.put("expert", str(number), answer)
        kept = [number for number in range(4) if memory.get("expert", str(number)) is not None]
        assert kept == [2, 3]


def test_what_was_used_last_stays():
    memory = AnswerCache(700)  # room for two
    for number in range(2):
        memory.put("expert", str(number), known(question(number)))
    memory.get("expert", "0")
    memory.put("expert", "2", known(question(2)))
    assert memory.get("expert", "1") is None
    assert memory.get("expert", "0") == known(question(0))


def test_one_answer_is_kept_however_large():
    memory = AnswerCache(1)
    memory.put("expert", "a", UpscaledImage(picture(1, 100, 100)))
    assert memory.get("expert", "a") is not None


def test_a_cache_of_no_bytes_keeps_nothing():
    cache = AnswerCache(0)
    cache.put("fake", "0", known(question(0)))
    assert cache.get("fake", "0") is None
