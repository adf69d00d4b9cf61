"""Crafted pictures to a real server: refused with a reason, in bounded time, while others go on."""

import io
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from editcritic.integrations.serving.http_protocol import attach_images, images_by_digest, request_json
from editcritic.integrations.serving.server import decoding
from editcritic.reward import Image, ImageError, encoded_images
from editcritic.reward.child_python import python_command
from editcritic.reward.image_decoding import Pixels, image_errors

from ...forked import forked, needs_fork
from ...reward.fakes import sample
from ...reward.test_encoded_images import encoded, exif_junk, im_in_webp, many_scans, png, segment, with_segments
from .served import PATIENCE_S, eventually, serving

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def client() -> Iterator[httpx2.Client]:
    with serving() as (url, _), httpx2.Client(base_url=url, timeout=60) as client:
        yield client


def sent(client: httpx2.Client, picture: bytes) -> tuple[int, str]:
    """The status and the error of a request for this picture, in a part of its own."""
    request = {"schema": 2, "samples": [{"id": "a", "instruction": "x", "sources": ["p"], "edited": "p"}]}
    files: dict[str, Any] = {"request": (None, json.dumps(request)), "p": ("p", picture, "image/png")}
    reply = client.post("/v1/score", files=files)
    return reply.status_code, reply.json().get("error", "")


@pytest.mark.parametrize(
    ("picture", "status", "says"),
    [
        (im_in_webp(12_000, 12_000), 422, "image 'p' is damaged"),
        (many_scans(800), 413, "image 'p' has 810 scans of 48 x 32 pixels, and at most 100"),
        (png(1, 36_000_000), 413, "image 'p' has 1 x 36,000,000 pixels, and a side may have 32,768"),
        (png(1, 500_000), 413, "image 'p' has 1 x 500,000 pixels"),
        (png(6001, 6000), 413, "more than 36,000,000"),
        (encoded("GIF"), 422, "image 'p' is a GIF file: save it as PNG (what is read here: PNG, JPEG, WebP)"),
        (with_segments(*[segment(0xE1, exif_junk(5000))] * 50), 200, ""),
    ],
    ids=["IM in WebP", "scans", "column", "shorter column", "megapixels", "GIF", "EXIF"],
)
def test_a_server_refuses_crafted_pictures(client: httpx2.Client, picture: bytes, status: int, says: str) -> None:
    got, error = sent(client, picture)
    assert (got, says in error) == (status, True), error


def test_a_request_of_few_pixels_waits_for_none_of_many() -> None:
    """Decoders of large pictures are all at work: 36 megapixels wait for them, and so does a long lossless WebP."""
    opened = threading.Event()
    with serving() as (url, service), httpx2.Client(base_url=url, timeout=60) as client, ThreadPoolExecutor(6) as pool:
        for _ in range(service.limits.decode_threads):
            service._lanes._pools[-1].submit(opened.wait, PATIENCE_S)
        pictures = [png(6000, 6000)] * 5 + [noise("WEBP", (1500, 1000), lossless=True)]
        large = [pool.submit(sent, client, one) for one in pictures]
        eventually(lambda: service.active_requests >= len(large))
        assert [sent(client, noise("PNG"))[0] for _ in range(3)] == [200] * 3
        assert not any(one.done() for one in large)
        opened.set()
        assert {one.result()[0] for one in large} == {422, 200}


def test_raw_pixels_have_the_sides_of_files(client: httpx2.Client) -> None:
    one = sample("a")
    request = attach_images(request_json([one]), images_by_digest([one]), "rgb")
    for name in request["images"]:
        request["images"][name] = {"rgb": "AAAA" * 40_000, "size": [40_000, 1]}
    reply = client.post("/v1/score", json=request)
    assert (reply.status_code, "a side may have 32,768" in reply.text) == (413, True), reply.text


def decode_bounded(data: bytes, name: str, own_process_above: int) -> Pixels:
    with image_errors(name):
        return decoding.decode_bounded(encoded_images.read_header(data), own_process_above)


def noise(kind: str, size: tuple[int, int] = (300, 200), **options: object) -> bytes:
    buffer = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.of(pixels).pil().save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("orientation", [1, 6])
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_process_decodes_what_a_thread_does(kind: str, orientation: int) -> None:
    exif = struct.pack("<4sIHHHIHHI", b"II*\0", 8, 1, 0x0112, 3, 1, orientation, 0, 0)
    data = noise(kind, exif=b"Exif\0\0" + exif)
    there = decode_bounded(data, "x", own_process_above=0)
    assert np.array_equal(there, decode_bounded(data, "x", own_process_above=10**6))
    assert there.shape == ((200, 300, 3) if orientation == 1 else (300, 200, 3))


def test_a_process_serves_many_pictures_and_says_what_is_wrong_with_one() -> None:
    data = noise("PNG")
    decode_bounded(data, "x", own_process_above=0)
    started = [process._process.pid for process in decoding._pool.idle]
    with pytest.raises(ImageError, match=r"^x is damaged"):
        decode_bounded(data[:-2000], "x", own_process_above=0)
    decode_bounded(data, "x", own_process_above=0)
    assert [process._process.pid for process in decoding._pool.idle] == started


