"""How many small faults in a module its tests notice.

    python -m tools.mutate src/autorubric/core/scoring.py --most 15
    python -m tools.mutate src/autorubric/llm/budget.py --tests tests/llm/test_budget.py

Each mutant changes one operator, comparison, constant, condition or return value. It is killed when a test fails or
takes far longer than without it. The tests run in copies of the repository, so nothing here is changed. Without
--tests these are the test files in the folder that mirrors the module's, those that import the module or what it
defines, and the doctests of the module. --lines chooses the mutants of some lines, all of them.

Each test runs once without a mutant, to see which lines it runs; this is kept until its file or a module changes. A
mutant gets the tests that run its statement, then those that start processes, the fastest first, as many as fit into
--seconds. A survivor may still fall to a test that did not fit.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import functools
import hashlib
import importlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from tools.mutant_runs import Job, Killing, Tracer, write_source

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

Way: TypeAlias = tuple[tuple[str, int | None], ...]
"""From the root of a tree to a node: fields, and places in those that are lists."""
Traced: TypeAlias = dict[str, dict[str, Any]]
"""What `Tracer` writes about each test, by its id."""


@dataclass(frozen=True)
class Mutant:
    """One change of a module: where, what it is, the whole source with it, and the lines of its statement."""

    line: int
    change: str
    source: str
    tree: ast.Module
    span: range


def mutants(source: str) -> list[Mutant]:
    """All mutants of a module, in the order of its lines."""
    tree = ast.parse(source)
    found = []
    for path, node in _places(tree, ()):
        for replaced in _changed(node):
            whole = _with(tree, path, replaced)
            before, after = (" ".join(ast.unparse(one).split())[:60] for one in (node, replaced))
            change, line = f"{before}  ->  {after}", getattr(node, "lineno", 0)
            found.append(Mutant(line, change, ast.unparse(whole), whole, _span(tree, path)))
    return found


def _span(tree: ast.Module, path: Way) -> range:
    """The lines of the statement at a place: the body for a function's defaults, every line outside of functions."""
    node: ast.AST = tree
    statement: ast.AST = tree
    inside = False
    for name, place in path:
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        value = getattr(node, name)
        node = value if place is None else value[place]
        statement = node if isinstance(node, ast.stmt) else statement
    if not inside or not isinstance(statement, ast.stmt):
        return range(1, sys.maxsize)
    last = statement.end_lineno or statement.lineno
    match statement:
        case ast.FunctionDef(body=[first, *_]) | ast.AsyncFunctionDef(body=[first, *_]):
            return range(first.lineno, last + 1)  # the line of `def` runs when the module is imported
        case ast.If(body=[first, *_]) | ast.While(body=[first, *_]) | ast.For(body=[first, *_]):
            last = max(statement.lineno, first.lineno - 1)
    return range(statement.lineno, last + 1)


def _places(node: ast.AST, path: Way) -> Iterator[tuple[Way, ast.AST]]:
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


def _with(tree: ast.Module, path: Way, replaced: ast.AST) -> ast.Module:
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
    """The replacements of a node, one per mutant."""
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

    These are the files in the folder of `tests` that mirrors the module's, with its subfolders that mirror no other
    package, and those that import the module or, from wherever it is published, a class or function that the module
    defines.
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
        return _mirror_of(path) == mirror or any(
            source == dotted or (source, one) == (package, name) or one in defined for source, one in _imported(path)
        )

    # What kills most mutants comes first: a run ends with its first failure.
    files = sorted(
        (ROOT / "tests").rglob("test_*.py"),
        key=lambda path: (not path.stem.startswith(f"test_{name}"), path.parent != mirror, path),
    )
    return [*(str(path.relative_to(ROOT)) for path in files if concerns(path)), str(module)]


