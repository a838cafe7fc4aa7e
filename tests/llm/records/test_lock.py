from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from autorubric.errors import RunLockedError
from autorubric.llm.records.lock import Claims, WriteLock, find_lock_holder, hold_run, run_lock
from tests.warm_commands import WarmPython

HOLDER = """
import sys, time
from pathlib import Path
from autorubric.llm.records.lock import run_lock
with run_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


def hold(directory: Path) -> subprocess.Popen[str]:
    child = WarmPython(["-c", HOLDER, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def let_go(child: subprocess.Popen[str]) -> None:
    child.communicate("\n")


def test_a_second_process_is_told_who_holds_the_directory(tmp_path: Path) -> None:
    child = hold(tmp_path / "run")
    message = rf"run is in use by process {child.pid}, which took it at \d{{4}}-.* UTC; stop it, or wait"
    with pytest.raises(RunLockedError, match=message), run_lock(tmp_path / "run"):
        pass
    let_go(child)
    with run_lock(tmp_path / "run"):
        pass


def test_a_killed_process_lets_go_of_the_directory(tmp_path: Path) -> None:
    child = hold(tmp_path)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    left_behind = (tmp_path / "run.holder").read_text()
    assert f"process {child.pid}," in left_behind
    (tmp_path / "run.holder").write_text(left_behind + " on a machine with a long name")
    with run_lock(tmp_path):
        held = (tmp_path / "run.holder").read_text()
        assert f"process {os.getpid()}," in held
        assert "long name" not in held


async def test_other_tasks_run_while_one_waits_and_it_can_be_cancelled(tmp_path: Path) -> None:
    with run_lock(tmp_path):
        waiting, cancelled = (asyncio.create_task(hold_run(tmp_path, wait=True)) for _ in range(2))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        with pytest.raises(RunLockedError):
            await hold_run(tmp_path, wait=False)
        assert not waiting.done()
    with await waiting:
        assert find_lock_holder(tmp_path) is not None
    assert find_lock_holder(tmp_path) is None


def test_waiting_ends_when_the_holder_ends(tmp_path: Path) -> None:
    child = hold(tmp_path)
    words = ["-c", HOLDER.replace("[1])", "[1]), wait=True"), str(tmp_path)]
    waiter = WarmPython(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert waiter.poll() is None
    let_go(child)
    assert waiter.stdout is not None
    assert waiter.stdout.readline() == "held\n"
    let_go(waiter)
    assert waiter.returncode == 0


def test_an_error_in_the_block_lets_go_and_passes_through(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), run_lock(tmp_path):
        raise ZeroDivisionError
    with run_lock(tmp_path):
        pass
    assert (tmp_path / "run.holder").read_text() == ""


def test_the_lock_file_is_for_the_owner_only(tmp_path: Path) -> None:
    with run_lock(tmp_path / "fresh" / "run"):
        assert stat.S_IMODE((tmp_path / "fresh" / "run" / "run.lock").stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "fresh" / "run").stat().st_mode) == 0o700


async def test_a_claim_to_a_key_is_held_by_one_call_and_given_back(tmp_path: Path) -> None:
    claims = Claims(tmp_path)
    entered: list[str] = []

    async def enter(name: str, key: bytes, given_up: bool = False) -> None:
        async with claims.hold_key(key, lambda: given_up):
            entered.append(name)

    async with claims.hold_key(b"a" * 16, lambda: False):
        waiting = asyncio.create_task(enter("waited", b"a" * 16))
        await enter("another key", b"b" * 16)
        await enter("another key again", b"b" * 16)
        await enter("given up", b"a" * 16, given_up=True)  # which gives back nothing
        await asyncio.sleep(0.05)
        assert entered == ["another key", "another key again", "given up"]
    await asyncio.wait_for(waiting, 60)
    await enter("later", b"a" * 16)
    assert entered[3:] == ["waited", "later"]
    for _ in range(2):
        claims.close()
    await enter("closed", b"a" * 16)
    assert entered[5:] == ["closed"]


def test_the_holder_of_a_directory_is_named_while_it_holds_it_and_not_after(tmp_path: Path) -> None:
    assert find_lock_holder(tmp_path / "missing") is None
    with run_lock(tmp_path):
        assert (find_lock_holder(tmp_path) or "").startswith(f"process {os.getpid()}, which took it at ")
    assert find_lock_holder(tmp_path) is None
    (tmp_path / "run.holder").write_text("process 1, which was killed", encoding="utf-8")
    assert find_lock_holder(tmp_path) is None


def test_a_process_of_a_killed_parent_still_holds_the_directory(tmp_path: Path) -> None:
    folder = tmp_path / "processes" / "1"
    told = pytest.raises(RunLockedError, match=f"in use by another run of this process {os.getpid()}")
    with run_lock(folder), told, run_lock(tmp_path):
        pass
    with run_lock(tmp_path):
        pass


def test_a_write_lock_is_taken_again_after_each_write_and_after_its_end(tmp_path: Path) -> None:
    lock = WriteLock(tmp_path)
    for _ in range(2):
        with lock:
            pass
        lock.close()
        lock.close()
    assert stat.S_IMODE((tmp_path / "write.lock").stat().st_mode) == 0o600
