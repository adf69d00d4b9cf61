"""Small requests that ask for much work: each is refused or decoded in time linear in its length. Nothing is timed."""

import base64
import json
import pickle
import struct
from collections.abc import Callable
from typing import Any

import pytest

from editcritic.integrations.serving.http_protocol import APIError, encode_image
from editcritic.integrations.serving.server import ScoringService, ServerLimits
from editcritic.integrations.serving.server.pickled_requests import read_edit_r1, read_verl_omni
from editcritic.integrations.serving.server.request_decoding import decode_request
from editcritic.integrations.serving.server.restricted_pickle import MAX_TEXT_LENGTH, PickleError, loads
from editcritic.integrations.serving.server.unirl_protocol import _read
from editcritic.reward import Reward

from ....reward.fakes import Fake, Rated, picture

LIMITS = ServerLimits()
PNG = encode_image(picture(0), "png")[0]
TEXT = base64.b64encode(PNG).decode()
MILLION = 900_000


def part(name: str, headers: str = "", content: bytes = b"") -> bytes:
    return f'--x\r\ncontent-disposition: form-data; name="{name}"{headers}\r\n\r\n'.encode() + content + b"\r\n"


def of_sample(**fields: str) -> bytes:
    """A request whose sample has fields of this JSON."""
    more = "".join(f',"{name}":{value}' for name, value in fields.items())
    row = f'{{"id":"a","instruction":"x","source":"a","edited":"a"{more}}}'
    return f'{{"samples":[{row}],"images":{{"a":"{TEXT}"}}}}'.encode()


MULTIPART = "multipart/form-data; boundary=x"
JSON = "application/json"
REFUSED: list[tuple[int, str, Callable[[], bytes]]] = [
    (413, MULTIPART, lambda: b"".join(part(str(number)) for number in range(100_000)) + part("request") + b"--x--"),
    (400, MULTIPART, lambda: b"".join(part(str(number), ';"' * 4000) for number in range(50)) + b"--x--"),
    (400, MULTIPART, lambda: b"".join(part(str(number), "\r\na:" * 500) for number in range(50)) + b"--x--"),
    (400, MULTIPART, lambda: b"--x\r\n" * 1_000_000),
    (400, "multipart/form-data; boundary=" + "-" * 60, lambda: (b"\r\n--" + b"-" * 58) * 500_000),
    (415, MULTIPART + ';"' * 30_000, lambda: b""),
    (415, "multipart/form-data; boundary=" + "b" * 1000, lambda: b""),
    (413, JSON, lambda: of_sample(boxes='{"a":[' + "1," * MILLION + "1]}")),
    (413, JSON, lambda: of_sample(targets="[" + "1," * MILLION + "1]")),
    (413, JSON, lambda: of_sample(**{f"k{number}": "1" for number in range(300_000)})),
    (413, JSON, lambda: json.dumps({"images": {str(number): 1 for number in range(400_000)}}).encode()),
    (413, JSON, lambda: json.dumps({"images": {str(number): TEXT for number in range(9000)}}).encode()),
    (400, JSON, lambda: json.dumps({str(number): 1 for number in range(400_000)}).encode()),
    (400, JSON, lambda: json.dumps({"images": {"a": {str(number): 1 for number in range(400_000)}}}).encode()),
    (400, JSON, lambda: b'{"images":{"a":"' + b" " * 10_000_000 + b'"}}'),
    (400, JSON, lambda: b'{"deadline_s":' + b"9" * 1_000_000 + b"}"),
]


@pytest.mark.parametrize(("status", "kind", "content"), REFUSED)
def test_many_small_things_are_refused_before_each_is_looked_at(status, kind, content):
    with pytest.raises(APIError) as refused:
        decode_request(content(), kind, LIMITS)
    assert refused.value.status == status


def test_metadata_may_be_wide() -> None:
    request = decode_request(of_sample(metadata='{"a":[' + "1," * 400_000 + "1]}"), JSON, LIMITS)
    assert len(request.samples[0].metadata["a"]) == 400_001


@pytest.mark.parametrize(
    ("requests", "repeated"),
    [
        (b"[%s]", b"{}"),
        (b'[{"required_rewards":["rated"],"history":[%s]}]', b"{}"),
        (b'[{"history":[],"required_rewards":[%s]}]', b"1"),
        (b'[{"required_rewards":["rated"],"history":[{%s}]}]', b'"%d":1'),
    ],
)
def test_wrong_items_are_counted_before_they_are_validated(requests: bytes, repeated: bytes) -> None:
    many = b",".join(repeated % number if b"%d" in repeated else repeated for number in range(300_000))
    content = b'{"requests":' + requests % many + b"}"
    service = ScoringService(Reward(Rated(), {"preference": Fake()}))
    with pytest.raises(APIError) as refused:
        _read(service, bytearray(content))
    assert refused.value.status == 413
    service.close()


