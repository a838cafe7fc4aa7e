from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from autorubric.errors import RunLockedError
from autorubric.llm.records.lock import run_lock

HOLDER = """
import sys, time
from pathlib import Path
from autorubric.llm.records.lock import run_lock
with run_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


def hold(directory: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")},
    )
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


def test_waiting_ends_when_the_holder_ends(tmp_path: Path) -> None:
    child = hold(tmp_path)
    waiter = subprocess.Popen(
        [sys.executable, "-c", HOLDER.replace("[1])", "[1]), wait=True"), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "src")},
    )
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
