"""A reader of pickles that reads plain values as Python's does, and cannot be made to run anything."""

import builtins
import codecs
import collections
import contextlib
import copyreg
import fractions
import io
import os
import pickle
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from editcritic.integrations.serving.server.restricted_pickle import (
    PickleError,
    dumps,
    error_pickle,
    loads,
)

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats(allow_nan=False) | st.text() | st.binary()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner, max_size=5).map(tuple)
        | st.dictionaries(st.text() | st.integers(-(2**60), 2**60) | st.binary(max_size=4), inner)
        | st.binary().map(bytearray)
    ),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(value=VALUES, protocol=st.integers(0, 5))
def test_plain_values_are_read_as_python_reads_them(value, protocol):
    data = pickle.dumps(value, protocol)
    try:
        loaded = loads(data)
    except PickleError:  # bytes are calls in old protocols, bytearrays before the fifth
        assert b"codecs" in data or b"bytes" in data or b"bytearray" in data
        return
    assert repr(loaded) == repr(value)


@given(value=VALUES)
def test_what_is_written_is_read(value):
    if "bytearray" not in repr(value):
        assert loads(dumps(value)) == value


def test_values_that_are_there_twice_are_one():
    shared = ["a"]
    loaded = loads(pickle.dumps([shared, shared, {"again": shared}]))
    assert loaded[0] is loaded[1] is loaded[2]["again"]


def refused_at_most(data: bytes, **limits: Any) -> None:
    """No other exception comes of it."""
    with without_doing_anything(), contextlib.suppress(PickleError):
        loads(data, **limits)


@settings(max_examples=400, deadline=None)
@given(data=st.binary(max_size=200))
def test_noise_is_refused_or_read_and_nothing_else_happens(data):
    refused_at_most(data)


@settings(max_examples=600, deadline=None)
@given(
    value=VALUES | st.just({"images": [PIL.Image.new("RGB", (2, 2))] * 2}),
    protocol=st.integers(0, 5),
    changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=6),
)
def test_damage_is_refused_or_read_and_nothing_else_happens(value, protocol, changes):
    data = bytearray(pickle.dumps(value, protocol))
    for place, byte in changes:
        data[int(place * len(data))] = byte
    for images in (False, True):
        refused_at_most(bytes(data), images=images)


class without_doing_anything:
    """Fails where something is imported, evaluated or started meanwhile."""

    watched = ((os, "system"), (subprocess, "Popen"), (builtins, "eval"), (builtins, "exec"), (builtins, "__import__"))

    def __enter__(self) -> None:
        codecs.lookup("raw-unicode-escape")  # of protocol 0: Python itself imports it at its first use
        self.before = [(owner, name, getattr(owner, name)) for owner, name in self.watched]
        for owner, name, _ in self.before:
            setattr(owner, name, self._refuse)

    def __exit__(self, *_: object) -> None:
        for owner, name, value in self.before:
            setattr(owner, name, value)

    @staticmethod
    def _refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(f"something was done: {args!r:.200}")


class Calls:
    def __init__(self, *reduced: Any) -> None:
        self.reduced = reduced

    def __reduce__(self) -> Any:
        return self.reduced


class Stateful:
    def __init__(self) -> None:
        self.x = 1

    def __setstate__(self, state: Any) -> None:
        raise AssertionError("a state was set")


class Dictlike(dict):  # type: ignore[type-arg]
    pass


Point = collections.namedtuple("Point", "x y")


def raw(*parts: bytes) -> bytes:
    return b"".join(parts) + b"."


