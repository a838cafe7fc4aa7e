"""`autorubric` as a process, for signals, kills, pipes and services."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.warm_commands import SOURCE, WarmProcess, WarmPython, forked_python

LONG = 600
"""Seconds after which a process counts as hung, even on a busy machine."""


def environment(**more: str) -> dict[str, str]:
    """The variables of a process that imports this source."""
    return {**os.environ, "PYTHONPATH": str(SOURCE), **more}


def start(words: Sequence[str], **variables: str) -> subprocess.Popen[str]:
    """The process of `autorubric` with these words."""
    pipe = subprocess.PIPE
    return WarmProcess(list(words), stdout=pipe, stderr=pipe, env=environment(**variables))


_WITH_PACKAGES = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from autorubric.cli.app import _build, run
from autorubric.plugins import find_plugins
find_plugins.cache_clear()
_build.cache_clear()
sys.exit(run(sys.argv[1:]))
"""


def finish_with_packages(
    site: Path, words: Sequence[str], folder: Path, variables: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """The result of a forked command that also finds the packages of a directory."""
    command, pipe = ["-c", _WITH_PACKAGES, str(site), *words], subprocess.PIPE
    with WarmPython(command, cwd=folder, env=variables, stdout=pipe, stderr=pipe) as process:
        out, err = process.communicate()
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def write_command_with_packages(site: Path, into: Path) -> None:
    """Write a command `autorubric` for a shell, which also finds the packages of a directory."""
    command = shlex.join([forked_python(), "-c", _WITH_PACKAGES, str(site)])
    into.mkdir()
    (into / "autorubric").write_text(f'#!/bin/sh\nexec {command} "$@"\n', "utf-8")
    (into / "autorubric").chmod(0o700)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Return once a condition holds."""
    deadline = time.monotonic() + LONG
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {LONG} s: {what}")
        time.sleep(0.02)


def free_port() -> int:
    """A port that is free until another process takes it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def announced(words: Sequence[str], said: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A service that has printed its address, and the address; it is killed at the end if it still runs.

    Args:
        words: of the command.
        said: the start of its first line, before the address.
        variables: of its environment.

    Raises:
        AssertionError: it printed something else.
    """
    with start([*words, "--port", "0"], **variables) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            line = process.stdout.readline()
            if not line.startswith(said):
                process.kill()
                raise AssertionError(line + process.stderr.read())
            yield process, line.removeprefix(said).split()[0].rstrip("/;")
        finally:
            if process.poll() is None:
                process.kill()
