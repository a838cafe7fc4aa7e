"""Calls that carry out data, or write what a person did not ask for, are nowhere in the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.offenders import offenders

SOURCE = Path(__file__).parents[2] / "src"
FORBIDDEN_MODULES = {
    "pickle",
    "cPickle",
    "dill",
    "cloudpickle",
    "marshal",
    "shelve",
    "joblib",
    "diskcache",
    "commands",
}
FORBIDDEN_NAMES = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_ATTRIBUTES = {
    *(("os", "system"), ("os", "popen"), ("yaml", "load"), ("yaml", "unsafe_load"), ("yaml", "full_load")),
    *(("jinja2", "Environment"), ("jinja2", "Template"), ("tempfile", "mktemp")),
}
_WORDS = {*FORBIDDEN_MODULES, *FORBIDDEN_NAMES, *(name for _, name in FORBIDDEN_ATTRIBUTES), "shell"}
SUSPECT = re.compile(rf"\b(?:{'|'.join(_WORDS)})\b")
"""A file without one of these words has no offence: most files need not be parsed."""


def offences(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] in FORBIDDEN_MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in FORBIDDEN_MODULES:
            yield str(node.module)
        elif isinstance(node, ast.Call):
            yield from _of_call(node)


def _of_call(node: ast.Call) -> Iterator[str]:
    called = node.func
    if isinstance(called, ast.Name) and called.id in FORBIDDEN_NAMES:
        yield called.id
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
        name = called.value.id, called.attr
        safe = name == ("yaml", "load") and any("Safe" in ast.dump(word) for word in node.keywords)
        if name in FORBIDDEN_ATTRIBUTES and not safe:
            yield f"{called.value.id}.{called.attr}"
    if any(word.arg == "shell" and getattr(word.value, "value", True) for word in node.keywords):
        yield "shell=True"


def test_no_file_carries_out_data() -> None:
    with offenders() as case:
        for path in sorted(SOURCE.rglob("*.py")):
            with case(str(path.relative_to(SOURCE))):
                text = path.read_text(encoding="utf-8")
                assert SUSPECT.search(text) is None or list(offences(ast.parse(text))) == []


def test_the_search_finds_what_it_looks_for() -> None:
    lines = ("import pickle", "from marshal import loads", "eval('1')", "yaml.load(text)", "os.system('ls')")
    for line in (*lines, "run(x, shell=True)"):
        assert SUSPECT.search(line) and list(offences(ast.parse(line))), line
