"""Docstrings as Markdown: indented code becomes a block. Sections such as `Args:` are left to mkdocstrings.

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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import griffe

_PAGES = Path(__file__).parents[2] / "build" / "docs" / "pages"
_SECTIONS = re.compile(r"^(?:Args|Attributes|Returns|Yields|Raises):$", re.MULTILINE)
_SEE_MODULE = "See the module."
_CODE = re.compile(r"(`+)(.+?)\1(?!`)")


def docstring_markdown(docstring: str) -> str:
    """The Markdown of a docstring, with its sections as they are."""
    text, sections = docstring_parts(docstring)
    return "\n\n".join([*map(_block, _blocks(text)), *filter(None, [escaped(sections)])])


def docstring_parts(docstring: str) -> tuple[str, str]:
    """What stands before the sections, and the sections."""
    clean = inspect.cleandoc(docstring)
    first = _SECTIONS.search(clean)
    return (clean, "") if first is None else (clean[: first.start()].rstrip(), clean[first.start() :])


def described_parameters(docstring: str) -> dict[str, str]:
    """Parameter -> meaning, from the section `Args`."""
    sections = griffe.Docstring(inspect.cleandoc(docstring)).parse("google", warnings=False)
    args = [one.value for one in sections if one.kind is griffe.DocstringSectionKind.parameters]
    return {one.name: " ".join(one.description.split()) for section in args for one in section}


def summary(docstring: str) -> str:
    """The first sentence, in one line."""
    first = " ".join(next(_blocks(docstring_parts(docstring)[0]), "").split())
    sentence = re.match(r".+?(?<! al)[.?!](?=\s+[A-Z`*\d]|$)", first)
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


def _block(block: str) -> str:
    kind = _kind(block)
    if kind == "code":
        code = textwrap.dedent(block)
        return f"```{'python' if _is_python(code) else 'text'}\n{code}\n```"
    return escaped(" ".join(block.split()) if kind == "text" else block)


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
            text = docstring_markdown(docstring)
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
