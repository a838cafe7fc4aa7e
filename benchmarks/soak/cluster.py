"""SIGKILLs of Ray workers: `python -m benchmarks.soak.cluster 100`, where the extra `ray` is installed.

Two workers of a local Ray cluster grade essays while one of them at a time is killed, at a random moment of its life.
The result is compared with that of one process.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from autorubric.cli.app import run
from autorubric.testing import LoopbackProcess
from benchmarks.local_ray import ledgers, local_ray

KILLS = 100
CRITERIA = ("Kind", "Long")
IN_FLIGHT = 8
"""Requests of all workers together."""

_LEAST_ESSAYS, _ESSAYS_A_KILL = 900, 100
_MOST_CALLS = 150
"""Requests that a worker answers at most before it is killed; a block has 128 of them."""

_DURATION = re.compile(rb'"duration_seconds":[\d.]+')


@dataclass(frozen=True)
class Found:
    """The effects of the kills.

    Attributes:
        kills: workers that were killed.
        rows: essays; `lost` of them are missing, and `doubled` ones are there more than once.
        different: files that differ from those of one process.
        repeated: requests that were sent again.
        seconds: of the run on Ray.
    """

    kills: int
    rows: int
    lost: int
    doubled: int
    different: Sequence[str]
    repeated: int
    seconds: float

    @property
    def held(self) -> bool:
        """Whether nothing was lost, and no kill cost more than the requests in flight at one of two workers."""
        return not (self.lost or self.doubled or self.different) and self.repeated <= self.kills * IN_FLIGHT // 2


def many_essays(folder: Path, count: int) -> Path:
    """A dataset of short essays, each with two criteria."""
    rubric = [{"name": name, "weight": 1, "requirement": f"Is {name.lower()}."} for name in CRITERIA]
    items = [{"submission": f"Essay {n}.", "description": "", "id": f"e{n}"} for n in range(count)]
    path = folder / "many.json"
    path.write_text(json.dumps({"prompt": "Write.", "rubric": rubric, "items": items}))
    return path


@contextmanager
def killing(count: int, place: Path, *, lost: bool = False) -> Iterator[list[int]]:
    """Kill workers at random points of their work, until the run ends or `count` are killed; their process ids.

    How far a worker gets is counted in requests, because seconds say little on a busy machine.

    Args:
        count: kills.
        place: the folder for temporary files of the workers.
        lost: remove their ledgers too, as a lost machine does.
    """
    rng = random.Random(2026)
    killed: list[int] = []
    ends: dict[int, int] = {}
    over = threading.Event()

    def kill() -> None:
        while len(killed) < count and not over.wait(0.05):
            for folder in ledgers(place):
                number, calls = _holder(folder), calls_in(folder)
                if not number or number in killed or len(killed) == count or calls <= 4:
                    continue
                if calls >= ends.setdefault(number, calls + rng.randrange(_MOST_CALLS)):
                    os.kill(number, signal.SIGKILL)
                    killed.append(number)
                    if lost:
                        shutil.rmtree(folder)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def _holder(folder: Path) -> int:
    """The process that holds a ledger; 0 if there is none."""
    holder = folder / "ledger" / "run.holder"
    words = holder.read_text().split() if holder.exists() else []
    return int(words[1].rstrip(",")) if len(words) > 1 else 0


def calls_in(folder: Path) -> int:
    """Calls that a worker has recorded."""
    try:
        with closing(sqlite3.connect(f"file:{folder / 'ledger' / 'ledger.sqlite'}?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM calls").fetchone()[0])
    except sqlite3.OperationalError:  # does not exist yet
        return 0


def soaked(kills: int, folder: Path, place: Path) -> Found:
    """Run on the Ray cluster that this process is connected to, and kill that many workers.

    Args:
        kills: how many.
        folder: for the runs.
        place: the folder for temporary files of the workers.
    """
    essays = max(_LEAST_ESSAYS, _ESSAYS_A_KILL * kills)
    with LoopbackProcess("--latency", "fixed:0.05") as endpoint:
        words = ["grade", str(many_essays(folder, essays)), "--judge", f"a@{endpoint.base_url}"]
        one, several = folder / "one" / "run", folder / "several" / "run"
        _graded([*words, "-j", "64", "-o", str(one)])
        asked, started = endpoint.stats()["requests"], time.monotonic()
        with killing(kills, place) as killed:
            _graded([*words, "-j", str(IN_FLIGHT), "-o", str(several), "--engine", "ray", "--processes", "2"])
        seconds, repeated = time.monotonic() - started, endpoint.stats()["requests"] - 2 * asked
    ids = Counter(json.loads(line)["item_idx"] for line in (several / "items.jsonl").read_bytes().splitlines())
    doubled = sum(times > 1 for times in ids.values())
    return Found(len(killed), essays, essays - len(ids), doubled, _different(one, several), repeated, round(seconds))


def _graded(words: Sequence[str]) -> None:
    status = run(list(words))
    if status:
        raise SystemExit(f"autorubric {' '.join(words)} ended with status {status}")


def _different(one: Path, other: Path) -> list[str]:
    """Files that differ, without what says when and how a run was made, and what calls in flight may have cost."""
    files, others = _written(one), _written(other)
    return sorted(name for name in files | others if files.get(name) != others.get(name))


def _written(directory: Path) -> dict[str, bytes]:
    paths = [path for path in directory.iterdir() if path.is_file()]
    session = ("manifest.json", "run.lock", "run.holder", "spent.json")
    return {path.name: _DURATION.sub(b"", path.read_bytes()) for path in paths if path.name not in session}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as own:
        machine = Path(own, "machine")
        machine.mkdir()
        with local_ray(2, machine):
            found = soaked(int(sys.argv[1]) if len(sys.argv) > 1 else KILLS, Path(own), machine)
    print(json.dumps(asdict(found)))
    sys.exit(not (found.held and found.kills))
