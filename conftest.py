"""What has to be imported before doctests are collected, and where they are."""

import gc
import os
from collections.abc import Generator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

# pytest would execute a module of `src` a second time, and the second table of checks would stay empty.
import autorubric.checks.check_registry  # noqa: F401


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Test files have no doctests: to look for some in each of their functions takes as long as to collect them."""
    found = yield
    return [one for one in found if type(one) is pytest.Module or not file_path.name.startswith("test_")]


def _import_in_turn(tests: Path) -> None:
    """Import all tests, from a different one on in each worker.

    In a fresh clone, each worker compiles a part, and then finds what the others have compiled.
    """
    files = sorted(tests.rglob("test_*.py"))
    worker, workers = int(os.environ["PYTEST_XDIST_WORKER"][2:]), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    first = len(files) * worker // workers
    for file in files[first:] + files[:first]:
        with suppress(Exception, pytest.skip.Exception):  # pytest tries again, and reports it
            import_module(".".join(file.relative_to(tests.parent).with_suffix("").parts))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """What is collected stays until the end: the garbage collector need not look through it meanwhile.

    Afterwards it is rarely worth a look: half a million objects are there, and tests leave few cycles.
    """
    gc.disable()
    if "PYTEST_XDIST_WORKER" in os.environ and session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        _import_in_turn(session.config.rootpath / "tests")
    try:
        return (yield)
    finally:
        gc.enable()
        gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """Look for the last cycles here: pytest and Python would look through all that stays a dozen times more."""
    for _ in range(5):
        if not gc.collect():
            break
    gc.freeze()
