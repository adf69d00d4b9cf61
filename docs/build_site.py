"""Assembles the sources of the documentation site: `make docs` builds it, `make docs-serve` serves it.

    python docs/build_site.py

writes build/docs/pages, the Markdown pages of the site, and build/docs/nav.yml, its navigation, from which `mkdocs.yml`
builds (mkdocs and zensical alike). Pages are docs/**/*.md, some files of the root, the examples with their code, and
what reference_pages.py makes from the code. docs/nav.yml orders the pages; an entry that ends with `/` stands for all
generated pages of that folder. A link to a file that is no page becomes its path: the site needs no repository.
"""

import ast
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
DESTINATION = ROOT / "build" / "docs"
ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security-policy.md", "CHANGELOG.md": "changelog.md"}
"""Files of the root that are pages, and their names on the site. README.md is none: the site begins with index.md."""
IMAGES = {".png", ".svg"}
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\]|!\[[^\]]*\]\([^)]*\))*)\]\(([^()\s]+)\)")
FENCE = re.compile(r"\s*(`{3,}|~{3,})")


def page_sources(root: Path = ROOT) -> dict[str, str]:
    """Files of the repository that are pages of the site: path in the repository -> path on the site."""
    pages = {
        path.relative_to(root).as_posix(): path.relative_to(root / "docs").as_posix()
        for path in sorted((root / "docs").rglob("*.md"))
    }
    examples = {
        f"examples/{path.name}": f"examples/{path.stem}.md" for path in sorted((root / "examples").glob("*.py"))
    }
    return {**pages, **{name: page for name, page in ROOT_PAGES.items() if (root / name).exists()}, **examples}


def example_page(source: str) -> str:
    """An example as a page: its docstring, whose first line up to a colon is the title, then the code.

    Paragraphs of commands become blocks. Raises ValueError for an example without a docstring.
    """
    tree = ast.parse(source)
    docstring = ast.get_docstring(tree)
    if docstring is None:
        raise ValueError("an example begins with a docstring: its first line is the title of its page")
    first, *paragraphs = re.split(r"\n\s*\n", docstring)
    title, colon, rest = first.partition(": ")
    texts = [f"# {title.rstrip('.')}", *([rest[0].upper() + rest[1:]] if colon else [])]
    commands = re.compile(r"(pip install|python examples/)")
    texts += [f"```sh\n{text}\n```" if commands.match(text) else text for text in paragraphs]
    code = "\n".join(source.splitlines()[tree.body[0].end_lineno :]).strip("\n")
    return "\n\n".join([*texts, f"```python\n{code}\n```"]) + "\n"


def link_rewriter(page: str, pages: dict[str, str], root: Path = ROOT) -> Callable[[re.Match[str]], str]:
    """What replaces a link on a page of the repository (`page`, its path there).

    Raises ValueError if the link leads to a file that does not exist.
    """

    def replacement(link: re.Match[str]) -> str:
        picture, text, target = link.groups()
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return link[0]
        path, mark, anchor = target.partition("#")
        there = os.path.normpath(PurePosixPath(page).parent / path)
        if (root / there / "README.md").exists() or (root / there / "index.md").exists():
            there = f"{there}/{'index' if (root / there / 'index.md').exists() else 'README'}.md"
        if not (root / there).exists():
            raise ValueError(f"{page}: a link to {target}, which does not exist")
        if there == "README.md":
            there = "docs/index.md"
        if there in pages:
            place = pages[there]
        elif there.startswith("docs/") and PurePosixPath(there).suffix in IMAGES:
            place = there.removeprefix("docs/")
        else:
            return text if f"`{there}`" in text else f"{text} (`{there}`)"
        target = os.path.relpath(place, PurePosixPath(pages[page]).parent) + mark + anchor
        link_text = f"{picture}[{text}]({target})"
        return f"[{link_text}]({target})" if picture else link_text  # a figure opens in full, for phones

    return replacement


def rewrite_links(text: str, replacement: Callable[[re.Match[str]], str]) -> str:
    """The page with all links outside of code replaced."""
    lines = list[str]()
    fence = ""
    for line in text.splitlines():
        if mark := FENCE.match(line):
            if not fence:
                fence = mark[1]
            elif line.strip().startswith(fence):
                fence = ""
            lines.append(line)
        else:
            lines.append(line if fence else _outside_code(line, replacement))
    return "\n".join(lines) + "\n"


def _outside_code(line: str, replacement: Callable[[re.Match[str]], str]) -> str:
    """The line with its links replaced. A link's text may be code, but no link begins within code."""
    code = [match.span() for match in re.finditer(r"(`+).+?\1(?!`)", line)]
    return LINK.sub(
        lambda link: link[0] if any(start < link.start() < end for start, end in code) else replacement(link), line
    )


def navigation(entries: list[Any], generated: list[str]) -> list[Any]:
    """The entries of nav.yml with the generated pages in place of entries that end with `/`, in their order."""
    nav = list[Any]()
    for entry in entries:
        if isinstance(entry, str):
            nav.append(entry)
            continue
        ((title, value),) = entry.items()
        if isinstance(value, list):
            nav.append({title: navigation(value, generated)})
        elif value.endswith("/"):
            if pages := [page for page in generated if page.startswith(value)]:
                nav.append({title: pages})
        else:
            nav.append({title: value})
    return nav


def assemble(destination: Path = DESTINATION, root: Path = ROOT) -> list[str]:
    """Write pages and navigation of the site into a folder, in place of what is there; return the pages' paths.

    Raises ValueError for a link to a file that does not exist, and for a page that two sources make.
    """
    sources = page_sources(root)
    texts = dict[str, str]()
    for name, page in sources.items():
        text = (root / name).read_text(encoding="utf-8")
        if name.endswith(".py"):
            texts[page] = example_page(text)
        else:
            texts[page] = rewrite_links(text, link_rewriter(name, sources, root))
    generated = generated_pages()
    if twice := sorted(texts.keys() & generated.keys()):
        raise ValueError(f"pages that two sources make: {', '.join(twice)}")
    entries = yaml.safe_load((root / "docs" / "nav.yml").read_text(encoding="utf-8"))
    nav = navigation(entries, [*generated])

    folder = destination / "pages"
    shutil.rmtree(folder, ignore_errors=True)
    for page, text in {**texts, **generated}.items():
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        (folder / page).write_text(text, encoding="utf-8")
    for path in (root / "docs").rglob("*"):
        if path.suffix in IMAGES | {".css", ".js"}:
            place = folder / path.relative_to(root / "docs")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
    nav_text = yaml.safe_dump({"nav": nav}, sort_keys=False, allow_unicode=True)
    (destination / "nav.yml").write_text(nav_text, encoding="utf-8")
    return [*texts, *generated]


def generated_pages() -> dict[str, str]:
    """Pages made from the code: path on the site, such as reference/cli/score.md -> Markdown.

    Each begins with a line `# Title`, which is its title in the navigation too; their order is that of the navigation.
    A folder's `index.md` is its first page. Links between pages are relative; links to other pages of the site too.
    """
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        import reference_pages
    except ModuleNotFoundError as error:
        if error.name != "reference_pages":
            raise
        return {}
    finally:
        sys.path.pop(0)
    pages: dict[str, str] = reference_pages.reference_pages()
    return pages


if __name__ == "__main__":
    assemble()