def edit_r1(**changes: Any) -> dict[str, Any]:
    return {"images": [PNG] * 4, "prompts": ["make it blue"] * 4, "ref_images": [PNG] * 4, **changes}


def endless() -> list[Any]:
    """Two of two of two, and so on: sixty lists, and 2**60 values."""
    value: list[Any] = ["x"]
    for _ in range(60):
        value = [value, value]
    return value


LONG = "é" * 90_000


@pytest.mark.parametrize(
    "payload",
    [
        edit_r1(prompts=[endless()] * 4),
        edit_r1(ref_images=[endless()] * 4),
        edit_r1(images=[endless()] * 4),
        edit_r1(ref_images=[[PNG] * 65] * 4),
        edit_r1(ref_images=[[PNG] * MILLION] * 4),
        edit_r1(metadatas=[{"editcritic": {"metadata": {"a": endless()}}}] * 4),
        edit_r1(metadatas=[{"editcritic": {"metadata": {"a": [LONG] * 400_000}}}] * 4),
        edit_r1(metadatas=[{"editcritic": {"metadata": {"a": [{LONG: 1}] * 200_000}}}] * 4),
        edit_r1(metadatas=[{"editcritic": endless()}] * 4),
    ],
)
def test_what_a_pickle_repeats_is_not_walked_without_end(payload: dict[str, Any]) -> None:
    data = loads(pickle.dumps(payload, 4))
    with pytest.raises(APIError) as refused:
        read_edit_r1(data, LIMITS)
    assert len(str(refused.value)) <= 500


def test_an_image_that_a_pickle_repeats_is_copied_once() -> None:
    class Counted(bytearray):
        copies = 0

        def __bytes__(self) -> bytes:
            type(self).copies += 1
            return PNG

    image = Counted(PNG)
    request = read_edit_r1(edit_r1(images=[image] * 4, ref_images=[[image] * 64] * 4), LIMITS)
    assert len(request.samples) == 4
    assert Counted.copies == 1
    metadata = {"ref_images": [image] * 4}
    read_verl_omni({"images": [image] * 4, "prompts": ["x"] * 4, "metadata": metadata}, LIMITS)
    assert Counted.copies == 2


def colliding(count: int) -> list[int]:
    """Numbers that begin at one place of a dict's table."""
    return [number << 40 for number in range(1, count + 1)]


PICKLES: list[tuple[bytes, str]] = [
    (pickle.dumps(dict.fromkeys(colliding(10_001)), 4), "numbers as keys"),
    (pickle.dumps([dict.fromkeys(range(1000)) for _ in range(11)], 4), "numbers as keys"),
    (pickle.dumps(dict.fromkeys(number / 3 for number in range(10_001)), 4), "numbers as keys"),
    (pickle.dumps("x" * (MAX_TEXT_LENGTH + 1), 4), "characters"),
    (pickle.dumps("x" * (MAX_TEXT_LENGTH + 1), 0), "characters"),
    (b"S" + b"a" * 30_000_000 + b"\n.", "line"),
    (b"V" + b"a" * 30_000_000, "line"),
    (b"I" + b"1" * 3_000_000 + b"\n.", "damaged"),
    (b"L" + b"1" * 3_000_000 + b"L\n.", "damaged"),
    (b"F" + b"x" * 3_000_000 + b"\n.", "damaged"),
    (b"p" + b"9" * 3_000_000 + b"\n.", "damaged"),
    (b"Np" + b"9" * 30 + b"\n.", "memo"),
    (b"Ng-1\n.", "memo"),
    (b"\x8b" + struct.pack("<i", 30_000_000) + b"\x7f" * 30_000_000 + b".", "bits"),
    (b"\x8b\xff\xff\xff\x7f.", "damaged"),
    (b"\x95" + b"\xff" * 8 + b"N" * 2, "damaged"),
    (b"\x8e" + b"\xff" * 7 + b"\x7f" + b"x", "damaged"),
    (b"\x96" + b"\xff" * 7 + b"\x7f" + b"x", "damaged"),
    (b"(" * 1_000_001, "opcodes"),
    (b"]" + b"2a" * 600_000, "opcodes"),
]


@pytest.mark.parametrize("number", range(len(PICKLES)))
def test_pickles_that_ask_for_much_are_refused_in_one_short_line(number: int) -> None:
    data, problem = PICKLES[number]
    with pytest.raises(PickleError, match=problem) as refused:
        loads(data)
    assert len(str(refused.value)) < 300


def test_a_memo_of_chosen_numbers_is_a_memo_like_another() -> None:
    numbers = [number << 20 for number in range(4000)]
    data = b"(" + b"".join(b"Nr" + struct.pack("<I", number) for number in numbers)
    data += b"".join(b"j" + struct.pack("<I", number) for number in numbers) + b"l."
    assert loads(data) == [None] * 8000
