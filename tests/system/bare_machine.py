"""Run in a process of its own: takes away what the arguments name, then runs the package."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.abc
import json
import os
import pkgutil
import signal
import sys
import tomllib
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from importlib import metadata
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

WITHOUT_UNIX = ("fcntl", "uvloop", "resource", "pwd", "grp", "termios")
UNIX_CALLS = (
    *("fchmod", "fchown", "pwrite", "pread", "set_blocking", "statvfs", "fork", "setsid", "getuid", "geteuid"),
    *("O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "mkfifo", "sched_getaffinity", "killpg", "uname"),
)
LIBRARIES = (
    "aiohttp",
    "filelock",
    "jinja2",
    "json_repair",
    "numpy",
    "prometheus_client",
    "pyarrow.parquet",
    "rich.live",
    "typer",
    "yaml",
)
OPTIONAL_MODULES = ("autorubric.pytest_plugin", "autorubric.training.service", "autorubric.training.adapters")


def modules_of_extras() -> list[str]:
    """Modules of all installed packages that a base install does not bring: pyproject.toml says what that is."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    with (Path(__file__).parents[2] / "pyproject.toml").open("rb") as file:
        open_ones = [Requirement(one) for one in tomllib.load(file)["project"]["dependencies"]]
    base = {"autorubric-hub"}
    while open_ones:
        one = open_ones.pop()
        name = canonicalize_name(one.name)
        if name in base or (one.marker is not None and not one.marker.evaluate({"extra": ""})):
            continue
        base.add(name)
        open_ones += [Requirement(text) for text in metadata.requires(name) or []]
    return [
        module
        for module, names in metadata.packages_distributions().items()
        if base.isdisjoint(map(canonicalize_name, names))
    ]


class Blocked(importlib.abc.MetaPathFinder):
    def __init__(self, names: Sequence[str]) -> None:
        self.names = frozenset(names)

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def take_away(names: Sequence[str]) -> None:
    assert not [name for name in sys.modules if name.startswith("autorubric")]
    for name in names:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Blocked(names))


def take_away_unix() -> None:
    def refused(*arguments: Any) -> None:
        raise NotImplementedError

    asyncio.SelectorEventLoop.add_signal_handler = refused  # type: ignore[assignment, method-assign]


@contextlib.contextmanager
def bare_os() -> Iterator[None]:
    """What is imported meanwhile sees an `os` without the calls of Unix; libraries that have code for both do not."""
    for library in LIBRARIES:
        importlib.import_module(library)
    bare = ModuleType("os")
    vars(bare).update({name: value for name, value in vars(os).items() if name not in UNIX_CALLS})
    sys.modules["os"] = bare
    try:
        yield
    finally:
        sys.modules["os"] = os


def import_everything() -> tuple[int, dict[str, str]]:
    """How many modules there are, and which need a package that is missing."""
    import autorubric

    names = [
        found.name
        for found in pkgutil.walk_packages(autorubric.__path__, "autorubric.")
        if not found.name.startswith(OPTIONAL_MODULES) and not found.name.endswith("__main__")
    ]
    lacking = {}
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            lacking[name] = str(error.name)
    return len(names), lacking


async def two_interrupts() -> int:
    from autorubric.background import on_shutdown

    heard: list[int] = []
    with on_shutdown(lambda: heard.append(1)):
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
            while not heard:
                await asyncio.sleep(0.001)
            heard.clear()
    return 2


def run_jobs(queries: Path, dataset: Path, folder: Path) -> dict[str, Any]:
    from autorubric.cli.app import run

    labelled = Path(__file__).parents[1] / "data" / "essay_grading_dataset.json"
    offline = ["--models", "builtin/offline"]
    synthesize = ["synthesize", str(queries), "--out", str(folder / "rubrics"), *offline]
    grade = ["grade", str(dataset), "--judge", "builtin/offline", "-o", str(folder / "graded")]
    statuses = [run(arguments) for arguments in (synthesize, grade, synthesize, grade)]
    statuses.append(run(["status", str(folder / "graded")]))
    statuses.append(run(["doctor", "--out", str(folder)]))
    statuses.append(run(["lint", str(dataset), "--fail-on", "error"]))
    statuses.append(run(["convert", str(dataset), str(folder / "rows.jsonl"), "--to", "rar"]))
    statuses.append(run(["grade", str(labelled), "--judge", "builtin/offline", "-o", str(folder / "labelled")]))
    statuses.append(run(["agree", str(folder / "labelled")]))
    selected = [
        "select",
        str(folder / "rubrics" / "final.jsonl"),
        "--judge",
        "builtin/offline",
        "--sample",
        "builtin/offline",
    ]
    statuses.append(run([*selected, "-k", "2", "--threshold", "0.1", "-o", str(folder / "selected")]))
    statuses.append(run(["report", str(folder / "labelled"), "-o", str(folder / "report.html")]))
    statuses.append(run(["verify", str(folder / "report.html"), str(folder / "labelled")]))
    return {"statuses": statuses}


def refused_commands(queries: Path, checked: Path, folder: Path) -> list[int]:
    """Exit statuses of commands that need an extra; each says which one on standard error."""
    from autorubric.cli.app import run

    out = ["-o", str(folder / "refused")]
    judge = ["--judge", "builtin/offline"]
    full = ["--profile", "full", "--models", "builtin/offline"]
    rubric = folder / "rubric.json"
    rubric.write_text('[{"name": "Ice", "requirement": "Names ice.", "weight": 1}]', encoding="utf-8")
    with zipfile.ZipFile(folder / "answers.xlsx", "w") as book:
        book.writestr("xl/workbook.xml", "<workbook/>")
    return [
        run(["lint", str(folder / "answers.xlsx")]),
        run(["grade", str(checked), *judge, *out]),
        run(["grade", str(checked), *judge, "--evidence", *out]),
        run(["synthesize", str(queries), *full, *out]),
        run(["convert", str(checked), str(folder / "refused.parquet"), "--to", "rurl"]),
        run(["convert", str(rubric), str(folder / "refused.toml"), "--to", "verifiers"]),
        run(["view", str(folder / "graded")]),
    ]


def checks_one_by_one(examples: list[tuple[str, dict[str, Any], str]]) -> dict[str, str]:
    """The message of each check that is refused. Any other exception than the refusal ends the process."""
    from autorubric.checks import run_check
    from autorubric.errors import MissingPackageError

    said: dict[str, str] = {}
    for name, parameters, submission in examples:
        try:
            run_check(name, parameters, submission)
        except MissingPackageError as error:
            said[name] = str(error)
    return said


def main() -> None:
    kind, *paths = sys.argv[1:]
    # Text files are read and written in a named encoding; elsewhere the default is not UTF-8.
    warnings.filterwarnings("error", category=EncodingWarning, module=r"autorubric")
    if kind == "unix":
        take_away(WITHOUT_UNIX)
        take_away_unix()
    else:
        take_away(modules_of_extras())
    with bare_os() if kind == "unix" else contextlib.nullcontext():
        imported, lacking = import_everything()
    said: dict[str, Any] = {"imported": imported, "lacking": lacking}
    queries, dataset, checked, folder = map(Path, paths)
    said |= run_jobs(queries, dataset, folder)
    if kind == "extras":
        said["refused"] = refused_commands(queries, checked, folder)
        said["checks"] = checks_one_by_one(json.load(sys.stdin))
    said["interrupts"] = asyncio.run(two_interrupts())
    print("\n" + json.dumps(said))


if __name__ == "__main__":
    main()
