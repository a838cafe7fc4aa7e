"""A Ray cluster on this machine whose workers keep their ledgers in a folder of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ATTEMPTS = 5
"""Ray waits no longer than 15 seconds for one of its processes (ray-project/ray#65983)."""


@contextmanager
def local_ray(cpus: int, place: Path) -> Iterator[str]:
    """The address of a running cluster with that many CPUs.

    Args:
        cpus: each worker takes one.
        place: becomes the folder for temporary files, so that nobody finds the workers' ledgers of other runs here.
    """
    import ray

    tempfile.tempdir = os.environ["TMPDIR"] = str(place)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    # Ray gives workers a niceness of 15, with which they starve where other programs keep the cores busy.
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_TMPDIR", "/tmp")  # the names of sockets must be short
    for left in reversed(range(_ATTEMPTS)):
        try:
            ray.init("local", num_cpus=cpus, include_dashboard=False, log_to_driver=False, configure_logging=False)
            break
        except Exception:
            ray.shutdown()
            if not left:
                raise
    yield ray.get_runtime_context().gcs_address
    assert ray.is_initialized()  # no run has ended a cluster that it did not start
    ray.shutdown()


def ledgers(place: Path) -> list[Path]:
    """The folders in which workers keep their ledgers on this machine."""
    return [path for path in place.glob("autorubric-ray-*/*/*") if path.is_dir()]