def touching(path: Path) -> dict[str, bytes]:
    """Pickles that would make a file, if anything in them were run."""
    command = f"touch {path}"
    text = command.encode()
    unicode = b"\x8c" + bytes([len(text)]) + text
    os_system = b"\x8c\x02os\x8c\x06system\x93"
    return {
        "reduce": pickle.dumps(Calls(os.system, (command,))),
        "reduce, protocol 0": pickle.dumps(Calls(os.system, (command,)), 0),
        "reduce, protocol 2": pickle.dumps(Calls(os.system, (command,)), 2),
        "nested": pickle.dumps({"images": [b"x", {"a": [Calls(os.system, (command,))]}]}),
        "eval": pickle.dumps(Calls(eval, (f"__import__('os').system({command!r})",))),
        "popen": pickle.dumps(Calls(subprocess.Popen, (["touch", str(path)],))),
        "global": raw(b"cos\nsystem\n(S'", text, b"'\ntR"),
        "stack global": raw(b"\x80\x04", os_system, unicode, b"\x85R"),
        "inst": raw(b"(S'", text, b"'\nios\nsystem\n"),
        "obj": raw(b"(cos\nsystem\nS'", text, b"'\no"),
        "newobj": raw(b"\x80\x02cos\nsystem\n", unicode, b"\x85\x81"),
        "newobj ex": raw(b"\x80\x04", os_system, unicode, b"\x85}\x92"),
        "build": raw(b"\x80\x02ccopyreg\n_reconstructor\n(cbuiltins\nobject\ncbuiltins\nobject\nNtR}b"),
        "set items of a reduce": raw(b"ccollections\nOrderedDict\n)R(U\x01aU\x01bu"),
        "memo": raw(b"\x80\x04", os_system, b"\x94", unicode, b"\x94\x85\x94h\x00h\x02R"),
        "extension": raw(b"\x82\x01)R"),
        "extension of two bytes": raw(b"\x83\x01\x00)R"),
        "extension of four bytes": raw(b"\x84\x01\x00\x00\x00)R"),
        "persistent id": raw(b"Pname\n"),
        "binary persistent id": raw(b"U\x04nameQ"),
        "buffer": raw(b"\x80\x05\x97"),
        "read-only buffer": raw(b"\x80\x05\x97\x98"),
    }


HOSTILE_OBJECTS = {
    "array": np.zeros(3),
    "number of numpy": np.float64(1.0),
    "picture": PIL.Image.new("RGB", (2, 2)),
    "instance": Stateful(),
    "dict of a class": Dictlike(a=1),
    "named tuple": Point(1, 2),
    "ordered": collections.OrderedDict(a=1),
    "default": collections.defaultdict(list),
    "set": {1},
    "frozen set": frozenset({1}),
    "complex": 1j,
    "fraction": fractions.Fraction(1, 3),
    "path": Path("/"),
    "function": os.system,
    "class": dict,
    "ellipsis": ...,
    "range": range(3),
    "slice": slice(1),
}


@pytest.mark.parametrize("name", list(touching(Path("x"))))
def test_nothing_is_run(name, tmp_path):
    data = touching(tmp_path / "made")[name]
    with without_doing_anything(), pytest.raises(PickleError, match="more than plain values"):
        loads(data)
    with without_doing_anything(), pytest.raises(PickleError):
        loads(data, images=True)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_an_image_of_pil_is_its_pixels(protocol):
    image = PIL.Image.frombytes("RGB", (2, 3), bytes(range(18)))
    image.info["comment"] = b"kept by PIL"
    data = pickle.dumps([image, image], protocol)
    with without_doing_anything():
        first, second = loads(data, images=True)
    assert first is second
    assert (first.mode, first.size, first.pixels) == ("RGB", (2, 3), bytes(range(18)))
    with pytest.raises(PickleError, match="more than plain values"):
        loads(pickle.dumps(image, protocol))


IMAGE = b"\x80\x04cPIL.Image\nImage\n"


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(PIL.Image.new("RGB", (2, 2)), 2),  # its bytes are a call
        raw(b"\x80\x04cPIL.Image\nopen\n)\x81"),
        raw(b"\x80\x04cPIL.JpegImagePlugin\nJpegImageFile\n)\x81"),
        raw(b"\x80\x04cPIL\nImage.Image\n)\x81"),
        raw(b"\x80\x04\x8c\x09PIL.Image]\x93"),
        raw(b"\x80\x04]]\x93"),
        raw(IMAGE, b")R"),
        raw(IMAGE, b"]\x81"),
        raw(IMAGE, b"N\x85\x81"),
        raw(b"\x80\x04N)\x81"),
        raw(IMAGE, b")\x81)\x81"),
        raw(IMAGE, b")\x81}b"),
        raw(IMAGE, b")\x81]b"),
        raw(IMAGE, b")\x81(NNNNNtb"),
        raw(IMAGE, b")\x81(}U\x03RGB)N)lb(}U\x03RGB)N)lb"),
        raw(b"\x80\x04](NNNNNlb"),
        raw(b"\x80\x04}", IMAGE[2:], b")\x81Ns"),
        raw(IMAGE, b"}\x92"),
    ],
)
def test_what_is_no_image_is_refused_where_images_are_allowed(data):
    with without_doing_anything(), pytest.raises(PickleError):
        loads(data, images=True)


