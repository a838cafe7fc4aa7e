"""Tables of cases in one test: every case runs, and all that fail are reported together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

Case = Callable[[str], AbstractContextManager[None]]


@contextmanager
def offenders() -> Iterator[Case]:
    """A context in which each case is a context of its own; at its end the test fails if any case did."""
    seen, failed = 0, []

    @contextmanager
    def case(name: str) -> Iterator[None]:
        nonlocal seen
        seen += 1
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:
            failed.append(f"{name}: {type(error).__name__}: {error}")

    yield case
    assert seen, "the table is empty"
    assert not failed, f"{len(failed)} of {seen} cases failed\n\n" + "\n\n".join(failed)
