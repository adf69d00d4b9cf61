"""How many small faults the tests notice: `python -m tests.mutation --count 200 --seed 0`.

Mutants are drawn from all of the product's code: a comparison turned round, `and` for `or`, a number off by one, an
arithmetic operator exchanged, a condition negated. All of them are written into the sources at once, each behind a
switch, an environment variable. The tests run once with none on, which says who reaches which mutant; then those tests
run with one on, until one fails. What fails without a mutant counts for nothing.

The sources are put back at the end, but not by a run that is killed: run it in a worktree without changes, with an
environment of its own. Two commits are compared by a run in each, with the same count and seed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import subprocess
import sys
import sysconfig
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "mutation"
SWITCHES = Path(sysconfig.get_path("purelib")) / "_mutants.py"  # for every process of this environment
PARTS = ("reward", "verifiers", "integrations", "benchmarks", "cli")
MOST_TESTS = 40  # of a mutant, those of files with the fewest tests first
TIMEOUT_S = 180
COMPARISONS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*"}
SWITCH = '''"""Which mutant is on; who reaches one (`tests/mutation.py`)."""
import os

_on = os.environ.get("MUTANT_NUMBER")
_seen = set()


def _mutant(number):
    if _on is not None:
        return number == int(_on)
    line = f"{number}\\t{os.environ.get('PYTEST_CURRENT_TEST', '').rpartition(' (')[0]}\\n"
    if line not in _seen:
        _seen.add(line)
        file = os.open(REACHED, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, line.encode())
        os.close(file)
    return False
'''


@dataclass(frozen=True)
class Mutant:
    """One change. span: of the expression that is replaced, in bytes of the file. text: what replaces it."""

    path: str
    line: int
    span: tuple[int, int]
    original: str
    text: str


def mutants_of(path: str, source: str) -> Iterator[Mutant]:
    """All of a file. Annotations, patterns of `match` and what stands in f-strings are left alone."""
    encoded = source.encode()
    starts = [0]
    for line in encoded.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def place(node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    def text(node: ast.expr) -> str:
        return encoded[slice(*place(node))].decode()

    def mutant(node: ast.expr, changed: str) -> Mutant:
        return Mutant(path, node.lineno, place(node), text(node), changed)

    for node in _evaluated(ast.parse(source)):
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
                yield mutant(node, f"({text(left)}) {COMPARISONS[type(op)]} ({text(right)})")
            case ast.BoolOp(op=op, values=[left, right]):
                yield mutant(node, f"({text(left)}) {'or' if isinstance(op, ast.And) else 'and'} ({text(right)})")
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                if not any(isinstance(side, ast.Constant | ast.JoinedStr) for side in (left, right)):
                    yield mutant(node, f"({text(left)}) {OPERATORS[type(op)]} ({text(right)})")
            case ast.Constant(value=value) if type(value) is int:
                yield mutant(node, str(value + 1))
            case ast.If(test=test) | ast.IfExp(test=test) if ast.unparse(test) != "TYPE_CHECKING":
                yield mutant(test, f"not ({text(test)})")


def _evaluated(node: ast.AST) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "pattern"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield child
                yield from _evaluated(child)


def drawn(count: int, seed: int) -> list[Mutant]:
    """Those of this seed; of two that overlap, the first."""
    found: list[Mutant] = []
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.py")):
            found += sorted(mutants_of(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")), key=str)
    random.Random(seed).shuffle(found)
    chosen: list[Mutant] = []
    for one in found:
        spans = [other.span for other in chosen if other.path == one.path]
        if len(chosen) < count and all(one.span[1] <= start or end <= one.span[0] for start, end in spans):
            chosen.append(one)
    return chosen


def write_switches(mutants: Sequence[Mutant]) -> dict[Path, bytes]:
    """Write all of them into the sources -> what the changed files held."""
    held = {}
    SWITCHES.write_text(SWITCH.replace("REACHED", repr(str(FOLDER / "reached"))), encoding="utf-8")
    for name in {one.path for one in mutants}:
        path = ROOT / name
        source = held[path] = path.read_bytes()
        for number, one in sorted(enumerate(mutants), key=lambda item: item[1].span, reverse=True):
            if one.path == name:
                switched = f"({one.text} if _mutant({number}) else ({one.original}))".encode()
                source = source[: one.span[0]] + switched + source[one.span[1] :]
        importing = b"from _mutants import _mutant"
        future = b"from __future__ import annotations\n"
        if future in source:
            source = source.replace(future, future[:-1] + b"; " + importing + b"\n", 1)
        else:
            source = importing + b"\n" + source
        path.write_bytes(source)
    return held


def run_tests(
    arguments: Sequence[str], mutant: int | None = None, timeout: float | None = None
) -> subprocess.CompletedProcess[str] | None:
    """Run pytest; None out of time."""
    # no name of ours: the tests take those out of the environment
    environment = dict(os.environ, OMP_NUM_THREADS="1") | ({} if mutant is None else {"MUTANT_NUMBER": str(mutant)})
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", *arguments]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, env=environment)
    except subprocess.TimeoutExpired:
        return None


def tests_by_mutant(arguments: Sequence[str]) -> dict[int, list[str]]:
    """Run the tests once, with no mutant on -> those that reach each, at most `MOST_TESTS`."""
    run = run_tests(arguments)
    assert run is not None
    (FOLDER / "reach.log").write_text(run.stdout + run.stderr, encoding="utf-8")
    failed = set(re.findall(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", run.stdout, re.MULTILINE))
    found = defaultdict(set)
    for line in (FOLDER / "reached").read_text(encoding="utf-8").splitlines():
        number, _, test = line.partition("\t")
        if "::" in test and test not in failed:
            found[int(number)].add(test)
    chosen = {}
    for mutant, tests in found.items():
        counts = Counter(test.partition("::")[0] for test in tests)
        order = sorted(tests, key=lambda test: (counts[test.partition("::")[0]], test))
        chosen[mutant] = order[:MOST_TESTS]
    return chosen


def is_killed(number: int, tests: Sequence[str]) -> bool:
    """Whether a test fails with this mutant, or does not end in time."""
    arguments = ["-x", "-n", "0", *tests]
    run = run_tests(arguments, number, TIMEOUT_S) if tests else None
    if run is None or run.returncode <= 1:
        return bool(tests) and (run is None or run.returncode == 1)
    # Nothing was collected: by the mutant, or always?
    without = run_tests(arguments, timeout=TIMEOUT_S)
    return without is not None and without.returncode == 0


def killed(mutants: Sequence[Mutant], arguments: Sequence[str], processes: int) -> Iterator[dict[str, object]]:
    """Each mutant, by how many tests it is reached, and whether one fails, or does not end in time."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "reached").write_bytes(b"")
    held = write_switches(mutants)
    try:
        tests = tests_by_mutant(arguments)

        def judge(number: int) -> dict[str, object]:
            own = tests.get(number, [])
            return {**asdict(mutants[number]), "tests": len(own), "killed": is_killed(number, own)}

        with ThreadPoolExecutor(processes) as pool:
            yield from pool.map(judge, range(len(mutants)))
    finally:
        for path, source in held.items():
            path.write_bytes(source)
        SWITCHES.unlink()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--tests", nargs=argparse.REMAINDER, default=["-m", "not slow", "-n", "2", "--dist", "loadfile", "tests"]
    )
    options = parser.parse_args()
    results = []
    for result in killed(drawn(options.count, options.seed), options.tests, options.processes):
        results.append(result)
        sys.stdout.write(f"{result}\n")
        (FOLDER / f"mutants-{options.seed}.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{sum(bool(one['killed']) for one in results)} of {len(results)} killed\n")


if __name__ == "__main__":
    main()
