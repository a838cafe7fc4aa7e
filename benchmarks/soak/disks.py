"""Disks that are full, slow, short of room in the middle of a write, or broken; and a process out of descriptors."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from autorubric.testing import LoopbackProcess
from benchmarks.soak.work import IN_FLIGHT, WORKS, Row, Work, audited

FULL = "a full disk loses nothing acknowledged"
STRACE = shutil.which("strace")
TRACED = [STRACE or "strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"]


def rows() -> Iterator[Row]:
    """A line for each fault and command; where the system does not allow a fault, the line says so."""
    for make in WORKS:
        with _endpoint() as endpoint, tempfile.TemporaryDirectory() as folder:
            yield _full(make(Path(folder), endpoint.base_url), endpoint)
        # A limit inside a write cuts it short: what is over the limit does not get to the disk.
        limit = ["bash", "-c", 'ulimit -f 96; trap "" XFSZ; exec "$@"', "bash"]
        yield from _stopped(make, "short writes (RLIMIT_FSIZE)", limit, FULL)
        descriptors = ["bash", "-c", 'ulimit -n 24; exec "$@"', "bash"]
        yield from _stopped(make, "24 descriptors for 16 in flight", descriptors, "out of descriptors is told")
        failing = [*TRACED, "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO:when=12+"]
        yield from _stopped(make, "every sync fails from the 12th on", failing, "a broken disk is told", traced=True)
        yield from _slow(make)


def _endpoint() -> LoopbackProcess:
    return LoopbackProcess("--latency", "lognormal:0.05,0.6", "--reply-chars", "2000")


def _full(work: Work, endpoint: LoopbackProcess) -> Row:
    with _small_disk(work.out) as mounted:
        if not mounted:
            return Row(FULL, f"tmpfs of 500 kB, {work.name}", 0, "did not run: mounting is not allowed here", True)
        status, told = work.finish()
        subprocess.run(["mount", "-o", "remount,size=64m", str(work.out)], check=True)
        return _resumed(work, endpoint, (status, told), f"tmpfs of 500 kB, {work.name}", FULL)


def _stopped(make: object, fault: str, before: Sequence[str], promise: str, traced: bool = False) -> Iterator[Row]:
    assert callable(make)
    with _endpoint() as endpoint, tempfile.TemporaryDirectory() as folder:
        work: Work = make(Path(folder), endpoint.base_url)
        if traced and STRACE is None:
            yield Row(promise, f"{fault}, {work.name}", 0, "did not run: there is no strace here", True)
            return
        yield _resumed(work, endpoint, work.finish(*before), f"{fault}, {work.name}", promise)


def _resumed(work: Work, endpoint: LoopbackProcess, first: tuple[int, str], fault: str, promise: str) -> Row:
    """The line of a fault that stopped the command, when the command has been run again without it."""
    status, told = first
    plain = status in (1, 2) and "Traceback" not in told and "autorubric" in told
    again, last = work.finish()
    if again != 0:
        return Row(promise, fault, 1, f"status {status}, then {again}: {last[-200:]!r}", False)
    audit = audited(work, endpoint)
    # What was in flight, the batch that could not be written, and what was answered while that was tried.
    held = plain and audit.whole and audit.repeated <= 3 * IN_FLIGHT
    return Row(promise, fault, 1, f"status {status}, then 0; {audit}", held)


def _slow(make: object) -> Iterator[Row]:
    assert callable(make)
    promise = "a slow disk costs little time"
    with _endpoint() as endpoint, tempfile.TemporaryDirectory() as folder:
        work: Work = make(Path(folder), endpoint.base_url)
        fault = f"5 ms more for each sync, {work.name}"
        if STRACE is None:
            yield Row(promise, fault, 0, "did not run: there is no strace here", True)
            return
        seconds = []
        for delay in ("0", "5000"):
            shutil.rmtree(work.out, ignore_errors=True)
            slowed = ["-e", "trace=fdatasync,fsync", "-e", f"inject=fdatasync,fsync:delay_exit={delay}"]
            started = time.monotonic()
            status, _ = work.finish(*TRACED, *slowed)
            seconds.append(time.monotonic() - started)
        audit = audited(work, endpoint)
        held = status == 0 and not (audit.lost or audit.doubled)
        yield Row(promise, fault, 1, f"{seconds[1] / seconds[0]:.2f} of the time without; {work.wanted} rows", held)


@contextmanager
def _small_disk(folder: Path) -> Iterator[bool]:
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=500k", "tmpfs", str(folder)]
    mounted = subprocess.run(words, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)
