"""A reader for pickles that cannot run anything: containers, texts, bytes, numbers and None.

Some trainers send pickles to their judges. Python's own reader imports and calls what a pickle names, which hands the
machine to whoever can reach the port (CVE-2026-25873 is that). This one is a machine of its own: it knows the opcodes
that build plain values, and has nothing for the others to act on. No import, no call, no object of a class.
"""

from __future__ import annotations

import pickle  # for writing plain values, and for the exception that readers of pickles raise
import pickletools
from collections.abc import Callable
from typing import Any, Final

PickleError = pickle.UnpicklingError

MOST_ITEMS: Final = 1_000_000
"""Opcodes in one pickle. One of a byte or two makes a value: without a limit, 64 MB of them would take gigabytes."""

_MOST_BITS = 8192
"""Of whole numbers. Larger ones are slow to compute with, and no trainer sends any."""

_KEYS = (str, int, float, bool, bytes, type(None))
"""What a table may be keyed with. A key in a thousand layers of tuples would overflow the stack when it is hashed."""

_LARGEST_KEY = 2**60
"""Of whole numbers: smaller ones are their own hash. Multiples of 2**61 - 1 all have the same, and twenty thousand of
them in a table, 300 kB, took ten seconds to put there: the time grows with the square of their number."""


def loads(data: bytes | bytearray, *, most_items: int = MOST_ITEMS) -> Any:
    """The value of a pickle of any protocol.

    Admits dict, list, tuple, str, bytes, bytearray, int, float, bool and None. Raises `PickleError`, saying what was
    refused, for all else, for what is damaged, and for more than `most_items` opcodes. Bytes in pickles of protocols
    below 3 are function calls, and refused.
    """
    machine = _Machine()
    count = 0
    try:
        for opcode, argument, _ in pickletools.genops(data):
            count += 1
            if count > most_items:
                raise PickleError(f"this pickle has more than {most_items} parts: send fewer at a time")
            if opcode.name == "STOP":
                return machine.end()
            step = _STEPS.get(opcode.name)
            if step is None:
                raise PickleError(
                    f"this pickle holds more than plain values ({opcode.name}): send dicts, lists, texts, bytes and "
                    "numbers, pictures as the bytes of PNG or JPEG files"
                )
            step(machine, argument)
    except PickleError:
        raise
    # What pickletools and the machine raise on damaged ones; UnicodeError and OverflowError are among them.
    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
        raise PickleError(f"this pickle is damaged: {error}") from None
    raise PickleError("this pickle ends before it is complete")


def dumps(value: Any) -> bytes:
    """Plain values as a pickle, for trainers that read those."""
    return pickle.dumps(value, protocol=4)


