"""`editcritic serve --load-test`: a load test of a judge server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..benchmarks.common.errors import InputError
from ..benchmarks.common.optional_imports import require_serving
from ..benchmarks.common.terminal import echo, print_json


def run_load_test(
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
    """Exit code: 1 if a sample failed or got the score of another sample. path: a sample file; None: synthetic samples.

    Raises `InputError`.
    """
    require_serving()
    from ..integrations.serving.client.remote_reward import RemoteError
    from ..integrations.serving.load_test import load_generator
    from ..reward.sample_files import InvalidLine, read_samples

    entries = [] if path is None else list(read_samples(path))
    for entry in entries:
        if isinstance(entry, InvalidLine):
            raise InputError(str(entry))
    try:
        report = load_generator.generate_load(
            [] if list(urls) == ["self"] else urls,
            load_generator.LoadConfig(clients=clients, samples=samples, group_size=group, image_size=size),
            samples=[entry for entry in entries if not isinstance(entry, InvalidLine)],
            token_env=token_env,
        )
    except (ValueError, RemoteError) as error:
        raise InputError(str(error)) from None
    if as_json:
        print_json(report.to_json())
    else:
        echo(report.to_text(), stderr=False)
    return int(bool(report.failed or report.mismatched))
