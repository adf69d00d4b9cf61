"""A pickle reader that cannot execute code: containers, strings, bytes, numbers and None.

Some trainers send pickles to their judges, and Python's own reader runs what they name (CVE-2026-25873). This one has
only the opcodes that build plain values; where images are allowed, a pickled `PIL.Image.Image` is what it holds."""

from __future__ import annotations

import io
import pickle  # for writing plain values, and for its exception class
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

PickleError = pickle.UnpicklingError

MAX_ITEMS: Final = 1_000_000
"""Opcodes in one pickle. Without a limit, 64 MB of one-byte opcodes would build gigabytes of values."""

_MAX_INT_BITS = 8192
"""Of integers. Larger ones are slow to compute with, and no trainer sends any."""

MAX_TEXT_LENGTH: Final = 1_000_000
"""Characters of a string. One that a pickle names again and again costs its length each time it is looked at."""

_MAX_LINE = 4 * MAX_TEXT_LENGTH
"""Bytes of an argument that ends with a line: text and numbers of protocol 0, with its escapes."""

_KEYS = (str, int, float, bool, bytes, type(None))
"""Types of dict keys. Deeply nested tuples would overflow the stack when hashed."""

_LARGEST_KEY = 2**60
"""Of integers: smaller ones are their own hash. Multiples of 2**61 - 1 all have the same hash; twenty thousand of them
in a dict, 300 kB, took ten seconds to insert: the time is quadratic in their number."""

_MAX_NUMBER_KEYS = 10_000
"""Keys in dicts that are numbers: different hashes may be chosen to collide as well, if they are known, and with so few
it does not matter. Those of text are different in each process."""


@dataclass(eq=False)
class PickledImage:
    """An image of PIL as its pickle has it: mode, size and the bytes of its pixels; nothing of it is checked."""

    mode: Any = ""
    size: Any = ()
    pixels: Any = b""


def loads(data: bytes | bytearray, *, max_items: int = MAX_ITEMS, images: bool = False) -> Any:
    """The value of a pickle of any protocol, in time linear in its length; with `images` also `PickledImage`.

    Raises `PickleError` for anything but plain values, for damage, for more than `max_items` opcodes, and for strings
    of more than `MAX_TEXT_LENGTH` characters. A value may be there many times, also inside of itself.
    Bytes in pickles of protocols below 3 are function calls, and refused."""
    machine = _StackMachine()
    operations = _OPCODES | _IMAGE_OPCODES if images else _OPCODES
    count = 0
    try:
        for opcode, argument, _ in pickletools.genops(_Lines(data)):
            count += 1
            if count > max_items:
                raise PickleError(f"this pickle has more than {max_items} opcodes: send fewer values at a time")
            if opcode.name == "STOP":
                return machine.end()
            operation = operations.get(opcode.name)
            if operation is None:
                raise _not_plain(opcode.name)
            operation(machine, argument)
    except PickleError:
        raise
    # Raised by pickletools and the stack machine on damaged pickles; includes UnicodeError and OverflowError.
    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:
        raise PickleError(f"this pickle is damaged: {str(error)[:200]}") from None
    raise PickleError("this pickle ends before it is complete")


def dumps(value: Any) -> bytes:
    """Pickle plain values, for trainers that read pickles."""
    return pickle.dumps(value, protocol=4)


def error_pickle(message: str) -> bytes:
    """Python's reader refuses it with an AttributeError with this message, of one line; it calls nothing."""
    return b"cbuiltins\n" + message.encode("utf-8", "backslashreplace") + b"\n."


def _not_plain(name: str) -> PickleError:
    return PickleError(
        f"this pickle has more than plain values ({name}): send dicts, lists, strings, bytes and "
        "numbers, and images as the bytes of PNG or JPEG files"
    )


class _ImageClass:
    """Stands for the class of images on the stack."""


class _Lines(io.BytesIO):
    """A file of bounded lines: pickletools puts a line that it cannot read into its message."""

    def readline(self, size: int | None = -1, /) -> bytes:
        line = super().readline(_MAX_LINE + 1)
        if len(line) > _MAX_LINE:
            raise PickleError(f"this pickle has a line of more than {_MAX_LINE:,} bytes")
        return line


