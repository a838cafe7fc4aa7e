"""One `autorubric` command in a separate process, and its cost."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from autorubric.background import new_event_loop

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Figures:
    """The cost of one command: seconds, CPU seconds, bytes written to the disk, peak memory in MB."""

    wall: float
    cpu: float
    written: int
    memory: float


# The test oracles bring pandas, which pyarrow loads wherever it finds it; users need not have it.
_CHILD = """
import json, resource, sys

class NoPandas:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, NoPandas())
{work}
usage = resource.getrusage(resource.RUSAGE_SELF)
written = dict(line.split(": ") for line in open("/proc/self/io").read().splitlines())["write_bytes"]
# ru_maxrss would be that of the process that started this one, where that is larger.
memory = dict(line.split(":") for line in open("/proc/self/status").read().splitlines())["VmHWM"]
print(json.dumps([status, usage.ru_utime + usage.ru_stime, int(written), int(memory.split()[0]) / 1024]))
"""


_COMMAND = """
from autorubric.cli import main
try:
    main()
except SystemExit as ended:
    status = ended.code
"""


def measured(words: Sequence[str], work: str = _COMMAND, **variables: str) -> Figures:
    """Run `autorubric` with `words`, or other Python code; a status other than 0 ends the benchmark.

    Args:
        words: its arguments.
        work: the code.
        variables: of its environment, next to those of this process.
    """
    with Started(words, work, variables) as started:
        return started.figures()


class Started:
    """A command that runs, for a caller that watches it."""

    def __init__(
        self, words: Sequence[str], work: str = _COMMAND, variables: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._began = time.perf_counter()
        command = [sys.executable, "-c", _CHILD.replace("{work}", work), *words]
        environment = {**os.environ, **variables}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what users have installed is compiled
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it is running."""
        return self._process.poll() is None

    def figures(self) -> Figures:
        """Its cost, once it has ended; a status other than 0 ends the benchmark."""
        printed, _ = self._process.communicate()
        wall = time.perf_counter() - self._began
        try:
            status, cpu, written, memory = json.loads(printed.splitlines()[-1])
        except (IndexError, ValueError):
            status = f"{self._process.returncode}, without figures"
        if status != 0:
            raise SystemExit(f"the run ended with status {status}:\n{printed}")
        return Figures(wall, cpu, written, memory)

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *error: object) -> None:
        if self.is_running:
            self._process.kill()
            self._process.communicate()


def cpu_seconds(pid: int) -> float:
    """Seconds of CPU of a process; 0 once it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def on_our_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run a floor on the event loop that the commands use (uvloop where it is installed)."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)
