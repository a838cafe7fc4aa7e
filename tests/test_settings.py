"""Settings models, which are built when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

from pydantic import create_model

from autorubric.settings import Settings, setting

THREADS = 6


@contextmanager
def restless_threads() -> Iterator[None]:
    """Threads take turns five hundred times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def test_several_threads_may_be_the_first_to_use_a_model() -> None:
    with restless_threads(), ThreadPoolExecutor(THREADS) as threads:
        for number in range(200):
            fields = {f"field_{n}": (int, setting(1, "A number.")) for n in range(60)}
            model = create_model(f"Model{number}", __base__=Settings, **fields)  # type: ignore[call-overload]
            start = Barrier(THREADS)

            def make(value: int, model: type[Settings] = model, start: Barrier = start) -> Settings:
                start.wait()
                return model.from_values({"field_3": value})

            made = list(threads.map(make, range(THREADS)))
            assert [one.collect_given() for one in made] == [{"field_3": value} for value in range(THREADS)]
