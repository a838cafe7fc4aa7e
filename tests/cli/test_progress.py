"""What a run shows while it is under way."""

from __future__ import annotations

import io
import re
import time
from contextlib import suppress
from pathlib import Path

import pytest

from autorubric import Criterion, ProgressDisplay, Rubric, RubricDataset, RunState
from autorubric.cli.app import run
from autorubric.runs import progress
from autorubric.runs.progress import StageState
from autorubric.testing import LoopbackEndpoint, RateWindow


def dataset(folder: Path, items: int) -> Path:
    made = RubricDataset("Explain.", Rubric([Criterion(requirement=f"Has property {n}.") for n in range(5)]))
    for number in range(items):
        made.add_item(f"Essay number {number}.", f"essay {number}", id=f"e{number}")
    made.to_file(folder / "essays.json")
    return folder / "essays.json"


def lines(told: str) -> list[str]:
    return [line for line in told.splitlines() if " done; " in line]


def test_only_requests_in_flight_are_shown_as_in_flight(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress._LogView, "interval", 0.02)
    with LoopbackEndpoint(latency="fixed:0.5").in_thread() as endpoint:
        command = ["grade", str(dataset(tmp_path, 6)), "--judge", f"judge@{endpoint.base_url}"]
        assert run([*command, "-o", str(tmp_path / "run"), "-j", "6"]) == 0
    shown = [int(found) for found in re.findall(r"(\d+) in flight", capsys.readouterr().err)]
    assert max(shown) == 6


def test_retries_and_rate_limits_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    window = RateWindow(requests=10, seconds=2.0)
    with LoopbackEndpoint(window=window, faults=["500", None]).in_thread() as endpoint:
        command = ["grade", str(dataset(tmp_path, 4)), "--judge", f"judge@{endpoint.base_url}"]
        assert run([*command, "-o", str(tmp_path / "run"), "-j", "16"]) == 0
        counts = endpoint.counts
    last = lines(capsys.readouterr().err)[-1]
    refused = counts.by_status[429]
    assert refused > 0
    assert f"{refused + 1} retries, {refused} of them rate limits (429)" in last
    assert "this session: 20 calls" in last


def test_items_that_failed_are_not_among_those_graded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(body: dict[str, object]) -> str | None:
        return "422" if "Essay number 1." in str(body["messages"]) else None

    command = ["grade", str(dataset(tmp_path, 4)), "-o", str(tmp_path / "run")]
    with LoopbackEndpoint(faults=refuse).in_thread() as endpoint:
        assert run([*command, "--judge", f"judge@{endpoint.base_url}"]) == 1
    told = capsys.readouterr()
    assert "3 of 4 items graded" in told.out
    last = lines(told.err)[-1]
    assert "4/4 done; graded 3, 1 failed; this session: 20 calls" in last


def test_a_session_that_reuses_replies_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LoopbackEndpoint().in_thread() as endpoint:
        command = ["grade", str(dataset(tmp_path, 2)), "--judge", f"judge@{endpoint.base_url}"]
        assert run([*command, "-o", str(tmp_path / "run")]) == 0
        assert run([*command, "-o", str(tmp_path / "run")]) == 0
    last = lines(capsys.readouterr().err)[-1]
    assert "2/2 done; graded 2; this session: 0 calls" in last


def test_rows_that_a_session_only_reads_are_not_its_pace() -> None:
    def show(finished: int, calls: int, reused: int) -> str:
        stage = StageState("graded", finished, 0, 0)
        log = io.StringIO()
        with ProgressDisplay(log) as display:
            display(RunState(100, 90, [StageState("graded", 90, 0, 0)], 0, 90, 0, 0.0))
            display(RunState(100, finished, [stage], calls, reused, 0, 0.0))
        return log.getvalue()

    assert "left" not in show(90, 0, 90)  # nothing is known of the calls to come
    assert "left" not in show(90, 1, 90)
    assert "left" in show(95, 5, 90)


def test_a_time_left_that_has_passed_without_a_row_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    log, now = io.StringIO(), [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with ProgressDisplay(log) as display:
        for seconds, finished in ((0.0, 0), (50.0, 40), (55.0, 40), (65.0, 40), (100.0, 44)):
            now[0] = seconds
            display(RunState(48, finished, [StageState("graded", finished, 8, 0)], round(seconds), 0, 0, 0.0))
    ends = [line.rpartition("; ")[2] for line in lines(log.getvalue())]
    assert ends[1:] == ["10s left", "11s left", "$0.00", "9s left"]


def test_a_terminal_gets_one_table_with_the_same_figures() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    with ProgressDisplay(out) as display:
        stage = StageState("graded", 17, 6, 3)
        display(RunState(20, 20, [stage], 97, 0, 1000, None, 6, 4, 3))
    shown = " ".join(out.getvalue().split())
    assert "17/20" in shown
    assert "3 failed" in shown
    assert "4 retries, 3 of them rate limits (429)" in shown.replace(" \n", " ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is full")
def test_a_log_on_a_full_disk_ends_the_display_and_not_the_run() -> None:
    state = RunState(4, 3, [StageState("graded", 3, 0, 0)], 8, 0, 950, 0.02)
    log = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115 (closing it fails as well)
    try:
        with ProgressDisplay(log) as progress:
            progress(state)
            progress(state)
    finally:
        with suppress(OSError):
            log.close()
