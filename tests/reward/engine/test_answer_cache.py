"""Memory holds what fits, by what answers really take."""

import numpy as np

from editcritic.reward import Enhanced, Mask
from editcritic.reward.memory import Memory

from .fakes import known, picture, question


def test_pictures_and_masks_count_by_their_pixels():
    for answer in (Enhanced(picture(1, 100, 100)), Mask(np.ones((200, 150), bool))):
        memory = Memory(80_000)
        for number in range(4):
            memory.keep("expert", str(number), answer)
        kept = [number for number in range(4) if memory.look_up("expert", str(number)) is not None]
        assert kept == [2, 3]


def test_what_was_used_last_stays():
    memory = Memory(700)  # room for two
    for number in range(2):
        memory.keep("expert", str(number), known(question(number)))
    memory.look_up("expert", "0")
    memory.keep("expert", "2", known(question(2)))
    assert memory.look_up("expert", "1") is None
    assert memory.look_up("expert", "0") == known(question(0))


def test_one_answer_is_kept_however_large():
    memory = Memory(1)
    memory.keep("expert", "a", Enhanced(picture(1, 100, 100)))
    assert memory.look_up("expert", "a") is not None
