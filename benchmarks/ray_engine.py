"""`--engine ray` on a Ray cluster of this machine, against one process.

On a shared machine a run of several processes gets a larger share of the processor, so wall times favour it.
Processor time does not depend on the load. Where the processor limits, two idle cores do in T seconds what takes the
driver and the workers 2 T seconds of processor time, less what Ray's own processes use meanwhile, busy or not. That
is the most: the driver reads the results once more at the end, while the workers have nothing to do.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from autorubric.testing import LoopbackProcess
from benchmarks.grading_speed import dataset_file
from benchmarks.local_ray import local_ray
from benchmarks.processes_speed import SIZES, checked_file
from benchmarks.record import Record
from benchmarks.soak.cluster import many_essays

REPEATS = 3
CALL_SIZES = (300, 2700)
"""Essays with ten judge calls each: enough that the start of three processes does not show in the difference."""

LATENCY, LATENCY_SIZES = 0.2, (128, 640)
STORM_LIMIT, STORM_ESSAYS = 60, 1500
QUERIES = (500, 3000, 8000)
MOST_START, LEAST_FASTER, MOST_OVERHEAD, MOST_REFUSED = 15.0, 1.8, 1.05, 0.03
MOST_KILOBYTES = 1.0
_INTERVAL = 0.2
_ON_TWO = ("--engine", "ray", "--processes", "2")


@dataclass
class Watch:
    """Processor seconds of processes with all that they started, and the most memory of one of them.

    Attributes:
        roots: the processes.
        ours: the last seconds of those that run our code.
        rays: the last seconds of the others.
        watched: whose memory is measured.
        most: its most memory, in bytes.
    """

    roots: set[int]
    ours: dict[int, float] = field(default_factory=dict)
    rays: dict[int, float] = field(default_factory=dict)
    watched: int = 0
    most: int = 0

    def look(self) -> None:
        """Read what the processes have used so far."""
        found, parents = _processes()
        for number, used in found.items():
            above = number
            while above in parents and above not in self.roots:
                above = parents[above]
            if above in self.roots:
                self._take(number, used)
        self.most = max(self.most, _anonymous(self.watched) if self.watched else 0)

    def _take(self, number: int, used: float) -> None:
        try:
            name = Path(f"/proc/{number}/cmdline").read_bytes()
        except OSError:  # it has ended
            return
        if number == self.watched or name.startswith(b"ray::_Actor"):
            self.ours[number] = used
        elif b"default_worker.py" not in name and not name.startswith(b"ray::IDLE"):
            # Ray starts workers in advance, which wait for work; how far they get depends on how long a run takes.
            self.rays[number] = used


class Took(NamedTuple):
    """Seconds of a command on the clock, processor seconds of our code and of Ray's, and bytes of the driver."""

    wall: float
    ours: float
    rays: float
    most: int


def _processes() -> tuple[dict[int, float], dict[int, int]]:
    """The processor seconds and the parent of every process of this machine."""
    ticks, used, parents = os.sysconf("SC_CLK_TCK"), dict[int, float](), dict[int, int]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        number = int(path.parent.name)
        parents[number], used[number] = int(words[1]), (int(words[11]) + int(words[12])) / ticks
    return used, parents


def _anonymous(number: int) -> int:
    """Bytes of memory that a process shares with no file and no other process."""
    try:
        lines = Path(f"/proc/{number}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0)


def children() -> set[int]:
    """The processes that this one has started: Ray's, where it has started nothing else."""
    return {number for number, parent in _processes()[1].items() if parent == os.getpid()}


def measured(words: Sequence[str], others: Collection[int]) -> Took:
    """The cost of a command.

    Args:
        words: of the command.
        others: processes whose use counts too.
    """
    with tempfile.TemporaryFile("w+", encoding="utf-8") as printed:
        watch, over = Watch(set(others)), threading.Event()
        watch.look()
        before = sum(watch.ours.values()), sum(watch.rays.values())
        command, began = [sys.executable, "-m", "autorubric", *words], time.perf_counter()
        running = subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT)
        watch.roots.add(running.pid)
        watch.watched = running.pid

        def look() -> None:
            while not over.wait(_INTERVAL):
                watch.look()

        thread = threading.Thread(target=look)
        thread.start()
        status = running.wait()
        wall = time.perf_counter() - began
        over.set()
        thread.join()
        watch.look()
        if status:
            printed.seek(0)
            raise SystemExit(f"{' '.join(words)} ended with status {status}:\n{printed.read()[-2000:]}")
    ours, rays = sum(watch.ours.values()) - before[0], sum(watch.rays.values()) - before[1]
    return Took(wall, ours, rays, watch.most)


