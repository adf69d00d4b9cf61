"""Docstrings as Markdown: what `name: meaning` says of a parameter becomes a list, indented code a block.

mkdocstrings reads this file as an extension of griffe (`extensions` in mkdocs.yml). A member without a docstring has
that of the class it is inherited from, and a name in code that has a place on the site links there.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import griffe

_PAGES = Path(__file__).parents[2] / "build" / "docs" / "pages"
_LABEL = r"`?\*{0,2}[A-Za-z_]\w*`?"
_ITEM = re.compile(rf"(?:^|(?<=[.;!?)`] ))({_LABEL}(?:(?:, | and |, and ){_LABEL})*): ")
_ENDING = re.compile(r"(?<=[.)`] )(?=(?:Raises|Returns|Yields) )")
_SEE_MODULE = "See the module."
_CODE = re.compile(r"(`+)(.+?)\1(?!`)")


def docstring_markdown(docstring: str, names: Collection[str] = ()) -> str:
    """The Markdown of a docstring. names: parameters and attributes, whose `name: meaning` becomes a list item."""
    return "\n\n".join(_block(block, names) for block in _blocks(inspect.cleandoc(docstring)))


def summary(docstring: str) -> str:
    """The first sentence, in one line."""
    first = " ".join(next(_blocks(inspect.cleandoc(docstring)), "").split())
    sentence = re.match(rf".+?(?<! al)[.?!](?=\s+(?:[A-Z`*\d]|{_LABEL}(?:, {_LABEL})*: )|$)", first)
    return escaped((sentence[0] if sentence else first).rstrip(":"))


def escaped(text: str) -> str:
    """The text with what Markdown takes for HTML outside of code written as entities."""
    return outside_code(text, lambda plain: plain.replace("<", "&lt;"))


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text with its parts outside of inline code changed."""
    parts = list[str]()
    end = 0
    for code in _CODE.finditer(text):
        parts += [change(text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, change(text[end:])])


def described_items(paragraph: str, names: Collection[str]) -> tuple[str, list[tuple[str, str]], list[str]]:
    """A paragraph in one line: what comes before the first `name: `, the items, and what begins with Raises and such.

    Items are those whose labels are among the names.
    """
    starts = [
        found for found in _ITEM.finditer(paragraph) if {word.strip("`*") for word in _words(found[1])} <= {*names}
    ]
    ends = [found.start() for found in starts[1:]] + [len(paragraph)]
    items, endings = list[tuple[str, str]](), list[str]()
    for found, end in zip(starts, ends, strict=False):
        text, *more = _ENDING.split(paragraph[found.end() : end].strip())
        items.append((found[1], text.strip().rstrip(";")))
        endings += [one.strip() for one in more]
    return (paragraph[: starts[0].start()] if starts else paragraph).strip(), items, endings


def item_label(label: str) -> str:
    """The names of an item, in code."""
    return ", ".join(f"`{word.strip('`')}`" for word in _words(label))


def _words(label: str) -> list[str]:
    return re.split(r", and |, | and ", label)


def _blocks(text: str) -> Iterator[str]:
    """Paragraphs, lists, tables and code. A list or a table right below a paragraph is a block of its own."""
    block = list[str]()
    for line in [*text.splitlines(), ""]:
        begins = _kind(line) != "text" and block and _kind(block[0]) == "text"
        goes_on = not line.strip() and block and _kind(block[0]) == "code"
        if block and (begins or not line.strip()) and not goes_on:
            yield "\n".join(block)
            block = []
        if goes_on or line.strip():
            if block and _kind(block[0]) == "code" and line.strip() and _kind(line) != "code":
                yield "\n".join(block).rstrip()
                block = []
            block.append(line)
    if block:
        yield "\n".join(block).rstrip()


def _kind(line: str) -> str:
    if line.startswith("    "):
        return "code"
    if line.startswith("|"):
        return "table"
    return "list" if re.match(r"(-|\d+\.) ", line) else "text"


