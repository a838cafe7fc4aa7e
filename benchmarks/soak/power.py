"""Power cuts, by replay: what a traced writer wrote, less what no sync had reached yet, is opened again.

Simulated are the writes of the ledger and of its write-ahead log since their last sync, of which each is kept, lost
or torn at a sector by chance. Taken for granted are file names and sizes of directories; the file of shared memory
is gone, as it is after a restart.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autorubric.errors import LedgerError
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.lock import LEDGER_FILE
from benchmarks.soak.work import ENVIRONMENT, Row

TRIALS = 300
RECORDS = 2400
SECTOR = 512
PROMISE = "a power cut loses nothing acknowledged"

# Records from 16 tasks, each number printed when its reply is acknowledged; argv: directory, records, PRAGMA.
WRITER = """
import asyncio, os, random, sys
from pathlib import Path
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.call_rows import CallRow
from autorubric.llm.request import Reply

async def write(ledger, numbers):
    for number in numbers:
        text = random.Random(number).randbytes(700).hex()
        await ledger.record(CallRow(number.to_bytes(16, "big"), "q", "judge", "m", 0, 0, Reply(text)))
        os.write(1, b"%d\\n" % number)

async def main(ledger):
    numbers = iter(range(int(sys.argv[2])))
    await asyncio.gather(*(write(ledger, numbers) for _ in range(16)))

with Ledger.open(Path(sys.argv[1]), linger=0.002) as ledger:
    ledger._writing.execute(sys.argv[3])
    asyncio.run(main(ledger))
"""

_CALL = re.compile(r"(?P<name>\w+)\((?P<fd>\d+)(?:, (?P<rest>.*))?\) += (?P<result>\d+)$")
_DATA = re.compile(r'"(?P<data>(?:\\x[0-9a-f]{2})*)"(?:, (?P<size>\d+)(?:, (?P<offset>\d+))?)?')
_OPENED = re.compile(r'openat\(AT_FDCWD, "(?P<path>(?:\\x[0-9a-f]{2})*)".*= (?P<fd>\d+)$')


@dataclass
class Disk:
    """One file as the disk may hold it: what is synced, and the writes since, by offset."""

    synced: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes]] = field(default_factory=list)

    def sync(self) -> None:
        """Every write so far is on the disk."""
        for offset, data in self.pending:
            _put(self.synced, offset, data)
        self.pending.clear()

    def after_cut(self, rng: random.Random) -> bytes:
        """The content after a power cut now."""
        found = bytearray(self.synced)
        for offset, data in self.pending:
            fate = rng.random()
            if fate < 0.4:
                _put(found, offset, data)
            elif fate < 0.6:
                _put(found, offset, data[: SECTOR * rng.randrange(1 + len(data) // SECTOR)])
        return bytes(found)


def rows() -> Iterator[Row]:
    """A line for the ledger as it is, and one for what the same replay finds without its syncs."""
    if shutil.which("strace") is None:
        yield Row(PROMISE, "replay of unsynced writes", 0, "did not run: there is no strace here", True)
        return
    yield _replayed("FULL", lambda lost, broken: lost == broken == 0, PROMISE)
    yield _replayed("OFF", lambda lost, broken: lost > 0, "the replay finds what is not synced (a control)")


def _replayed(synchronous: str, holds: object, promise: str) -> Row:
    assert callable(holds)
    rng = random.Random(2026)
    with tempfile.TemporaryDirectory() as folder:
        events = _traced(Path(folder), f"PRAGMA synchronous = {synchronous}")
        cuts = sorted(rng.sample(range(len(events)), TRIALS))
        disks: dict[str, Disk] = {}
        acknowledged: list[int] = []
        lost = broken = at = 0
        for cut in cuts:
            for kind, path, offset, data in events[at:cut]:
                if kind == "ack":
                    acknowledged += [int(number) for number in data.split()]
                elif kind == "sync":
                    disks.setdefault(path, Disk()).sync()
                else:
                    disks.setdefault(path, Disk()).pending.append((offset, data))
            at = cut
            missing = _missing(Path(folder) / "after", disks, acknowledged, rng)
            broken += missing is None
            lost += bool(missing)
    figures = f"cuts that lose acknowledged replies {lost}, that leave no readable ledger {broken}"
    fault = f"replay of unsynced writes, synchronous={synchronous}"
    return Row(promise, fault, TRIALS, f"{figures}; {len(acknowledged)} replies", bool(holds(lost, broken)))


def _missing(folder: Path, disks: dict[str, Disk], acknowledged: list[int], rng: random.Random) -> int | None:
    """How many acknowledged replies are gone; None where the ledger cannot be read."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in (LEDGER_FILE, f"{LEDGER_FILE}-wal"):
        if name in disks:
            (folder / name).write_bytes(disks[name].after_cut(rng))
    try:
        with Ledger.open(folder) as ledger:
            found = (ledger.find(number.to_bytes(16, "big")) for number in acknowledged)
            wanted = (random.Random(number).randbytes(700).hex() for number in acknowledged)
            return sum(a is None or a.text != b for a, b in zip(found, wanted, strict=True))
    except LedgerError:
        return None


def _traced(folder: Path, pragma: str) -> list[tuple[str, str, int, bytes]]:
    """What the writer did, in order: writes and syncs by file name, and acknowledgements."""
    trace = folder / "trace"
    calls = "trace=openat,write,pwrite64,fsync,fdatasync"
    words = ["strace", "-f", "--seccomp-bpf", "-qq", "-xx", "-s", "1000000", "-e", "signal=none", "-e", calls]
    words += ["-o", str(trace), sys.executable, "-c", WRITER, str(folder / "run"), str(RECORDS), pragma]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    return list(_events(_whole_calls(trace)))


def _whole_calls(trace: Path) -> Iterator[str]:
    """The traced calls in the order in which they returned, those that threads interleaved put together."""
    begun: dict[str, str] = {}
    with trace.open(encoding="utf-8") as lines:
        for line in lines:
            pid, _, call = line.rstrip("\n").partition(" ")
            call = call.strip()
            if call.endswith("<unfinished ...>"):
                begun[pid] = call.removesuffix("<unfinished ...>").rstrip()
            elif call.startswith("<... "):
                yield begun.pop(pid) + call.partition("resumed>")[2]
            else:
                yield call


def _events(calls: Iterator[str]) -> Iterator[tuple[str, str, int, bytes]]:
    files: dict[str, str] = {}
    for call in calls:
        opened = _OPENED.match(call)
        if opened is not None:
            files[opened["fd"]] = os.fsdecode(_unescaped(opened["path"])).rpartition("/")[2]
            continue
        made = _CALL.match(call)
        if made is None or made["name"] == "openat":
            continue
        name = files.get(made["fd"], "")
        if "sync" in made["name"] and name.startswith(LEDGER_FILE):
            yield "sync", name, 0, b""
        written = _DATA.match(made["rest"] or "")
        if written is None:
            continue
        if made["fd"] == "1":
            yield "ack", "", 0, _unescaped(written["data"])
        elif name.startswith(LEDGER_FILE) and written["offset"] is not None:
            yield "write", name, int(written["offset"]), _unescaped(written["data"])


def _unescaped(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data