def slow_webp(side: int) -> bytes:
    """Lossless, with 65,536 groups of prefix codes, and another one for every 4 x 4 pixels: each pixel is a miss."""
    bits: list[int] = []

    def put(*fields: tuple[int, int]) -> None:
        for value, count in fields:
            bits.extend(value >> shift & 1 for shift in range(count))

    def one_symbol() -> None:
        put((1, 1), (0, 1), (0, 1), (0, 1))

    def eight_bits(*, longer: bool) -> None:
        """A code of 256 symbols; an alphabet of green has 24 more, without codes."""
        order = (17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8)
        put((0, 1), (8, 4), *((int(n == 8 or (longer and n == 18)), 3) for n in order), (0, 1))
        if longer:
            put((0, 256), (1, 1), (13, 7))

    put((0x2F, 8), (side - 1, 14), (side - 1, 14), (1, 1), (0, 3), (0, 1), (0, 1), (1, 1), (0, 3), (0, 1))
    eight_bits(longer=True)
    eight_bits(longer=False)
    for _ in range(3):
        one_symbol()
    head, bits = np.array(bits, np.uint8), []
    eight_bits(longer=True)
    for _ in range(3):
        eight_bits(longer=False)
    one_symbol()
    random = np.random.default_rng(0)
    tiles = np.unpackbits(random.integers(0, 256, 2 * (side // 4) ** 2, dtype=np.uint8))
    codes = np.packbits(np.concatenate([head, tiles, np.tile(np.array(bits, np.uint8), 65_536)]), bitorder="little")
    data = codes.tobytes() + random.integers(0, 256, 4 * side * side, dtype=np.uint8).tobytes()
    data += bytes(len(data) % 2)
    return b"RIFF" + struct.pack("<I", len(data) + 12) + b"WEBPVP8L" + struct.pack("<I", len(data)) + data


def decoding_with(monkeypatch: pytest.MonkeyPatch, settings: str) -> None:
    """New decoding processes have these settings; those of now are ended."""
    decoding._pool.close()
    code = f"import {decoding.__name__} as d; {settings}; d.main()"
    monkeypatch.setattr(decoding, "python_command", lambda _: python_command(code))


def test_a_picture_that_takes_too_long_ends_its_process_and_no_other(client, monkeypatch):
    """Here after a fifth of a second of a processor, that others wait less."""
    decoding_with(monkeypatch, "d.decoding_seconds = lambda picture: 0.2")
    picture, alive = slow_webp(4000), 0
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(sent, client, picture)
        while not asking.done():
            assert client.get("/healthz", timeout=PATIENCE_S).status_code == 200
            alive += 1
            wait([asking], 0.1)
    assert alive > 3
    status, error = asking.result()
    assert status == 422, error
    assert "image 'p' cannot be decoded within 1.3 s of a processor, for its size" in error
    assert sent(client, noise("PNG", (1200, 1000)))[0] == 200


def test_a_picture_that_takes_too_much_memory_fails_alone(client, monkeypatch):
    """No picture is known that takes what they may: so here they may take less."""
    decoding_with(monkeypatch, "d._SLACK_BYTES, d._BYTES_PER_PIXEL = 2**20, 1")
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(sent, client, noise("PNG", (3000, 2000)))
        assert sent(client, noise("PNG"))[0] == 200  # in a thread of the server
    status, error = asking.result()
    assert status == 422, error
    assert "image 'p' takes more memory than there is" in error
    decoding._pool.close()
    monkeypatch.undo()
    assert sent(client, noise("PNG", (3000, 2000)))[0] == 200
    decoding._pool.close()


@needs_fork
def test_a_child_that_is_forked_while_a_picture_is_taken_decodes_in_processes_of_its_own() -> None:
    data = noise("PNG")
    decode_bounded(data, "x", own_process_above=0)
    there = [process._process.pid for process in decoding._pool.idle]

    def decoded() -> tuple[int, list[int]]:
        shape = decode_bounded(data, "x", own_process_above=0).shape
        started = [process._process.pid for process in decoding._pool.idle]
        decoding._pool.close()
        return shape[1], started

    is_held, is_done = threading.Event(), threading.Event()

    def hold() -> None:
        with decoding._pool.lock:
            is_held.set()
            is_done.wait(PATIENCE_S)

    holding = threading.Thread(target=hold)
    holding.start()
    is_held.wait()
    try:
        width, started = forked(decoded)
    finally:
        is_done.set()
        holding.join()
    assert (width, len(started)) == (300, 1)
    assert not {*started} & {*there}
    decode_bounded(data, "x", own_process_above=0)
    assert [process._process.pid for process in decoding._pool.idle] == there


SERVER_WITH_CHILD = """
import os, time
from tests.integrations.serving.test_hostile_pictures import noise
from editcritic.integrations.serving.server.decoding import _pool, decode_bounded
from editcritic.reward.encoded_images import read_header
decode_bounded(read_header(noise("PNG")), own_process_above=0)
child = os.fork()
if not child:
    time.sleep(120)
    os._exit(0)
print(_pool.idle[0]._process.pid, child, flush=True)
os._exit(0)
"""


@needs_fork
def test_a_decoding_ends_with_the_server_although_a_child_lives_on() -> None:
    """A child's copy of the pipe would keep it waiting."""
    with subprocess.Popen([sys.executable, "-c", SERVER_WITH_CHILD], stdout=subprocess.PIPE, cwd=ROOT) as server:
        assert server.stdout is not None
        decoder, child = map(int, server.stdout.readline().split())
        try:
            server.wait(PATIENCE_S)
            status = Path(f"/proc/{decoder}/stat")
            # nobody may wait for it
            eventually(lambda: not status.exists() or ") Z " in status.read_text(encoding="ascii"), "it goes on")
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_process_that_ends_is_replaced() -> None:
    decode_bounded(noise("PNG"), "x", own_process_above=0)
    process = decoding._pool.idle[-1]
    process._process.kill()
    process._process.wait()
    assert decode_bounded(noise("PNG"), "x", own_process_above=0).shape == (200, 300, 3)
    picture = encoded_images.read_header(noise("PNG"))
    with pytest.raises(ImageError, match="cannot be decoded within"):
        process.decode(picture)
