import hashlib
from pathlib import Path

import pytest

from editcritic.reward.digests import sha256


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (1 << 20) + 1])
def test_the_digest_of_a_file_is_that_of_its_bytes(size: int, tmp_path: Path) -> None:
    data = bytes(number % 251 for number in range(997)) * (size // 997 + 1)
    (tmp_path / "file").write_bytes(data[:size])
    assert sha256(tmp_path / "file") == hashlib.sha256(data[:size]).hexdigest()
