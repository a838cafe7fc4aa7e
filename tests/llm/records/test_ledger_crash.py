"""The ledger in a process of its own that is killed, or runs out of disk."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from autorubric.llm.records.ledger import Ledger
from tests.warm_commands import WarmPython

# Writes as fast as it can from 16 tasks, and says on standard output what was acknowledged.
WRITER = """
import asyncio, os, sys
from pathlib import Path
from autorubric.errors import LedgerError
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.request import Reply
from autorubric.llm.records.call_rows import CallRow

async def write(ledger, worker):
    for turn in range(100_000):
        number = ledger_start + worker + 16 * turn
        reply = Reply(f"answer {number} " * 40)
        await ledger.record(CallRow(number.to_bytes(16, "big"), "q", "judge", "m", 0, 0, reply))
        os.write(1, b"%d\\n" % number)

async def main(ledger):
    await asyncio.gather(*(write(ledger, worker) for worker in range(16)))

ledger = Ledger.open(Path(sys.argv[1]), linger=0.002)
ledger_start = int(sys.argv[2])
if len(sys.argv) > 3:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
try:
    asyncio.run(main(ledger))
except LedgerError as error:
    sys.exit(str(error))
"""


def start(directory: Path, first: int, *limit: str) -> subprocess.Popen[str]:
    words = ["-c", WRITER, str(directory), str(first), *limit]
    return WarmPython(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def acknowledged(output: str) -> list[int]:
    # The last line may be cut off by the kill; whole lines are promises.
    return [int(line) for line in output.split("\n")[:-1]]


def assert_all_there(directory: Path, numbers: list[int]) -> None:
    with Ledger.open(directory) as ledger:
        for number in numbers:
            reply = ledger.find(number.to_bytes(16, "big"))
            assert reply is not None, f"acknowledged reply {number} is lost"
            assert reply.text == f"answer {number} " * 40


def test_no_acknowledged_reply_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    chance = random.Random(20)
    promised: list[int] = []
    for kill in range(8):
        child = start(tmp_path, kill * 10_000_000)
        assert child.stdout is not None
        assert child.stderr is not None
        first = child.stdout.readline()
        timer = threading.Timer(chance.uniform(0.01, 0.3), child.kill)
        timer.start()
        output, problems = first + child.stdout.read(), child.stderr.read()
        child.communicate()
        timer.join()
        assert child.returncode == -signal.SIGKILL, problems
        acknowledged_now = acknowledged(output)
        assert_all_there(tmp_path, acknowledged_now)
        promised += acknowledged_now
    assert_all_there(tmp_path, promised)
    assert len(promised) > 100


@pytest.mark.skipif(sys.platform == "win32", reason="the limit on file sizes is POSIX")
def test_a_full_disk_stops_the_writer_with_an_error_and_loses_nothing_acknowledged(tmp_path: Path) -> None:
    child = start(tmp_path, 0, "1000000")  # a commit of one row takes up to 9 kB
    output, problems = child.communicate(timeout=600)
    assert child.returncode == 1
    assert "the ledger cannot be written" in problems
    promised = acknowledged(output)
    assert len(promised) > 50
    assert_all_there(tmp_path, promised)