def _mirror_of(path: Path) -> Path:
    """The folder nearest to a test file that mirrors a package; its own if only the root of the tests does."""
    tests = ROOT / "tests"
    for folder in path.parents:
        if folder == tests:
            break
        if (ROOT / "src/autorubric" / folder.relative_to(tests)).is_dir():
            return folder
    return path.parent


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
    """A copy of the files that git tracks."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        for name in filter(None, os.fsdecode(listed).split("\0")):
            if (ROOT / name).is_file():
                (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, Path(folder) / name)
        yield Path(folder)


def run_tests(folder: Path, tests: list[str], plugin: object) -> int:
    """The status that pytest ends with in a process of its own; what it prints is in `told.txt`."""
    child = os.fork()
    if child == 0:
        _run_tests(folder, tests, plugin)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _run_tests(folder: Path, tests: list[str], plugin: object) -> NoReturn:
    status = 70
    try:
        os.chdir(folder)
        # Before the installed package, which pytest would import for its plugin.
        sys.path.insert(0, str(folder / "src"))
        os.environ["PYTHONPATH"] = str(folder / "src")
        told = os.open("told.txt", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        for descriptor in (0, 1, 2):
            os.dup2(told, descriptor)
        import pytest

        # Doctests last: collecting a module sets it as an attribute of its package, over a function of the same name.
        tests = sorted(tests, key=lambda one: one.startswith("src"))
        status = int(pytest.main(["-q", "-p", "no:cacheprovider", "-W", _ALREADY_IMPORTED, *tests], [plugin]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def traced(test_files: list[str], modules: list[Path], folder: Path) -> Traced:
    """What each test runs of the modules; what is known of a file is kept in `.pytest_cache` until one changes."""
    kept = {one: _kept(one, modules) for one in test_files}
    missing = [one for one, path in kept.items() if not path.exists()]
    if missing:
        told = folder / "traced.jsonl"
        told.write_text("", encoding="utf-8")
        plugin = Tracer({str(folder / one): str(one) for one in modules}, told)
        if run_tests(folder, missing, plugin) > 1:  # some are missing, or do not start
            sys.exit(f"the tests do not run:\n{(folder / 'told.txt').read_text(encoding='utf-8')}")
        rows = [json.loads(line) for line in told.read_text(encoding="utf-8").splitlines()]
        if failed := [row["test"] for row in rows if row["failed"]]:
            print(f"left out, as they fail without a mutant: {' '.join(failed)}", flush=True)
        for one in missing:
            kept[one].parent.mkdir(parents=True, exist_ok=True)
            found = {row["test"]: row for row in rows if row["test"].partition("::")[0] == one and not row["failed"]}
            kept[one].write_text(json.dumps(found), encoding="utf-8")
    return {test: row for path in kept.values() for test, row in json.loads(path.read_text(encoding="utf-8")).items()}


def _kept(test_file: str, modules: list[Path]) -> Path:
    digest = hashlib.sha256(b"\0".join((ROOT / one).read_bytes() for one in [*modules, Path(test_file)])).hexdigest()
    return ROOT / ".pytest_cache" / "mutants" / f"{Path(test_file).stem}-{digest[:20]}.json"


def chosen_tests(mutant: Mutant, module: Path, tests: Traced, seconds: float) -> dict[str, float]:
    """The tests that a mutant gets, in their order, with the seconds that each takes."""
    ranked = []
    for test, row in tests.items():
        runs = any(line in mutant.span for line in row["lines"].get(str(module), ()))
        if runs or row["forks"]:
            ranked.append((not runs, row["seconds"], test))
    found: dict[str, float] = {}
    for _, took, test in sorted(ranked):
        if sum(found.values()) + took <= seconds:
            found[test] = took
    return found


def measure(module: Path, tests: Traced, folder: Path, settings: argparse.Namespace) -> tuple[int, int]:
    """How many of the chosen mutants of a module are killed, and how many there are; survivors are printed."""
    every = mutants((ROOT / module).read_text(encoding="utf-8"))
    wanted = [one for one in every if not settings.lines or one.line in settings.lines]
    most = len(wanted) if settings.lines else min(settings.most, len(wanted))
    chosen = sorted(random.Random(settings.seed).sample(wanted, most), key=lambda one: one.line)
    place = folder / module
    jobs = [
        Job(one.source, compile(one.tree, str(place), "exec"), chosen_tests(one, module, tests, settings.seconds))
        for one in chosen
    ]
    killers = _killers(place, jobs, folder)
    for number, job in enumerate(jobs):
        if killers[number] == Killing.UNCHANGED:  # it changes the import itself
            write_source(place, job.source)
            [killers[number]] = _killers(place, [replace(job, code=None)], folder)
    shutil.copy(ROOT / module, place)
    for mutant, job, killer in zip(chosen, jobs, killers, strict=True):
        if killer is None or settings.verbose:
            outcome = f"survives {len(job.tests)} tests" if killer is None else f"killed by {killer}"
            print(f"  {module}:{mutant.line}: {mutant.change}: {outcome}", flush=True)
    killed = sum(killer is not None for killer in killers)
    print(f"{module}: {killed} of {len(chosen)} killed ({len(every)} mutants in all)", flush=True)
    return killed, len(chosen)


def _killers(place: Path, jobs: list[Job], folder: Path) -> list[str | None]:
    """The test that kills each mutant."""
    files = {test.partition("::")[0] for job in jobs for test in job.tests}
    if not files:
        return [None for _ in jobs]
    told = folder / "killers.json"
    told.unlink(missing_ok=True)
    run_tests(folder, sorted(files), Killing(place, jobs, told))
    if told.exists():
        found: list[str | None] = json.loads(told.read_text(encoding="utf-8"))
        return found
    if any(job.code for job in jobs):
        sys.exit(f"the tests do not start:\n{(folder / 'told.txt').read_text(encoding='utf-8')}")
    return ["its import" for _ in jobs]


def main() -> None:
    """Measure the modules of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="+", type=Path, help="paths of modules, from the root of the repository")
    parser.add_argument("--tests", nargs="+", help="test files that run; found by the module's name without it")
    parser.add_argument("--most", type=int, default=12, help="mutants of a module, chosen at random")
    parser.add_argument("--lines", type=int, nargs="+", help="mutate only these lines, in every way")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0, help="seconds of tests that a mutant gets at most")
    parser.add_argument("--verbose", action="store_true", help="also print what kills each mutant")
    settings = parser.parse_args()
    for name in HEAVY:
        importlib.import_module(name)
    files = {one: settings.tests or tests_of(one) for one in settings.modules}
    counts = []
    with copied() as folder:
        every = traced(sorted({path for found in files.values() for path in found}), settings.modules, folder)
        for module, found in files.items():
            tests = {test: row for test, row in every.items() if test.partition("::")[0] in found}
            counts.append(measure(module, tests, folder, settings))
    killed, total = (sum(column) for column in zip(*counts, strict=True))
    print(f"{killed} of {total} mutants killed ({100 * killed / max(total, 1):.0f} %)")


if __name__ == "__main__":
    main()