def start(record: Record, folder: Path) -> None:
    """The overhead of Ray in a run of two essays, with a cluster that is started for it."""
    words = ["grade", str(many_essays(folder, 2)), "--judge", "builtin/offline"]
    walls, used = [], []
    for n in range(REPEATS):
        one = measured([*words, "-o", str(folder / f"one{n}")], ())
        ray = measured([*words, "-o", str(folder / f"ray{n}"), *_ON_TWO], ())
        walls.append(ray.wall - one.wall)
        used.append(ray.ours + ray.rays - one.ours)
    shown = ", ".join(f"{seconds:.1f}" for seconds in sorted(walls))
    said = f"Ray and two workers add {shown} s to a run, and {statistics.median(used):.1f} s of CPU, {_load()}"
    record.figure("start", said)
    record.limit("seconds to start, least of three", min(walls), most=MOST_START)


def faster(
    record: Record, name: str, words: Mapping[int, Sequence[str]], folder: Path, cluster: tuple[str, set[int]]
) -> None:
    """How much faster two workers are where the processor limits, from the rows that a large job has more.

    Args:
        record: takes the figures.
        name: of the job.
        words: of a small and a large one, by their rows.
        folder: for the runs.
        cluster: the address of a cluster, and its processes.
    """
    address, processes = cluster
    rows = max(words) - min(words)
    one, ray = [], []
    for n, more in words.items():
        one.append(measured([*more, "-o", str(folder / f"{name}-one-{n}")], ()))
        out = ["-o", str(folder / f"{name}-ray-{n}"), "--ray-address", address]
        ray.append(measured([*more, *out, *_ON_TWO], processes))
    alone, together = one[1].ours - one[0].ours, ray[1].ours - ray[0].ours
    beside = sum(took.rays for took in ray) / sum(took.wall for took in ray)
    times = alone * (2 - beside) / together
    walls = (one[1].wall - one[0].wall) / (ray[1].wall - ray[0].wall)
    record.figure(
        name,
        f"{1000 * alone / rows:.1f} ms of CPU per row in one process, {1000 * together / rows:.1f} ms in driver and "
        f"workers together, while Ray's own processes use {beside:.0%} of a core: at most {times:.2f} x on two idle "
        f"cores; by wall {walls:.2f} x, {_load()}",
    )
    record.limit(f"times one process, {name}", times, least=LEAST_FASTER)


def overhead(record: Record, folder: Path, cluster: tuple[str, set[int]]) -> None:
    """The wall time of rows that wait for an endpoint, as a multiple of that of one process."""
    ratios = []
    with LoopbackProcess("--latency", f"fixed:{LATENCY}") as endpoint:
        for n in range(REPEATS):
            more: dict[str, list[float]] = {"one": [], "ray": []}
            for size in LATENCY_SIZES:
                words = ["grade", str(many_essays(folder, size)), "--judge", f"a@{endpoint.base_url}", "-j", "32"]
                for kind, own in (("one", []), ("ray", [*_ON_TWO, "--ray-address", cluster[0]])):
                    out = ["-o", str(folder / f"late-{kind}-{size}-{n}")]
                    more[kind].append(measured([*words, *out, *own], ()).wall)
            one, ray = (more[kind][1] - more[kind][0] for kind in ("one", "ray"))
            ratios.append(ray / one)
    shown = ", ".join(f"{ratio:.2f}" for ratio in sorted(ratios))
    record.figure("overhead", f"{shown} x the wall time of one process at {LATENCY} s a request, {_load()}")
    record.limit("overhead, median of three", statistics.median(ratios), most=MOST_OVERHEAD)