@pytest.mark.parametrize("message", ["1 of 3 edits: the 'judge' (x.y) is away", "\u00e9\u4e2d", "half a letter \ud800"])
@pytest.mark.parametrize("load", [pickle.loads, lambda data: pickle._Unpickler(io.BytesIO(data)).load()])
def test_an_error_is_words_in_pythons_reader_and_calls_nothing(message, load):
    words = message.encode("utf-8", "backslashreplace").decode()
    data = error_pickle(f"editcritic: {message}")
    with pytest.raises(AttributeError) as raised:
        load(data)
    assert f"editcritic: {words}" in str(raised.value).replace("\\\\", "\\")  # one reader shows its `repr`
    assert data == b"cbuiltins\n" + f"editcritic: {words}".encode() + b"\n."  # a name, and the end


@pytest.mark.parametrize("name", ["reduce", "global", "stack global", "inst", "memo"])
def test_the_corpus_would_run_with_pythons_reader(name, tmp_path):
    """What is refused above is no straw man."""
    data = touching(tmp_path / "made")[name]
    pickle.loads(data)
    assert (tmp_path / "made").exists()


def test_an_extension_that_is_registered_is_not_looked_up(tmp_path):
    copyreg.add_extension("os", "system", 240)
    try:
        with without_doing_anything(), pytest.raises(PickleError, match="EXT1"):
            loads(raw(b"\x82\xf0", b"U\x04true\x85R"))
    finally:
        copyreg.remove_extension("os", "system", 240)


@pytest.mark.parametrize("name", list(HOSTILE_OBJECTS))
@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_objects_are_refused_with_what_to_send_instead(name, protocol):
    data = pickle.dumps({"images": [HOSTILE_OBJECTS[name]]}, protocol)
    with without_doing_anything(), pytest.raises(PickleError, match=r"images as the bytes of PNG or JPEG files"):
        loads(data)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a memo place beyond all", raw(b"]r\xff\xff\xff\x7f")),
        ("a text that claims 4 GB", b"\x80\x03X" + struct.pack("<I", 2**32 - 1) + b"abc."),
        ("a whole number of a million digits", b"L" + b"9" * 10**6 + b"L\n."),
        ("many empty lists", b"\x80\x04" + b"]\x94" * 300_000 + b"."),
        ("laughs", b"\x80\x04]\x94" + b"(h\x00h\x00h\x00h\x00h\x00h\x00h\x00h\x00l\x94" * 30_000 + b"."),
    ],
)
def test_memory_is_bounded(name, data):
    tracemalloc.start()
    try:
        refused_at_most(data, max_items=100_000)
        assert tracemalloc.get_traced_memory()[1] < 40 * 2**20 + 4 * len(data), name
    finally:
        tracemalloc.stop()


def test_deep_nesting_neither_overflows_nor_hangs():
    deep = loads(b"\x80\x04" + b"]" * 100_000 + b"a" * 99_999 + b".")
    assert isinstance(deep, list)
    with pytest.raises(PickleError, match="keys of type tuple"):
        loads(b"\x80\x04}" + b")" + b"\x85" * 100_000 + b"Ns.")


def test_keys_that_are_made_to_collide_are_refused():
    """All of these have one hash, and a table of them would take time that grows with the square of their number."""
    flood = {number * sys.hash_info.modulus: None for number in range(2, 500)}
    assert len({hash(key) for key in flood}) == 1
    with pytest.raises(PickleError, match="beyond 2"):
        loads(pickle.dumps(flood))
    with pytest.raises(PickleError, match="beyond 2"):
        loads(raw(b"\x80\x02}\x8a\x08", (2**61).to_bytes(8, "little"), b"Ns"))
    for place in (sys.hash_info.modulus, -1):
        with pytest.raises(PickleError, match="invalid memo key"):
            loads(raw(b"Np", str(place).encode(), b"\n"))


DAMAGED = [b"", *b". N \x80\x04 0. a. ]a. ](. e. (NN. }(Nu. h\x05. NN. ]]s. (t".split()]


@pytest.mark.parametrize("data", DAMAGED)
def test_damage_is_said(data):
    with pytest.raises(PickleError, match="pickle"):
        loads(data)
