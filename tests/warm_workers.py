"""Test workers that are forked from one process that has imported all tests, as commands are in `warm_commands`."""

from __future__ import annotations

import gc
import linecache
import os
import sys
from collections.abc import Generator
from contextlib import redirect_stdout, suppress
from importlib import import_module
from pathlib import Path

import pytest

from tests import collected
from tests.warm_commands import load, serve


class _AllTests:
    """Collects all tests, which the workers take over."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        names = [".".join(file.with_suffix("").parts) for file in sorted(Path("tests").rglob("test_*.py"))]
        # In a fresh clone, a second process compiles half of them meanwhile.
        second = None if Path("tests/rows/__pycache__").exists() else os.fork()
        if second == 0:
            _import(names[len(names) // 2 :])
            os._exit(0)
        _import(names)
        if second:
            os.waitpid(second, 0)
        return (yield)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            collected.reports.append(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        collected.sessions.append(session)
        gc.freeze()


def _import(names: list[str]) -> None:
    for name in names:
        with suppress(Exception, pytest.skip.Exception):  # pytest tries again, and reports it
            import_module(name)


if __name__ == "__main__":
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        # What hypothesis looks up once in a process, it looks up in its first test: sooner while little is imported.
        pytest.main(["tests/core/test_plain_criterion.py"])
        pytest.main(["--collect-only", "-qq"], plugins=[_AllTests()])
        linecache.clearcache()  # each doctest would see whether any of the files has changed
    gc.unfreeze()  # else each command that is loaded counts what is frozen
    load()
    with suppress(ImportError):  # of the packages of an extra
        from autorubric.checks import language

        language._load_profiles()
        language._load_second_detector()
    serve(sys.executable)
