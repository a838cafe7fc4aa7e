"""How many small faults in a module its tests notice.

    python tools/mutate.py src/autorubric/core/scoring.py --most 15
    python tools/mutate.py src/autorubric/llm/budget.py --tests tests/llm/test_budget.py

Each mutant changes one operator, comparison, constant, condition or return value. It is killed when a test fails or
the time limit passes. The tests run in a copy of the repository, one process at a time, so nothing here is changed.
Without --tests these are the test files in the folder that mirrors the module's, those that import the module or what
it defines, and the doctests of the module. --lines chooses the mutants of some lines, all of them.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import functools
import importlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[1]
HEAVY = (
    "pytest",
    "hypothesis",
    "numpy",
    "scipy.stats",
    "pyarrow.parquet",
    "pydantic",
    "aiohttp.web",
    "typer",
    "yaml",
)
"""Imported once; each run of tests is a fork."""

_ALREADY_IMPORTED = "ignore::pytest.PytestAssertRewriteWarning"

_COMPARES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
}
_SKIPPED_FIELDS = {"annotation", "returns", "decorator_list", "bases", "keywords_of_class"}


@dataclass(frozen=True)
class Mutant:
    """One change of a module: where, what it is, and the whole source with it."""

    line: int
    change: str
    source: str


def mutants(source: str) -> list[Mutant]:
    """All mutants of a module, in the order of its lines."""
    tree = ast.parse(source)
    found = []
    for path, node in _places(tree, ()):
        for replaced in _changed(node):
            whole = _with(tree, path, replaced)
            before, after = (" ".join(ast.unparse(one).split())[:60] for one in (node, replaced))
            found.append(Mutant(getattr(node, "lineno", 0), f"{before}  ->  {after}", ast.unparse(whole)))
    return found


def _places(
    node: ast.AST, path: tuple[tuple[str, int | None], ...]
) -> Iterator[tuple[tuple[tuple[str, int | None], ...], ast.AST]]:
    """Every node that a run executes, with the way to it from the root; no annotations, docstrings or messages."""
    if isinstance(node, ast.JoinedStr | ast.Raise) or _is_docstring(node):
        return
    yield path, node
    for name, value in ast.iter_fields(node):
        if name in _SKIPPED_FIELDS:
            continue
        if isinstance(value, ast.AST):
            yield from _places(value, (*path, (name, None)))
        elif isinstance(value, list):
            for place, one in enumerate(value):
                if isinstance(one, ast.AST):
                    yield from _places(one, (*path, (name, place)))


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _with(tree: ast.Module, path: tuple[tuple[str, int | None], ...], replaced: ast.AST) -> ast.Module:
    whole = copy.deepcopy(tree)
    parent: ast.AST = whole
    for name, place in path[:-1]:
        value = getattr(parent, name)
        parent = value if place is None else value[place]
    name, place = path[-1]
    if place is None:
        setattr(parent, name, replaced)
    else:
        getattr(parent, name)[place] = replaced
    return ast.fix_missing_locations(whole)


def _changed(node: ast.AST) -> list[ast.AST]:
    """What a node is replaced by, one mutant each."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return [node.operand]
    new = copy.deepcopy(node)
    match new:
        case ast.Compare(ops=[op]) if type(op) in _COMPARES:
            new.ops = [_COMPARES[type(op)]()]
        case ast.BinOp(op=op) if type(op) in _OPERATORS:
            new.op = _OPERATORS[type(op)]()
        case ast.BoolOp(op=op):
            new.op = ast.Or() if isinstance(op, ast.And) else ast.And()
        case ast.Constant(value=int() | float() as value):
            new.value = not value if isinstance(value, bool) else value + 1
        case ast.Return(value=ast.expr() as given) if ast.unparse(given) != "None":
            new.value = ast.Constant(None)
        case ast.If(test=test) | ast.IfExp(test=test) if isinstance(test, ast.Name | ast.Call | ast.Attribute):
            new.test = ast.UnaryOp(ast.Not(), test)
        case _:
            return []
    return [new]


