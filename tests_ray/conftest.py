"""One local Ray cluster for all tests: to start it takes longer than they do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.local_ray import local_ray


@pytest.fixture(scope="session", autouse=True)
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with local_ray(4, tmp_path_factory.mktemp("machine")):
        yield
