"""One local Ray cluster for all tests: to start it takes longer than they do."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pytest
import ray

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

_ATTEMPTS = 5
"""Ray waits no longer than 15 seconds for one of its processes (ray-project/ray#65983)."""


@pytest.fixture(scope="session", autouse=True)
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    # Workers keep their ledgers here, so that tests find and kill none but their own.
    tempfile.tempdir = os.environ["TMPDIR"] = str(tmp_path_factory.mktemp("machine"))
    os.environ.setdefault("RAY_TMPDIR", "/tmp")  # the names of sockets must be short
    for left in reversed(range(_ATTEMPTS)):
        try:
            ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False, configure_logging=False)
            break
        except Exception:
            ray.shutdown()
            if not left:
                raise
    yield
    assert ray.is_initialized()  # no run has ended a cluster that it did not start
    ray.shutdown()
