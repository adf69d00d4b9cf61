"""Pickles of trainers' own clients: nothing in them is run, and what is wrong is said in the client's words."""

import copyreg
import io
import json
import pickle
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import requests

from .test_restricted_pickle import touching
from .test_trainer_protocols import AFTER, BEFORE, PICKLED, PROMPTS, judge, problem


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server that is asked nothing but what it refuses."""
    with judge(limits={"max_samples": 4, "max_image_pixels": 10_000}) as (url, _):
        yield url


@pytest.mark.parametrize("path", [*PICKLED, "/"])
def test_nothing_in_a_pickle_is_run(url, path, tmp_path: Path):
    for name, data in touching(tmp_path / "made").items():
        answer = requests.post(url + path, data=data, timeout=60)
        assert answer.status_code == (200 if path == "/" else 400), name
        assert ("editcritic: HTTP 400: this pickle" if path == "/" else "this pickle") in problem(answer), name
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("path", PICKLED)
@pytest.mark.parametrize(
    "thing",
    [PIL.Image.new("RGB", (4, 4)), np.zeros((4, 4, 3), np.uint8), np.array(["a"])],
    ids=["PIL", "array", "texts"],
)
def test_objects_are_refused_saying_what_to_send(url, path, thing):
    data = pickle.dumps({"images": [thing], "ref_images": BEFORE[:1], "prompts": ["a"]})
    answer = requests.post(url + path, data=data, timeout=60)
    assert answer.status_code == 400
    assert "images as the bytes of PNG or JPEG files" in problem(answer)


def laughs(deep: int) -> Any:
    nested: Any = ["ha"]
    for _ in range(deep):
        nested = [nested] * 9
    return nested


ONE: dict[str, Any] = {"ref_images": BEFORE[:1], "images": AFTER[:1], "prompts": PROMPTS[:1]}


BOMB = io.BytesIO()
PIL.Image.new("RGB", (1000, 1000)).save(BOMB, "PNG")


@pytest.mark.parametrize(
    ("changes", "status", "message"),
    [
        ({"prompts": PROMPTS}, 400, "all prompts with each part of 64"),
        ({"ref_images": BEFORE}, 400, "lists of equal length are needed, got 1 images, 3 sources"),
        ({"ref_images": [[]]}, 400, "edit-0 has 0 sources"),
        ({"images": ["/etc/passwd"]}, 400, "an image must be the bytes of a JPEG, PNG or WebP file, got str"),
        ({"images": AFTER[0]}, 400, "`images` must be a list"),
        ({"images": []}, 400, "`images` is empty"),
        ({"images": [b"no picture"]}, 422, "not an image"),
        ({"images": [AFTER[0][:100]]}, 422, ""),
        ({"images": [BOMB.getvalue()]}, 413, "1,000 x 1,000 pixels"),
        ({"prompts": [""]}, 400, "must not be empty"),
        ({"prompts": ["x" * 200_000]}, 413, "characters"),
        ({"prompts": ["half a letter \ud800"]}, 400, "lone surrogate"),
        ({name: [content[0]] * 5 for name, content in ONE.items()}, 413, "at most 4"),
        ({"metadatas": [{"editcritic": {"mask": "/etc/passwd"}}]}, 400, "unknown field 'mask'"),
        ({"metadatas": [{"editcritic": {"target_text": b"bytes"}}]}, 400, "got bytes"),
        ({"metadatas": [{"editcritic": {"boxes": 3}}]}, 400, "boxes"),
        ({"metadatas": [{"editcritic": {"metadata": laughs(12)}}]}, 413, "too many values"),
        ({"metadatas": [{"editcritic": {"metadata": {"few": [[0] * 100] * 600}}}]}, 413, "too many values"),
        ({"metadatas": [{"editcritic": 3}]}, 400, "must be a table"),
    ],
)
def test_edit_r1_is_told_what_is_wrong(url, changes, status, message):
    answer = requests.post(f"{url}/mode/logits_non_cot", data=pickle.dumps(ONE | changes), timeout=60)
    assert answer.status_code == status, answer.text
    assert message in problem(answer)


def omnigen2_rl(url: str, **changes: Any) -> requests.Response:
    data = {
        "input_images": [[pil(BEFORE[0])]],
        "output_image": [pil(AFTER[0])],
        "meta_datas": [json.dumps({"instruction": "make it blue"})],
        "server_type": "vlm",
    }
    return requests.post(url, data=pickle.dumps(data | changes), timeout=60)


def pil(content: bytes) -> PIL.Image.Image:
    return PIL.Image.open(io.BytesIO(content)).convert("RGB")


class wrong_image:
    """Its pickle is that of an image of PIL that holds something else."""

    def __init__(self, mode: Any = "RGB", size: Any = (2, 2), pixels: Any = bytes(12)) -> None:
        self.state = [{}, mode, size, None, pixels]

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # which pickle compares
        return PIL.Image.Image

    def __reduce_ex__(self, protocol: Any) -> Any:
        return copyreg.__newobj__, (PIL.Image.Image,), self.state  # type: ignore[attr-defined]


def meta(**row: Any) -> list[str]:
    return [json.dumps({"instruction": "make it blue"} | row)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"output_image": [np.zeros((4, 4, 3), np.uint8)]}, "HTTP 400: this pickle has more than plain values"),
        ({"output_image": [PIL.Image.new("L", (4, 4))]}, "must have the mode RGB, got 'L': convert it"),
        ({"output_image": [PIL.Image.new("RGBA", (4, 4))]}, "must have the mode RGB, got 'RGBA'"),
        ({"output_image": [wrong_image(mode=["RGB"] * 1000)]}, "must have the mode RGB, got list"),
        ({"output_image": [wrong_image(mode="R" * 10_000)]}, "must have the mode RGB, got 'RRRRRRRRRRRRRRRRRRR:"),
        ({"output_image": [wrong_image(size=(3, 2))]}, "12 bytes do not fit 3 x 2 RGB pixels"),
        ({"output_image": [wrong_image(size=(-2, -2))]}, "no size of two positive numbers"),
        ({"output_image": [wrong_image(size=(2**40, 2))]}, "no size of two positive numbers"),
        ({"output_image": [wrong_image(size=(2, 2, 2))]}, "no size of two positive numbers"),
        ({"output_image": [wrong_image(size=(True, 2))]}, "no size of two positive numbers"),
        ({"output_image": [wrong_image(pixels="x" * 12)]}, "has no pixels"),
        ({"output_image": [wrong_image(pixels=[0] * 12)]}, "has no pixels"),
        ({"output_image": [PIL.Image.new("RGB", (200, 200))]}, "HTTP 413: image 'image-1' has 40,000 pixels"),
        ({"input_images": [[pil(BEFORE[0])]] * 5}, "HTTP 413: 5 samples: at most 4 are accepted"),
        ({"meta_datas": meta() * 5}, "HTTP 413: 5 samples: at most 4 are accepted"),
        ({"meta_datas": ["make it blue"]}, "HTTP 400: meta_datas of edit-0: invalid JSON"),
        ({"meta_datas": ["[" * 100_000]}, "HTTP 400: meta_datas of edit-0: the JSON is nested deeper"),
        ({"meta_datas": ['{"instruction": NaN}']}, "NaN is not a JSON number"),
        ({"meta_datas": ["half a letter \ud800"]}, "HTTP 400: meta_datas of edit-0: invalid JSON"),
        ({"meta_datas": ["[]"]}, "edit-0: the prompt must be a string, got NoneType"),
        ({"meta_datas": [json.dumps({"prompt": "x"})]}, "edit-0: the prompt must be a string, got NoneType"),
        ({"meta_datas": [{"instruction": "a", "editcritic": {"metadata": laughs(12)}}]}, "too many values"),
    ],
)
def test_omnigen2_rl_is_told_what_is_wrong(url, changes, message):
    answer = omnigen2_rl(url, **changes)
    assert answer.status_code == 200
    assert message in problem(answer)
    assert len(problem(answer)) < 700


def test_what_a_pickle_of_omnigen2_rl_repeats_is_read_once():
    """A text of JSON, 100 kB long, and two images, 1,000 times each, in a pickle of 200 kB."""
    row = meta(notes=["note"] * 12_000)[0]
    with judge(limits={"max_pixels": 1_000_000}) as (url, kept):
        start = time.monotonic()
        answer = omnigen2_rl(
            url,
            input_images=[[pil(BEFORE[0])]] * 1000,
            output_image=[PIL.Image.new("RGB", (8, 8))] * 1000,
            meta_datas=[row] * 1000,
        )
        assert time.monotonic() - start < 20
    assert len(set(pickle.loads(answer.content)["rewards"])) == 1
    assert len(kept.samples) == 1000


def test_the_status_of_a_refusal_is_counted_though_its_client_is_told_200():
    with judge() as (url, _):
        omnigen2_rl(url, meta_datas=[])
        assert requests.get(url, timeout=60).status_code == 405
        assert requests.get(f"{url}/ping", timeout=60).json() == {"alive": True}
        text = requests.get(f"{url}/metrics", timeout=60).text
    assert re.search(r'path="/",.*status="400"|status="400".*path="/"', text), text
    assert not re.search(r'path="/",.*status="200"', text)
