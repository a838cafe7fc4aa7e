"""One local Ray cluster for all tests: to start it takes longer than they do."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import ray

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_raylet_start_wait_time_s"] = "300"  # noqa: SIM112 (on a machine that does ten other things)


@pytest.fixture(scope="session", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield
    assert ray.is_initialized()  # no run has ended a cluster that it did not start
    ray.shutdown()
