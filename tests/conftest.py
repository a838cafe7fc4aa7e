"""Settings and fixtures of all tests."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.collected import take_over
from tests.warm_commands import forked_python, share_with_workers, start

# Tests start some hundred processes. Where Python may not write bytecode, each of them would compile the package
# again, which takes longer than most tests. Bytecode goes next to the source, where pip puts that of dependencies.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Most tests write and sync files. In memory, they do not wait for a disk.
_MEMORY = Path("/dev/shm")
if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 1 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# Each run tries the same examples; `make fuzz` searches further, at random. How long an example takes says more about
# the machine than about the program.
settings.register_profile(
    "untimed",
    max_examples=int(os.environ.get("AUTORUBRIC_EXAMPLES", "30")),
    derandomize="AUTORUBRIC_EXAMPLES" not in os.environ,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("untimed")


@pytest.hookimpl(optionalhook=True)  # the trainers' environment has no xdist
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """More workers than processors: many tests wait for a process, a disk or a limit."""
    return (os.cpu_count() or 1) + 4


_WAITING = (
    *("tests/llm/batches/", "tests/test_background.py", "tests/cli/test_serve_processes.py"),
    *("tests/cli/test_synthesize_process.py", "tests/llm/http/chat/test_chat_limits.py"),
    *("tests/faults/test_out_of_descriptors.py", "tests/test_notebooks.py"),
)
"""Tests that wait much longer than they compute."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that wait first, so that others use the processors meanwhile."""
    items.sort(key=lambda item: not item.nodeid.startswith(_WAITING))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    share_with_workers()
    ignored = config.getoption("ignore") or config.getoption("ignore_glob")
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and not ignored:
        python = start("tests.warm_workers") / "forked-python"
        for spec in specs:
            spec.python = str(python)


@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    take_over(session)
    return (yield)


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that the package starts are forked from one that has imported it."""
    monkeypatch.setattr(sys, "executable", forked_python())


@pytest.fixture
def only_new_collected() -> Iterator[None]:
    """Let `gc.collect()` scan only objects of the test, because a worker's imports take long."""
    gc.freeze()
    yield
    gc.unfreeze()
