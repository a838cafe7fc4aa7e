"""What a command has written is on the disk before it is relied on, and a disk that fails is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autorubric.cli.app import run
from tests.warm_commands import WarmPython

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

COMMANDS = {
    "synthesize": [
        *("synthesize", str(ROOT / "examples" / "queries.jsonl"), "--limit", "2", "--models", "builtin/offline"),
        *("--id-column", "id", "--out", "out"),
    ],
    "grade": [
        "grade",
        str(ROOT / "examples" / "essays.json"),
        "--judge",
        "builtin/offline",
        "-o",
        "out",
        "-f",
        "csv",
    ],
}


def recorded(folder: Path, *command: str, failing: str = "") -> tuple[int, str, list[dict[str, Any]]]:
    """Exit status and messages of a command, and what it did to the disk, in order."""
    log = folder / "disk.log"
    log.write_text("")
    words = ["-m", "tests.faults.recorded_disk", str(log), failing, *command]
    bare = {"PATH": "/usr/bin:/bin"}
    with WarmPython(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder, env=bare) as running:
        told, _ = running.communicate(timeout=600)
    return running.returncode, told, [json.loads(line) for line in log.read_text().splitlines()]


def assert_synced_before_renamed(events: list[dict[str, Any]]) -> None:
    renames = [(place, event) for place, event in enumerate(events) if event["event"] == "rename"]
    assert {Path(event["to"]).name for _, event in renames} >= {"manifest.json"}
    for place, event in renames:
        before = [one for one in events[:place] if one["event"] == "sync" and one["path"] == event["path"]]
        assert before and before[-1]["size"] == event["size"] > 0, event
        # The next thing that the same thread does, so that files come to be in the order in which they were made.
        later = [one for one in events[place + 1 :] if one["thread"] == event["thread"]]
        assert later and (later[0]["event"], later[0]["path"]) == ("sync", str(Path(event["to"]).parent)), event


def assert_commits_are_synced(events: list[dict[str, Any]]) -> None:
    writers = [event for event in events if event["event"] == "close" and event["calls"]]
    assert sum(event["calls"] for event in writers) > 5
    # 2 is FULL: the write-ahead log is synced by each commit.
    assert {(event["synchronous"], event["journal_mode"]) for event in writers} == {(2, "wal")}


@pytest.mark.parametrize("name", COMMANDS)
def test_files_are_synced_before_they_take_their_names_and_replies_by_each_commit(tmp_path: Path, name: str) -> None:
    status, told, events = recorded(tmp_path, *COMMANDS[name])
    assert status == 0, told
    assert_synced_before_renamed(events)
    assert_commits_are_synced(events)
    # What was spent, when the ledger is opened and when it is closed.
    assert sum(event["event"] == "sync" and event["path"].endswith("spent.json") for event in events) == 2


def test_a_disk_that_cannot_sync_a_file_ends_the_run_and_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(COMMANDS["grade"]) == 0
    before = (tmp_path / "out" / "results.csv").read_bytes()
    status, told, events = recorded(tmp_path, *COMMANDS["grade"], failing="results.csv")
    assert status == 1 and "Input/output error" in told and "Traceback" not in told, told
    assert not any(event["event"] == "rename" and event["to"].endswith("results.csv") for event in events)
    assert (tmp_path / "out" / "results.csv").read_bytes() == before
    assert not list((tmp_path / "out").glob(".*.tmp"))
