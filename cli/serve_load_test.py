"""`editcritic serve --bench`: a load on a judge server of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .extras import serving
from .inputs import InputError
from .terminal import document, say


def bench(
    urls: Sequence[str],
    *,
    clients: int,
    samples: int,
    group: int,
    size: int,
    path: Path | None,
    token_env: str,
    as_json: bool,
) -> int:
    """Exit code: 1 where a sample has failed, or has the score of another one. path: a sample file; else made up ones.

    Raises `InputError`.
    """
    serving()
    from ..integrations.serving import load
    from ..integrations.serving.client import RemoteError
    from ..reward.files import BadLine, read_samples

    real = [] if path is None else list(read_samples(path))
    for one in real:
        if isinstance(one, BadLine):
            raise InputError(str(one))
    try:
        found = load.bench(
            [] if list(urls) == ["self"] else urls,
            load.Load(clients=clients, samples=samples, group=group, size=size),
            samples=[one for one in real if not isinstance(one, BadLine)],
            token_env=token_env,
        )
    except (ValueError, RemoteError) as error:
        raise InputError(str(error)) from None
    if as_json:
        document(found.to_json())
    else:
        say(found.lines(), stderr=False)
    return int(bool(found.failed or found.wrong))
