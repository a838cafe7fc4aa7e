"""Tables of cases in one test: every case runs, and all that fail are reported together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

Case = Callable[[str], AbstractContextManager[None]]


@contextmanager
def offenders() -> Iterator[Case]:
    """A context in which each case is its own context; at the end the test fails if any case did."""
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


def each(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """One test that calls the decorated function with each case, in the notation of `pytest.mark.parametrize`.

    Args:
        names: of its arguments; if there are several, a case is a sequence of values.
        cases: the table.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [(case,) if len(keys) == 1 else tuple(case) for case in cases]

    def over(test: Callable[..., None]) -> Callable[[], None]:
        def run_all() -> None:
            with offenders() as case:
                for values in table:
                    with case(", ".join(repr(value)[:60] for value in values)):
                        test(**dict(zip(keys, values, strict=True)))

        # No `__wrapped__`, from which pytest would take the arguments for fixtures.
        run_all.__name__, run_all.__qualname__, run_all.__doc__ = test.__name__, test.__qualname__, test.__doc__
        run_all.__module__ = test.__module__
        return run_all

    return over