def tests_of(module: Path) -> list[str]:
    """The test files of a module, and the module itself for its doctests.

    These are the files in the folder of `tests` that mirrors the module's, and those that import the module or,
    from wherever it is published, a class or function that the module defines.
    """
    dotted = ".".join(module.relative_to("src").with_suffix("").parts).removesuffix(".__init__")
    package, _, name = dotted.rpartition(".")
    defined = {
        one.name
        for one in ast.parse((ROOT / module).read_text(encoding="utf-8")).body
        if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not one.name.startswith("_")
    }
    mirror = ROOT / "tests" / module.parent.relative_to("src/autorubric")

    def concerns(path: Path) -> bool:
        return path.parent == mirror or any(
            source == dotted or (source, one) == (package, name) or one in defined for source, one in _imported(path)
        )

    # What kills most mutants comes first: a run ends with its first failure.
    files = sorted(
        (ROOT / "tests").rglob("test_*.py"),
        key=lambda path: (not path.stem.startswith(f"test_{name}"), path.parent != mirror, path),
    )
    return [*(str(path.relative_to(ROOT)) for path in files if concerns(path)), str(module)]


@functools.cache
def _imported(path: Path) -> list[tuple[str, str]]:
    """Modules of the package that a file imports, each with a name that it imports from there."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(one.name, "") for one in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("autorubric"):
            found += [(node.module or "", one.name) for one in node.names]
    return found


@contextlib.contextmanager
def copied() -> Iterator[Path]:
    """A copy of what git knows of the repository."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for name in filter(None, os.fsdecode(listed).split("\0")):
            if (ROOT / name).is_file():
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, Path(folder) / name)
        yield Path(folder)


def _run_tests(folder: Path, tests: list[str]) -> NoReturn:
    """Leave this process with the status of pytest; what it prints is in `told.txt`."""
    status = 70
    try:
        os.setsid()
        os.chdir(folder)
        # Before the installed package, which pytest would import for its plugin.
        sys.path.insert(0, str(folder / "src"))
        os.environ["PYTHONPATH"] = str(folder / "src")
        told = os.open("told.txt", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        for descriptor in (0, 1, 2):
            os.dup2(told, descriptor)
        import pytest

        status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-W", _ALREADY_IMPORTED, *tests]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def status_of(folder: Path, tests: list[str], seconds: float) -> int | None:
    """The status that pytest ends with in a process of its own; None where the time is up."""
    child = os.fork()
    if child == 0:
        _run_tests(folder, tests)
    deadline = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.02)


def measure(module: Path, tests: list[str], folder: Path, settings: argparse.Namespace) -> tuple[int, int]:
    """How many of the chosen mutants of a module are killed, and how many there are; survivors are printed."""
    source = (ROOT / module).read_text(encoding="utf-8")
    # Doctests last: collecting a module sets it as an attribute of its package, over a function of the same name.
    tests = sorted(tests, key=lambda one: one == str(module))
    began = time.monotonic()
    if status_of(folder, tests, 600.0) != 0:
        told = (folder / "told.txt").read_text(encoding="utf-8")
        sys.exit(f"{module}: its tests fail without a mutant: {' '.join(tests)}\n{told}")
    limit = settings.timeout or 3 * (time.monotonic() - began) + 10
    every = mutants(source)
    wanted = [one for one in every if not settings.lines or one.line in settings.lines]
    most = len(wanted) if settings.lines else min(settings.most, len(wanted))
    chosen = random.Random(settings.seed).sample(wanted, most)
    killed = 0
    for mutant in sorted(chosen, key=lambda one: one.line):
        (folder / module).write_text(mutant.source, encoding="utf-8")
        survived = status_of(folder, tests, limit) == 0
        killed += not survived
        if survived:
            print(f"  {module}:{mutant.line}: {mutant.change}", flush=True)
    (folder / module).write_text(source, encoding="utf-8")
    print(f"{module}: {killed} of {len(chosen)} killed ({len(every)} mutants in all)", flush=True)
    return killed, len(chosen)


def main() -> None:
    """Measure the modules of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="+", type=Path, help="paths of modules, from the root of the repository")
    parser.add_argument("--tests", nargs="+", help="test files that run; found by the module's name without it")
    parser.add_argument("--most", type=int, default=12, help="mutants of a module, chosen at random")
    parser.add_argument("--lines", type=int, nargs="+", help="mutate only these lines, in every way")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, help="seconds that tests may take; by default 3 times the first run")
    settings = parser.parse_args()
    sys.dont_write_bytecode = True
    for name in HEAVY:
        importlib.import_module(name)
    with copied() as folder:
        counts = [measure(one, settings.tests or tests_of(one), folder, settings) for one in settings.modules]
    killed, total = (sum(column) for column in zip(*counts, strict=True))
    print(f"{killed} of {total} mutants killed ({100 * killed / max(total, 1):.0f} %)")


if __name__ == "__main__":
    main()