def storm(record: Record, folder: Path, cluster: tuple[str, set[int]]) -> None:
    """The share of requests that an endpoint with a limit refuses to four workers."""
    options = ("--requests-per-second", str(STORM_LIMIT), "--latency", f"fixed:{LATENCY}")
    with LoopbackProcess(*options) as endpoint:
        words = ["grade", str(many_essays(folder, STORM_ESSAYS)), "--judge", f"a@{endpoint.base_url}"]
        words += ["-o", str(folder / "storm"), "--engine", "ray", "--processes", "4", "--ray-address", cluster[0]]
        wall = measured(words, ()).wall
        stats = endpoint.stats()
    refused, asked = stats["by_status"].get("429", 0), stats["requests"]
    record.figure(
        "storm",
        f"{refused} of {asked:,} requests refused ({refused / asked:.1%}) at {STORM_LIMIT} a second, four workers, "
        f"{(asked - refused) / wall:.0f} answered a second, {_load()}",
    )
    record.limit("share refused", refused / asked, most=MOST_REFUSED)


def memory(record: Record, folder: Path, cluster: tuple[str, set[int]]) -> None:
    """The memory of the driver per additional query."""
    most = []
    for count in QUERIES:
        path = folder / f"queries{count}.jsonl"
        path.write_text("".join(json.dumps({"question": f"Why is number {n} odd?"}) + "\n" for n in range(count)))
        words = ["synthesize", str(path), "--models", "builtin/offline", "-o", str(folder / f"made{count}")]
        most.append(measured([*words, *_ON_TWO, "--ray-address", cluster[0]], ()).most)
    added = (most[-1] - most[-2]) / (QUERIES[-1] - QUERIES[-2]) / 1000
    shown = ", ".join(f"{size / 1e6:.0f} MB for {count:,}" for size, count in zip(most, QUERIES, strict=True))
    record.figure("memory", f"driver {shown} queries: at last {added:.2f} kB for each further one")
    record.limit("kilobytes a further query", added, most=MOST_KILOBYTES)


def _load() -> str:
    return f"load {os.getloadavg()[0]:.0f}"


def run(names: Collection[str] = ("start", "faster", "overhead", "storm", "memory")) -> Record | None:
    """What was measured; None without Ray.

    Args:
        names: the parts to run.
    """
    if find_spec("ray") is None:
        print("Ray is not installed; `make bench-ray` measures it in an environment of its own")
        return None
    record = Record(f"Ray {version('ray')} on this machine, RAY_worker_niceness=0")
    with tempfile.TemporaryDirectory() as place:
        folder, machine = Path(place), Path(place, "machine")
        machine.mkdir()
        if "start" in names:
            start(record, folder)
        with local_ray(4, machine) as address:
            cluster = address, children()
            if "faster" in names:
                _all_faster(record, folder, cluster)
            for part in (overhead, storm, memory):
                if part.__name__ in names:
                    part(record, folder, cluster)
    return record


def _all_faster(record: Record, folder: Path, cluster: tuple[str, set[int]]) -> None:
    checks = {size: ["grade", str(checked_file(_inside(folder, size), size))] for size in SIZES}
    faster(record, "checks", checks, folder, cluster)
    with LoopbackProcess() as endpoint:
        judge = ["--judge", f"judge@{endpoint.base_url}"]
        calls = {size: ["grade", str(dataset_file(_inside(folder, size), size)), *judge] for size in CALL_SIZES}
        faster(record, "judge-calls", calls, folder, cluster)


def _inside(folder: Path, size: int) -> Path:
    place = folder / str(size)
    place.mkdir(exist_ok=True)
    return place


if __name__ == "__main__":
    if (
        found := run(sys.argv[1:] or ("start", "faster", "overhead", "storm", "memory"))
    ) is not None and found.missed:
        raise SystemExit("\n".join(found.missed))
