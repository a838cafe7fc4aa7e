"""Which tests run which lines, and runs of tests with a mutant in place."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
import threading
import time
import zlib
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

_STARTS_A_PROCESS = frozenset({"os.fork", "os.posix_spawn", "subprocess.Popen"})


class Tracer:
    """A plugin that writes a line of JSON for each test as it ends.

    Each has the `test`, its `seconds`, whether it `forks` or `failed`, and the `lines` of modules that this process
    has run.

    Args:
        modules: the paths of the modules, with the names that they have in `lines`.
        into: the file that is appended to.
    """

    def __init__(self, modules: Mapping[str, str], into: Path) -> None:
        self._modules = modules
        self._into = into
        self._lines: dict[str, set[int]] = {}
        self._forks = self._failed = False

    def pytest_sessionstart(self) -> None:
        """Listen for processes that tests start: what these run is not traced."""
        sys.addaudithook(self._heard)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Trace a test with its fixtures."""
        self._lines, self._forks, self._failed = {}, False, False
        began = time.monotonic()
        sys.settrace(self._called)
        threading.settrace(self._called)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type,unused-ignore]
            row = {
                "test": item.nodeid,
                "seconds": time.monotonic() - began,
                "forks": self._forks,
                "failed": self._failed,
                "lines": {module: sorted(lines) for module, lines in self._lines.items()},
            }
            with self._into.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember that a test failed."""
        self._failed |= report.failed

    def _heard(self, event: str, given: tuple[object, ...]) -> None:
        if event in _STARTS_A_PROCESS:
            self._forks = True

    def _called(self, frame: FrameType, event: str, given: object) -> Any:
        module = self._modules.get(frame.f_code.co_filename)
        if module is None:
            return None
        lines = self._lines.setdefault(module, set())

        def ran(frame: FrameType, event: str, given: object) -> Any:
            lines.add(frame.f_lineno)
            return ran

        return ran


@dataclass(frozen=True)
class Job:
    """A mutant and its tests, in their order, with the seconds that each usually takes.

    `code` is the compiled mutant, or None if the module is imported with it.
    """

    source: str
    code: CodeType | None
    tests: Mapping[str, float]


class Killing:
    """A plugin that runs the tests of each mutant in a process forked from the one that has collected them.

    It writes JSON: for each job the test that failed, or took far longer than it usually does; null if there
    is none; `UNCHANGED` if no function of the imported module could get the mutant's code.

    Args:
        module: the path of the module.
        jobs: the mutants.
        into: the file that is written.
    """

    UNCHANGED = "unchanged"

    def __init__(self, module: Path, jobs: list[Job], into: Path) -> None:
        self._module = module
        self._original = compile(module.read_text(encoding="utf-8"), str(module), "exec")
        self._jobs = jobs
        self._into = into
        self._failed = False

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests of each mutant, and nothing else."""
        items = {item.nodeid: item for item in session.items}
        functions = [
            one
            for one in gc.get_objects()
            if isinstance(one, FunctionType) and one.__code__.co_filename == str(self._module)
        ]
        gc.freeze()  # else each fork would copy all that the garbage collector looks through
        self._into.write_text(
            json.dumps([self._killer(job, items, functions) for job in self._jobs]), encoding="utf-8"
        )
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember that a test failed."""
        self._failed |= report.failed

    def _killer(self, job: Job, items: Mapping[str, pytest.Item], functions: list[FunctionType]) -> str | None:
        write_source(self._module, job.source)  # for the processes that tests start
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.setsid()
            if job.code is not None and not _replace(functions, self._original, job.code):
                os.write(write, f"{self.UNCHANGED}\n".encode())
                os._exit(1)
            for test, seconds in job.tests.items():
                os.write(write, f"{test}\n".encode())
                signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process
                signal.setitimer(signal.ITIMER_REAL, 20 + 10 * seconds)
                items[test].config.hook.pytest_runtest_protocol(item=items[test], nextitem=None)
                if self._failed:
                    os._exit(1)
            os._exit(0)
        os.close(write)
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(ProcessLookupError):  # what a test has started
            os.killpg(child, signal.SIGKILL)
        os.set_blocking(read, False)  # a process that has left its group may still hold the other end
        with os.fdopen(read, encoding="utf-8") as told:
            *_, last = ["its import", *(told.read() or "").splitlines()]
        return None if status == 0 else last


def write_source(module: Path, source: str) -> None:
    """Write a module so that Python cannot take bytecode of another version, of the same size and second, for its."""
    module.write_text(source, encoding="utf-8")
    os.utime(module, (0, zlib.crc32(source.encode())))


def _replace(functions: list[FunctionType], original: CodeType, code: CodeType) -> bool:
    """Give functions the code that they have in a mutant; whether one of them changed."""
    new = changed_code(original, code)
    changed = False
    for function in functions:
        found = new.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
        if found is not None:
            if found.co_freevars != function.__code__.co_freevars:
                return False
            function.__code__ = found
            changed = True
    return changed


def changed_code(original: CodeType, code: CodeType) -> dict[tuple[str, int], CodeType]:
    """What two versions of a module compile to differently, by name and line.

    Neither has run: Python 3.11 compares what it notes in the code that it has run.
    """
    old, new = ({(one.co_qualname, one.co_firstlineno): one for one in _codes(of)} for of in (original, code))
    return {name: one for name, one in new.items() if old.get(name) != one}


def _codes(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from _codes(one)