def _block(block: str, names: Collection[str]) -> str:
    kind = _kind(block)
    if kind == "code":
        code = textwrap.dedent(block)
        return f"```{'python' if _is_python(code) else 'text'}\n{code}\n```"
    if kind != "text":
        return escaped(block)
    lead, items, endings = described_items(" ".join(block.split()), names)
    lines = [lead] if lead else []
    if items:
        lines.append("\n".join(f"- {item_label(label)}: {text}" for label, text in items))
    return escaped("\n\n".join([*lines, *endings]))


def _is_python(code: str) -> bool:
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True


def docstring_of(one: Any) -> str:
    """The docstring of an object of griffe, or an empty text. Where it refers to its module's, that stands first."""
    text = str(one.docstring.value) if one.docstring is not None else ""
    if not text.startswith(_SEE_MODULE) or one.module.docstring is None:
        return text
    return f"{inspect.cleandoc(one.module.docstring.value)}\n\n{text.removeprefix(_SEE_MODULE).lstrip()}"


class DocstringMarkdown(griffe.Extension):
    """Rewrites all docstrings of a package when it is loaded."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **kwargs: Any) -> None:
        """pkg: the package with all of its modules."""
        if pkg.path != "editcritic":
            return
        loader.resolve_aliases(implicit=False)
        documented = dict(_documented(loader))
        objects = list(_objects(pkg))
        for one in objects:
            _inherit(one)
        texts = [(one, docstring_of(one)) for one in objects if one.docstring is not None]
        for one, docstring in texts:
            text = docstring_markdown(docstring, _names(one))
            one.docstring.value = _CODE.sub(functools.partial(_linked, at=one, documented=documented), text)


def _documented(loader: griffe.GriffeLoader) -> Iterator[tuple[str, str]]:
    """Path of a definition -> the identifier under which it is on a page."""
    for page in sorted((_PAGES / "reference" / "api").glob("*.md")):
        for identifier in re.findall(r"^::: (\S+)", page.read_text(encoding="utf-8"), re.MULTILINE):
            one = loader.modules_collection[identifier]
            yield (one.final_target.path if one.is_alias else one.path), identifier


def _objects(one: Any) -> Iterator[Any]:
    yield one
    for member in one.members.values():
        if not member.is_alias:
            yield from _objects(member)


def _inherit(one: Any) -> None:
    """Give a member without a docstring that of the class it overrides."""
    if one.docstring is not None or one.name.startswith("_") or not getattr(one.parent, "is_class", False):
        return
    for base in one.parent.mro():
        member = base.members.get(one.name)
        if member is not None and not member.is_alias and member.docstring is not None:
            one.docstring = griffe.Docstring(member.docstring.value, parent=one)
            return


def _names(one: Any) -> set[str]:
    """Names that a docstring may describe: parameters and public members."""
    if one.is_function:
        return {parameter.name.lstrip("*") for parameter in one.parameters}
    if one.is_class:
        inherited = {name for base in one.mro() for name in base.members}
        return {*one.members, *inherited, *(parameter.name.lstrip("*") for parameter in one.parameters)}
    return {*one.members} if one.is_module else set()


def _linked(code: re.Match[str], at: Any, documented: dict[str, str]) -> str:
    """A name in code as a link to its place, if it has one."""
    if not re.fullmatch(r"[A-Za-z_][\w.]*", code[2]):
        return code[0]
    identifier = _identifier(code[2], at, documented)
    return f"[{code[0]}][{identifier}]" if identifier and identifier != documented.get(at.path) else code[0]


def _identifier(name: str, at: Any, documented: dict[str, str]) -> str | None:
    """The identifier on a page of what a docstring calls by this name: `Reward`, `Reward.of` or `compose.Metric`."""
    owner, _, last = name.rpartition(".")
    with contextlib.suppress(griffe.NameResolutionError, griffe.AliasResolutionError, KeyError):
        first, dot, rest = name.partition(".")
        path = at.resolve(first) + dot + rest
        if path in documented:
            return documented[path]
        parent = path.rpartition(".")[0]
        if owner and parent in documented and at.modules_collection[path].docstring is not None:
            return f"{documented[parent]}.{last}"
    ends = [identifier for path, identifier in documented.items() if path.endswith(f".{name}")]
    return ends[0] if owner and len(ends) == 1 else None
