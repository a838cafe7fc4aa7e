"""A ledger seen from outside: beside its writer, after a kill, with failures that were answered later."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from pathlib import Path

import pytest

from autorubric.errors import InputError, MissingFileError
from autorubric.llm.records.call_rows import CallRow
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.ledger_view import ledger_view
from autorubric.llm.records.lock import LEDGER_FILE, find_lock_holder, run_lock
from autorubric.llm.request import Failure, Reply, Usage
from tests.warm_commands import WarmPython

ROOT = Path(__file__).parents[3]

_WRITER = """
import asyncio, sys
from pathlib import Path
from autorubric.llm.records.ledger import Ledger
from autorubric.llm.records.lock import run_lock
from autorubric.llm.records.call_rows import CallRow
from autorubric.llm.request import Reply

async def main(folder):
    with run_lock(folder):
        ledger = Ledger.open(folder)
        for n in range(7):
            await ledger.record(CallRow(n.to_bytes(16, "big"), f"q{n}", "judge", "a/b", 0, 0, Reply("MET")))
        print("ready", flush=True)
        await asyncio.sleep(60)

asyncio.run(main(Path(sys.argv[1])))
"""


def row(key: str, outcome: Reply | Failure, item: str = "q1", role: str = "judge", at: float = 100.0) -> CallRow:
    return CallRow(key.encode().ljust(16, b"-"), item, role, "a/b", 0, 0, outcome, at=at)


def record(folder: Path, *rows: CallRow) -> None:
    async def write() -> None:
        for each in rows:
            await ledger.record(each)

    with Ledger.open(folder, linger=0.0) as ledger:
        asyncio.run(write())


def test_what_failed_and_was_answered_later_is_no_failure_any_more(tmp_path: Path) -> None:
    timeout, busy = Failure("timeout", "no answer"), Failure("rate_limit", "HTTP 429")
    rows = [row("a", timeout), row("b", busy), row("b", timeout), row("c", busy), row("a", Reply("MET"))]
    record(tmp_path, *rows)
    with ledger_view(tmp_path) as view:
        # a was answered; b failed twice, the last time by a timeout; c failed once.
        assert view.group_unanswered().count_by_kind() == {"judge: rate_limit": 1, "judge: timeout": 1}
        assert view.sum_spent().calls == 5


def test_items_and_calls_are_counted_by_role(tmp_path: Path) -> None:
    rows = [
        row("a", Reply("x", usage=Usage(10, 5), cost=0.5), "q1", "merge"),
        row("b", Reply("x", usage=Usage(10, 5), cost=0.25), "q1", "augment"),
        row("c", Reply("x"), "q2", "merge"),
        row("d", Failure("server", "HTTP 500"), "q3", "merge"),
    ]
    record(tmp_path, *rows)
    with ledger_view(tmp_path) as view:
        assert view.count_replies() == (3, 2)
        assert (
            view.count_answered_items("merge"),
            view.count_answered_items("augment"),
            view.count_answered_items("judge"),
        ) == (2, 1, 0)
        assert [(total.role, total.calls, total.failed) for total in view.add_up()] == [
            ("augment", 1, 0),
            ("merge", 3, 1),
        ]


def test_the_pace_is_that_of_the_last_minute_and_survives_a_clock_set_back(tmp_path: Path) -> None:
    # Ten calls from 1000 s to 1009 s, then none for two minutes, then three at 1130, 1132 and 1134: 2 in 4 s.
    early = [row(f"e{n}", Reply("x"), at=1000.0 + n) for n in range(10)]
    late = [row(f"l{n}", Reply("x"), at=1130.0 + 2 * n) for n in range(3)]
    abandoned = [row(f"a{n}", Failure("stopped", "interrupted"), at=1140.0) for n in range(40)]
    record(tmp_path, *early, *late, *abandoned)
    with ledger_view(tmp_path) as view:
        assert view.measure_pace() == (0.5, 1134.0)
    record(tmp_path, row("back", Reply("x"), at=900.0))
    with ledger_view(tmp_path) as view:
        assert view.measure_pace() == (None, 900.0)


def test_the_ledger_of_a_killed_process_is_read_with_its_write_ahead_log(tmp_path: Path) -> None:
    with WarmPython(["-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        holder = find_lock_holder(tmp_path)
        assert holder is not None and holder.startswith(f"process {process.pid},")
        with ledger_view(tmp_path) as view:
            assert view.sum_spent().calls == 7
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (tmp_path / f"{LEDGER_FILE}-wal").stat().st_size > 0
    before = (tmp_path / LEDGER_FILE).read_bytes()
    with ledger_view(tmp_path) as view:
        assert view.sum_spent().calls == 7
    assert (tmp_path / LEDGER_FILE).read_bytes() == before, "looking wrote into the ledger"
    assert find_lock_holder(tmp_path) is None
    with run_lock(tmp_path), Ledger.open(tmp_path) as ledger:
        assert ledger.count == 7


def test_asking_for_the_holder_makes_no_file(tmp_path: Path) -> None:
    assert find_lock_holder(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(MissingFileError), ledger_view(tmp_path):
        pass


def test_what_is_no_ledger_is_named(tmp_path: Path) -> None:
    (tmp_path / LEDGER_FILE).write_bytes(b"not a database at all, just text" * 200)
    with pytest.raises(InputError, match=r"ledger\.sqlite cannot be read"), ledger_view(tmp_path):
        pass


def test_a_ledger_that_nothing_was_written_to_is_missing(tmp_path: Path) -> None:
    (tmp_path / LEDGER_FILE).touch()
    with pytest.raises(MissingFileError, match="nothing is recorded in it yet"), ledger_view(tmp_path):
        pass
