"""The wall clock moved by a day, back and forth, while the commands run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from autorubric.testing import LoopbackProcess
from benchmarks.soak.work import ENVIRONMENT, WORKS, Row, audited

# Read by the child's interpreter before anything else. It moves `time.time`, which is all that the program takes
# moments from; `datetime.now`, which it only writes into manifests, cannot be replaced under C extensions.
_MOVED = """
import time
_real, _steady = time.time, time.monotonic
def _moved():
    return (0, 86400, -86400)[int(_steady() / 0.2) % 3]
time.time = lambda: _real() + _moved()
time.time_ns = lambda: int((_real() + _moved()) * 1e9)
"""


def rows() -> Iterator[Row]:
    """A line for each command; the endpoint asks for waits until a date now and then."""
    for make in WORKS:
        faults = ("--fault", "429-date=0.02", "--fault", "500=0.02")
        with (
            LoopbackProcess("--latency", "lognormal:0.05,0.6", *faults) as endpoint,
            tempfile.TemporaryDirectory() as folder,
        ):
            (Path(folder) / "sitecustomize.py").write_text(_MOVED)
            work = make(Path(folder), endpoint.base_url)
            path = os.pathsep.join((folder, ENVIRONMENT["PYTHONPATH"]))
            status, _ = work.finish(environment={**ENVIRONMENT, "PYTHONPATH": path})
            audit = audited(work, endpoint)
            refused = sum(endpoint.stats()["by_fault"].values())
            held = status == 0 and audit.whole and audit.repeated == refused
            figures = f"status {status}; rows lost {audit.lost}; calls made again {audit.repeated}, refused {refused}"
            yield Row("the wall clock does not matter", f"+1 day, -1 day every 0.2 s, {work.name}", 1, figures, held)
