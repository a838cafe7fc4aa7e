"""A bit flipped in, and bytes cut from, every file of a run; the command is then run again."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autorubric.testing import LoopbackProcess
from benchmarks.soak.work import WORKS, Row, Work

TRIALS, TRIALS_OF_VIEWS = 16, 5
PROMISE = "damage is an error or mended, never a wrong row"
UNFINISHED = ("ledger/ledger.sqlite-wal", "ledger/arrivals.0")
FINISHED = ("ledger/ledger.sqlite", "manifest.json")
VIEWS = {
    "synthesize": ("step0_reference.jsonl", "step3_merged.jsonl", "step4_augmented.jsonl", "final.jsonl"),
    "grade": ("items.jsonl", "dataset.json"),
}


def rows() -> Iterator[Row]:
    """A line for each file, kind of damage and command."""
    for make in WORKS:
        with (
            LoopbackProcess("--latency", "fixed:0.08", "--reply-chars", "400") as endpoint,
            tempfile.TemporaryDirectory() as folder,
        ):
            work = make(Path(folder), endpoint.base_url, 12)
            killed = _killed(work, endpoint)
            for name in UNFINISHED:
                yield from _damaged(work, endpoint, killed, name, {})
            shutil.copytree(killed, work.out)
            work.finish()
            finished, wanted = killed.with_name("finished"), work.results()
            shutil.move(work.out, finished)
            for name in (*FINISHED, *VIEWS[work.name]):
                yield from _damaged(work, endpoint, finished, name, wanted)


def _killed(work: Work, endpoint: LoopbackProcess) -> Path:
    """A copy of the directory of a run that was killed on its way, the write-ahead log in it."""
    running = work.start()
    while endpoint.stats()["completed_calls"] < work.calls * 2 // 3 and running.poll() is None:
        time.sleep(0.01)
    running.kill()
    running.communicate()
    kept = work.out.with_name("killed")
    shutil.move(work.out, kept)
    return kept


def _damaged(work: Work, endpoint: LoopbackProcess, source: Path, name: str, wanted: dict[str, Any]) -> Iterator[Row]:
    trials = TRIALS if "sqlite" in name else TRIALS_OF_VIEWS
    for kind in ("a bit flipped", "bytes cut"):
        rng = random.Random(f"{name} {kind}")
        told = mended = wrong = asked = 0
        for _ in range(trials):
            shutil.copytree(source, work.out)
            _damage(work.out / name, kind, rng)
            before = endpoint.stats()["requests"]
            status, printed = work.finish()
            asked += endpoint.stats()["requests"] - before
            if status == 0:
                wanted = wanted or work.results()
                mended += 1
                wrong += work.results() != wanted or len(wanted) != work.wanted
            elif status in (1, 2) and "Traceback" not in printed and _names_it(printed):
                told += 1
            else:
                wrong += 1
            shutil.rmtree(work.out)
        figures = f"wrong rows {wrong}, told {told}, mended {mended}; calls to the end {asked / trials:.1f} a trial"
        yield Row(PROMISE, f"{kind}, {name.rpartition('/')[2]}, {work.name}", trials, figures, wrong == 0)


def _names_it(printed: str) -> bool:
    return any(word in printed for word in ("damaged", "cannot be read", "version", "cannot be written"))


def _damage(path: Path, kind: str, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    if kind == "bytes cut":
        del content[rng.randrange(len(content)) :]
    else:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
