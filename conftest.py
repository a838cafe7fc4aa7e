"""What has to be imported before doctests are collected, and where they are."""

import gc
from collections.abc import Generator
from pathlib import Path

import pytest

# pytest would execute a module of `src` a second time, and the second table of checks would stay empty.
import autorubric.checks.check_registry  # noqa: F401


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Test files have no doctests: to look for some in each of their functions takes as long as to collect them."""
    found = yield
    return [one for one in found if type(one) is pytest.Module or not file_path.name.startswith("test_")]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end: the garbage collector need not look through it meanwhile.

    Afterwards it is rarely worth a look: half a million objects are there, and tests leave few cycles.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.unfreeze()  # which makes all of it old: else the first look would be at all of it
        gc.enable()
        gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Look for the last cycles here: pytest and Python would look through all that stays a dozen times more.

    A worker has told its results already, so what it still finds would reach nobody.
    """
    if not hasattr(config, "workerinput"):
        gc.collect()
    gc.freeze()
