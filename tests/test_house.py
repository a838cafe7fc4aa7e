"""Limits on files, functions and names."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.offenders import offenders

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PUBLISHED_MODULES = {"src/autorubric/utils.py"}
BANNED = {"utils", "helpers", "common", "base", "manager", "handler"}
PREFIXES = ("get_", "do_", "process_", "handle_")
PUBLISHED = {
    "get_item_rubric",
    "get_item_reference_submission",
    "get_item_prompt",
    "get_option_value",
    "get_effective_budget",
    "get_in_context_meta_rubric",
    "get_standalone_meta_rubric",
    "get_reasoning_effort",
    "get_thinking_config",
    "get_scores",
    "get_reports",
}
"""Names of the seed documents and of the published package, which must not change."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> list[Function]:
    return [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, Function)]


def test_a_file_keeps_to_the_limits_of_the_house() -> None:
    with offenders() as case:
        for path in SOURCES:
            with case(str(path.relative_to(ROOT))):
                lines = path.read_text(encoding="utf-8").count("\n")
                assert lines <= 400, f"{lines} lines"
                assert path.stem not in BANNED or str(path.relative_to(ROOT)) in PUBLISHED_MODULES
                for function in functions(path):
                    length = (function.end_lineno or 0) - function.lineno + 1
                    assert length <= 60, f"{function.name} has {length} lines"
                    assert function.name in PUBLISHED or not function.name.startswith(PREFIXES), function.name
                    assert not function.name.endswith("_of"), function.name


PRODUCTS = {"anthropic", "gemini", "openai", "open_instruct", "verifiers", "verl"}
"""Files may be named after the product that they serve, in each room that serves it."""


def test_a_file_name_occurs_in_one_room() -> None:
    found: dict[str, list[str]] = {}
    for path in SOURCES:
        room, name = path.parent.relative_to(ROOT / "src" / "autorubric").as_posix(), path.stem
        # A command and its function share a name, and the published modules at the root lead to the rooms.
        if room not in {"cli", "."} and not name.startswith("__") and name not in PRODUCTS:
            found.setdefault(name, []).append(room)
    assert {name: rooms for name, rooms in found.items() if len(rooms) > 1} == {}


SYSTEM_SPECIFIC = re.compile(
    r"import (fcntl|msvcrt|resource|pwd|grp|termios|uvloop)|add_signal_handler|signal\.signal\("
    r"|os\.(name\b|fchmod|chown|pwrite|pread|statvfs|set_blocking|fork|setsid|kill|getuid|uname|sync|fdatasync)"
    r"|O_(NONBLOCK|DIRECTORY|CLOEXEC|NOFOLLOW|BINARY)|sys\.platform|\"/proc/|SO_REUSE|SO_LINGER"
)


def test_two_files_hold_what_systems_do_differently() -> None:
    found = [str(path.relative_to(ROOT)) for path in SOURCES if SYSTEM_SPECIFIC.search(path.read_text("utf-8"))]
    assert found == [
        "src/autorubric/background.py",
        "src/autorubric/files/descriptors.py",
    ]


def test_no_file_names_a_machine_or_asks_for_what_is_forbidden() -> None:
    forbidden = ("import pickle", "from pickle", "unittest" + ".mock", "eval(", "shell=True")
    for path in SOURCES:
        text = path.read_text()
        found = [word for word in forbidden if word in text and f"literal_{word}" not in text]
        assert not found, f"{path}: {found}"


def test_sql_has_no_numbered_placeholders() -> None:
    """Python 3.12 warns of `?1` with values by place, and 3.14 refuses it; SQLite has `?` and `:name` for both."""
    found = [str(path) for path in SOURCES if re.search(r"[=<>(,] ?\?\d", path.read_text("utf-8"))]
    assert found == []


def test_the_demo_ends_by_naming_the_command_that_shows_its_result() -> None:
    demo = re.search(r"^demo:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert demo is not None
    *_, synthesize, _, _, last = demo[1].splitlines()
    assert "--out demo-out " in synthesize and "autorubric view demo-out" in last