class _Machine:
    """A stack of values, the places of marks in it, and what was put aside."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def push(self, value: Any) -> None:
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            raise PickleError(f"this pickle holds a whole number of {value.bit_length()} bits")
        self.stack.append(value)

    def pop(self) -> Any:
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise PickleError("this pickle is damaged: it takes a value that is not there")
        return self.stack.pop()

    def top(self, kind: type) -> Any:
        """What is on top, which must be of this kind."""
        value = self.pop()
        if type(value) is not kind:
            raise PickleError(f"this pickle is damaged: a {kind.__name__} was expected, not a {type(value).__name__}")
        self.stack.append(value)
        return value

    def since_mark(self) -> list[Any]:
        """Takes what has come since the last mark, and the mark."""
        if not self.marks:
            raise PickleError("this pickle is damaged: it goes back to a mark that is not there")
        start = self.marks.pop()
        found = self.stack[start:]
        del self.stack[start:]
        return found

    def mark(self) -> None:
        self.marks.append(len(self.stack))

    def put(self, place: int) -> None:
        if not 0 <= place <= _LARGEST_KEY:
            raise PickleError("this pickle is damaged: it puts a value aside at no place that there is")
        value = self.pop()
        self.stack.append(value)
        self.memo[place] = value

    def get(self, place: int) -> None:
        if place not in self.memo:
            raise PickleError("this pickle is damaged: it refers to a value that was not put aside")
        self.stack.append(self.memo[place])

    def tuple_of(self, count: int) -> None:
        self.stack.append(tuple(reversed([self.pop() for _ in range(count)])))

    def set_items(self, items: list[Any]) -> None:
        """Pairs, one after the other, into the table on top."""
        table = self.top(dict)
        if len(items) % 2:
            raise PickleError("this pickle is damaged: a key has no value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, _KEYS):
                raise PickleError(
                    f"this pickle has a table keyed by a {type(key).__name__}: texts and numbers are read"
                )
            if isinstance(key, int) and abs(key) > _LARGEST_KEY:
                raise PickleError("this pickle has a table keyed by a whole number beyond 2**60: texts are read")
            table[key] = value

    def set_one(self) -> None:
        value, key = self.pop(), self.pop()
        self.set_items([key, value])

    def new_table(self) -> None:
        items = self.since_mark()
        self.stack.append({})
        self.set_items(items)

    def append(self) -> None:
        value = self.pop()
        self.top(list).append(value)

    def extend(self) -> None:
        values = self.since_mark()
        self.top(list).extend(values)

    def copy_top(self) -> None:
        self.stack.append(self.pop())
        self.stack.append(self.stack[-1])

    def end(self) -> Any:
        if self.marks or len(self.stack) != 1:
            raise PickleError("this pickle is damaged: it does not end in one value")
        return self.stack[0]


def _pushing(*names: str) -> dict[str, Callable[[_Machine, Any], Any]]:
    return dict.fromkeys(names, lambda machine, argument: machine.push(argument))


def _making(make: Callable[[], Any]) -> Callable[[_Machine, Any], Any]:
    return lambda machine, _: machine.stack.append(make())


_STEPS: Final[dict[str, Callable[[_Machine, Any], Any]]] = {
    "PROTO": lambda machine, _: None,
    "FRAME": lambda machine, _: None,
    "NONE": _making(lambda: None),
    "NEWTRUE": _making(lambda: True),
    "NEWFALSE": _making(lambda: False),
    **_pushing("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    **_pushing("STRING", "BINSTRING", "SHORT_BINSTRING"),
    **_pushing("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    **_pushing("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    "BYTEARRAY8": lambda machine, argument: machine.push(bytearray(argument)),
    "EMPTY_LIST": _making(list),
    "EMPTY_DICT": _making(dict),
    "EMPTY_TUPLE": _making(tuple),
    "MARK": lambda machine, _: machine.mark(),
    "POP": lambda machine, _: machine.pop(),
    "POP_MARK": lambda machine, _: machine.since_mark(),
    "DUP": lambda machine, _: machine.copy_top(),
    "LIST": lambda machine, _: machine.stack.append(machine.since_mark()),
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.since_mark())),
    "TUPLE1": lambda machine, _: machine.tuple_of(1),
    "TUPLE2": lambda machine, _: machine.tuple_of(2),
    "TUPLE3": lambda machine, _: machine.tuple_of(3),
    "DICT": lambda machine, _: machine.new_table(),
    "APPEND": lambda machine, _: machine.append(),
    "APPENDS": lambda machine, _: machine.extend(),
    "SETITEM": lambda machine, _: machine.set_one(),
    "SETITEMS": lambda machine, argument: machine.set_items(machine.since_mark()),
    "PUT": lambda machine, place: machine.put(place),
    "BINPUT": lambda machine, place: machine.put(place),
    "LONG_BINPUT": lambda machine, place: machine.put(place),
    "MEMOIZE": lambda machine, _: machine.put(len(machine.memo)),
    "GET": lambda machine, place: machine.get(place),
    "BINGET": lambda machine, place: machine.get(place),
    "LONG_BINGET": lambda machine, place: machine.get(place),
}
