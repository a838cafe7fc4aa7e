"""What `show_progress` shows on a terminal, in a log, and where it is off."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.warm_commands import forked_python

ROOT = Path(__file__).parents[2]
CODE = """
import sys
from autorubric import Criterion, CriterionGrader, Rubric, RubricDataset, evaluate_sync
from autorubric.runs import progress, runner
runner._LOG_DELAY, progress._LogView.interval = float(sys.argv[1]), 0.0
check = {"name": "word_count", "parameters": {"at_most": 5}}
dataset = RubricDataset("Why?", Rubric([Criterion(requirement="Short", check=check)]))
for number in range(3):
    dataset.add_item(f"So {number}.", "")
evaluate_sync(dataset, CriterionGrader.of_checks(), experiments_dir=sys.argv[2], show_progress=sys.argv[3] == "yes")
"""


def shown(folder: Path, seconds: float, show: str) -> str:
    """What a script writes to standard error, which is no terminal."""
    command = [forked_python(), "-c", CODE, str(seconds), str(folder / "runs"), show]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True, timeout=600)
    assert done.stdout == ""
    return done.stderr


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TERM": "xterm", "COLUMNS": "100"}


@pytest.mark.parametrize(("seconds", "show"), [(3600, "yes"), (0, "no")])
def test_a_short_run_and_one_without_progress_leave_a_log_as_it_was(
    tmp_path: Path, seconds: float, show: str
) -> None:
    assert shown(tmp_path, seconds, show) == ""


def test_a_longer_run_adds_plain_lines_to_a_log(tmp_path: Path) -> None:
    told = shown(tmp_path, 0, "yes")
    heads = [line.partition("] ")[2].partition(";")[0] for line in told.splitlines()]
    assert heads[-1] == "3/3 done"
    assert all("graded" in line for line in told.splitlines())
    assert told.replace("\n", "").isprintable()


def test_a_terminal_shows_a_table(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [forked_python(), "-c", CODE, "3600", str(tmp_path / "runs"), "yes"]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=environment())
    os.close(theirs)
    told = b""
    while True:
        try:
            chunk = os.read(ours, 4096)
        except OSError:
            break
        if not chunk:
            break
        told += chunk
    assert running.wait(timeout=600) == 0
    os.close(ours)
    assert b"graded" in told and b"3/3" in told


def test_what_is_told_is_in_a_log_before_the_process_ends(tmp_path: Path) -> None:
    code = "from autorubric.files.printable import protect_standard_streams as protect\nprotect()\n"
    with (tmp_path / "log").open("w") as log:
        code += "import os, sys\nprint('told', file=sys.stderr)\nos._exit(0)"
        subprocess.run([sys.executable, "-c", code], stderr=log, check=True, timeout=60)
    assert (tmp_path / "log").read_text() == "told\n"
