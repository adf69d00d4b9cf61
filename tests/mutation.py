"""How many small faults the tests notice: `python -m tests.mutation --count 200 --seed 0`.

Mutants are drawn from all of the product's code: a comparison turned round, `and` for `or`, a number off by one, an
arithmetic operator exchanged, a condition negated. The tests that run a mutant's line, as a run with coverage says
(`pip install pytest-cov`; it is kept in build/mutation), are run against it until one fails.

To compare two commits, run it in a worktree of each, with the same count and seed.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "mutation"
PARTS = ("reward", "verifiers", "integrations", "benchmarks", "cli")
MOST_TESTS = 40  # of a mutant, those of files with the fewest tests first
TIMEOUT_S = 180
COMPARISONS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*"}


@dataclass(frozen=True)
class Mutant:
    """One change. span: of the text that is replaced, in bytes of the file."""

    path: str
    line: int
    span: tuple[int, int]
    text: str


def mutants_of(path: str, source: str) -> Iterator[Mutant]:
    """All of a file. Annotations and docstrings are left alone."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    def between(left: ast.expr, right: ast.expr, text: str) -> Mutant:
        return Mutant(path, left.lineno, (place(left)[1], place(right)[0]), f" {text} ")

    encoded = source.encode()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
                yield between(left, right, COMPARISONS[type(op)])
            case ast.BoolOp(op=op, values=[left, right]):
                yield between(left, right, "or" if isinstance(op, ast.And) else "and")
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                if not any(isinstance(side, ast.Constant | ast.JoinedStr) for side in (left, right)):
                    yield between(left, right, OPERATORS[type(op)])
            case ast.Constant(value=value) if type(value) is int:
                yield Mutant(path, node.lineno, place(node), str(value + 1))
            case ast.If(test=test) | ast.IfExp(test=test) if ast.unparse(test) != "TYPE_CHECKING":
                text = encoded[slice(*place(test))].decode()
                yield Mutant(path, test.lineno, place(test), f"(not ({text}))")


def drawn(count: int, seed: int) -> list[Mutant]:
    """Those of this seed that can still be parsed."""
    found: list[Mutant] = []
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.py")):
            found += sorted(mutants_of(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")), key=str)
    random.Random(seed).shuffle(found)
    return [one for one in found[: 2 * count] if _is_valid(changed(one))][:count]


def changed(mutant: Mutant) -> str:
    """The source of its file with the change."""
    source = (ROOT / mutant.path).read_bytes()
    return (source[: mutant.span[0]] + mutant.text.encode() + source[mutant.span[1] :]).decode()


def _is_valid(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def measure_coverage(arguments: list[str]) -> None:
    """Run the tests once, with which lines each of them runs."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    settings = FOLDER / "coveragerc"
    include = "\n    ".join(f"{ROOT / part}/*" for part in PARTS)
    settings.write_text(f"[run]\nbranch = True\ndata_file = {FOLDER / 'coverage'}\ninclude =\n    {include}\n")
    options = [
        "--cov",
        f"--cov-config={settings}",
        "--cov-context=test",
        "--cov-report=json:build/mutation/totals.json",
    ]
    subprocess.run([sys.executable, "-m", "pytest", "-q", *options, *arguments], cwd=ROOT, check=False)


def tests_of(mutant: Mutant) -> list[str]:
    """The tests that run its line, at most `MOST_TESTS`."""
    from coverage.numbits import numbits_to_nums

    with sqlite3.connect(FOLDER / "coverage") as database:
        query = (
            "select context.context, arc.fromno from arc join file on file.id = arc.file_id join context on "
            "context.id = arc.context_id where file.path = ? and abs(arc.fromno) = ? or file.path = ? and "
            "abs(arc.tono) = ?"
        )
        path = str(ROOT / mutant.path)
        found = {row[0] for row in database.execute(query, (path, mutant.line, path, mutant.line))}
        lines = "select context.context, line_bits.numbits from line_bits join file on file.id = line_bits.file_id "
        lines += "join context on context.id = line_bits.context_id where file.path = ?"
        found |= {row[0] for row in database.execute(lines, (path,)) if mutant.line in set(numbits_to_nums(row[1]))}
    names = sorted(name.partition("|")[0] for name in found if "::" in name)
    files = {name: name.partition("::")[0] for name in names}
    counts = {file: sum(one == file for one in files.values()) for file in files.values()}
    return sorted(names, key=lambda name: (counts[files[name]], name))[:MOST_TESTS]


def is_killed(mutant: Mutant, tests: list[str]) -> bool:
    """Whether a test fails, or does not end in time."""
    if not tests:
        return False
    path = ROOT / mutant.path
    original = path.read_bytes()
    path.write_text(changed(mutant), encoding="utf-8")
    try:
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-n", "0", *tests]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=TIMEOUT_S, check=False)
        return run.returncode != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_bytes(original)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", nargs="*", default=["-m", "not slow", "-n", "2", "--dist", "loadfile", "tests"])
    options = parser.parse_args()
    if not (FOLDER / "coverage").exists():
        measure_coverage(options.tests)
    results = []
    for number, mutant in enumerate(drawn(options.count, options.seed), 1):
        tests = tests_of(mutant)
        results.append({"path": mutant.path, "line": mutant.line, "text": mutant.text, "tests": len(tests)})
        results[-1]["killed"] = is_killed(mutant, tests)
        sys.stdout.write(f"{number} {results[-1]}\n")
        (FOLDER / f"mutants-{options.seed}.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{sum(bool(one['killed']) for one in results)} of {len(results)} killed\n")


if __name__ == "__main__":
    main()
