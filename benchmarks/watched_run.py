"""A grading run while `autorubric view` shows it, against the same run alone: CPU time and wall, in pairs."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from autorubric.testing import LoopbackProcess
from benchmarks.command import Figures
from benchmarks.grading_speed import dataset_file, grade
from benchmarks.record import Record

ITEMS, LATENCY = 200, "fixed:0.2"
_IN_FLIGHT = "-j", "64"


MOST = 0.02
"""The claim: what a view may add to the CPU and to the wall time of the run that it shows."""
MOST_NOISE = 0.08
"""On a busy machine, so that no noise hides a tenth more."""


def run() -> Record:
    """The medians of the ratios; which of a pair goes first alternates.

    Fails three standard errors above `MOST`, and always above a tenth.
    """
    rounds = int(os.environ.get("WATCHED_ROUNDS", "7"))
    cpu, walls = [], []
    with tempfile.TemporaryDirectory() as name, LoopbackProcess("--latency", LATENCY) as endpoint:
        folder = Path(name)
        source = dataset_file(folder, ITEMS)
        for number in range(rounds):
            pair: dict[bool, Figures] = {}
            for is_watched in (number % 2 == 0, number % 2 == 1):
                out = folder / f"{number}-{is_watched}"
                if is_watched:
                    with _watching(out):
                        pair[True] = grade(source, out, endpoint.base_url, *_IN_FLIGHT)
                else:
                    pair[False] = grade(source, out, endpoint.base_url, *_IN_FLIGHT)
            cpu.append(pair[True].cpu / pair[False].cpu)
            walls.append(pair[True].wall / pair[False].wall)
    record = Record(
        f"{rounds} pairs of runs of {ITEMS * 10:,} calls that take 0.2 s, 64 in flight; floor: the run not watched"
    )
    for what, ratios in (("wall", walls), ("cpu", cpu)):
        more, error = statistics.median(ratios) - 1, statistics.stdev(ratios) / rounds**0.5
        record.figure(what, f"{more:+.1%} ± {error:.1%}")
        record.limit(f"{what}, more than without a view", more, most=MOST + min(3 * error, MOST_NOISE))
    return record


@contextmanager
def _watching(out: Path) -> Iterator[None]:
    """A view of a run from when its directory is there on, and a reader of its live page."""
    stop = Event()
    watcher = Thread(target=_watch, args=(out, stop))
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()


def _watch(out: Path, stop: Event) -> None:
    while not (out / "manifest.json").exists():
        if stop.wait(0.02):
            raise RuntimeError("the run ended before it was watched")
    command = [sys.executable, "-m", "autorubric", "view", str(out), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1].rstrip("/")
            told = 0
            while not stop.wait(1.0):  # as the script of the page does
                with suppress(urllib.error.HTTPError), urllib.request.urlopen(f"{url}/r/0/live", timeout=60) as page:
                    told += bool(page.read())
            if not told:
                raise RuntimeError("the live page told nothing")
        finally:
            process.terminate()
            time.sleep(0.1)


if __name__ == "__main__":
    run()