class _StackMachine:
    """The value stack, the positions of marks in it, and the memo: by its keys as text, for their hashes."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[str, Any] = {}
        self.number_keys = 0

    def push(self, value: Any) -> None:
        if isinstance(value, int) and value.bit_length() > _MAX_INT_BITS:
            raise PickleError(f"this pickle has an integer of {value.bit_length()} bits")
        if isinstance(value, str) and len(value) > MAX_TEXT_LENGTH:
            raise PickleError(f"this pickle has a string of {len(value):,} characters, over {MAX_TEXT_LENGTH:,}")
        self.stack.append(value)

    def pop(self) -> Any:
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise PickleError("this pickle is damaged: it pops a missing value")
        return self.stack.pop()

    def top(self, type_: type) -> Any:
        value = self.pop()
        if type(value) is not type_:
            raise PickleError(f"this pickle is damaged: expected a {type_.__name__}, got a {type(value).__name__}")
        self.stack.append(value)
        return value

    def since_mark(self) -> list[Any]:
        """Pop the values since the last mark, and the mark."""
        if not self.marks:
            raise PickleError("this pickle is damaged: it refers to a missing mark")
        start = self.marks.pop()
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def mark(self) -> None:
        self.marks.append(len(self.stack))

    def put(self, key: int) -> None:
        if not 0 <= key < 2**32:
            raise PickleError("this pickle is damaged: it uses an invalid memo key")
        value = self.pop()
        self.stack.append(value)
        self.memo[str(key)] = value

    def get(self, key: int) -> None:
        if not 0 <= key < 2**32 or str(key) not in self.memo:
            raise PickleError("this pickle is damaged: it refers to a missing memo entry")
        self.stack.append(self.memo[str(key)])

    def tuple_of(self, count: int) -> None:
        self.stack.append(tuple(reversed([self.pop() for _ in range(count)])))

    def set_items(self, items: list[Any]) -> None:
        """Insert alternating keys and values into the dict on top."""
        table = self.top(dict)
        if len(items) % 2:
            raise PickleError("this pickle is damaged: a key has no value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, _KEYS):
                raise PickleError(
                    f"this pickle has a dict with keys of type {type(key).__name__}: use strings or numbers"
                )
            if isinstance(key, int) and abs(key) > _LARGEST_KEY:
                raise PickleError("this pickle has a dict with an integer key beyond 2**60: use strings")
            self.number_keys += isinstance(key, int | float)
            if self.number_keys > _MAX_NUMBER_KEYS:
                raise PickleError(f"this pickle has more than {_MAX_NUMBER_KEYS:,} numbers as keys: use strings")
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

    def name_class(self, module: Any, name: Any) -> None:
        if (module, name) != ("PIL.Image", "Image"):
            raise _not_plain(f"{module!s:.80}.{name!s:.80}")
        self.stack.append(_ImageClass())

    def name_class_on_stack(self) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise PickleError("this pickle is damaged: the name of a class is no string")
        self.name_class(module, name)

    def new_image(self) -> None:
        arguments, class_ = self.pop(), self.pop()
        if type(class_) is not _ImageClass or type(arguments) is not tuple or arguments:
            raise PickleError("this pickle is damaged: it makes an object that is no image")
        self.stack.append(PickledImage())

    def build_image(self) -> None:
        """The state is [info, mode, size, palette, pixels], of all versions of Pillow since 2."""
        state, image = self.pop(), self.pop()
        if type(image) is not PickledImage or image.mode or type(state) is not list or len(state) != 5:
            raise PickleError("this pickle is damaged: it has no image where it sets one")
        _, image.mode, image.size, _, image.pixels = state
        self.stack.append(image)

    def end(self) -> Any:
        if self.marks or len(self.stack) != 1:
            raise PickleError("this pickle is damaged: it does not end with one value")
        return self.stack[0]


def _push_op(*names: str) -> dict[str, Callable[[_StackMachine, Any], Any]]:
    return dict.fromkeys(names, lambda machine, argument: machine.push(argument))


def _build_op(factory: Callable[[], Any]) -> Callable[[_StackMachine, Any], Any]:
    return lambda machine, _: machine.stack.append(factory())


_OPCODES: Final[dict[str, Callable[[_StackMachine, Any], Any]]] = {
    "PROTO": lambda machine, _: None,
    "FRAME": lambda machine, _: None,
    "NONE": _build_op(lambda: None),
    "NEWTRUE": _build_op(lambda: True),
    "NEWFALSE": _build_op(lambda: False),
    **_push_op("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    **_push_op("STRING", "BINSTRING", "SHORT_BINSTRING"),
    **_push_op("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    **_push_op("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
    "BYTEARRAY8": lambda machine, argument: machine.push(bytearray(argument)),
    "EMPTY_LIST": _build_op(list),
    "EMPTY_DICT": _build_op(dict),
    "EMPTY_TUPLE": _build_op(tuple),
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
    "PUT": lambda machine, key: machine.put(key),
    "BINPUT": lambda machine, key: machine.put(key),
    "LONG_BINPUT": lambda machine, key: machine.put(key),
    "MEMOIZE": lambda machine, _: machine.put(len(machine.memo)),
    "GET": lambda machine, key: machine.get(key),
    "BINGET": lambda machine, key: machine.get(key),
    "LONG_BINGET": lambda machine, key: machine.get(key),
}

_IMAGE_OPCODES: Final[dict[str, Callable[[_StackMachine, Any], Any]]] = {
    "GLOBAL": lambda machine, argument: machine.name_class(*argument.split(" ", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.name_class_on_stack(),
    "NEWOBJ": lambda machine, _: machine.new_image(),
    "BUILD": lambda machine, _: machine.build_image(),
}
