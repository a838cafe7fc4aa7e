"""Planning and uploading 100,000 requests as batches: seconds, CPU and memory of `grade --batch`."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.batch_services.endpoint import BatchProcess
from benchmarks.grading_speed import CRITERIA, dataset_file

REQUESTS = int(os.environ.get("AUTORUBRIC_REQUESTS", "100000"))


def run() -> None:
    """Print one line."""
    with BatchProcess() as endpoint, tempfile.TemporaryDirectory() as folder:
        source = dataset_file(Path(folder), REQUESTS // CRITERIA)
        words = [sys.executable, "-m", "autorubric", "grade", str(source), "--judge", f"judge@{endpoint.base_url}"]
        words += ["-o", str(Path(folder) / "run"), "--batch", "--batch-detach", "--batch-poll", "1"]
        load, started = os.getloadavg()[0], time.perf_counter()
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        created, seconds = 0, 0.0
        while process.poll() is None:
            created = endpoint.batches()["requests"]
            if created >= REQUESTS:
                seconds = time.perf_counter() - started
                break
            time.sleep(0.1)
        peak = _peak(process.pid)
        process.communicate()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(
            f"{created:,} requests planned, uploaded and created in {seconds:.1f} s at a load of {load:.1f}, "
            f"peak memory until then {peak:.0f} MB; the whole command {used.ru_utime + used.ru_stime:.1f} s of CPU, "
            f"exit status {process.returncode}"
        )


def _peak(pid: int) -> float:
    """The peak memory of a process so far, in MB."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return float("nan")
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), float("nan"))


if __name__ == "__main__":
    run()
