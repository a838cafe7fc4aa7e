"""A process that runs out of file descriptors on its way has not been given wrong input."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from autorubric.errors import InputError
from autorubric.files import write_atomically


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_being_out_of_descriptors_is_told_with_the_file_and_is_no_wrong_input(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    with no_descriptors_left(), pytest.raises(OSError, match="Too many open files") as caught:
        write_atomically(path, ["{}"])
    assert not isinstance(caught.value, InputError)
    assert caught.value.filename == str(path)
    assert not list(tmp_path.iterdir())
